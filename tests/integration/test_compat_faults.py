"""Bad upstreams behind each wire: one end of each answer, in the vendor's form, and settled."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.builtin_plugins.providers.raw import RawServer, raw_server
from tests.clients.faults import FAULTS, PATHS, WIRES, Fault, body, providers, script
from tests.support.script import settings
from tests.support.wire import Served

from hookgate import Gateway
from hookgate.builtin_plugins import BUILTIN
from hookgate.core.gateway.serve import listen

NAMES = [
    name
    for name in BUILTIN
    if name
    in ("control", "storage", "egress", "providers", "audit", "policy", "metering", "compat")
]
SECONDS = 0.5
TOGETHER = 8
LONGEST = 30.0
"""Seconds that each may take: less than any limit of an upstream that is not slow."""
ENDS = {
    "chat": {"[DONE]"},
    "messages": {"message_stop", "error"},
    "responses": {
        "response.completed",
        "response.incomplete",
        "response.failed",
        "error",
    },
}


@asynccontextmanager
async def served(
    home: Path, wire: str, *, plugins: Sequence[object] = (), **policy: Any
) -> AsyncIterator[tuple[Served, RawServer]]:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        async with raw_server() as upstream:
            upstream.script = script(wire)
            made = providers(wire, upstream.url.removesuffix("/v1"), gone, seconds=SECONDS)
            metering = {"budgets": {"all": {"tokens": 10**9, "scope": "global"}}}
            plugin = {
                "providers": made,
                "policy": {"profile": "open", **policy},
                "metering": metering,
            }
            config = settings(home, gateway={"port": 0}, plugin=plugin)
            async with (
                Gateway(config, builtin=NAMES, plugins=list(plugins)) as gate,
                listen(gate) as listener,
                aiohttp.ClientSession() as http,
            ):
                yield Served(gate, listener, http), upstream


def ends_in(wire: str, text: str) -> list[str]:
    """Return what ends an answer, of all that was sent."""
    found = []
    for line in text.split("\n"):
        if not line.startswith("data: "):
            continue
        data = line.removeprefix("data: ")
        kind = data if data == "[DONE]" else str(json.loads(data).get("type", ""))
        if wire == "chat" and data != "[DONE]" and "error" in json.loads(data):
            kind = "error"
        if kind in ENDS[wire] | {"error"}:
            found.append(kind.removeprefix("response."))
    return found


async def asked(one: Served, wire: str, fault: Fault, *, stream: bool) -> dict[str, Any]:
    """Return what a client is told."""
    made = body(wire, fault.model(wire), stream=stream)
    async with one.http.post(one.url + PATHS[wire], json=made) as answer:
        text = await answer.text()
        if answer.status == 200:
            if stream:
                return {"status": 200, "ends": ends_in(wire, text)}
            return {"status": 200, "ends": ["whole"] if json.loads(text) else []}
        error = json.loads(text)["error"]
        assert error["type"]
        assert len(error["message"]) > 20, "it says what was found"
        assert "canary" not in text
        refused = answer.headers.get("x-should-retry") == "false"
        wait = answer.headers.get("retry-after-ms")
        return {"status": answer.status, "again": not refused, "wait": wait}


def expected(wire: str, fault: Fault, *, stream: bool) -> dict[str, Any]:
    """Return what a client is to be told."""
    if fault.status == 0:
        end = {"chat": "[DONE]", "messages": "message_stop", "responses": "completed"}[wire]
        return {"status": 200, "ends": [end if stream else "whole"]}
    if wire in fault.within and stream:
        return {"status": 200, "ends": ["failed" if wire == "responses" else "error"]}
    # What has not begun the gateway has tried twice, where it may pass; more is nobody's to do.
    again = fault.again and wire in fault.within
    return {"status": fault.told(wire), "again": again, "wait": None}


def test_there_are_more_faults_than_twenty_five() -> None:
    assert len(FAULTS) >= 25
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


WAITING = [fault for fault in FAULTS if fault.provider == "slow" or fault.name == "status-429"]
AT_ONCE = [fault for fault in FAULTS if fault not in WAITING]
GROUPS = [
    pytest.param(AT_ONCE, True, id="streamed"),
    pytest.param(AT_ONCE, False, id="whole", marks=pytest.mark.slow),
    pytest.param(WAITING, True, id="streamed and late", marks=pytest.mark.slow),
    pytest.param(WAITING, False, id="whole and late", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("faults", "stream"), GROUPS)
@pytest.mark.parametrize("wire", WIRES)
async def test_each_fault_ends_once_in_the_vendors_form_and_is_settled(
    wire: str, faults: Sequence[Fault], stream: bool, tmp_path: Path
) -> None:
    few = asyncio.Semaphore(TOGETHER)
    async with served(tmp_path, wire) as (one, upstream):

        async def told(fault: Fault) -> tuple[str, dict[str, Any]]:
            async with few, asyncio.timeout(LONGEST):
                return fault.name, await asked(one, wire, fault, stream=stream)

        found = dict(await asyncio.gather(*map(told, faults)))
        assert found == {fault.name: expected(wire, fault, stream=stream) for fault in faults}
        # What has failed before it said anything is asked once more, unless it was refused.
        came = Counter(request["model"] for request in upstream.requests)
        tries = {
            fault.name: 2 if fault.again and wire not in fault.within else 1
            for fault in faults
            if fault.provider != "gone"
        }
        assert came == tries
        _, budgets = await one.get("/v1/budgets")
        assert [row["held"] for row in budgets["budgets"][0]["counters"]] == ["0"]
        _, usage = await one.get("/v1/usage")
        gone = sum(fault.provider == "gone" for fault in faults)
        assert usage["whole"]["calls"] == sum(tries.values()) + 2 * gone
        # It goes on as if nothing had been.
        status, _ = await one.post(PATHS[wire], body(wire, f"{wire}/fine"))
        assert status == 200


@pytest.mark.parametrize("name", ["status-429", "status-503", "reset-before-headers"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_client_that_counts_its_tries_is_left_to_them(
    wire: str, name: str, tmp_path: Path
) -> None:
    async with served(tmp_path, wire) as (one, upstream):
        made = body(wire, f"{wire}/{name}")
        headers = {"x-stainless-retry-count": "0"}
        async with one.http.post(one.url + PATHS[wire], json=made, headers=headers) as answer:
            assert answer.status >= 429
            assert "x-should-retry" not in answer.headers
            wait = answer.headers.get("retry-after-ms")
            assert wait == ("1000" if name == "status-429" else None)
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("wire", WIRES)
async def test_usage_below_nothing_is_no_answer_and_is_settled_by_an_estimate(
    wire: str, stream: bool, tmp_path: Path
) -> None:
    async with served(tmp_path, wire) as (one, _):
        made = body(wire, f"{wire}/negative-usage", stream=stream)
        async with one.http.post(one.url + PATHS[wire], json=made) as answer:
            text = await answer.text()
        assert answer.status == (200 if stream else 502)
        assert "impossible token counts" in text
        assert "-30" not in text.replace("= '-30'", ""), "nobody takes it for a figure"
        if not stream:
            assert answer.headers["x-should-retry"] == "false"
        _, usage = await one.get("/v1/usage")
        assert usage["whole"]["calls"] == 1
        assert usage["whole"]["estimated"] == 1
        assert usage["whole"]["output_tokens"] > 0
