"""The source ``openclaw``: what its gateway's settings allow, asked of the gateway itself.

Where the gateway does not run, its settings are read from their file, and nothing is switched.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from hookgate.builtin_plugins.inventory.record import CapabilityRecord, Status, refusal
from hookgate.builtin_plugins.inventory.sources import (
    CapabilityChange,
    RuntimeDisconnectedError,
    UnknownCapabilityError,
    UnsupportedCapabilityWriteError,
    built_ins,
    connector,
    skill_record,
)
from hookgate.builtin_plugins.inventory.sources.files import Home, Skills, texts_of, truth
from hookgate.builtin_plugins.inventory.sources.openclaw_link import OpenClawError, OpenClawLink

CONFIG = "openclaw.json"
PORT = 18789
"""Where OpenClaw's gateway listens by itself."""

START = "start OpenClaw's gateway (`openclaw gateway`), which changes it"
"""The hint of what its gateway alone could switch, while that does not run."""

SHARED = ".agents/skills"
"""Where skills lie that several runtimes share: beside OpenClaw's folder, and in workspaces."""

WORKSPACES = 100

TRIES = 3
CATALOG = "tools.catalog"

_GROUPS: Mapping[str, frozenset[str]] = {
    "group:fs": frozenset({"read", "write", "edit", "apply_patch"}),
    "group:runtime": frozenset({"exec", "process"}),
    "group:web": frozenset({"web_search", "web_fetch"}),
    "group:ui": frozenset({"browser", "canvas"}),
    "group:memory": frozenset({"memory_search", "memory_get"}),
    "group:sessions": frozenset(
        {"sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "session_status"}
    ),
    "group:messaging": frozenset({"message"}),
    "group:automation": frozenset({"cron", "gateway"}),
    "group:nodes": frozenset({"nodes"}),
}
"""What OpenClaw's groups of tools stand for, where its gateway has no catalogue."""


@dataclass(frozen=True, slots=True)
class _Policy:
    """The lists of tools in OpenClaw's settings; an allow list that is not there allows all."""

    allow: tuple[str, ...] | None
    deny: tuple[str, ...]

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> _Policy:
        tools = config.get("tools")
        tools = tools if isinstance(tools, dict) else {}
        allow = tools.get("allow")
        return cls(_listed(allow) if isinstance(allow, list) else None, _listed(tools.get("deny")))

    def to_json(self) -> dict[str, list[str]]:
        lists = {"deny": list(self.deny)}
        return lists if self.allow is None else {"allow": list(self.allow), **lists}


@dataclass(frozen=True, slots=True)
class _State:
    """What the gateway says at one moment, or its file while it does not run (`live`)."""

    config: Mapping[str, Any]
    hash: str
    file: str
    policy: _Policy
    groups: Mapping[str, frozenset[str]]
    told: Mapping[str, str]
    live: bool = True

    def by(self, entries: Sequence[str], tool: str) -> str:
        """Return the entry of a list that a tool falls under; "" where there is none."""
        for entry in entries:
            word = entry.strip().lower()
            if fnmatchcase(tool, word) or tool in self.groups.get(word, ()):
                return entry
        return ""


class OpenClawSource:
    """Reads the tools, MCP servers, plugins and skills, and switches tools."""

    id = "openclaw"

    def __init__(self, home: Path, link: OpenClawLink, *, always: bool = False) -> None:
        """Ask the gateway that `link` leads to.

        Args:
            home: OpenClaw's folder; where it is not there, neither is OpenClaw.
            link: The connection. Its port is that of the settings in the folder.
            always: Whether the link leads where somebody has said that the gateway is: then it
                is asked there, without looking for the folder.
        """
        self._home = home
        self._link = link
        self._usual = link.url
        self._always = always
        self._skills = Skills()
        # Tools that stood in a list once: one that stands in none any more is there still.
        self._seen: set[str] = set()

    async def read(self) -> Sequence[CapabilityRecord]:
        """Return what OpenClaw has; nothing where it is not installed."""
        home = Home(self._home)
        there = await asyncio.to_thread(home.exists)
        if not (there or self._always):
            return ()
        config = await asyncio.to_thread(home.json5, CONFIG) if there else {}
        if not self._always:
            self._link.url = _url(config) or self._usual
        try:
            state = await self._state()
        except (RuntimeDisconnectedError, OpenClawError) as error:
            if self._always:
                raise
            # That it does not run is no fault of anybody's: what it has lies in its files.
            home.tell(f"{error}; its files are read instead")
            state = self._stated(config, file=str(home.root / CONFIG), live=False)
        records = list(self._records(state))
        if there:
            records += await asyncio.to_thread(self._skills_of, home, state.config)
        names = sorted(frozenset().union(*state.groups.values()))
        return (*records, built_ins(self.id, "OpenClaw", names, home))

    async def close(self) -> None:
        """End the connection."""
        await self._link.close()

    async def write(self, change: CapabilityChange) -> CapabilityRecord:
        """Switch a tool by the lists of the settings; each time both are said anew as a whole."""
        if change.record is None or change.action not in {"enable", "disable"}:
            raise UnsupportedCapabilityWriteError(
                f"{change.action} is nothing that OpenClaw's gateway takes from here",
                action="use `openclaw` itself",
            )
        for _ in range(TRIES):
            state = await self._state()
            record = self._find(state, change.record.id)
            if why := refusal(record, change.action):
                raise UnsupportedCapabilityWriteError(why)
            tool = record.source_key
            policy = (_enabled if change.action == "enable" else _disabled)(state, tool)
            if policy == state.policy or await self._patched(state, policy):
                return self._tool(replace(state, policy=policy), tool)
        raise RuntimeDisconnectedError("others change OpenClaw's settings all the time")

    # -- asking ------------------------------------------------------------

    async def _state(self) -> _State:
        found = await self._link.ask("config.get")
        config = found.get("config") if isinstance(found, dict) else None
        if not isinstance(config, dict) or found.get("valid") is False:
            raise RuntimeDisconnectedError("OpenClaw's settings are broken: run `openclaw doctor`")
        groups, told = dict(_GROUPS), dict[str, str]()
        if CATALOG in self._link.methods:
            groups, told = _catalogue(await self._link.ask(CATALOG)) or (groups, told)
        return self._stated(
            config,
            file=str(found.get("path") or self._link.url),
            hash=str(found.get("hash") or ""),
            groups=groups,
            told=told,
        )

    def _stated(self, config: Mapping[str, Any], **more: Any) -> _State:
        policy = _Policy.of(config)
        listed = {entry.strip().lower() for entry in (*(policy.allow or ()), *policy.deny)}
        self._seen |= {word for word in listed if word and not set(word) & set("*?[:")}
        said = {"hash": "", "groups": _GROUPS, "told": {}, **more}
        return _State(config=config, policy=policy, **said)

    async def _patched(self, state: _State, policy: _Policy) -> bool:
        """Say both lists; False where the settings are not those that were read any more."""
        lists = policy.to_json()
        params: dict[str, Any] = {"raw": json.dumps({"tools": lists})}
        if state.hash:
            params["baseHash"] = state.hash
        try:
            answer = await self._link.ask("config.patch", params)
        except OpenClawError as error:
            if "re-run config.get" in str(error):
                return False
            if "replacePaths" not in str(error):
                raise UnsupportedCapabilityWriteError(
                    f"OpenClaw's gateway refuses the change: {error}"
                ) from None
            # Newer gateways want to be told that a list may become shorter.
            paths = [f"tools.{name}" for name in lists]
            answer = await self._link.ask("config.patch", {**params, "replacePaths": paths})
        config = answer.get("config") if isinstance(answer, dict) else None
        if isinstance(config, dict) and _Policy.of(config) != policy:
            raise RuntimeError("OpenClaw's gateway has taken the change and says something else")
        return True

    # -- records -----------------------------------------------------------

    def _find(self, state: _State, record_id: str) -> CapabilityRecord:
        for record in self._records(state):
            if record.id == record_id:
                return record
        raise UnknownCapabilityError(
            f"found the id {record_id!r}, which OpenClaw does not have, or cannot change",
            action="list the inventory, and take an id from there",
        )

    def _records(self, state: _State) -> Iterator[CapabilityRecord]:
        for tool in sorted(self._seen.union(*state.groups.values())):
            yield self._tool(state, tool)
        for name, server in _table(state.config, "mcp", "servers").items():
            on = not isinstance(server, dict) or (
                truth(server.get("enabled"), default=True) and server.get("disabled") is not True
            )
            yield connector(
                self.id,
                name,
                server,
                manageability="runtime-of-record",
                provenance=state.file,
                status="ready" if on else "disabled",
                writable=False,
            )
        for name, entry in _table(state.config, "plugins", "entries").items():
            yield CapabilityRecord.of(
                self.id,
                name,
                kind="connector",
                source="openclaw-extension",
                manageability="runtime-of-record",
                name=name,
                description="a plugin of OpenClaw's gateway",
                provenance=state.file,
                status=_plugin_status(state.config, name, entry),
                writable=False,
            )

    def _tool(self, state: _State, tool: str) -> CapabilityRecord:
        policy, diagnostics = state.policy, list[str]()
        denied = state.by(policy.deny, tool)
        off = bool(denied)
        if denied and denied.strip().lower() != tool:
            diagnostics.append(f"{denied!r} in `tools.deny` concerns other tools as well")
        elif not denied and policy.allow and not state.by(policy.allow, tool):
            off = True
            diagnostics.append("it does not stand in `tools.allow`")
        return CapabilityRecord.of(
            self.id,
            tool,
            kind="tool",
            source="runtime-builtin",
            manageability="runtime-of-record",
            description=state.told.get(tool, ""),
            provenance=state.file,
            status="disabled" if off else "ready",
            diagnostics=tuple(diagnostics),
            writable=state.live and (not denied or denied.strip().lower() == tool),
            hint="" if state.live else START,
        )

    def _skills_of(self, home: Home, config: Mapping[str, Any]) -> list[CapabilityRecord]:
        """Return the skills of its folder, of the folder beside it, and of each workspace."""
        beside = Home(home.root.parent)
        places: dict[tuple[str, str | None], tuple[Home, str]] = {
            ("", None): (home, "skills"),
            (".agents/", None): (beside, SHARED),
        }
        for agent, path in _workspaces(home, config).items():
            workspace = Home(path, also=(home.root, beside.root / ".agents"))
            places[f"{path}:", agent] = (workspace, "skills")
            places[f"{path}/{SHARED}:", agent] = (workspace, SHARED)
        extra = _table(config, "skills", "load").get("extraDirs")
        for text in sorted(texts_of(extra))[:WORKSPACES]:
            places[f"{text}:", None] = (Home(Path(text)), ".")
        entries = _table(config, "skills", "entries")
        found = self._skills.read({f"{key}\0{who}": one for (key, who), one in places.items()})
        records = []
        for (prefix, agent), (place, _) in places.items():
            for skill in found[f"{prefix}\0{agent}"]:
                entry = entries.get(skill.name)
                off = isinstance(entry, dict) and not truth(entry.get("enabled"), default=True)
                status: Status = "disabled" if off else "ready"
                key = f"{prefix}{skill.key}"
                records.append(skill_record(self.id, skill, agent_id=agent, key=key, status=status))
            if place is not home:
                for problem in place.problems:
                    home.tell(problem)
                place.problems = []
        return records


def _url(config: Mapping[str, Any]) -> str:
    gateway = config.get("gateway")
    port = gateway.get("port") if isinstance(gateway, dict) else None
    return f"ws://127.0.0.1:{port}" if isinstance(port, int) and 0 < port < 65536 else ""


def _workspaces(home: Home, config: Mapping[str, Any]) -> dict[str | None, Path]:
    """Return the workspace of each agent; of the only one, where the settings name none."""
    agents = config.get("agents")
    agents = agents if isinstance(agents, dict) else {}
    defaults = agents.get("defaults")
    path = defaults.get("workspace") if isinstance(defaults, dict) else None
    usual = Path(path).expanduser() if isinstance(path, str) else home.root / "workspace"
    listed = agents.get("list")
    found: dict[str | None, Path] = {}
    for agent in (listed if isinstance(listed, list) else ())[:WORKSPACES]:
        name = agent.get("id") if isinstance(agent, dict) else None
        if isinstance(name, str) and name:
            own = agent.get("workspace")
            found[name] = Path(own).expanduser() if isinstance(own, str) else usual
    return found or {None: usual}


def _disabled(state: _State, tool: str) -> _Policy:
    policy = state.policy
    if state.by(policy.deny, tool):
        return policy
    # It stays in the allow list, if it is there: enabling needs to know nothing.
    return replace(policy, deny=(*policy.deny, tool))


def _enabled(state: _State, tool: str) -> _Policy:
    deny = tuple(entry for entry in state.policy.deny if entry.strip().lower() != tool)
    if other := state.by(deny, tool):
        raise UnsupportedCapabilityWriteError(
            f"{other!r} in OpenClaw's `tools.deny` concerns other tools as well",
            action="change that entry by OpenClaw itself",
        )
    allow = state.policy.allow
    if allow and not state.by(allow, tool):
        allow = (*allow, tool)
    return _Policy(allow, deny)


def _catalogue(found: Any) -> tuple[dict[str, frozenset[str]], dict[str, str]] | None:
    """Return groups and descriptions of a gateway's tools; None where it says nothing of them."""
    groups: dict[str, frozenset[str]] = {}
    told: dict[str, str] = {}
    for group in found.get("groups") or () if isinstance(found, dict) else ():
        if not isinstance(group, dict) or not isinstance(group.get("tools"), list):
            continue
        names = set[str]()
        for tool in group["tools"]:
            if isinstance(tool, dict) and isinstance(name := tool.get("id"), str) and name:
                names.add(name.lower())
                told[name.lower()] = " ".join(str(tool.get("description") or "").split())[:1024]
        groups[f"group:{group.get('id')}".lower()] = frozenset(names)
    return (groups, told) if told else None


def _plugin_status(config: Mapping[str, Any], name: str, entry: Any) -> Status:
    plugins = config.get("plugins")
    plugins = plugins if isinstance(plugins, dict) else {}
    allow = texts_of(plugins.get("allow"))
    on = (
        truth(plugins.get("enabled"), default=True)
        and name not in texts_of(plugins.get("deny"))
        and (not allow or name in allow)
        and (not isinstance(entry, dict) or truth(entry.get("enabled"), default=True))
    )
    return "ready" if on else "disabled"


def _table(config: Mapping[str, Any], section: str, key: str) -> Mapping[str, Any]:
    found = config.get(section)
    table = found.get(key) if isinstance(found, dict) else None
    return table if isinstance(table, dict) else {}


def _listed(value: Any) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()
