"""The course of a turn, in states that follow one another in legal order only.

::

    planned, executing, completed
    planned, executing, degraded, completed
    planned, executing, degraded, recovered, completed

and ``errored`` in place of whatever comes next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

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
