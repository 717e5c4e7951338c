"""The operations of the audit: showing, verifying and exporting what is recorded.

Whoever is bound to some addresses sees the rows of their sessions and no others. A row that
belongs to no session is for those from whom nothing is hidden.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic import Field

from hookgate import Invocation, Operation, OperationModel, TurnError
from hookgate.builtin_plugins.audit.sealing import Head, Sealer, parse_head
from hookgate.builtin_plugins.audit.trail import Place, Trail


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


class AuditOperations:
    """The handlers, and what they are offered as.

    Args:
        trail: Returns the open trail.
        sealer: Returns what seals its rows.
        heads: Returns heads that must still be rows, whatever a caller brings.
        verified: Told that everything is as it was written.
    """

    def __init__(
        self,
        trail: Callable[[], Trail],
        sealer: Callable[[], Sealer],
        heads: Callable[[], Sequence[Head]],
        verified: Callable[[], Awaitable[None]],
    ) -> None:
        self._trail = trail
        self._sealer = sealer
        self._heads = heads
        self._verified = verified

    def all(self) -> Sequence[Operation[Any, Any]]:
        """Return the operations."""
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

    async def list_rows(self, invocation: Invocation, params: ListParams) -> Rows:
        """Return the newest rows that fit and that the caller may see."""
        wanted = params.model_dump(include={"kind", "turn", "session", "tool", "outcome"})
        filters = {key: value for key, value in wanted.items() if value}
        before = Place.parse(params.before) if params.before else None
        trail = self._trail()
        rows = await trail.newest(
            filters, limit=params.limit + 1, before=before, principal=invocation.principal
        )
        names = Row.model_fields
        shown = [Row(**{key: row[key] for key in names}) for row in rows[: params.limit]]
        older = ""
        if len(rows) > len(shown):
            older = str(Place.of(rows[params.limit - 1]))
        return Rows(entries=shown, next=older, durable=trail.durable)

    async def verify_rows(self, invocation: Invocation, params: VerifyParams) -> Verified:
        """Look whether every row is as it was written."""
        expected = [parse_head(text) for text in params.heads]
        if wrong := [text for text, head in zip(params.heads, expected, strict=True) if not head]:
            raise TurnError(
                f"found the head {wrong[0][:80]!r}, expected CHAIN/SEQ/SEAL",
                code="invalid_params",
                action="take the heads from an export",
            )
        trail = self._trail()
        await trail.flush()
        exported = [head for head in expected if head]
        found = await trail.verify(self._sealer(), exported, kept=self._heads())
        if found.ok:
            await self._verified()
        fault = found.fault
        return Verified(
            ok=found.ok,
            rows=found.rows,
            unsealed=found.unsealed,
            foreign=found.foreign,
            bad=f"{fault.chain}/{fault.seq}" if fault else "",
            why=fault.what if fault else "",
            heads=tuple(map(str, found.heads.values())),
            durable=trail.durable,
        )

    async def export_rows(self, invocation: Invocation, params: ExportParams) -> Exported:
        """Return some rows that the caller may see, and where to go on."""
        after = parse_head(f"{params.after}/") if params.after else None
        place = (after.chain, after.seq) if after else ("", 0)
        rows = await self._trail().page(place, params.limit)
        last = f"{rows[-1]['chain']}/{rows[-1]['seq']}" if len(rows) == params.limit else ""
        sees = invocation.principal.sees
        return Exported(rows=[dict(row) for row in rows if sees(row["session"])], next=last)
