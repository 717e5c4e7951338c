"""The operation ``outcomes``: how the last turns went, and whether plans are changed for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote

from pydantic import Field

from hookgate import POSITIONAL, Invocation, OperationModel, Principal, operation

if TYPE_CHECKING:
    from hookgate.builtin_plugins.planning.keeping import Windows


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


class OutcomesResult(OperationModel):
    """How the last turns went."""

    scopes: tuple[OutcomesRow, ...]
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

    def __init__(self, windows: Callable[[], Windows]) -> None:
        self._windows = windows

    @operation("outcomes", rest=("GET", "/v1/outcomes"))
    async def outcomes(
        self, invocation: Invocation, scope: Annotated[str, POSITIONAL, Field(max_length=600)] = ""
    ) -> OutcomesResult:
        """Show how the last turns went, and whether plans are changed because of it.

        Args:
            scope: The key of one scope, such as `agent:main/channel:web`; all of them without it.

        Example:
            hookgate outcomes
        """
        known = self._windows()
        await known.flush()
        rows = [
            OutcomesRow.model_validate(window.kpi(key).to_json())
            for key, window in known.all().items()
            if scope in ("", key) and sees(invocation.principal, key)
        ]
        return OutcomesResult(scopes=tuple(rows), durable=known.durable)
