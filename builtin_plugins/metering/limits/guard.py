"""Sessions whose turn burns far more than any of theirs has: they are paused until somebody looks.

What a session's turns have used in the last days is kept in memory, and read from the ledger when
the session is first seen. A turn that has used more than so many times their 95th percentile gets
no further model call.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from hookgate.builtin_plugins.metering.settings import GuardSettings

__all__ = ["Guard", "percentile"]

SESSIONS = 4096
"""Sessions that are kept in memory; of others the history is read again."""
TURNS = 1000
"""Turns of a session that are looked at, the last ones."""


def percentile(values: Iterable[int], share: float) -> int:
    """Return the least of `values` that `share` of them do not exceed (the nearest rank)."""
    ordered = sorted(values)
    return ordered[max(ceil(len(ordered) * share) - 1, 0)]


@dataclass(slots=True)
class _Burn:
    """What is known of a session: its ended turns, and the one that runs."""

    turns: deque[tuple[datetime, int]] = field(default_factory=lambda: deque(maxlen=TURNS))
    turn: str = ""
    used: int = 0
    at: datetime | None = None
    known: bool = False


class Guard:
    """Knows what the turns of sessions use.

    Attributes:
        settings: When a turn burns too much.
    """

    def __init__(self, settings: GuardSettings) -> None:
        self.settings = settings
        self._burns: OrderedDict[str, _Burn] = OrderedDict()

    def knows(self, session: str) -> bool:
        """Whether the history of a session has been asked for."""
        burn = self._of(session)
        known, burn.known = burn.known, True
        return known

    def recall(self, session: str, turns: Iterable[tuple[datetime, int]]) -> None:
        """Take what the ledger has of a session's earlier turns, the oldest first."""
        self._of(session).turns.extendleft(reversed(list(turns)))

    def add(self, session: str, turn: str, tokens: int, at: datetime) -> None:
        """Count tokens of a turn; one that another turn follows has ended."""
        burn = self._of(session)
        if burn.turn != turn:
            if burn.at is not None:
                burn.turns.append((burn.at, burn.used))
            burn.turn, burn.used = turn, 0
        burn.used += tokens
        burn.at = at

    def strange(self, session: str, turn: str, now: datetime) -> str:
        """Say why a turn may not go on, or "".

        Args:
            session: The session.
            turn: The turn that wants to ask a model.
            now: The time.
        """
        burn, settings = self._of(session), self.settings
        if not settings.enabled or burn.turn != turn or burn.used < settings.least_tokens:
            return ""
        recent = [used for at, used in burn.turns if (now - at).days < settings.days]
        if len(recent) < settings.samples:
            return ""
        usual = percentile(recent, 0.95)
        if burn.used <= settings.times * usual:
            return ""
        return (
            f"this turn has used {burn.used:,} tokens, {settings.times:g} times more than "
            f"19 of 20 of its session's last {len(recent)} turns ({usual:,} tokens)"
        )

    def _of(self, session: str) -> _Burn:
        burn = self._burns.setdefault(session, _Burn())
        self._burns.move_to_end(session)
        if len(self._burns) > SESSIONS:
            self._burns.popitem(last=False)
        return burn
