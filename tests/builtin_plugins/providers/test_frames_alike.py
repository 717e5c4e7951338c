"""Frames that differ in a text alone are read, and kept, without being parsed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.builtin_plugins.providers.transcripts import chunk

from hookgate import ModelEvent, TextDelta
from hookgate.builtin_plugins.providers.frames import FRAMES, joined
from hookgate.builtin_plugins.providers.wire.protocol import SSESplitter
from hookgate.wire import TextFrames

CHAT, MESSAGES = "openai-chat", "anthropic-messages"


def chat(text: Any) -> Any:
    return chunk({"content": text})


def messages(text: Any) -> Any:
    delta = {"type": "text_delta", "text": text}
    return {"type": "content_block_delta", "index": 0, "delta": delta}


MADE = {CHAT: chat, MESSAGES: messages}


def told(events: Sequence[ModelEvent]) -> tuple[str, list[Any]]:
    """Return all the text, and all the frames, in order."""
    frames: list[Any] = []
    for event in events:
        raw: Any = getattr(event, "raw", None)
        frames += raw.data if isinstance(raw.data, list) else [raw.data]
    return "".join(one.text for one in events if isinstance(one, TextDelta)), frames


def relayed(wire: str, chunks: Sequence[bytes]) -> list[ModelEvent]:
    """Read chunks as the relay does."""
    reader, splitter = FRAMES[wire]("acme", str), SSESplitter()
    frames = reader.frames
    assert frames is not None
    said: list[ModelEvent] = []
    splitter.feed(b": begins\n\n")
    for each in chunks:
        between = splitter.between
        if between and (piece := frames.said_by(each)) is not None:
            said.append(piece)
            continue
        events = splitter.feed(each)
        said += joined(reader, events)
        if between and splitter.between and events:
            frames.learn_chunk(each, events)
    return said


HARD = ['"', "\\", "\n", '","text":"', '"}}\n\ndata: ', "\u2028", "😀", "\x7f", "é"]


@pytest.mark.parametrize("wire", [CHAT, MESSAGES])
@given(
    texts=st.lists(st.text(min_size=1, max_size=8) | st.sampled_from(HARD), max_size=8),
    ascii_only=st.booleans(),
    spaces=st.booleans(),
    named=st.booleans(),
    sizes=st.lists(st.integers(1, 3), min_size=1),
)
@example(texts=HARD, ascii_only=True, spaces=False, named=True, sizes=[1])
@example(texts=HARD, ascii_only=False, spaces=True, named=False, sizes=[3])
def test_nothing_of_an_answer_is_read_or_kept_otherwise(
    wire: str, texts: list[str], ascii_only: bool, spaces: bool, named: bool, sizes: list[int]
) -> None:
    frames = [MADE[wire](text) for text in ("one", *texts, "two", "three")]
    separators = (", ", ": ") if spaces else (",", ":")
    head = "event: content_block_delta\n" if named else ""
    events = [
        f"{head}data: {json.dumps(one, ensure_ascii=ascii_only, separators=separators)}\n\n"
        for one in frames
    ]
    chunks: list[bytes] = []
    while events:
        size = sizes[len(chunks) % len(sizes)]
        chunks.append("".join(events[:size]).encode())
        del events[:size]
    assert told(relayed(wire, chunks)) == ("".join(["one", *texts, "two", "three"]), frames)


@pytest.mark.parametrize("wire", [CHAT, MESSAGES])
def test_what_came_together_is_one_piece_that_was_not_parsed(wire: str) -> None:
    events = [b"data: " + orjson.dumps(MADE[wire](text)) + b"\n\n" for text in "abcd\n"]
    first, rest = relayed(wire, [events[0], b"".join(events[1:])])
    assert isinstance(rest, TextDelta)
    assert rest.text == "bcd\n"
    assert type(rest.raw) is TextFrames
    assert rest.raw.texts == [b"b", b"c", b"d", b"\\n"]
    assert type(first.raw) is not TextFrames  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\"}}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\xff"}}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\ud800"}}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\nb"}}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a",'
        b'"text":"b"}}',
        b'{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a"}}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"},"x":1}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}',
    ],
)
def test_what_is_no_text_in_that_shape_is_read_whole(data: bytes) -> None:
    reader = FRAMES[MESSAGES]("acme", str)
    assert reader.frames is not None
    for text in ("one", "two"):
        known = b"event: e\ndata: " + orjson.dumps(messages(text)) + b"\n\n"
        list(joined(reader, [orjson.dumps(messages(text))]))
    reader.frames.learn_chunk(known, [orjson.dumps(messages("two"))])
    assert reader.frames.said_by(known) is not None
    assert reader.frames.run([data], 0) == []
    assert reader.frames.said_by(b"event: e\ndata: " + data + b"\n\n") is None


def test_a_shape_in_which_two_fields_say_the_text_is_not_learnt() -> None:
    reader = FRAMES[MESSAGES]("acme", str)
    twice = (
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta",'
        b'"text":"seen","\\u0074ext":"%b"}}'
    )
    (event,) = joined(reader, [twice % b"read"])
    assert isinstance(event, TextDelta)
    assert event.text == "read"
    assert reader.frames is not None
    assert reader.frames.run([twice % b"more"], 0) == []
