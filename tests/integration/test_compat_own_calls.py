"""Calls of the vendor's own kinds on Responses keep their kind where something is changed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.providers.raw import RawServer, Wire
from tests.builtin_plugins.providers.transcripts import sse
from tests.integration.test_compat_faults import served

from hookgate import ModelEvent, ToolCall, ToolResult, ToolUseEvent, Turn, hookimpl

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
