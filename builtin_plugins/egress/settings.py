"""The settings of the `egress` plugin: ``[plugin.egress]``."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from hookgate import Section


def _host(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?(?::[0-9]{1,5})?", text):
        raise ValueError(
            f"found {text!r}: expected a host name with or without a port, such as "
            "`ollama:11434`; an address is granted by the URL pattern that names it"
        )
    return text.lower()


class EgressSettings(Section):
    """``[plugin.egress]``: the limits of all outgoing HTTP."""

    private_hosts: tuple[Annotated[str, AfterValidator(_host)], ...] = ()
    """Granted names that may resolve to addresses of a private network, such as
    `ollama:11434`; without a port, every granted port of that name."""
    total_seconds: float = Field(default=600.0, gt=0, le=86_400)
    """The limit of one request with its redirects and its whole response, where the caller
    does not set one."""
    max_bytes: int = Field(default=64 * 1024 * 1024, ge=1024)
    """The longest response body, after decompression, where the caller does not set one."""
    max_redirects: int = Field(default=10, ge=0, le=50)
    """Redirects that one request may follow."""
