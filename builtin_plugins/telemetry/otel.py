"""The figures as OpenTelemetry takes them. Needs the extra ``otel``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import TYPE_CHECKING
from uuid import uuid4

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)
from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource

from hookgate import Instrument
from hookgate.builtin_plugins.telemetry.core_instruments import (
    CHAT,
    ERROR_TYPE,
    OPERATION_NAME,
    PROVIDER_NAME,
    REQUEST_MODEL,
)
from hookgate.metrics import Reading

if TYPE_CHECKING:
    Record = Callable[[float, dict[str, str]], None]


class OtelFigures:
    """Keeps the figures of one gateway in a meter provider of its own.

    Nothing of it is registered for the process, and nothing is read from the environment but
    OpenTelemetry's own switch, ``OTEL_SDK_DISABLED``.

    Args:
        service: The gateway's name at the collector.
    """

    def __init__(self, service: str) -> None:
        own = version("hookgate")
        self._reader = InMemoryMetricReader()
        self._provider = MeterProvider(
            metric_readers=[self._reader],
            resource=Resource(
                {
                    "service.name": service,
                    "service.version": own,
                    "service.instance.id": str(uuid4()),
                }
            ),
            exemplar_filter=AlwaysOffExemplarFilter(),
            shutdown_on_exit=False,
        )
        self._meter = self._provider.get_meter("hookgate", own)
        self._records: dict[Instrument, Record] = {}

    def declare(self, instruments: Iterable[Instrument]) -> None:
        """Keep these figures; what was kept of others is kept on."""
        meter = self._meter
        for one in instruments:
            if one in self._records:
                continue
            name = one.otel_name
            match one.otel_kind or one.kind:
                case "counter":
                    self._records[one] = meter.create_counter(name, one.unit, one.help).add
                case "histogram":
                    self._records[one] = meter.create_histogram(
                        name,
                        one.unit,
                        one.help,
                        explicit_bucket_boundaries_advisory=one.boundaries,
                    ).record
                case "gauge":
                    self._records[one] = meter.create_gauge(name, one.unit, one.help).set

    def taker(self, reading: Reading) -> Callable[[float], None]:
        """Return what takes the values of further readings with its instrument and labels."""
        record, attributes = self._records[reading.instrument], attributes_of(reading)
        return lambda value: record(value, attributes)

    def settle(self) -> None:
        """Do nothing: each value is taken at once."""

    def payload(self) -> bytes:
        """Return all figures as an OTLP request. Blocks: call it on a thread."""
        data = self._reader.get_metrics_data()
        return b"" if data is None else encode_metrics(data).SerializeToString()

    def close(self) -> None:
        """Take no more readings."""
        self._provider.shutdown()


def attributes_of(reading: Reading) -> dict[str, str]:
    """Return the labels of `reading` under the names that OpenTelemetry has for them."""
    attributes = {
        label.attribute or f"hookgate.{label.name}": value
        for label, value in zip(reading.instrument.labels, reading.labels, strict=True)
    }
    if REQUEST_MODEL not in attributes:
        return attributes
    attributes[OPERATION_NAME] = CHAT
    provider, slash, model = attributes[REQUEST_MODEL].partition("/")
    if slash:
        attributes[PROVIDER_NAME] = provider
        attributes[REQUEST_MODEL] = model
    if attributes.get(ERROR_TYPE) == "done":
        # What went well has no type of error.
        del attributes[ERROR_TYPE]
    return attributes


def rejected(body: bytes) -> str:
    """Return what a collector did not take although it answered well; "" where it took all.

    Raises:
        ValueError: `body` is no answer to an OTLP request.
    """
    try:
        partial = ExportMetricsServiceResponse.FromString(body).partial_success
    except Exception as error:
        # Protobuf's own exception is another class in each of its implementations.
        raise ValueError(f"it sent what is no answer: {error}") from error
    if not partial.rejected_data_points:
        return ""
    return f"it rejected {partial.rejected_data_points} points: {partial.error_message[:300]}"
