"""Success figures: what cards have cost, how often they came up, and how often for nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, quantiles
from typing import TYPE_CHECKING, Any

from hookgate import Instrument, Label, RecordSource
from hookgate.metrics import OTHER

if TYPE_CHECKING:
    from hookgate.builtin_plugins.awareness.selection.explainer import Trial
    from hookgate.builtin_plugins.awareness.switch.records import TurnRecord

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
