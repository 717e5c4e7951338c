"""Streams of events that plugins answer with: told, kept alive, waited for, cut off, ended."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from tests.core.gateway.test_authenticate import Keys, model, with_key
from tests.support.script import until
from tests.support.wire import Served, serving, small_buffers

from hookgate import Access, EventStream, Routes, hookimpl
from hookgate.core.gateway.wire import sse
from hookgate.core.gateway.wire.sse import encode_event

Tell = Callable[[EventStream], Awaitable[None]]


class Ticker:
    """A plugin with a route that answers with a stream."""

    def __init__(self, tell: Tell, more: str = "1") -> None:
        self.tell = tell
        self.more = more
        self.left: list[str] = []

    @hookimpl
    def add_routes(self, host: Any, routes: Routes) -> None:
        routes.add("GET", "/ticks", self.ticks, access=Access.scoped("read"))

    async def ticks(self, request: web.Request) -> web.StreamResponse:
        async with EventStream(request, headers={"x-more": self.more}) as stream:
            try:
                await self.tell(stream)
                self.left.append("whole")
            except asyncio.CancelledError:
                self.left.append("cancelled")
                raise
            except ConnectionResetError:
                self.left.append("reset")
                raise
        self.left.append("behind")
        return stream.response


async def forever(stream: EventStream) -> None:
    await stream.send("first")
    await asyncio.Event().wait()


async def floods(stream: EventStream) -> None:
    for number in range(2000):
        await stream.send("x" * 10_000, id=str(number))


async def connected(served: Served, *, small: bool = True) -> socket.socket:
    """Ask for the stream with a client that reads nothing by itself."""
    loop = asyncio.get_running_loop()
    client = socket.socket()
    if small:
        small_buffers(client)
    client.setblocking(False)
    await loop.sock_connect(client, ("127.0.0.1", served.listener.port))
    await loop.sock_sendall(client, f"GET /ticks HTTP/1.1\r\nHost: {served.host}\r\n\r\n".encode())
    return client


async def test_events_go_out_as_they_are_sent() -> None:
    going = asyncio.Event()

    async def tell(stream: EventStream) -> None:
        await stream.send("one", event="tick", id="1")
        await going.wait()
        stream.comment("approval a1")
        stream.put("two\nlines\r\nand a third")
        stream.put_all([("tick", "three"), ("", b"[DONE]")])
        stream.put_all([])

    plugin = Ticker(tell)
    async with serving(model(), plugin) as served, served.http.get(served.url + "/ticks") as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert answer.headers["x-more"] == "1"
        assert answer.headers["Cache-Control"] == "no-store"
        assert await answer.content.readuntil(b"\n\n") == b"event: tick\nid: 1\ndata: one\n\n"
        going.set()
        assert await answer.content.read() == (
            b": approval a1\n\ndata: two\ndata: lines\ndata: and a third\n\n"
            b"event: tick\ndata: three\n\ndata: [DONE]\n\n"
        )
    assert plugin.left == ["whole", "behind"]


async def test_silence_is_broken_by_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE", 0.02)
    async with (
        serving(model(), Ticker(forever)) as served,
        served.http.get(served.url + "/ticks") as answer,
    ):
        assert await answer.content.readuntil(b"\n\n") == b"data: first\n\n"
        for _ in range(3):
            assert await answer.content.readuntil(b"\n\n") == b": keep-alive\n\n"


async def test_a_reader_who_goes_away_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "LOOK", 0.02)
    plugin = Ticker(forever)
    async with serving(model(), plugin) as served:
        with await connected(served):
            await until(lambda: len(served.server.clients) == 1)
        await until(lambda: len(served.server.clients) == 0)
    assert plugin.left == ["cancelled", "behind"]


async def test_a_slow_reader_is_waited_for_and_misses_nothing() -> None:
    sent = 0
    streams: list[EventStream] = []

    async def tell(stream: EventStream) -> None:
        nonlocal sent
        streams.append(stream)
        for number in range(2000):
            await stream.send("x" * 10_000, id=str(number))
            sent += 1

    loop = asyncio.get_running_loop()
    async with serving(model(), Ticker(tell)) as served:
        with await connected(served, small=False) as client:
            await until(lambda: bool(streams) and streams[0].waiting > 0)
            assert sent < 2000
            seen = b""
            while b"id: 1999" not in seen[-40_000:]:
                seen += await loop.sock_recv(client, 1 << 20)
    assert [int(number) for number in re.findall(rb"id: (\d+)\n", seen)] == list(range(2000))


async def test_a_reader_who_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "FLUSH_SECONDS", 0.05)
    plugin = Ticker(floods)
    async with serving(model(), plugin) as served:
        with await connected(served):
            await until(lambda: bool(plugin.left))
            await until(lambda: len(served.server.clients) == 0)
        assert (await served.get("/v1/status"))[0] == 200
    assert plugin.left[0] in ("reset", "cancelled")


async def test_a_reader_for_whom_too_much_waits_is_cut_off() -> None:
    async def tell(stream: EventStream) -> None:
        while True:
            stream.put("x" * 10_000)
            await asyncio.sleep(0)

    plugin = Ticker(tell)
    async with serving(model(), plugin) as served:
        with await connected(served):
            await until(lambda: bool(plugin.left))
    assert plugin.left[0] == "cancelled"


async def test_a_stop_ends_the_stream_and_what_was_said_goes_out() -> None:
    async def tell(stream: EventStream) -> None:
        await stream.send("first")
        try:
            await asyncio.Event().wait()
        finally:
            assert stream.stopping
            stream.put("last words")

    async with aiohttp.ClientSession() as http:
        async with serving(model(), Ticker(tell)) as served:
            answer = await http.get(served.url + "/ticks")
            assert await answer.content.readuntil(b"\n\n") == b"data: first\n\n"
            rest = asyncio.create_task(answer.content.read())
            served.server.stopping = True
            async with http.get(served.url + "/ticks") as refused:
                assert refused.status == 503
        # Whole: had the connection been cut, reading would have raised.
        assert await rest == b"data: last words\n\n"


async def test_a_failure_within_the_stream_breaks_it_and_one_before_is_an_answer() -> None:
    async def tell(stream: EventStream) -> None:
        await stream.send("first")
        raise RuntimeError("the source failed")

    async with serving(model(), Ticker(tell)) as served:
        async with served.http.get(served.url + "/ticks") as answer:
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.content.read()
        assert (await served.get("/ticks", **with_key("nobody's")))[0] == 401


async def test_a_header_that_would_split_the_answer_is_refused_before_it_begins() -> None:
    async with serving(model(), Ticker(forever, more="1\r\nSet-Cookie: a=b")) as served:
        status, body = await served.get("/ticks")
        assert (status, body["error"]["data"]["code"]) == (500, "internal")


async def test_a_stream_ends_with_the_key_that_it_was_asked_for_with() -> None:
    plugin = Ticker(forever)
    keys = Keys(k_soon=timedelta(seconds=0.3))
    async with serving(model(), plugin, keys) as served:
        with pytest.raises(aiohttp.ClientError):
            async with served.http.get(served.url + "/ticks", **with_key("k_soon")) as answer:
                await answer.content.read()
        await until(lambda: bool(plugin.left) and len(served.server.clients) == 0)
    assert plugin.left[0] in ("cancelled", "reset")


@given(st.text(), st.text(), st.text())
def test_an_event_is_one_event_whatever_it_holds(data: str, event: str, id: str) -> None:
    safe = data.encode("utf-8", "replace").decode()
    name, mark = (text.encode("utf-8", "replace").decode() for text in (event, id))
    lines = re.split(b"\r\n|\r|\n", encode_event(safe, event=name, id=mark))
    told = [line.partition(b": ") for line in lines if line]

    assert lines[-2:] == [b"", b""]
    assert sum(not line for line in lines) == 2
    assert [field for field, _, _ in told if field != b"data"] == [
        *([b"event"] if name else []),
        *([b"id"] if mark else []),
    ]
    assert b"\n".join(value for field, _, value in told if field == b"data") == b"\n".join(
        re.split(b"\r\n|\r|\n", safe.encode())
    )
