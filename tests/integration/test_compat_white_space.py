"""White space before an answer in one piece: where the operator wants it, and no other 200."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.integration.test_compat import BOTH, CHAT, asked, served, text_of
from tests.support.script import say, until

from hookgate import ProviderError

SOON = {"compat": {"white_space_seconds": 0.02}}
KEYED = pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k1"}], ids=["plain", "keyed"])


@BOTH
@KEYED
async def test_it_comes_while_the_answer_is_waited_for(
    path: str, headers: dict[str, str], tmp_path: Path
) -> None:
    go = asyncio.Event()
    async with (
        served(tmp_path, [go.wait, *say("at last")], plugin=SOON) as (one, _),
        one.http.post(one.url + path, json=asked(path), headers=headers) as answer,
    ):
        assert answer.status == 200
        assert answer.content_type == "application/json"
        assert "x-hookgate-model" not in answer.headers
        assert await answer.content.readexactly(2) == b"  "
        go.set()
        rest = await answer.content.read()
        assert text_of(path, json.loads(rest)) == "at last"


@BOTH
@KEYED
async def test_a_failure_behind_it_breaks_the_connection(
    path: str, headers: dict[str, str], tmp_path: Path
) -> None:
    go = asyncio.Event()
    steps = [go.wait, ProviderError("rejected", "not so", provider="script")]
    async with served(tmp_path, steps, plugin=SOON) as (one, _):
        with pytest.raises(aiohttp.ClientPayloadError):
            async with one.http.post(one.url + path, json=asked(path), headers=headers) as answer:
                assert await answer.content.readexactly(1) == b" "
                go.set()
                await answer.content.read()


@BOTH
async def test_a_failure_before_it_has_its_status(path: str, tmp_path: Path) -> None:
    wrong = ProviderError("rejected", "not so", provider="script")
    plugin = {"compat": {"white_space_seconds": 30}}
    async with served(tmp_path, [wrong], plugin=plugin) as (one, _):
        status, answer = await one.post(path, asked(path))
        assert (status, "not so" in answer["error"]["message"]) == (400, True)


async def test_without_the_setting_nothing_comes_before_the_answer(tmp_path: Path) -> None:
    go = asyncio.Event()
    async with served(tmp_path, [go.wait, *say("ok")]) as (one, script):
        task = asyncio.ensure_future(one.http.post(one.url + CHAT, json=asked(CHAT)))
        await until(lambda: bool(script.requests))
        go.set()
        async with await task as answer:
            body = await answer.read()
            assert (body[:1], answer.headers["content-length"]) == (b"{", str(len(body)))
            assert "x-hookgate-model" in answer.headers


@BOTH
async def test_a_client_that_goes_away_behind_it_ends_its_turn(path: str, tmp_path: Path) -> None:
    never = asyncio.Event()
    async with served(tmp_path, [never.wait], plugin=SOON) as (one, _):
        answer = await one.http.post(one.url + path, json=asked(path))
        assert await answer.content.readexactly(1) == b" "
        answer.close()
        await until(lambda: not one.gate.host.running())


@BOTH
async def test_a_stream_has_none(path: str, tmp_path: Path) -> None:
    go = asyncio.Event()
    body: dict[str, Any] = asked(path, stream=True)
    async with served(tmp_path, [go.wait, *say("ok")], plugin=SOON) as (one, script):
        task = asyncio.ensure_future(one.http.post(one.url + path, json=body))
        await until(lambda: bool(script.requests))
        go.set()
        async with await task as answer:
            text = await answer.text()
            assert answer.content_type == "text/event-stream"
            assert not text.startswith(" ")
