"""Tools that are called in free text (`type: custom`): judged, and carried both ways."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.providers.transcripts import chunk
from tests.integration.test_compat_as_it_came import frames_of, relayed, streamed

CHAT = "/v1/chat/completions"
GRAMMAR = {"type": "grammar", "grammar": {"definition": "start: /.+/", "syntax": "lark"}}
PATCH = {
    "type": "custom",
    "custom": {"name": "apply_patch", "description": "Patches.", "format": GRAMMAR},
}
TEXT = '*** Begin Patch\n"x"'


def pieces(*texts: str, name: str = "apply_patch") -> list[Any]:
    """An answer of Chat with one call in free text."""
    first = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": name, "input": ""}}
    more = [{"index": 0, "custom": {"input": text}} for text in texts]
    return [
        chunk({"role": "assistant", "content": None}),
        *(chunk({"tool_calls": [one]}) for one in (first, *more)),
        chunk({}, "tool_calls"),
        "[DONE]",
    ]


def said(text: str) -> list[Any]:
    return [chunk({"role": "assistant", "content": text}), chunk({}, "stop"), "[DONE]"]


def asked(*more: Any, model: str = "m", **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "go"}, *more]
    return {"model": model, "messages": messages, "tools": [PATCH], **fields}


def called(answer: Mapping[str, Any]) -> list[Any]:
    calls: list[Any] = answer["choices"][0]["message"].get("tool_calls") or []
    return calls


ALLOWED = {"allow": ["apply_patch"]}
CALL = {"id": "c1", "type": "custom", "custom": {"name": "apply_patch", "input": TEXT}}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "done"}
MADE = {"role": "assistant", "content": None, "tool_calls": [CALL]}


async def test_a_call_is_judged_by_its_text_and_handed_over_as_it_came(tmp_path: Path) -> None:
    answer = pieces(TEXT[:5], TEXT[5:])
    async with relayed(tmp_path, answer, said("ok"), **ALLOWED) as (one, upstream):
        headers = {"session-id": "s1"}
        told = frames_of(await streamed(one, CHAT, asked(stream=True), **headers))
        shown = [frame for frame in told if "tool_calls" in json.dumps(frame)]
        assert [frame["choices"][0]["delta"] for frame in shown[:-1]] == [
            frame["choices"][0]["delta"] for frame in answer[1:4]
        ]
        assert upstream.requests[0]["tools"] == [PATCH]
        _, found = await one.get("/v1/audit")
        (row,) = [row for row in found["entries"] if row["kind"] == "tool_decided"]
        assert (row["tool"], row["data"]["arguments"]) == ("apply_patch", {"input": TEXT})
        status, answer = await one.post(CHAT, asked(MADE, RESULT), headers=headers)
        assert (status, answer["choices"][0]["message"]["content"]) == (200, "ok")
        assert upstream.requests[1]["messages"][1:] == [MADE, RESULT]
        _, found = await one.get("/v1/audit")
        assert [row["kind"] for row in found["entries"]].count("tool_finished") == 1
        assert "tool_unverified" not in {row["kind"] for row in found["entries"]}


async def test_a_whole_answer_holds_the_call_in_the_sdks_form(tmp_path: Path) -> None:
    async with relayed(tmp_path, pieces(TEXT), **ALLOWED) as (one, _):
        _, answer = await one.post(CHAT, asked())
    assert called(answer) == [CALL]
    assert answer["choices"][0]["finish_reason"] == "tool_calls"


async def test_a_denied_call_goes_back_in_free_text_and_is_never_seen(tmp_path: Path) -> None:
    async with relayed(tmp_path, pieces(TEXT), said("then not"), deny=["apply_patch"]) as (
        one,
        upstream,
    ):
        _, answer = await one.post(CHAT, asked())
    assert (called(answer), answer["choices"][0]["message"]["content"]) == ([], "then not")
    call, result = upstream.requests[1]["messages"][1:]
    assert call["tool_calls"] == [CALL]
    assert (result["role"], result["tool_call_id"]) == ("tool", "c1")
    assert "denied" in result["content"]


MIXED: list[Any] = [
    {"index": 0, "function": {"arguments": '{"input": "other"}'}},
    {"index": 0, "type": "function"},
    {"index": 0, "custom": {"name": "other", "input": ""}},
]


@pytest.mark.parametrize("fragment", MIXED)
async def test_a_call_of_two_minds_is_told_as_it_was_judged(fragment: Any, tmp_path: Path) -> None:
    answer = pieces(TEXT)
    answer.insert(3, chunk({"tool_calls": [fragment]}))
    async with relayed(tmp_path, answer, **ALLOWED) as (one, _):
        _, told = await one.post(CHAT, asked())
        _, found = await one.get("/v1/audit")
    (row,) = [row for row in found["entries"] if row["kind"] == "tool_decided"]
    (call,) = called(told)
    assert row["tool"] == call["custom"]["name"] == "apply_patch"
    assert row["data"]["arguments"] == {"input": call["custom"]["input"]}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


ITEM = {"type": "custom_tool_call", "id": "ct_1", "call_id": "c1", "name": "apply_patch"}
RESPONSE: list[Any] = [
    event("output_item.added", output_index=0, item={**ITEM, "input": ""}),
    event("output_item.done", output_index=0, item={**ITEM, "input": TEXT}),
    event("completed", response={"status": "completed", "output": []}),
]


async def test_an_upstream_of_responses_gets_it_in_its_own_form(tmp_path: Path) -> None:
    over = {"kind": "openai", "api": "responses"}
    async with relayed(tmp_path, RESPONSE, providers={"other": over}, **ALLOWED) as (one, upstream):
        body = asked(
            {**MADE, "tool_calls": [{**CALL, "id": "c0"}]},
            {**RESULT, "tool_call_id": "c0"},
            model="other/m",
            tool_choice={"type": "custom", "custom": {"name": "apply_patch"}},
        )
        status, answer = await one.post(CHAT, body)
        assert (status, called(answer)) == (200, [CALL])
    (sent,) = upstream.requests
    flat = {"type": "grammar", **GRAMMAR["grammar"]}  # type: ignore[dict-item]
    told = {"name": "apply_patch", "description": "Patches.", "format": flat}
    assert sent["tools"] == [{"type": "custom", **told}]
    assert sent["tool_choice"] == {"type": "custom", "name": "apply_patch"}
    assert [item["type"] for item in sent["input"]] == [
        "message",
        "custom_tool_call",
        "custom_tool_call_output",
    ]
    assert (sent["input"][1]["input"], sent["input"][2]["output"]) == (TEXT, "done")


FLAT = {"type": "grammar", **GRAMMAR["grammar"]}  # type: ignore[dict-item]
TOOL = {"type": "custom", "name": "apply_patch", "description": "Patches.", "format": FLAT}
OUTPUT = {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"}


def input_of(*more: Any, **fields: Any) -> dict[str, Any]:
    """A request of Responses to an upstream that speaks Chat."""
    items = [{"role": "user", "content": "go"}, *more]
    return {"model": "m", "input": items, "tools": [TOOL], "store": False, **fields}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_client_of_responses_gets_it_of_an_upstream_of_chat(
    stream: bool, tmp_path: Path
) -> None:
    body = input_of(tool_choice={"type": "custom", "name": "apply_patch"}, stream=stream)
    async with relayed(tmp_path, pieces(TEXT[:5], TEXT[5:]), **ALLOWED) as (one, upstream):
        if stream:
            told = frames_of(await streamed(one, "/v1/responses", body))
            pieces_told = [one["delta"] for one in told if one["type"].endswith("input.delta")]
            assert "".join(pieces_told) == TEXT
            (item,) = told[-1]["response"]["output"]
        else:
            _, answer = await one.post("/v1/responses", body)
            (item,) = answer["output"]
        _, found = await one.get("/v1/audit")
    assert {name: item[name] for name in ("type", "call_id", "name", "input")} == {
        "type": "custom_tool_call",
        "call_id": "c1",
        "name": "apply_patch",
        "input": TEXT,
    }
    (row,) = [row for row in found["entries"] if row["kind"] == "tool_decided"]
    assert (row["tool"], row["data"]["arguments"]) == ("apply_patch", {"input": TEXT})
    (sent,) = upstream.requests
    assert sent["tools"] == [PATCH]
    assert sent["tool_choice"] == {"type": "custom", "custom": {"name": "apply_patch"}}


@pytest.mark.parametrize("tools", [[TOOL], []], ids=["offered", "offered no more"])
async def test_its_history_is_told_to_chat_in_free_text(tools: Any, tmp_path: Path) -> None:
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": TEXT}
    async with relayed(tmp_path, said("ok")) as (one, upstream):
        status, answer = await one.post("/v1/responses", input_of(call, OUTPUT, tools=tools))
        assert (status, answer["output"][0]["content"][0]["text"]) == (200, "ok")
    made, result = upstream.requests[0]["messages"][1:]
    assert (made["role"], made["tool_calls"], result) == ("assistant", [CALL], RESULT)


async def test_a_denied_call_of_responses_goes_back_to_chat_in_free_text(tmp_path: Path) -> None:
    async with relayed(tmp_path, pieces(TEXT), said("then not"), deny=["apply_patch"]) as (
        one,
        upstream,
    ):
        _, answer = await one.post("/v1/responses", input_of())
    (item,) = answer["output"]
    assert (item["type"], item["content"][0]["text"]) == ("message", "then not")
    call, result = upstream.requests[1]["messages"][1:]
    assert (call["tool_calls"], result["tool_call_id"]) == ([CALL], "c1")
    assert "denied" in result["content"]


@pytest.mark.parametrize("model", ["anthropic/m", "agent/main"])
async def test_messages_and_agents_have_no_place_for_that_of_responses(
    model: str, tmp_path: Path
) -> None:
    async with relayed(tmp_path, said("never")) as (one, upstream):
        status, answer = await one.post("/v1/responses", input_of(model=model))
        assert (status, answer["error"]["param"]) == (400, "tools[0] of the type 'custom'")
        assert upstream.requests == []


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (asked(), "tools[0] of the type 'custom'"),
        ({**asked(MADE, RESULT), "tools": []}, "messages[1].tool_calls[0] of the type 'custom'"),
    ],
)
async def test_messages_has_no_place_for_it(body: Any, param: str, tmp_path: Path) -> None:
    async with relayed(tmp_path, said("never")) as (one, upstream):
        status, answer = await one.post(CHAT, {**body, "model": "anthropic/m"})
        assert (status, answer["error"]["param"]) == (400, param)
        assert upstream.requests == []


WRONG: list[tuple[Any, str]] = [
    ({"tools": [{"type": "custom", "custom": "x"}]}, "tools[0].custom"),
    ({"tools": [{"type": "custom"}]}, "tools[0].custom.name"),
    ({"tools": [{"type": "custom", "custom": {"name": "a b"}}]}, "tools[0].custom.name"),
    (
        {"tools": [{"type": "custom", "custom": {"name": "x", "format": []}}]},
        "tools[0].custom.format",
    ),
    ({"tools": [PATCH, PATCH]}, "tools[1].custom.name"),
    ({"tool_choice": {"type": "custom", "custom": {}}}, "tool_choice.custom.name"),
    ({"tool_choice": {"type": "custom", "function": {"name": "x"}}}, "tool_choice.custom.name"),
]


@pytest.mark.parametrize(("more", "param"), WRONG)
async def test_what_cannot_be_read_is_a_400_that_names_it(
    more: Any, param: str, tmp_path: Path
) -> None:
    async with relayed(tmp_path, said("never")) as (one, upstream):
        status, answer = await one.post(CHAT, {**asked(), **more})
        assert (status, answer["error"]["param"]) == (400, param)
        assert upstream.requests == []


async def test_an_agent_has_no_word_for_it(tmp_path: Path) -> None:
    async with relayed(tmp_path, said("never")) as (one, upstream):
        status, answer = await one.post(CHAT, asked(model="agent/main"))
        assert (status, answer["error"]["param"]) == (400, "tools[0] of the type 'custom'")
        assert upstream.requests == []


async def test_whoever_asks_another_function_is_not_told_of_a_call_in_free_text(
    tmp_path: Path,
) -> None:
    """A function that the model calls in free text is judged against its schema, and goes back."""
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    tool = {"type": "function", "function": {"name": "apply_patch", "parameters": schema}}
    async with relayed(tmp_path, pieces(TEXT), said("then not"), **ALLOWED) as (one, _):
        _, answer = await one.post(CHAT, {**asked(), "tools": [tool]})
    assert (called(answer), answer["choices"][0]["message"]["content"]) == ([], "then not")
