"""The exporter against a collector on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceResponse,
)
from tests.builtin_plugins.telemetry.collecting import Collector, collecting, take

from hookgate.builtin_plugins.egress.service import CheckedEgress
from hookgate.builtin_plugins.telemetry import export
from hookgate.builtin_plugins.telemetry.core_instruments import TURNS
from hookgate.builtin_plugins.telemetry.export import Exporter
from hookgate.builtin_plugins.telemetry.otel import OtelFigures, rejected
from hookgate.metrics import Reading


@dataclass
class Sending:
    """An exporter, and what it says."""

    exporter: Exporter
    said: list[str] = field(default_factory=list)


@asynccontextmanager
async def sending(
    url: str, *, timeout: float = 5, payload: Callable[[], bytes] | None = None, **headers: str
) -> AsyncIterator[Sending]:
    figures = OtelFigures("test")
    figures.declare([TURNS])
    take(figures, Reading(TURNS, 1, ("done",)))
    said: list[str] = []
    client = CheckedEgress().client([url], name="telemetry", timeout=timeout)
    exporter = Exporter(
        client,
        url,
        headers=headers,
        payload=payload or figures.payload,
        rejected=rejected,
        failed=said.append,
        worked=lambda: said.append("worked"),
    )
    yield Sending(exporter, said)
    await client.aclose()
    figures.close()


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with collecting() as one:
        yield one


async def test_figures_are_sent_as_protobuf_with_the_headers(collector: Collector) -> None:
    async with sending(collector.url, authorization="Bearer s3cret") as one:
        await one.exporter.send()

    assert one.said == ["worked"]
    assert collector.totals() == {"hookgate.turns": 1}
    assert collector.headers[0]["content-type"] == "application/x-protobuf"
    assert collector.headers[0]["authorization"] == "Bearer s3cret"


async def test_figures_are_sent_again_and_again(collector: Collector) -> None:
    async with sending(collector.url) as one:
        task = asyncio.create_task(one.exporter.run(0.001))
        for _ in range(3):
            collector.came.clear()
            await asyncio.wait_for(collector.came.wait(), 10)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert len(collector.requests) >= 3


async def test_nothing_is_sent_where_there_is_nothing(collector: Collector) -> None:
    async with sending(collector.url, payload=lambda: b"") as one:
        await one.exporter.send()
    assert collector.requests == []


async def test_refusal_is_told_and_the_next_export_is_told_to_work(collector: Collector) -> None:
    collector.status, collector.body = 401, b"no\nsuch key"
    async with sending(collector.url) as one:
        await one.exporter.send()
        collector.status, collector.body = 200, b""
        await one.exporter.send()

    assert "answered with HTTP 401: no such key" in one.said[0]
    assert one.said[1:] == ["worked"]


async def test_partly_taken_figures_are_told(collector: Collector) -> None:
    partial = ExportMetricsPartialSuccess(rejected_data_points=2, error_message="too many")
    collector.body = ExportMetricsServiceResponse(partial_success=partial).SerializeToString()
    async with sending(collector.url) as one:
        await one.exporter.send()
    assert "rejected 2 points: too many" in one.said[0]


async def test_answer_of_something_else_is_told(collector: Collector) -> None:
    collector.body = b"<html>It works!</html>"
    async with sending(collector.url) as one:
        await one.exporter.send()
    assert "sent what is no answer" in one.said[0]


async def test_redirect_is_not_followed(collector: Collector) -> None:
    collector.status = 307
    async with sending(collector.url) as one:
        await one.exporter.send()
    assert "HTTP 307" in one.said[0]


async def test_collector_that_is_gone_is_told() -> None:
    async with collecting() as collector:
        url = collector.url
    async with sending(url) as one:
        await one.exporter.send()
    assert "do not reach the collector" in one.said[0]


async def test_silent_collector_costs_no_more_than_the_limit(collector: Collector) -> None:
    collector.silent = True
    async with sending(collector.url, timeout=0.05) as one:
        await one.exporter.send()
    assert "do not reach the collector" in one.said[0]


async def test_closing_sends_the_last_figures(collector: Collector) -> None:
    async with sending(collector.url) as one:
        await one.exporter.close()
    assert collector.totals() == {"hookgate.turns": 1}


async def test_closing_does_not_wait_for_a_silent_collector(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "LAST_SECONDS", 0.05)
    collector.silent = True
    async with sending(collector.url, timeout=60) as one:
        await asyncio.wait_for(one.exporter.close(), 10)
    assert "the last figures did not reach" in one.said[0]
