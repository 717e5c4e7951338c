"""The figures as Prometheus reads them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Counted
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest as plain_text
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_text

from hookgate import Instrument
from hookgate.metrics import Reading

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

Series: TypeAlias = Counter | Gauge | Histogram

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class _WithoutCreated:
    """A registry's metrics without the times at which their series were begun.

    The library can leave them out for a whole process only, and they double what is scraped.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        for metric in self._registry.collect():
            metric.samples = [
                sample for sample in metric.samples if not sample.name.endswith("_created")
            ]
            yield metric


class PrometheusFigures:
    """Keeps the figures of one gateway in a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._metrics: dict[Instrument, Counter | Gauge | Histogram] = {}
        # The series, as many as `Limits` keeps apart, with the values that they have not taken yet.
        self._series: dict[tuple[Instrument, tuple[str, ...]], tuple[Series, deque[float]]] = {}
        self._taking = Lock()

    def declare(self, instruments: Iterable[Instrument]) -> None:
        """Keep these figures and no others; what was read of one that stays is kept."""
        self.settle()
        self._series.clear()
        wanted = dict.fromkeys(instruments)
        for gone in self._metrics.keys() - wanted.keys():
            self._registry.unregister(self._metrics.pop(gone))
        for one in wanted:
            if one not in self._metrics:
                self._metrics[one] = self._made(one)

    def taker(self, reading: Reading) -> Callable[[float], None]:
        """Return what takes the values of further readings with its instrument and labels.

        They are gathered until `settle`.
        """
        key = reading.instrument, reading.labels
        if key not in self._series:
            metric = self._metrics[reading.instrument]
            series = metric.labels(*reading.labels) if reading.labels else metric
            self._series[key] = series, deque()
        series, waiting = self._series[key]
        return waiting.append

    def settle(self) -> None:
        """Have the series take what was gathered."""
        with self._taking:
            for series, waiting in list(self._series.values()):
                # Others may come meanwhile: so many are taken as there are now.
                values = [waiting.popleft() for _ in range(len(waiting))]
                match series:
                    case Counter():
                        series.inc(sum(values))
                    case Histogram() if values:
                        _observe(series, values)
                    case Gauge() if values:
                        series.set(values[-1])

    def page(self, accept: str) -> tuple[bytes, str]:
        """Return all figures as text, and its content type.

        It takes milliseconds where there are many series: call it on a thread.

        Args:
            accept: The header ``Accept`` of who asks: OpenMetrics where it names that.
        """
        self.settle()
        # The encoders look at nothing of a registry but `collect`.
        registry = cast("CollectorRegistry", _WithoutCreated(self._registry))
        if _accepts_openmetrics(accept):
            # The library has no types here.
            return openmetrics_text(registry), OPENMETRICS  # type: ignore[no-untyped-call]
        return plain_text(registry), PLAIN

    def _made(self, instrument: Instrument) -> Counter | Gauge | Histogram:
        name, text = instrument.name, instrument.help
        labels = tuple(label.name for label in instrument.labels)
        match instrument.kind:
            case "counter":
                return Counter(name, text, labels, registry=self._registry)
            case "histogram":
                return Histogram(
                    name, text, labels, buckets=instrument.boundaries, registry=self._registry
                )
            case "gauge":
                return Gauge(name, text, labels, registry=self._registry)


def _observe(series: Histogram, values: Sequence[float]) -> None:
    """Have a histogram take values: what they add to each of its numbers at once.

    The library takes one value at a time, with a lock for each number.
    """
    places = Counted(bisect_left(series._upper_bounds, value) for value in values)
    for place, count in places.items():
        series._buckets[place].inc(count)
    series._sum.inc(sum(values))


def _accepts_openmetrics(accept: str) -> bool:
    """Whether a header names the version of OpenMetrics that is written here, or none.

    The library's own choice fails on versions that are none, and claims any later one.
    """
    for item in accept.lower().split(","):
        kind, *parameters = (part.strip() for part in item.split(";"))
        if kind == "application/openmetrics-text":
            versions = [one for one in parameters if one.startswith("version=")]
            if versions in ([], ["version=1.0.0"]):
                return True
    return False
