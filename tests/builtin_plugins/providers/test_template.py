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
from hookgate.builtin_plugins.providers.wire import TextTemplate
from hookgate.core.errors import ProviderError
from hookgate.core.models import ModelEvent, StopEvent, TextDelta

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
    assert template.text(b'{"content":"a","delta":{"content":"a"}}') is None


def test_the_known_shape_is_read_without_a_parser() -> None:
    template = TextTemplate(OPENING)
    template.learn(b'{"content": "a"}')
    assert template.text('{"content": "ü b"}'.encode()) == "ü b"
    assert template.text(b'{"content": ""}') == ""
    assert template.text(b'{"content": "\xff"}') is None
    assert template.text(b'{"content": "}') is None
    assert template.text(b"") is None


def test_a_server_that_changes_the_shape_each_time_is_given_up_on() -> None:
    template = TextTemplate(OPENING)
    for number in range(9):
        template.learn(b'{"content": "a", "pad": %d}' % number)
    assert template.text(b'{"content": "a", "pad": 7}') == "a"
    assert template.text(b'{"content": "a", "pad": 8}') is None
