"""What idle WebSockets cost the server: memory each, and what the active ones feel of them.

Run it with ``python -m benchmarks.wire.idle_sockets``, or ``--quick`` for 500 sockets instead of
10,000. Each server is a process of its own, and so is the client. Memory is the server's
resident memory with the idle sockets, less that without; latency is the 99th percentile of a
``ping`` on 100 other sockets, with and without the idle ones.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import statistics
import time
from contextlib import ExitStack
from typing import cast

import aiohttp

from benchmarks.report import Figure, report
from benchmarks.wire._servers import Server, raise_file_limit, running
from hookgate.core.gateway.serve import loop_factory

ACTIVE = 100
PAUSE = 0.05
"""Seconds between an answer and the next question of one active socket."""

AT_ONCE = 200
"""Idle sockets that connect at once."""

PING, PONG = 0x89, bytes([0x8A, 0x80, 0, 0, 0, 0])


class Idle(asyncio.Protocol):
    """A WebSocket that says nothing, and answers pings as every client does."""

    def __init__(self, opened: asyncio.Future[None]) -> None:
        self.opened = opened
        self.transport: asyncio.Transport | None = None
        self.head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes.
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            self.head += data
            if b"\r\n\r\n" in self.head:
                if b" 101 " in self.head:
                    self.opened.set_result(None)
                else:
                    self.opened.set_exception(RuntimeError(self.head.decode("latin-1")))
        elif data[0] == PING and self.transport is not None:
            self.transport.write(PONG)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(error or ConnectionResetError("the server hung up"))


async def open_one(server: Server) -> asyncio.Transport:
    loop = asyncio.get_running_loop()
    opened: asyncio.Future[None] = loop.create_future()
    transport, _ = await loop.create_connection(lambda: Idle(opened), "127.0.0.1", server.port)
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        "GET /ws HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
        *(f"{name}: {value}" for name, value in server.headers.items()),
    ]
    transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    await opened
    return transport


async def open_idle(server: Server, count: int) -> list[asyncio.Transport]:
    transports: list[asyncio.Transport] = []
    while len(transports) < count:
        batch = min(AT_ONCE, count - len(transports))
        transports += await asyncio.gather(*(open_one(server) for _ in range(batch)))
    return transports


async def close_idle(transports: list[asyncio.Transport]) -> None:
    for transport in transports:
        transport.abort()
    await asyncio.sleep(1)


async def latencies(server: Server, seconds: float) -> float:
    """Return the 99th percentile of a ping's round trip on the active sockets, in ms."""
    times: list[float] = []

    async def ask(ws: aiohttp.ClientWebSocketResponse, number: int) -> None:
        # Not all at once: the questions are spread over the pause.
        await asyncio.sleep(PAUSE * number / ACTIVE)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            start = time.perf_counter()
            await ws.send_str('{"jsonrpc":"2.0","id":1,"method":"ping"}')
            await ws.receive_str()
            times.append(time.perf_counter() - start)
            await asyncio.sleep(PAUSE)

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as http:
        sockets = [await http.ws_connect(server.url, headers=server.headers) for _ in range(ACTIVE)]
        if server.name == "hookgate":
            for ws in sockets:
                await ws.receive_str()  # hello
        await asyncio.gather(*(ask(ws, number) for number, ws in enumerate(sockets)))
        for ws in sockets:
            await ws.close()
    return statistics.quantiles(times, n=100)[98] * 1e3


async def measure(
    server: Server, count: int, *, seconds: float, rounds: int
) -> tuple[float, float, float]:
    """Return KB an idle socket, and the latency in ms without and with the idle ones."""
    await latencies(server, 0.5)
    memory, without, beside = [], [], []
    for _ in range(rounds):
        without.append(await latencies(server, seconds))
        before = server.memory()
        idle = await open_idle(server, count)
        await asyncio.sleep(1)
        memory.append((server.memory() - before) / count / 1024)
        beside.append(await latencies(server, seconds))
        await close_idle(idle)
    # Later rounds reuse what the first one has freed, so only the first shows the memory.
    return memory[0], statistics.median(without), statistics.median(beside)


def run(server: Server, count: int, *, seconds: float, rounds: int) -> tuple[float, float, float]:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(measure(server, count, seconds=seconds, rounds=rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    limit = raise_file_limit()
    count = 100 if quick else min(10_000, limit - 1000)
    seconds, rounds = (0.3, 1) if quick else (8.0, 3)
    with ExitStack() as stack:
        ours, bare = (stack.enter_context(running(name)) for name in ("hookgate", "aiohttp"))
        ours_kb, ours_without, ours_beside = run(ours, count, seconds=seconds, rounds=rounds)
        bare_kb, bare_without, bare_beside = run(bare, count, seconds=seconds, rounds=rounds)
    report(
        f"{count:,} idle WebSockets",
        [
            Figure(name="hookgate, one idle socket", value=ours_kb, unit="KB"),
            Figure(name="bare aiohttp, one idle socket", value=bare_kb, unit="KB"),
            Figure(
                name="hookgate / aiohttp",
                value=ours_kb / bare_kb,
                unit="ratio",
                against="bare aiohttp on uvloop",
                goal=1.5,
            ),
            Figure(name="hookgate, p99 of 100 active, no idle", value=ours_without, unit="ms"),
            Figure(name="hookgate, p99 of 100 active, idle beside", value=ours_beside, unit="ms"),
            Figure(
                name="hookgate, with / without idle",
                value=ours_beside / ours_without,
                unit="ratio",
                against="the same without the idle sockets",
                goal=1.25,
            ),
            Figure(
                name="bare aiohttp, with / without idle",
                value=bare_beside / bare_without,
                unit="ratio",
                against="the same without the idle sockets",
            ),
        ],
    )


if __name__ == "__main__":
    main()
