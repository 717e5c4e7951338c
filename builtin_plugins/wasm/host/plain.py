"""``log``, ``clock``, ``random`` and ``env``: what needs no waiting."""

from __future__ import annotations

import base64
import os
import secrets
from typing import TYPE_CHECKING, Any

from hookgate import Host
from hookgate.builtin_plugins.wasm.host.calls import GuestCall, HostRefusal
from hookgate.builtin_plugins.wasm.wire import (
    ClockRequest,
    EnvRequest,
    LogRequest,
    RandomRequest,
    read_form,
)
from hookgate.kit.rendering import clean
from hookgate.settings import looks_secret, variable_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.wasm.packages.grants import Granted

MOST_LINES = 100
"""Lines that one call may log; those behind them are dropped, and that is said once."""

LINE_CHARS = 2_000


def write_log(host: Host, call: GuestCall, request: bytes) -> None:
    """Write a line to the gateway's log, masked and cut, with the plugin's name."""
    asked = read_form(LogRequest, request, what="the request of log")
    call.logged += 1
    if call.logged > MOST_LINES + 1:
        return
    text, level = asked.message, asked.level
    if call.logged > MOST_LINES:
        text, level = f"more than {MOST_LINES} lines in one call: the others are dropped", "warning"
    # Masked before it is cut: half a secret is no longer known as one.
    text = clean(host.secrets.redact(text[: 4 * LINE_CHARS]))[:LINE_CHARS]
    getattr(host.log, level)("a guest says", plugin=call.plugin, said=text)


def read_clock(host: Host, request: bytes) -> dict[str, float]:
    """Return the time of the gateway's clock."""
    read_form(ClockRequest, request or b"{}", what="the request of clock")
    return {"unix": host.clock.now().timestamp(), "monotonic": host.clock.monotonic()}


def read_random(request: bytes) -> str:
    """Return random bytes of the system, as base64."""
    asked = read_form(RandomRequest, request, what="the request of random")
    return base64.b64encode(secrets.token_bytes(asked.bytes)).decode()


def read_env(host: Host, call: GuestCall, request: bytes) -> Any:
    """Return a granted value of the environment; None where it is not set.

    Raises:
        HostRefusal: It is not granted, or is a secret.
    """
    asked = read_form(EnvRequest, request, what="the request of env")
    if asked.name not in {one.name for one in call.granted.env}:
        raise HostRefusal("not_granted", f"found env {asked.name[:80]!r}, expected a granted name")
    return environment(host, call.granted).get(asked.name)


def environment(host: Host, granted: Granted) -> dict[str, str]:
    """Return the granted values of the environment that are set, by name.

    Raises:
        HostRefusal: One of them is a secret.
    """
    values = {one.name: os.environ.get(one.name) for one in granted.env}
    found = {name: value for name, value in values.items() if value is not None}
    named = (*host.settings.secrets, *(one.name for one in granted.secrets))
    variables = set(map(variable_of, named))
    for name, value in found.items():
        # Known ones, and those that nobody has asked for by name yet.
        known = name in variables or host.secrets.redact(value) != value
        if known or looks_secret(name, value):
            raise _secret(name)
    return found


def _secret(name: str) -> HostRefusal:
    return HostRefusal(
        "not_granted",
        f"the value of {name} is a secret, or looks like one, which no guest sees: grant "
        f"`secret:{name.lower()} -> header @ URL`, and the host puts it into requests",
    )
