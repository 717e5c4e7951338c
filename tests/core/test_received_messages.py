"""Before anything is kept, and before a model is asked: `receive_message`, and an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.core.test_call_tool import BOB, HOME, SCHEDULE, SESSION, made
from tests.support.script import (
    Allow,
    Events,
    Recorder,
    Script,
    Scripted,
    Tools,
    echo_tool,
    gateway,
    say,
    settled,
)
from tests.support.wire import serving

from hookgate import (
    CONVERSATIONS,
    Host,
    Message,
    Refusal,
    Turn,
    TurnAnswer,
    TurnError,
    TurnRequest,
    hookimpl,
)
from hookgate.core.domain.messages import ToolUse


class Masks:
    def __init__(self, name: str, change: Callable[[str], str]) -> None:
        self.name, self.change = name, change

    @hookimpl
    def receive_message(self, turn: Turn, message: Message) -> Message | None:
        return message.with_texts(self.change)


class Sees:
    name = "sees"

    def __init__(self) -> None:
        self.texts: list[str] = []

    @hookimpl
    def before_turn(self, turn: Turn) -> None:
        self.texts.append(turn.message.text)


async def turned(host: Host, text: str, **more: Any) -> Turn:
    request = TurnRequest(content=text, address=HOME, **more)
    return await host.start_turn(BOB, SCHEDULE, request, sink=Events()).wait()


async def kept(host: Host) -> list[str]:
    return [message.text for message in await host[CONVERSATIONS].history(SESSION, turns=9)]


async def test_what_plugins_make_of_a_message_takes_its_place_everywhere() -> None:
    script, sees = Script(say("ok")), Sees()
    first = Masks("first", lambda text: text.replace("4111", "[card]"))
    second = Masks("second", lambda text: text.replace("Ann", "[name]"))
    async with gateway(Scripted(script), first, second, sees) as gate:
        turn = await turned(gate.host, "I am Ann, 4111", taint=frozenset({"mail:eve"}))
        assert await kept(gate.host) == ["I am [name], [card]", "ok"]
    assert sees.texts == ["I am [name], [card]"]
    assert script.requests[0].messages[-1].text == "I am [name], [card]"
    assert turn.message.text == "I am [name], [card]"
    assert turn.message.taint == {"mail:eve"}


async def test_who_said_it_and_its_taint_cannot_be_changed() -> None:
    class Forges:
        @hookimpl
        def receive_message(self, turn: Turn, message: Message) -> Message:
            return Message(role="assistant", parts=message.parts, principal="somebody else")

    async with gateway(Scripted(Script(say("ok"))), Forges()) as gate:
        turn = await turned(gate.host, "hi", taint=frozenset({"mail:eve"}))
    assert (turn.message.role, turn.message.principal) == ("user", "bob")
    assert turn.message.taint == {"mail:eve"}
    assert turn.message.turn == turn.id


@pytest.mark.parametrize("how", ["refuses", "raises", "forges"])
async def test_what_is_refused_or_cannot_be_looked_at_is_not_kept(how: str) -> None:
    class Guards:
        @hookimpl
        def receive_message(self, turn: Turn, message: Message) -> Message | Refusal:
            if how == "raises":
                raise OSError("no list")
            if how == "forges":
                use = ToolUse(id="c", name="echo", input={})
                return Message(role="user", parts=(use,))
            return Refusal(code="private", message="That is nothing for here.")

    script, recorder = Script(say("ok")), Recorder()
    async with gateway(Scripted(script), Guards(), recorder) as gate:
        with pytest.raises(TurnError) as refused:
            await turned(gate.host, "4111")
        await settled(gate)
        assert await kept(gate.host) == []
    assert refused.value.code == ("private" if how == "refuses" else "hook_failed")
    assert script.requests == []
    assert recorder.turns == []


async def test_a_client_of_the_wire_is_told_of_the_refusal() -> None:
    class Guards:
        @hookimpl
        def receive_message(self, turn: Turn, message: Message) -> Refusal:
            return Refusal(code="private", message="That is nothing for here.")

    async with serving(Scripted(Script(say("ok"))), Guards()) as served:
        status, body = await served.post("/v1/turns", {"content": "4111"})
    assert status >= 400
    assert body["error"]["data"]["code"] == "private"
    assert "nothing for here" in body["error"]["message"]


# -- an answer in a model's place ------------------------------------------------------------


class Answers:
    name = "answers"

    def __init__(self, *answers: TurnAnswer | Refusal | None) -> None:
        self.answers = list(answers)

    @hookimpl
    def before_turn(self, turn: Turn) -> TurnAnswer | Refusal | None:
        return self.answers.pop(0) if self.answers else None


async def test_a_plugin_answers_and_no_model_is_asked() -> None:
    script, recorder, events = Script(say("from the model")), Recorder(), Events()
    answers = Answers(TurnAnswer("We open at nine.", frozenset({"cache:old"})))
    async with gateway(Scripted(script), answers, recorder) as gate:
        request = TurnRequest(content="when do you open?", address=HOME)
        turn = await gate.host.start_turn(BOB, SCHEDULE, request, sink=events).wait()
        await settled(gate)
        assert await kept(gate.host) == ["when do you open?", "We open at nine."]
        assert await gate.host[CONVERSATIONS].taint(SESSION, turns=5) == {"cache:old"}
        second = await turned(gate.host, "and where?")
    assert (turn.answer, turn.ending) == ("We open at nine.", "done")
    assert second.answer == "from the model"
    assert len(script.requests) == 1
    assert [one.data["text"] for one in events if one.type == "text"] == ["We open at nine."]
    assert events.types()[-1] == "done"
    assert recorder.turns[0] is turn


@pytest.mark.parametrize("order", [1, -1])
async def test_a_refusal_beats_an_answer_of_anybody(order: int) -> None:
    class Refuses:
        name = "refuses"

        @hookimpl
        def before_turn(self, turn: Turn) -> Refusal:
            return Refusal(code="closed", message="Closed.")

    both = [Answers(TurnAnswer("We are open.")), Refuses()][::order]
    async with gateway(Scripted(Script(say("x"))), *both) as gate:
        turn = await turned(gate.host, "hi")
    assert (turn.ending, turn.error and turn.error.code) == ("refused", "closed")
    assert turn.answer == ""


async def test_an_answer_means_nothing_to_a_call_without_a_model() -> None:
    answers = Answers(TurnAnswer("We open at nine."))
    async with gateway(Allow(), Tools(echo_tool()), answers) as gate:
        finished = await made(gate.host)
    assert finished.result.content == "hey"


async def test_a_cancelled_turn_is_not_answered() -> None:
    began = asyncio.Event()

    class Slow:
        @hookimpl
        async def before_turn(self, turn: Turn) -> TurnAnswer:
            began.set()
            await asyncio.Event().wait()
            return TurnAnswer("late")

    async with gateway(Scripted(Script(say("x"))), Slow()) as gate:
        handle = gate.host.start_turn(BOB, SCHEDULE, TurnRequest(content="hi", address=HOME))
        await began.wait()
        handle.cancel("enough")
        turn = await handle.wait()
    assert (turn.ending, turn.answer) == ("cancelled", "")
