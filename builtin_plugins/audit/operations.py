"""The operations of the audit: showing, verifying and exporting what is recorded.

Whoever is bound to some addresses sees the rows of their sessions and no others. A row that
belongs to no session is for those from whom nothing is hidden.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from hookgate import Invocation, OperationModel, TurnError, operation
from hookgate.builtin_plugins.audit.seals import Head, Sealer, parse_head
from hookgate.builtin_plugins.audit.trail import Place, Trail
from hookgate.kit.durations import moment


class AuditListParams(OperationModel):
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
    call: str = ""
    """A tool call's id: all that was recorded of it. Quicker with its ``turn``."""
    tool: str = ""
    """A tool's name."""
    outcome: str = ""
    """``allow`` or ``deny``; or ``done``, ``failed``, ``denied``, ``cancelled``, ``timeout``."""


class AuditColumns(OperationModel):
    """What a row of the audit says beside its data."""

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
    """allow or deny for a decision, the result's status for an outcome."""


class AuditRow(AuditColumns):
    """One row of the audit."""

    data: dict[str, Any]
    """Everything else; secrets are masked, and ``redacted`` says where some were."""


class AuditRows(OperationModel):
    """Rows of the audit."""

    entries: list[AuditRow]
    next: str
    """What to give as ``before`` for older rows; empty where there are none."""
    durable: bool
    """Whether what is recorded outlives the process."""


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


class ExportedRows(OperationModel):
    """Rows as they are stored."""

    rows: list[dict[str, Any]]
    """With all columns; ``data`` is the JSON text that the seal covers."""
    next: str
    """What to give as ``after`` for the rows behind these; empty where there are none."""


class AuditOperations:
    """The record of decisions on tool calls: list, verify and export it.

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

    @operation("audit.list", rest=("GET", "/v1/audit"))
    async def list_rows(self, invocation: Invocation, params: AuditListParams) -> AuditRows:
        """Show the newest rows of the audit: decisions on tool calls, outcomes."""
        wanted = params.model_dump(include={"kind", "turn", "session", "call", "tool", "outcome"})
        filters = {key: value for key, value in wanted.items() if value}
        before = Place.parse(params.before) if params.before else None
        trail = self._trail()
        rows = await trail.newest(
            filters, limit=params.limit + 1, before=before, principal=invocation.principal
        )
        names = AuditRow.model_fields
        shown = [AuditRow(**{key: row[key] for key in names}) for row in rows[: params.limit]]
        older = ""
        if len(rows) > len(shown):
            older = str(Place.of(rows[params.limit - 1]))
        return AuditRows(entries=shown, next=older, durable=trail.durable)

    @operation("audit.verify", command="")
    async def verify_rows(self, _: Invocation, heads: tuple[str, ...] = ()) -> Verified:
        """Say whether the record is as it was written; name the first bad row.

        Args:
            heads: Heads of an earlier export, each as CHAIN/SEQ/SEAL: they must still be rows.
        """
        expected = [parse_head(text) for text in heads]
        if wrong := [text for text, head in zip(heads, expected, strict=True) if not head]:
            raise TurnError.invalid(
                f"found the head {wrong[0][:80]!r}, expected CHAIN/SEQ/SEAL",
                "take the heads from an export",
            )
        trail = self._trail()
        await trail.flush()
        exported = [head for head in expected if head]
        found = await trail.verify(self._sealer(), exported, kept=self._heads())
        if found.ok:
            await self._verified()
        fault = found.fault
        return Verified.of_record(
            found,
            bad=f"{fault.chain}/{fault.seq}" if fault else "",
            why=fault.what if fault else "",
            heads=tuple(map(str, found.heads.values())),
            durable=trail.durable,
        )

    @operation("audit.export")
    async def export_rows(
        self,
        invocation: Invocation,
        after: Annotated[str, Field(pattern=r"^([^/]+/\d{1,18})?$")] = "",
        limit: Annotated[int, Field(ge=1, le=1000)] = 1000,
        since: Annotated[str, Field(max_length=40)] = "",
        until: Annotated[str, Field(max_length=40)] = "",
        kind: str = "",
    ) -> ExportedRows:
        """Give rows in the order of chains and numbers, with their seals.

        The command writes all of them, and the heads of the chains in the last line. Kept
        elsewhere, it shows with `hookgate audit verify --head FILE` whether rows were cut off at
        the end, or everything was rebuilt with the key.

        Args:
            after: Only rows behind this one: the ``next`` of a former answer.
            limit: So many rows at most.
            since: Only rows from then on: ISO 8601, or `7d` for the last seven days.
            until: Only rows of before then, written likewise.
            kind: Only rows of this kind, such as ``tool_decided``.
        """
        behind = parse_head(f"{after}/") if after else None
        place = (behind.chain, behind.seq) if behind else ("", 0)
        start, end = (_moment(text, invocation.host.clock.now()) for text in (since, until))
        rows = await self._trail().page(place, limit, since=start, until=end, kind=kind)
        last = f"{rows[-1]['chain']}/{rows[-1]['seq']}" if len(rows) == limit else ""
        sees = invocation.principal.sees
        return ExportedRows(rows=[dict(row) for row in rows if sees(row["session"])], next=last)


def _moment(text: str, now: datetime) -> str:
    """Return a time as rows have it."""
    try:
        return moment(text, now).isoformat(timespec="microseconds") if text else ""
    except ValueError as error:
        raise TurnError.invalid(error, "write it in one of these forms") from None
