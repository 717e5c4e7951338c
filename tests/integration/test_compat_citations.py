"""What an answer rests on, for clients of another wire than its upstream's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.providers.transcripts import chunk
from tests.integration.test_compat_agent import asked as of_agent
from tests.integration.test_compat_agent import served as agents
from tests.integration.test_compat_agent import text_of
from tests.integration.test_compat_as_it_came import frames_of, relayed, streamed
from tests.integration.test_compat_structured import BAD, GOOD, formed
from tests.support.script import USAGE, call

from hookgate import Citation, StopEvent, TextDelta, UsageEvent

BROUGHT = frozenset(("provider:tool",))
URL, TITLE, SOURCE = "https://example.org/a", "About A", "A is A."
FIRST, SECOND = "First. ", "A is so 😀."
START, END = len(FIRST), len(FIRST + SECOND)
PATHS = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
}
PROVIDERS = {"other": {"kind": "openai", "api": "responses"}}
MODELS = {"chat": "openai/m", "messages": "anthropic/m", "responses": "other/m"}
FLAT = {"start_index": START, "end_index": END, "title": TITLE, "url": URL}
FILE = {"type": "file_citation", "file_id": "f", "filename": "a.txt", "index": 3}


def of_chat() -> list[Any]:
    given = {"type": "url_citation", "url_citation": {**FLAT, "content": SOURCE}}
    return [
        chunk({"role": "assistant", "content": FIRST}),
        chunk({"content": SECOND}),
        chunk({"annotations": [given, FILE, {"type": "url_citation", "url_citation": 3}]}),
        chunk({}, "stop"),
        "[DONE]",
    ]


def block(index: int, *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    start = {"type": "text", "text": "", "citations": []}
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": one} for one in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def of_messages() -> list[Any]:
    head = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "m"}
    cited = {
        "type": "web_search_result_location",
        "url": URL,
        "title": TITLE,
        "cited_text": SOURCE,
        "encrypted_index": "E",
    }
    page = {"type": "page_location", "cited_text": "x", "document_index": 0, "document_title": "d"}
    usage = {"input_tokens": 3, "output_tokens": 2}
    return [
        {"type": "message_start", "message": {**head, "usage": usage}},
        *block(0, {"type": "text_delta", "text": FIRST}),
        *block(
            1,
            {"type": "citations_delta", "citation": cited},
            {"type": "text_delta", "text": SECOND[:4]},
            {"type": "text_delta", "text": SECOND[4:]},
            {"type": "citations_delta", "citation": page},
        ),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": usage,
        },
        {"type": "message_stop"},
    ]


def of_responses() -> list[Any]:
    notes = [{"type": "url_citation", **FLAT, "start_index": 0, "end_index": len(SECOND)}, FILE]
    parts = [
        {"type": "output_text", "text": FIRST, "annotations": []},
        {"type": "output_text", "text": SECOND, "annotations": notes},
    ]
    item = {"id": "m1", "type": "message", "role": "assistant", "content": parts}
    delta = {"type": "response.output_text.delta", "item_id": "m1", "output_index": 0}
    ended = {"status": "completed", "output": [item]}
    return [
        {**delta, "content_index": 0, "delta": FIRST},
        {**delta, "content_index": 1, "delta": SECOND},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": ended},
    ]


ANSWERS = {"chat": of_chat, "messages": of_messages, "responses": of_responses}


def asked(wire: str, upstream: str, *, stream: bool = False, model: str = "") -> dict[str, Any]:
    messages = [{"role": "user", "content": "go"}]
    body: dict[str, Any] = {"model": model or MODELS[upstream], "stream": stream}
    if wire == "responses":
        return {**body, "input": messages, "store": False}
    return {**body, "messages": messages, **({"max_tokens": 64} if wire == "messages" else {})}


def notes_in(wire: str, answer: dict[str, Any]) -> list[Any]:
    """Return what an answer in one piece rests on."""
    if wire == "chat":
        noted: list[Any] = answer["choices"][0]["message"].get("annotations") or []
        return noted
    parts = answer["content"] if wire == "messages" else answer["output"][0]["content"]
    field = "citations" if wire == "messages" else "annotations"
    return [one for part in parts for one in part.get(field) or ()]


def expected(wire: str, upstream: str) -> dict[str, Any]:
    if wire == "chat":
        return {"type": "url_citation", "url_citation": FLAT}
    if wire == "responses":
        return {"type": "url_citation", **FLAT}
    return {
        "type": "web_search_result_location",
        "url": URL,
        "title": TITLE,
        "cited_text": "" if upstream == "responses" else SOURCE,
        "encrypted_index": "hookgate-unsigned",
    }


ACROSS = [(wire, upstream) for wire in PATHS for upstream in PATHS if wire != upstream]


@pytest.mark.parametrize(("wire", "upstream"), ACROSS)
async def test_addresses_are_told_as_each_wire_has_them(
    wire: str, upstream: str, tmp_path: Path
) -> None:
    answer = ANSWERS[upstream]()
    async with relayed(tmp_path, answer, providers=PROVIDERS) as (one, _):
        status, told = await one.post(PATHS[wire], asked(wire, upstream))
        assert status == 200, told
        assert notes_in(wire, told) == [expected(wire, upstream)]
        text = await streamed(one, PATHS[wire], asked(wire, upstream, stream=True))
    frames = [frame for frame in frames_of(text) if frame != "[DONE]"]
    note = expected(wire, upstream)
    if wire == "chat":
        deltas = [frame["choices"][0]["delta"] for frame in frames if frame["choices"]]
        assert [one["annotations"] for one in deltas if "annotations" in one] == [[note]]
    elif wire == "messages":
        deltas = [frame["delta"] for frame in frames if frame["type"] == "content_block_delta"]
        assert [one["citation"] for one in deltas if one["type"] == "citations_delta"] == [note]
    else:
        kind = "response.output_text.annotation.added"
        (added,) = [frame for frame in frames if frame["type"] == kind]
        assert (added["annotation"], added["annotation_index"]) == (note, 0)
        (item,) = frames[-1]["response"]["output"]
        assert {name: added[name] for name in ("item_id", "output_index", "content_index")} == {
            "item_id": item["id"],
            "output_index": 0,
            "content_index": 0,
        }
        assert item["content"][0]["annotations"] == [note]


@pytest.mark.parametrize("wire", PATHS)
async def test_the_same_wire_tells_them_as_they_came(wire: str, tmp_path: Path) -> None:
    async with relayed(tmp_path, ANSWERS[wire](), providers=PROVIDERS) as (one, _):
        _, told = await one.post(PATHS[wire], asked(wire, wire))
    assert len(notes_in(wire, told)) == (3 if wire == "chat" else 2)


SEARCHES = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}


def calls() -> list[Any]:
    called = {"index": 0, "id": "c1", "type": "function", "function": {"name": "clock"}}
    return [*of_chat()[:3], chunk({"tool_calls": [called]}), chunk({}, "tool_calls"), "[DONE]"]


async def test_they_taint_the_calls_of_the_same_answer(tmp_path: Path) -> None:
    tools = [{"name": "clock", "input_schema": {"type": "object"}}]
    async with relayed(tmp_path, calls()) as (one, _):
        body = {**asked("messages", "chat"), "tools": tools}
        status, told = await one.post("/v1/messages", body)
        assert status == 200, told
        _, found = await one.get("/v1/audit")
    (row,) = [row for row in found["entries"] if row["kind"] == "tool_decided"]
    assert "provider:tool" in row["data"]["taint"]


async def test_places_count_in_all_that_the_client_was_told(tmp_path: Path) -> None:
    """A denied round's text stands before that of the next one."""
    denied = [
        chunk({"role": "assistant", "content": "Wait."}),
        chunk({"tool_calls": [{"index": 0, "id": "c1", "type": "function",
                               "function": {"name": "clock", "arguments": "{}"}}]}),
        chunk({}, "tool_calls"),
        "[DONE]",
    ]  # fmt: skip
    tools = [{"type": "function", "name": "clock", "parameters": {"type": "object"}}]
    async with relayed(tmp_path, denied, of_chat(), deny=["clock"]) as (one, _):
        body = {**asked("responses", "chat"), "tools": tools}
        _, told = await one.post("/v1/responses", body)
    (item,) = told["output"]
    (part,) = item["content"]
    (note,) = part["annotations"]
    assert part["text"][note["start_index"] : note["end_index"]] == SECOND


async def test_a_secret_in_a_source_is_masked(tmp_path: Path) -> None:
    key = "sk-upstream-0123456789"
    answer = json.loads(json.dumps(of_chat()).replace(TITLE, key).replace(SOURCE, key))
    async with relayed(tmp_path, answer) as (one, _):
        _, told = await one.post("/v1/messages", asked("messages", "chat"))
    (note,) = notes_in("messages", told)
    assert key not in json.dumps(told)
    assert note["url"] == URL


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:f", "", 3])
async def test_what_is_no_address_of_the_web_is_left_out(url: Any, tmp_path: Path) -> None:
    answer = json.loads(json.dumps(of_chat()))
    answer[2]["choices"][0]["delta"]["annotations"][0]["url_citation"]["url"] = url
    async with relayed(tmp_path, answer) as (one, _):
        status, told = await one.post("/v1/messages", asked("messages", "chat"))
    assert (status, notes_in("messages", told)) == (200, [])


async def test_one_that_is_the_gateways_own_is_not_sent_to_an_upstream_of_messages(
    tmp_path: Path,
) -> None:
    """No upstream knows its index; that it stood there taints all the same."""
    answers: Sequence[Any] = (of_chat(), of_messages())
    async with relayed(tmp_path, *answers) as (one, upstream):
        _, told = await one.post("/v1/messages", asked("messages", "chat"))
        body = asked("messages", "messages")
        body["messages"] += [
            {"role": "assistant", "content": told["content"]},
            {"role": "user", "content": "and?"},
        ]
        status, why = await one.post("/v1/messages", body)
        assert status == 200, why
    (said,) = upstream.requests[1]["messages"][1]["content"]
    assert said == {"type": "text", "text": FIRST + SECOND}


PAGE = Citation(url=URL, title=TITLE, cited=SOURCE, start=START, end=END, taint=BROUGHT)
RESTS = [TextDelta(FIRST), TextDelta(SECOND), PAGE, UsageEvent(USAGE), StopEvent("end")]
MODES = {"assist": "informed", "agent": "agent/main"}
ALIASES = {"informed": {"to": "script/one", "mode": "assist", "tools": ["clock"]}}


def shown(wire: str, answer: dict[str, Any]) -> tuple[str, list[Any]]:
    """Return an answer's text, and the places of it that its citations name."""
    said = text_of(PATHS[wire], answer)
    notes = [one.get("url_citation", one) for one in notes_in(wire, answer)]
    if wire == "messages":
        return said, [one["url"] for one in notes]
    return said, [said[one["start_index"] : one["end_index"]] for one in notes]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wire", PATHS)
async def test_in_each_mode_they_are_told_behind_what_was_said_in_hidden_rounds(
    wire: str, mode: str, tmp_path: Path
) -> None:
    look = [TextDelta("I look."), *call(("h1", "clock", {"text": "noon"}))]
    plugin = {"compat": {"aliases": ALIASES}}
    async with agents(tmp_path, look, RESTS, plugin=plugin) as (one, script):
        status, told = await one.post(PATHS[wire], of_agent(PATHS[wire], model=MODES[mode]))
        assert status == 200, told
    rested = URL if wire == "messages" else SECOND
    assert shown(wire, told) == (f"I look.\n\n{FIRST}{SECOND}", [rested])
    assert len(script.requests) == 2


@pytest.mark.parametrize("mode", MODES)
async def test_in_each_mode_they_taint_the_calls_of_the_same_answer(
    mode: str, tmp_path: Path
) -> None:
    step = [*RESTS[:3], *call(("c1", "Bash", {"command": "ls"}))]
    plugin = {"compat": {"aliases": ALIASES}, "policy": {"allow": ["Bash"]}}
    async with agents(tmp_path, step, plugin=plugin) as (one, _):
        await one.post("/v1/messages", of_agent("/v1/messages", model=MODES[mode]))
        _, found = await one.get("/v1/audit")
    (row,) = [row for row in found["entries"] if row["kind"] == "tool_decided"]
    assert "provider:tool" in row["data"]["taint"]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("wire", PATHS)
async def test_those_of_an_answer_in_a_form_are_told_with_it_and_no_others(
    wire: str, stream: bool, tmp_path: Path
) -> None:
    first = replace(PAGE, url=f"{URL}/first", start=0, end=3)
    bad = [TextDelta(BAD), first, UsageEvent(USAGE), StopEvent("end")]
    good = [TextDelta(GOOD), replace(PAGE, start=1, end=7), UsageEvent(USAGE), StopEvent("end")]
    path = PATHS[wire]
    async with agents(tmp_path, bad, good) as (one, _):
        if stream:
            text = await streamed(one, path, formed(path, stream=True))
        else:
            _, told = await one.post(path, formed(path))
            text = json.dumps(told)
            rested = URL if wire == "messages" else GOOD[1:7]
            assert shown(wire, told) == (GOOD, [rested])
    assert (f"{URL}/first" in text, URL in text) == (False, True)
    assert text.index(URL) > text.index("Ann")
