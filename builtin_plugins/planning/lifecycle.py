"""The course of a turn, in states that follow one another in legal order only.

::

    planned, executing, completed
    planned, executing, degraded, completed
    planned, executing, degraded, recovered, completed

and ``errored`` in place of whatever comes next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from hookgate.builtin_plugins.planning.settings import AdaptiveSettings

State: TypeAlias = Literal["planned", "executing", "degraded", "recovered", "completed", "errored"]

NEXT: Mapping[State | None, frozenset[State]] = {
    None: frozenset(("planned", "errored")),
    "planned": frozenset(("executing", "errored")),
    "executing": frozenset(("degraded", "completed", "errored")),
    "degraded": frozenset(("recovered", "completed", "errored")),
    "recovered": frozenset(("completed", "errored")),
    "completed": frozenset(),
    "errored": frozenset(),
}
"""What may follow a state; None stands for a turn that nothing is known of yet."""

_BEFORE: Mapping[State, State] = {
    "executing": "planned",
    "degraded": "executing",
    "recovered": "degraded",
    "completed": "executing",
}
"""The state by which each is reached where the one before it was missed."""


class Lifecycle:
    """The states of one turn so far.

    Attributes:
        state: The last one.
    """

    def __init__(self) -> None:
        self.state: State | None = None
        self._seen: set[State] = set()

    def reach(self, state: State) -> Sequence[State]:
        """Go on to `state`, and return what was passed on the way, `state` last.

        Nothing is passed where it was reached before, or cannot be reached any more.
        """
        if state in self._seen or not NEXT[self.state]:
            return ()
        if state in NEXT[self.state]:
            self.state = state
            self._seen.add(state)
            return (state,)
        before = _BEFORE.get(state)
        passed = self.reach(before) if before is not None else ()
        return (*passed, *self.reach(state)) if passed else ()


# -- When plans change because outcomes are bad, and when they change back -------


class WeightedRate:
    """The mean of scores of which each weighs less the longer ago it was.

    Args:
        half_life: So many scores ago, one weighs half as much as the last one.
    """

    def __init__(self, half_life: float) -> None:
        self._decay: float = 0.5 ** (1 / half_life)
        self._sum = self._weight = 0.0

    def add(self, score: float) -> None:
        """Take in a score."""
        self._sum = self._sum * self._decay + score
        self._weight = self._weight * self._decay + 1

    def drop(self, score: float, ago: int) -> None:
        """Let go of a score, as which `ago` others came since."""
        weight = self._decay**ago
        self._sum -= score * weight
        self._weight -= weight

    @property
    def rate(self) -> float:
        """The mean, 0 to 1; 0 of nothing."""
        # Scores of 0.7 are at 0.7, whatever floating point makes of their sum.
        mean = round(self._sum / self._weight, 9) if self._weight > 0 else 0.0
        return min(max(mean, 0.0), 1.0)


class Recovery:
    """Whether the outcomes of a scope are bad.

    They get bad where their weighted rate sinks below one threshold, and good again where the
    mean of the last ones reaches a higher one. After each change only later outcomes count, as
    many as it takes: so plans do not change back and forth.

    Attributes:
        degraded: Whether they are.
    """

    def __init__(self, settings: AdaptiveSettings, half_life: float) -> None:
        self._settings = settings
        self._half_life = half_life
        self.degraded = False
        self._begin()

    def _begin(self) -> None:
        self._samples = 0
        self._rate = WeightedRate(self._half_life)
        self._last: deque[float] = deque(maxlen=self._settings.recover_samples)

    @property
    def rate(self) -> float:
        """The weighted rate since the last change."""
        return self._rate.rate

    def add(self, score: float) -> None:
        """Take in the outcome of a turn."""
        self._samples += 1
        self._rate.add(score)
        self._last.append(score)
        if self._recovers() if self.degraded else self._degrades():
            self.degraded = not self.degraded
            self._begin()

    def _degrades(self) -> bool:
        settings = self._settings
        enough = self._samples >= settings.min_samples
        return enough and self.rate < settings.min_weighted_success_rate

    def _recovers(self) -> bool:
        enough = len(self._last) == self._settings.recover_samples
        mean = round(sum(self._last) / len(self._last), 9)
        return enough and mean >= self._settings.recover_success_rate
