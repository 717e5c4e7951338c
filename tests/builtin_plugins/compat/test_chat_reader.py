"""Requests of Chat Completions, read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.compat.bodies import PNG, called, chat, function, refused

from hookgate import Image, Link, Text, ToolResultPart, ToolUse, WireError
from hookgate.builtin_plugins.compat.wires.chat_reader import read

ANSWERED = {"role": "tool", "tool_call_id": "c1", "content": "red"}


def test_each_message_of_the_wire_is_one_message_that_knows_what_it_came_as() -> None:
    body = chat(
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "look", "cache": 1}]},
        called("c1"),
        ANSWERED,
    )
    asked = read(body)
    assert [(one.text, one.raw and one.raw.data) for one in asked.system] == [
        ("be brief", body["messages"][0])
    ]
    assert [one.role for one in asked.messages] == ["user", "assistant", "tool"]
    assert [one.raw and one.raw.data for one in asked.messages] == body["messages"][1:]
    assert asked.messages[0].parts == (Text("look"),)
    assert asked.messages[1].parts == (ToolUse(id="c1", name="look", input={"at": "it"}),)
    assert asked.messages[2].parts == (ToolResultPart(tool_use_id="c1", content="red"),)
    assert asked.foreign == ("messages[1].content[0].cache",)


def test_a_choice_that_no_other_wire_has_is_named() -> None:
    tools = [{"type": "function", "function": {"name": "look"}}]
    allowed = {"mode": "auto", "tools": tools}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    asked = read(chat({"role": "user", "content": "go"}, tools=tools, tool_choice=choice))
    assert asked.foreign == ("tool_choice",)


def test_how_it_is_asked_is_read() -> None:
    schema = {"type": "object", "properties": {}}
    asked = read(
        chat(
            max_tokens=5,
            temperature=1,
            stop="END",
            top_p=0.5,
            seed=7,
            tools=[function()],
            tool_choice={"type": "function", "function": {"name": "look"}},
            parallel_tool_calls=False,
            response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
            reasoning_effort="low",
            prompt_cache_key="session",
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    told = asked.parameters
    assert (told.max_output_tokens, told.temperature, told.stop) == (5, 1, ("END",))
    assert (told.top_p, told.seed, told.tool_choice) == (0.5, 7, "look")
    assert (told.parallel_tool_calls, told.response_format) == (False, schema)
    assert (told.reasoning, told.cache_key) == ("low", "session")
    assert (asked.stream, asked.usage, asked.session) == (True, True, "session")
    assert [(tool.name, tool.owner) for tool in asked.tools] == [("look", "client")]
    assert asked.foreign == ()


def test_pictures_are_read_and_addresses_kept() -> None:
    parts = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": {"url": "https://x.example/y.png"}},
    ]
    (message,) = read(chat({"role": "user", "content": parts})).messages
    assert message.parts == (
        Image(media_type="image/png", data=PNG),
        Link(uri="https://x.example/y.png"),
    )


def test_what_a_provider_would_run_is_told_apart() -> None:
    asked = read(chat(tools=[function(), {"type": "web_search"}], web_search_options={}))
    assert asked.hosted == ("web_search", "web_search_options")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"messages": []}, "model"),
    ({"model": "m"}, "messages"),
    ({"model": "m", "messages": [], "input": "x"}, "messages"),
    (chat(stream="yes"), "stream"),
    (chat(system="x"), "system"),
    (chat(n=2, tools=[function()]), "n"),
    (chat(n=2, web_search_options={"x": 1}), "n"),
    (chat(n=129), "n"),
    (chat(n=0), "n"),
    (chat(n="2"), "n"),
    (chat(functions=[]), "functions"),
    (chat(temperature=3), "temperature"),
    (chat(temperature=True), "temperature"),
    (chat(max_tokens=0), "max_tokens"),
    (chat(stop=[""]), "stop"),
    (chat(tools=[function()] * 2), "tools[1].function.name"),
    (chat(tools=[function()] * 600), "tools"),
    (chat(tools=[function("a b")]), "tools[0].function.name"),
    (chat(tools=[function(parameters={"x": "y" * 300_000})]), "tools[0].function"),
    (chat(tools=[function(parameters=[])]), "tools[0].function.parameters"),
    (chat(tools=[{"type": "custom", "custom": {"name": ""}}]), "tools[0].custom.name"),
    (chat({"role": "wizard", "content": "x"}), "messages[0].role"),
    (chat("x"), "messages[0]"),
    (chat({"role": "user", "content": 7}), "messages[0].content"),
    (chat({"role": "user", "content": []}), "messages[0].content"),
    (chat(ANSWERED), "messages[0]"),
    (chat(called("c1"), ANSWERED, ANSWERED), "messages[2]"),
    (chat(called("c1"), ANSWERED, called("c1")), "messages[2]"),
    (chat(called("c1", "c1")), "messages[0]"),
    (
        chat({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "ftp://x"}}]}),
        "messages[0].content[0].image_url",
    ),
]


@pytest.mark.parametrize(("body", "param"), WRONG)
def test_what_cannot_be_taken_names_its_field(body: dict[str, Any], param: str) -> None:
    assert refused(read, body)[0] == param


@pytest.mark.parametrize("data", ["not base64!", "aGVsbG8=", ""])
def test_a_picture_that_is_none_is_refused(data: str) -> None:
    url = {"url": f"data:image/png;base64,{data}"}
    part = {"type": "image_url", "image_url": url}
    assert refused(read, chat({"role": "user", "content": [part]}))[0].startswith("messages[0]")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    (
        *(
            "role",
            "content",
            "tool_calls",
            "tool_call_id",
            "type",
            "text",
            "id",
            "function",
            "name",
        ),
        *("arguments", "image_url", "url", "file", "input_audio", "refusal"),
    )
)
WORDS = st.sampled_from(
    ["user", "assistant", "tool", "system", "text", "image_url", "function", "c1", "file"]
)
LIKELY = st.recursive(
    WORDS | JSON,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)
FIELDS = st.sampled_from(["tools", "stream", "stop", "tool_choice", "response_format", "n", "x"])


@given(st.lists(LIKELY, max_size=3), st.dictionaries(FIELDS, LIKELY, max_size=3))
def test_whatever_comes_is_read_or_refused(items: list[Any], more: dict[str, Any]) -> None:
    try:
        read(chat(*items, **more))
    except WireError as error:
        assert error.data["code"] == "invalid_params"
