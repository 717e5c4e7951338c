"""The source ``hermes``: the homes of Hermes agents, which are looked at and never written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hookgate.builtin_plugins.inventory.sources.files import (
    Home,
    SkillFile,
    Skills,
    texts_of,
    truth,
)
from hookgate.builtin_plugins.inventory.sources.source import (
    CapabilityChange,
    UnsupportedCapabilityWriteError,
    built_ins,
    connector,
    skill_record,
)

if TYPE_CHECKING:
    from hookgate.builtin_plugins.inventory.record import CapabilityRecord, Status

CONFIG = "config.yaml"
SERVERS = "mcp.json"
PROFILES = 100

_TOOLS = (
    *("terminal", "file", "web", "browser", "vision", "image_gen", "skills", "memory"),
    *("session_search", "todo", "cronjob", "delegation", "code_execution", "tts", "clarify"),
)


class HermesSource:
    """Reads each home: nested skills, the MCP servers of ``config.yaml`` and of ``mcp.json``.

    A home whose folder begins with a dot, such as ``~/.hermes``, is everybody's; another one, and
    each folder in ``profiles``, is the agent's that it is called after.
    """

    id = "hermes"

    def __init__(self, homes: Sequence[Path]) -> None:
        """Read `homes`."""
        self._homes = tuple(homes)
        self._skills = Skills()

    def read(self) -> Sequence[CapabilityRecord]:
        """Return what the homes have; nothing where there is none."""
        homes: dict[str | None, Home] = {}
        for root in self._homes:
            home = Home(root)
            if home.exists():
                name = home.root.name
                homes.setdefault(None if name.startswith(".") else name, home)
                for profile in _profiles(home):
                    homes.setdefault(profile.root.name, profile)
        if not homes:
            return ()
        found = self._skills.read({agent or "": (home, "skills") for agent, home in homes.items()})
        records = [
            record
            for agent, home in homes.items()
            for record in _records(home, agent, found[agent or ""])
        ]
        first = next(iter(homes.values()))
        for home in homes.values():
            if home is not first:
                for problem in home.problems:
                    first.tell(problem)
        return (*records, built_ins(self.id, "Hermes", _TOOLS, first))

    async def write(self, change: CapabilityChange) -> CapabilityRecord:
        """Refuse: what lies in a home is the agent's own."""
        raise UnsupportedCapabilityWriteError(
            f"{change.action} is nothing that can be done to Hermes: its homes are only looked at",
            action="change it by Hermes itself",
        )


def _profiles(home: Home) -> Iterator[Home]:
    folder = home.root / "profiles"
    if not folder.is_dir() or folder.is_symlink():
        return
    for number, path in enumerate(sorted(folder.iterdir())):
        if number == PROFILES:
            home.tell(f"{folder}: found more than {PROFILES} profiles; the others are left out")
            return
        if path.is_symlink():
            home.tell(f"{path}: found a link, which is not followed")
        elif path.is_dir() and not path.name.startswith("."):
            yield Home(path)


def _records(home: Home, agent: str | None, skills: list[SkillFile]) -> Iterator[CapabilityRecord]:
    config = home.yaml(CONFIG)
    off = texts_of(home.table(config, "skills", CONFIG).get("disabled"))
    for skill in skills:
        status: Status = "disabled" if {skill.name, skill.path.parent.name} & off else "ready"
        yield skill_record("hermes", skill, agent_id=agent, status=status)
    servers = {
        name: (server, SERVERS)
        for name, server in home.table(home.json(SERVERS), "mcpServers", SERVERS).items()
    }
    # What the settings say counts for Hermes; `mcp.json` is written anew for each run.
    servers |= {
        name: (server, CONFIG) for name, server in home.table(config, "mcp_servers", CONFIG).items()
    }
    for name, (server, file) in servers.items():
        on = not isinstance(server, dict) or truth(server.get("enabled"), default=True)
        yield connector(
            "hermes",
            name,
            server,
            manageability="observe-only",
            provenance=str(home.root / file),
            agent_id=agent,
            status="ready" if on else "disabled",
        )
