"""Requests of the Messages API, read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.compat.bodies import PNG, messages, refused

from hookgate import Image, Opaque, Text, ToolResultPart, ToolUse, WireError
from hookgate.builtin_plugins.compat.wires.messages_reader import read

LOOK = {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}
CALL = {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "it"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "red"}


def test_each_message_of_the_wire_is_one_message_that_knows_what_it_came_as() -> None:
    thought = {"type": "thinking", "thinking": "", "signature": "s=="}
    picture = {"type": "base64", "media_type": "image/png", "data": PNG}
    results = [{"type": "image", "source": picture}]
    body = messages(
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [thought, CALL]},
        {
            "role": "user",
            "content": [{**RESULT, "content": results}, {"type": "text", "text": "?"}],
        },
        system=[{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
    )
    asked = read(body)
    assert [one.text for one in asked.system] == ["be brief"]
    assert [one.raw and one.raw.data for one in asked.messages] == body["messages"]
    assert asked.messages[1].parts == (
        Opaque(provider="anthropic-messages", data=thought),
        ToolUse(id="t1", name="look", input={"at": "it"}),
    )
    shown = (Image(media_type="image/png", data=PNG),)
    assert asked.messages[2].parts == (
        ToolResultPart(tool_use_id="t1", content=shown),
        Text("?"),
    )
    assert asked.foreign == (
        "system[0].cache_control",
        "messages[1].content[0] of the type 'thinking'",
    )


def test_how_it_is_asked_is_read() -> None:
    asked = read(
        messages(
            temperature=0.5,
            top_k=3,
            stop_sequences=["END"],
            tools=[LOOK],
            tool_choice={"type": "any", "disable_parallel_tool_use": True},
            thinking={"type": "enabled", "budget_tokens": 2000},
            metadata={"user_id": '{"session_id":"s1"}'},
        )
    )
    told = asked.parameters
    assert (told.max_output_tokens, told.temperature, told.top_k) == (100, 0.5, 3)
    assert (told.stop, told.tool_choice, told.parallel_tool_calls) == (("END",), "required", False)
    assert (told.reasoning, asked.session, asked.stream) == (2000, "s1", False)


def test_tools_are_told_apart_by_who_runs_them() -> None:
    tools = [
        LOOK,
        {"type": "bash_20250124", "name": "bash"},
        {"type": "web_search_20250305", "name": "web_search"},
    ]
    asked = read(messages(tools=tools, mcp_servers=[{"url": "https://x.example"}]))
    assert [tool.name for tool in asked.tools] == ["look", "bash"]
    assert asked.hosted == ("web_search_20250305", "mcp_servers")


def test_a_result_in_a_block_of_a_new_type_is_read_as_text_by_whoever_judges() -> None:
    block = {"type": "tool_reference", "tool_name": "deploy"}
    asked = read(
        messages(
            {"role": "assistant", "content": [CALL]},
            {"role": "user", "content": [{**RESULT, "content": [block]}]},
        )
    )
    (result,) = asked.messages[1].tool_results
    assert "deploy" in result.text


def test_thoughts_of_another_wire_are_not_sent_back() -> None:
    own = {"type": "thinking", "thinking": "hm", "signature": "hookgate-unsigned"}
    body = messages({"role": "assistant", "content": [own, {"type": "text", "text": "hi"}]})
    asked = read(body)
    assert asked.foreign == ()
    assert asked.messages[0].parts == (Text("hi"),)
    assert asked.body["messages"][0]["content"] == [{"type": "text", "text": "hi"}]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"model": "m", "messages": []}, "max_tokens"),
    (messages(max_completion_tokens=3), "max_completion_tokens"),
    ({"model": "m", "input": "x"}, "input"),
    (messages(stream="yes"), "stream"),
    (messages(system=7), "system"),
    (messages({"role": "tool", "content": "x"}), "messages[0].role"),
    (messages({"role": "user"}), "messages[0].content"),
    (messages({"role": "user", "content": [CALL]}), "messages[0].content[0].type"),
    (messages({"role": "user", "content": [RESULT]}), "messages[0]"),
    (
        messages({"role": "assistant", "content": [CALL, CALL]}),
        "messages[0]",
    ),
    (messages(tools=[LOOK, LOOK]), "tools[1].name"),
    (messages(tools=[LOOK] * 600), "tools"),
    (messages(tools=[{**LOOK, "input_schema": {"x": "y" * 1_000_000}}]), "tools[0]"),
    (messages(tool_choice={"type": "maybe"}), "tool_choice.type"),
    (messages(temperature=2), "temperature"),
    (messages(thread={"type": "create"}), "thread"),
    (
        messages({"role": "user", "content": [{"type": "image", "source": {"type": "x"}}]}),
        "messages[0].content[0].source.type",
    ),
]


@pytest.mark.parametrize(("body", "param"), WRONG)
def test_what_cannot_be_taken_names_its_field(body: dict[str, Any], param: str) -> None:
    assert refused(read, body)[0] == param


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    (
        *(
            "role",
            "content",
            "type",
            "text",
            "id",
            "name",
            "input",
            "tool_use_id",
            "source",
            "data",
        ),
        *("media_type", "is_error", "signature", "thinking"),
    )
)
WORDS = st.sampled_from(
    ["user", "assistant", "text", "image", "tool_use", "tool_result", "document", "base64", "t1"]
)
LIKELY = st.recursive(
    WORDS | JSON,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)
FIELDS = st.sampled_from(["tools", "stream", "system", "tool_choice", "thinking", "metadata", "x"])


@given(st.lists(LIKELY, max_size=3), st.dictionaries(FIELDS, LIKELY, max_size=3))
def test_whatever_comes_is_read_or_refused(items: list[Any], more: dict[str, Any]) -> None:
    try:
        read(messages(*items, **more))
    except WireError as error:
        assert error.data["code"] == "invalid_params"
