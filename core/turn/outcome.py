"""How well a turn went, where no plugin says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookgate.core.domain.turn import Outcome

if TYPE_CHECKING:
    from hookgate.core.domain.turn import Turn

WHOLE_ANSWER = 48
"""An answer with so many characters counts as a whole one; shorter ones are partial."""


SCORES = {"whole": (0.95, 0.85), "short": (0.6, 0.5)}
"""What answers score: in a turn that went as planned, and in a degraded one."""


def judge(turn: Turn) -> Outcome:
    """Return a rough judgement by the turn's ending and the length of its answer.

    A forced end scores 0; an answer of `WHOLE_ANSWER` characters 0.95; a shorter one, or
    tool calls alone, 0.6; nothing at all 0.1. A degraded turn scores 0.1 less than the two.
    """
    if turn.ending not in ("done", "awaiting_client"):
        return Outcome(status="failed", score=0.0, reason=f"the turn ended as {turn.ending}")
    degraded = bool(turn.degraded)
    why = ", though the turn was degraded" if degraded else ""
    answer = turn.answer.strip()
    if len(answer) >= WHOLE_ANSWER:
        score = SCORES["whole"][degraded]
        return Outcome(status="success", score=score, reason=f"there is a whole answer{why}")
    if answer or turn.calls or turn.ending == "awaiting_client":
        what = "there is a short answer" if answer else "there are tool calls alone"
        return Outcome(status="partial", score=SCORES["short"][degraded], reason=what + why)
    return Outcome(status="failed", score=0.1, reason="there is no answer")
