"""What planning measures, for Prometheus and OpenTelemetry."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hookgate import Instrument, Label, OutcomeEntry, RecordSource, Turn, key_text
from hookgate.builtin_plugins.planning.lifecycle import Recovery, WeightedRate

if TYPE_CHECKING:
    from hookgate.builtin_plugins.planning.settings import OutcomeSettings, PlanningSettings, Scope

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


# -- kpi -------------------------------------------------------------------------

# Windows of the last outcomes, what they come to, and when somebody is told of that.

CRITICAL = 0.6
"""The share of the threshold below which an alert is critical."""


def scope_key(turn: Turn, scope: Scope) -> str:
    """Return the key of the window that a turn belongs to."""
    if scope == "global":
        return "global"
    agent = f"agent:{key_text(turn.agent.name)}"
    return agent if scope == "agent" else f"{agent}/channel:{key_text(turn.address.channel)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kpi:
    """What a window comes to.

    Attributes:
        scope: The window's key.
        samples: How many turns are in it.
        success: How many of these were a success.
        partial: How many were partial.
        failed: How many failed.
        average: The mean of their scores.
        weighted: The mean in which later turns weigh more.
        degraded: Whether plans are changed because of it.
    """

    scope: str
    samples: int
    success: int
    partial: int
    failed: int
    average: float
    weighted: float
    degraded: bool

    def to_json(self) -> dict[str, Any]:
        """Return it as clients see it."""
        return {
            "scopeKey": self.scope,
            "sampleCount": self.samples,
            "successCount": self.success,
            "partialCount": self.partial,
            "failedCount": self.failed,
            "successRate": round(self.success / self.samples if self.samples else 0.0, 4),
            "averageScore": round(self.average, 4),
            "weightedSuccessRate": round(self.weighted, 4),
            "degraded": self.degraded,
        }


class OutcomeWindow:
    """The last outcomes of one scope.

    Args:
        settings: How many they are, how they weigh, and when they are bad.
        entries: What is in it, the oldest first.

    Attributes:
        alerted: When the last alert was, by the monotonic clock; None for never.
    """

    def __init__(self, settings: PlanningSettings, entries: Iterable[OutcomeEntry] = ()) -> None:
        self._size = settings.outcomes.rolling_window_size
        self._entries: deque[OutcomeEntry] = deque()
        self._counts: Counter[str] = Counter()
        self._sum = 0.0
        self._rate = WeightedRate(settings.outcomes.half_life)
        self._adaptive = settings.adaptive.enabled
        self._recovery = Recovery(settings.adaptive, settings.outcomes.half_life)
        self.alerted: float | None = None
        for entry in entries:
            self.add(entry)

    @property
    def entries(self) -> tuple[OutcomeEntry, ...]:
        """What is in it, the oldest first."""
        return tuple(self._entries)

    @property
    def degraded(self) -> bool:
        """Whether plans are to change."""
        return self._adaptive and self._recovery.degraded

    def add(self, entry: OutcomeEntry) -> None:
        """Take in the outcome of a turn; the oldest one goes where there are too many."""
        if len(self._entries) == self._size:
            gone = self._entries.popleft()
            self._counts[gone.status] -= 1
            self._sum -= gone.score
            self._rate.drop(gone.score, self._size - 1)
        self._entries.append(entry)
        self._counts[entry.status] += 1
        self._sum += entry.score
        self._rate.add(entry.score)
        if entry.steers:
            self._recovery.add(entry.steering)

    def kpi(self, scope: str) -> Kpi:
        """Return what it comes to."""
        samples, counts = len(self._entries), self._counts
        return Kpi(
            scope=scope,
            samples=samples,
            success=counts["success"],
            partial=counts["partial"],
            failed=counts["failed"],
            average=round(self._sum / samples, 9) if samples else 0.0,
            weighted=self._rate.rate,
            degraded=self.degraded,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """That the outcomes of a scope are bad.

    Attributes:
        scope: The window's key.
        severity: How bad they are.
        threshold: The weighted rate below which they are.
        value: The weighted rate.
        samples: Of how many turns.
    """

    scope: str
    severity: str
    threshold: float
    value: float
    samples: int

    @property
    def reason(self) -> str:
        """Why, for people."""
        return (
            f"the weighted success rate of the last {self.samples} turns of {self.scope} is "
            f"{self.value:.2f}, below {self.threshold:.2f}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as clients see it."""
        return {
            "scopeKey": self.scope,
            "severity": self.severity,
            "reason": self.reason,
            "threshold": self.threshold,
            "value": round(self.value, 4),
            "sampleCount": self.samples,
        }


def alert_of(
    window: OutcomeWindow, kpi: Kpi, settings: OutcomeSettings, now: float
) -> Alert | None:
    """Return the alert that is due, and note that it was given; None where none is.

    Args:
        window: The window.
        kpi: What it comes to.
        settings: When an alert is due.
        now: The monotonic clock, in seconds.
    """
    threshold = settings.alert_below_weighted_success_rate
    if kpi.samples < settings.alert_min_samples or kpi.weighted >= threshold:
        return None
    cooldown = settings.alert_cooldown_ms / 1000
    if window.alerted is not None and now - window.alerted < cooldown:
        return None
    window.alerted = now
    severity = "critical" if kpi.weighted < CRITICAL * threshold else "warning"
    return Alert(
        scope=kpi.scope,
        severity=severity,
        threshold=threshold,
        value=kpi.weighted,
        samples=kpi.samples,
    )
