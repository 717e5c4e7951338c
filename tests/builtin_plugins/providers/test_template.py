"""The short way of reading an event says what parsing it says, or nothing."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.builtin_plugins.providers.transcripts import chunk

from hookgate.builtin_plugins.providers.anthropic import AnthropicReader
from hookgate.builtin_plugins.providers.openai import OpenAIReader
from hookgate.builtin_plugins.providers.wire.protocol import SSESplitter
from hookgate.builtin_plugins.providers.wire.template import TRIES, TextTemplate
from hookgate.core.domain.errors import ProviderError
from hookgate.core.domain.models import ModelEvent, StopEvent, TextDelta

OPENING = re.compile(rb'"content": ?"')


def openai(text: Any) -> Any:
    return chunk({"content": text})


def anthropic(text: Any) -> Any:
    delta = {"type": "text_delta", "text": text}
    return {"type": "content_block_delta", "index": 0, "delta": delta}


def fresh(make: Any, data: bytes) -> Any:
    """Return what a reader says that has seen nothing before."""
    reader = OpenAIReader("acme", str) if make is openai else AnthropicReader("acme", str)
    try:
        return list(reader.read(data))
    except ProviderError as error:
        return error.kind


@pytest.mark.parametrize("make", [openai, anthropic])
@given(
    texts=st.lists(
        st.text(max_size=8) | st.sampled_from(['"', "\\", "\n", '","x":"', "\u2028", "😀", "\x7f"]),
        min_size=2,
        max_size=6,
    ),
    ascii_only=st.booleans(),
    spaces=st.booleans(),
)
def test_a_reader_that_knows_the_shape_says_what_a_fresh_one_says(
    make: Any, texts: list[str], ascii_only: bool, spaces: bool
) -> None:
    reader = OpenAIReader("acme", str) if make is openai else AnthropicReader("acme", str)
    for text in ["one", *texts]:
        separators = (", ", ": ") if spaces else (",", ":")
        raw = json.dumps(make(text), ensure_ascii=ascii_only, separators=separators)
        try:
            data = raw.encode()
        except UnicodeEncodeError:
            continue
        assert list(reader.read(data)) == fresh(make, data)


@pytest.mark.parametrize("make", [openai, anthropic])
@given(raw=st.binary(max_size=12) | st.sampled_from([b'"', b"\\", b'\\"', b'a","b":"', b"\t"]))
@example(raw=b'x","finish_reason":"stop","y":"')
def test_no_bytes_in_the_place_of_the_text_are_read_as_other_than_they_parse(
    make: Any, raw: bytes
) -> None:
    reader = OpenAIReader("acme", str) if make is openai else AnthropicReader("acme", str)
    learnt = orjson.dumps(make("MARK"))
    reader.read(learnt)
    data = learnt.replace(b"MARK", raw)
    try:
        said: Any = list(reader.read(data))
    except ProviderError as error:
        said = error.kind
    assert said == fresh(make, data)


def test_an_event_with_more_than_text_in_it_is_parsed() -> None:
    reader = OpenAIReader("acme", str)
    said: list[ModelEvent] = []
    for event in (openai("a"), openai("b"), chunk({"content": "c"}, "stop")):
        said.extend(reader.read(orjson.dumps(event)))
    said.extend(reader.end())
    assert said == [TextDelta("a"), TextDelta("b"), TextDelta("c"), StopEvent("end")]


def test_a_shape_with_the_text_in_two_places_is_not_learnt() -> None:
    template = TextTemplate(OPENING)
    template.learn(b'{"content":"a","delta":{"content":"a"}}')
    assert template.text_of_event(b'{"content":"a","delta":{"content":"a"}}') is None


def test_the_known_shape_is_read_without_a_parser() -> None:
    template = TextTemplate(OPENING)
    template.learn(b'{"content": "a"}')
    assert template.text_of_event('{"content": "ü b"}'.encode()) == "ü b"
    assert template.text_of_event(b'{"content": ""}') == ""
    assert template.text_of_event(b'{"content": "\xff"}') is None
    assert template.text_of_event(b'{"content": "}') is None
    assert template.text_of_event(b"") is None


def test_a_server_that_changes_the_shape_each_time_is_given_up_on() -> None:
    template = TextTemplate(OPENING)
    for number in range(TRIES + 1):
        template.learn(b'{"content": "a", "pad": %d}' % number)
    assert template.text_of_event(b'{"content": "a", "pad": %d}' % (TRIES - 1)) == "a"
    assert template.text_of_event(b'{"content": "a", "pad": %d}' % TRIES) is None


# -- chunks --------------------------------------------------------------------


def known(frame: bytes = b"data: ") -> TextTemplate:
    template = TextTemplate(OPENING)
    template.learn(b'{"content":"a"}')
    template.learn_chunk(frame + b'{"content":"a"}\n\n', [b'{"content":"a"}'])
    return template


@pytest.mark.parametrize("frame", [b"data: ", b"event: x\ndata: ", b": hi\nid: 1\ndata: "])
def test_a_chunk_of_one_known_event_is_read_with_its_frame(frame: bytes) -> None:
    assert known(frame).text_of_chunk(frame + b'{"content":"b c"}\n\n') == "b c"


@pytest.mark.parametrize(
    "chunk",
    [
        b'data: {"content":"b"}\n',
        b'data: {"content":"b"}\n\ndata: {"content":"c"}\n\n',
        b'data: {"content":"b\n\ndata: c"}\n\n',
        b'data: {"content":"b\r"}\n\n',
        b'data: {"content":"b"}\r\n\r\n',
        b'x: {"content":"b"}\n\n',
        b'data: {"content":"b","x":1}\n\n',
        b"data: [DONE]\n\n",
        b"",
    ],
)
def test_any_other_chunk_is_left_to_the_splitter(chunk: bytes) -> None:
    assert known().text_of_chunk(chunk) is None


@pytest.mark.parametrize(
    "chunk",
    [
        b'data:{"content":"a"}\n\n',
        b'data: {"content":"a"}\r\n\r\n',
        b'event: x\r\ndata: {"content":"a"}\n\n',
        b'data: {"content":"a"}\n\n: ping\n\n',
    ],
)
def test_a_frame_that_could_be_torn_is_not_learnt(chunk: bytes) -> None:
    template = TextTemplate(OPENING)
    template.learn(b'{"content":"a"}')
    template.learn_chunk(chunk, [b'{"content":"a"}'])
    assert template.text_of_chunk(chunk) is None


@given(
    st.lists(
        st.sampled_from(
            [
                b'data: {"content":"a"}\n\n',
                b'data: {"content":"b"}\n\n',
                b'event: x\ndata: {"content":"c"}\n\n',
                b'data: {"content":"d"}\n',
                b'data: {"content"',
                b':"e"}\n\n',
                b": ping\n\n",
                b"\r",
                b"\n",
                b'data: {"content":"f"}\r\n\r\n',
            ]
        ),
        max_size=12,
    )
)
def test_the_short_way_and_the_splitter_agree_on_any_chunks(chunks: list[bytes]) -> None:
    def plain() -> list[str]:
        splitter = SSESplitter()
        return [text_in(data) for piece in chunks for data in splitter.feed(piece)]

    def short() -> list[str]:
        splitter, template, said = SSESplitter(), TextTemplate(OPENING), []
        for piece in chunks:
            between = splitter.between
            if between and (text := template.text_of_chunk(piece)) is not None:
                said.append(text)
                continue
            events = splitter.feed(piece)
            for data in events:
                said.append(text_in(data))
                if said[-1]:
                    template.learn(data)
            if between and splitter.between and len(events) == 1:
                template.learn_chunk(piece, events)
        return said

    assert short() == plain()


def text_in(data: bytes) -> str:
    try:
        return str(orjson.loads(data)["content"])
    except orjson.JSONDecodeError:
        return ""
