"""An agent of the gateway's, asked by other people's clients: what it adds, and what it takes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.integration import test_compat
from tests.integration.test_compat import audited, rules
from tests.support.script import Script, Step, Tools, call, echo_tool, say
from tests.support.wire import Served, bearer, tokens

from hookgate import ProviderError
from hookgate.builtin_plugins.compat.settings import CompatSettings
from hookgate.core.domain.ports import CONVERSATIONS
from hookgate.core.domain.turn import SessionKey

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
WIRES = (CHAT, RESPONSES, MESSAGES)
ALL = pytest.mark.parametrize("path", WIRES)
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
SOUL = "You are the gateway's own."


@asynccontextmanager
async def served(
    home: Path, *steps: Step, plugin: Mapping[str, Any] | None = None, **sections: Any
) -> AsyncIterator[tuple[Served, Script]]:
    agents = {"main": {"model": "script/one", "soul": SOUL}, "other": {"model": "script/one"}}
    tools = Tools(echo_tool("clock"), echo_tool("forbidden_thing"))
    more = {"plugins": [tools], "agents": agents, **sections}
    async with test_compat.served(home, *steps, plugin=plugin, **more) as found:
        yield found


def asked(path: str, text: str = "go", *, model: str = "agent/main", **more: Any) -> dict[str, Any]:
    """A request of a wire, with instructions and a tool of the client's."""
    function = {"name": "Bash", "description": "Runs.", "parameters": SCHEMA}
    said = {"role": "user", "content": text}
    match path:
        case "/v1/chat/completions":
            body = {
                "messages": [{"role": "system", "content": "Be brief."}, said],
                "tools": [{"type": "function", "function": function}],
            }
        case "/v1/responses":
            tools = [{"type": "function", **function}]
            body = {"instructions": "Be brief.", "input": text, "tools": tools}
        case _:
            tools = [{"name": "Bash", "description": "Runs.", "input_schema": SCHEMA}]
            body = {"system": "Be brief.", "max_tokens": 50, "messages": [said], "tools": tools}
    return {"model": model, **body, **more}


def text_of(path: str, answer: Mapping[str, Any]) -> str:
    match path:
        case "/v1/chat/completions":
            return str(answer["choices"][0]["message"]["content"])
        case "/v1/responses":
            parts = [part for one in answer["output"] for part in one.get("content") or ()]
            return "".join(part.get("text", "") for part in parts)
    return "".join(one.get("text", "") for one in answer["content"])


def gone_on(path: str, body: Mapping[str, Any], answer: Mapping[str, Any], *more: Any) -> Any:
    """Return a request with its answer in it, and with what came of the calls in that one."""
    body, told = dict(body), list(more)
    match path:
        case "/v1/chat/completions":
            message = answer["choices"][0]["message"]
            calls = message.get("tool_calls") or []
            results = [
                {"role": "tool", "tool_call_id": one["id"], "content": told.pop(0)} for one in calls
            ]
            said = [{"role": "user", "content": text} for text in told]
            body["messages"] = [*body["messages"], message, *results, *said]
        case "/v1/responses":
            given = body["input"]
            items = [{"role": "user", "content": given}] if isinstance(given, str) else given
            calls = [one for one in answer["output"] if one["type"] == "function_call"]
            results = [
                {"type": "function_call_output", "call_id": one["call_id"], "output": told.pop(0)}
                for one in calls
            ]
            said = [{"role": "user", "content": text} for text in told]
            body["input"] = [*items, *answer["output"], *results, *said]
        case _:
            calls = [one for one in answer["content"] if one["type"] == "tool_use"]
            blocks: list[Any] = [
                {"type": "tool_result", "tool_use_id": one["id"], "content": told.pop(0)}
                for one in calls
            ]
            blocks += [{"type": "text", "text": text} for text in told]
            answered = {"role": "assistant", "content": answer["content"]}
            body["messages"] = [*body["messages"], answered, {"role": "user", "content": blocks}]
    return body


@ALL
async def test_an_agent_answers_with_all_that_it_has(path: str, tmp_path: Path) -> None:
    steps = (call(("c1", "clock", {"text": "noon"})), say("It is noon."))
    async with served(tmp_path, *steps) as (one, script):
        status, answer = await one.post(path, asked(path))
        assert (status, text_of(path, answer)) == (200, "It is noon.")
        assert answer["model"] == "agent/main"
    first, second = script.requests
    # The client's instructions stand below the agent's, and its tools beside.
    assert [piece.text for piece in first.system] == [SOUL, "Be brief."]
    assert {tool.name for tool in first.tools} >= {"Bash", "clock"}
    assert [part.content for part in second.messages[-1].tool_results] == ["noon"]
    # Of what ran here the client sees nothing.
    assert "clock" not in str(answer["choices"] if path == CHAT else answer)


@ALL
async def test_a_call_of_the_clients_own_is_judged_and_handed_over(
    path: str, tmp_path: Path
) -> None:
    steps = (call(("c1", "Bash", {"command": "ls"})), say("There is a.txt."))
    headers = {"headers": {"session-id": "s1"}}
    async with served(tmp_path, *steps) as (one, script):
        body = asked(path)
        _, answer = await one.post(path, body, **headers)
        status, answer = await one.post(path, gone_on(path, body, answer, "a.txt"), **headers)
        assert (status, text_of(path, answer)) == (200, "There is a.txt.")
        decided = await audited(one, "tool_decided")
        assert [(row["tool"], row["outcome"]) for row in decided] == [("Bash", "allow")]
        assert len(await audited(one, "tool_finished")) == 1
        assert await audited(one, "tool_unverified") == []
    assert [part.content for part in script.requests[1].messages[-1].tool_results] == ["a.txt"]


@ALL
async def test_a_denied_call_is_never_seen(path: str, tmp_path: Path) -> None:
    steps = (call(("c1", "Bash", {"command": "rm"})), say("I may not."))
    async with served(tmp_path, *steps, plugin=rules(tmp_path, "deny")) as (one, _):
        status, answer = await one.post(path, asked(path))
        assert (status, text_of(path, answer)) == (200, "I may not.")


@ALL
async def test_a_model_whose_calls_are_denied_is_stopped_and_one_that_looks_around_is_not(
    path: str, tmp_path: Path
) -> None:
    looks = [call((f"l{at}", "clock", {"text": "x"})) for at in range(3)]
    denied = [call((f"d{at}", "Bash", {"command": "rm"})) for at in range(3)]
    steps = (*looks, *denied, say("never"))
    async with served(tmp_path, *steps, plugin=rules(tmp_path, "deny")) as (one, script):
        status, answer = await one.post(path, asked(path))
        assert (status, "nobody runs a shell here" in text_of(path, answer)) == (200, True)
    assert len(script.requests) == 6


@ALL
@pytest.mark.parametrize("ran", [True, False], ids=["behind a tool", "at once"])
async def test_what_fails_is_tried_again_here_alone(path: str, ran: bool, tmp_path: Path) -> None:
    full = ProviderError("overloaded", "it is full", provider="script")
    # What the gateway has tried again, and what would run a tool once more, no client is to.
    late = ProviderError("overloaded", "it is full", provider="script", retry_after=600)
    steps = (call(("c1", "clock", {"text": "noon"})), [late]) if ran else ([full], [full])
    counts = {"x-stainless-retry-count": "0"}
    async with (
        served(tmp_path, *steps) as (one, script),
        one.http.post(one.url + path, json=asked(path), headers=counts) as answer,
    ):
        assert answer.status in (503, 529)
        assert answer.headers["x-should-retry"] == "false"
    assert len(script.requests) == 2


@ALL
async def test_the_client_keeps_the_conversation_and_the_gateway_too(
    path: str, tmp_path: Path
) -> None:
    async with served(tmp_path, say("Hello Ann."), say("Ann.")) as (one, script):
        body = asked(path, "I am Ann.")
        _, answer = await one.post(path, body)
        body = gone_on(path, body, answer, "Who am I?")
        _, answer = await one.post(path, body, headers={"session-id": "s1"})
        key = SessionKey("main", "compat", "loopback", "s1")
        kept = await one.gate.host[CONVERSATIONS].history(key, turns=5)
        assert [message.text for message in kept] == ["Who am I?", "Ann."]
    said = [message.text for message in script.requests[1].messages]
    assert said == ["I am Ann.", "Hello Ann.", "Who am I?"]


async def test_a_conversation_that_is_named_is_kept_here(tmp_path: Path) -> None:
    steps = (say("Hello Ann."), call(("c1", "Bash", {"command": "ls"})), say("Done."), say("Who?"))
    async with served(tmp_path, *steps) as (one, script):
        for conversation, text in (("c", "I am Ann."), ({"id": "c"}, "List.")):
            body = asked(RESPONSES, text, conversation=conversation)
            assert (await one.post(RESPONSES, body))[0] == 200
        result = {"type": "function_call_output", "call_id": "c1", "output": "a.txt"}
        body = asked(RESPONSES, conversation="c") | {"input": [result]}
        assert (await one.post(RESPONSES, body))[0] == 200
        assert await audited(one, "tool_unverified") == []
        await one.post(RESPONSES, asked(RESPONSES, "Who am I?", conversation="another"))
        said = {"role": "assistant", "content": "I said so."}
        body = asked(RESPONSES, conversation="c") | {"input": [said]}
        status, answer = await one.post(RESPONSES, body)
        assert (status, answer["error"]["param"]) == (400, "input")
        body = asked(RESPONSES, conversation="c", model="one")
        status, answer = await one.post(RESPONSES, body)
        assert (status, answer["error"]["param"]) == (400, "conversation")
    said = [message.text for message in script.requests[2].messages]
    assert said == ["I am Ann.", "Hello Ann.", "List.", "", ""]
    assert [message.text for message in script.requests[3].messages] == ["Who am I?"]


async def test_an_agent_is_asked_by_who_may_choose_and_no_further_than_their_agents(
    tmp_path: Path,
) -> None:
    section, made = tokens(
        plain={"scopes": ["chat"]},
        named={"scopes": ["chat"], "agents": ["o*"]},
        boss={"scopes": ["chat", "operate"]},
    )
    allowed = {"plain": ["main"], "named": ["other"], "boss": ["main", "other"]}
    plugin = {"compat": {"aliases": {"helper": {"mode": "agent", "agent": "other"}}}}
    steps = [say("ok")] * 10
    async with served(tmp_path, *steps, gateway=section, plugin=plugin) as (one, _):
        for who, agents in allowed.items():
            _, found = await one.get("/v1/models", **bearer(made[who]))
            names = [model["id"] for model in found["data"]]
            assert names == [*(f"agent/{name}" for name in agents), "helper", "script/one"], who
            for name in ("main", "other"):
                body = asked(CHAT, model=f"agent/{name}")
                status, _ = await one.post(CHAT, body, **bearer(made[who]))
                assert status == (200 if name in agents else 404), (who, name)
            # What an alias means is the operator's word.
            status, _ = await one.post(CHAT, asked(CHAT, model="helper"), **bearer(made[who]))
            assert status == 200


async def test_what_an_agent_cannot_take_is_refused_by_name(tmp_path: Path) -> None:
    clock = {"name": "Clock", "description": "", "input_schema": SCHEMA}
    wrong: list[tuple[str, dict[str, Any], str]] = [
        (CHAT, {"prediction": {"type": "content"}}, "prediction"),
        (MESSAGES, {"context_management": {}}, "context_management"),
        (MESSAGES, {"tools": [{"type": "web_search_20260209", "name": "web_search"}]}, "tools"),
        (MESSAGES, {"system": "word " * 2000}, "system"),
        (MESSAGES, {"tools": [clock]}, "'clock'"),
        (CHAT, {"messages": [{"role": "assistant", "content": "I"}]}, "assistant"),
        (CHAT, {"model": "agent/nobody"}, "agent/main"),
        (RESPONSES, {"previous_response_id": "resp_1"}, "previous_response_id"),
    ]
    async with served(tmp_path, say("never")) as (one, script):
        for path, more, named in wrong:
            status, answer = await one.post(path, {**asked(path), **more})
            assert (status // 100, named in str(answer["error"])) == (4, True), (more, answer)
    assert script.requests == []


async def test_a_system_message_in_the_middle_is_one_of_the_clients_instructions(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, say("ok")) as (one, script):
        body = asked(CHAT)
        body["messages"].insert(2, {"role": "developer", "content": "In French."})
        body["messages"].append({"role": "user", "content": "now"})
        assert (await one.post(CHAT, body))[0] == 200
    assert [piece.text for piece in script.requests[0].system] == [SOUL, "Be brief.\n\nIn French."]


async def test_the_mode_is_the_keys_and_a_request_only_narrows_it(tmp_path: Path) -> None:
    section, made = tokens(ops={"scopes": ["chat"]})
    aliases = {
        "helper": {"mode": "agent", "agent": "main"},
        "timed": {"to": "script/one", "mode": "assist", "tools": ["clock"]},
    }
    lost = {"lost": {"mode": "agent", "agent": "nobody"}}
    plugin = {"compat": {"aliases": aliases}}
    async with served(tmp_path, *[say("ok")] * 4, plugin=plugin, gateway=section) as (one, script):

        async def ask(model: str, mode: str) -> tuple[int, str]:
            headers = bearer(made["ops"])["headers"] | ({"x-hookgate-mode": mode} if mode else {})
            status, answer = await one.post(CHAT, asked(CHAT, model=model), headers=headers)
            return status, str(answer.get("error", {}).get("message", ""))

        for model, mode in (("helper", ""), ("timed", "assist"), ("timed", "guard")):
            assert await ask(model, mode) == (200, "")
        assert "clock" in {tool.name for tool in script.requests[1].tools}
        assert {tool.name for tool in script.requests[2].tools} == {"Bash"}
        # As a reload may bring it: a start with it fails.
        later = {"openai": "script", "anthropic": "script", "aliases": {**aliases, **lost}}
        compat: Any = one.gate.plugins.get("compat")
        compat.take_settings(CompatSettings.model_validate(later))
        for model, mode, expected in (
            ("one", "agent", "only narrow"),
            ("timed", "agent", "only narrow"),
            ("helper", "guard", "is an agent"),
            ("one", "everything", "expected one of guard, assist, agent"),
            ("lost", "", "finds no agent"),
        ):
            status, told = await ask(model, mode)
            assert (status // 100, expected in told) == (4, True), (model, mode, told)
        _, found = await one.get("/v1/models", **bearer(made["ops"]))
        names = [model["id"] for model in found["data"]]
        assert names == ["agent/main", "helper", "script/one", "timed"]
    assert len(script.requests) == 3
