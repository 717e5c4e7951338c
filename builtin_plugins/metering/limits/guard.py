"""Sessions whose turn burns far more than any of theirs has: they are paused until somebody looks.

What a session's turns have used in the last days is kept in memory, and read from the ledger when
the session is first seen. A turn that has used more than so many times their 95th percentile gets
no further model call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hookgate.builtin_plugins.metering.settings import GuardSettings

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
    """What is known of a session.

    Attributes:
        turns: When each of its turns has last asked a model, and the tokens of it, oldest first.
        known: Whether the ledger was asked for them.
    """

    turns: OrderedDict[str, tuple[datetime, int]] = field(default_factory=OrderedDict)
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

    def recall(self, session: str, turns: Iterable[tuple[str, datetime, int]]) -> None:
        """Take what the ledger has of a session's earlier turns, the oldest first."""
        burn = self._of(session)
        earlier = {turn: (at, used) for turn, at, used in turns if turn not in burn.turns}
        burn.turns = OrderedDict([*earlier.items(), *burn.turns.items()][-TURNS:])

    def add(self, session: str, turn: str, tokens: int, at: datetime) -> None:
        """Count tokens of a turn; several turns of a session may ask models side by side."""
        turns = self._of(session).turns
        turns[turn] = (at, turns.get(turn, (at, 0))[1] + tokens)
        if len(turns) > TURNS:
            turns.popitem(last=False)

    def strange(self, session: str, turn: str, now: datetime) -> str:
        """Say why a turn may not go on, or "".

        Args:
            session: The session.
            turn: The turn that wants to ask a model.
            now: The time.
        """
        turns, settings = self._of(session).turns, self.settings
        used = turns.get(turn, (now, 0))[1]
        if not settings.enabled or used < settings.least_tokens:
            return ""
        recent = [
            tokens
            for one, (at, tokens) in turns.items()
            if one != turn and (now - at).days < settings.days
        ]
        if len(recent) < settings.samples:
            return ""
        usual = percentile(recent, 0.95)
        if used <= settings.times * usual:
            return ""
        return (
            f"this turn has used {used:,} tokens, {settings.times:g} times more than "
            f"19 of 20 of its session's last {len(recent)} turns ({usual:,} tokens)"
        )

    def _of(self, session: str) -> _Burn:
        burn = self._burns.setdefault(session, _Burn())
        self._burns.move_to_end(session)
        if len(self._burns) > SESSIONS:
            self._burns.popitem(last=False)
        return burn
