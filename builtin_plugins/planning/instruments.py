"""What planning measures, for Prometheus and OpenTelemetry."""

from __future__ import annotations

from hookgate import Instrument, Label, RecordSource

OUTCOME = "planning.outcome"
"""The record of how a turn went, and of what its window comes to then."""
ALERT = "planning.alert"
"""The record of an alert."""

_STATUS = Label(name="status", values=frozenset(("success", "partial", "failed")))
_SCOPE = Label(name="scope")

INSTRUMENTS = (
    Instrument(
        name="hookgate_outcomes",
        help="Turns by how they went.",
        sources=(RecordSource(record=OUTCOME),),
        labels=(_SCOPE, _STATUS, Label(name="source")),
        unit="{turn}",
    ),
    Instrument(
        name="hookgate_outcome_weighted_rate",
        help="The weighted success rate of the last turns; 1 is all of them.",
        kind="gauge",
        sources=(RecordSource(record=OUTCOME, value="weighted"),),
        labels=(_SCOPE,),
    ),
    Instrument(
        name="hookgate_outcome_degraded",
        help="Whether plans are changed because turns go badly, 1 or 0.",
        kind="gauge",
        sources=(RecordSource(record=OUTCOME, value="degraded"),),
        labels=(_SCOPE,),
    ),
    Instrument(
        name="hookgate_outcome_alerts",
        help="Alerts that turns go badly.",
        sources=(RecordSource(record=ALERT),),
        labels=(_SCOPE, Label(name="severity", values=frozenset(("warning", "critical")))),
        unit="{alert}",
    ),
)
"""All of them, for ``host.instruments``."""
