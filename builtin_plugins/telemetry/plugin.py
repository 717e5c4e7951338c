"""The builtin plugin `telemetry`: figures for Prometheus and OpenTelemetry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias

from pydantic import AfterValidator, Field, StringConstraints

from hookgate import (
    EGRESS,
    QUESTIONS,
    Access,
    HookFailure,
    Host,
    Instrument,
    Key,
    MetricRecord,
    Principal,
    RecordSource,
    Routes,
    Section,
    StartError,
    StoreError,
)
from hookgate.builtin_plugins.telemetry.core_instruments import CORE_INSTRUMENTS
from hookgate.builtin_plugins.telemetry.export import Exporter
from hookgate.builtin_plugins.telemetry.records import (
    NOW,
    OWN,
    Instruments,
    LabelLimits,
    record_of_failure,
)
from hookgate.hookspecs import hookimpl
from hookgate.kit.url_grants import service_url
from hookgate.metrics import Reading

if TYPE_CHECKING:
    from aiohttp import web

    from hookgate.builtin_plugins.telemetry.otel import OtelFigures
    from hookgate.builtin_plugins.telemetry.prometheus import PrometheusFigures


def _url(text: str) -> str:
    example = "http://localhost:4318/v1/metrics"
    if service_url(text, example=example, secret="`headers` names secrets").path == "/":
        raise ValueError("expected the whole address; collectors mostly listen at /v1/metrics")
    return text


HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]+$")]
SecretName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class OtelSettings(Section):
    """``[plugin.telemetry.otel]``: a collector to which the figures are sent."""

    enabled: bool = False
    """Whether they are sent. Needs the extra `otel`, and a plugin that provides egress."""
    endpoint: Annotated[str, AfterValidator(_url)] = "http://localhost:4318/v1/metrics"
    """The collector's whole address for metrics, OTLP over HTTP."""
    headers: dict[HeaderName, SecretName] = Field(default_factory=dict)
    """Headers of each request, such as `authorization`: each with the name of the secret that
    is its value."""
    interval_seconds: float = Field(default=60.0, ge=1, le=86_400)
    """Seconds from one export to the next."""
    timeout_seconds: float = Field(default=10.0, gt=0, le=600)
    """The limit for one export."""
    service_name: str = Field(default="hookgate", min_length=1)
    """What this gateway is called at the collector: its attribute `service.name`."""


class TelemetrySettings(Section):
    """``[plugin.telemetry]``: where figures go."""

    prometheus: bool = True
    """Whether `GET /metrics` is served."""
    otel: OtelSettings = OtelSettings.by_default()


# -- the plugin --------------------------------------------------------------------

NAME = "telemetry"
PART = "telemetry.otel"
HERE = "hookgate.builtin_plugins.telemetry"
Taker: TypeAlias = Callable[[float], None]
_Series: TypeAlias = tuple[RecordSource, float | None, Sequence[Taker]]
"""What is read of each record, its figure where that is always the same, and who takes it."""

LARGE = 2**53
"""Below it each whole number is a float as well."""
MOST_SERIES = 10_000
"""Sets of values that records are told apart by; the takers of further ones are looked up anew."""

GATHERED = 1000
"""So many records are gathered before they are counted; counting them takes about half a
millisecond, and a look at each series."""

MAX_ANSWER = 1_000_000
"""Bytes of a collector's answer, which is mostly empty."""


class Figures(Protocol):
    """Where readings go."""

    def declare(self, instruments: Iterable[Instrument]) -> None:
        """Keep these figures."""

    def taker(self, reading: Reading) -> Callable[[float], None]:
        """Return what takes the values of further readings with its instrument and labels."""

    def settle(self) -> None:
        """Count what takers have gathered."""


class Plugin:
    """Keeps figures for who scrapes them, and sends them to who collects them."""

    Settings = TelemetrySettings

    def __init__(self, settings: TelemetrySettings) -> None:
        self.requires: tuple[Key[Any], ...] = (EGRESS,) if settings.otel.enabled else ()
        self._settings = settings
        self._limits = LabelLimits()
        self._prometheus: PrometheusFigures | None = None
        self._figures: tuple[Figures, ...] = ()
        self._instruments = Instruments(())
        self._gathered = 0
        self._takers: dict[Hashable, Sequence[_Series]] = {}
        self._host: Host
        self._parts: set[str] = set()

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Begin to keep figures; at the end, send the last ones.

        Raises:
            StartError: They are to be sent, and the extra or a secret is missing.
        """
        self._host = host
        host.instruments.apply("core", CORE_INSTRUMENTS)
        host.instruments.apply(NAME, OWN)
        figures: list[Figures] = []
        if self._settings.prometheus:
            # On a thread: the library takes some time to import.
            module = await asyncio.to_thread(import_module, f"{HERE}.prometheus")
            self._prometheus = module.PrometheusFigures()
            figures.append(self._prometheus)
        if not self._settings.otel.enabled:
            self._keep(host, figures)
            yield
            return
        otel, exporter = await self._collector(host)
        self._keep(host, [*figures, otel])
        task = host.spawn(exporter.run(self._settings.otel.interval_seconds), name="send figures")
        try:
            yield
        finally:
            task.cancel()
            await exporter.close()
            otel.close()

    @hookimpl
    def add_routes(self, host: Host, routes: Routes) -> None:
        """Serve ``GET /metrics`` to who may read."""
        if self._settings.prometheus:
            read = Access.scoped("read")
            routes.add("GET", "/metrics", self.metrics, access=read, probe=True)

    @hookimpl
    def hook_failed(self, failure: HookFailure) -> None:
        """Count a failure."""
        self.log_metrics(record_of_failure(failure))

    async def metrics(self, request: web.Request) -> web.Response:
        """Answer with all figures as text."""
        from aiohttp import web

        if self._prometheus is None:
            raise web.HTTPServiceUnavailable(text="the gateway is not running\n")
        self.log_metrics(await self._now())
        accept = request.headers.get("Accept", "")
        body, content_type = await asyncio.to_thread(self._prometheus.page, accept)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _now(self) -> MetricRecord:
        """Return what is so now, and is no sum of what has happened."""
        host = self._host
        fields: dict[str, Any] = {"turns": len(host.running())}
        # What cannot be read is no figure, and the store says by itself what is wrong with it.
        with suppress(StoreError):
            fields["questions"] = len(await host[QUESTIONS].waiting(Principal.owner()))
        # A part that works again is said to be 0 once it was 1.
        self._parts |= host.degraded.keys()
        parts = ((part, int(part in host.degraded)) for part in sorted(self._parts))
        fields["parts"] = [{"part": part, "value": value} for part, value in parts]
        return MetricRecord(name=NOW, timestamp=0, fields=fields)

    def _keep(self, host: Host, figures: Iterable[Figures]) -> None:
        """Keep what has been declared, and from now on what is."""
        self._figures = tuple(figures)

        def declared() -> None:
            instruments = tuple(host.instruments.view().values())
            self._instruments = Instruments(instruments)
            self._takers.clear()
            for one in self._figures:
                one.declare(instruments)

        host.instruments.watch(declared)
        declared()

    @hookimpl
    def log_metrics(self, record: MetricRecord) -> None:
        """Take the figures of a record."""
        parts = self._instruments.parts.get(record.name)
        if parts is None:
            for reading in self._instruments.readings(record):
                for take in self._taking(reading):
                    take(reading.value)
            return
        for part in parts:
            rows = part.readers[0][1].rows(record.fields) if part.each else (record.fields,)
            for fields in rows:
                key = part.key_of(fields)
                series = None if key is None else self._takers.get(key)
                if series is None:
                    series = [
                        (source, None if source.value else source.figure({}), self._taking(reading))
                        for source, reading in part.series(fields)
                    ]
                    if key is not None and len(self._takers) < MOST_SERIES:
                        self._takers[key] = series
                for source, value, takers in series:
                    if source.value in fields:
                        found = fields[source.value]
                        # A plain count, as nearly all are, is the figure as it stands.
                        is_plain = type(found) is int and source.scale == 1 and 0 <= found < LARGE
                        value = float(found) if is_plain else source.figure(fields)
                    if value is not None:
                        for take in takers:
                            take(value)
        self._gathered += 1
        if self._gathered >= GATHERED:
            self._gathered = 0
            for figures in self._figures:
                figures.settle()

    def _taking(self, reading: Reading) -> list[Taker]:
        fitting = self._limits.within(reading)
        return [figures.taker(fitting) for figures in self._figures]

    # -- the collector -----------------------------------------------------

    async def _collector(self, host: Host) -> tuple[OtelFigures, Exporter]:
        settings = self._settings.otel
        try:
            module = await asyncio.to_thread(import_module, f"{HERE}.otel")
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("opentelemetry"):
                raise
            raise StartError(
                "`[plugin.telemetry.otel] enabled = true` needs packages that are not installed "
                f"(found no {error.name}): install them with `pip install 'hookgate[otel]'`"
            ) from None
        headers = await asyncio.to_thread(self._headers, host)
        try:
            client = host[EGRESS].client(
                [settings.endpoint],
                name="telemetry",
                timeout=settings.timeout_seconds,
                max_bytes=MAX_ANSWER,
            )
        except ValueError as error:
            raise StartError(f"`[plugin.telemetry.otel] endpoint`: {error}") from None
        figures: OtelFigures = await asyncio.to_thread(module.OtelFigures, settings.service_name)
        exporter = Exporter(
            client,
            settings.endpoint,
            headers=headers,
            payload=figures.payload,
            rejected=module.rejected,
            failed=host.standing(PART).bad,
            worked=host.standing(PART).good,
        )
        return figures, exporter

    def _headers(self, host: Host) -> dict[str, str]:
        """Return the headers with their secrets. Reads files: runs on a thread."""
        headers = {}
        for header, name in self._settings.otel.headers.items():
            value = (host.secrets.get(name) or "").strip()
            if not value:
                raise StartError(
                    f"`[plugin.telemetry.otel] headers`: {header} needs the secret {name}, which "
                    "is not set: set that environment variable, or write the file in `keys`"
                )
            if not (value.isascii() and value.isprintable()):
                raise StartError(f"the secret {name} holds characters that no header can carry")
            headers[header] = value
        return headers
