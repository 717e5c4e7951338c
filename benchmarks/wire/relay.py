"""What the relay costs: an upstream's stream of events, read into model events.

Run it with ``python -m benchmarks.wire.relay``, or ``--quick`` for half a minute. The
upstream is a process of its own that sends one event at a time, so that every event is a
chunk to be woken up for. CPU time is this process's own (user and system). The bare side is
aiohttp's client reading the same chunks, and doing nothing with them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import resource
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from statistics import quantiles
from time import perf_counter
from typing import Any, cast

import aiohttp
import httpx

from benchmarks.report import Figure, interleaved, report
from hookgate.builtin_plugins.egress.service import CheckedEgress
from hookgate.builtin_plugins.providers.assembly import make_provider
from hookgate.builtin_plugins.providers.remote import RemoteProvider
from hookgate.builtin_plugins.providers.settings import ProviderSettings
from hookgate.core.domain.messages import Message
from hookgate.core.domain.models import ModelRef, ModelRequest, TextDelta
from hookgate.core.domain.parts import Text
from hookgate.core.domain.turn import Turn
from hookgate.core.settings.schema import Settings
from hookgate.core.settings.secret_store import SecretStore
from hookgate.ports import Egress

STREAMS = 100
GAP = 0.01
"""Seconds between two events of one stream: a fast model's hundred tokens a second."""

SHORT, LONG = 200, 2000
"""Events of an answer."""

ASKED = ModelRequest(
    model=ModelRef("bench", "m"), messages=(Message(role="user", parts=(Text("hello"),)),)
)
NO_TURN = cast(Turn, None)


# -- the upstream, in its own process ------------------------------------------


def event(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": finish}
    data = json.dumps(
        {
            "id": "chatcmpl-0123456789abcdef",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m-2026-01-01",
            "system_fingerprint": "fp_0123456789",
            "choices": [choice],
        }
    )
    return f"data: {data}\n\n".encode()


def framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer ``POST /COUNT/...`` with COUNT events, one each `GAP` seconds."""
    one, last = framed(event(" word")), framed(event("", "stop") + b"data: [DONE]\n\n")
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            size = head.partition("content-length: ")[2].partition("\r\n")[0]
            await reader.readexactly(int(size or 0))
            count = int(head.split("/")[1])
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                b"transfer-encoding: chunked\r\n\r\n" + one
            )
            for _ in range(count - 2):
                await asyncio.sleep(GAP)
                writer.write(one)
            await asyncio.sleep(GAP)
            writer.write(last + b"0\r\n\r\n")


async def serve() -> None:
    server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def upstream() -> Any:
    """Run the upstream, and yield its address."""
    command = [sys.executable, "-m", "benchmarks.wire.relay", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


# -- the two sides -------------------------------------------------------------


class Bare:
    """aiohttp's client, counting bytes."""

    def __init__(self, base: str, count: int) -> None:
        self.url = f"{base}/{count}/v1/chat/completions"
        self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=300))

    async def read(self) -> AsyncIterator[int]:
        async with self.session.post(self.url, data=b"{}") as response:
            async for chunk in response.content.iter_any():
                yield len(chunk)

    async def close(self) -> None:
        await self.session.close()


class Relay:
    """A provider, counting pieces of text."""

    def __init__(self, base: str, count: int, egress: Egress) -> None:
        settings = ProviderSettings(kind="openai", base_url=f"{base}/{count}/v1")
        provider = make_provider(
            "bench", settings, "key", egress, SecretStore(Settings(), {}), print
        )
        assert isinstance(provider, RemoteProvider)
        self.provider = provider

    async def read(self) -> AsyncIterator[int]:
        async for said in self.provider.stream(NO_TURN, ASKED):
            if isinstance(said, TextDelta):
                yield len(said.text)

    async def close(self) -> None:
        await self.provider.close()


class OwnTransport:
    """An `Egress` that gives plain httpx clients, for the comparison alone."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self.tls = tls

    def client(self, grants: Any, **rest: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(timeout=rest["timeout"], trust_env=False, verify=self.tls)


Side = Bare | Relay


# -- measuring -----------------------------------------------------------------


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Tally:
    """Counts events, and takes the CPU clock once every stream has begun."""

    def __init__(self, streams: int) -> None:
        self._missing = streams
        self._events = 0
        self._begun = 0.0
        self._before = 0

    async def read(self, side: Side) -> None:
        begun = False
        async for _ in side.read():
            self._events += 1
            if not begun:
                begun = True
                self._missing -= 1
                if self._missing == 0:
                    self._begun, self._before = cpu(), self._events

    def per_event(self, sent: int) -> float:
        """Return the CPU seconds for each event behind the start."""
        spent = cpu() - self._begun
        # Events that arrive together would make the figure look better than it is.
        if self._events < 0.9 * sent:
            print(f"only {self._events} of {sent} events came one by one", file=sys.stderr)
        return spent / (self._events - self._before)


def per_chunk(runner: asyncio.Runner, side: Side, count: int, streams: int) -> float:
    """Return the CPU seconds for each event, requests and first events left out."""

    async def run() -> float:
        tally = Tally(streams)
        await asyncio.gather(*(tally.read(side) for _ in range(streams)))
        return tally.per_event(streams * count)

    return runner.run(run())


def first_token(runner: asyncio.Runner, side: Side, number: int) -> float:
    """Return the seconds from asking to the first piece, in the fastest tenth.

    On a shared machine the slower ones tell how long other processes had the processor.
    """

    async def run() -> float:
        times = []
        for _ in range(number):
            begun, first = perf_counter(), 0.0
            # Read to its end, so that the next one finds the connection open, as usual.
            async for _ in side.read():
                first = first or perf_counter()
            times.append(first - begun)
        return quantiles(times, n=10)[0]

    async def warm() -> None:
        async for _ in side.read():
            pass

    runner.run(warm())
    return runner.run(run())


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class Bench:
    """Makes sides in one event loop, and closes them at the end."""

    def __init__(self, base: str, runner: asyncio.Runner) -> None:
        tls = ssl.create_default_context()
        self.runner = runner
        self._base = base
        self._egress = CheckedEgress(tls=tls)
        self._own = cast(Egress, OwnTransport(tls))
        self._made: list[Side] = []

    def bare(self, count: int) -> Side:
        return self._make(lambda: Bare(self._base, count))

    def relay(self, count: int) -> Side:
        return self._make(lambda: Relay(self._base, count, self._egress))

    def over_httpx(self, count: int) -> Side:
        return self._make(lambda: Relay(self._base, count, self._own))

    def _make(self, kind: Callable[[], Side]) -> Side:
        async def make() -> Side:
            return kind()

        side = self.runner.run(make())
        self._made.append(side)
        return side

    def close(self) -> None:
        for side in self._made:
            self.runner.run(side.close())


def chunks(bench: Bench, count: int, rounds: int) -> list[Figure]:
    """Measure the CPU time of a chunk on every way."""
    sides = (bench.bare(count), bench.relay(count), bench.over_httpx(count))
    bare, relay, own = (
        value * 1e6
        for value in interleaved(
            [partial(per_chunk, bench.runner, side, count, STREAMS) for side in sides],
            rounds=rounds,
        )
    )
    against = "aiohttp reading the same chunks"
    return [
        Figure(name="bare aiohttp client, CPU per chunk", value=bare, unit="us"),
        Figure(name="relay to model events, CPU per chunk", value=relay, unit="us"),
        Figure(name="relay / bare", value=relay / bare, unit="ratio", against=against, goal=1.5),
        Figure(
            name="the same over httpx's own transport / bare",
            value=own / bare,
            unit="ratio",
            against=against,
        ),
    ]


def growth(bench: Bench, short: int, long: int) -> list[Figure]:
    """Measure whether a chunk costs more in a long answer."""
    long_cpu, short_cpu = interleaved(
        [
            partial(per_chunk, bench.runner, bench.relay(count), count, STREAMS)
            for count in (long, short)
        ],
        rounds=3,
    )
    return [
        Figure(
            name=f"CPU per chunk at {long} chunks / at {short}",
            value=long_cpu / short_cpu,
            unit="ratio",
            against="the same relay, shorter answers",
            goal=1.2,
        )
    ]


def first(bench: Bench, number: int) -> list[Figure]:
    """Measure the time to the first token."""
    bare, relay = (
        value * 1e3
        for value in interleaved(
            [
                partial(first_token, bench.runner, side, number)
                for side in (bench.bare(2), bench.relay(2))
            ],
            rounds=3,
        )
    )
    return [
        Figure(name="bare aiohttp client, first token", value=bare, unit="ms"),
        Figure(name="relay, first token", value=relay, unit="ms"),
        Figure(
            name="first token, relay / bare",
            value=relay / bare,
            unit="ratio",
            against="aiohttp on the same upstream",
            goal=2.0,
        ),
    ]


def measure(base: str, *, quick: bool) -> list[Figure]:
    short, long = (20, 60) if quick else (SHORT, LONG)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        bench = Bench(base, runner)
        try:
            return [
                *chunks(bench, short, 1 if quick else 9),
                *growth(bench, short, long),
                *first(bench, 10 if quick else 200),
            ]
        finally:
            bench.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(serve())
        return
    with upstream() as base:
        report("Relay", measure(base, quick=arguments.quick))


if __name__ == "__main__":
    main()
