"""Requests of the Responses API, read."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.compat.bodies import PNG, refused

from hookgate import Image, Opaque, Text, ToolUse, WireError
from hookgate.builtin_plugins.compat.wires.responses_reader import read

LOOK = {"type": "function", "name": "look", "parameters": {"type": "object"}}
PATCH = {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}}
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": "it"}'}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "red"}


def body(*items: Any, **more: Any) -> dict[str, Any]:
    """A request of the Responses API."""
    return {"model": "m", "input": list(items) or "hi", **more}


def told(text: str, role: str = "user") -> dict[str, Any]:
    """A message."""
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def test_each_item_is_one_message_that_knows_what_it_came_as() -> None:
    thought = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"}
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
    free = {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "*** B"}
    items = [
        told("rules", "developer"),
        {"role": "user", "content": "go"},
        thought,
        CALL,
        {**RESULT, "output": [picture, {"type": "input_text", "text": "red"}]},
        free,
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "done"},
    ]
    asked = read(body(*items, tools=[LOOK, PATCH], instructions="be brief", prompt_cache_key="s"))
    assert [one.text for one in asked.system] == ["be brief", "rules"]
    assert [one.raw and one.raw.data for one in asked.messages] == items[1:]
    parts = [one.parts[0] for one in asked.messages]
    assert parts[:3] == [
        Text("go"),
        Opaque(provider="openai-responses", data=thought),
        ToolUse(id="c1", name="look", input={"at": "it"}),
    ]
    assert asked.messages[3].tool_results[0].content[0] == Image(media_type="image/png", data=PNG)
    assert parts[4] == ToolUse(id="c2", name="apply_patch", input={"input": "*** B"})
    assert [(tool.name, tool.owner) for tool in asked.tools] == [
        ("look", "client"),
        ("apply_patch", "client"),
    ]
    assert asked.session == "s"


def test_tools_that_the_client_runs_are_told_from_those_of_the_provider() -> None:
    space = {"type": "namespace", "name": "files", "tools": [LOOK]}
    tools = [
        *({"type": "shell"}, {"type": "tool_search", "execution": "client"}, space),
        *({"type": "web_search"}, {"type": "tool_search", "execution": "server"}),
        {"type": "mcp", "server_url": "https://x.example"},
    ]
    asked = read(body(tools=tools))
    assert [tool.name for tool in asked.tools] == ["shell", "tool_search", "files__look"]
    assert asked.hosted == ("web_search", "tool_search", "mcp")


def test_a_call_of_a_vendors_own_tool_is_a_call() -> None:
    action = {"commands": ["ls"]}
    call = {"type": "shell_call", "call_id": "c", "action": action}
    output = {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "a"}]}
    asked = read(body(told("go"), call, {**output, "output": {"stdout": "a"}}))
    assert asked.messages[1].parts == (ToolUse(id="c", name="shell", input={"action": action}),)
    assert "stdout" in asked.messages[2].tool_results[0].text


def test_a_screen_is_read_as_a_picture_and_not_as_its_text() -> None:
    called = {"type": "computer_call", "id": "c", "call_id": "c", "actions": [{"type": "wait"}]}
    screen = {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PNG}"}
    result = {"type": "computer_call_output", "call_id": "c", "output": screen}
    call, shown = read(body(called, result)).messages
    assert [use.input for use in call.tool_uses] == [{"actions": [{"type": "wait"}]}]
    (part,) = shown.tool_results
    assert [type(one) for one in part.content] == [Image]


def test_a_choice_that_no_other_wire_has_is_named() -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]}
    assert read({**body(told("go")), "tool_choice": choice}).foreign == ("tool_choice",)


def test_an_item_that_stands_with_the_provider_is_foreign_text() -> None:
    asked = read(body(told("go"), {"type": "item_reference", "id": "msg_1"}))
    assert asked.messages[1].taint == {"client:reference"}
    assert asked.foreign == ("input[1] of the type 'item_reference'",)


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"model": "m"}, "input"),
        ({"model": "m", "messages": []}, "input"),
        (body(previous_response_id="r", conversation="c"), "conversation"),
        (body(conversation={}), "conversation.id"),
        (body(prompt={"id": "p"}), "prompt"),
        (body(background=True), "background"),
        (body(stream="yes"), "stream"),
        (body(told("x"), RESULT), "input[1]"),
        (body(told("x"), CALL, CALL), "input[2]"),
        (body(told("x", "wizard")), "input[0].role"),
        (body(told("only rules", "developer")), "input"),
        (body(tools=[LOOK, LOOK]), "tools[1].name"),
        (body(tools=[{**LOOK, "parameters": 7}]), "tools[0].parameters"),
        (body(told("x"), tool_choice=7), "tool_choice"),
        (
            body({"role": "user", "content": [{"type": "input_image"}]}),
            "input[0].content[0].file_id",
        ),
        (body(text={"format": {"type": "poem"}}), "text.format.type"),
    ],
)
def test_what_is_wrong_is_named_by_its_place(wrong: dict[str, Any], param: str) -> None:
    assert refused(read, wrong)[0] == param


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=12,
)
_items = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "function_call", "reasoning", "shell_call", "nothing"])},
    optional=dict.fromkeys(("role", "content", "call_id", "name", "arguments", "output"), _json),
)


@given(st.lists(_items | _json, max_size=4), _json, _json)
def test_nothing_but_an_error_of_the_wire_comes_of_anything(
    items: list[Any], tools: Any, text: Any
) -> None:
    made = {"model": "m", "input": items, "tools": tools, "text": text}
    before = deepcopy(made)
    try:
        asked = read(made)
    except WireError as error:
        assert error.data["code"] == "invalid_params"
        assert re.match(r"(input|tools|text)\b", error.data["param"])
    else:
        assert asked.model == "m"
        assert asked.body == before, "it goes on as it came"
    assert made == before
