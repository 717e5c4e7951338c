from __future__ import annotations

import asyncio
import base64
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.gateway.test_chat import Gate
from tests.support.script import Recorder, Script, Scripted, say, until
from tests.support.wire import Served, serving, small_buffers

from hookgate.core.domain.models import TextDelta
from hookgate.core.gateway.wire.stream import QUEUE_BYTES, Backlog

CHUNK = "x" * 1000


def flood(chunks: int) -> list[Any]:
    """A provider's step: very much text, a little at a time."""

    async def breathe() -> None:
        await asyncio.sleep(0)

    return [item for _ in range(chunks) for item in (TextDelta(CHUNK), breathe)]


@asynccontextmanager
async def deaf(served: Served, peer: str = "deaf") -> AsyncIterator[socket.socket]:
    """Connect a WebSocket client that asks for an answer and reads none of it."""
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        small_buffers(client)
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", served.listener.port))
        key = base64.b64encode(os.urandom(16)).decode()
        await loop.sock_sendall(
            client,
            f"GET /ws HTTP/1.1\r\nHost: {served.host}\r\nConnection: Upgrade\r\n"
            f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
            "\r\n".encode(),
        )
        frame = (
            b'{"jsonrpc":"2.0","id":1,"method":"chat.send","params":{"content":"go","peer":"%b"}}'
        )
        await loop.sock_sendall(client, masked(frame % peer.encode()))
        yield client


def masked(data: bytes, opcode: int = 1) -> bytes:
    """Return a client's frame; masking with zeros leaves the data as it is."""
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
    return bytes([0x80 | opcode]) + size + bytes(4) + data


async def frames_of(client: socket.socket) -> list[tuple[int, bytes]]:
    """Read to the end of the connection; return opcode and payload of every frame."""
    loop = asyncio.get_running_loop()
    data, frames = b"", []
    while piece := await loop.sock_recv(client, 1 << 20):
        data += piece
    data = data.partition(b"\r\n\r\n")[2]
    while data:
        opcode, size = data[0] & 15, data[1]
        start = {126: 4, 127: 10}.get(size, 2)
        if start > 2:
            size = int.from_bytes(data[2:start], "big")
        frames.append((opcode, data[start : start + size]))
        data = data[start + size :]
    return frames


async def close_code(client: socket.socket) -> int:
    """Read to the end of the connection and return the code of the close frame, the last one."""
    opcode, payload = (await frames_of(client))[-1]
    assert opcode == 8, "the connection ended without a close frame"
    return int.from_bytes(payload[:2], "big")


def send_little(served: Served) -> None:
    """Make the gateway's kernel hold little for its clients."""
    assert served.listener.sockets
    for listening in served.listener.sockets:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)


async def test_a_client_that_does_not_read_is_closed_with_1013_and_its_turn_cancelled() -> None:
    recorder = Recorder()
    async with serving(Scripted(Script(flood(5000))), recorder) as served:
        send_little(served)
        async with deaf(served) as client:
            await until(lambda: len(recorder.turns) == 1)
            assert recorder.turns[0].ending == "cancelled"
            assert await close_code(client) == 1013


async def test_a_slow_client_gets_everything_in_order_while_it_keeps_up() -> None:
    words = [f"w{number} " for number in range(3000)]

    async def until_it_is_read() -> None:
        (connection,) = served.server.clients
        outbox = connection._outbox  # type: ignore[attr-defined] - a socket has one
        await until(lambda: outbox.waiting < 100)
        waited.append(outbox.waiting)

    steps = [item for word in words for item in (TextDelta(word), until_it_is_read)]
    waited: list[int] = []
    async with serving(Scripted(Script(steps))) as served:
        send_little(served)
        async with served.socket() as slow:
            await slow.send("chat.send", content="x")
            seen = []
            while True:
                frame = await slow.next()
                if frame.get("method") == "text":
                    seen.append(frame["params"]["text"])
                if frame.get("method") == "done":
                    break
    assert seen == words
    assert max(waited) > 0


async def test_nothing_follows_the_close_frame() -> None:
    gate = Gate()
    script = Script([gate.reached.set, *flood(100_000)])
    wire = {"limits": {"frame_bytes": 1024}}
    async with serving(Scripted(script), wire=wire) as served, deaf(served) as client:
        await gate.reached.wait()
        await asyncio.get_running_loop().sock_sendall(client, masked(b" " * 2000))
        assert await close_code(client) == 1009


@pytest.mark.parametrize("size", [1, 60, 125, 126, 127, 65_535, 65_536, 200_000])
async def test_a_frame_of_any_size_arrives_whole(size: int) -> None:
    text = "a" * size
    script = Script([TextDelta(text), *say("")])
    async with serving(Scripted(script)) as served, served.socket(max_msg_size=0) as client:
        await client.send("chat.send", content="x")
        assert (await client.until("text"))["text"] == text


async def test_other_clients_do_not_feel_a_slow_one() -> None:
    gate = Gate()
    script = Script([gate.reached.set, *flood(100_000)], say("quick"))
    async with serving(Scripted(script)) as served:
        send_little(served)
        async with deaf(served), served.socket() as other:
            await gate.reached.wait()
            for _ in range(50):
                assert await other.result("ping") == {"pong": True}
            await other.send("chat.send", content="x", peer="other")
            assert (await other.until("done"))["text"] == "quick"


@pytest.mark.slow
async def test_two_hundred_clients_that_do_not_read_cost_little_memory(short: bool) -> None:
    count = 50 if short else 200
    recorder = Recorder()
    limits = {"heartbeat_seconds": 600}
    async with serving(Scripted(Script(flood(2000))), recorder, wire={"limits": limits}) as served:
        send_little(served)
        async with served.socket() as other, AsyncExitStack() as stack:
            before = resident()
            most = before
            for number in range(count):
                await stack.enter_async_context(deaf(served, f"deaf{number}"))
            while len(recorder.turns) < count:
                most = max(most, resident())
                assert await other.result("ping") == {"pong": True}
    assert most - before < 64 * 2**20


def resident() -> int:
    """Return this process's resident memory in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def test_pings_that_nobody_reads_the_answers_of_do_not_pile_up() -> None:
    async with serving() as served:
        send_little(served)
        async with deaf(served) as client:
            await until(lambda: len(served.server.clients) == 1)
            loop = asyncio.get_running_loop()
            ping = masked(b"p" * 100, opcode=9) * 1000
            for _ in range(40):
                await loop.sock_sendall(client, ping)
            (connection,) = served.server.clients
            transport = connection._request.transport  # type: ignore[attr-defined] - a socket's
            assert transport.get_write_buffer_size() < 256 * 1024


async def test_a_client_that_answers_no_ping_is_let_go_and_one_that_does_is_kept() -> None:
    async with serving() as served:
        async with deaf(served):
            await until(lambda: len(served.server.clients) == 1)
            (gone,) = served.server.clients
            gone.check()
            gone.check()
            await until(lambda: len(served.server.clients) == 0)
        async with served.socket() as alive:
            reading = asyncio.ensure_future(alive.raw.receive())
            (kept,) = served.server.clients
            for _ in range(3):
                kept.check()
                await until(lambda: kept._heard)  # type: ignore[attr-defined] - the pong is back
            assert len(served.server.clients) == 1
            reading.cancel()


async def test_every_client_is_asked_once_in_a_heartbeat() -> None:
    async with serving(wire={"limits": {"heartbeat_seconds": 1}}) as served, deaf(served):
        await until(lambda: len(served.server.clients) == 1)
        # No setting allows for so short a one.
        served.server.clients._heartbeat = 0.1
        await until(lambda: len(served.server.clients) == 0)


async def test_a_reader_of_events_that_does_not_read_is_cut_off() -> None:
    recorder = Recorder()
    async with serving(Scripted(Script(flood(5000))), recorder) as served:
        send_little(served)
        body = b'{"content":"go"}'
        loop = asyncio.get_running_loop()
        with socket.socket() as client:
            small_buffers(client)
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", served.listener.port))
            await loop.sock_sendall(
                client,
                f"POST /v1/turns HTTP/1.1\r\nHost: {served.host}\r\nAccept: text/event-stream\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                + body,
            )
            await until(lambda: len(recorder.turns) == 1)
            assert recorder.turns[0].ending == "cancelled"


# -- the queue -----------------------------------------------------------------------------


@given(st.lists(st.integers(0, 60)), st.integers(1, 8), st.integers(1, 100))
def test_a_backlog_keeps_the_order_and_its_bounds(
    sizes: Sequence[int], frames: int, size: int
) -> None:
    backlog, kept = Backlog(frames, size), []
    for number, length in enumerate(sizes):
        frame = bytes([number % 256]) * length
        waiting = sum(map(len, kept))
        fits = not kept or (len(kept) < frames and waiting + length <= size)
        assert backlog.put(frame) is fits
        if fits:
            kept.append(frame)
        if number % 3 == 2 and kept:
            assert backlog.pop() == kept.pop(0)
    assert [backlog.pop() for _ in range(len(backlog))] == kept


def test_one_frame_of_any_size_may_wait_alone() -> None:
    backlog = Backlog(4)
    assert backlog.put(bytes(10 * QUEUE_BYTES))
    assert not backlog.put(b"x")
    backlog.pop()
    assert backlog.put(b"x")


@pytest.mark.parametrize("frames", [8, 256])
async def test_the_bound_is_the_one_in_the_settings(frames: int) -> None:
    async with serving(wire={"limits": {"queue_frames": frames}}) as served, served.socket():
        (connection,) = served.server.clients
        outbox = connection._outbox  # type: ignore[attr-defined] - a socket has one
        closed: list[int] = []
        outbox._overflow = lambda: closed.append(outbox.waiting)
        outbox._protocol = type("Full", (), {"writing_paused": True})()
        for _ in range(frames):
            outbox.put(b"x")
        assert (outbox.waiting, closed) == (frames, [])
        outbox.put(b"x")
        assert (outbox.waiting, closed) == (0, [0])
