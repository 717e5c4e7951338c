"""The settings of the builtin tools: ``[plugin.tools]``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from hookgate import Section


def _grant(text: str) -> str:
    if not re.match(r"https?://[^/\s]+", text):
        raise ValueError("expected a URL pattern such as https://api.example.com/v1/*")
    return text


class ToolsSettings(Section):
    """``[plugin.tools]``: what the builtin tools may reach."""

    http_get: tuple[Annotated[str, AfterValidator(_grant)], ...] = ()
    """URL patterns that `http_get` may fetch. Without any, the tool is not offered."""
    http_get_bytes: int = Field(default=200_000, ge=1000, le=50_000_000)
    """So much of a page is read, in bytes after decompression."""
    http_get_seconds: float = Field(default=20.0, gt=0, le=300)
    """Seconds that a page may take."""
    read_roots: tuple[Path, ...] = ()
    """Folders below which `read_file` may read. Without any, the tool is not offered."""
    read_bytes: int = Field(default=200_000, ge=1, le=50_000_000)
    """So much of a file is read, in bytes."""
