"""The plugin ``audit``: records decisions and outcomes, and writes figures to a file."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pydantic import Field

from hookgate.builtin_plugins.audit.entries import decided, finished
from hookgate.builtin_plugins.audit.settings import AuditSettings
from hookgate.builtin_plugins.audit.trail import Place, Ring, StoreKeeper, Trail
from hookgate.core.json_lines import JsonLines, JsonLinesWriter
from hookgate.core.operations import Operation, OperationModel
from hookgate.core.ports import AUDIT, STORE
from hookgate.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from hookgate.builtin_plugins.audit.trail import Keeper
    from hookgate.core.host import Host
    from hookgate.core.metrics import MetricRecord
    from hookgate.core.operations import Invocation
    from hookgate.core.tools import Decision, ToolCall, ToolResult
    from hookgate.core.turn import Turn

PART = "audit"
UNWRITTEN = "audit.outcomes"


class ListParams(OperationModel):
    """Which rows are wanted; what is left out does not matter."""

    limit: int = Field(default=50, ge=1, le=1000)
    """So many rows at most, the newest first."""
    before: str = Field(default="", pattern=r"^([^/]+/[^/]+/\d{1,18})?$")
    """Only rows before this place: the ``next`` of a former answer."""
    kind: str = ""
    """``tool_decided``, ``tool_finished`` or a plugin's own kind."""
    turn: str = ""
    """A turn's id."""
    session: str = ""
    """A session's key."""
    tool: str = ""
    """A tool's name."""
    outcome: str = ""
    """``allow`` or ``deny``; or ``done``, ``failed``, ``denied``, ``cancelled``, ``timeout``."""


class Row(OperationModel):
    """One row of the audit."""

    chain: str
    """Names the start of the process that wrote it."""
    seq: int
    """Its place in the chain, from 1."""
    at: str
    """When, ISO 8601 in UTC."""
    kind: str
    turn: str
    session: str
    call: str
    tool: str
    category: str
    """privileged, autonomous, send, write, read, unknown or pure."""
    outcome: str
    data: dict[str, Any]
    """Everything else; secrets are masked, and ``redacted`` says where some were."""


class Rows(OperationModel):
    """Rows of the audit."""

    entries: list[Row]
    next: str
    """What to give as ``before`` for older rows; empty where there are none."""
    durable: bool
    """Whether what is recorded outlives the process."""


class Plugin:
    """Keeps the trail in the store; without one, the last rows in memory."""

    Settings = AuditSettings
    provides = (AUDIT,)

    def __init__(self, settings: AuditSettings) -> None:
        self._settings = settings
        self._trail: Trail | None = None
        self._durable = False
        self._metrics: JsonLinesWriter | None = None

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Open the trail and offer it; write what is on its way before closing."""
        keeper = await self._keeper(host)
        trail = self._trail = Trail(
            keeper,
            host.clock,
            host.secrets,
            failed=lambda error: host.degrade(
                UNWRITTEN, f"an outcome of a tool call could not be recorded: {error}"
            ),
            worked=lambda: host.recover(UNWRITTEN),
        )
        host.provide(AUDIT, trail)
        if self._settings.metrics.enabled:
            self._metrics = self._writer(host)
        try:
            yield
        finally:
            await trail.flush()
            self._trail = None
            if self._metrics is not None:
                await self._metrics.close()

    def _writer(self, host: Host) -> JsonLinesWriter:
        file = JsonLines(
            host.settings.home / "metrics.jsonl",
            max_bytes=self._settings.metrics.max_bytes,
            keep=self._settings.metrics.keep,
        )
        loop = asyncio.get_running_loop()

        def failed(error: OSError) -> None:
            why = f"records of metrics were lost: {error}"
            loop.call_soon_threadsafe(host.degrade, "audit.metrics", why)

        return JsonLinesWriter(file, failed=failed)

    async def _keeper(self, host: Host) -> Keeper:
        store = host.get(STORE)
        if store is None:
            host.degrade(
                PART,
                f"no plugin provides a store: the last {self._settings.ring} rows are kept in "
                "memory and lost when the gateway stops (enable the plugin `storage`)",
            )
            return Ring(self._settings.ring)
        # SQLAlchemy takes a third of a second to import: not on the event loop.
        tables = await asyncio.to_thread(import_module, "hookgate.builtin_plugins.audit.tables")
        await store.migrate("audit", tables.METADATA, tables.SCRIPTS)
        self._durable = store.durable
        return StoreKeeper(store)

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        """Offer ``audit.list``."""
        return [
            Operation(
                name="audit.list",
                summary="Show the newest rows of the audit: decisions on tool calls, outcomes.",
                params=ListParams,
                result=Rows,
                handler=self.list_rows,
                scope="read",
                rest=("GET", "/v1/audit"),
                command="audit list",
            )
        ]

    @hookimpl
    async def tool_decided(self, turn: Turn, call: ToolCall, decision: Decision) -> None:
        """Record a decision before anything runs; what cannot be recorded is denied."""
        await self._open_trail.write(decided(turn, call, decision))

    @hookimpl
    def tool_finished(self, turn: Turn, call: ToolCall, result: ToolResult) -> None:
        """Record an outcome. It is committed with, or before, the answer of the turn."""
        self._open_trail.hand_over(finished(turn, call, result))

    @hookimpl
    def log_metrics(self, record: MetricRecord) -> None:
        """Hand the record to the file of figures, which is written beside the turns."""
        if self._metrics is not None:
            self._metrics.add({"timestamp": record.timestamp, "name": record.name, **record.fields})

    async def list_rows(self, invocation: Invocation, params: ListParams) -> Rows:
        """Return the newest rows that fit."""
        wanted = params.model_dump(include={"kind", "turn", "session", "tool", "outcome"})
        filters = {key: value for key, value in wanted.items() if value}
        before = Place.parse(params.before) if params.before else None
        rows = await self._open_trail.newest(filters, limit=params.limit + 1, before=before)
        shown = [Row(**row) for row in rows[: params.limit]]
        older = ""
        if len(rows) > len(shown):
            older = str(Place.of(rows[params.limit - 1]))
        return Rows(entries=shown, next=older, durable=self._durable)

    @property
    def _open_trail(self) -> Trail:
        if self._trail is None:
            raise RuntimeError("the audit is not open: the gateway is not running")
        return self._trail
