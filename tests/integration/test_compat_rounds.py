"""What clients are not shown of an answer: it is back in its place when their history returns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.providers.raw import Wire
from tests.clients.faults import PATHS, WIRES, frames
from tests.clients.faults import body as body_of
from tests.clients.upstream import Call, Say
from tests.integration.test_compat import audited, rules
from tests.integration.test_compat_agent import (
    ALL,
    CHAT,
    MESSAGES,
    RESPONSES,
    asked,
    gone_on,
    served,
    text_of,
)
from tests.integration.test_compat_faults import served as upstream_of
from tests.support.script import call, say
from tests.support.wire import Served, bearer, tokens

from hookgate import STORE, Message, ModelEvent, Opaque, OpaqueDelta, TextDelta
from hookgate.builtin_plugins.compat.kept.tables import HiddenRound
from hookgate.builtin_plugins.compat.wires.chat_writer import fold as fold_chat
from hookgate.builtin_plugins.compat.wires.messages_writer import fold as fold_messages
from hookgate.builtin_plugins.compat.wires.responses_writer import fold as fold_responses

TIMED = {"to": "script/one", "mode": "assist", "tools": ["clo*"]}
ASSIST = {"compat": {"aliases": {"timed": TIMED}}}
LOOK = ("h1", "clock", {"text": "noon"})
RUN = ("c1", "Bash", {"command": "ls"})


def told(message: Message) -> Any:
    """A message in short."""
    if message.tool_uses:
        return [use.name for use in message.tool_uses]
    if message.tool_results:
        return {part.tool_use_id: part.content for part in message.tool_results}
    return message.text


@ALL
async def test_a_tool_of_the_gateways_runs_unseen_and_the_model_remembers(
    path: str, tmp_path: Path
) -> None:
    steps = (call(LOOK), say("It is noon."), say("I have said so."))
    async with served(tmp_path, *steps, plugin=ASSIST) as (one, script):
        body = asked(path, model="timed")
        status, answer = await one.post(path, body)
        assert (status, text_of(path, answer)) == (200, "It is noon.")
        assert "h1" not in str(answer)
        status, _ = await one.post(path, gone_on(path, body, answer, "And now?"))
        assert status == 200
        assert await audited(one, "tool_unverified") == []
        assert len(await audited(one, "tool_finished")) == 1
    assert [tool.name for tool in script.requests[0].tools] == ["Bash", "clock"]
    messages = [told(message) for message in script.requests[2].messages]
    assert messages == ["go", ["clock"], {"h1": "noon"}, "It is noon.", "And now?"]


FOLDS = {CHAT: fold_chat, RESPONSES: fold_responses, MESSAGES: fold_messages}


async def shown(one: Served, path: str, body: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the text of an answer as the client reads it, and the answer."""
    async with one.http.post(one.url + path, json=body) as answer:
        assert answer.status == 200, await answer.text()
        if not body.get("stream"):
            whole = await answer.json()
        else:
            lines = (await answer.text()).split("\n")
            data = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
            whole = FOLDS[path](map(json.loads, data))
    return text_of(path, whole), whole


HOW = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@ALL
@HOW
@pytest.mark.parametrize("model", ["timed", "agent/main"])
async def test_what_was_said_in_several_rounds_stands_apart(
    model: str, stream: bool, path: str, tmp_path: Path
) -> None:
    looks = [TextDelta("I will look."), *call(LOOK)]
    steps = (looks, [TextDelta("It"), *say(" is 5.")], say("So it is."))
    async with served(tmp_path, *steps, plugin=ASSIST) as (one, script):
        body = asked(path, model=model, stream=stream)
        text, answer = await shown(one, path, body)
        assert text == "I will look.\n\nIt is 5."
        # It is known again all the same.
        await shown(one, path, gone_on(path, body, answer, "Sure?"))
    messages = [told(message) for message in script.requests[2].messages]
    assert messages[-3:] == [{"h1": "noon"}, "It is 5.", "Sure?"]


@HOW
@pytest.mark.parametrize("wire", WIRES)
async def test_so_it_does_where_the_upstream_speaks_the_clients_wire(
    wire: str, stream: bool, tmp_path: Path
) -> None:
    answers = [frames(wire, Say("I will look."), Call("weather", {})), frames(wire, Say("No."))]
    async with upstream_of(tmp_path, wire, deny=["weather"]) as (one, upstream):

        async def script(connection: Wire) -> None:
            await connection.chunks(*answers.pop(0))

        upstream.script = script
        text, _ = await shown(one, PATHS[wire], body_of(wire, f"{wire}/x", stream=stream))
    assert text == "I will look.\n\nNo."


@ALL
@HOW
async def test_what_the_gateway_says_of_denials_stands_apart_too(
    stream: bool, path: str, tmp_path: Path
) -> None:
    steps = [[TextDelta("So."), *call((f"c{at}", *RUN[1:]))] for at in range(3)]
    async with served(tmp_path, *steps, plugin=rules(tmp_path, "deny")) as (one, _):
        text, _ = await shown(one, path, asked(path, model="one", stream=stream))
    assert text.startswith("So.\n\nSo.\n\nSo.\n\nStopped by the gateway")


@ALL
@HOW
async def test_no_white_space_is_added_to_some(stream: bool, path: str, tmp_path: Path) -> None:
    steps = ([TextDelta("I look: "), *call(LOOK)], [*call(LOOK)], say("\n5"))
    async with served(tmp_path, *steps, plugin=ASSIST) as (one, _):
        text, _ = await shown(one, path, asked(path, model="timed", stream=stream))
    assert text == "I look: \n5"


@ALL
@pytest.mark.parametrize("model", ["timed", "agent/main"])
async def test_a_message_that_calls_tools_of_both_sides_is_whole_again(
    model: str, path: str, tmp_path: Path
) -> None:
    steps = (call(LOOK, RUN), say("Done."), say("And done."))
    async with served(tmp_path, *steps, plugin=ASSIST) as (one, script):
        body = asked(path, model=model)
        _, answer = await one.post(path, body)
        assert ("c1" in str(answer), "h1" in str(answer)) == (True, False)
        body = gone_on(path, body, answer, "a.txt", "Go on.")
        status, answer = await one.post(path, body)
        assert (status, text_of(path, answer)) == (200, "Done.")
        status, _ = await one.post(path, gone_on(path, body, answer, "More."))
        assert status == 200
        # It was released in the session that the answer is known by.
        assert await audited(one, "tool_unverified") == []
        assert len(await audited(one, "tool_finished")) == 2
    for number, more in ((1, []), (2, ["Done.", "More."])):
        told_again: list[Any] = []
        for message in map(told, script.requests[number].messages):
            if isinstance(message, dict) and isinstance(told_again[-1], dict):
                message |= told_again.pop()
            told_again.append(message)
        whole = [["clock", "Bash"], {"h1": "noon", "c1": "a.txt"}, "Go on."]
        assert [one for one in told_again if one != "go"] == [*whole, *more]


@ALL
async def test_a_denial_is_remembered_in_guard_too(path: str, tmp_path: Path) -> None:
    steps = (call(RUN), say("I may not."), say("As I said."))
    plugin = rules(tmp_path, "deny")
    async with served(tmp_path, *steps, plugin=plugin) as (one, script):
        body = asked(path, model="one")
        _, answer = await one.post(path, body)
        await one.post(path, gone_on(path, body, answer, "Why?"))
    go, calls, denied, *rest = [told(message) for message in script.requests[2].messages]
    assert (go, calls, rest) == ("go", ["Bash"], ["I may not.", "Why?"])
    assert "nobody runs a shell here" in denied["c1"]


@ALL
async def test_it_is_in_no_other_conversation_and_nobody_elses(path: str, tmp_path: Path) -> None:
    section, made = tokens(ann={"scopes": ["chat"]}, bob={"scopes": ["chat"]})
    steps = (call(LOOK), say("Yes."), *[say("ok")] * 3)
    async with served(tmp_path, *steps, plugin=ASSIST, gateway=section) as (one, script):
        body = asked(path, "Is it noon?", model="timed")
        _, answer = await one.post(path, body, **bearer(made["ann"]))
        mine = gone_on(path, body, answer, "Sure?")
        other = gone_on(path, asked(path, "Is it late?", model="timed"), answer, "Sure?")
        for who, sent in (("bob", mine), ("ann", other), ("ann", mine)):
            assert (await one.post(path, sent, **bearer(made[who])))[0] == 200
    found = [["clock"] in map(told, one.messages) for one in script.requests[2:]]
    assert found == [False, False, True]


def thought(number: int) -> ModelEvent:
    return OpaqueDelta(Opaque(provider="script", data={"type": "thinking", "number": number}))


async def test_what_a_clients_wire_has_no_place_for_comes_back_to_its_provider(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, [thought(1), *say("Hm.")], say("ok")) as (one, script):
        body = asked(CHAT, model="one")
        _, answer = await one.post(CHAT, body)
        await one.post(CHAT, gone_on(CHAT, body, answer, "And?"))
    parts = script.requests[1].messages[1].parts
    assert [part.data["number"] for part in parts if isinstance(part, Opaque)] == [1]


async def test_after_a_day_it_is_lost_and_what_cannot_go_on_is_told_to_begin_anew(
    tmp_path: Path,
) -> None:
    steps = (call(LOOK), say("Noon."), call(LOOK, RUN), say("Well."))
    async with served(tmp_path, *steps, plugin=ASSIST) as (one, script):
        clock, script.wire = one.gate.host.clock, "anthropic-messages"
        thinks = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4000}
        body = asked(MESSAGES, model="timed", **thinks)
        _, answer = await one.post(MESSAGES, body)
        block = {"type": "thinking", "thinking": "", "signature": "of two rounds"}
        answer["content"].insert(0, block)
        body = gone_on(MESSAGES, body, answer, "List.")
        _, listed = await one.post(MESSAGES, body)
        listed["content"].insert(0, block)
        now = clock.now()
        clock.now = lambda: now + timedelta(hours=25)
        in_round = gone_on(MESSAGES, body, listed, "a.txt")
        status, error = await one.post(MESSAGES, in_round)
        assert (status, "begin a new conversation" in str(error)) == (409, True)
        status, _ = await one.post(MESSAGES, {**in_round, "thinking": {"type": "disabled"}})
        assert status == 200
    messages = script.requests[-1].messages
    assert [told(message) for message in messages] == [
        "go", "Noon.", "List.", ["Bash"], {"c1": "a.txt"},
    ]  # fmt: skip
    assert not any(isinstance(part, Opaque) for one in messages for part in one.parts)


async def test_what_is_not_to_be_stored_is_kept_in_the_process_alone(tmp_path: Path) -> None:
    steps = (call(LOOK), say("Noon."), say("Yes."), call(LOOK), say("Noon."))
    async with served(tmp_path, *steps, plugin=ASSIST) as (one, script):
        body = asked(RESPONSES, model="timed", store=False)
        _, answer = await one.post(RESPONSES, body)
        await one.post(RESPONSES, gone_on(RESPONSES, body, answer, "Sure?"))
        rows = HiddenRound.records(one.gate.host[STORE])
        assert await rows.all() == []
        body = asked(RESPONSES, model="timed")
        await one.post(RESPONSES, body)
        assert len(await rows.all()) == 1
    assert ["clock"] in [told(message) for message in script.requests[2].messages]
