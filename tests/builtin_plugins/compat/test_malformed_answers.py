"""Upstreams that do not keep to their protocol, as a client of the same wire hears of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, cast

import orjson
import pytest
from tests.builtin_plugins.compat.bodies import Ended, chat, messages, told
from tests.builtin_plugins.compat.test_messages_writer import START, begun, called, ended, said
from tests.builtin_plugins.compat.test_messages_writer import stopped as messages_ended
from tests.builtin_plugins.providers.test_responses import RESPONSES
from tests.builtin_plugins.providers.transcripts import OPENAI, chunk

from hookgate import ProviderError, Turn
from hookgate.builtin_plugins.compat.fields import Asked
from hookgate.builtin_plugins.compat.guard import CHAT, MESSAGES
from hookgate.builtin_plugins.compat.guard import RESPONSES as RESPONSES_WIRE
from hookgate.builtin_plugins.compat.wires import chat_reader, messages_reader, responses_reader
from hookgate.builtin_plugins.providers.frames import FRAMES

NOTE = {"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "x"}}
SIGNED = {"type": "signature_delta", "signature": "s"}
ANTHROPIC = [
    START,
    begun(0, type="thinking", thinking="", signature=""),
    {"type": "content_block_delta", "index": 0, "delta": SIGNED},
    ended(0),
    begun(1, type="text", text="", citations=[]),
    said(1, "It is "),
    {"type": "content_block_delta", "index": 1, "delta": NOTE},
    ended(1),
    *called(2, "t"),
    *messages_ended("tool_use"),
]
OUTPUT = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
PART = {"type": "output_text", "text": "", "annotations": []}
MORE = [
    {"type": "response.content_part.added", **OUTPUT, "part": PART},
    {"type": "response.output_text.done", **OUTPUT, "text": "Zürich 😀 and on"},
    {"type": "response.content_part.done", **OUTPUT, "part": PART},
]
LIKELY = chunk({"content": "so", "annotations": [], "reasoning_content": None})
LIKELY["choices"][0] |= {"logprobs": {"content": [{"token": "so", "logprob": -1.0}]}}
REASONED = chunk({"reasoning_details": [{"text": "Hm.", "index": 0}], "refusal": None})
STREAMS: dict[str, tuple[Any, Asked, Sequence[Any]]] = {
    "chat": (CHAT, chat_reader.read(chat()), [OPENAI[0], REASONED, LIKELY, *OPENAI[1:-1]]),
    "messages": (MESSAGES, messages_reader.read(messages()), ANTHROPIC),
    "responses": (
        RESPONSES_WIRE,
        responses_reader.read({"model": "m", "input": "hi"}),
        [*RESPONSES[:8], *MORE, *RESPONSES[8:]],
    ),
}
GONE = object()
ODD = (GONE, None, True, 3, -1e20, "x", [], {}, [None], {"type": []})


def places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths to all that stands in an event."""
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    for key, one in inner:
        yield (*before, key)
        yield from places(one, (*before, key))


def changed(event: Any, place: tuple[Any, ...], odd: Any) -> Any:
    made = deepcopy(event)
    holder = made
    for key in place[:-1]:
        holder = holder[key]
    if odd is GONE:
        del holder[place[-1]]
    else:
        holder[place[-1]] = odd
    return made


def answer(wire: Any, asked: Asked, stream: Sequence[Any]) -> dict[str, Any]:
    """Return the answer that a client makes of what the gateway tells of a stream."""
    reader = FRAMES[asked.wire]("acme", lambda _: None)
    writer = wire.writer(asked)
    frames = []
    for event in stream:
        for one in reader.read(orjson.dumps(event)):
            if (event_of := told(one)) is not None:
                frames += writer.take(event_of)
    return cast("dict[str, Any]", wire.fold([*frames, *writer.end(cast("Turn", Ended()))]))


@pytest.mark.parametrize("name", STREAMS)
def test_what_keeps_to_no_protocol_is_an_answer_or_the_providers_error(name: str) -> None:
    wire, asked, stream = STREAMS[name]
    refused = answered = 0
    for at, event in enumerate(stream):
        streams = [[*stream[:at], *stream[at + 1 :]], [*stream[: at + 1], *stream[at:]]]
        streams += [
            [*stream[:at], changed(event, place, odd), *stream[at + 1 :]]
            for place in places(event)
            for odd in ODD
        ]
        for one in streams:
            try:
                assert answer(wire, asked, one)["model"] == "m", one
                answered += 1
            except ProviderError as error:
                assert error.kind in ("malformed", "cut", "server"), one
                refused += 1
    assert min(refused, answered) > 20
