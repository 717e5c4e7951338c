"""The plugin ``audit``: records decisions and outcomes, and writes figures to a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hookgate import (
    AUDIT,
    STORE,
    Decision,
    Host,
    MetricRecord,
    Operation,
    StartError,
    ToolCall,
    ToolResult,
    Turn,
    operations_of,
)
from hookgate.builtin_plugins.audit.entries import Redaction, decided, finished
from hookgate.builtin_plugins.audit.operations import AuditOperations
from hookgate.builtin_plugins.audit.seals import (
    Head,
    KeptHead,
    Sealer,
    key_from_file,
    key_from_secret,
    made_at,
)
from hookgate.builtin_plugins.audit.settings import AuditSettings
from hookgate.builtin_plugins.audit.trail import Trail
from hookgate.hookspecs import hookimpl
from hookgate.kit.json_lines import JsonLines, JsonLinesWriter
from hookgate.kit.tables import tables_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.audit.tables import AuditKeeper

PART = "audit"
UNWRITTEN = "audit.outcomes"


class Plugin:
    """Keeps the trail in the store; without one, the last rows in memory."""

    Settings = AuditSettings
    provides = (AUDIT,)

    def __init__(self, settings: AuditSettings) -> None:
        self._settings = settings
        self._trail: Trail | None = None
        self._redaction = Redaction(settings.redact)
        self._sealer: Sealer | None = None
        self._kept: KeptHead | None = None
        self._metrics: JsonLinesWriter | None = None
        self._operations = AuditOperations(
            lambda: self._open_trail, lambda: self._open_sealer, self._heads, self._verified
        )

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Open the trail and offer it; write what is on its way before closing."""
        self._sealer = await self._made_sealer(host)
        keeper, unwritten = await self._keeper(host, self._sealer), host.standing(UNWRITTEN)
        trail = self._trail = Trail(
            keeper,
            host.clock,
            host.secrets,
            failed=lambda error: unwritten.bad(
                f"an outcome of a tool call could not be recorded: {error}"
            ),
            worked=unwritten.good,
        )
        host.provide(AUDIT, trail)
        if self._settings.metrics.enabled:
            self._metrics = self._writer(host)
        try:
            yield
        finally:
            await trail.flush()
            await self._verified()
            self._trail = self._kept = None
            if self._metrics is not None:
                await self._metrics.close()

    def _writer(self, host: Host) -> JsonLinesWriter:
        file = JsonLines(
            host.settings.home / "metrics.jsonl",
            max_bytes=self._settings.metrics.max_bytes,
            keep=self._settings.metrics.keep,
            secrets=host.secrets,
        )
        standing = host.standing("audit.metrics")
        return JsonLinesWriter(
            file,
            failed=lambda error: standing.bad(f"records of metrics cannot be written: {error}"),
            worked=standing.good,
        )

    async def _made_sealer(self, host: Host) -> Sealer:
        former = await asyncio.to_thread(self._former_sealers)
        name = self._settings.key_secret
        if not name:
            path = self._settings.key_file or host.settings.home / "audit.key"
            key = await asyncio.to_thread(key_from_file, path)
            return Sealer(key, await asyncio.to_thread(made_at, path), former)
        value = host.secrets.get(name)
        if value is None:
            raise StartError(
                f"`plugin.audit.key_secret` names the secret {name!r}, which is not there: set it, "
                "or take the setting away for a key in a file"
            )
        return Sealer(key_from_secret(value, name), former=former)

    def _former_sealers(self) -> list[Sealer]:
        found = []
        for path in self._settings.former_keys:
            try:
                found.append(Sealer(key_from_file(path, make=False), made_at(path)))
            except StartError as error:
                raise StartError(
                    f"`plugin.audit.former_keys` names {path}: {error.args[0]}"
                ) from error
        return found

    async def _keeper(self, host: Host, sealer: Sealer) -> AuditKeeper:
        tables, store = await tables_of(
            host.get(STORE), "audit", "hookgate.builtin_plugins.audit.tables"
        )
        keeper: AuditKeeper = tables.AuditKeeper(store, sealer, ring=self._settings.ring)
        if not keeper.whole:
            host.standing(PART).bad(
                f"no plugin provides a store: the last {self._settings.ring} rows are kept in "
                "memory and lost when the gateway stops (enable the plugin `storage`)"
            )
        if keeper.durable:
            self._kept = KeptHead(host, keeper)
            await self._kept.open()
        return keeper

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        """Offer the record to people."""
        return operations_of(self._operations)

    @hookimpl
    async def tool_decided(self, turn: Turn, call: ToolCall, decision: Decision) -> None:
        """Record a decision before anything runs; what cannot be recorded is denied."""
        await self._open_trail.write(decided(turn, call, decision, self._redaction))

    @hookimpl
    def tool_finished(self, turn: Turn, call: ToolCall, result: ToolResult) -> None:
        """Record an outcome. It is committed with, or before, the answer of the turn."""
        self._open_trail.hand_over(finished(turn, call, result))

    @hookimpl
    def log_metrics(self, record: MetricRecord) -> None:
        """Hand the record to the file of figures, which is written beside the turns."""
        if self._metrics is not None:
            self._metrics.add({"timestamp": record.timestamp, "name": record.name, **record.fields})

    def _heads(self) -> Sequence[Head]:
        """Return the heads that are known here and must still be rows."""
        kept = self._kept.head if self._kept is not None else None
        return [head for head in (kept, self._open_trail.head) if head is not None]

    async def _verified(self) -> None:
        """Remember how far the record goes: nothing is known to be wrong with it."""
        head = self._open_trail.head
        if self._kept is not None and head is not None:
            await self._kept.keep(head)

    @property
    def _open_sealer(self) -> Sealer:
        assert self._sealer is not None, "operations are called between start and stop"
        return self._sealer

    @property
    def _open_trail(self) -> Trail:
        if self._trail is None:
            raise RuntimeError("the audit is not open: the gateway is not running")
        return self._trail
