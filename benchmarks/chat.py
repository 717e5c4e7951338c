"""What a whole chat request costs: HTTP in, a model over HTTP, the answer out.

Three processes: this one asks, one is a mocked OpenAI-compatible upstream, one serves.
The server is the gateway with all builtin plugins, or the least that could do the job:
an aiohttp handler that passes the request on and reads the stream. Both are asked in
turns, and the CPU time of the serving process is compared. With ``--litellm PYTHON``, an
interpreter with ``litellm[proxy]`` installed, its proxy is a third server in the same run.

Run: ``python -m benchmarks.chat [--quick] [--litellm PYTHON]``
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path

import aiohttp
import psutil
from aiohttp import web

from benchmarks.report import Figure, report

CHUNKS = 20
CLIENTS = 8
LITELLM_GOAL = 0.05
"""A whole request is to cost at most 1/20 of what LiteLLM's proxy takes."""


# -- the servers --------------------------------------------------------------


def upstream_chunks() -> list[bytes]:
    def chunk(delta: dict[str, object], **more: object) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": None, **more}
        data = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
        return b"data: " + json.dumps(data).encode() + b"\n\n"

    usage = {"prompt_tokens": 20, "completion_tokens": CHUNKS, "total_tokens": 20 + CHUNKS}
    last = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": []}
    return [
        *(chunk({"content": f"word{n} "}) for n in range(CHUNKS)),
        chunk({}, finish_reason="stop"),
        b"data: " + json.dumps({**last, "usage": usage}).encode() + b"\n\n",
        b"data: [DONE]\n\n",
    ]


def whole_answer() -> dict[str, object]:
    text = "".join(f"word{n} " for n in range(CHUNKS))
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 20, "completion_tokens": CHUNKS, "total_tokens": 20 + CHUNKS}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [choice], "usage": usage}  # fmt: skip


async def upstream(port: int) -> None:
    chunks = upstream_chunks()

    async def answer(request: web.Request) -> web.StreamResponse:
        if not (await request.json()).get("stream"):
            return web.json_response(whole_answer())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        return response

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    await serve_app(app, port)


async def bare(port: int, upstream_port: int) -> None:
    """The least that does the job: no plugins, no store, no checks."""
    session = aiohttp.ClientSession()
    url = f"http://127.0.0.1:{upstream_port}/v1/chat/completions"

    async def answer(request: web.Request) -> web.Response:
        asked = await request.json()
        body = {
            "model": "m",
            "stream": True,
            "messages": [{"role": "user", "content": asked["content"]}],
        }
        text = []
        async with session.post(url, json=body) as reply:
            async for line in reply.content:
                if line.startswith(b"data: {"):
                    choices = json.loads(line[6:])["choices"]
                    if choices:
                        text.append(choices[0]["delta"].get("content", ""))
        return web.json_response({"text": "".join(text)})

    app = web.Application()
    app.router.add_post("/v1/turns", answer)
    await serve_app(app, port)


async def serve_app(app: web.Application, port: int) -> None:
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


async def gateway(port: int, upstream_port: int, home: Path) -> None:
    from hookgate.core.gateway.serve import listen
    from hookgate.core.settings.schema import Settings
    from hookgate.gateway import Gateway

    settings = Settings.model_validate(
        {
            "home": home,
            "gateway": {"port": port},
            "agents": {"main": {"model": "mock/m"}},
            "plugins": {"entry_points": False},
            "plugin": {
                "providers": {
                    "mock": {"kind": "openai", "base_url": f"http://127.0.0.1:{upstream_port}/v1"}
                }
            },
        }
    )
    async with Gateway(settings) as gate, listen(gate):
        await asyncio.Event().wait()


def run(server: Coroutine[None, None, None]) -> None:
    """Run a server on the loop that `hookgate serve` takes."""
    from hookgate.core.gateway.serve import loop_factory

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(server)


# -- the measurement ------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def process(*arguments: object, port: int) -> Iterator[psutil.Process]:
    command = [sys.executable, "-m", "benchmarks.chat", *map(str, arguments)]
    with running(command, port) as found:
        yield found


@contextlib.contextmanager
def running(
    command: list[str], port: int, settings: dict[str, str] | None = None
) -> Iterator[psutil.Process]:
    environment = {**os.environ, **(settings or {})}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as child:
        try:
            wait_for(port, child)
            yield psutil.Process(child.pid)
        finally:
            child.terminate()


def wait_for(port: int, child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and child.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise SystemExit(f"the server on port {port} did not start")


def cpu_of(server: psutil.Process) -> float:
    """Return the CPU seconds of a process and its children."""
    total = 0.0
    for one in [server, *server.children(recursive=True)]:
        times = one.cpu_times()
        total += times.user + times.system
    return total


async def ask(session: aiohttp.ClientSession, url: str, number: int, count: int) -> float:
    """Ask `count` times, `CLIENTS` at once; return the wall seconds of one client's request."""
    numbers = iter(range(count))
    start = time.perf_counter()
    await asyncio.gather(*(ask_on(session, url, number, numbers) for _ in range(CLIENTS)))
    return (time.perf_counter() - start) / count * CLIENTS


async def ask_on(
    session: aiohttp.ClientSession, url: str, number: int, numbers: Iterator[int]
) -> None:
    for one in numbers:
        if url.endswith("/v1/turns"):
            body: dict[str, object] = {"content": f"hello {number}.{one}", "peer": f"p{one % 32}"}
        else:
            messages = [{"role": "user", "content": f"hello {number}.{one}"}]
            body = {"model": "m", "messages": messages, "stream": False}
        async with session.post(url, json=body) as response:
            answer = await response.read()
            if response.status != 200 or b"word19" not in answer:
                raise SystemExit(f"{url} answered {response.status}: {answer[:500]!r}")


async def measure(
    servers: dict[str, tuple[psutil.Process, str]], *, rounds: int, count: int
) -> dict[str, tuple[float, float]]:
    """Return CPU and wall seconds a request, by server; the servers take turns."""
    cpu: dict[str, list[float]] = {name: [] for name in servers}
    wall: dict[str, list[float]] = {name: [] for name in servers}
    async with aiohttp.ClientSession() as session:
        for _, url in servers.values():
            await ask(session, url, -1, count)
        for number in range(rounds):
            for name, (server, url) in servers.items():
                before = cpu_of(server)
                wall[name].append(await ask(session, url, number, count))
                cpu[name].append((cpu_of(server) - before) / count)
    return {name: (statistics.median(cpu[name]), statistics.median(wall[name])) for name in cpu}


@contextlib.contextmanager
def litellm(python: str, upstream_port: int, home: Path) -> Iterator[tuple[psutil.Process, str]]:
    """Run LiteLLM's proxy. It is asked for whole answers, which is the less work for it."""
    port = free_port()
    config = home / "litellm.yaml"
    config.write_text(
        "model_list:\n- model_name: m\n  litellm_params:\n    model: openai/m\n"
        f"    api_base: http://127.0.0.1:{upstream_port}/v1\n    api_key: none\n"
    )
    program = Path(python).with_name("litellm")
    command = [str(program), "--config", str(config), "--port", str(port), "--host", "127.0.0.1"]
    settings = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }
    with running(command, port, settings) as server:
        yield server, f"http://127.0.0.1:{port}/v1/chat/completions"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--litellm", metavar="PYTHON", default="")
    arguments = parser.parse_args()
    rounds, count = (3, 40) if arguments.quick else (7, 200)
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        above, plain, ours = free_port(), free_port(), free_port()
        stack.enter_context(process("upstream", above, port=above))
        servers = {
            "bare": (
                stack.enter_context(process("bare", plain, above, port=plain)),
                f"http://127.0.0.1:{plain}/v1/turns",
            ),
            "gateway": (
                stack.enter_context(process("gateway", ours, above, home, port=ours)),
                f"http://127.0.0.1:{ours}/v1/turns",
            ),
        }
        if arguments.litellm:
            servers["litellm"] = stack.enter_context(litellm(arguments.litellm, above, home))
        results = asyncio.run(measure(servers, rounds=rounds, count=count))
    report("a whole chat request", figures(results))


def figures(results: dict[str, tuple[float, float]]) -> list[Figure]:
    ours, plain = results["gateway"], results["bare"]
    rows = [
        Figure(name="chat.cpu", value=ours[0] * 1e3, unit="ms a request"),
        Figure(name="chat.cpu.bare", value=plain[0] * 1e3, unit="ms a request"),
        Figure(name="chat.cpu.ratio", value=ours[0] / plain[0], unit="ratio",
               against="an aiohttp handler that stores and checks nothing"),
        Figure(name="chat.wall", value=ours[1] * 1e3, unit="ms a request"),
        Figure(name="chat.wall.bare", value=plain[1] * 1e3, unit="ms a request"),
    ]  # fmt: skip
    if "litellm" in results:
        theirs = results["litellm"]
        rows += [
            Figure(name="chat.cpu.litellm", value=theirs[0] * 1e3, unit="ms a request"),
            Figure(name="chat.cpu.ratio_litellm", value=ours[0] / theirs[0], unit="ratio",
                   against="LiteLLM's proxy", goal=LITELLM_GOAL),
        ]  # fmt: skip
    return rows


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "upstream":
        asyncio.run(upstream(int(sys.argv[2])))
    elif len(sys.argv) > 1 and sys.argv[1] == "bare":
        run(bare(int(sys.argv[2]), int(sys.argv[3])))
    elif len(sys.argv) > 1 and sys.argv[1] == "gateway":
        run(gateway(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])))
    else:
        main()
