"""What planning measures, for Prometheus and OpenTelemetry."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hookgate import Instrument, Label, OutcomeEntry, OutcomeWindows, RecordSource, Turn, key_text
from hookgate.builtin_plugins.planning.planner import Recovery, WeightedRate

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


# -- windows of all scopes ---------------------------------------------------------

BATCH_SECONDS = 0.5
"""What comes within so many seconds is written at once."""
RETRY_SECONDS = 5.0
"""Until what could not be written is tried again."""
CLOSE_SECONDS = 5.0
"""So long a stop waits for what is written."""
MOST_SCOPES = 1000
"""Clients name channels: of more scopes than these, the one that was used longest ago is let go."""


class KeptWindows:
    """The windows, by the scopes' keys. It belongs to one event loop.

    Args:
        settings: Those of the plugin.
        kept: Where windows are kept; None for this process alone.
        durable: Whether that outlives the process.
        shared: Whether others write there as well.
        tell: Told why something cannot be kept, and "" once it can.

    Attributes:
        durable: Whether windows outlive the process.
    """

    def __init__(
        self,
        settings: PlanningSettings,
        kept: OutcomeWindows | None = None,
        *,
        durable: bool = True,
        shared: bool = False,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._kept = kept
        self.durable = durable and kept is not None
        self._shared = shared
        self._tell = tell
        # In the order of use, the one that was used longest ago first.
        self._windows: OrderedDict[str, OutcomeWindow] = OrderedDict()
        self._changed: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._saving = asyncio.Lock()
        self._told = False
        self._loaded = kept is None

    def __len__(self) -> int:
        return len(self._windows)

    def all(self) -> Mapping[str, OutcomeWindow]:
        """Return all windows by key."""
        return dict(sorted(self._windows.items()))

    def get(self, scope: str) -> OutcomeWindow | None:
        """Return the window of a scope; None where nothing is known of it."""
        return self._windows.get(scope)

    def add(self, scope: str, entry: OutcomeEntry) -> OutcomeWindow:
        """Take in the outcome of a turn, and return its window; never waits."""
        window = self._windows.get(scope)
        if window is None:
            window = self._windows[scope] = OutcomeWindow(self._settings)
        self._windows.move_to_end(scope)
        window.add(entry)
        self._changed[scope] = None
        while len(self._windows) > MOST_SCOPES:
            self._changed[self._windows.popitem(last=False)[0]] = None
        self._wake.set()
        return window

    def take(self, settings: PlanningSettings) -> None:
        """Go on with other settings."""
        self._settings = settings
        for scope, window in tuple(self._windows.items()):
            self._put(scope, window.entries)

    # -- keeping -------------------------------------------------------------

    async def load(self) -> None:
        """Take in what is kept, beside what is here."""
        if self._kept is None:
            return
        for scope, entries in (await self._kept.load_windows()).items():
            window = self._windows.get(scope)
            mine = () if window is None else window.entries
            merged = {entry.turn: entry for entry in (*entries, *mine)}
            if len(merged) > len(mine):
                self._put(scope, sorted(merged.values(), key=lambda entry: (entry.at, entry.turn)))
        self._loaded = True

    def _put(self, scope: str, entries: Sequence[OutcomeEntry]) -> None:
        window = OutcomeWindow(self._settings, entries)
        if (before := self._windows.get(scope)) is not None:
            window.alerted = before.alerted
        self._windows[scope] = window

    async def keep(self) -> None:
        """Write what changes, until it is cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(BATCH_SECONDS)
            if not await self.flush():
                await asyncio.sleep(RETRY_SECONDS)
                self._wake.set()

    async def flush(self) -> bool:
        """Write what has changed; return whether all of it is written."""
        if self._kept is None:
            self._changed.clear()
            self._wake.clear()
            return True
        async with self._saving:
            self._wake.clear()
            try:
                while self._changed:
                    scope = next(iter(self._changed))
                    del self._changed[scope]
                    try:
                        await self._save(self._kept, scope)
                    except BaseException:
                        self._changed[scope] = None
                        raise
                if self._shared or not self._loaded:
                    await self.load()
            except Exception as error:  # noqa: BLE001 - a plugin may keep them
                self._told = True
                self._tell(f"outcomes of turns cannot be kept, and are tried again: {error}")
                return False
            if self._told:
                self._told = False
                self._tell("")
            return True

    async def _save(self, kept: OutcomeWindows, scope: str) -> None:
        window = self._windows.get(scope)
        await kept.save_window(scope, () if window is None else window.entries)

    async def close(self) -> None:
        """Write what has changed; what takes too long is lost, and said."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.flush()
        except TimeoutError:
            self._tell(f"outcomes of turns were not kept within {CLOSE_SECONDS:.0f} seconds")
