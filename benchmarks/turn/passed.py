"""What it costs to guard a coding agent's request, beside passing it on.

A request as Claude Code's: 76 KB, 24 tools, streamed, answered by 60 pieces of text. It goes to a
bare aiohttp relay, which reads it and passes it on and the answer back, and to a gateway with all
its plugins, policy, metering and audit among them. All servers are processes of their own; both are
asked in turns within one run, and the CPU time of the serving process is read. With
``--litellm PYTHON`` (or $HOOKGATE_LITELLM), an interpreter with ``litellm[proxy]`` installed, its
proxy takes part, which judges and records nothing. With ``LITELLM_RUST=true`` in the environment it
is in its Rust mode, which the wheel of PyPI has for this path; a server of it that is Rust alone is
not out (announced for December 2026; neither PyPI nor npm has one, looked up on 2026-11-27).

    python -m benchmarks.turn.passed [--quick] [--rounds ROUNDS EACH]
        [--litellm PYTHON] [--before CHECKOUT]

With ``--before``, the gateway of another checkout, with the same libraries, is asked in turns too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from benchmarks.report import Figure, report
from benchmarks.turn._servers import Running, free_port, litellm, started
from hookgate.core.gateway.access.tokens import new_token

PIECES = 60
TOOLS = 24
SIZE = 76_000
LARGE = 64 * 1024 * 1024
PROXY = "LiteLLM's proxy"


def request(number: int, model: str = "mock/big") -> bytes:
    """Return a request of `SIZE` bytes; no two are the same."""
    tools = [
        {
            "name": f"Tool{at}",
            "description": f"Does the work of the kind {at}. " * 40,
            "input_schema": {
                "type": "object",
                "properties": {
                    f"argument_{one}": {"type": "string", "description": "What is to be done. " * 4}
                    for one in range(4)
                },
            },
        }
        for at in range(TOOLS)
    ]
    body = {
        "model": model,
        "max_tokens": 32_000,
        "stream": True,
        "system": [
            {"type": "text", "text": "", "cache_control": {"type": "ephemeral"}},
        ],
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": []},
        "messages": [{"role": "user", "content": f"Please look at file {number}."}],
        "tools": tools,
    }
    room = SIZE - len(written(body))
    body["system"][0]["text"] = "You help with software. " * (room // 24)
    return written(body)


def written(body: dict[str, Any]) -> bytes:
    """Return JSON as JavaScript writes it, and so do the SDKs."""
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def event(kind: str, **data: Any) -> bytes:
    """Return an event of the Messages API."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


def answer() -> list[bytes]:
    """Return the events of an answer."""
    usage = {"input_tokens": 20_000, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "big", "content": []}
    ending = {"stop_reason": "end_turn", "stop_sequence": None}
    return [
        event("message_start", message={**message, "stop_reason": None, "usage": usage}),
        event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        *[
            event(
                "content_block_delta", index=0, delta={"type": "text_delta", "text": f" word{at}"}
            )
            for at in range(PIECES)
        ],
        event("content_block_stop", index=0),
        event("message_delta", delta=ending, usage={"output_tokens": 2 * PIECES}),
        event("message_stop"),
    ]


# -- the servers ---------------------------------------------------------------------


async def serve(handler: Any, port: int) -> None:
    """Serve one handler until the process ends."""
    app = web.Application(client_max_size=LARGE)
    app.router.add_post("/v1/messages", handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


async def upstream(port: int) -> None:
    """Answer as the vendor does."""
    events = answer()

    async def handler(asked: web.Request) -> web.StreamResponse:
        await asked.read()
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(asked)
        for one in events:
            await response.write(one)
        return response

    await serve(handler, port)


async def relay(port: int, to: str) -> None:
    """Pass on what comes, both ways."""
    session = aiohttp.ClientSession()

    async def handler(asked: web.Request) -> web.StreamResponse:
        body = await asked.read()
        headers = {"content-type": "application/json", "x-api-key": "upstream"}
        async with session.post(f"{to}/v1/messages", data=body, headers=headers) as came:
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await response.prepare(asked)
            async for piece in came.content.iter_any():
                await response.write(piece)
            return response

    await serve(handler, port)


async def gateway(port: int, to: str, home: str, token: str) -> None:
    """A gateway with all builtin plugins, as `hookgate serve` runs it."""
    import gc

    gc.disable()
    from hookgate import Gateway, Settings
    from hookgate.cli.state import settle_memory
    from hookgate.core.gateway.serve import listen

    path = Path(home) / "token"
    path.touch(mode=0o600)
    path.write_text(token)
    mock = {"kind": "anthropic", "base_url": to, "api_key": "upstream"}
    settings = Settings.model_validate(
        {
            "home": home,
            "gateway": {"port": port, "tokens": {"bench": {"file": path}}},
            "plugins": {"entry_points": False},
            "log": {"level": "error"},
            "plugin": {"providers": {"mock": mock}, "packs": {"enabled": ["claude-code"]}},
        }
    )
    async with Gateway(settings) as gate, listen(gate):
        settle_memory()
        await asyncio.Event().wait()


SERVERS: dict[str, Any] = {"upstream": upstream, "relay": relay, "gateway": gateway}


@contextmanager
def running(name: str, *, checkout: str = "", **settings: Any) -> Iterator[Running]:
    """Run a server in a process of its own, with the code of this checkout or of another one."""
    port = free_port()
    given = json.dumps({"port": port, **settings})
    command = [sys.executable, "-m", "benchmarks.turn.passed", "--serve", name, given]
    headers = {"authorization": f"Bearer {settings.get('token', 'none')}"}
    source = {"PYTHONPATH": str(Path(checkout) / "src")} if checkout else None
    with started(command, port, source) as process:
        yield Running(process, f"http://127.0.0.1:{port}", headers)


# -- the measurement -------------------------------------------------------------------


SESSION = {"x-claude-code-session-id": "one"}
MODELS = {"litellm": "m"}
"""What a server calls the model, where that is not ``mock/big``."""


async def asked(session: aiohttp.ClientSession, server: Running, body: bytes) -> float:
    """Ask once; return the milliseconds until the first piece of text was there."""
    began = time.perf_counter()
    headers = {**SESSION, **server.headers, "content-type": "application/json"}
    first = 0.0
    async with session.post(f"{server.url}/v1/messages", data=body, headers=headers) as answered:
        text = b""
        async for piece in answered.content.iter_any():
            text += piece
            if not first and b"text_delta" in text:
                first = time.perf_counter() - began
    if answered.status != 200 or text.count(b" word") != PIECES or b"message_stop" not in text:
        raise SystemExit(f"found {answered.status} {text[:300]!r}, expected a whole answer")
    return first * 1000


async def measure(servers: dict[str, Running], rounds: int, each: int) -> dict[str, list[Any]]:
    """Ask all in turns; return the CPU milliseconds a request and the first pieces of each."""
    cpu: dict[str, list[float]] = {name: [] for name in servers}
    first: dict[str, list[float]] = {name: [] for name in servers}
    number = 0
    async with aiohttp.ClientSession() as session:
        for at in range(rounds + 1):
            for name, server in servers.items():
                model = MODELS.get(name, "mock/big")
                bodies = [request(number := number + 1, model) for _ in range(each)]
                before = server.cpu()
                times = [await asked(session, server, body) for body in bodies]
                if at:  # The first round warms.
                    cpu[name].append((server.cpu() - before) * 1000 / each)
                    first[name].extend(times)
    return {name: [cpu[name], first[name]] for name in servers}


async def streams(server: Running, count: int) -> float:
    """Return how long `count` streams of one session take side by side, beside one, per stream."""
    async with aiohttp.ClientSession() as session:
        bodies = [request(100_000 + at) for at in range(count)]
        began = time.perf_counter()
        await asyncio.gather(*[asked(session, server, body) for body in bodies])
        return (time.perf_counter() - began) * 1000 / count


def figures(found: dict[str, list[Any]], together: float) -> list[Figure]:
    """Return what was measured, beside what passes the request on and does nothing else."""
    bare, guarded = (statistics.median(found[name][0]) for name in ("relay", "gateway"))
    early, late = (statistics.median(found[name][1]) for name in ("relay", "gateway"))
    against = "the bare relay"
    beside: list[Figure] = []
    if "before" in found:
        cpu, first = (statistics.median(found["before"][which]) for which in (0, 1))
        beside += [
            Figure(name="CPU of the gateway before", value=cpu, unit="ms"),
            Figure(
                name="before: first piece, later by",
                value=first - early,
                unit="ms",
                against=against,
            ),
        ]
    if "litellm" in found:
        cpu, first = (statistics.median(found["litellm"][which]) for which in (0, 1))
        beside += [
            Figure(name="CPU of LiteLLM's proxy", value=cpu, unit="ms"),
            Figure(name="CPU of the gateway", value=guarded / cpu, unit="ratio", against=PROXY),
            Figure(
                name=f"{PROXY}: first piece, later by",
                value=first - early,
                unit="ms",
                against=against,
            ),
        ]
    return [
        Figure(name="CPU of the relay", value=bare, unit="ms"),
        Figure(name="CPU of the gateway", value=guarded, unit="ms"),
        Figure(
            name="CPU beyond 1.5 times the relay",
            value=guarded - 1.5 * bare,
            unit="ms",
            against=against,
            goal=1.0,
        ),
        Figure(
            name="first piece of text, later by",
            value=late - early,
            unit="ms",
            against=against,
            goal=2.0,
        ),
        Figure(name="50 streams of one session, each", value=together, unit="ms"),
        *beside,
    ]


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a short form")
    named = os.environ.get("HOOKGATE_LITELLM", "")
    parser.add_argument("--litellm", metavar="PYTHON", default=named)
    parser.add_argument("--rounds", nargs=2, type=int, metavar=("ROUNDS", "EACH"))
    parser.add_argument("--before", metavar="CHECKOUT", default="", help="another checkout")
    parser.add_argument("--serve", nargs=2, metavar=("NAME", "SETTINGS"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        name, settings = chosen.serve
        from hookgate.core.gateway.serve import loop_factory

        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(SERVERS[name](**json.loads(settings)))
        return
    rounds, each = chosen.rounds or ((1, 3) if chosen.quick else (15, 40))
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        model = stack.enter_context(running("upstream"))
        servers = {
            "relay": stack.enter_context(running("relay", to=model.url)),
            "gateway": stack.enter_context(
                running("gateway", to=model.url, home=home, token=new_token()[0])
            ),
        }
        if chosen.before:
            other = stack.enter_context(tempfile.TemporaryDirectory())
            servers["before"] = stack.enter_context(
                running(
                    "gateway",
                    checkout=chosen.before,
                    to=model.url,
                    home=other,
                    token=new_token()[0],
                )
            )
        if chosen.litellm:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            port = int(model.url.rpartition(":")[2])
            # Its clients ask below the address that is given here.
            proxy = litellm(chosen.litellm, port, folder, model="anthropic/big", base="", path="")
            servers["litellm"] = stack.enter_context(proxy)
        found = asyncio.run(measure(servers, rounds, each))
        together = asyncio.run(streams(servers["gateway"], 50))
    report("a coding agent's request, guarded", figures(found, together))


if __name__ == "__main__":
    main()
