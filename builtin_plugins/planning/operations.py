"""The operation ``outcomes``: how the last turns went, and whether plans are changed for it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import unquote

from pydantic import Field

from hookgate import POSITIONAL, Invocation, OperationModel, OutcomeEntry, Principal, operation
from hookgate.builtin_plugins.planning.kpi import KeptWindows


class OutcomesRow(OperationModel):
    """The last turns of one scope."""

    scopeKey: str
    """`global`, `agent:NAME` or `agent:NAME/channel:NAME`, names as in the key of a session."""
    sampleCount: int
    """How many turns count."""
    successCount: int
    partialCount: int
    failedCount: int
    successRate: float
    """The share of those that were a success, 0 to 1."""
    averageScore: float
    """The mean of their scores."""
    weightedSuccessRate: float
    """The mean in which later turns weigh more."""
    degraded: bool
    """Whether plans are changed because turns went badly."""


class FailedTurn(OperationModel):
    """A turn that failed."""

    turn: str
    """Its id; `hookgate turns show` tells more of one of the last ones."""
    ended: datetime
    """When it ended."""
    session: str
    """The key of its session; empty for turns of before that was kept."""
    scopeKey: str
    """The scope that it counts in."""
    fault: str
    """What of discovery and tools went wrong in it, which is what plans are changed for:
    `discovery`, `tools`, or empty, as where a provider could not be reached."""
    reason: str
    """Why it failed."""


class OutcomesResult(OperationModel):
    """How the last turns went."""

    scopes: tuple[OutcomesRow, ...]
    failed: tuple[FailedTurn, ...]
    """The last turns that failed, the newest first, of sessions that are the caller's to see."""
    durable: bool
    """Whether this outlives the gateway."""


def sees(principal: Principal, scope_key: str) -> bool:
    """Whether a principal may see what became of a scope: not of a channel that is not its own."""
    _, _, channel = scope_key.partition("/channel:")
    return (
        not channel
        or principal.sees_all
        or any(claim.channel in ("*", unquote(channel)) for claim in principal.bindings)
    )


class OutcomeOperations:
    """Outcomes: how turns went."""

    def __init__(self, windows: Callable[[], KeptWindows]) -> None:
        self._windows = windows

    @operation("outcomes", rest=("GET", "/v1/outcomes"))
    async def outcomes(
        self,
        invocation: Invocation,
        scope: Annotated[str, POSITIONAL, Field(max_length=600)] = "",
        failed: Annotated[int, Field(ge=0, le=1000)] = 10,
    ) -> OutcomesResult:
        """Show how the last turns went, which failed and why, and whether plans are changed.

        Args:
            scope: The key of one scope, such as `agent:main/channel:web`; all of them without it.
            failed: How many of the turns that failed are listed at most.

        Example:
            hookgate outcomes
        """
        known = self._windows()
        await known.flush()
        by = invocation.principal
        windows = {
            key: window
            for key, window in known.all().items()
            if scope in ("", key) and sees(by, key)
        }
        rows = [
            OutcomesRow.model_validate(window.kpi(key).to_json()) for key, window in windows.items()
        ]
        bad = [
            (entry, key)
            for key, window in windows.items()
            for entry in window.entries
            if entry.status == "failed" and by.sees(entry.session)
        ]
        bad.sort(key=lambda one: one[0].at, reverse=True)
        return OutcomesResult(
            scopes=tuple(rows),
            failed=tuple(_failed(entry, key) for entry, key in bad[:failed]),
            durable=known.durable,
        )


def _failed(entry: OutcomeEntry, scope: str) -> FailedTurn:
    return FailedTurn.of_record(
        entry,
        ended=datetime.fromtimestamp(entry.at / 1_000_000, UTC),
        scopeKey=scope,
    )
