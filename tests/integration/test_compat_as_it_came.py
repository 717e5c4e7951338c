"""The same wire in and out: the upstream sees the client's body, and the client its answer."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.builtin_plugins.providers.raw import RawServer, Wire, raw_server
from tests.builtin_plugins.providers.transcripts import ANTHROPIC, OPENAI, chunk, sse
from tests.support.script import settings, until
from tests.support.wire import Served, small_buffers

from hookgate import (
    Gateway,
    Message,
    ModelEvent,
    TextDelta,
    ToolCall,
    ToolResult,
    Turn,
    hookimpl,
)
from hookgate.builtin_plugins import BUILTIN
from hookgate.builtin_plugins.compat.wires.messages_writer import fold
from hookgate.core.gateway.serve import listen

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
BOTH = pytest.mark.parametrize("path", [CHAT, MESSAGES])
NAMES = [
    name
    for name in BUILTIN
    if name
    in ("control", "storage", "egress", "providers", "audit", "policy", "metering", "compat")
]

SCHEMA = {"type": "object", "properties": {"expression": {"type": "string"}}}
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {
        "vendor_first": {"x": [1, None]},
        "messages": [
            {"role": "system", "content": "be brief", "cache_control": {"type": "ephemeral"}},
            {"role": "user", "content": [{"type": "text", "text": "go", "vendor": 1}]},
            {"role": "system", "content": "in the middle"},
            {"role": "assistant", "content": None, "audio": {"id": "a1"}},
            {"role": "user", "content": [{"type": "brand_new"}, {"type": "text", "text": "?"}]},
        ],
        "model": "m",
        "stream": True,
        "tools": [
            {"type": "function", "function": {"name": name, "parameters": SCHEMA, "strict": True}}
            for name in ("calculate", "clock")
        ],
        "temperature": 0.5,
        "logit_bias": {"1": 2},
        "stream_options": {"include_usage": True, "include_obfuscation": False},
    },
    MESSAGES: {
        "max_tokens": 64,
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
        "model": "m",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "go", "vendor": 1}]},
            {"role": "system", "content": "in the middle"},
            {"role": "assistant", "content": [{"type": "brand_new", "data": {"x": 1}}]},
            {"role": "user", "content": "?"},
        ],
        "stream": True,
        "tools": [
            {"name": name, "input_schema": SCHEMA, "defer_loading": True}
            for name in ("calculate", "clock")
        ],
        "thinking": {"type": "adaptive", "display": "omitted"},
        "output_config": {"effort": "medium"},
        "metadata": {"user_id": "u"},
    },
}  # fmt: skip
ANSWERS: dict[str, Sequence[Any]] = {CHAT: OPENAI, MESSAGES: ANTHROPIC}


class Reads:
    """A plugin that changes what the client says and what its tools have found."""

    name = "reads"

    @hookimpl
    def receive_message(self, turn: Turn, message: Message) -> Message:
        return message.with_texts(lambda text: text.replace("4111", "[card]"))

    @hookimpl
    def after_tool_call(self, turn: Turn, call: ToolCall, result: ToolResult) -> ToolResult:
        return replace(result, content=result.text.replace("4222", "[card]"))


class Masks:
    """A plugin that changes what the model says."""

    name = "masks"

    @hookimpl
    def filter_stream(
        self, turn: Turn, events: AsyncIterator[ModelEvent]
    ) -> AsyncIterator[ModelEvent]:
        async def masked() -> AsyncIterator[ModelEvent]:
            async for event in events:
                if isinstance(event, TextDelta) and "and on" in event.text:
                    yield TextDelta(event.text.replace("and on", "[masked]"))
                else:
                    yield event

        return masked()


@asynccontextmanager
async def relayed(
    home: Path,
    *answers: Sequence[Any],
    plugins: Sequence[object] = (),
    compat: Mapping[str, Any] | None = None,
    providers: Mapping[str, Mapping[str, Any]] | None = None,
    gateway: Mapping[str, Any] | None = None,
    **policy: Any,
) -> AsyncIterator[tuple[Served, RawServer]]:
    """A gateway before a server that gives these answers, the last one over and over."""
    async with raw_server() as upstream:
        left = list(answers)

        async def script(wire: Wire) -> None:
            frames = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(frames, bytes):
                await wire.answer(200, frames, content_type="text/html")
            else:
                await wire.chunks(sse(*frames))

        upstream.script = script
        common = {"base_url": upstream.url, "api_key": "sk-upstream-0123456789"}
        kinds = {kind: {"kind": kind} for kind in ("openai", "anthropic")}
        named = {**kinds, **(providers or {})}
        plugin = {
            "providers": {name: {**common, **one} for name, one in named.items()},
            "policy": {"allow": ["calculate", "clock"], **policy},
            "compat": compat or {},
        }
        config = settings(home, gateway={"port": 0, **(gateway or {})}, plugin=plugin)
        async with (
            Gateway(config, builtin=NAMES, plugins=list(plugins)) as gate,
            listen(gate) as listener,
            aiohttp.ClientSession() as http,
        ):
            yield Served(gate, listener, http), upstream


def frames_of(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data:")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def ordered(value: Any) -> Any:
    """Return JSON such that the order of its keys counts."""
    return json.dumps(value)


async def streamed(one: Served, path: str, body: Mapping[str, Any], **headers: str) -> str:
    async with one.http.post(one.url + path, json=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.text()


@BOTH
async def test_the_upstream_gets_the_body_that_the_client_has_sent(
    path: str, tmp_path: Path
) -> None:
    async with relayed(tmp_path, ANSWERS[path]) as (one, upstream):
        await streamed(one, path, BODIES[path])
        assert ordered(upstream.requests[0]) == ordered(BODIES[path])


@BOTH
async def test_it_is_always_asked_for_a_stream_and_its_usage(path: str, tmp_path: Path) -> None:
    quiet = {key: value for key, value in BODIES[path].items() if not key.startswith("stream")}
    async with relayed(tmp_path, ANSWERS[path]) as (one, upstream):
        status, _ = await one.post(path, quiet)
        assert status == 200
        forced = {"stream_options": {"include_usage": True}} if path == CHAT else {}
        assert upstream.requests[0] == {**quiet, "stream": True, **forced}


async def test_the_headers_that_belong_to_a_body_go_with_it(tmp_path: Path) -> None:
    async with relayed(tmp_path, ANTHROPIC) as (one, upstream):
        headers = {"anthropic-beta": "context-management-2025-06-27", "x-other": "canary"}
        await streamed(one, MESSAGES, BODIES[MESSAGES], **headers)
        (head,) = upstream.heads
        assert "anthropic-beta: context-management-2025-06-27" in head.lower()
        assert "canary" not in head


@BOTH
async def test_the_client_gets_the_frames_that_the_upstream_has_sent(
    path: str, tmp_path: Path
) -> None:
    async with relayed(tmp_path, ANSWERS[path]) as (one, _):
        text = await streamed(one, path, BODIES[path])
    told = frames_of(text)
    if path == CHAT:
        # The calls were held, so they stand together, each whole; what else there is is the same.
        others = [one for one in OPENAI if "tool_calls" not in json.dumps(one)]
        calls = [one for one in OPENAI if '"tool_calls": [' in json.dumps(one)]
        shown = [one for one in told if '"tool_calls": [' in json.dumps(one)]
        assert len(shown) == len(calls)
        assert [one for one in told if "tool_calls" not in json.dumps(one)] == [
            one if one == "[DONE]" else {**one, "model": "m"} for one in others
        ]
        return
    start = {**ANTHROPIC[0], "message": {**ANTHROPIC[0]["message"], "model": "m"}}
    assert told == [start, *ANTHROPIC[1:]]


@BOTH
async def test_what_a_filter_changes_is_nowhere_in_the_clients_bytes(
    path: str, tmp_path: Path
) -> None:
    async with relayed(tmp_path, ANSWERS[path], plugins=[Masks()]) as (one, _):
        text = await streamed(one, path, BODIES[path])
    assert "[masked]" in text
    assert "and on" not in text


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_block_whose_first_words_a_filter_changes_keeps_its_others(
    stream: bool, tmp_path: Path
) -> None:
    text = {"type": "text", "text": "On and on", "citations": None}
    deltas = [{"type": "text_delta", "text": word} for word in (", they", " say.")]
    block = [
        {"type": "content_block_start", "index": 0, "content_block": text},
        {"type": "ping"},
        *[{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas],
        {"type": "content_block_stop", "index": 0},
    ]
    answer = [ANTHROPIC[0], *block, *ANTHROPIC[-2:]]
    shown = {}
    for name, plugins in (("masked", [Masks()]), ("plain", [])):
        async with relayed(tmp_path / name, answer, plugins=plugins) as (one, _):
            body = {**BODIES[MESSAGES], "stream": stream}
            if stream:
                shown[name] = fold(frames_of(await streamed(one, MESSAGES, body)))
            else:
                _, shown[name] = await one.post(MESSAGES, body)
    assert shown["masked"]["content"] == [{**text, "text": "On [masked], they say."}]
    assert shown["plain"]["content"] == [{**text, "text": "On and on, they say."}]


@BOTH
async def test_a_whole_answer_is_what_the_frames_make(path: str, tmp_path: Path) -> None:
    quiet = {key: value for key, value in BODIES[path].items() if not key.startswith("stream")}
    async with relayed(tmp_path, ANSWERS[path]) as (one, _):
        _, answer = await one.post(path, quiet)
    if path == CHAT:
        (choice,) = answer["choices"]
        assert choice["message"]["content"] == "Zürich – 日本\u2028語 😀 and on"
        names = [call["function"]["name"] for call in choice["message"]["tool_calls"]]
        assert (names, choice["finish_reason"]) == (["calculate", "clock"], "tool_calls")
        assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 64}
        return
    kinds = [block["type"] for block in answer["content"]]
    assert kinds[:3] == ["thinking", "redacted_thinking", "text"]
    thought = {"type": "thinking", "thinking": "Let me see.", "signature": "EqQBCgIY="}
    assert answer["content"][0] == thought
    assert answer["id"] == "msg_1"


@BOTH
@pytest.mark.parametrize("kind", ["html", "other", "half"])
async def test_an_upstream_that_is_none_is_a_502(path: str, kind: str, tmp_path: Path) -> None:
    other = ANSWERS[MESSAGES if path == CHAT else CHAT]
    answer: Any = {"html": b"<h1>nginx</h1>", "other": other, "half": ["{"]}[kind]
    async with (
        relayed(tmp_path, answer) as (one, _),
        one.http.post(one.url + path, json=BODIES[path]) as got,
    ):
        assert got.status == 502
        assert "error" in await got.json()
        # What breaks off may be whole the next time.
        assert (got.headers.get("x-should-retry") == "false") or kind == "other"


async def test_a_field_that_another_wire_cannot_carry_is_named(tmp_path: Path) -> None:
    for path, model in ((CHAT, "anthropic/m"), (MESSAGES, "openai/m")):
        async with relayed(tmp_path / model.partition("/")[0], ANTHROPIC) as (one, upstream):
            status, answer = await one.post(path, {**BODIES[path], "model": model})
            assert (status, upstream.requests) == (400, [])
            assert answer["error"]["param"] in ("vendor_first", "context_management")


async def test_a_client_of_one_wire_is_answered_by_the_other(tmp_path: Path) -> None:
    user = {"role": "user", "content": "go"}
    tool = {"name": "calculate", "parameters": SCHEMA}
    body: dict[str, Any] = {"model": "anthropic/m", "messages": [user], "max_tokens": 9}
    body |= {"tools": [{"type": "function", "function": tool}]}
    async with relayed(tmp_path / "a", ANTHROPIC) as (one, upstream):
        status, answer = await one.post(CHAT, body)
        assert (status, upstream.requests[0]["tools"][0]["name"]) == (200, "calculate")
        assert answer["choices"][0]["message"]["content"] == "Zürich – 日本\u2028語 😀 and on"
    body = {"model": "openai/m", "messages": [user], "max_tokens": 9}
    body |= {"tools": [{"name": "calculate", "input_schema": SCHEMA}]}
    async with relayed(tmp_path / "b", OPENAI) as (one, upstream):
        status, answer = await one.post(MESSAGES, body)
        assert (status, upstream.requests[0]["tools"][0]["type"]) == (200, "function")
        kinds = [block["type"] for block in answer["content"]]
        assert kinds == ["text", "tool_use", "tool_use"]
        assert (answer["stop_reason"], answer["usage"]["cache_read_input_tokens"]) == (
            "tool_use",
            64,
        )


@BOTH
async def test_a_client_that_reads_late_misses_nothing(path: str, tmp_path: Path) -> None:
    texts = [f"{number:04d} {'x' * 40_000}" for number in range(150)]
    answer = [chunk({"content": text}) for text in texts] + OPENAI[-2:]
    if path == MESSAGES:
        deltas = [{"type": "text_delta", "text": text} for text in texts]
        block = {"index": 0, "content_block": {"type": "text", "text": ""}}
        said = [{"type": "content_block_delta", "index": 0, "delta": one} for one in deltas]
        start = {"type": "content_block_start", **block}
        answer = [ANTHROPIC[0], start, *said, {"type": "content_block_stop", "index": 0}]
        answer += ANTHROPIC[-2:]
    async with relayed(tmp_path, answer) as (one, _):
        client = socket.socket()
        small_buffers(client)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", one.listener.port))
        reader, writer = await asyncio.open_connection(sock=client, limit=4096)
        body = json.dumps({**BODIES[path], "tools": []}).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {one.host}\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await until(lambda: bool(one.gate.host.running()))
        await until(lambda: not one.gate.host.running())
        got = (await reader.read()).decode()
        writer.close()
    assert [text[:4] for text in texts] == re.findall(r"([0-9]{4}) x{9}", got)
    assert got.rstrip().endswith("0")
    assert ("[DONE]" if path == CHAT else "message_stop") in got


@BOTH
async def test_what_a_plugin_changes_in_a_request_is_sent_as_it_is_now(
    path: str, tmp_path: Path
) -> None:
    if path == CHAT:
        function = {"name": "Read", "arguments": "{}"}
        calls = {"tool_calls": [{"id": "c1", "type": "function", "function": function}]}
        messages: list[Any] = [
            {"role": "assistant", "content": None, **calls},
            {"role": "tool", "tool_call_id": "c1", "content": "of 4222"},
            {"role": "user", "content": "pay with 4111"},
        ]
    else:
        use = {"type": "tool_use", "id": "c1", "name": "Read", "input": {}}
        found = {"type": "tool_result", "tool_use_id": "c1", "content": "of 4222"}
        said = {"type": "text", "text": "pay with 4111"}
        messages = [
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [found, said]},
        ]
    body = {**BODIES[path], "messages": [{"role": "user", "content": "go"}, *messages]}
    async with relayed(tmp_path, ANSWERS[path], plugins=[Reads()]) as (one, upstream):
        # What was read taints, so somebody would be asked about the call in the answer.
        reading = asyncio.create_task(streamed(one, path, body))
        await until(lambda: bool(upstream.requests))
        reading.cancel()
    sent = json.dumps(upstream.requests[0]["messages"])
    assert ("4111" in sent, "4222" in sent, sent.count("[card]")) == (False, False, 2)
