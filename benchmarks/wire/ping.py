"""What a round trip over the WebSocket costs the server: a ``ping``, with authentication on.

Run it with ``python -m benchmarks.wire.ping``, or ``--quick`` for some ten seconds. Each server is
a process of its own, and so is the client. The figure is CPU time of the server, user and
system, per round trip; bare aiohttp and bare Starlette on uvicorn do the least that an answer
needs.
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import ExitStack
from functools import partial

import aiohttp

from benchmarks.report import Figure, interleaved, report
from benchmarks.wire._servers import NAMES, Server, running
from hookgate.core.gateway.serve import loop_factory

CLIENTS = 10
"""Sockets that ask, each its next question once its last one is answered."""


async def ask(ws: aiohttp.ClientWebSocketResponse, count: int) -> None:
    for number in range(count):
        await ws.send_str(f'{{"jsonrpc":"2.0","id":{number},"method":"ping"}}')
        answer = await ws.receive_str()
        if number == 0 and "pong" not in answer:
            raise RuntimeError(f"found {answer}, expected a pong")


async def measure(server: Server, count: int) -> float:
    """Return the microseconds of CPU time of one round trip."""
    async with aiohttp.ClientSession() as http:
        sockets = [
            await http.ws_connect(server.url, headers=server.headers) for _ in range(CLIENTS)
        ]
        if server.name == "hookgate":
            for ws in sockets:
                await ws.receive_str()  # hello
        await asyncio.gather(*(ask(ws, 50) for ws in sockets))
        before = server.cpu()
        await asyncio.gather(*(ask(ws, count // CLIENTS) for ws in sockets))
        used = server.cpu() - before
        for ws in sockets:
            await ws.close()
    return used / count * 1e6


def run(server: Server, count: int) -> float:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(measure(server, count))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    count, rounds = (1_000, 1) if quick else (30_000, 7)
    with ExitStack() as stack:
        servers = [stack.enter_context(running(name)) for name in NAMES]
        ours, bare, uvicorn = interleaved(
            [partial(run, server, count) for server in servers], rounds=rounds
        )
    report(
        "A ping over the WebSocket, CPU of the server",
        [
            Figure(name="hookgate", value=ours, unit="us"),
            Figure(name="bare aiohttp", value=bare, unit="us"),
            Figure(name="bare uvicorn and Starlette", value=uvicorn, unit="us"),
            Figure(
                name="hookgate / aiohttp",
                value=ours / bare,
                unit="ratio",
                against="bare aiohttp on uvloop with orjson",
                goal=1.5,
            ),
            Figure(
                name="hookgate / uvicorn",
                value=ours / uvicorn,
                unit="ratio",
                against="bare Starlette on uvicorn with uvloop",
                goal=1.0,
            ),
        ],
    )


if __name__ == "__main__":
    main()
