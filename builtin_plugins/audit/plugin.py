"""The plugin ``audit``: records decisions and outcomes, and writes figures to a file."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pydantic import Field

from hookgate.builtin_plugins.audit.entries import decided, finished
from hookgate.builtin_plugins.audit.redaction import Redaction
from hookgate.builtin_plugins.audit.sealing import Sealer, key_from_file, key_from_secret
from hookgate.builtin_plugins.audit.settings import AuditSettings
from hookgate.builtin_plugins.audit.trail import Place, Ring, StoreKeeper, Trail
from hookgate.builtin_plugins.audit.verifying import parse_head
from hookgate.core.errors import StartError, TurnError
from hookgate.core.json_lines import JsonLines, JsonLinesWriter
from hookgate.core.operations import Operation, OperationModel
from hookgate.core.ports import AUDIT, STORE
from hookgate.core.tables import tables_of
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


class VerifyParams(OperationModel):
    """What the record is held against."""

    heads: tuple[str, ...] = ()
    """Heads of an earlier export, each as CHAIN/SEQ/SEAL: they must still be rows."""


class Verified(OperationModel):
    """Whether the record is as it was written."""

    ok: bool
    """Whether every sealed row could be verified."""
    rows: int
    """Rows that were looked at."""
    unsealed: int
    """Rows from before there were seals, of which nothing can be said."""
    foreign: dict[str, int]
    """Rows that were sealed with another key, by that key's name."""
    bad: str
    """The first row that is not as it was written, as CHAIN/SEQ."""
    why: str
    """What is wrong with it."""
    heads: tuple[str, ...]
    """The last row of each chain, as CHAIN/SEQ/SEAL: keep them elsewhere."""
    durable: bool
    """Whether what is recorded outlives the process."""


class ExportParams(OperationModel):
    """Which rows are wanted."""

    after: str = Field(default="", pattern=r"^([^/]+/\d{1,18})?$")
    """Only rows behind this one: the ``next`` of a former answer."""
    limit: int = Field(default=1000, ge=1, le=1000)
    """So many rows at most."""


class Exported(OperationModel):
    """Rows as they are stored."""

    rows: list[dict[str, Any]]
    """With all columns; ``data`` is the JSON text that the seal covers."""
    next: str
    """What to give as ``after`` for the rows behind these; empty where there are none."""


class Plugin:
    """Keeps the trail in the store; without one, the last rows in memory."""

    Settings = AuditSettings
    provides = (AUDIT,)

    def __init__(self, settings: AuditSettings) -> None:
        self._settings = settings
        self._trail: Trail | None = None
        self._redaction = Redaction(settings.redact)
        self._sealer: Sealer | None = None
        self._durable = False
        self._metrics: JsonLinesWriter | None = None

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Open the trail and offer it; write what is on its way before closing."""
        self._sealer = Sealer(await self._key(host))
        keeper = await self._keeper(host, self._sealer)
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

    async def _key(self, host: Host) -> bytes:
        name = self._settings.key_secret
        if not name:
            path = self._settings.key_file or host.settings.home / "audit.key"
            return await asyncio.to_thread(key_from_file, path)
        value = host.secrets.get(name)
        if value is None:
            raise StartError(
                f"`plugin.audit.key_secret` names the secret {name!r}, which is not there: set it, "
                "or take the setting away for a key in a file"
            )
        return key_from_secret(value, name)

    async def _keeper(self, host: Host, sealer: Sealer) -> Keeper:
        store = host.get(STORE)
        if store is None:
            host.degrade(
                PART,
                f"no plugin provides a store: the last {self._settings.ring} rows are kept in "
                "memory and lost when the gateway stops (enable the plugin `storage`)",
            )
            return Ring(self._settings.ring, sealer)
        await tables_of(store, "audit", "hookgate.builtin_plugins.audit.tables")
        self._durable = store.durable
        return StoreKeeper(store, sealer)

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
            ),
            Operation(
                name="audit.verify",
                summary="Say whether the record is as it was written; name the first bad row.",
                params=VerifyParams,
                result=Verified,
                handler=self.verify_rows,
                scope="read",
                rest=("POST", "/v1/audit/verify"),
            ),
            Operation(
                name="audit.export",
                summary="Give rows in the order of chains and numbers, with their seals.",
                params=ExportParams,
                result=Exported,
                handler=self.export_rows,
                scope="read",
            ),
        ]

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

    async def list_rows(self, invocation: Invocation, params: ListParams) -> Rows:
        """Return the newest rows that fit."""
        wanted = params.model_dump(include={"kind", "turn", "session", "tool", "outcome"})
        filters = {key: value for key, value in wanted.items() if value}
        before = Place.parse(params.before) if params.before else None
        rows = await self._open_trail.newest(filters, limit=params.limit + 1, before=before)
        names = Row.model_fields
        shown = [Row(**{key: row[key] for key in names}) for row in rows[: params.limit]]
        older = ""
        if len(rows) > len(shown):
            older = str(Place.of(rows[params.limit - 1]))
        return Rows(entries=shown, next=older, durable=self._durable)

    async def verify_rows(self, invocation: Invocation, params: VerifyParams) -> Verified:
        """Look whether every row is as it was written."""
        expected = [parse_head(text) for text in params.heads]
        if wrong := [text for text, head in zip(params.heads, expected, strict=True) if not head]:
            raise TurnError(
                f"found the head {wrong[0][:80]!r}, expected CHAIN/SEQ/SEAL",
                code="invalid_params",
                action="take the heads from an export",
            )
        assert self._sealer is not None, "operations are called between start and stop"
        trail = self._open_trail
        await trail.flush()
        found = await trail.verify(self._sealer, [head for head in expected if head])
        fault = found.fault
        return Verified(
            ok=found.ok,
            rows=found.rows,
            unsealed=found.unsealed,
            foreign=found.foreign,
            bad=f"{fault.chain}/{fault.seq}" if fault else "",
            why=fault.what if fault else "",
            heads=tuple(map(str, found.heads.values())),
            durable=self._durable,
        )

    async def export_rows(self, invocation: Invocation, params: ExportParams) -> Exported:
        """Return some rows, and where to go on."""
        after = parse_head(f"{params.after}/") if params.after else None
        place = (after.chain, after.seq) if after else ("", 0)
        rows = await self._open_trail.page(place, params.limit)
        last = f"{rows[-1]['chain']}/{rows[-1]['seq']}" if len(rows) == params.limit else ""
        return Exported(rows=[dict(row) for row in rows], next=last)

    @property
    def _open_trail(self) -> Trail:
        if self._trail is None:
            raise RuntimeError("the audit is not open: the gateway is not running")
        return self._trail
