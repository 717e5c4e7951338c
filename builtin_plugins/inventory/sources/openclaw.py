"""The source ``openclaw``: what its gateway's settings allow, asked of the gateway itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from hookgate.builtin_plugins.inventory.record import CapabilityRecord, Status, refusal
from hookgate.builtin_plugins.inventory.sources.files import Home, texts_of, truth
from hookgate.builtin_plugins.inventory.sources.openclaw_link import OpenClawError, OpenClawLink
from hookgate.builtin_plugins.inventory.sources.source import (
    CapabilityChange,
    RuntimeDisconnectedError,
    UnknownCapabilityError,
    UnsupportedCapabilityWriteError,
    built_ins,
    connector,
)

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
    """What the gateway says at one moment."""

    config: Mapping[str, Any]
    hash: str
    file: str
    policy: _Policy
    groups: Mapping[str, frozenset[str]]
    told: Mapping[str, str]

    def by(self, entries: Sequence[str], tool: str) -> str:
        """Return the entry of a list that a tool falls under; "" where there is none."""
        for entry in entries:
            word = entry.strip().lower()
            if fnmatchcase(tool, word) or tool in self.groups.get(word, ()):
                return entry
        return ""


class OpenClawSource:
    """Reads the tools, MCP servers and plugins of the settings, and switches tools."""

    id = "openclaw"

    def __init__(self, home: Path, link: OpenClawLink, *, always: bool = False) -> None:
        """Ask the gateway that `link` leads to.

        Args:
            home: OpenClaw's folder; where it is not there, neither is OpenClaw.
            link: The connection.
            always: Whether to ask without looking for the folder: the gateway is elsewhere.
        """
        self._home = home
        self._link = link
        self._always = always
        # Tools that stood in a list once: one that stands in none any more is there still.
        self._seen: set[str] = set()

    async def read(self) -> Sequence[CapabilityRecord]:
        """Return what OpenClaw has; nothing where it is not installed."""
        home = Home(self._home)
        if not self._always and not await asyncio.to_thread(home.exists):
            return ()
        state = await self._state()
        records = list(self._records(state))
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
        policy = _Policy.of(config)
        state = _State(
            config=config,
            hash=str(found.get("hash") or ""),
            file=str(found.get("path") or self._link.url),
            policy=policy,
            groups=groups,
            told=told,
        )
        listed = {entry.strip().lower() for entry in (*(policy.allow or ()), *policy.deny)}
        self._seen |= {word for word in listed if word and not set(word) & set("*?[:")}
        return state

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
            writable=not denied or denied.strip().lower() == tool,
        )


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
