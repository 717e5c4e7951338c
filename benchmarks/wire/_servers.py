"""Servers in processes of their own, for the benchmarks of the wire.

Three answer the same JSON-RPC ``ping`` at ``/ws``: a gateway, bare aiohttp and bare
Starlette on uvicorn, all on uvloop and without compression. `python -m benchmarks.wire._servers
NAME` runs one; it prints its port.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import psutil
from aiohttp import WSMsgType, web

from hookgate import Gateway, Settings
from hookgate.core.gateway.access.tokens import new_token
from hookgate.core.gateway.serve import loop_factory, serve

NAMES = ("hookgate", "aiohttp", "uvicorn")
TOKEN = "HOOKGATE_BENCHMARK_TOKEN"
FILES = 20_000


def pong(frame: str | bytes) -> bytes:
    """The least that the job needs: read the request, answer it."""
    return orjson.dumps(
        {"jsonrpc": "2.0", "id": orjson.loads(frame)["id"], "result": {"pong": True}}
    )


async def bare_aiohttp() -> None:
    async def handler(request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse(compress=False)
        await ws.prepare(request)
        async for message in ws:
            if message.type is WSMsgType.TEXT:
                await ws.send_frame(pong(message.data), WSMsgType.TEXT)
        return ws

    app = web.Application()
    app.router.add_get("/ws", handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=4096)
    await site.start()
    print(site.port, flush=True)
    await asyncio.Event().wait()


def bare_uvicorn() -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import WebSocketRoute
    from starlette.websockets import WebSocket, WebSocketDisconnect

    async def handler(ws: WebSocket) -> None:
        await ws.accept()
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                await ws.send_text(pong(await ws.receive_text()).decode())

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(4096)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(
        Starlette(routes=[WebSocketRoute("/ws", handler)]),
        loop="uvloop",
        ws_per_message_deflate=False,
        ws_ping_interval=None,
        log_level="warning",
        access_log=False,
    )
    uvicorn.Server(config).run(sockets=[listening])


async def hookgate() -> None:
    """The gateway as it is served: all builtin plugins, and a token that every client needs."""
    token = os.environ[TOKEN]
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "token"
        path.touch(mode=0o600)
        path.write_text(token)
        settings = Settings.model_validate(
            {
                "home": home,
                "gateway": {"port": 0, "tokens": {"bench": {"file": path}}},
                "plugins": {"entry_points": False},
                "log": {"level": "error"},
            }
        )
        async with Gateway(settings) as gateway:
            await serve(gateway, started=lambda listener: print(listener.port, flush=True))


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    name: str
    pid: int
    port: int
    token: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/ws"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.name == "hookgate" else {}

    def cpu(self) -> float:
        """Return the seconds of CPU time, user and system, that it has used."""
        clock = ctypes.c_int()
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.clock_getcpuclockid(self.pid, ctypes.byref(clock)) == 0:
            return time.clock_gettime(clock.value)
        times = psutil.Process(self.pid).cpu_times()
        return times.user + times.system

    def memory(self) -> int:
        """Return its resident memory in bytes."""
        return int(psutil.Process(self.pid).memory_info().rss)


@contextlib.contextmanager
def running(name: str) -> Iterator[Server]:
    """Run one of the servers."""
    token, _ = new_token()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.wire._servers", name],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, TOKEN: token},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server {name} did not start")
        server = Server(name, process.pid, int(line), token)
        settle(server)
        yield server
    finally:
        process.terminate()
        with process:
            process.wait(timeout=30)


def settle(server: Server, *, seconds: float = 30.0) -> None:
    """Wait until what loads beside the start (the embedder's model) has loaded."""
    for _ in range(int(seconds / 0.25)):
        before = server.cpu()
        time.sleep(0.25)
        if server.cpu() - before < 0.02:
            return


def raise_file_limit() -> int:
    """Allow as many open files as the system lets us, at most `FILES`; return how many."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return soft


def main(name: str) -> None:
    raise_file_limit()
    if name == "uvicorn":
        bare_uvicorn()
        return
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(hookgate() if name == "hookgate" else bare_aiohttp())


if __name__ == "__main__":
    main(sys.argv[1])
