"""The kill switch: cards turn themselves off when too many turns get one.

Cards are meant for the few turns that need them. When more than a share of all turns in a
window has had one, something is wrong - a tag that fits everything, a keyword such as "the" -
and every turn pays for it. Then cards go off, and stay off until somebody turns them on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookgate.builtin_plugins.awareness.settings import KillSwitchSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchState:
    """Whether cards are on; kept as a switch, so that it survives a restart.

    Attributes:
        on: Whether they are.
        reason: Why not.
        at: When it was last changed, in milliseconds since 1970.
        since: The window holds no turn before this, in milliseconds since 1970.
    """

    on: bool = True
    reason: str = ""
    at: int = 0
    since: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, held: Any) -> SwitchState:
        """Return what `to_json` wrote; cards are on where nobody has written anything (None).

        Raises:
            ValueError: It is not what `to_json` writes.
        """
        if held is None:
            return cls()
        if not isinstance(held, dict):
            raise ValueError(f"found {type(held).__name__}, expected an object")
        on, reason = held.get("on"), held.get("reason", "")
        at, since = held.get("at", 0), held.get("since", 0)
        if not (isinstance(on, bool) and isinstance(reason, str)):
            raise ValueError("found no `on` and `reason`")
        if not (type(at) is int and type(since) is int):
            raise ValueError("found `at` or `since` that is no integer")
        return cls(on=on, reason=reason, at=at, since=since)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The turns that are looked back on.

    Attributes:
        turns: All of them.
        triggered: Those that have had a card.
        rate: ``triggered / turns``; 0 where there are none.
    """

    turns: int
    triggered: int

    @property
    def rate(self) -> float:
        """The share of turns that have had a card."""
        return self.triggered / self.turns if self.turns else 0.0


class KillSwitch:
    """Counts turns, and says when it is too much. It touches no file.

    Attributes:
        state: Whether cards are on.
    """

    def __init__(self, settings: KillSwitchSettings, state: SwitchState | None = None) -> None:
        self.settings = settings
        self.state = state or SwitchState()
        self._turns: deque[tuple[int, bool]] = deque()
        self._triggered = 0

    def replay(self, turns: Iterable[tuple[int, bool]]) -> None:
        """Count turns of an earlier run, as ``(milliseconds since 1970, had a card)``."""
        for at, triggered in turns:
            if at >= self.state.since:
                self._count(at, triggered)

    def add(self, at: int, *, triggered: bool) -> Window | None:
        """Count a turn; return the window where it has turned cards off now.

        Args:
            at: When it ended, in milliseconds since 1970.
            triggered: Whether it had a card.
        """
        self._count(at, triggered)
        window, rules = self.window(at), self.settings
        if not (rules.enabled and self.state.on and window.turns >= rules.samples):
            return None
        if window.rate <= rules.threshold:
            return None
        why = (
            f"{window.triggered} of {window.turns} turns had a card in "
            f"{rules.window_hours:g} hours: {window.rate:.1%}, at most {rules.threshold:.0%} "
            "were expected"
        )
        self.state = replace(self.state, on=False, reason=why, at=at)
        return window

    def turn_on(self, at: int) -> None:
        """Turn cards on again; the window begins afresh."""
        self._turns.clear()
        self._triggered = 0
        self.state = SwitchState(on=True, at=at, since=at)

    def turn_off(self, at: int, reason: str) -> None:
        """Turn cards off, for `reason`."""
        self.state = replace(self.state, on=False, reason=reason, at=at)

    def take(self, state: SwitchState) -> None:
        """Take over what another gateway switched; of the window stays what is not before it."""
        self.state = state
        turns, self._turns, self._triggered = self._turns, deque(), 0
        self.replay(turns)

    def window(self, at: int) -> Window:
        """Return the window that ends at `at`, in milliseconds since 1970."""
        self._set_back(at)
        start = at - int(self.settings.window_hours * 3_600_000)
        while self._turns and self._turns[0][0] < start:
            self._triggered -= self._turns.popleft()[1]
        return Window(turns=len(self._turns), triggered=self._triggered)

    def _count(self, at: int, triggered: bool) -> None:
        self._set_back(at)
        self._turns.append((at, triggered))
        self._triggered += triggered

    def _set_back(self, now: int) -> None:
        """Count turns of a clock that was ahead as if they had ended `now`.

        They would stay in the window until that time comes, and keep all behind them in it.
        """
        ahead = []
        while self._turns and self._turns[-1][0] > now:
            ahead.append((now, self._turns.pop()[1]))
        self._turns.extend(reversed(ahead))
