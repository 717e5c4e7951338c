"""Bad upstreams, of each wire: what they do, and what a client of the same wire is to learn.

A request chooses its fault by the name of its model, so that many can be tried side by side.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.builtin_plugins.providers.raw import CHUNKED, CLOSING, HEAD, Script, Wire
from tests.clients.upstream import (
    Call,
    Say,
    chat_frames,
    message_frames,
    response_frames,
)

WIRES = ("chat", "responses", "messages")
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
FRAMES: Mapping[str, Callable[..., Any]] = {
    "chat": chat_frames,
    "responses": response_frames,
    "messages": message_frames,
}
JSON = "application/json"

Act: TypeAlias = Callable[[Wire, str], Awaitable[None]]


def frames(wire: str, *pieces: Any) -> list[bytes]:
    """Return an answer of some words, or of other pieces, as a wire streams it."""
    return list(FRAMES[wire]("fault", 1, list(pieces) or [Say("Cold and wet.")]))


def begun(wire: str) -> bytes:
    """Return the beginning of an answer, with some words in it."""
    said = frames(wire)
    first = next(number for number, frame in enumerate(said) if b'"Cold a' in frame)
    return b"".join(said[: first + 1])


def changed(wire: str, old: bytes, new: bytes) -> list[bytes]:
    """Return an answer in which something stands for something else."""
    made = [frame.replace(old, new) for frame in frames(wire)]
    assert made != frames(wire)
    return made


def status(code: int, body: bytes = b"", **headers: str) -> Act:
    """Answer with a status."""
    told = body or json.dumps({"error": {"type": "x", "message": "it is so"}}).encode()

    async def act(connection: Wire, wire: str) -> None:
        await connection.answer(code, told, **{"content_type": JSON, **headers})

    return act


def sent(make: Callable[[str], Sequence[bytes]]) -> Act:
    """Send an answer that ends as it should."""

    async def act(connection: Wire, wire: str) -> None:
        await connection.chunks(*make(wire))

    return act


def cut(make: Callable[[str], bytes]) -> Act:
    """Send bytes, and close the connection."""

    async def act(connection: Wire, wire: str) -> None:
        await connection.raw(make(wire))
        connection.close()

    return act


def silent(make: Callable[[str], bytes]) -> Act:
    """Send bytes, and nothing more."""

    async def act(connection: Wire, wire: str) -> None:
        await connection.raw(make(wire))
        await asyncio.Event().wait()

    return act


async def white(connection: Wire, wire: str) -> None:
    """Send white space for ever, as what is to be JSON."""
    await connection.raw(f"HTTP/1.1 200 OK\r\ncontent-type: {JSON}\r\n\r\n".encode())
    while True:
        await connection.raw(b" " * 64)
        await asyncio.sleep(0.02)


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def called(wire: str) -> bytes:
    """Return an answer up to where its call is whole, but not the answer."""
    said = frames(wire, Call("weather", {"place": "Oslo"}))
    end = {
        "chat": b'"finish_reason": "tool_calls"',
        "responses": b'"response.completed"',
        "messages": b'"message_delta"',
    }
    at = next(number for number, frame in enumerate(said) if end[wire] in frame)
    return b"".join(said[:at])


def other(wire: str) -> list[bytes]:
    """Return an answer of another wire."""
    return frames({"chat": "messages", "messages": "responses", "responses": "chat"}[wire])


def failing(wire: str) -> list[bytes]:
    """Return an answer that says in its middle that it fails."""
    wrong: dict[str, Any] = {"type": "overloaded_error", "message": "too much to do"}
    event: dict[str, Any] = {"error": wrong}
    if wire == "messages":
        event = {"type": "error", **event}
    if wire == "responses":
        told = {"code": "overloaded", "message": "too much to do"}
        event = {
            "type": "response.failed",
            "response": {"id": "resp_1", "status": "failed", "error": told},
        }
    name = f"event: {event['type']}\n" if "type" in event else ""
    return [begun(wire), f"{name}data: {json.dumps(event)}\n\n".encode()]


def without_usage(wire: str) -> list[bytes]:
    """Return an answer that does not say what it has used."""
    made = []
    for frame in frames(wire):
        if b'"usage": {' not in frame:
            made.append(frame)
            continue
        head, _, text = frame.partition(b"data: ")
        data = json.loads(text)
        data.pop("usage", None)
        for key in ("message", "response"):
            data.get(key, {}).pop("usage", None)
        made.append(head + b"data: " + json.dumps(data).encode() + b"\n\n")
    return made


def negative(wire: str) -> list[bytes]:
    """Return an answer that has used less than nothing."""
    name = b"completion_tokens" if wire == "chat" else b"output_tokens"
    return changed(wire, b'"%b": 30' % name, b'"%b": -30' % name)


def twice(wire: str) -> list[bytes]:
    """Return an answer with two calls of one id."""
    calls = [Call("weather", {"place": place}, id="call_same") for place in ("Oslo", "Rome")]
    return frames(wire, *calls)


@dataclass(frozen=True)
class Fault:
    """One of them.

    Attributes:
        name: What it is called: also the name of the model that has it.
        act: What the upstream does.
        status: What a client is told that gets nothing else; 0 where it gets an answer.
        again: Whether an SDK is to try it again.
        within: The wires on which some of the answer has come before.
        provider: Which of the wire's providers has it: ``slow`` for one with short limits,
            ``gone`` for one at whose address nobody listens.
    """

    name: str
    act: Act
    status: int
    again: bool = False
    within: Sequence[str] = ()
    provider: str = ""

    def model(self, wire: str) -> str:
        """Return the name that a client asks for."""
        return f"{wire}{f'-{self.provider}' if self.provider else ''}/{self.name}"

    def told(self, wire: str) -> int:
        """Return the status that a client of a wire is told."""
        return 529 if (self.status, wire) == (503, "messages") else self.status


def _nothing(wire: str) -> bytes:
    return b""


TYPED = ("responses", "messages")
"""Wires on which an answer begins with events that hold nothing yet."""

FAULTS = (
    Fault("connection-refused", status(200), 502, again=True, provider="gone"),
    Fault("reset-before-headers", cut(_nothing), 502, again=True),
    Fault("reset-within-headers", cut(lambda _: HEAD), 502, again=True),
    Fault("status-400", status(400), 400),
    Fault("status-401", status(401), 502),
    Fault("status-403", status(403), 502),
    Fault("status-404", status(404), 400),
    Fault("no-such-model", status(404, b'{"error": {"code": "model_not_found"}}'), 404),
    Fault("status-408", status(408), 504, again=True),
    Fault("status-409", status(409), 400),
    Fault("status-413", status(413), 413),
    Fault("status-422", status(422), 400),
    Fault("status-429", status(429, retry_after="1"), 429, again=True),
    Fault("status-500", status(500), 502, again=True),
    Fault("status-502", status(502, b"<h1>Bad gateway</h1>", content_type="text/html"), 502, True),
    Fault("status-503", status(503), 503, again=True),
    Fault("status-504", status(504), 504, again=True),
    Fault("status-529", status(529), 503, again=True),
    Fault("redirect", status(302, location="http://127.0.0.1:1/"), 400),
    Fault("html", status(200, b"<html>Log in</html>", content_type="text/html"), 502),
    Fault("json-that-is-none", status(200, b'{"models": []}'), 502),
    Fault("half-json", status(200, b'{"choices": [{"mess'), 502),
    Fault("other-wire", sent(other), 502, again=True),
    Fault("empty-stream", sent(lambda _: [b""]), 502, again=True),
    Fault("garbage", cut(lambda _: CLOSING + bytes(range(128, 256)) * 9 + b"\n\n"), 502, True),
    Fault("no-http", cut(lambda _: b"SSH-2.0-x\r\n\r\n"), 502),
    Fault("line-without-end", cut(lambda _: CLOSING + b"x" * 2_000_000), 502),
    Fault("silence", silent(_nothing), 504, again=True, provider="slow"),
    Fault("endless-white-space", white, 504, again=True, provider="slow"),
    Fault(
        "silence-within",
        silent(lambda wire: CLOSING + begun(wire)),
        504,
        again=True,
        within=WIRES,
        provider="slow",
    ),
    Fault(
        "cut-between-frames",
        cut(lambda wire: CHUNKED + chunked(begun(wire))),
        502,
        again=True,
        within=WIRES,
    ),
    Fault(
        "cut-within-a-frame",
        cut(lambda wire: CHUNKED + chunked(begun(wire) + b'data: {"typ')),
        502,
        again=True,
        within=WIRES,
    ),
    Fault("end-without-a-stop", sent(lambda wire: [begun(wire)]), 502, again=True, within=WIRES),
    Fault("cut-behind-a-call", cut(lambda wire: CHUNKED + chunked(called(wire))), 502, True, TYPED),
    Fault("error-event", sent(failing), 503, again=True, within=WIRES),
    Fault("no-json", sent(lambda wire: [begun(wire), b"data: {x\n\n"]), 502, within=WIRES),
    Fault("no-object", sent(lambda wire: [begun(wire), b"data: []\n\n"]), 502, within=WIRES),
    Fault(
        "no-utf8", sent(lambda wire: [begun(wire), b'data: {"a": "\xff"}\n\n']), 502, within=WIRES
    ),
    Fault("broken-chunks", cut(lambda wire: CHUNKED + b"zz\r\n" + begun(wire)), 502),
    Fault("negative-usage", sent(negative), 502, within=WIRES),
    Fault("no-usage", sent(without_usage), 0),
    Fault("long-line", sent(lambda wire: changed(wire, b"Cold", b"Cold " + b"x" * 600_000)), 0),
    Fault("one-id-twice", sent(twice), 0),
)
BY_NAME = {fault.name: fault for fault in FAULTS}


def script(wire: str) -> Script:
    """Return how an upstream of a wire answers: as the model that it is asked for."""

    async def act(connection: Wire) -> None:
        fault = BY_NAME.get(connection.asked["model"])
        if fault is None:
            await connection.chunks(*frames(wire))
            return
        await fault.act(connection, wire)

    return act


def providers(wire: str, url: str, gone: str, *, seconds: float) -> dict[str, Any]:
    """Return the settings of a wire's providers.

    Args:
        wire: The wire.
        url: Where the upstream is, without ``/v1``.
        gone: Where nobody listens.
        seconds: The limits of the one with short limits.
    """
    kind = {"kind": "anthropic"} if wire == "messages" else {"kind": "openai"}
    if wire == "responses":
        kind["api"] = "responses"
    path = "" if wire == "messages" else "/v1"
    common = {**kind, "base_url": f"{url}{path}", "api_key": "sk-upstream-canary"}
    short = {"first_byte_seconds": seconds, "idle_seconds": seconds, "total_seconds": 2 * seconds}
    return {
        wire: common,
        f"{wire}-slow": {**common, **short},
        f"{wire}-gone": {**common, "base_url": f"{gone}{path}"},
    }


def body(wire: str, model: str, **more: Any) -> dict[str, Any]:
    """Return a request."""
    schema = {"type": "object", "properties": {"place": {"type": "string"}}}
    if wire == "responses":
        tool = {"type": "function", "name": "weather", "parameters": schema, "strict": False}
        return {"model": model, "input": "How is Oslo?", "tools": [tool], "store": False, **more}
    messages = [{"role": "user", "content": "How is Oslo?"}]
    if wire == "chat":
        function = {"name": "weather", "parameters": schema}
        tools: list[Any] = [{"type": "function", "function": function}]
        return {"model": model, "messages": messages, "tools": tools, **more}
    tools = [{"name": "weather", "input_schema": schema}]
    return {"model": model, "max_tokens": 99, "messages": messages, "tools": tools, **more}
