"""Blocks beside a message, as each wire sends them: legal, and behind what a cache knows."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from tests.builtin_plugins.providers.requests_made import CLOCK, assistant, request, results, user

from hookgate.builtin_plugins.providers.anthropic import AnthropicWire
from hookgate.builtin_plugins.providers.openai import OpenAIWire
from hookgate.builtin_plugins.providers.responses import ResponsesWire
from hookgate.core.domain.messages import Message, Opaque, ToolResultPart, ToolUse
from hookgate.core.domain.models import BETWEEN, ModelRequest
from hookgate.core.domain.parts import Image, Text

CHAT = OpenAIWire("acme", "https://api.example/v1", None)
RESPONSES = ResponsesWire("acme", "https://api.example/v1", None)
MESSAGES = AnthropicWire("acme", "https://api.example/v1", None)
PICTURE = Image(media_type="image/png", data="iVBORw0KGgo=")
USE = ToolUse(id="c", name="clock", input={})
RESULT = results(ToolResultPart(tool_use_id="c", content="noon"))
BESIDE = user(
    Text("It rains." + BETWEEN, "acme/recall"), Text("Use a clock." + BETWEEN, "acme/tiers/found")
)
MARK = {"cache_control": {"type": "ephemeral"}}


def of(turn: str, *messages: Message) -> list[Message]:
    return [replace(message, turn=turn) for message in messages]


BEFORE = of("1", user("hello"), assistant("hi"))
SAID = request(*BEFORE, *of("2", BESIDE, user("and now?")), tools=(CLOCK,))
SEEN = request(*BEFORE, *of("2", BESIDE, user("what is it?", PICTURE)))
CALLED = request(
    *BEFORE, *of("2", BESIDE, user("and now?"), assistant(USE), RESULT, BESIDE), iteration=1
)
BROUGHT = request(*of("1", user("go"), assistant(USE)), *of("2", RESULT, BESIDE, user("well?")))
ALONE = request(*of("1", user("go"), assistant(USE)), *of("2", RESULT, BESIDE))
EVERY = (SAID, SEEN, CALLED, BROUGHT, ALONE)


def roles(body: Any) -> list[str]:
    return [message["role"] for message in body["messages"]]


@pytest.mark.parametrize("asked", EVERY)
def test_roles_take_turns(asked: ModelRequest) -> None:
    assert all(one != other for one, other in pairwise(roles(CHAT.body(asked))))
    assert all(one != other for one, other in pairwise(roles(MESSAGES.body(asked))))


def test_blocks_and_message_are_one_text_of_chat_and_none_runs_into_the_other() -> None:
    body = CHAT.body(SAID)
    assert body["messages"][-1] == {
        "role": "user",
        "content": "It rains.\n\nUse a clock.\n\nand now?",
    }
    (*_, blocks, said, picture) = CHAT.body(SEEN)["messages"][-1]["content"]
    assert [blocks["text"], said["text"]] == ["Use a clock.\n\n", "what is it?"]
    assert picture["type"] == "image_url"


def test_results_stand_behind_their_calls_and_blocks_behind_results() -> None:
    assert roles(CHAT.body(CALLED)) == [*("user", "assistant", "user", "assistant", "tool", "user")]
    kinds = [block["type"] for block in MESSAGES.body(BROUGHT)["messages"][-1]["content"]]
    assert kinds == ["tool_result", "text", "text", "text"]
    items = [item["type"] for item in RESPONSES.body(CALLED)["input"]]
    assert items == [
        *("message", "message", "message", "message"),
        *("function_call", "function_call_output", "message"),
    ]


@pytest.mark.parametrize("asked", EVERY)
def test_the_history_is_sent_as_the_turn_before_sent_it(asked: ModelRequest) -> None:
    bare = replace(asked, messages=tuple(one for one in asked.messages if not one.is_context))
    for wire, field in ((CHAT, "messages"), (RESPONSES, "input"), (MESSAGES, "messages")):
        known = len([one for one in asked.messages if one.turn == "1"])
        first, second = (unmarked(wire.body(one)[field])[:known] for one in (asked, bare))
        assert first == second


def unmarked(messages: Any) -> Any:
    if isinstance(messages, list):
        return [unmarked(one) for one in messages]
    if isinstance(messages, dict):
        return {key: unmarked(one) for key, one in messages.items() if key != "cache_control"}
    return messages


def marked(asked: ModelRequest) -> list[tuple[int, int]]:
    return [
        (place, number)
        for place, message in enumerate(MESSAGES.body(asked)["messages"])
        for number, block in enumerate(message["content"])
        if "cache_control" in block
    ]


def test_the_cache_ends_behind_the_history_and_behind_a_request_that_goes_on() -> None:
    assert marked(SAID) == [(1, 0), (2, 2)]
    assert marked(CALLED) == [(1, 0), (4, 2)]
    assert MESSAGES.body(SAID)["messages"][1]["content"][0] == {
        "type": "text",
        "text": "hi",
        **MARK,
    }


def test_a_request_with_no_history_and_one_that_a_plugin_makes_mark_none() -> None:
    assert marked(request(*of("1", BESIDE, user("go")))) == []
    assert marked(request(user("go"), assistant("well"), user("again"))) == []


def test_what_a_cache_cannot_end_behind_is_not_marked() -> None:
    thinking = Opaque(provider="acme", data={"type": "thinking", "thinking": "x", "signature": "s"})
    asked = request(*of("1", user("hello"), assistant(thinking)), *of("2", user("go")))
    assert marked(asked) == [(2, 0)]


@pytest.mark.parametrize("wire", [CHAT, RESPONSES, MESSAGES])
def test_a_picture_that_is_none_is_a_note_and_costs_the_conversation_nothing(wire: Any) -> None:
    broken = Image(media_type="image/png", data="aGVsbG8=")
    shown = ToolResultPart(tool_use_id="c", content=(broken,))
    for asked in (
        request(user("what is it?", broken)),
        request(user("go"), assistant(USE), results(shown)),
    ):
        sent = json.dumps(wire.body(asked))
        assert broken.data not in sent
        assert "image/png, 5 bytes" in sent


@pytest.mark.parametrize("wire", [CHAT, RESPONSES, MESSAGES])
def test_a_picture_is_sent_under_the_type_that_its_data_has(wire: Any) -> None:
    jpeg = Image(media_type="image/png", data="/9j/4AAQ")
    sent = json.dumps(wire.body(request(user("what is it?", jpeg))))
    assert "image/jpeg" in sent
    assert "image/png" not in sent
