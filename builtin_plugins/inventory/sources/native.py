"""The source ``native``: the gateway's own tools and skills, and the skills that it installed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hookgate import Capability, Flags, Host
from hookgate.builtin_plugins.inventory.record import (
    CapabilityRecord,
    Kind,
    Origin,
    Risk,
    parse_id,
    record_id,
    refusal,
)
from hookgate.builtin_plugins.inventory.sources import (
    CapabilityChange,
    UnknownCapabilityError,
    UnsupportedCapabilityWriteError,
)
from hookgate.builtin_plugins.inventory.switches import NATIVE, Keeping
from hookgate.catalogue import capability_rows, capability_version
from hookgate.kit.acceptance.acceptances import acceptances_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.inventory.tables import Toggle

TOOL = "tool"
"""What tools are called among all that is accepted."""

_ORIGINS: Mapping[str, Origin] = {
    "tool": "brokered-mcp",
    "skill": "filesystem-skill-md",
    "connector": "mcp-connector",
}

_KINDS: Mapping[str, Kind] = {"tool": "tool", "skill": "skill", "connector": "connector"}


class NativeSource:
    """Reads the gateway's own registries. All that it has is the gateway's to switch."""

    id = NATIVE

    def __init__(self, host: Host, keeping: Keeping, source: str = "inventory") -> None:
        """Read `host`.

        Args:
            host: The gateway.
            keeping: What is switched off, and what was installed.
            source: Who brings installed skills as capabilities; their records are made of the kept.
        """
        self._host = host
        self._keeping = keeping
        self._source = source
        self._read: tuple[object, tuple[CapabilityRecord, ...]] | None = None

    async def read(self) -> Sequence[CapabilityRecord]:
        """Return the tools, skills and connectors of the gateway, and the installed skills."""
        host = self._host
        version = (
            capability_version(host),
            self._keeping.version,
            dict(host.quarantined),
            dict(host.unshown),
        )
        if self._read is None or self._read[0] != version:
            self._read = (version, await asyncio.to_thread(self._records))
        return self._read[1]

    def _records(self) -> tuple[CapabilityRecord, ...]:
        host, keeping = self._host, self._keeping
        builtin = {info.name for info in host.plugins() if info.origin == "builtin"}
        tools = host.tools.view()
        records: dict[str, CapabilityRecord] = {}
        for row in capability_rows(host).values():
            if row.kind in _KINDS and host.capabilities.source_of(row.id) != self._source:
                tool = tools.get(row.name) if row.kind == "tool" else None
                own = tool is not None and tool.plugin in builtin
                record = self._of_row(row, "runtime-builtin" if own else _ORIGINS[row.kind])
                records[record.id] = record
        for name, why in dict(host.unshown).items():
            text = f"no model sees it: {why}"
            record = self._made("tool", name, source="brokered-mcp", diagnostics=(text,))
            records[record.id] = replace(record, available=False, status="unavailable")
        for skill in keeping.skills.values():
            record = self._made(
                "skill",
                skill.name,
                source="curated-skill",
                runtime=skill.runtime,
                agent_id=skill.agent,
                description=skill.description,
                provenance=f"installed by {skill.changed_by} at {skill.changed}",
            )
            records[record.id] = record
        for toggle in keeping.toggles.values():
            for_agent = _for_agent(toggle, records)
            if for_agent is not None:
                records[for_agent.id] = for_agent
        return tuple(self._switched(record) for record in records.values())

    def _of_row(self, row: Capability, origin: Origin) -> CapabilityRecord:
        prefix = f"{row.kind}:"
        why = self._why_not(row)
        return self._made(
            _KINDS[row.kind],
            row.id.removeprefix(prefix) if row.id.startswith(prefix) else row.id,
            source=origin,
            name=row.name,
            description=row.description,
            available=not why,
            diagnostics=why,
            status="unavailable" if why else "ready",
            provenance=row.source_ref,
            risk=_risk(row.flags),
        )

    def _why_not(self, row: Capability) -> tuple[str, ...]:
        host = self._host
        if row.kind == "tool" and (why := host.quarantined.get(row.name)):
            return (f"it waits for approval: {why}",)
        if row.available:
            return ()
        missing = [
            f"the secret {name!r} is not set"
            for name in row.required_secrets
            if host.secrets.get(name) is None
        ]
        missing += [
            f"the tool {name!r} is not there"
            for name in row.required_tools
            if name not in host.tools.view()
        ]
        return tuple(missing) or (f"`hookgate capabilities show {row.id}` says why",)

    def _made(self, kind: Kind, key: str, *, source: Origin, **more: Any) -> CapabilityRecord:
        return CapabilityRecord.of(
            NATIVE, key, kind=kind, source=source, manageability="managed", **more
        )

    def _switched(self, record: CapabilityRecord) -> CapabilityRecord:
        off = self._keeping.is_off(record.id)
        if record.agent_id is not None and not off and self._keeping.is_off(_everybodys(record)):
            why = (*record.diagnostics, "it is disabled for everybody")
            return replace(record, status="disabled", diagnostics=why)
        if off and record.available:
            return replace(record, status="disabled")
        return record

    # -- changing ------------------------------------------------------------

    async def write(self, change: CapabilityChange) -> CapabilityRecord:
        """Install a skill, switch a record of the gateway's, or accept a tool in quarantine."""
        if change.action == "install":
            return await self._install(change)
        assert change.record is not None, "every change but an install has a record"
        record = await self._find(change.record.id)
        if change.action == "approve":
            await self._approve(change, record)
            return await self._find(record.id)
        if why := refusal(record, change.action):
            raise UnsupportedCapabilityWriteError(why)
        if change.agent_id is not None and change.agent_id != record.agent_id:
            if record.agent_id is not None:
                raise UnsupportedCapabilityWriteError(
                    f"{record.id} belongs to the agent {record.agent_id!r} alone"
                )
            record = _of_agent(record, change.agent_id)
        await self._keeping.switch(
            id=record.id,
            disabled=change.action == "disable",
            changed=self._host.clock.now().isoformat(),
            changed_by=change.by.id,
        )
        return await self._find(record.id)

    async def _find(self, record_id: str) -> CapabilityRecord:
        for record in await self.read():
            if record.id == record_id:
                return record
        raise UnknownCapabilityError(
            f"found the id {record_id!r}, which the gateway does not have",
            action="list the inventory, and take an id from there",
        )

    async def _install(self, change: CapabilityChange) -> CapabilityRecord:
        install = change.install
        assert install is not None, "an install says what"
        if install.kind != "skill" or not install.content.strip():
            what = "a skill without content" if install.kind == "skill" else f"a {install.kind}"
            raise UnsupportedCapabilityWriteError(
                f"found {what}, and the gateway itself installs skills, which have a content",
                action="say `kind = skill` and `content`, or install it by the runtime that runs "
                "it: `via`",
            )
        record = self._made(
            "skill",
            install.key,
            source="curated-skill",
            runtime=install.runtime,
            agent_id=install.agent_id,
        )
        there = next((one for one in await self.read() if one.id == record.id), None)
        if there is not None and there.source != "curated-skill":
            raise UnsupportedCapabilityWriteError(
                f"a skill called {install.key!r} is there already: {there.provenance}",
                action="give it another name",
            )
        await self._keeping.install(
            id=record.id,
            name=install.key,
            agent=install.agent_id,
            runtime=install.runtime,
            description=install.description,
            content=install.content,
            changed=self._host.clock.now().isoformat(),
            changed_by=change.by.id,
        )
        return await self._find(record.id)

    async def _approve(self, change: CapabilityChange, record: CapabilityRecord) -> None:
        desk = (await acceptances_of(self._host)).desks.get(TOOL)
        if desk is None:
            raise UnsupportedCapabilityWriteError(
                "nobody keeps the digests of tools: the plugin policy does not run"
            )
        if record.kind != "tool" or record.source_key not in self._host.quarantined:
            raise UnsupportedCapabilityWriteError(f"{record.id} does not wait for approval")
        await desk.accept(record.source_key, by=change.by.id, digest=change.digest)


def _for_agent(toggle: Toggle, records: Mapping[str, CapabilityRecord]) -> CapabilityRecord | None:
    """Return the record of something that was switched for one agent alone."""
    one = parse_id(toggle.id)
    if one.agent_id is None or toggle.id in records:
        return None
    of_all = record_id(one.source, runtime=one.runtime, kind=one.kind, key=one.key)
    known = records.get(of_all)
    return None if known is None else _of_agent(known, one.agent_id)


def _of_agent(record: CapabilityRecord, agent: str) -> CapabilityRecord:
    made = record_id(
        NATIVE,
        runtime=record.runtime,
        kind=record.kind,
        key=record.source_key,
        scope="agent",
        agent_id=agent,
    )
    return replace(record, id=made, scope="agent", agent_id=agent)


def _everybodys(record: CapabilityRecord) -> str:
    return record_id(NATIVE, runtime=record.runtime, kind=record.kind, key=record.source_key)


def _risk(flags: Flags) -> Risk:
    if flags.executes_privileged or flags.creates_autonomous_actions:
        return "high"
    if flags.sends_externally or flags.writes_persistent_state:
        return "medium"
    return "unknown" if None in flags.to_json().values() else "low"
