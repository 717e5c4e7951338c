"""How a turn ended, how well it went, and what follows it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hookgate import hookspecs
from hookgate.core.domain.errors import (
    HookError,
    LaneLostError,
    ProviderError,
    RefusedError,
    StaleFenceError,
    StoreError,
    TurnCancelledError,
    TurnError,
)
from hookgate.core.domain.turn import Outcome, Turn, TurnEnding

if TYPE_CHECKING:
    from hookgate.core.host import Host

HOOK_ACTION = "tell whoever runs this gateway: the plugin has to be mended, or turned off"
STORE_ACTION = "try again; `status` says what is wrong"
LOST_ACTION = "send the message again"
REASON_CHARS = 300
INTERNAL_ACTION = "tell whoever runs this gateway"
"""What the client of a turn can do where a part of the gateway has failed."""

WHOLE_ANSWER = 48
"""An answer with so many characters counts as a whole one; shorter ones are partial."""


SCORES = {"whole": (0.95, 0.85), "short": (0.6, 0.5)}
"""What answers score: in a turn that went as planned, and in a degraded one."""


def ending_of(turn: Turn, error: BaseException, reason: str) -> tuple[TurnEnding, TurnError]:
    """Return how a turn ended that `error` cut short, in words that a client can act on.

    Args:
        turn: The turn.
        error: What came out of it.
        reason: Why it was cancelled, where somebody has said so.
    """
    match error:
        case asyncio.CancelledError():
            return "cancelled", TurnCancelledError(reason or "cancelled")
        case TurnCancelledError():
            return "cancelled", error
        case RefusedError():
            return "refused", error
        case TurnError():
            return "failed", error
        case HookError():
            where = {"hook": error.hook, "plugin": error.plugin}
            return "failed", TurnError(
                str(error), code="hook_failed", action=HOOK_ACTION, data=where
            )
        case ProviderError():
            why: dict[str, Any] = {"kind": error.kind}
            if error.retry_after is not None:
                why["retry_after"] = error.retry_after
            return "failed", TurnError(str(error), code=error.code, action=error.action, data=why)
        case StaleFenceError():
            again = {"retry_after": 1}
            return "failed", LaneLostError(str(error), action=LOST_ACTION, data=again)
        case StoreError():
            return "failed", TurnError(str(error), code="store_failed", action=STORE_ACTION)
        case _:
            return "failed", TurnError(
                f"internal error; the log of the gateway has it under turn {turn.id}",
                code="internal",
                action=INTERNAL_ACTION,
            )


async def ended(host: Host, turn: Turn) -> None:
    """Let plugins say what they have to before a turn is told to be done. Raises nothing."""
    try:
        await host.hooks.notify(hookspecs.turn_ended, turn)
    except HookError as error:  # the operator has made it required: the turn is over all the same
        host.log.error("what ends a turn failed", turn=turn.id, error=str(error))


async def follow(host: Host, turn: Turn) -> None:
    """Judge an ended turn and tell whoever follows; off the lane. Raises nothing."""
    try:
        outcome = await host.hooks.first(hookspecs.judge_turn, turn) or outcome_by_ending(turn)
    except HookError:  # the operator has made it required; `hook_failed` has heard of it
        outcome = outcome_by_ending(turn)
    host.metric(
        "turn",
        turn=turn.id,
        session=str(turn.session),
        agent=turn.agent.name,
        ending=turn.ending,
        outcome=outcome.status,
        score=outcome.score,
        tool_calls=len(turn.calls),
        milliseconds=(host.clock.now() - turn.started).total_seconds() * 1000,
        **turn.usage.to_json(),
    )
    try:
        await host.hooks.notify(hookspecs.after_turn, turn, outcome)
    except HookError as error:
        host.log.error("what follows a turn failed", turn=turn.id, error=str(error))


def outcome_by_ending(turn: Turn) -> Outcome:
    """Return a rough judgement by the turn's ending and the length of its answer.

    A forced end scores 0; an answer of `WHOLE_ANSWER` characters 0.95; a shorter one, or
    tool calls alone, 0.6; nothing at all 0.1. A degraded turn scores 0.1 less than the two.
    Calls of tools that are not there are no tool calls.
    """
    if turn.ending not in ("done", "awaiting_client"):
        why = f": {turn.error.code}: {turn.error}" if turn.error is not None else ""
        reason = f"the turn ended as {turn.ending}{why}"
        return Outcome(status="failed", score=0.0, reason=reason[:REASON_CHARS])
    degraded = bool(turn.degraded)
    why = ", though the turn was degraded" if degraded else ""
    answer = turn.answer.strip()
    if len(answer) >= WHOLE_ANSWER:
        score = SCORES["whole"][degraded]
        return Outcome(status="success", score=score, reason=f"there is a whole answer{why}")
    called = any(done.call.name in turn.offered for done in turn.calls)
    if answer or called or turn.ending == "awaiting_client":
        what = "there is a short answer" if answer else "there are tool calls alone"
        return Outcome(status="partial", score=SCORES["short"][degraded], reason=what + why)
    return Outcome(status="failed", score=0.1, reason="there is no answer")
