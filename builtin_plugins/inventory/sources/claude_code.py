"""The source ``claude-code``: `~/.claude`, its plugins, and projects; none is ever written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hookgate.builtin_plugins.inventory.record import CapabilityRecord, Kind, Status
from hookgate.builtin_plugins.inventory.sources import (
    CapabilityChange,
    UnsupportedCapabilityWriteError,
    built_ins,
    connector,
    extension,
    skill_record,
)
from hookgate.builtin_plugins.inventory.sources.files import Home, Skills, projects_of, texts_of
from hookgate.kit.content.files import Stamp, stamp_of
from hookgate.kit.content.problems import ContentError

STATE = ".claude.json"
STATE_BYTES = 16 * 1024 * 1024
"""The largest state: Claude Code keeps what was typed in it as well."""

_OF_PROJECT = (
    *("mcpServers", "enabledMcpjsonServers", "disabledMcpjsonServers", "disabledMcpServers"),
    *("enableAllProjectMcpServers", "permissions"),
)
"""What is read of the state of a project."""

SETTINGS = ("settings.json", "settings.local.json")
SERVERS = ".mcp.json"

PLUGINS = "plugins/installed_plugins.json"
MANIFEST = ".claude-plugin/plugin.json"
MANY_PLUGINS = 200

SHARED = ".agents"
"""The folder beside Claude Code's whose skills several runtimes share."""

_TEXTS: Mapping[str, Kind] = {"commands": "skill", "agents": "tool"}
"""Folders of Markdown files: a command is a skill by another name, a subagent is called."""

_TOOLS = (
    *("Bash", "Read", "Edit", "Write", "Glob", "Grep", "NotebookEdit", "WebFetch", "WebSearch"),
    *("Task", "TodoWrite", "Skill", "AskUserQuestion", "ExitPlanMode"),
)


@dataclass
class _Choice:
    """What settings say of the servers and tools of a project.

    Attributes:
        on: Servers of `.mcp.json` that somebody has approved.
        off: Servers that somebody has rejected, or switched off.
        all_on: Whether all of `.mcp.json` are approved.
        denied: Tools that may not be used.
        plugins: Plugins that somebody has switched on, or off.
    """

    on: set[str] = field(default_factory=set)
    off: set[str] = field(default_factory=set)
    all_on: bool = False
    denied: set[str] = field(default_factory=set)
    plugins: dict[str, bool] = field(default_factory=dict)

    def take(self, settings: Mapping[str, Any]) -> None:
        """Take what a file of settings says as well."""
        self.on |= texts_of(settings.get("enabledMcpjsonServers"))
        self.off |= texts_of(settings.get("disabledMcpjsonServers"))
        self.off |= texts_of(settings.get("disabledMcpServers"))
        self.all_on = self.all_on or settings.get("enableAllProjectMcpServers") is True
        permissions = settings.get("permissions")
        if isinstance(permissions, dict):
            self.denied |= texts_of(permissions.get("deny"))
        plugins = settings.get("enabledPlugins")
        for name, on in plugins.items() if isinstance(plugins, dict) else ():
            self.plugins[name] = on is True

    def status(self, server: str) -> Status:
        """Return whether a server that is configured runs."""
        off = server in self.off or {f"mcp__{server}", f"mcp__{server}__*"} & self.denied
        return "disabled" if off else "ready"

    def and_also(self, other: _Choice) -> _Choice:
        return _Choice(
            self.on | other.on,
            self.off | other.off,
            self.all_on or other.all_on,
            self.denied | other.denied,
            {**self.plugins, **other.plugins},
        )


@dataclass(frozen=True)
class _Place:
    """A folder with skills, commands and subagents: the user's, a project's, or a plugin's.

    Attributes:
        home: The folder.
        within: Where in it these are.
        prefix: What their keys begin with.
        off: Why none of them can be used; "" where they can.
    """

    home: Home
    within: str = ""
    prefix: str = ""
    off: str = ""

    def folder(self, name: str) -> tuple[Home, str]:
        return self.home, f"{self.within}{name}"


class ClaudeCodeSource:
    """Reads what the user, projects and plugins have: settings, skills, commands, servers."""

    id = "claude-code"

    def __init__(self, home: Path, projects: Sequence[Path] = ()) -> None:
        """Read `home`, and the projects.

        Args:
            home: `~/.claude`, or where `CLAUDE_CONFIG_DIR` points to.
            projects: Folders of projects, beside those in which Claude Code has run.
        """
        self._home = home
        self._projects = tuple(projects)
        self._skills = Skills()
        self._texts = Skills(each_file=True)
        self._known: tuple[Stamp, dict[str, Any], list[str]] | None = None

    def read(self) -> Sequence[CapabilityRecord]:
        """Return what Claude Code has; nothing where it is not installed."""
        # Skills that several runtimes share are linked into each of their folders.
        home = Home(self._home, also=(Home(self._home).root.parent / SHARED,))
        if not home.exists():
            return ()
        state = self._state(home)
        choice = _Choice()
        for name in SETTINGS:
            choice.take(home.json(name))
        of_state = home.table(state, "projects", STATE)
        paths = (*map(str, self._projects), *of_state)
        projects = projects_of(home, paths, own=".claude")
        records: list[CapabilityRecord] = []
        for name, server in home.table(state, "mcpServers", STATE).items():
            records.append(
                _server(name, name, server, choice.status(name), home.root.parent / STATE)
            )
        places, on = [_Place(home)], {name for name, is_on in choice.plugins.items() if is_on}
        for path, project in projects.items():
            known = of_state.get(path)
            own = _choice_of(project, known if isinstance(known, dict) else {}, choice)
            on |= {name for name, is_on in own.plugins.items() if is_on}
            records += _servers_of(project, known if isinstance(known, dict) else {}, own)
            places.append(_Place(project, ".claude/", f"{path}:"))
        for name, plugin in _plugins(home).items():
            off = "" if name in on else f"the plugin {name} is switched off"
            places.append(_Place(plugin, "", f"{name}:", off))
            records += _of_plugin(name, plugin, on=name in on)
        records += self._texts_of(places)
        for place in places[1:]:
            for problem in place.home.problems:
                home.tell(problem)
        if denied := sorted(choice.denied & set(_TOOLS)):
            home.tell(f"the settings deny {', '.join(denied)}")
        return (*records, built_ins(self.id, "Claude Code", _TOOLS, home))

    def _texts_of(self, places: Sequence[_Place]) -> Iterator[CapabilityRecord]:
        """Yield the skills, commands and subagents of all places."""
        by_prefix = {place.prefix: place for place in places}
        skills = self._skills.read({key: one.folder("skills") for key, one in by_prefix.items()})
        texts = self._texts.read(
            {
                f"{key}\0{folder}": place.folder(folder)
                for key, place in by_prefix.items()
                for folder in ("commands", "agents")
            }
        )
        for key, place in by_prefix.items():
            status: Status = "disabled" if place.off else "ready"
            for skill in skills[key]:
                yield skill_record(
                    self.id, skill, key=f"{key}{skill.key}", status=status, why=place.off
                )
            for folder, kind in _TEXTS.items():
                for text in texts[f"{key}\0{folder}"]:
                    yield skill_record(
                        self.id,
                        text,
                        key=f"{key}{folder}/{text.key}",
                        status=status,
                        kind=kind,
                        why=place.off,
                    )

    def _state(self, home: Home) -> dict[str, Any]:
        """Return what Claude Code keeps: in its folder where that was moved, else beside it.

        It writes there all the time and has much to write, so it is read when it has changed.
        """
        moved = (home.root / STATE).exists() or home.root.name != ".claude"
        place = Home(home.root if moved else home.root.parent)
        try:
            stamp = stamp_of(Path(os.path.realpath(place.root / STATE)))
        except ContentError:
            stamp = None  # it is not there, or is none: reading says which
        if self._known is None or stamp is None or self._known[0] != stamp:
            state = _of_interest(place)
            self._known = None if stamp is None else (stamp, state, place.problems)
        else:
            _, state, place.problems = self._known
        for problem in place.problems:
            home.tell(problem)
        return state

    async def write(self, change: CapabilityChange) -> CapabilityRecord:
        """Refuse: what lies in `~/.claude` is Claude Code's own."""
        raise UnsupportedCapabilityWriteError(
            f"{change.action} is nothing that can be done to Claude Code: its files are only "
            "looked at",
            action="change it by Claude Code itself",
        )


def _of_interest(home: Home) -> dict[str, Any]:
    """Return what Claude Code keeps of servers; most of the file is what was typed, and large."""
    state = home.json(STATE, max_bytes=STATE_BYTES)
    kept: dict[str, Any] = {key: state[key] for key in ("mcpServers", "projects") if key in state}
    if isinstance(projects := kept.get("projects"), dict):
        kept["projects"] = {
            path: {key: known[key] for key in _OF_PROJECT if key in known}
            for path, known in projects.items()
            if isinstance(known, dict)
        }
    return kept


def _choice_of(project: Home, known: dict[str, Any], users: _Choice) -> _Choice:
    own = _Choice()
    own.take(known)
    for name in SETTINGS:
        own.take(project.json(f".claude/{name}"))
    return users.and_also(own)


def _servers_of(
    project: Home, known: dict[str, Any], choice: _Choice
) -> Iterator[CapabilityRecord]:
    for name, server in project.table(known, "mcpServers", STATE).items():
        key = f"{project.root}:{name}"
        yield _server(key, name, server, choice.status(name), project.root)
    for name, server in project.table(project.json(SERVERS), "mcpServers", SERVERS).items():
        key, file = f"{project.root}/{SERVERS}:{name}", project.root / SERVERS
        status = choice.status(name)
        if status == "ready" and not (choice.all_on or name in choice.on):
            status = "manageable-but-pending-auth"
        yield _server(key, name, server, status, file)


def _plugins(home: Home) -> dict[str, Home]:
    """Return the folders of the installed plugins, by `NAME@MARKETPLACE`."""
    found: dict[str, Home] = {}
    for name, entries in home.table(home.json(PLUGINS), "plugins", PLUGINS).items():
        if len(found) == MANY_PLUGINS:
            home.tell(f"found more than {MANY_PLUGINS} plugins; the others are left out")
            break
        for entry in entries if isinstance(entries, list) else [entries]:
            path = entry.get("installPath") if isinstance(entry, dict) else None
            if isinstance(path, str) and Path(path).is_absolute() and Path(path).is_dir():
                found.setdefault(name, Home(Path(path)))
        if name not in found:
            home.tell(f"the plugin {name} is installed, and its folder is not there")
    return found


def _of_plugin(name: str, plugin: Home, *, on: bool) -> Iterator[CapabilityRecord]:
    """Yield a plugin itself, and its MCP servers."""
    manifest = plugin.json(MANIFEST)
    yield extension(
        "claude-code",
        name,
        description=manifest.get("description"),
        provenance=plugin.root,
        on=on,
    )
    said = manifest.get("mcpServers", SERVERS)
    servers = plugin.json(said) if isinstance(said, str) else said
    if isinstance(servers, dict):
        # Some files have the servers at once, and some under the key that a project's has.
        inner = servers.get("mcpServers", servers)
        for server, settings in inner.items() if isinstance(inner, dict) else ():
            status: Status = "ready" if on else "disabled"
            yield _server(f"{name}:{server}", server, settings, status, plugin.root)


def _server(key: str, name: str, server: Any, status: Status, file: Path) -> CapabilityRecord:
    pending = status == "manageable-but-pending-auth"
    return connector(
        "claude-code",
        key,
        server,
        manageability="observe-only",
        provenance=str(file),
        name=name,
        status=status,
        hint="approve it in Claude Code: run `claude` in the project, and `/mcp`"
        if pending
        else "",
    )
