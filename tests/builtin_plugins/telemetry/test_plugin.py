"""Telemetry in a real gateway: scraped over HTTP, and sent to a collector."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.builtin_plugins.telemetry.collecting import collecting
from tests.support.script import until
from tests.support.wire import bearer, tokens

from hookgate import Host, Instrument, Label, RecordSource
from hookgate.builtin_plugins.awareness.switch import INSTRUMENTS as OF_AWARENESS
from hookgate.core.domain.errors import ConfigError, MissingKeyError, StartError
from hookgate.core.gateway.serve import listen
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway
from hookgate.hookspecs import hookimpl

BUILTIN = ("control", "egress", "providers", "policy", "telemetry", "tools")
SUM = '/call calculate {"expression": "1 + 1"}'


class Broken:
    """A plugin whose tags fail, and which measures something of its own."""

    name = "broken"

    @hookimpl
    def tag_turn(self, turn: Any) -> None:
        raise RuntimeError("no tags today")


def settings(home: Path, wire: Any = None, **section: Any) -> Settings:
    return Settings.model_validate(
        {
            "home": home,
            "plugins": {"entry_points": False},
            "gateway": {"port": 0, **(wire or {})},
            "plugin": {"telemetry": section},
        }
    )


def gateway(home: Path, *plugins: Any, builtin: tuple[str, ...] = BUILTIN, **more: Any) -> Gateway:
    return Gateway(settings(home, **more), builtin=builtin, plugins=plugins)


@asynccontextmanager
async def client(gate: Gateway) -> AsyncIterator[aiohttp.ClientSession]:
    async with listen(gate) as listener, aiohttp.ClientSession(listener.url) as http:
        yield http


async def scraped(http: aiohttp.ClientSession, **more: Any) -> dict[str, dict[str, float]]:
    """Return name -> labels, written out -> value."""
    async with http.get("/metrics", **more) as answer:
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        page = await answer.text()
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = " ".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


async def taken(gate: Gateway) -> None:
    """Wait until the records of all turns have been taken."""
    await gate.turns.after.drain()
    await gate._flush_metrics()


async def test_figures_of_turns_are_scraped(tmp_path: Path) -> None:
    async with gateway(tmp_path, Broken()) as gate, client(gate) as http:
        await gate.chat(SUM)
        gate.host.metric("acme.sync", rows=3)
        gate.host.instruments.apply("awareness", OF_AWARENESS)
        gate.host.metric(
            "awareness.turn", sessionType="main", injected=[{"id": "a"}], totalTokens=90
        )
        await taken(gate)
        found = await scraped(http)

    assert found["hookgate_turns_total"] == {"ending=done": 1}
    assert found["hookgate_turn_seconds_count"] == {"": 1}
    assert found["hookgate_model_calls_total"] == {"ending=done model=demo/demo": 2}
    assert found["hookgate_model_seconds_count"] == {"ending=done model=demo/demo": 2}
    assert found["hookgate_model_tokens_total"].keys() == {
        "direction=input model=demo/demo",
        "direction=output model=demo/demo",
    }
    assert found["hookgate_tool_calls_total"] == {"status=done tool=calculate": 1}
    assert found["hookgate_tool_seconds_count"] == {"tool=calculate": 1}
    assert found["hookgate_awareness_turns_total"] == {"injected=true session_type=main": 1}
    assert found["hookgate_awareness_tokens_total"] == {"": 90}
    assert found["hookgate_capabilities_injected_total"] == {"capability=a": 1}
    assert found["hookgate_hook_failures_total"] == {"hook=tag_turn plugin=broken": 1}
    assert found["hookgate_events_total"] == {"name=acme.sync": 1}


async def test_a_scraper_that_knows_an_address_alone_still_needs_its_token(tmp_path: Path) -> None:
    section, made = tokens(monitor={"scopes": ["read"]})
    async with gateway(tmp_path, wire=section) as gate, client(gate) as http:
        await gate._flush_metrics()
        asked = {"Host": "10.4.0.17:9100"}
        async with http.get("/metrics", headers=asked) as answer:
            assert answer.status == 401
        asked |= bearer(made["monitor"])["headers"]
        assert await scraped(http, headers=asked)
        asked["Host"] = "evil.example"
        async with http.get("/metrics", headers=asked) as answer:
            assert answer.status == 421


class Sync:
    """A plugin that measures, and says what is to be kept of it."""

    name = "sync"
    rows = Instrument(
        name="acme_rows",
        help="Rows that were synchronised.",
        sources=(RecordSource(record="acme.sync", value="rows"),),
        labels=(Label(name="table"),),
        unit="{row}",
    )

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        host.instruments.apply(self.name, [self.rows])
        host.metric("acme.sync", table="people", rows=3)
        yield


async def test_figure_that_a_plugin_declares_is_scraped(tmp_path: Path) -> None:
    async with gateway(tmp_path, Sync()) as gate, client(gate) as http:
        gate.host.metric("acme.sync", table="people", rows=4)
        gate.host.metric("acme.sync", rows=1)
        await taken(gate)
        found = await scraped(http)

    assert found["acme_rows_total"] == {"table=people": 7, "table=other": 1}
    assert "hookgate_events_total" not in found


async def test_figure_that_is_declared_while_the_gateway_runs_is_scraped(tmp_path: Path) -> None:
    async with gateway(tmp_path) as gate, client(gate) as http:
        gate.host.instruments.apply("late", [Sync.rows])
        gate.host.metric("acme.sync", table="people", rows=4)
        await taken(gate)
        assert (await scraped(http))["acme_rows_total"] == {"table=people": 4}


class Usurper:
    """A plugin that declares a figure of the core's name."""

    name = "usurper"

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        turns = Instrument(name="hookgate_turns", help="Mine.", kind="gauge")
        host.instruments.apply(self.name, [turns])
        yield


async def test_figure_of_a_name_that_is_taken_is_left_out_and_named(tmp_path: Path) -> None:
    async with gateway(tmp_path, Usurper()) as gate, client(gate) as http:
        await gate.chat("hello")
        await taken(gate)
        assert (await scraped(http))["hookgate_turns_total"] == {"ending=done": 1}
        why = gate.host.status()["degraded"]["instrument hookgate_turns of usurper"]
    assert "core brings an instrument of this name" in why


async def test_nothing_of_a_message_or_a_session_is_told(tmp_path: Path) -> None:
    async with gateway(tmp_path) as gate, client(gate) as http:
        turn = await gate.chat("canary-message")
        await taken(gate)
        async with http.get("/metrics") as answer:
            page = await answer.text()

    assert "canary" not in page
    assert turn.id not in page
    assert str(turn.session) not in page


async def test_openmetrics_is_served_to_who_asks_for_it(tmp_path: Path) -> None:
    async with gateway(tmp_path) as gate, client(gate) as http:
        accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
        async with http.get("/metrics", headers=accept) as answer:
            assert answer.headers["content-type"].startswith("application/openmetrics-text")
            assert (await answer.text()).endswith("# EOF\n")


async def test_scraping_needs_the_scope_read(tmp_path: Path) -> None:
    wire, made = tokens(scraper={"scopes": ["read"]}, talker={"scopes": ["chat"]})
    async with gateway(tmp_path, wire=wire) as gate, client(gate) as http:
        async with http.get("/metrics") as nobody:
            assert nobody.status == 401
        async with http.get("/metrics", **bearer(made["talker"])) as talker:
            assert talker.status == 403
        assert "hookgate_turn_seconds_count" in await scraped(http, **bearer(made["scraper"]))


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("HTTP/1.0", 200),
        ("HTTP/1.1\r\nHost: 10.4.0.17:9100", 200),
        ("HTTP/1.1\r\nHost: evil.example", 421),
    ],
)
async def test_monitors_ask_without_a_name_and_pages_of_others_do_not(
    tmp_path: Path, asked: str, status: int
) -> None:
    async with gateway(tmp_path) as gate, listen(gate) as listener:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(f"GET /metrics {asked}\r\nConnection: close\r\n\r\n".encode())
        assert int((await reader.readline()).split()[1]) == status
        writer.close()


async def test_nothing_is_served_where_prometheus_is_off(tmp_path: Path) -> None:
    async with gateway(tmp_path, prometheus=False) as gate, client(gate) as http:
        await gate.chat("hello")
        async with http.get("/metrics") as answer:
            assert answer.status == 404


async def test_two_gateways_in_one_process_count_for_themselves(tmp_path: Path) -> None:
    async with (
        gateway(tmp_path / "one") as one,
        gateway(tmp_path / "two") as two,
        client(one) as first,
        client(two) as second,
    ):
        await one.chat("hello")
        await taken(one)
        assert (await scraped(first))["hookgate_turns_total"] == {"ending=done": 1}
        assert "hookgate_turns_total" not in await scraped(second)


# -- a collector -------------------------------------------------------------------


async def test_nothing_is_sent_by_itself(tmp_path: Path) -> None:
    async with collecting() as collector:
        async with gateway(tmp_path, otel={"endpoint": collector.url}) as gate:
            await gate.chat("hello")
        assert collector.requests == []


async def test_figures_reach_a_collector_when_the_gateway_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLLECTOR_KEY", "s3cret-of-the-collector")
    async with collecting() as collector:
        otel = {
            "enabled": True,
            "endpoint": collector.url,
            "headers": {"x-api-key": "COLLECTOR_KEY"},
        }
        async with gateway(tmp_path, otel=otel) as gate:
            await gate.chat(SUM)
            assert gate.host.degraded == {}
            await gate.turns.after.drain()

    assert collector.totals() == {
        "hookgate.turns": 1,
        "hookgate.model.calls": 2,
        "hookgate.tool.calls": 1,
    }
    assert collector.counts() == {
        "hookgate.turn.duration": 1,
        "gen_ai.client.operation.duration": 2,
        "gen_ai.client.token.usage": 4,
        "hookgate.tool.duration": 1,
    }
    assert collector.headers[-1]["x-api-key"] == "s3cret-of-the-collector"


async def test_collector_that_refuses_is_shown_in_status_and_turns_go_on(tmp_path: Path) -> None:
    async with collecting() as collector:
        collector.status = 503
        otel = {"enabled": True, "endpoint": collector.url, "interval_seconds": 1}
        async with gateway(tmp_path, otel=otel) as gate:
            await gate.chat("hello")
            await until(lambda: "telemetry.otel" in gate.host.status()["degraded"])
            assert "HTTP 503" in gate.host.status()["degraded"]["telemetry.otel"]
            collector.status = 200
            await until(lambda: gate.host.status()["degraded"] == {})
            assert (await gate.chat("hello")).ending == "done"


async def test_secret_that_is_missing_stops_the_start_and_is_named(tmp_path: Path) -> None:
    otel = {"enabled": True, "headers": {"x-api-key": "NO_SUCH_SECRET"}}
    with pytest.raises(StartError, match=r"x-api-key needs the secret NO_SUCH_SECRET"):
        await gateway(tmp_path, otel=otel).__aenter__()


async def test_secret_that_no_header_can_carry_stops_the_start_and_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLLECTOR_KEY", "canary\nx-admin: 1")
    otel = {"enabled": True, "headers": {"x-api-key": "COLLECTOR_KEY"}}
    with pytest.raises(StartError, match="no header can carry") as error:
        await gateway(tmp_path, otel=otel).__aenter__()
    assert "canary" not in str(error.value)


async def test_without_the_extra_the_start_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "hookgate.builtin_plugins.telemetry.otel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.metrics", None)
    with pytest.raises(StartError, match=r"pip install 'hookgate\[otel\]'"):
        await gateway(tmp_path, otel={"enabled": True}).__aenter__()


async def test_endpoint_that_nothing_can_grant_stops_the_start(tmp_path: Path) -> None:
    otel = {"enabled": True, "endpoint": "http://127.1:4318/v1/metrics"}
    with pytest.raises(StartError, match="four decimal numbers"):
        await gateway(tmp_path, otel=otel).__aenter__()


async def test_without_a_way_out_the_start_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingKeyError, match="egress"):
        await gateway(
            tmp_path, builtin=("control", "providers", "telemetry"), otel={"enabled": True}
        ).__aenter__()


def test_key_in_place_of_its_secrets_name_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="x-honeycomb-team") as error:
        gateway(tmp_path, otel={"headers": {"x-honeycomb-team": "the key itself"}})
    assert "the key itself" not in str(error.value)


@pytest.mark.parametrize(
    ("otel", "said"),
    [
        ({"endpoint": "ftp://collector/v1/metrics"}, "expected an http or https URL"),
        ({"endpoint": "http://user:pw@collector/v1/metrics"}, "expected no user"),
        ({"endpoint": "http://collector:4318"}, "expected the whole address"),
        ({"headers": {"x api key": "KEY"}}, "x api key"),
        ({"headers": {"x-api-key": "the key itself"}}, "x-api-key"),
        ({"interval_seconds": 0}, "interval_seconds"),
    ],
)
def test_setting_that_is_wrong_is_named(tmp_path: Path, otel: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        gateway(tmp_path, otel=otel)
