"""The source ``codex``: the MCP servers of its `config.toml`, its skills, and what is built in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookgate.builtin_plugins.inventory.sources.files import Home, Skills
from hookgate.builtin_plugins.inventory.sources.made import built_ins, connector, skill_record
from hookgate.builtin_plugins.inventory.sources.source import UnsupportedCapabilityWriteError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hookgate.builtin_plugins.inventory.record import CapabilityRecord, Status
    from hookgate.builtin_plugins.inventory.sources.files import Skill
    from hookgate.builtin_plugins.inventory.sources.source import CapabilityChange

__all__ = ["CodexSource"]

CONFIG = "config.toml"
LOGIN = "auth.json"
SERVERS = "mcp_servers"

_TOOLS = ("shell", "apply_patch", "update_plan", "view_image", "web_search")


class CodexSource:
    """Reads the home of Codex. Its MCP servers can be switched once it is logged in."""

    id = "codex"

    def __init__(self, home: Path) -> None:
        """Read `home`: `~/.codex`, or where `CODEX_HOME` points to."""
        self._home = home
        self._skills = Skills()

    def read(self) -> Sequence[CapabilityRecord]:
        """Return what Codex has; nothing where it is not installed."""
        home = Home(self._home)
        if not home.exists():
            return ()
        config = home.toml(CONFIG)
        found = self._skills.read({"": (home, "skills"), "system": (home, "skills/.system")})
        records = [
            *_skills(found[""], config, ""),
            *_skills(found["system"], config, ".system/"),
            *_connectors(home, config),
        ]
        return (*records, built_ins(self.id, "Codex", _TOOLS, home))

    async def write(self, change: CapabilityChange) -> CapabilityRecord:
        """Refuse."""
        raise UnsupportedCapabilityWriteError(f"{change.action} is nothing that Codex takes")


def _skills(
    skills: Sequence[Skill], config: Mapping[str, Any], folder: str
) -> Iterator[CapabilityRecord]:
    switches = config.get("skills")
    rows = switches.get("config") if isinstance(switches, dict) else None
    off = {
        Path(path).expanduser()
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict) and row.get("enabled") is False
        if isinstance(path := row.get("path"), str)
    }
    for skill in skills:
        status: Status = "disabled" if {skill.path, skill.path.parent} & off else "ready"
        yield skill_record("codex", skill, key=f"{folder}{skill.key}", status=status)


def _connectors(home: Home, config: Mapping[str, Any]) -> Iterator[CapabilityRecord]:
    pending = _login_hint(home, config)
    for name, server in home.table(config, SERVERS, CONFIG).items():
        status: Status = "ready"
        if pending:
            status = "manageable-but-pending-auth"
        elif isinstance(server, dict) and server.get("enabled") is False:
            status = "disabled"
        yield connector(
            "codex",
            name,
            server,
            manageability="external-write",
            provenance=str(home.root / CONFIG),
            status=status,
            hint=pending,
        )


def _login_hint(home: Home, config: Mapping[str, Any]) -> str:
    """Return what a person has to do first; "" once Codex is logged in."""
    login = home.json(LOGIN)
    if login.get("OPENAI_API_KEY") or login.get("tokens"):
        return ""
    if config.get("cli_auth_credentials_store", "file") != "file":
        return (
            "pending auth: Codex keeps its login outside of its home, where it is not looked for; "
            'say `cli_auth_credentials_store = "file"`, and run `codex login`'
        )
    return "pending auth: run `codex login`"
