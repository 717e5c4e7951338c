"""The settings of the inventory: ``[plugin.inventory]``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from hookgate import Section

Runtime: TypeAlias = Literal["hermes", "claude-code", "codex", "openclaw"]
"""A runtime whose source comes with hookgate."""

_LOCAL = {"localhost", "127.0.0.1", "::1"}


def _gateway_url(text: str) -> str:
    url = urlsplit(text)
    local = url.scheme == "ws" and url.hostname in _LOCAL
    if text and not ((local or url.scheme == "wss") and url.hostname):
        raise ValueError("expected wss://HOST, or ws:// and this machine: the token goes there")
    if url.username is not None or url.query or url.fragment:
        raise ValueError("expected no user, query or fragment in it; `openclaw_token` is for that")
    return text


class InventorySettings(Section):
    """``[plugin.inventory]``: how often runtimes are looked at, and how long they may take."""

    read_seconds: float = Field(default=2.0, gt=0, le=60)
    """Seconds that reading one runtime may take; then what it had last is served."""
    write_seconds: float = Field(default=30.0, gt=0, le=600)
    """Seconds that one change may take."""
    fresh_seconds: float = Field(default=5.0, ge=0, le=3600)
    """For so long what was read is shown without reading again. 0 reads each time."""
    refresh_seconds: float = Field(default=60.0, ge=0, le=86_400)
    """So often all runtimes are read without being asked. 0: once, at the start."""
    runtimes: tuple[Runtime, ...] = ("hermes", "claude-code", "codex", "openclaw")
    """The runtimes that are looked at. One that is not installed has nothing."""
    hermes_homes: tuple[Path, ...] = (Path("~/.hermes"),)
    """The homes of Hermes. One whose folder begins with a dot is everybody's, another one the
    agent's that it is called after; so is each folder in its `profiles`."""
    claude_code_home: Path = Path("~/.claude")
    """The folder of Claude Code; the same as its `CLAUDE_CONFIG_DIR`."""
    claude_code_projects: tuple[Path, ...] = ()
    """Projects whose `.mcp.json`, settings and skills are looked at, beside those in which Claude
    Code has run."""
    codex_home: Path = Path("~/.codex")
    """The folder of Codex; the same as its `CODEX_HOME`."""
    openclaw_home: Path = Path("~/.openclaw")
    """The folder of OpenClaw. Its gateway is asked where this is there; while that does not run,
    its settings are read from their file."""
    openclaw_url: Annotated[str, AfterValidator(_gateway_url)] = ""
    """Where OpenClaw's gateway is, `wss:`, or `ws:` on this machine. It is asked then whether the
    folder is there or not. Where this is empty, it is at the port of OpenClaw's own settings."""
    openclaw_token: str = "openclaw_token"
    """The name of the secret that holds the token of OpenClaw's gateway (`gateway.auth.token`)."""
