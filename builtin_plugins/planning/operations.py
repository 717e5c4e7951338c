"""The operation ``outcomes``: how the last turns went, and whether plans are changed for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pydantic import Field

from hookgate import Invocation, Operation, OperationModel, Principal

if TYPE_CHECKING:
    from hookgate.builtin_plugins.planning.keeping import Windows


class OutcomesParams(OperationModel):
    """Which outcomes are wanted."""

    scope: str = Field(default="", max_length=600)
    """The key of one scope, such as `agent:main/channel:web`; all of them without it."""


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


def outcomes_operation(
    windows: Callable[[], Windows],
) -> Operation[OutcomesParams, OutcomesResult]:
    """Return the operation.

    Args:
        windows: Returns the windows.
    """

    async def show(invocation: Invocation, params: OutcomesParams) -> OutcomesResult:
        known = windows()
        await known.flush()
        rows = [
            OutcomesRow.model_validate(window.kpi(scope).to_json())
            for scope, window in known.all().items()
            if params.scope in ("", scope) and sees(invocation.principal, scope)
        ]
        return OutcomesResult(scopes=tuple(rows), durable=known.durable)

    handler: Callable[[Invocation, OutcomesParams], Awaitable[OutcomesResult]] = show
    return Operation(
        name="outcomes",
        summary="Show how the last turns went, and whether plans are changed because of it.",
        params=OutcomesParams,
        result=OutcomesResult,
        handler=handler,
        rest=("GET", "/v1/outcomes"),
    )
