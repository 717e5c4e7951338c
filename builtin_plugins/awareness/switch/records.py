"""What was decided in each turn: one record a turn, with a card or without."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from hookgate import Provenance, Turn
from hookgate.kit.json_lines import read_json_lines

SessionType: TypeAlias = Literal["main", "isolated"]

SESSIONS = 1000
"""Sessions whose last turns are remembered."""

TURNS = 10
"""Turns of each that are remembered."""


def session_type(turn: Turn) -> SessionType:
    """Return ``main`` for a turn that a person started, ``isolated`` for any other."""
    alone = turn.depth > 0 or turn.origin.provenance in _ALONE
    return "isolated" if alone else "main"


_ALONE = (Provenance.INTER_SESSION, Provenance.SCHEDULED, Provenance.INTERNAL_SYSTEM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """A card that a model got to read.

    Attributes:
        id: The card's id.
        score: How well it fitted, 0 to 1.
        tokens: What its block took.
    """

    id: str
    score: float
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """What was decided in one turn.

    Attributes:
        timestamp: When the turn ended, in milliseconds since 1970-01-01 UTC.
        session: The session's key.
        session_type: ``main`` or ``isolated``.
        tags: The router tags, sorted.
        injected: The cards that a model got to read, in their order.
        selection_ms: What tagging and selecting took, in milliseconds.
    """

    timestamp: int
    session: str
    session_type: SessionType
    tags: tuple[str, ...] = ()
    injected: tuple[Injected, ...] = ()
    selection_ms: float = 0.0

    @property
    def tokens(self) -> int:
        """What all cards took together."""
        return sum(card.tokens for card in self.injected)

    def to_json(self) -> dict[str, Any]:
        """Return the record as a line of the file has it."""
        return {
            "timestamp": self.timestamp,
            "sessionKey": self.session,
            "sessionType": self.session_type,
            "routerTags": list(self.tags),
            "injected": [
                {"id": card.id, "relevanceScore": round(card.score, 4), "tokensUsed": card.tokens}
                for card in self.injected
            ],
            "totalTokens": self.tokens,
            "selectionTimeMs": round(self.selection_ms, 3),
        }

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> TurnRecord | None:
        """Read a line of the file; None where it is not one of `to_json`."""
        try:
            return cls(
                timestamp=int(held["timestamp"]),
                session=str(held["sessionKey"]),
                session_type="isolated" if held.get("sessionType") == "isolated" else "main",
                tags=tuple(map(str, held.get("routerTags", ()))),
                injected=tuple(
                    Injected(
                        id=str(card["id"]),
                        score=float(card.get("relevanceScore", 0.0)),
                        tokens=int(card.get("tokensUsed", 0)),
                    )
                    for card in held.get("injected", ())
                ),
                selection_ms=float(held.get("selectionTimeMs", 0.0)),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            return None


def read_turns(path: Path, keep: int, since: int = 0) -> Iterator[TurnRecord]:
    """Yield the records of a file and of those put aside, oldest first. It blocks.

    Args:
        path: The file that is written now.
        keep: The highest number of a file that was put aside.
        since: Records before this are passed over; milliseconds since 1970.
    """
    older = (path.with_name(f"{path.name}.{number}") for number in range(keep, 0, -1))
    for place in (*older, path):
        for held in read_json_lines(place):
            record = TurnRecord.from_json(held)
            if record is not None and record.timestamp >= since:
                yield record


@dataclass(slots=True)
class Recent:
    """The last turns of the last sessions, for a model that asks about its own."""

    _sessions: OrderedDict[str, deque[Mapping[str, Any]]] = field(default_factory=OrderedDict)

    def add(self, session: str, told: Mapping[str, Any]) -> None:
        """Remember what was decided in a turn of `session`."""
        turns = self._sessions.setdefault(session, deque(maxlen=TURNS))
        self._sessions.move_to_end(session)
        turns.append(told)
        if len(self._sessions) > SESSIONS:
            self._sessions.popitem(last=False)

    def of(self, session: str) -> Sequence[Mapping[str, Any]]:
        """Return the last turns of `session`, oldest first."""
        return tuple(self._sessions.get(session, ()))
