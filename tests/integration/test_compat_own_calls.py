"""Calls of the vendor's own kinds on Responses keep their kind where something is changed."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.compat.bodies import PNG
from tests.builtin_plugins.providers.raw import RawServer, Wire
from tests.builtin_plugins.providers.transcripts import sse
from tests.integration.test_compat_faults import served

from hookgate import Image, ModelEvent, ToolCall, ToolResult, ToolUseEvent, Turn, hookimpl

PATH = "/v1/responses"
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
TOOLS: list[dict[str, Any]] = [
    {"type": "shell"},
    {"type": "local_shell"},
    {"type": "apply_patch"},
    {"type": "tool_search", "execution": "client"},
    {"type": "namespace", "name": "crm", "description": "C.", "tools": [
        {"type": "function", "name": "find", "parameters": SCHEMA},
        {"type": "custom", "name": "note"},
    ]},
]  # fmt: skip
RUN = {"commands": ["ls"]}
EXEC = {"type": "exec", "command": ["ls"], "env": {}}
WRITE = {"type": "create_file", "path": "a", "diff": "+a"}
CALLS: list[dict[str, Any]] = [
    {"type": "shell_call", "action": RUN},
    {"type": "local_shell_call", "action": EXEC},
    {"type": "apply_patch_call", "operation": WRITE},
    {"type": "tool_search_call", "execution": "client", "arguments": {"goal": "x"}},
    {"type": "function_call", "namespace": "crm", "name": "find", "arguments": '{"q":"x"}'},
    {"type": "custom_tool_call", "namespace": "crm", "name": "note", "input": "x"},
]
NAMES = ("shell", "local_shell", "apply_patch", "tool_search", "crm__find", "crm__note")


def called(calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"id": f"i{at}", "call_id": f"c{at}", "status": "completed", **one}
        for at, one in enumerate(calls)
    ]


def answer(*items: dict[str, Any]) -> bytes:
    """An answer of the Responses API with these items."""
    head = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": head}]
    for at, item in enumerate(items):
        for when in ("added", "done"):
            kind = f"response.output_item.{when}"
            events.append({"type": kind, "output_index": at, "item": item})
    usage = {"input_tokens": 9, "output_tokens": 60, "total_tokens": 69}
    last = {**head, "status": "completed", "output": list(items), "usage": usage}
    return sse(*events, {"type": "response.completed", "response": last})


SAID = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "I may not.", "annotations": []}],
}


def says(upstream: RawServer, *answers: bytes) -> None:
    left = list(answers)

    async def script(wire: Wire) -> None:
        await wire.chunks(left.pop(0))

    upstream.script = script


def asked(*items: Any, **more: Any) -> dict[str, Any]:
    go = {"type": "message", "role": "user", "content": "go"}
    body = {"model": "responses/m", "tools": TOOLS, "input": [go, *items], "store": False}
    return {**body, **more}


class Changes:
    """A plugin that changes what is called, and what was found."""

    name = "changes"

    @hookimpl
    def filter_stream(
        self, turn: Turn, events: AsyncIterator[ModelEvent]
    ) -> AsyncIterator[ModelEvent]:
        async def changed() -> AsyncIterator[ModelEvent]:
            async for event in events:
                if isinstance(event, ToolUseEvent):
                    made = json.loads(json.dumps(event.input).replace('"ls"', '"ls -l"'))
                    event = replace(event, input=made)
                yield event

        return changed()

    @hookimpl
    def after_tool_call(self, turn: Turn, call: ToolCall, result: ToolResult) -> ToolResult:
        return replace(result, content=result.text.replace("4222", "[card]"))


async def test_a_denied_one_goes_back_as_what_it_was(tmp_path: Path) -> None:
    calls = called(CALLS)
    async with served(tmp_path, "responses", deny=list(NAMES)) as (one, upstream):
        says(upstream, answer(*calls), answer(SAID))
        status, told = await one.post(PATH, asked())
        assert (status, told["output"]) == (200, [SAID])
        given = upstream.requests[1]["input"][1:]
    made, results = given[: len(calls)], given[len(calls) :]
    for sent, call in zip(made, calls, strict=True):
        assert {name: sent.get(name) for name in call if name not in ("id", "status")} == {
            name: one for name, one in call.items() if name not in ("id", "status")
        }
    assert [(one["type"], one["call_id"]) for one in results] == [
        ("shell_call_output", "c0"),
        ("local_shell_call_output", "c1"),
        ("apply_patch_call_output", "c2"),
        ("tool_search_output", "c3"),
        ("function_call_output", "c4"),
        ("custom_tool_call_output", "c5"),
    ]
    assert "denied" in results[0]["output"][0]["stderr"]
    assert (results[2]["status"], "denied" in results[2]["output"]) == ("failed", True)


@pytest.mark.parametrize("tool", ["computer", "computer_use_preview"])
async def test_a_denied_one_of_a_screen_goes_back_with_an_empty_one_and_why(
    tool: str, tmp_path: Path
) -> None:
    (item,) = called([CLICKS])
    (_, find) = called([SHELL, CALLS[4]])
    tools = [*TOOLS, {"type": tool}]
    async with served(tmp_path, "responses", deny=["computer", "crm__find"]) as (one, upstream):
        says(upstream, answer(item, find), answer(SAID))
        status, told = await one.post(PATH, asked(tools=tools))
        assert (status, told["output"]) == (200, [SAID])
        made, other, result, why, another = upstream.requests[1]["input"][1:]
    # What is pending there would have to be acknowledged, which is nobody's to do here.
    assert made == {
        "type": "computer_call",
        "id": "cu_c0",
        "call_id": "c0",
        "actions": CLICKS["actions"],
        "pending_safety_checks": [],
        "status": "completed",
    }
    url = result["output"].pop("image_url")
    assert result == {
        "type": "computer_call_output",
        "call_id": "c0",
        "output": {"type": "computer_screenshot"},
    }
    assert b64decode(url.removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")
    assert [one["type"] for one in (other, another)] == ["function_call", "function_call_output"]
    assert (why["role"], why["content"][0]["text"].startswith("computer (c0): ")) == ("user", True)
    assert "denied" in why["content"][0]["text"]


class Covers:
    """A plugin that covers what a screen shows."""

    name = "covers"

    @hookimpl
    def after_tool_call(self, turn: Turn, call: ToolCall, result: ToolResult) -> ToolResult:
        return replace(result, content=(Image(data=COVERED, media_type="image/png"),))


COVERED = "iVBORw0KGgpjb3ZlcmVk"
"""The beginning of a PNG file."""


async def test_a_screen_that_a_plugin_changes_is_one_still(tmp_path: Path) -> None:
    (call,) = called([CLICKS])
    screen = {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PNG}"}
    result = {"type": "computer_call_output", "call_id": "c0", "output": screen}
    tools = [*TOOLS, {"type": "computer"}]
    async with served(tmp_path, "responses", plugins=[Covers()]) as (one, upstream):
        says(upstream, answer(call), answer(SAID))
        session = {"headers": {"session-id": "s1"}}
        _, told = await one.post(PATH, asked(tools=tools), **session)
        body = asked(*told["output"], result, tools=tools)
        status, why = await one.post(PATH, body, **session)
        assert status == 200, why
    shown = {**screen, "image_url": f"data:image/png;base64,{COVERED}"}
    assert upstream.requests[1]["input"][-2:] == [call, {**result, "output": shown}]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_one_whose_input_a_plugin_changes_comes_as_what_it_was(
    stream: bool, tmp_path: Path
) -> None:
    computer = {"type": "computer_call", "pending_safety_checks": [], "action": {"keys": ["ls"]}}
    calls = called([*CALLS[:4], computer])
    tools = [*TOOLS, {"type": "computer"}]
    async with served(tmp_path, "responses", plugins=[Changes()]) as (one, upstream):
        says(upstream, answer(*calls))
        body = asked(tools=tools, stream=stream)
        async with one.http.post(one.url + PATH, json=body) as got:
            text = await got.text()
        last = text.strip().rpartition("data: ")[2]
        output = json.loads(last)["response"]["output"] if stream else json.loads(text)["output"]
    changed = json.loads(json.dumps(calls).replace('"ls"', '"ls -l"'))
    assert [{**one, "id": ""} for one in output] == [{**one, "id": ""} for one in changed]


async def test_one_whose_result_a_plugin_changes_keeps_its_form(tmp_path: Path) -> None:
    (shell, local, patch, search, *_) = called(CALLS)
    ended = {"type": "exit", "exit_code": 0}
    shown = [{"stdout": "4222", "stderr": "", "outcome": ended}]
    results: list[dict[str, Any]] = [
        {"type": "shell_call_output", "call_id": "c0", "output": shown},
        {"type": "local_shell_call_output", "id": "c1", "output": "4222"},
        {"type": "apply_patch_call_output", "call_id": "c2", "status": "completed"},
        {"type": "tool_search_output", "call_id": "c3", "execution": "client",
         "status": "completed", "tools": [{"type": "function", "name": "4222"}]},
    ]  # fmt: skip
    async with served(tmp_path, "responses", plugins=[Changes()]) as (one, upstream):
        says(upstream, answer(shell, local, patch, search), answer(SAID))
        session = {"headers": {"session-id": "s1"}}
        _, told = await one.post(PATH, asked(), **session)
        status, why = await one.post(PATH, asked(*told["output"], *results), **session)
        assert status == 200, why
        given = upstream.requests[1]["input"]
    found = [one for one in given if one["type"].endswith("output")]
    local_result = {**results[1], "call_id": "c1"}
    expected = json.dumps([results[0], local_result, *results[2:]]).replace("4222", "[card]")
    assert found == json.loads(expected)
    assert [one["type"] for one in given if one["type"].endswith("call")] == [
        one["type"] for one in (shell, local, patch, search)
    ]


CHECK = {"id": "cu_sc", "code": "malicious_instructions", "message": "look at it"}
CLICKS = {
    "type": "computer_call",
    "actions": [{"type": "click", "x": 1, "y": 2}, {"type": "type", "text": "ls"}],
    "pending_safety_checks": [CHECK],
}
SHELL = {"type": "shell_call", "action": {"commands": ["ls", "pwd"], "timeout_ms": None}}
BEGUN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (CLICKS, {"type": "computer_call", "pending_safety_checks": [], "action": None}),
    (CLICKS, {"type": "computer_call"}),
    (SHELL, {"type": "shell_call", "action": {"commands": []}}),
]


def items_sent(told: str) -> list[dict[str, Any]]:
    """Return the events of a stream, without their numbers, that are of an item."""
    events = [json.loads(one[6:]) for one in told.splitlines() if one.startswith("data: {")]
    return [
        {name: value for name, value in event.items() if name != "sequence_number"}
        for event in events
        if "output_index" in event
    ]


async def stream_of(one: Any, **body: Any) -> str:
    async with one.http.post(one.url + PATH, json=asked(stream=True, **body)) as got:
        assert got.status == 200
        return str(await got.text())


def command(kind: str, at: int, **more: Any) -> dict[str, Any]:
    place = {"output_index": 0, "command_index": at}
    return {"type": f"response.shell_call_command.{kind}", **place, **more}


@pytest.mark.parametrize(("call", "begun"), BEGUN)
async def test_one_that_nobody_changes_passes_as_it_came(
    call: dict[str, Any], begun: dict[str, Any], tmp_path: Path
) -> None:
    (item,) = called([call])
    frames: list[dict[str, Any]] = [
        {"type": "response.output_item.added", "output_index": 0,
         "item": {"id": "i0", "call_id": "c0", "status": "in_progress", **begun}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    ]  # fmt: skip
    if call is SHELL:
        frames[1:1] = [
            command("added", 0, command="l"),
            command("delta", 0, delta="s"),
            command("done", 0, command="ls"),
            command("added", 1, command=""),
            command("delta", 1, delta="pwd"),
        ]
    last = {"id": "resp_1", "status": "completed", "output": [item]}
    tools = [*TOOLS, {"type": "computer"}]
    async with served(tmp_path, "responses") as (one, upstream):
        says(upstream, sse(*frames, {"type": "response.completed", "response": last}))
        assert items_sent(await stream_of(one, tools=tools)) == frames
        _, found = await one.get("/v1/audit")
    (row,) = [row for row in found["entries"] if row["kind"] == "tool_decided"]
    judged = {name: value for name, value in call.items() if name != "type"}
    assert row["data"]["arguments"] == judged


@pytest.mark.parametrize(
    ("call", "begun", "piece"),
    [
        (CLICKS, {**CLICKS, "actions": [{"type": "type", "text": "danger"}]}, None),
        (CLICKS, {**CLICKS, "action": {"type": "type", "text": "danger"}}, None),
        (SHELL, SHELL, command("delta", 0, delta="danger")),
        (SHELL, SHELL, command("done", 1, command="danger")),
        (SHELL, SHELL, command("added", 2, command="danger")),
        (SHELL, SHELL, {**command("new", 0), "text": "danger"}),
    ],
)
async def test_one_that_says_two_things_is_told_as_it_was_judged(
    call: dict[str, Any], begun: dict[str, Any], piece: dict[str, Any] | None, tmp_path: Path
) -> None:
    (item,) = called([call])
    added = {"id": "i0", "call_id": "c0", "status": "in_progress", **begun}
    frames: list[dict[str, Any]] = [
        {"type": "response.output_item.added", "output_index": 0, "item": added},
        *([piece] if piece else []),
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    ]
    last = {"id": "resp_1", "status": "completed", "output": [item]}
    tools = [*TOOLS, {"type": "computer"}]
    async with served(tmp_path, "responses") as (one, upstream):
        says(upstream, sse(*frames, {"type": "response.completed", "response": last}))
        told = await stream_of(one, tools=tools)
    assert "danger" not in told
    sent = items_sent(told)
    assert [one["type"] for one in sent] == [one["type"] for one in (frames[0], frames[-1])]
    assert sent[0]["item"] == {**item, "status": "in_progress"}
    assert sent[-1]["item"] == item


async def test_what_a_screen_shows_counts_as_a_picture_and_passes_as_it_came(
    tmp_path: Path,
) -> None:
    (call,) = called([CLICKS])
    shown = f"data:image/png;base64,{PNG}"
    result = {
        "type": "computer_call_output",
        "call_id": "c0",
        "output": {"type": "computer_screenshot", "image_url": shown, "detail": "original"},
        "acknowledged_safety_checks": [CHECK],
    }
    tools = [*TOOLS, {"type": "computer"}]
    async with served(tmp_path, "responses") as (one, upstream):
        says(upstream, answer(call), answer(SAID))
        session = {"headers": {"session-id": "s1"}}
        _, told = await one.post(PATH, asked(tools=tools), **session)
        body = asked(*told["output"], result, tools=tools)
        status, why = await one.post(PATH, body, **session)
        assert status == 200, why
        _, found = await one.get("/v1/audit")
    assert upstream.requests[1]["input"] == body["input"]
    kinds = [row["kind"] for row in found["entries"]]
    assert (kinds.count("tool_finished"), "tool_unverified" in kinds) == (1, False)
