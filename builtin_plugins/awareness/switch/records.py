"""What was decided in each turn, with a card or without, and the figures made of it."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, quantiles
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hookgate import Instrument, Label, Provenance, RecordSource, Turn
from hookgate.kit.json_lines import read_json_lines
from hookgate.metrics import OTHER

if TYPE_CHECKING:
    from hookgate.builtin_plugins.awareness.selection.explainer import Trial

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


# -- report ----------------------------------------------------------------------

# Success figures: what cards have cost, how often they came up, and how often for nothing.

TOKENS_WITH_CARD = 1500
SHARE_OF_SESSIONS = 0.15
FALSE_INJECTIONS = 0.05
SHOWN_WHEN_IT_FITS = 0.90
"""What is aimed at: at most, less than, less than, and more than."""


def figures(records: Sequence[TurnRecord], trial: Trial | None) -> list[dict[str, Any]]:
    """Return the figures with their goals, JSON-ready; a figure of nothing is None.

    Args:
        records: The records of turns, oldest first.
        trial: What messages whose cards are known came to, if they were tried.
    """
    with_card = [record for record in records if record.injected]
    sessions = {record.session for record in records}
    tokens = [record.tokens for record in with_card]
    times = [record.selection_ms for record in records]
    none = max((record.tokens for record in records if not record.injected), default=None)
    rows = [
        _row("tokens of cards in a turn without a card", none, "0", lambda n: n == 0),
        _row("tokens of cards in a turn with a card, mean", _mean(tokens, 1)),
        _row(
            "tokens of cards in a turn with a card, highest",
            max(tokens, default=None),
            f"at most {TOKENS_WITH_CARD}",
            lambda n: n <= TOKENS_WITH_CARD,
        ),
        _row("share of turns with a card", _share(len(with_card), len(records))),
        _row(
            "share of sessions with a card",
            _share(len({one.session for one in with_card}), len(sessions)),
            f"less than {SHARE_OF_SESSIONS}",
            lambda n: n < SHARE_OF_SESSIONS,
        ),
        _row("milliseconds to tag and select, mean", _mean(times, 3)),
        _row(
            "milliseconds to tag and select, 99th percentile",
            round(quantiles(times, n=100, method="inclusive")[98], 3) if len(times) > 1 else None,
        ),
    ]
    if trial is not None:
        rows += [
            _row(
                f"share of {trial.needless} messages that need no card and show one",
                _share(trial.wrong, trial.needless),
                f"less than {FALSE_INJECTIONS}",
                lambda n: n < FALSE_INJECTIONS,
            ),
            _row(
                f"share of {trial.needing} messages that show the shipped card which they need",
                _share(trial.hits, trial.needing),
                f"more than {SHOWN_WHEN_IT_FITS}",
                lambda n: n > SHOWN_WHEN_IT_FITS,
            ),
        ]
    return rows


def seen(records: Sequence[TurnRecord]) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return in how many turns each card was shown and each tag given, the most frequent first."""
    cards = Counter(card.id for record in records for card in record.injected)
    tags = Counter(tag for record in records for tag in record.tags)
    return dict(cards.most_common()), dict(tags.most_common())


def _row(
    figure: str,
    found: float | None,
    goal: str = "",
    met: Callable[[float], bool] | None = None,
) -> dict[str, Any]:
    held = None if found is None or met is None else met(found)
    return {"figure": figure, "found": found, "goal": goal, "met": held}


def _mean(values: Sequence[float], digits: int) -> float | None:
    return round(fmean(values), digits) if values else None


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


# -- What is measured of cards, and of the switch that turns them off ------------

# Awareness is to take less than 10 ms.
SELECTION_BOUNDARIES = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1.0)

INSTRUMENTS = (
    Instrument(
        name="hookgate_awareness_turns",
        help="Turns that awareness has looked at, with or without a card injected.",
        sources=(RecordSource(record="awareness.turn"),),
        labels=(
            Label(
                name="session_type",
                field="sessionType",
                values=frozenset(("main", "isolated", OTHER)),
            ),
            Label(name="injected", truth=True),
        ),
        unit="{turn}",
    ),
    Instrument(
        name="hookgate_awareness_tokens",
        help="Tokens of injected cards.",
        sources=(RecordSource(record="awareness.turn", value="totalTokens"),),
        unit="{token}",
    ),
    Instrument(
        name="hookgate_capabilities_injected",
        help="Injections of a capability's card.",
        sources=(RecordSource(record="awareness.turn", each="injected"),),
        labels=(Label(name="capability", field="id"),),
        unit="{card}",
    ),
    Instrument(
        name="hookgate_awareness_selection_seconds",
        help="Seconds in which awareness chose the cards of a turn.",
        kind="histogram",
        sources=(RecordSource(record="awareness.turn", value="selectionTimeMs", scale=0.001),),
        boundaries=SELECTION_BOUNDARIES,
        otel="hookgate.awareness.selection.duration",
        unit="s",
    ),
    Instrument(
        name="hookgate_awareness_tripped",
        help="1 once awareness has turned itself off in this process, 0 when it is on again.",
        kind="gauge",
        sources=(
            RecordSource(record="awareness.tripped"),
            RecordSource(record="awareness.enabled", scale=0),
        ),
    ),
)
