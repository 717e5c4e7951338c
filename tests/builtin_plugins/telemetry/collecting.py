"""A collector on a real socket: takes OTLP over HTTP and answers as it is told."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from hookgate.metrics import Reading


def take(figures: Any, *readings: Reading) -> None:
    """Have figures take readings."""
    for reading in readings:
        figures.taker(reading)(reading.value)


@dataclass
class Collector:
    """What has come, and what is answered.

    Attributes:
        url: Its address for metrics.
        status: The status of each answer.
        body: The body of each answer.
        silent: Set: nothing is answered at all.
        requests: The requests, read.
        headers: Their headers.
        came: Set whenever a request has come.
    """

    url: str = ""
    status: int = 200
    body: bytes = b""
    silent: bool = False
    requests: list[ExportMetricsServiceRequest] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.Response:
        self.headers.append(request.headers)
        self.requests.append(ExportMetricsServiceRequest.FromString(await request.read()))
        self.came.set()
        if self.silent:
            await asyncio.Event().wait()
        return web.Response(
            status=self.status, body=self.body, content_type="application/x-protobuf"
        )

    def totals(self) -> dict[str, float]:
        """Return what the last request says of sums, all attributes added up."""
        return {
            metric.name: sum(point.as_int + point.as_double for point in metric.sum.data_points)
            for resource in self.requests[-1].resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.HasField("sum")
        }

    def counts(self) -> dict[str, int]:
        """Return how many values the last request has in each histogram."""
        return {
            metric.name: sum(point.count for point in metric.histogram.data_points)
            for resource in self.requests[-1].resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.HasField("histogram")
        }


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """Run a collector on a free port."""
    collector = Collector()
    app = web.Application()
    app.router.add_post("/v1/metrics", collector.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/metrics"
        yield collector
    finally:
        await runner.cleanup()
