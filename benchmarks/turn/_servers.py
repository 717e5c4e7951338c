"""The servers of ``benchmarks.turn.chat``, each a process of its own.

``python -m benchmarks.turn._servers NAME SETTINGS`` runs one; `SETTINGS` is JSON. A gateway prints
the CPU time of its threads for each line that it reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import queue
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
import psutil
from aiohttp import web

from benchmarks.turn.answers import reply, whole
from benchmarks.wire._servers import Server, settle

HISTORY = 11
"""Messages that the model is asked with: five turns before, as the gateway's default has it."""

Waiting: TypeAlias = tuple[str, str, str, asyncio.Future[list[dict[str, str]]]]
"""Who speaks with whom, what is said, and who waits for it."""

CALL = "call the clock"
"""Stands in a message that is answered by a call of a tool first."""

IDLE = 0.015
"""Seconds of CPU that a server which does nothing takes in a second and a half, at most."""

HERE = Path(__file__).parents[2]


# -- the model ----------------------------------------------------------------


async def upstream(port: int) -> None:
    """Answer as an OpenAI-compatible model does."""

    async def complete(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if not asked.get("stream"):
            return web.json_response(whole(asked))
        try:
            events = reply(asked, CALL)
        except ValueError as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in events:
            await response.write(event)
        return response

    await serve("/v1/chat/completions", complete, port)


# -- what could do the job ----------------------------------------------------


class Conversations:
    """Messages on disk: SQLite with ``synchronous=FULL``, what waits at once in one commit."""

    def __init__(self, path: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[Waiting] = queue.SimpleQueue()
        self._path = path
        threading.Thread(target=self._run, daemon=True).start()

    async def keep(self, peer: str, role: str, text: str) -> list[dict[str, str]]:
        """Commit a message; return the last ones of the conversation, it included."""
        waiting: Waiting = (peer, role, text, self._loop.create_future())
        self._queue.put(waiting)
        return await waiting[3]

    def _run(self) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, peer, role, text)")
        connection.execute("CREATE INDEX by_peer ON messages (peer, id)")
        while True:
            group = [self._queue.get()]
            while not self._queue.empty():
                group.append(self._queue.get())
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO messages (peer, role, text) VALUES (?, ?, ?)",
                [waiting[:3] for waiting in group],
            )
            connection.execute("COMMIT")
            done = [(future, self._last(connection, peer)) for peer, _, _, future in group]
            self._loop.call_soon_threadsafe(resolve, done)

    def _last(self, connection: sqlite3.Connection, peer: str) -> list[dict[str, str]]:
        rows = connection.execute(
            "SELECT role, text FROM messages WHERE peer = ? ORDER BY id DESC LIMIT ?",
            (peer, HISTORY),
        ).fetchall()
        return [{"role": role, "content": text} for role, text in reversed(rows)]


def resolve(done: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, result in done:
        future.set_result(result)


async def bare(port: int, upstream_port: int, home: str = "", token: str = "") -> None:
    """Pass a message on and read the stream: no plugins, no policy.

    With a `home` it does what a conversation needs: a token is checked, the message is on disk
    before the model is asked with what was said before, and the answer is before it is sent.
    """
    session = aiohttp.ClientSession()
    kept = Conversations(Path(home) / "bare.db") if home else None
    known = sha256(token.encode()).digest()
    url = f"http://127.0.0.1:{upstream_port}/v1/chat/completions"

    async def pieces(messages: list[dict[str, str]]) -> list[str]:
        text = []
        body = {"model": "m", "stream": True, "messages": messages}
        async with session.post(url, json=body) as reply:
            async for line in reply.content:
                if line.startswith(b"data: {"):
                    choices = json.loads(line[6:])["choices"]
                    if choices:
                        text.append(choices[0]["delta"].get("content", ""))
        return text

    async def answer(request: web.Request) -> web.Response:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and not compare_digest(sha256(given.encode()).digest(), known):
            raise web.HTTPUnauthorized
        asked = await request.json()
        peer, content = asked["peer"], asked["content"]
        messages = [{"role": "user", "content": content}]
        if kept is not None:
            messages = await kept.keep(peer, "user", content)
        text = "".join(await pieces(messages))
        if kept is not None:
            await kept.keep(peer, "assistant", text)
        return web.json_response({"text": text})

    await serve("/v1/turns", answer, port)


async def serve(path: str, handler: Any, port: int) -> None:
    app = web.Application()
    app.router.add_post(path, handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


async def gateway(
    port: int, upstream_port: int, home: str, token: str, *, vectors: bool, database: str = ""
) -> None:
    """The gateway with all builtin plugins, and the collector as `hookgate serve` has it."""
    gc.disable()
    from hookgate import Gateway, Settings
    from hookgate.cli.state import settle_memory
    from hookgate.core.gateway.serve import listen

    base = f"http://127.0.0.1:{upstream_port}/v1"
    plugin: dict[str, object] = {"providers": {"mock": {"kind": "openai", "base_url": base}}}
    if not vectors:
        plugin["embedding"] = {"embedder": "none"}
    if database:
        plugin["storage"] = {"url": database}
    path = Path(home) / "token"
    path.touch(mode=0o600)
    path.write_text(token)
    settings = Settings.model_validate(
        {
            "home": home,
            "gateway": {"port": port, "tokens": {"bench": {"file": path}}},
            "agents": {"main": {"model": "mock/m"}},
            "plugins": {"entry_points": False},
            "log": {"level": "error"},
            "plugin": plugin,
        }
    )
    async with Gateway(settings) as gate, listen(gate):
        settle_memory()
        threading.Thread(target=tell_threads, daemon=True).start()
        await asyncio.Event().wait()


def tell_threads() -> None:
    """Print the CPU seconds of each kind of thread for each line that is read."""
    for _ in sys.stdin:
        seconds: dict[str, float] = {}
        for thread in threading.enumerate():
            if thread.ident is not None:
                clock = time.pthread_getcpuclockid(thread.ident)
                kind = thread.name.rstrip("0123456789").rstrip("_-")
                seconds[kind] = seconds.get(kind, 0.0) + time.clock_gettime(clock)
        print(json.dumps(seconds), flush=True)


# -- the processes --------------------------------------------------------------


@dataclass
class Running:
    """A server that runs.

    Attributes:
        process: Its process.
        url: Where it is asked.
        headers: What every request to it brings.
    """

    process: subprocess.Popen[str]
    url: str
    headers: dict[str, str] = field(default_factory=dict)

    def cpu(self) -> float:
        """Return the CPU seconds that it and its children have used."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        pids = [self.process.pid, *(child.pid for child in children)]
        return sum(Server("", pid, 0, "").cpu() for pid in pids)

    def rest(self, *, patience: float = 900.0) -> float:
        """Wait until it does nothing; return the CPU seconds that it used until then."""
        began, before = time.monotonic(), self.cpu()
        last = before
        while time.monotonic() - began < patience:
            time.sleep(1.5)
            now = self.cpu()
            if now - last < IDLE:
                return last - before
            last = now
        raise SystemExit("a server does not come to rest")

    def threads(self) -> dict[str, float]:
        """Return the CPU seconds of a gateway's threads, by kind."""
        given, said = self.process.stdin, self.process.stdout
        assert given is not None
        assert said is not None
        given.write("\n")
        given.flush()
        found: dict[str, float] = json.loads(said.readline())
        return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(
    name: str, *, path: str = "/v1/turns", token: str = "", **settings: object
) -> Iterator[Running]:
    """Run one of the servers of this module, and wait until it has settled."""
    port = free_port()
    given = {"port": port, **settings} | ({"token": token} if token else {})
    command = [sys.executable, "-m", "benchmarks.turn._servers", name, json.dumps(given)]
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with started(command, port) as process:
        yield Running(process, f"http://127.0.0.1:{port}{path}", headers)


@contextlib.contextmanager
def litellm(
    python: str,
    upstream_port: int,
    home: Path,
    *,
    model: str = "openai/m",
    base: str = "/v1",
    path: str = "/v1/chat/completions",
) -> Iterator[Running]:
    """Run LiteLLM's proxy, of the environment of the interpreter `python`.

    Args:
        python: The interpreter.
        upstream_port: Where the model is asked.
        home: A folder of its own.
        model: The model as LiteLLM calls it; its clients call it ``m``.
        base: The path below which the model is asked.
        path: The path that its clients ask.
    """
    port = free_port()
    config = home / "litellm.yaml"
    config.write_text(
        f"model_list:\n- model_name: m\n  litellm_params:\n    model: {model}\n"
        f"    api_base: http://127.0.0.1:{upstream_port}{base}\n    api_key: none\n"
    )
    program = Path(python).with_name("litellm")
    command = [str(program), "--config", str(config), "--port", str(port), "--host", "127.0.0.1"]
    environment = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }
    with started(command, port, environment) as process:
        yield Running(process, f"http://127.0.0.1:{port}{path}")


@contextlib.contextmanager
def started(
    command: list[str], port: int, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    everything = {**os.environ, **(environment or {})}
    # Nobody reads what another program says: a full pipe would stop it.
    said = subprocess.DEVNULL if environment else subprocess.PIPE
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=said, text=True, env=everything, cwd=HERE
    ) as child:
        try:
            wait_for(port, child)
            settle(Server("", child.pid, port, ""))
            yield child
        finally:
            child.terminate()


def wait_for(port: int, child: subprocess.Popen[Any]) -> None:
    """Wait until a server listens.

    Raises:
        SystemExit: It did not within a minute.
    """
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and child.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise SystemExit(f"the server on port {port} did not start")


def main(name: str, settings: dict[str, Any]) -> None:
    from hookgate.core.gateway.serve import loop_factory

    servers: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
        "upstream": upstream,
        "bare": bare,
        "gateway": gateway,
    }
    server = servers[name](**settings)
    # The loop that `hookgate serve` takes, for each of them.
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(server)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
