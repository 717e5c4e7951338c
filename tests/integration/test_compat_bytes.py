"""An answer split or cut anywhere on its way: a client reads the same, or one failure."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, cast

import httpx
import pytest
from tests.builtin_plugins.compat.bodies import Ended
from tests.clients.faults import FRAMES, WIRES, body
from tests.clients.upstream import Call, Say, Think
from tests.support.examples import sampled

from hookgate import (
    ErrorAnswer,
    Event,
    Frame,
    ModelEvent,
    ModelRef,
    ModelRequest,
    OpaqueDelta,
    ProviderError,
    ReasoningDelta,
    StopEvent,
    TextDelta,
    ToolUseEvent,
    Turn,
)
from hookgate.builtin_plugins.compat.wires import (
    chat_reader,
    chat_writer,
    messages_reader,
    messages_writer,
    responses_reader,
    responses_writer,
)
from hookgate.builtin_plugins.providers.anthropic import AnthropicWire
from hookgate.builtin_plugins.providers.openai import OpenAIWire
from hookgate.builtin_plugins.providers.remote import RemoteProvider
from hookgate.builtin_plugins.providers.responses import ResponsesWire
from hookgate.builtin_plugins.providers.settings import ProviderSettings
from hookgate.wire import Raw

READERS = {"chat": chat_reader, "messages": messages_reader, "responses": responses_reader}
PROVIDERS: dict[str, Any] = {
    "chat": OpenAIWire("acme", "http://acme.test/v1", None),
    "messages": AnthropicWire("acme", "http://acme.test", None),
    "responses": ResponsesWire("acme", "http://acme.test/v1", None),
}
NO_TURN = cast("Turn", None)
SAID = [
    Think("Hm, hm."),
    Say("Zürich – 日本\u2028語 😀."),
    Call("weather", {"place": "Zürich"}),
    Call("weather", {"place": "Oslo"}),
]
ENDS = {
    "chat": ("[DONE]", "error"),
    "messages": ("message_stop", "error"),
    "responses": ("response.completed", "response.failed"),
}


def stream_of(wire: str) -> bytes:
    """Return an answer with thoughts, words and calls, in bytes that are no ASCII too."""
    told = b"".join(FRAMES[wire]("m", 1, SAID))
    return b"\n".join(
        b"data: " + json.dumps(json.loads(line[6:]), ensure_ascii=False).encode()
        if line.startswith(b"data: {")
        else line
        for line in told.split(b"\n")
    )


class Pieces(httpx.AsyncByteStream):
    """A body that comes in these pieces."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


class Client:
    """What a wire's client is sent of an upstream's bytes."""

    def __init__(self, wire: str) -> None:
        self.wire = wire
        self.pieces: Sequence[bytes] = ()
        transport = httpx.MockTransport(
            lambda _: httpx.Response(
                200, headers={"content-type": "text/event-stream"}, stream=Pieces(self.pieces)
            )
        )
        kind = "anthropic" if wire == "messages" else "openai"
        self._provider = RemoteProvider(
            "acme",
            ProviderSettings.model_validate({"kind": kind}),
            PROVIDERS[wire],
            httpx.AsyncClient(transport=transport),
            models=(),
            redact=str,
            complain=print,
        )
        self.asked = READERS[wire].read(body(wire, "m", stream=True))
        self._request = ModelRequest(
            model=ModelRef("acme", "m"),
            messages=self.asked.messages,
            tools=self.asked.tools,
            raw=Raw(wire=self.asked.wire, data=self.asked.body),
        )

    def _writer(self) -> Any:
        if self.wire == "chat":
            return chat_writer.ChatWriter("m", usage=True)
        if self.wire == "messages":
            return messages_writer.MessagesWriter("m")
        return responses_writer.ResponsesWriter(self.asked)

    async def sent(self, *pieces: bytes) -> list[Any]:
        """Return the frames that it gets of an answer in these pieces."""
        self.pieces = pieces
        writer, frames = self._writer(), []
        try:
            async for event in self._provider.stream(NO_TURN, self._request):
                for told in events_of(event):
                    frames += writer.take(told)
        except ProviderError as error:
            data = {"code": error.code, "kind": error.kind}
            answer = ErrorAnswer(number=-32000, message=str(error), data=data, status=502)
            return [*frames, *writer.fail(answer, "req_1")]
        frames += writer.end(cast("Turn", Ended(usage=None)))
        return [*frames, "[DONE]"] if self.wire == "chat" else frames


def events_of(event: ModelEvent) -> Iterable[Event]:
    """Yield what whoever has started a turn is told, where each call may run."""
    match event:
        case TextDelta(text):
            yield Event("text", {"text": text}, value=event)
        case ReasoningDelta(text):
            yield Event("reasoning", {"text": text}, value=event)
        case ToolUseEvent():
            data = {"id": event.id, "name": event.name, "input": event.input, "owner": "client"}
            yield Event("tool_use", data, value=event)
        case OpaqueDelta():
            yield Event("opaque", {}, value=event)
        case StopEvent():
            yield Event("stop", {"reason": event.reason}, value=event)
        case Frame():
            yield Event("frame", {}, value=event)


def ends_of(wire: str, frames: Sequence[Any]) -> list[str]:
    """Return what ends an answer."""
    found = []
    for frame in frames:
        kind = frame if isinstance(frame, str) else str(frame.get("type", ""))
        if isinstance(frame, dict) and "error" in frame and wire == "chat":
            kind = "error"
        if kind in ENDS[wire]:
            found.append(kind)
    return found


def calls_in(frames: Sequence[Any]) -> int:
    """Return how many pieces of calls frames hold."""
    return sum("weather" in json.dumps(frame) for frame in frames)


PARTS = 16
PART = pytest.mark.parametrize("part", sampled(range(PARTS), every=PARTS))
WIRE = pytest.mark.parametrize("wire", WIRES)


def alike(frames: Sequence[Any]) -> str:
    """Return frames without what is made anew for each answer."""
    return NEW.sub("", json.dumps(frames))


NEW = re.compile(
    r'"(?:id|item_id|created|created_at)": (?:"(?:chatcmpl|msg|resp|fc|rs)[-_][^"]*"|\d+),? ?'
)


@PART
@WIRE
async def test_an_answer_split_at_any_byte_reads_the_same(wire: str, part: int) -> None:
    client, stream = Client(wire), stream_of(wire)
    whole = await client.sent(stream)
    assert (ends_of(wire, whole), calls_in(whole) > 0) == ([ENDS[wire][0]], True)
    for at in range(1 + part, len(stream), PARTS):
        assert alike(await client.sent(stream[:at], stream[at:])) == alike(whole), at
    if part == 0:
        singly = await client.sent(*(bytes([byte]) for byte in stream))
        assert alike(singly) == alike(whole)


@PART
@WIRE
async def test_an_answer_cut_at_any_byte_ends_once_and_leaves_no_call(wire: str, part: int) -> None:
    client, stream = Client(wire), stream_of(wire)
    whole = await client.sent(stream)
    ended = 0
    for at in range(1 + part, len(stream), PARTS):
        frames = await client.sent(stream[:at])
        good, failed = ENDS[wire]
        (end,) = ends_of(wire, frames)
        if end == good:
            # Nothing but the end was missing.
            ended += 1
            assert calls_in(frames) == calls_in(whole), at
        else:
            assert end == failed, at
    assert ended < 100
