"""What parts came as: carried by the very part, and lost by whoever changes it."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import pytest

from hookgate import (
    Audio,
    Document,
    Frame,
    Image,
    Link,
    Message,
    ModelParameters,
    ModelRef,
    ModelRequest,
    Opaque,
    OpaqueDelta,
    ReasoningDelta,
    StopEvent,
    SystemText,
    Text,
    TextDelta,
    Tool,
    ToolResultPart,
    ToolUse,
    ToolUseEvent,
    Usage,
    UsageEvent,
)
from hookgate.core.domain.messages import PART_FORMS
from hookgate.wire import Raw, WirePart, came_as, wrong_in_content

RAW = Raw(wire="anthropic-messages", data={"type": "text", "text": "hi", "new_field": 1})

MADE: list[WirePart] = [
    Text("hi"),
    Image(media_type="image/png", data="aGk="),
    Audio(media_type="audio/wav", data="aGk="),
    Document(media_type="text/plain", data="aGk=", name="a"),
    Link(uri="https://a.test"),
    ToolUse(id="a", name="b", input={}),
    ToolResultPart(tool_use_id="a", content="b"),
    Opaque(provider="a", data={}),
    Message(role="user", parts=(Text("hi"),)),
    SystemText(text="hi"),
    Tool(name="a", description="b", schema={"type": "object"}),
    TextDelta("hi"),
    ReasoningDelta("hi"),
    ToolUseEvent(id="a", name="b", input={}),
    OpaqueDelta(Opaque(provider="a", data={})),
    UsageEvent(Usage(input_tokens=1)),
    StopEvent("end"),
]


def named(part: object) -> str:
    return type(part).__name__


@pytest.mark.parametrize("part", MADE, ids=named)
def test_a_part_carries_what_it_came_as_and_is_the_same_part(part: Any) -> None:
    plain, carrying = copy.copy(part), came_as(copy.copy(part), RAW)

    assert part.raw is None
    assert carrying.raw is RAW
    assert carrying == plain
    assert repr(carrying) == repr(plain)


@pytest.mark.parametrize("part", MADE, ids=named)
def test_whoever_makes_another_part_makes_one_without(part: Any) -> None:
    carrying = came_as(copy.copy(part), RAW)

    assert replace(carrying).raw is None
    assert copy.copy(carrying).raw is None
    assert copy.deepcopy(carrying).raw is None
    assert pickle.loads(pickle.dumps(carrying)).raw is None


def test_nothing_of_it_is_stored() -> None:
    text = came_as(Text("hi"), RAW)
    message = came_as(Message(role="user", parts=(text,)), RAW)

    read = Message.from_json(message.to_json())

    assert "new_field" not in str(message.to_json())
    assert PART_FORMS.to_json(text) == {"type": "text", "text": "hi"}
    assert (read.raw, read.parts[0].raw) == (None, None)
    assert wrong_in_content((text,)) == ""


def test_a_message_whose_texts_are_changed_loses_what_it_came_as() -> None:
    text = came_as(Text("hi"), RAW)
    message = came_as(Message(role="user", parts=(text,)), RAW)

    changed = message.with_texts(str.upper)

    assert (changed.raw, changed.parts[0].raw) == (None, None)


def test_a_request_keeps_its_body_whatever_a_plugin_changes_of_it() -> None:
    body = Raw(wire="openai-chat", data={"model": "m", "new_field": 3})
    request = ModelRequest(model=ModelRef("a", "b"), raw=body)

    changed = replace(request, temperature=0.5, baseline=request)

    assert changed.raw is body
    assert changed.baseline is request
    assert "new_field" not in repr(changed)


def test_a_frame_is_shown_without_what_stands_in_it() -> None:
    assert "new_field" not in repr(Frame(RAW))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"top_p": 1.5}, "top_p 1.5"),
        ({"top_k": 0}, "top_k 0"),
        ({"top_logprobs": -1}, "top_logprobs -1"),
        ({"frequency_penalty": float("nan")}, "frequency_penalty nan"),
        ({"presence_penalty": float("inf")}, "presence_penalty inf"),
        ({"response_format": "yaml"}, "response_format 'yaml'"),
    ],
)
def test_parameters_that_mean_nothing_are_named(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        ModelParameters(**wrong)
