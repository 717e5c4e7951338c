"""How well a turn went, where no plugin says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookgate.core.domain.turn import Outcome

if TYPE_CHECKING:
    from hookgate.core.domain.turn import Turn

__all__ = ["judge"]

WHOLE_ANSWER = 48
"""An answer with so many characters counts as a whole one; shorter ones are partial."""


def judge(turn: Turn) -> Outcome:
    """Return a rough judgement by the turn's ending and the length of its answer.

    A forced end scores 0; an answer of `WHOLE_ANSWER` characters 0.95; a shorter one, or
    tool calls alone, 0.6; nothing at all 0.1.
    """
    if turn.ending not in ("done", "awaiting_client"):
        return Outcome(status="failed", score=0.0, reason=f"the turn ended as {turn.ending}")
    if len(turn.answer) >= WHOLE_ANSWER:
        return Outcome(status="success", score=0.95, reason="there is a whole answer")
    if turn.answer or turn.calls:
        return Outcome(status="partial", score=0.6, reason="there is a short answer")
    return Outcome(status="failed", score=0.1, reason="there is no answer")
