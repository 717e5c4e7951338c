"""What is measured of cards, and of the switch that turns them off."""

from __future__ import annotations

from hookgate import Instrument, Label, RecordSource
from hookgate.metrics import OTHER

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
