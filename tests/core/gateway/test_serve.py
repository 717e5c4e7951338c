from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from tests.core.gateway.test_chat import Gate
from tests.core.gateway.test_http import events
from tests.support.script import Script, Scripted, gateway, say, until
from tests.support.wire import Socket, serving

from hookgate.core.domain.turn import Turn
from hookgate.core.gateway.serve import drain, loop_factory, serve
from hookgate.hookspecs import hookimpl

ROOT = Path(__file__).parent.parent.parent.parent


@dataclass
class Process:
    """A gateway in a process of its own."""

    process: asyncio.subprocess.Process
    port: int
    home: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def go(self) -> None:
        """Let the model end its answers."""
        (self.home / "go").touch()

    async def exit_code(self) -> int:
        return await self.process.wait()


@asynccontextmanager
async def running(home: Path, *, seconds: float = 25, wait: float = 0) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.core.gateway.served",
        str(home),
        str(seconds),
        str(wait),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stdout is not None
        line = await process.stdout.readline()
        yield Process(process, int(line), home)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Socket]:
    async with aiohttp.ClientSession() as http, http.ws_connect(url + "/ws") as raw:
        client = Socket(raw)
        await client.next()
        yield client


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
async def test_a_signal_lets_turns_finish_refuses_new_ones_and_exits_with_0(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with running(tmp_path) as served, connected(served.url) as socket:
        await socket.send("chat.send", content="x")
        assert (await socket.until("text"))["text"] == "begun"
        served.process.send_signal(number)
        assert (await socket.until("stopping"))["seconds"] == 25
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", served.port)
        answer = await socket.call("chat.send", content="one more", peer="other")
        assert answer["error"]["code"] == -32011
        assert await socket.result("ping") == {"pong": True}
        served.go()
        done = await socket.until("done")
        assert (done["ending"], done["text"]) == ("done", "begun and ended")
        assert await socket.closed() == 1001
        assert await served.exit_code() == 0


async def ready(http: aiohttp.ClientSession, url: str) -> int:
    async with http.get(url + "/ready", headers={"Connection": "close"}) as answer:
        return answer.status


async def unready(http: aiohttp.ClientSession, url: str) -> None:
    """Wait until balancers are told to ask others."""
    while await ready(http, url) != 503:  # noqa: ASYNC110 - another process says it
        await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_until_balancers_have_noticed_a_gateway_that_ends_serves_on(tmp_path: Path) -> None:
    async with running(tmp_path, wait=600) as served, aiohttp.ClientSession() as http:
        served.go()
        assert await ready(http, served.url) == 200
        served.process.terminate()
        await unready(http, served.url)
        async with connected(served.url) as socket:
            await socket.send("chat.send", content="x")
            assert (await socket.until("done"))["text"] == "begun and ended"
        async with http.post(served.url + "/v1/turns", json={"content": "x"}) as answer:
            assert (answer.status, (await answer.json())["text"]) == (200, "begun and ended")
        served.process.terminate()
        assert await served.exit_code() == 0


@pytest.mark.slow
async def test_the_wait_for_balancers_ends_by_itself(tmp_path: Path) -> None:
    async with running(tmp_path, wait=0.1) as served, connected(served.url) as socket:
        served.process.terminate()
        assert (await socket.until("stopping"))["seconds"] == 25
        assert await served.exit_code() == 0


@pytest.mark.slow
async def test_who_presses_ctrl_c_does_not_wait_for_balancers(tmp_path: Path) -> None:
    async with running(tmp_path, wait=600) as served, connected(served.url) as socket:
        await socket.send("chat.send", content="x")
        await socket.until("text")
        served.process.send_signal(signal.SIGINT)
        await socket.until("stopping")
        served.go()
        assert (await socket.until("done"))["ending"] == "done", "turns have their time"
        assert await served.exit_code() == 0


@pytest.mark.slow
async def test_turns_that_do_not_finish_are_cancelled_at_the_deadline(tmp_path: Path) -> None:
    async with running(tmp_path, seconds=0.2) as served, connected(served.url) as socket:
        await socket.send("chat.send", content="x")
        await socket.until("text")
        served.process.terminate()
        assert (await socket.until("done"))["ending"] == "cancelled"
        assert await served.exit_code() == 0


@pytest.mark.slow
async def test_a_second_signal_cancels_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, seconds=600) as served, connected(served.url) as socket:
        await socket.send("chat.send", content="x")
        await socket.until("text")
        served.process.terminate()
        await socket.until("stopping")
        served.process.terminate()
        assert (await socket.until("done"))["ending"] == "cancelled"
        assert await served.exit_code() == 0


@pytest.mark.slow
async def test_a_hangup_signal_reads_content_again_and_ends_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as served, connected(served.url) as socket:
        await socket.result("events.subscribe", types=["reloaded"])
        served.process.send_signal(signal.SIGHUP)
        event = await socket.until("event")
        assert event["type"] == "reloaded"
        assert await socket.result("ping") == {"pong": True}
        served.process.terminate()
        assert await served.exit_code() == 0


@pytest.mark.slow
async def test_a_whole_stream_over_http_is_finished_too(tmp_path: Path) -> None:
    async with running(tmp_path) as served, aiohttp.ClientSession() as http:
        headers = {"Accept": "text/event-stream"}
        async with http.post(
            served.url + "/v1/turns", json={"content": "x"}, headers=headers
        ) as answer:
            seen = b""
            while b"begun" not in seen:
                seen += await answer.content.readany()
            served.process.terminate()
            served.go()
            seen += await answer.content.read()
        assert b"event: done\n" in seen
        assert await served.exit_code() == 0


async def test_who_has_connected_is_answered_though_the_gateway_listens_no_more() -> None:
    async with serving() as served:
        place = ("127.0.0.1", served.listener.port)
        # The event loop does not run meanwhile: they wait to be accepted.
        clients = [socket.create_connection(place) for _ in range(20)]
        await served.listener.stop_accepting()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(place)
        for client in clients:
            client.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=client)
            writer.write(f"GET /health HTTP/1.1\r\nHost: {served.host}\r\n\r\n".encode())
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            writer.close()


async def test_a_stream_is_told_that_the_gateway_stops() -> None:
    gate = Gate()
    async with serving(Scripted(Script(gate.stops()))) as served:
        stream = events(served, "/v1/turns", {"content": "x"})
        await anext(stream)
        await gate.reached.wait()
        draining = asyncio.ensure_future(drain(served.gate, served.listener))
        seen = []
        async for kind, data in stream:
            seen.append(kind)
            if kind == "stopping":
                assert data == {"seconds": 25.0}
                gate.open.set()
        assert seen.index("stopping") < seen.index("done")
        await draining


async def test_serving_ends_without_signals_too() -> None:
    stop = asyncio.Event()
    urls: list[str] = []
    settings = {"port": 0, "limits": {"drain_wait_seconds": 0}}
    async with gateway(Scripted(Script(say("x"))), gateway=settings) as gate:
        serving_ = asyncio.ensure_future(
            serve(gate, signals=False, stop=stop, started=lambda one: urls.append(one.url))
        )
        await until(lambda: bool(urls))
        async with connected(urls[0]) as socket:
            stop.set()
            assert await socket.closed() == 1001
        assert await serving_ == 0
        assert gate.host.ready is False


async def test_nothing_that_was_acknowledged_is_lost_by_a_drain() -> None:
    ended: list[Turn] = []

    class Last:
        @hookimpl
        async def after_turn(self, turn: Turn) -> None:
            ended.append(turn)

    gate = Gate()
    async with (
        serving(Scripted(Script(gate.stops())), Last()) as served,
        served.socket() as socket,
    ):
        turn = (await socket.result("chat.send", content="x"))["turn"]
        await gate.reached.wait()
        draining = asyncio.ensure_future(drain(served.gate, served.listener))
        await socket.until("stopping")
        gate.open.set()
        await draining
        assert (await socket.until("done"))["turn"] == turn
        assert [one.id for one in ended] == [turn]
        assert served.gate.host.running() == ()


def test_the_fastest_event_loop_that_is_there_is_used() -> None:
    factory = loop_factory()
    assert factory is not None
    loop = factory()
    assert "uvloop" in type(loop).__module__
    loop.close()


async def test_a_stream_that_began_before_the_end_leaves_no_connection_for_another_request() -> (
    None
):
    gate = Gate()
    async with serving(Scripted(Script(gate.stops()))) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.listener.port)
        body = b'{"content": "x"}'
        writer.write(
            b"POST /v1/turns HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (served.host.encode(), len(body), body)
        )
        assert b" 200 " in await reader.readline()
        await gate.reached.wait()
        # Its head has gone out, and could not say that the connection ends.
        served.server.leaving = True
        gate.open.set()
        assert b"event: done" in await reader.read()
        writer.close()
