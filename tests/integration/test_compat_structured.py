"""Answers in the form that an agent's client has asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_compat_agent import ALL, CHAT, MESSAGES, asked, gone_on, served, text_of
from tests.support.script import USAGE, call, say
from tests.support.wire import Served

from hookgate import TextDelta

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "name": "person", "schema": SCHEMA}
GOOD, BAD = '{"name": "Ann"}', '{"nme": "Ann"}'


def formed(path: str, schema: Any = SCHEMA, **more: Any) -> dict[str, Any]:
    """A request for an answer in a form."""
    shape = {**FORMAT, "schema": schema}
    match path:
        case "/v1/chat/completions":
            inner = {"name": "person", "schema": schema}
            form: dict[str, Any] = {
                "response_format": {"type": "json_schema", "json_schema": inner}
            }
        case "/v1/responses":
            form = {"text": {"format": shape}}
        case _:
            form = {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
    return {**asked(path), **form, **more}


async def streamed(one: Served, path: str, body: Any) -> str:
    async with one.http.post(one.url + path, json={**body, "stream": True}) as answer:
        return await answer.text()


@ALL
async def test_an_answer_that_fits_is_the_answer(path: str, tmp_path: Path) -> None:
    async with served(tmp_path, say(GOOD)) as (one, script):
        _, answer = await one.post(path, formed(path))
        assert text_of(path, answer) == GOOD
    assert len(script.requests) == 1
    assert script.requests[0].parameters.response_format == SCHEMA


@ALL
async def test_what_is_said_on_the_way_to_it_is_no_part_of_it(path: str, tmp_path: Path) -> None:
    steps = ([TextDelta("I look."), *call(("h1", "clock", {"text": "noon"}))], say(GOOD))
    async with served(tmp_path, *steps, say("I said Ann.")) as (one, script):
        body = formed(path)
        _, answer = await one.post(path, body)
        assert text_of(path, answer) == GOOD
        more = {name: one for name, one in body.items() if name in asked(path)}
        await one.post(path, gone_on(path, more, answer, "Who?"))
    texts = [message.text for message in script.requests[2].messages]
    assert texts == ["go", "I look.", "", GOOD, "Who?"]


@ALL
async def test_one_that_does_not_is_asked_for_once_more_and_never_seen(
    path: str, tmp_path: Path
) -> None:
    async with served(tmp_path, say(BAD), say(GOOD), say("I said Ann.")) as (one, script):
        body = formed(path)
        _, answer = await one.post(path, body)
        assert (text_of(path, answer), "nme" in str(answer)) == (GOOD, False)
        usage = answer["usage"]
        # The client pays for both.
        assert usage.get("output_tokens", usage.get("completion_tokens")) == 2 * USAGE.output_tokens
        more = {name: one for name, one in body.items() if name in asked(path)}
        await one.post(path, gone_on(path, more, answer, "Who?"))
    again = script.requests[1].messages
    assert [message.text for message in again[:2]] == ["go", BAD]
    assert "name" in again[2].text
    # What was hidden is in its place when the history returns.
    assert [message.text for message in script.requests[2].messages][1::2] == [BAD, GOOD]


@ALL
async def test_one_that_does_not_fit_twice_is_an_error(path: str, tmp_path: Path) -> None:
    async with served(tmp_path, say(BAD), say("no JSON"), say(BAD), say(BAD)) as (one, _):
        status, answer = await one.post(path, formed(path))
        assert (status, "twice" in str(answer["error"])) == (502, True)
        text = await streamed(one, path, formed(path))
        assert ("twice" in text, "Ann" in text) == (True, False)


@ALL
async def test_a_call_of_the_clients_is_no_answer_yet(path: str, tmp_path: Path) -> None:
    async with served(tmp_path, call(("c1", "Bash", {"command": "ls"}))) as (one, script):
        status, answer = await one.post(path, formed(path))
        assert (status, "Bash" in str(answer)) == (200, True)
    assert len(script.requests) == 1


@pytest.mark.parametrize(
    ("path", "more", "named"),
    [
        (CHAT, {"schema": {"type": "string"}}, "response_format"),
        (CHAT, {"schema": {"type": "object", "properties": 1}}, "response_format"),
        (CHAT, {"tool_choice": {"type": "function", "function": {"name": "clock"}}}, "Bash"),
        (CHAT, {"tool_choice": "required", "tools": []}, "none"),
        (MESSAGES, {"tool_choice": {"type": "tool", "name": "clock"}}, "tool_choice"),
    ],
)
async def test_what_cannot_be_held_is_refused(
    path: str, more: dict[str, Any], named: str, tmp_path: Path
) -> None:
    async with served(tmp_path, say("never")) as (one, script):
        body = formed(path, more.pop("schema")) if "schema" in more else {**asked(path), **more}
        status, answer = await one.post(path, body)
        assert (status, named in str(answer["error"])) == (400, True), answer
    assert script.requests == []
