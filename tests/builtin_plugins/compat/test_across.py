"""What a client of one wire asks, as an upstream of each wire is sent it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hookgate import ModelRef, ModelRequest
from hookgate.builtin_plugins.compat.wires import chat_reader, messages_reader, responses_reader
from hookgate.builtin_plugins.providers.anthropic import AnthropicWire
from hookgate.builtin_plugins.providers.openai import OpenAIWire
from hookgate.builtin_plugins.providers.responses import ResponsesWire

READERS: dict[str, Any] = {
    "chat": chat_reader.read,
    "messages": messages_reader.read,
    "responses": responses_reader.read,
}
WIRES: dict[str, Any] = {"chat": OpenAIWire, "messages": AnthropicWire, "responses": ResponsesWire}
EACH_TO_EACH = [
    pytest.mark.parametrize("wire", READERS),
    pytest.mark.parametrize("upstream", WIRES),
]
BEGUN = "The answer is"
SAID = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": BEGUN}]


def sent(wire: str, upstream: str, **body: Any) -> dict[str, Any]:
    """Return what an upstream of one wire is asked for a client of another."""
    messages = {"input": SAID} if wire == "responses" else {"messages": SAID}
    limit = {"max_tokens": 9} if wire == "messages" else {}
    asked = READERS[wire]({"model": "m", **messages, **limit, **body})
    request = ModelRequest(
        model=ModelRef("acme", "m"),
        system=asked.system,
        messages=asked.messages,
        tools=asked.tools,
        max_output_tokens=9,
        stop=asked.parameters.stop,
        parameters=asked.parameters,
    )
    made: dict[str, Any] = WIRES[upstream]("acme", "http://acme", None).body(request)
    return json.loads(json.dumps(made))  # type: ignore[no-any-return]


@EACH_TO_EACH[0]
@EACH_TO_EACH[1]
def test_a_beginning_of_the_answer_is_the_last_message_on_each_wire(
    wire: str, upstream: str
) -> None:
    made = sent(wire, upstream)
    last = made["input" if upstream == "responses" else "messages"][-1]
    assert last["role"] == "assistant"
    text = last["content"] if isinstance(last["content"], str) else last["content"][0]["text"]
    assert text == BEGUN


@pytest.mark.parametrize("wire", ["chat", "messages"])
def test_stop_sequences_are_what_each_wire_calls_them(wire: str) -> None:
    named = "stop" if wire == "chat" else "stop_sequences"
    assert sent(wire, "chat", **{named: ["X", "Y"]})["stop"] == ["X", "Y"]
    assert sent(wire, "messages", **{named: ["X", "Y"]})["stop_sequences"] == ["X", "Y"]


ASKS_NOTHING = {
    "chat": {
        "frequency_penalty": 0,
        "presence_penalty": 0.0,
        "logprobs": False,
        "logit_bias": {},
        "modalities": ["text"],
        "prompt_cache_key": "s",
    },
    "responses": {"background": False, "top_logprobs": 0, "prompt_cache_key": "s"},
}


@pytest.mark.parametrize("upstream", ["messages", "responses", "chat"])
@pytest.mark.parametrize("wire", ASKS_NOTHING)
def test_a_field_that_asks_for_nothing_keeps_no_request_from_another_wire(
    wire: str, upstream: str
) -> None:
    body = ASKS_NOTHING[wire]
    asked = READERS[wire](
        {"model": "m", "input" if wire == "responses" else "messages": SAID, **body}
    )
    assert asked.foreign == ()
    assert sent(wire, upstream, **body)["model"] == "m"


@pytest.mark.parametrize("body", [{"logit_bias": {"5": 1}}, {"modalities": ["text", "audio"]}])
def test_the_same_field_is_foreign_once_it_asks_for_something(body: dict[str, Any]) -> None:
    assert chat_reader.read({"model": "m", "messages": SAID, **body}).foreign == tuple(body)


def test_the_name_of_a_result_keeps_no_request_from_another_wire() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    said = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "name": "look", "content": "it rains"},
    ]
    assert chat_reader.read({"model": "m", "messages": said}).foreign == ()
