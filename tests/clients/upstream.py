"""A provider of all three wires that answers by a script, and keeps what it was sent.

What it is asked is data: each request's path, headers and body are kept as they came. What it
answers is a list of answers, each one some words, thoughts and calls, written as the vendor would.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

LARGE = 64 * 1024 * 1024


@dataclass(frozen=True)
class Say:
    """Some words of an answer."""

    text: str


@dataclass(frozen=True)
class Think:
    """Thoughts that the vendor signs."""

    text: str
    signature: str = "c2lnbmVk"


@dataclass(frozen=True)
class Call:
    """A call of a tool."""

    name: str
    input: Mapping[str, Any] | str
    id: str = ""


@dataclass(frozen=True)
class Fault:
    """A failure in the place of an answer."""

    status: int
    body: Any = field(default_factory=dict)


Piece: TypeAlias = Say | Think | Call
Answer: TypeAlias = Sequence[Piece] | Fault


@dataclass
class Sent:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


USAGE = {"read": 20_000, "cached": 19_000, "written": 30}
"""What each answer is said to have cost."""


@dataclass
class Upstream:
    """The provider.

    Attributes:
        script: Chooses the answer to a request's body; `answers` makes one of a list.
        sent: What came, in order.
        url: Where it is, without ``/v1``.
    """

    script: Callable[[Mapping[str, Any]], Answer]
    sent: list[Sent] = field(default_factory=list)
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        self.sent.append(Sent(request.method, request.path_qs, dict(request.headers), raw))
        wire = {
            "/v1/chat/completions": (chat_frames, chat_whole),
            "/v1/messages": (message_frames, message_whole),
            "/v1/responses": (response_frames, response_whole),
        }.get(request.path)
        if request.path == "/v1/messages/count_tokens":
            return web.json_response({"input_tokens": 1234})
        if request.path == "/v1/embeddings":
            return web.json_response(vectors(json.loads(raw)))
        if wire is None:
            return web.json_response({"error": {"message": "no such path"}}, status=404)
        body = json.loads(raw)
        answer = self.script(body)
        if isinstance(answer, Fault):
            return web.json_response(answer.body, status=answer.status)
        number = len(self.sent)
        if not body.get("stream"):
            return web.json_response(wire[1](body["model"], number, answer))
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for frame in wire[0](body["model"], number, answer):
            await response.write(frame)
        await response.write_eof()
        return response

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Upstream]:
        """Serve on a free port of this machine."""
        app = web.Application(client_max_size=LARGE)
        app.router.add_route("*", "/{tail:.*}", self.handle)
        async with TestServer(app) as server:
            self.url = f"http://127.0.0.1:{server.port}"
            yield self


@asynccontextmanager
async def relay(to: str, sent: list[Sent]) -> AsyncIterator[str]:
    """Stand between a client and `to`, keep in `sent` what the client sends; yield where."""

    async def passed(request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        sent.append(Sent(request.method, request.path_qs, dict(request.headers), raw))
        headers = {k: v for k, v in request.headers.items() if k.lower() != "host"}
        headers["accept-encoding"] = "identity"
        async with session.request(
            request.method, f"{to}{request.path_qs}", data=raw, headers=headers
        ) as answer:
            kept = {
                key: value
                for key, value in answer.headers.items()
                if key.lower() not in ("content-length", "transfer-encoding", "connection")
            }
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response

    app = web.Application(client_max_size=LARGE)
    app.router.add_route("*", "/{tail:.*}", passed)
    async with ClientSession(auto_decompress=False) as session, TestServer(app) as server:
        yield f"http://127.0.0.1:{server.port}"


def answers(*given: Answer) -> Callable[[Mapping[str, Any]], Answer]:
    """Return a script of answers in their order; what asks without tools is a side question."""
    left = list(given)

    def script(body: Mapping[str, Any]) -> Answer:
        return left.pop(0) if left else [Say("There is nothing more to say.")]

    return script


def by_tools(*given: Answer) -> Callable[[Mapping[str, Any]], Answer]:
    """Return a script of answers for requests with tools; agents ask others beside them."""
    main = answers(*given)
    return lambda body: main(body) if body.get("tools") else [Say("A short title")]


def _sse(data: Mapping[str, Any] | str, name: str = "") -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _id(call: Call, prefix: str, number: int, place: int) -> str:
    return call.id or f"{prefix}_{number}_{place}"


def _arguments(call: Call) -> str:
    return call.input if isinstance(call.input, str) else json.dumps(call.input)


def vectors(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what embeddings are asked for: of each text its length and a half."""
    rows: list[Any] = []
    for number, text in enumerate(body["input"]):
        vector: Any = [float(len(text)), 0.5]
        if body.get("encoding_format") == "base64":
            vector = b64encode(struct.pack("<2f", *vector)).decode()
        rows.append({"object": "embedding", "index": number, "embedding": vector})
    usage = {"prompt_tokens": 7, "total_tokens": 7}
    return {"object": "list", "data": rows, "model": body["model"], "usage": usage}


# -- Chat Completions --------------------------------------------------------------


def _chat_call(call: Call, number: int, place: int) -> dict[str, Any]:
    function = {"name": call.name, "arguments": _arguments(call)}
    return {"id": _id(call, "call", number, place), "type": "function", "function": function}


def _chat_usage() -> dict[str, Any]:
    return {
        "prompt_tokens": USAGE["read"],
        "completion_tokens": USAGE["written"],
        "total_tokens": USAGE["read"] + USAGE["written"],
        "prompt_tokens_details": {"cached_tokens": USAGE["cached"]},
    }


def chat_frames(model: str, number: int, pieces: Sequence[Piece]) -> Iterator[bytes]:
    """Yield an answer as Chat Completions streams it."""
    head = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion.chunk",
        "created": 1_790_000_000,
        "model": model,
        "system_fingerprint": "fp_1",
    }

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _sse({**head, "choices": [choice], "usage": None})

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    place = 0
    for piece in pieces:
        if isinstance(piece, Say):
            for half in _halves(piece.text):
                yield chunk({"content": half})
        elif isinstance(piece, Call):
            call = _chat_call(piece, number, place)
            text = call["function"].pop("arguments")
            call["function"]["arguments"] = ""
            yield chunk({"tool_calls": [{"index": place, **call}]})
            for half in _halves(text):
                yield chunk({"tool_calls": [{"index": place, "function": {"arguments": half}}]})
            place += 1
    yield chunk({}, "tool_calls" if place else "stop")
    yield _sse({**head, "choices": [], "usage": _chat_usage()})
    yield _sse("[DONE]")


def chat_whole(model: str, number: int, pieces: Sequence[Piece]) -> dict[str, Any]:
    """Return an answer of Chat Completions in one piece."""
    calls = [piece for piece in pieces if isinstance(piece, Call)]
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(piece.text for piece in pieces if isinstance(piece, Say)) or None,
        "refusal": None,
    }
    if calls:
        message["tool_calls"] = [_chat_call(call, number, at) for at, call in enumerate(calls)]
    finish = "tool_calls" if calls else "stop"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": _chat_usage(),
        "system_fingerprint": "fp_1",
    }


# -- Messages ----------------------------------------------------------------------


def _blocks(number: int, pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for place, piece in enumerate(pieces):
        match piece:
            case Say(text):
                blocks.append({"type": "text", "text": text})
            case Think(text, signature):
                blocks.append({"type": "thinking", "thinking": text, "signature": signature})
            case Call():
                given = piece.input if not isinstance(piece.input, str) else {}
                called = {"id": _id(piece, "toolu", number, place), "name": piece.name}
                blocks.append({"type": "tool_use", **called, "input": given})
    return blocks


def _message(model: str, number: int, **more: Any) -> dict[str, Any]:
    usage = {
        "input_tokens": USAGE["read"] - USAGE["cached"],
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": USAGE["cached"],
        "output_tokens": 1,
        "service_tier": "standard",
    }
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
        **more,
    }


def _stop(pieces: Sequence[Piece]) -> str:
    return "tool_use" if any(isinstance(piece, Call) for piece in pieces) else "end_turn"


def message_frames(model: str, number: int, pieces: Sequence[Piece]) -> Iterator[bytes]:
    """Yield an answer as the Messages API streams it."""

    def event(kind: str, **data: Any) -> bytes:
        return _sse({"type": kind, **data}, kind)

    yield event("message_start", message=_message(model, number))
    yield event("ping")
    for index, block in enumerate(_blocks(number, pieces)):
        begun, deltas = dict(block), []
        match block["type"]:
            case "text":
                begun["text"] = ""
                deltas = [{"type": "text_delta", "text": it} for it in _halves(block["text"])]
            case "thinking":
                begun |= {"thinking": "", "signature": ""}
                thoughts = _halves(block["thinking"])
                deltas = [{"type": "thinking_delta", "thinking": it} for it in thoughts]
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            case "tool_use":
                begun["input"] = {}
                halves = _halves(json.dumps(block["input"]))
                deltas = [{"type": "input_json_delta", "partial_json": it} for it in halves]
        yield event("content_block_start", index=index, content_block=begun)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    ending = {"stop_reason": _stop(pieces), "stop_sequence": None}
    yield event("message_delta", delta=ending, usage={"output_tokens": USAGE["written"]})
    yield event("message_stop")


def message_whole(model: str, number: int, pieces: Sequence[Piece]) -> dict[str, Any]:
    """Return an answer of the Messages API in one piece."""
    whole = _message(model, number, content=_blocks(number, pieces), stop_reason=_stop(pieces))
    whole["usage"]["output_tokens"] = USAGE["written"]
    return whole


# -- Responses ---------------------------------------------------------------------


def _items(number: int, pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for place, piece in enumerate(pieces):
        name = f"{number}_{place}"
        match piece:
            case Say(text):
                block = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
                items.append(
                    {
                        "id": f"msg_{name}",
                        "type": "message",
                        "status": "completed",
                        "role": "assistant",
                        "content": [block],
                    }
                )
            case Think(text, signature):
                summary = [{"type": "summary_text", "text": text}]
                thought = {"id": f"rs_{name}", "type": "reasoning", "summary": summary}
                items.append({**thought, "encrypted_content": signature})
            case Call():
                called = {"status": "completed", "call_id": _id(piece, "call", number, place)}
                if piece.name == "tool_search":
                    kind = {"id": f"tsc_{name}", "type": "tool_search_call", "execution": "client"}
                    items.append({**kind, "arguments": dict(piece.input), **called})
                    continue
                called["name"] = piece.name
                if isinstance(piece.input, str):
                    item = {"id": f"ctc_{name}", "type": "custom_tool_call", "input": piece.input}
                else:
                    arguments = _arguments(piece)
                    item = {"id": f"fc_{name}", "type": "function_call", "arguments": arguments}
                items.append({**item, **called})
    return items


def _response(model: str, number: int, status: str, **more: Any) -> dict[str, Any]:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_790_000_000,
        "status": status,
        "model": model,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "output": [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None,
        **more,
    }


def response_frames(model: str, number: int, pieces: Sequence[Piece]) -> Iterator[bytes]:
    """Yield an answer as the Responses API streams it."""
    count = -1

    def event(kind: str, **data: Any) -> bytes:
        nonlocal count
        count += 1
        name = f"response.{kind}"
        return _sse({"type": name, "sequence_number": count, **data}, name)

    for kind in ("created", "in_progress"):
        yield event(kind, response=_response(model, number, "in_progress"))
    for index, item in enumerate(_items(number, pieces)):
        at = {"item_id": item["id"], "output_index": index}
        begun = {**item, "status": "in_progress"}
        match item["type"]:
            case "message":
                (block,) = item["content"]
                text, place = block["text"], {**at, "content_index": 0}
                yield event("output_item.added", output_index=index, item={**begun, "content": []})
                yield event("content_part.added", **place, part={**block, "text": ""})
                for half in _halves(text):
                    yield event("output_text.delta", **place, delta=half, logprobs=[])
                yield event("output_text.done", **place, text=text, logprobs=[])
                yield event("content_part.done", **place, part=block)
            case "function_call":
                yield event(
                    "output_item.added", output_index=index, item={**begun, "arguments": ""}
                )
                for half in _halves(item["arguments"]):
                    yield event("function_call_arguments.delta", **at, delta=half)
                whole = item["arguments"]
                yield event("function_call_arguments.done", **at, arguments=whole)
            case "custom_tool_call":
                yield event("output_item.added", output_index=index, item={**begun, "input": ""})
                for half in _halves(item["input"]):
                    yield event("custom_tool_call_input.delta", **at, delta=half)
                yield event("custom_tool_call_input.done", **at, input=item["input"])
            case "tool_search_call":
                yield event("output_item.added", output_index=index, item=begun)
            case _:
                yield event("output_item.added", output_index=index, item={**item, "summary": []})
        yield event("output_item.done", output_index=index, item=item)
    yield event("completed", response=response_whole(model, number, pieces))


def response_whole(model: str, number: int, pieces: Sequence[Piece]) -> dict[str, Any]:
    """Return an answer of the Responses API in one piece."""
    usage = {
        "input_tokens": USAGE["read"],
        "input_tokens_details": {"cached_tokens": USAGE["cached"]},
        "output_tokens": USAGE["written"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": USAGE["read"] + USAGE["written"],
    }
    return _response(model, number, "completed", output=_items(number, pieces), usage=usage)
