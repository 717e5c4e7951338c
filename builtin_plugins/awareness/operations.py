"""The operations of cards and awareness: status, report, switch, list, explain, approve."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hookgate import AUDIT, Empty, Invocation, NotAllowedError, Operation, TurnError
from hookgate.builtin_plugins.awareness.operations_models import (
    Approved,
    ApproveParams,
    CardRows,
    CountRow,
    DisableParams,
    ExplainParams,
    ExplainResult,
    FigureRow,
    PointerResult,
    ReportParams,
    ReportResult,
    StatusResult,
    SwitchRow,
)
from hookgate.builtin_plugins.awareness.selection.pointer import pointer
from hookgate.builtin_plugins.awareness.switch.control import milliseconds
from hookgate.builtin_plugins.awareness.switch.report import figures, seen
from hookgate.settings import redact_json

if TYPE_CHECKING:
    from hookgate.builtin_plugins.awareness.selection.explaining import Explainer
    from hookgate.builtin_plugins.awareness.service import Awareness

_HOUR = 3_600_000


class AwarenessOperations:
    """The handlers, and what they are offered as."""

    def __init__(self, awareness: Awareness, explainer: Explainer) -> None:
        self._awareness = awareness
        self._explainer = explainer

    def all(self) -> Sequence[Operation[Any, Any]]:
        """Return the operations."""
        return (*self._of_awareness(), *self._of_cards())

    async def status(self, invocation: Invocation, _: Empty) -> StatusResult:
        """Say how awareness is."""
        host, control, registry = invocation.host, self._awareness.control, self._awareness.registry
        window, rules = control.window(host), control.switch.settings
        review = await registry.reviewed(host)
        return StatusResult.model_validate(
            redact_json(
                host.secrets,
                {
                    "on": control.on,
                    "why": control.why_off,
                    "turns": window.turns,
                    "with_card": window.triggered,
                    "rate": round(window.rate, 4),
                    "threshold": rules.threshold,
                    "samples": rules.samples,
                    "window_hours": rules.window_hours,
                    "cards": len(host.cards),
                    "rejected": dict(review.rejected),
                    "warned": dict(review.warned),
                    "differing": review.differing,
                    "problems": [str(problem) for problem in registry.problems],
                },
            )
        )

    async def report(self, invocation: Invocation, params: ReportParams) -> ReportResult:
        """Say what cards have cost in the sessions that the caller may see."""
        host, control = invocation.host, self._awareness.control
        await control.flush()
        since = milliseconds(host) - int(params.hours * _HOUR)
        try:
            known = await asyncio.to_thread(control.records, host, since)
        except OSError as error:
            raise TurnError(
                f"the records of turns cannot be read: {error}",
                code="unreadable",
                action="let the gateway's user read that file, or take it away",
            ) from error
        records = [record for record in known if invocation.principal.sees(record.session)]
        trial = await self._explainer.trial() if params.trial else None
        # There may be hundreds of thousands.
        cards, tags = await asyncio.to_thread(seen, records)
        rows = await asyncio.to_thread(figures, records, trial)
        return ReportResult(
            hours=params.hours,
            turns=len(records),
            sessions=len({record.session for record in records}),
            figures=tuple(FigureRow(**row) for row in rows),
            cards=_counts(cards),
            tags=_counts(tags),
            shown_for_nothing=_counts(trial.cards if trial else {}),
        )

    async def enable(self, invocation: Invocation, _: Empty) -> SwitchRow:
        """Turn cards on."""
        if not self._awareness.control.settings.enabled:
            raise NotAllowedError(
                "cards are off by the settings",
                action="set `plugin.awareness.enabled = true`, then `hookgate reload`",
            )
        await self._awareness.control.turn_on(invocation.host)
        return await self._switched(invocation, "awareness_enabled", "")

    async def disable(self, invocation: Invocation, params: DisableParams) -> SwitchRow:
        """Turn cards off."""
        # It is kept in a file.
        reason = invocation.host.secrets.redact(params.reason)
        await self._awareness.control.turn_off(invocation.host, reason)
        return await self._switched(invocation, "awareness_disabled", reason)

    async def _switched(self, invocation: Invocation, kind: str, reason: str) -> SwitchRow:
        audit = invocation.host.get(AUDIT)
        if audit is not None:
            await audit.append(kind, {"by": invocation.principal.id, "reason": reason})
        return SwitchRow(on=self._awareness.control.on, why=self._awareness.control.why_off)

    async def point(self, invocation: Invocation, _: Empty) -> PointerResult:
        """Say what the pointer says."""
        text = pointer(invocation.host.tools.view())
        return PointerResult(text=text, tokens=invocation.host.tokens.count(text))

    async def listed(self, invocation: Invocation, _: Empty) -> CardRows:
        """List the cards."""
        await self._awareness.registry.reviewed(invocation.host)
        rows = [self._awareness.card_row(card) for card in invocation.host.cards.view().values()]
        rows.sort(key=lambda row: str(row["id"]))
        return CardRows.model_validate(redact_json(invocation.host.secrets, {"cards": rows}))

    async def explain(self, invocation: Invocation, params: ExplainParams) -> ExplainResult:
        """Say which cards a message would bring up."""
        found = await self._explainer.explain(**params.model_dump())
        return ExplainResult.model_validate(redact_json(invocation.host.secrets, found))

    async def approve(self, invocation: Invocation, params: ApproveParams) -> Approved:
        """Approve cards as they are now."""
        host = invocation.host
        if bool(params.id) == params.all or (params.all and params.digest):
            raise TurnError(
                "found neither a card nor `all`, or both",
                code="invalid_params",
                action="say `--id ID` for one card, with its `--digest` if you like, or `--all`",
            )
        by = invocation.principal.id
        if params.id:
            found = await self._awareness.accept(params.id, by=by, digest=params.digest)
        else:
            found = await self._awareness.approve(list(host.cards.view().values()), by=by)
        return Approved(cards=found)

    def _of_awareness(self) -> Sequence[Operation[Any, Any]]:
        return (
            Operation(
                name="awareness.status",
                summary="Show whether cards are on, and what is wrong with any.",
                params=Empty,
                result=StatusResult,
                handler=self.status,
                rest=("GET", "/v1/awareness"),
                command="awareness status",
            ),
            Operation(
                name="awareness.report",
                summary="Show what cards have cost, and how often they came up.",
                params=ReportParams,
                result=ReportResult,
                handler=self.report,
                command="awareness report",
            ),
            Operation(
                name="awareness.enable",
                summary="Turn cards on again, with a fresh window of the kill switch.",
                params=Empty,
                result=SwitchRow,
                handler=self.enable,
                scope="operate",
                command="awareness enable",
            ),
            Operation(
                name="awareness.disable",
                summary="Turn cards off at once; turns that run finish as they began.",
                params=DisableParams,
                result=SwitchRow,
                handler=self.disable,
                scope="operate",
                command="awareness disable",
            ),
            Operation(
                name="awareness.pointer",
                summary="Show the two sentences for an AGENTS.md, which name the tools.",
                params=Empty,
                result=PointerResult,
                handler=self.point,
                command="awareness pointer",
            ),
        )

    def _of_cards(self) -> Sequence[Operation[Any, Any]]:
        return (
            Operation(
                name="cards.list",
                summary="List the cards, and whether each one can be shown.",
                params=Empty,
                result=CardRows,
                handler=self.listed,
                rest=("GET", "/v1/cards"),
                command="cards list",
            ),
            Operation(
                name="cards.explain",
                summary="Show which cards a message would bring up, and why not the others.",
                params=ExplainParams,
                result=ExplainResult,
                handler=self.explain,
                command="cards explain",
            ),
            Operation(
                name="cards.approve",
                summary="Approve cards as they are now.",
                params=ApproveParams,
                result=Approved,
                handler=self.approve,
                scope="operate",
                command="cards approve",
            ),
        )


def _counts(found: Mapping[str, int]) -> tuple[CountRow, ...]:
    return tuple(CountRow(name=name, turns=count) for name, count in found.items())
