"""Two checkouts in turns: what a request cost before a change, and what it costs now.

Both have a ``.venv`` of their own. Each runs what it has in processes of its own, and short
runs of the two take turns, so that a busy machine burdens both alike. All figures are CPU time.

    HOOKGATE_BENCH_BEFORE=FOLDER python -m benchmarks.turn.against [--quick]

Nothing is measured where that variable is not set.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import aiohttp

from benchmarks.report import Figure, report
from benchmarks.turn._servers import free_port, running, wait_for
from benchmarks.wire._servers import Server, settle
from benchmarks.wire.ping import measure as ping
from hookgate.core.gateway.access.tokens import new_token

BEFORE = "HOOKGATE_BENCH_BEFORE"
HERE = Path(__file__).parents[2]
CLIENTS = 8

GATEWAY = """
import asyncio, sys
from pathlib import Path
from hookgate import Gateway, Settings
from hookgate.core.gateway.serve import listen, loop_factory
home, port, upstream, token = Path(sys.argv[1]), *sys.argv[2:]
(home / "token").touch(mode=0o600)
(home / "token").write_text(token)
async def main():
    async with Gateway(Settings.model_validate({
        "home": home,
        "gateway": {"port": int(port), "tokens": {"bench": {"file": home / "token"}}},
        "agents": {"main": {"model": "mock/m"}},
        "plugins": {"entry_points": False},
        "log": {"level": "error"},
        "plugin": {"embedding": {"embedder": "none"}, "providers": {
            "mock": {"kind": "openai", "base_url": f"http://127.0.0.1:{upstream}/v1"}}},
    })) as gateway, listen(gateway):
        await asyncio.Event().wait()
with asyncio.Runner(loop_factory=loop_factory()) as runner:
    runner.run(main())
"""
"""A gateway of either checkout, without vectors, with a token that every request needs."""

DISPATCH = """
import asyncio, sys, time
try:
    from benchmarks.turn.dispatch import Asynchronous, ours
except ImportError:  # a checkout of before benchmarks had rooms
    from benchmarks.dispatch import Asynchronous, ours
call = ours(Asynchronous, 20)
async def run(number=1000):
    begun = time.process_time()
    for _ in range(number):
        await call()
    return (time.process_time() - begun) / number
for _ in sys.stdin:
    print(asyncio.run(run()) * 1e6, flush=True)
"""
STORE = """
import asyncio, sys, time
try:
    import benchmarks.turn.store as store
except ImportError:
    import benchmarks.store as store
rate = store.rate
async def timed(insert, writers, rows):
    begun = time.process_time()
    await rate(insert, writers, rows)
    return (time.process_time() - begun) / rows
store.rate = timed
for _ in sys.stdin:
    print(store.measure(store.ours, 64, 64 * 40) * 1e6, flush=True)
"""
RELAY = """
import asyncio, sys
try:
    from benchmarks.wire.relay import Bench, loop_factory, per_chunk, upstream
except ImportError:
    from benchmarks.relay import Bench, loop_factory, per_chunk, upstream
with asyncio.Runner(loop_factory=loop_factory()) as runner, upstream() as base:
    bench = Bench(base, runner)
    side = bench.relay(100)
    for _ in sys.stdin:
        print(per_chunk(runner, side, 100, 100) * 1e6, flush=True)
    bench.close()
"""

Run: TypeAlias = Callable[[], float]
"""Measures once, and returns microseconds."""


@contextmanager
def worker(checkout: Path, code: str) -> Iterator[Run]:
    """Run `code` in `checkout`; it prints one figure for each line that it reads."""
    command = [str(checkout / ".venv/bin/python"), "-c", code]
    with subprocess.Popen(
        command, cwd=checkout, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        given, said = process.stdin, process.stdout
        assert given is not None
        assert said is not None

        def run() -> float:
            given.write("\n")
            given.flush()
            return float(said.readline())

        yield run
        given.close()


@contextmanager
def gateway(checkout: Path, upstream: int) -> Iterator[Server]:
    """Serve a gateway of `checkout`."""
    port = free_port()
    token, _ = new_token()
    with tempfile.TemporaryDirectory() as home:
        command = [str(checkout / ".venv/bin/python"), "-c", GATEWAY, home, str(port)]
        with subprocess.Popen([*command, str(upstream), token], cwd=checkout) as process:
            try:
                wait_for(port, process)
                server = Server("hookgate", process.pid, port, token)
                settle(server)
                yield server
            finally:
                process.terminate()


async def asked(
    server: Server, count: int, one: Callable[[aiohttp.ClientSession, int], Awaitable[None]]
) -> float:
    """Return the microseconds of the server's CPU time for each of `count` requests."""
    async with aiohttp.ClientSession(headers=server.headers) as http:
        await one(http, 0)
        numbers = iter(range(count))

        async def ask() -> None:
            for number in numbers:
                await one(http, number)

        before = server.cpu()
        await asyncio.gather(*(ask() for _ in range(CLIENTS)))
        return (server.cpu() - before) / count * 1e6


def status(server: Server) -> float:
    async def one(http: aiohttp.ClientSession, _: int) -> None:
        async with http.get(f"http://127.0.0.1:{server.port}/v1/status") as answer:
            answer.raise_for_status()
            await answer.read()

    return asyncio.run(asked(server, 200, one))


def chat(server: Server) -> float:
    async def one(http: aiohttp.ClientSession, number: int) -> None:
        body = {"content": f"hello {number}", "peer": f"p{number % 32}"}
        async with http.post(f"http://127.0.0.1:{server.port}/v1/turns", json=body) as answer:
            answer.raise_for_status()
            await answer.read()

    return asyncio.run(asked(server, 48, one))


def pinged(server: Server) -> float:
    return asyncio.run(ping(server, 3000))


def compare(name: str, sides: tuple[Run, Run], rounds: int) -> list[Figure]:
    """Run both in turns, first this one and then the other one first."""
    for side in sides:
        side()
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for place in (0, 1) if number % 2 else (1, 0):
            times[place].append(sides[place]())
    before, now = map(statistics.median, times)
    pairs = [new / old for old, new in zip(*times, strict=True)]
    return [
        Figure(name=f"{name}, before", value=before, unit="us"),
        Figure(name=f"{name}, now", value=now, unit="us"),
        Figure(
            name=name,
            value=statistics.median(pairs),
            unit="ratio",
            against="the other checkout, median of pairs",
        ),
        Figure(
            name=f"{name}, best of each",
            value=min(times[1]) / min(times[0]),
            unit="ratio",
            against="the other checkout",
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 6 if parser.parse_args().quick else 20
    if not (named := os.environ.get(BEFORE)):
        print(f"skipped: {BEFORE} names no other checkout")
        return
    checkouts = (Path(named).resolve(), HERE)
    figures: list[Figure] = []
    for name, code in (("dispatch", DISPATCH), ("store", STORE), ("relay", RELAY)):
        with ExitStack() as stack:
            before, now = (stack.enter_context(worker(one, code)) for one in checkouts)
            figures += compare(name, (before, now), rounds)
    with ExitStack() as stack:
        model = stack.enter_context(running("upstream"))
        port = int(model.url.split(":")[2].split("/")[0])
        old, new = (stack.enter_context(gateway(one, port)) for one in checkouts)
        for name, run in (("ping", pinged), ("status", status), ("chat", chat)):
            figures += compare(name, (partial(run, old), partial(run, new)), rounds)
    report("Two checkouts in turns", figures)


if __name__ == "__main__":
    main()
