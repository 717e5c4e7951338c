"""The source ``hermes``: the homes of Hermes agents, which are looked at and never written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hookgate.builtin_plugins.inventory.record import CapabilityRecord, Status
from hookgate.builtin_plugins.inventory.sources import (
    CapabilityChange,
    UnsupportedCapabilityWriteError,
    built_ins,
    connector,
    extension,
    skill_record,
)
from hookgate.builtin_plugins.inventory.sources.files import (
    Home,
    SkillFile,
    Skills,
    texts_of,
    truth,
)

CONFIG = "config.yaml"
SERVERS = "mcp.json"
PROFILES = 100
EXTERNAL = 50
"""So many external folders of skills are read of one home."""

MANIFEST = "plugin.yaml"
PLUGINS = 200

_TOOLS = (
    *("terminal", "file", "web", "browser", "vision", "image_gen", "skills", "memory"),
    *("session_search", "todo", "cronjob", "delegation", "code_execution", "tts", "clarify"),
)


class HermesSource:
    """Reads each home: nested skills, external folders of them, plugins, and MCP servers.

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
        configs = {agent: home.yaml(CONFIG) for agent, home in homes.items()}
        external = {
            (agent, folder.root): folder
            for agent, home in homes.items()
            for folder in _external(home, configs[agent])
        }
        found = self._skills.read(
            {f"{agent or ''}": (home, "skills") for agent, home in homes.items()}
            | {f"{agent or ''}\0{path}": (one, ".") for (agent, path), one in external.items()}
        )
        records = [
            record
            for agent, home in homes.items()
            for record in _records(home, configs[agent], agent, found[agent or ""])
        ]
        for (agent, path), folder in external.items():
            off, home = _off(homes[agent], configs[agent]), homes[agent]
            records += (
                _skill(skill, agent, off, key=f"{path}:{skill.key}")
                for skill in found[f"{agent or ''}\0{path}"]
            )
            for problem in folder.problems:
                home.tell(problem)
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


def _external(home: Home, config: Mapping[str, Any]) -> Iterator[Home]:
    """Yield the folders elsewhere in which the settings say that skills are."""
    said = home.table(config, "skills", CONFIG).get("external_dirs")
    paths = [said] if isinstance(said, str) else sorted(texts_of(said))
    for number, text in enumerate(paths):
        if number == EXTERNAL:
            home.tell(f"found more than {EXTERNAL} external folders; the others are left out")
            return
        folder = Home(Path(os.path.expandvars(text)))
        if not folder.root.is_absolute():
            folder = Home(home.root / folder.root)
        if folder.exists():
            yield folder
        else:
            home.tell(f"{folder.root}: found no such folder, which `skills.external_dirs` names")


def _off(home: Home, config: Mapping[str, Any]) -> frozenset[str]:
    return texts_of(home.table(config, "skills", CONFIG).get("disabled"))


def _skill(
    skill: SkillFile, agent: str | None, off: frozenset[str], *, key: str = ""
) -> CapabilityRecord:
    status: Status = "disabled" if {skill.name, skill.path.parent.name} & off else "ready"
    return skill_record("hermes", skill, agent_id=agent, key=key, status=status)


def _plugins(
    home: Home, config: Mapping[str, Any], agent: str | None
) -> Iterator[CapabilityRecord]:
    """Yield what lies in `plugins`: off unless the settings say on, as Hermes has it."""
    root = home.root / "plugins"
    if not root.is_dir() or root.is_symlink():
        return
    said = home.table(config, "plugins", CONFIG)
    on, off = texts_of(said.get("enabled")), texts_of(said.get("disabled"))
    manifests = sorted((*root.glob(f"*/{MANIFEST}"), *root.glob(f"*/*/{MANIFEST}")))
    for number, path in enumerate(manifests):
        if number == PLUGINS:
            home.tell(f"{root}: found more than {PLUGINS} plugins; the others are left out")
            return
        key = path.parent.relative_to(root).as_posix()
        manifest = home.yaml(path.relative_to(home.root).as_posix())
        name = manifest.get("name")
        names = {key, path.parent.name, name if isinstance(name, str) else key}
        yield extension(
            "hermes",
            key,
            description=manifest.get("description"),
            provenance=path.parent,
            on=bool(names & on) and not names & off,
            agent_id=agent,
        )


def _records(
    home: Home, config: Mapping[str, Any], agent: str | None, skills: Sequence[SkillFile]
) -> Iterator[CapabilityRecord]:
    off = _off(home, config)
    yield from (_skill(skill, agent, off) for skill in skills)
    yield from _plugins(home, config, agent)
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
