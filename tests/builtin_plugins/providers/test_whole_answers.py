"""Some servers answer in one JSON object although a stream was asked for: it is taken."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

from tests.builtin_plugins.providers.raw import RawServer, Wire
from tests.builtin_plugins.providers.requests_made import request, user
from tests.builtin_plugins.providers.transcripts import chunk, sse

from hookgate.builtin_plugins.providers import remote
from hookgate.core.domain.messages import Opaque
from hookgate.core.domain.models import (
    OpaqueDelta,
    ReasoningDelta,
    StopEvent,
    TextDelta,
    ToolUseEvent,
    Usage,
    UsageEvent,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from hookgate.builtin_plugins.providers.remote import RemoteProvider
    from hookgate.core.domain.models import ModelEvent
    from hookgate.core.domain.turn import Turn

    Make = Callable[..., RemoteProvider]

NO_TURN = cast("Turn", None)


async def answered(server: RawServer, provider: RemoteProvider, body: Any) -> list[ModelEvent]:
    async def script(wire: Wire) -> None:
        data = json.dumps(body).encode()
        await wire.answer(200, data, content_type="application/json; charset=utf-8")

    server.script = script
    said = [event async for event in provider.stream(NO_TURN, request(user("hello")))]
    again = [event async for event in provider.stream(NO_TURN, request(user("hello")))]
    assert len(again) == len(said)
    assert server.connections == 1, "the connection is used again"
    return said


def function(name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


async def test_openai(server: RawServer, made: Make) -> None:
    message = {
        "role": "assistant",
        "content": "I will look.",
        "reasoning_content": "Hm.",
        "tool_calls": [
            function("calculate", '{"expression": "17*23"}', id="a"),
            function("clock", {"zone": "UTC"}),
            function("clock", ""),
        ],
    }
    body = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4},
    }
    said = await answered(server, made("openai", server.url), body)
    assert said[:2] == [ReasoningDelta("Hm."), TextDelta("I will look.")]
    calls = [event for event in said if isinstance(event, ToolUseEvent)]
    assert [(call.name, call.input) for call in calls] == [
        ("calculate", {"expression": "17*23"}),
        ("clock", {"zone": "UTC"}),
        ("clock", {}),
    ]
    assert calls[0].id == "a"
    assert len({call.id for call in calls}) == 3
    assert said[-2:] == [
        UsageEvent(Usage(input_tokens=9, output_tokens=4)),
        StopEvent("tool_use"),
    ]


async def test_anthropic(server: RawServer, made: Make) -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    body = {
        "type": "message",
        "role": "assistant",
        "content": [
            thinking,
            {"type": "text", "text": "I will look."},
            {"type": "tool_use", "id": "t1", "name": "clock", "input": {"zone": "UTC"}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 9, "output_tokens": 4},
    }
    said = await answered(server, made("anthropic", server.url), body)
    assert said == [
        ReasoningDelta("Hm."),
        OpaqueDelta(Opaque(provider="acme", data=thinking)),
        TextDelta("I will look."),
        ToolUseEvent(id="t1", name="clock", input={"zone": "UTC"}),
        UsageEvent(Usage(input_tokens=9, output_tokens=4)),
        StopEvent("tool_use"),
    ]


async def test_a_stop_without_a_reason_is_another_one(server: RawServer, made: Make) -> None:
    body = {"choices": [{"message": {"content": "ok"}}]}
    said = await answered(server, made("openai", server.url), body)
    assert said == [TextDelta("ok"), StopEvent("other")]


async def test_pieces_that_nobody_waits_for_come_together(
    server: RawServer, made: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "GATHER_SECONDS", 3600)
    began = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.chunks(sse(chunk({"content": "one "})), end=False)
        await began.wait()
        for piece in ("two ", "three"):
            data = sse(chunk({"content": piece}))
            await wire.raw(b"%x\r\n%b\r\n" % (len(data), data))
        data = sse(chunk({}, "stop"), "[DONE]")
        await wire.raw(b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data))

    server.script = script
    said: list[ModelEvent] = []
    provider = made("openai", server.url)
    async for event in provider.stream(NO_TURN, request(user("hello"), whole=True)):
        said.append(event)  # what has come is told of while it comes
        began.set()
    assert said == [TextDelta("one "), TextDelta("two three"), StopEvent("end")]
