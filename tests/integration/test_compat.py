"""Other people's clients at a gateway as it is installed: what is judged, told and refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.script import Script, Scripted, Step, call, say, settings, until
from tests.support.wire import Served, bearer, tokens

from hookgate import Gateway, ProviderError
from hookgate.builtin_plugins import BUILTIN
from hookgate.core.gateway.serve import listen

NAMES = [
    name
    for name in BUILTIN
    if name in ("control", "storage", "audit", "policy", "metering", "compat")
]
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
BOTH = pytest.mark.parametrize("path", [CHAT, MESSAGES])
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
LIST = (("c1", "Bash", {"command": "ls"}),)


def rules(home: Path, effect: str) -> dict[str, Any]:
    """Settings with one rule about tools of clients."""
    text = f"""
version: 1
rules:
  - name: no-shell
    match: {{owner: client}}
    effect: {effect}
    reason: nobody runs a shell here
"""
    (home / "rules.yaml").write_text(text)
    return {"policy": {"rules": [str(home / "rules.yaml")]}}


@asynccontextmanager
async def served(
    home: Path,
    *steps: Step,
    plugin: Mapping[str, Any] | None = None,
    builtin: Sequence[str] = NAMES,
    plugins: Sequence[object] = (),
    **sections: Any,
) -> AsyncIterator[tuple[Served, Script]]:
    """A gateway with a scripted model, and the endpoints of all wires in front of it."""
    script = Script(*steps)
    own = {"compat": {"openai": "script", "anthropic": "script"}}
    for name, values in (plugin or {}).items():
        own[name] = {**own.get(name, {}), **values}
    section = {"port": 0, **sections.pop("gateway", {})}
    config = settings(home, gateway=section, plugin=own, **sections)
    async with (
        Gateway(config, builtin=builtin, plugins=[Scripted(script), *plugins]) as gate,
        listen(gate) as listener,
        aiohttp.ClientSession() as http,
    ):
        yield Served(gate, listener, http), script


def asked(path: str, *messages: Any, **more: Any) -> dict[str, Any]:
    """A request of a wire, with a tool."""
    turns = list(messages) or [{"role": "user", "content": "go"}]
    function = {"name": "Bash", "description": "Runs.", "parameters": SCHEMA}
    if path == CHAT:
        tools: list[Any] = [{"type": "function", "function": function}]
        return {"model": "one", "messages": turns, "tools": tools, **more}
    tools = [{"name": "Bash", "description": "Runs.", "input_schema": SCHEMA}]
    return {"model": "one", "max_tokens": 50, "messages": turns, "tools": tools, **more}


def text_of(path: str, answer: Mapping[str, Any]) -> str:
    if path == CHAT:
        return str(answer["choices"][0]["message"]["content"])
    return "".join(one.get("text", "") for one in answer["content"])


def calls_of(path: str, answer: Mapping[str, Any]) -> Sequence[str]:
    if path == CHAT:
        message = answer["choices"][0]["message"]
        return [one["function"]["name"] for one in message.get("tool_calls", ())]
    return [one["name"] for one in answer["content"] if one["type"] == "tool_use"]


def stop_of(path: str, answer: Mapping[str, Any]) -> str:
    told = answer["choices"][0]["finish_reason"] if path == CHAT else answer["stop_reason"]
    return str(told)


async def audited(served: Served, kind: str) -> list[Mapping[str, Any]]:
    _, found = await served.get("/v1/audit")
    return [row for row in found["entries"] if row["kind"] == kind]


# -- a turn like any other ------------------------------------------------------------


@BOTH
async def test_a_call_that_may_run_is_judged_metered_and_handed_over(
    path: str, tmp_path: Path
) -> None:
    async with served(tmp_path, call(*LIST)) as (one, script):
        status, answer = await one.post(path, asked(path))
        assert (status, calls_of(path, answer)) == (200, ["Bash"])
        assert stop_of(path, answer) == ("tool_calls" if path == CHAT else "tool_use")
        (row,) = await audited(one, "tool_decided")
        assert (row["outcome"], row["tool"]) == ("allow", "Bash")
    (request,) = script.requests
    assert [tool.name for tool in request.tools] == ["Bash"]
    assert [piece.text for piece in request.system] == []


@BOTH
async def test_a_denied_call_is_never_seen_and_the_model_is_asked_again(
    path: str, tmp_path: Path
) -> None:
    plugin = rules(tmp_path, "deny")
    async with served(tmp_path, call(*LIST), say("nothing"), plugin=plugin) as (one, script):
        status, answer = await one.post(path, asked(path))
        assert (status, text_of(path, answer), calls_of(path, answer)) == (200, "nothing", [])
        (row,) = await audited(one, "tool_decided")
        assert row["outcome"] == "deny"
    assert "nobody runs a shell here" in script.requests[1].messages[-1].tool_results[0].text


@BOTH
async def test_after_three_denied_rounds_it_stops_and_names_the_rule(
    path: str, tmp_path: Path
) -> None:
    steps = [call((f"c{number}", "Bash", {"command": "ls"})) for number in range(9)]
    async with served(tmp_path, *steps, plugin=rules(tmp_path, "deny")) as (one, script):
        status, answer = await one.post(path, asked(path))
        assert status == 200
        assert "nobody runs a shell here" in text_of(path, answer)
        assert stop_of(path, answer) == ("stop" if path == CHAT else "end_turn")
        assert calls_of(path, answer) == []
    assert len(script.requests) == 3


@BOTH
async def test_nothing_is_kept_and_two_requests_run_side_by_side(path: str, tmp_path: Path) -> None:
    async with served(tmp_path, say("a"), say("b")) as (one, script):
        headers = {"session-id": "s1"}
        answers = await asyncio.gather(
            *(one.post(path, asked(path), headers=headers) for _ in range(2))
        )
        assert sorted(text_of(path, answer) for _, answer in answers) == ["a", "b"]
        assert (await one.get("/v1/sessions"))[1]["sessions"] == []
    assert {len(request.messages) for request in script.requests} == {1}


# -- who is asked ------------------------------------------------------------------------


async def streamed(one: Served, path: str, body: Mapping[str, Any], **headers: str) -> str:
    async with one.http.post(one.url + path, json=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.text()


@BOTH
@pytest.mark.parametrize("choice", ["allow-once", "deny"])
async def test_a_question_holds_the_stream_until_somebody_answers(
    path: str, choice: str, tmp_path: Path
) -> None:
    steps = (call(*LIST), say("nothing"))
    async with served(tmp_path, *steps, plugin=rules(tmp_path, "ask")) as (one, _):
        body = asked(path, stream=True)
        async with one.http.post(one.url + path, json=body) as answer:
            first = (await answer.content.readline()).decode()
            assert first.startswith(": approval ")
            question = first.removeprefix(": approval ").strip()
            status, _ = await one.post(
                "/v1/operations/approvals.resolve", {"id": question, "decision": choice}
            )
            assert status == 200
            rest = (await answer.content.read()).decode()
        assert ("Bash" in rest) == (choice == "allow-once")
        assert ("nothing" in rest) == (choice == "deny")


@BOTH
async def test_a_question_waits_no_longer_than_the_client(path: str, tmp_path: Path) -> None:
    steps = (call(*LIST), say("nothing"))
    async with served(tmp_path, *steps, plugin=rules(tmp_path, "ask")) as (one, _):
        headers = {"x-stainless-read-timeout": "5.01", "x-stainless-timeout": "NOT_GIVEN"}
        text = await streamed(one, path, asked(path, stream=True), **headers)
        assert "nothing" in text
        assert "Bash" not in text


async def test_batch_clients_are_not_held(tmp_path: Path) -> None:
    plugin = {**rules(tmp_path, "ask"), "compat": {"on_ask": "refuse"}}
    async with served(tmp_path, call(*LIST), say("nothing"), plugin=plugin) as (one, _):
        status, answer = await one.post(CHAT, asked(CHAT))
        assert (status, text_of(CHAT, answer)) == (200, "nothing")


# -- what the client keeps ---------------------------------------------------------------


def answered(path: str, use_id: str) -> list[Any]:
    """A conversation in which a call has come back."""
    user = {"role": "user", "content": "go"}
    if path == CHAT:
        made = {"name": "Bash", "arguments": '{"command":"ls"}'}
        use = {"id": use_id, "type": "function", "function": made}
        result = {"role": "tool", "tool_call_id": use_id, "content": "a.txt"}
        return [user, {"role": "assistant", "content": None, "tool_calls": [use]}, result]
    block = {"type": "tool_use", "id": use_id, "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": use_id, "content": "a.txt"}
    return [
        user,
        {"role": "assistant", "content": [block]},
        {"role": "user", "content": [result]},
    ]


@BOTH
async def test_a_result_is_over_as_decided_only_where_the_call_was_released(
    path: str, tmp_path: Path
) -> None:
    async with served(tmp_path, call(*LIST), say("seen"), say("hm")) as (one, script):
        headers = {"session-id": "s1"}
        await one.post(path, asked(path), headers=headers)
        status, answer = await one.post(path, asked(path, *answered(path, "c1")), headers=headers)
        assert (status, text_of(path, answer)) == (200, "seen")
        assert len(await audited(one, "tool_finished")) == 1
        assert "client:unverified" not in script.requests[1].taint
        await one.post(path, asked(path, *answered(path, "made-up")), headers=headers)
        assert len(await audited(one, "tool_finished")) == 1
        assert "client:unverified" in script.requests[2].taint
        assert len(await audited(one, "tool_unverified")) == 1


@BOTH
async def test_a_shortened_history_washes_nothing_off(path: str, tmp_path: Path) -> None:
    plugin = {"compat": {"on_ask": "refuse"}}
    steps = (say("a"), call(*LIST), say("no"))
    async with served(tmp_path, *steps, plugin=plugin) as (one, _):
        headers = {"x-claude-code-session-id": "s1"}
        await one.post(path, asked(path, *answered(path, "made-up")), headers=headers)
        await one.post(path, asked(path), headers=headers)
        (row,) = await audited(one, "tool_decided")
        assert row["outcome"] == "deny"


# -- errors ------------------------------------------------------------------------------


def error_of(path: str, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    assert path == CHAT or answer["type"] == "error"
    error: Mapping[str, Any] = answer["error"]
    return error


BAD: list[tuple[dict[str, Any], str]] = [
    ({"stream": "yes"}, "stream"),
    ({"messages": []}, "messages"),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools"),
]


@BOTH
@pytest.mark.parametrize(("more", "param"), BAD)
async def test_what_cannot_be_taken_is_the_vendors_400_and_nothing_is_sent(
    path: str, more: dict[str, Any], param: str, tmp_path: Path
) -> None:
    async with (
        served(tmp_path, say("never")) as (one, script),
        one.http.post(one.url + path, json={**asked(path), **more}) as answer,
    ):
        told = error_of(path, await answer.json())
        assert (answer.status, told["param"]) == (400, param)
        assert told["type"] == "invalid_request_error"
        assert answer.headers["x-should-retry"] == "false"
        assert answer.headers["x-request-id"] == answer.headers["request-id"]
    assert script.requests == []


@BOTH
async def test_json_that_two_readers_could_read_differently_is_refused(
    path: str, tmp_path: Path
) -> None:
    deep = '{"a":' * 70 + "1" + "}" * 70
    async with served(tmp_path, say("never")) as (one, _):
        for text in (f'{{"model": "one", "x": {deep}}}', '{"model": 1, "model": 2}', "[", "[]"):
            headers = {"content-type": "application/json"}
            async with one.http.post(one.url + path, data=text, headers=headers) as answer:
                assert answer.status == 400
                assert "body" in error_of(path, await answer.json())["message"]


FAULTS: list[tuple[Any, int, bool]] = [
    ("rate_limited", 429, True),
    ("overloaded", 503, True),
    ("rejected", 400, False),
    ("context_overflow", 400, False),
    ("auth", 502, False),
    ("malformed", 502, False),
    ("unreachable", 502, True),
    ("timeout", 504, True),
]


@BOTH
@pytest.mark.parametrize(("kind", "status", "again"), FAULTS)
async def test_a_failure_upstream_has_the_status_that_its_sdk_knows(
    path: str, kind: Any, status: int, again: bool, tmp_path: Path
) -> None:
    wrong = ProviderError(kind, "it went wrong", provider="script")
    counts = {"x-stainless-retry-count": "0"}
    async with (
        served(tmp_path, [wrong]) as (one, _),
        one.http.post(one.url + path, json=asked(path, stream=True), headers=counts) as answer,
    ):
        told = error_of(path, await answer.json())
        expected = 529 if (status, path) == (503, MESSAGES) else status
        assert (answer.status, "it went wrong" in told["message"]) == (expected, True)
        assert (answer.headers.get("x-should-retry") != "false") == again


@BOTH
async def test_a_failure_in_the_middle_is_told_as_one(path: str, tmp_path: Path) -> None:
    torn = [*say("half")[:1], ProviderError("cut", "it broke off", provider="script")]
    async with served(tmp_path, torn) as (one, _):
        text = await streamed(one, path, asked(path, stream=True))
        assert "half" in text
        assert "[DONE]" not in text
        assert "message_stop" not in text
        last = text.strip().rpartition("data: ")[2]
        assert "it broke off" in error_of(path, json.loads(last))["message"]


@BOTH
async def test_a_body_beyond_32_mib_is_refused_before_it_comes(path: str, tmp_path: Path) -> None:
    async with served(tmp_path) as (one, _):
        head = f"POST {path} HTTP/1.1\r\nHost: {one.host}\r\nContent-Type: application/json\r\n"
        answer = await one.raw(f"{head}Content-Length: {32 * 1024 * 1024 + 1}\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 413")
        assert b'"error"' in answer


async def test_without_a_token_each_path_answers_in_its_vendors_shape(tmp_path: Path) -> None:
    section, made = tokens(ops={"scopes": ["chat"]})
    async with served(tmp_path, say("a"), say("b"), gateway=section) as (one, _):
        for path in (CHAT, MESSAGES, "/openai/v1/nothing", "/anthropic/v1/messages"):
            status, answer = await one.post(path, {})
            assert status in (401, 404)
            assert answer["error"]["message"]
            assert ("request_id" in answer) == ("messages" in path)
        status, answer = await one.post(CHAT, asked(CHAT), **bearer(made["ops"]))
        assert (status, answer["model"]) == (200, "one")
        key = {"x-api-key": made["ops"], "anthropic-version": "2023-06-01"}
        status, answer = await one.post(f"/anthropic{MESSAGES}", asked(MESSAGES), headers=key)
        assert (status, answer["type"]) == (200, "message")


@BOTH
async def test_a_model_that_a_key_may_not_use_is_no_substitute_either(
    path: str, tmp_path: Path
) -> None:
    section, made = tokens(ops={"scopes": ["chat"], "models": ["script/one"]})
    others: dict[str, Any] = {"models": ["one", "two"]}
    if path == MESSAGES:
        others = {"fallbacks": [{"model": "two"}]}
    async with served(tmp_path, say("never"), gateway=section) as (one, script):
        for more in (others, {"fallbacks": "default"} if path == MESSAGES else others):
            body = {**asked(path), **more}
            status, answer = await one.post(path, body, **bearer(made["ops"]))
            assert (status, "could answer instead" in answer["error"]["message"]) == (403, True)
    assert script.requests == []


async def test_models_are_listed_as_each_vendor_does(tmp_path: Path) -> None:
    plugin = {"compat": {"aliases": {"gpt-small": "script/one"}}}
    async with served(tmp_path, say("a"), plugin=plugin) as (one, _):
        _, found = await one.get("/v1/models")
        named = ["agent/main", "gpt-small", "script/one"]
        assert [model["id"] for model in found["data"]] == named
        claude = {"headers": {"anthropic-version": "2023-06-01"}}
        _, found = await one.get("/v1/models/gpt-small", **claude)
        assert (found["type"], found["id"]) == ("model", "gpt-small")
        status, found = await one.get("/anthropic/v1/models/none")
        assert (status, found["error"]["type"]) == (404, "not_found_error")
        _, answer = await one.post(CHAT, asked(CHAT, model="gpt-small"))
        assert answer["model"] == "gpt-small"


async def test_counting_is_never_below_what_a_request_takes(tmp_path: Path) -> None:
    async with served(tmp_path) as (one, _):
        words = "word " * 500
        body = {"model": "one", "messages": [{"role": "user", "content": words}]}
        status, found = await one.post(f"{MESSAGES}/count_tokens", body)
        assert status == 200
        assert found["input_tokens"] >= 500


@BOTH
async def test_a_client_that_goes_away_ends_its_turn(path: str, tmp_path: Path) -> None:
    gone = asyncio.Event()
    async with served(tmp_path, [gone.wait]) as (one, script):
        task = asyncio.ensure_future(one.post(path, asked(path)))
        await until(lambda: bool(script.requests))
        task.cancel()
        await until(lambda: not one.gate.host.running())


@BOTH
async def test_what_a_stopping_gateway_cuts_off_is_sent_again(path: str, tmp_path: Path) -> None:
    held = asyncio.Event()
    async with served(tmp_path, [held.wait]) as (one, script):
        task = asyncio.ensure_future(one.http.post(one.url + path, json=asked(path)))
        await until(lambda: bool(script.requests))
        await one.gate.turns.drain(0.0)
        async with await task as answer:
            assert answer.status == (503 if path == CHAT else 529)
            assert answer.headers["retry-after-ms"] == "1000"
            assert "x-should-retry" not in answer.headers
