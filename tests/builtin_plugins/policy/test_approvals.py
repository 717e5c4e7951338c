from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.builtin_plugins.turns import TurnedClock, make_call, make_turn

from hookgate.builtin_plugins.policy.desk.approvals import Approvers, Inbox, binding
from hookgate.builtin_plugins.policy.settings import ApprovalSettings
from hookgate.core.domain.errors import TurnError
from hookgate.core.domain.tools import Ask, Effect
from hookgate.core.domain.turn import Address, Claim, Principal
from hookgate.sessions import InProcessQuestions

if TYPE_CHECKING:
    from hookgate.core.domain.events import Event
    from hookgate.core.domain.tools import Decision, ToolCall
    from hookgate.core.domain.turn import Turn

OWNER = Principal.owner("ops")
ASK = Ask(title="May act run?", description="why", timeout=30)


class Desk:
    """An inbox with somebody who sees its events."""

    def __init__(self, **more: Any) -> None:
        self.events: list[Event] = []
        self.inbox = Inbox(
            TurnedClock(), Approvers(ApprovalSettings()), InProcessQuestions(), **more
        )
        self.turn = make_turn(sink=self.events.append)
        self.asked: asyncio.Task[Decision]

    async def ask(self, call: ToolCall | None = None, ask: Ask = ASK) -> dict[str, Any]:
        before = len(self.events)
        waits = self.inbox.ask(self.turn, call or make_call(arguments={"a": 1}), ask)
        self.asked = asyncio.create_task(waits)
        # One pass of the loop: the question is emitted before its first wait.
        await asyncio.sleep(0)
        return dict(self.events[before].data) if len(self.events) > before else {}


@pytest.mark.parametrize(
    ("choice", "effect", "state"),
    [("allow-once", Effect.ALLOW, "allowed"), ("deny", Effect.DENY, "denied")],
)
async def test_answer_decides_and_is_announced(choice: Any, effect: Effect, state: str) -> None:
    desk = Desk()
    shown = await desk.ask()
    await desk.inbox.resolve(OWNER, shown["id"], choice, digest=shown["digest"])
    decision = await desk.asked
    assert (decision.effect, decision.by) == (effect, "ops")
    assert [event.data["state"] for event in desk.events] == ["pending", state]
    assert {event.type for event in desk.events} == {"approval"}
    assert {event.turn for event in desk.events} == {desk.turn.id}
    assert len(desk.inbox) == 0


async def test_every_byte_of_the_call_is_shown() -> None:
    desk = Desk()
    hidden = "safe\u202etxt.exe\u200b"
    call = make_call("act", arguments={"b": hidden, "a": [1, None]}, description="Acts.")
    shown = await desk.ask(call)
    assert shown["arguments"] == {"a": [1, None], "b": hidden}
    assert "\\u202e" in shown["arguments_text"]
    assert "\\u200b" in shown["arguments_text"]
    assert json.loads(shown["arguments_text"]) == shown["arguments"]
    assert (shown["tool"], shown["tool_description"]) == ("act", "Acts.")
    assert (shown["title"], shown["description"]) == ("May act run?", "why")
    assert shown["expires"] == "2024-02-29T12:00:30+00:00"
    assert (await desk.inbox.waiting(OWNER))[0].text["digest"] == shown["digest"]
    desk.asked.cancel()


async def test_answer_is_used_up_by_its_call() -> None:
    desk = Desk()
    shown = await desk.ask()
    await desk.inbox.resolve(OWNER, shown["id"], "allow-once")
    with pytest.raises(TurnError, match="no question") as caught:
        await desk.inbox.resolve(OWNER, shown["id"], "deny")
    assert caught.value.code == "not_found"
    assert (await desk.asked).allowed
    again = await desk.ask()
    assert again["id"] != shown["id"]
    assert not desk.asked.done()
    desk.asked.cancel()


async def test_of_racing_answers_one_wins() -> None:
    desk = Desk()
    shown = await desk.ask()
    won: list[str] = []

    async def answer(number: int) -> None:
        await asyncio.sleep(0)
        try:
            await desk.inbox.resolve(
                Principal.owner(f"p{number}"), shown["id"], "deny" if number % 2 else "allow-once"
            )
        except TurnError:
            return
        won.append(f"p{number}")

    await asyncio.gather(*(answer(number) for number in range(50)))
    assert len(won) == 1
    assert (await desk.asked).by == won[0]


async def test_nobodys_answer_in_time_is_a_denial() -> None:
    desk = Desk()
    shown = await desk.ask(ask=replace(ASK, timeout=0.01))
    decision = await desk.asked
    assert decision.effect is Effect.DENY
    assert "Nobody answered within 0.01 s" in decision.reason
    assert desk.events[-1].data["state"] == "expired"
    with pytest.raises(TurnError, match="no question"):
        await desk.inbox.resolve(OWNER, shown["id"], "allow-once")


async def test_cancelled_turn_takes_its_question_away() -> None:
    desk = Desk()
    shown = await desk.ask()
    desk.asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await desk.asked
    assert desk.events[-1].data["state"] == "withdrawn"
    with pytest.raises(TurnError, match="no question"):
        await desk.inbox.resolve(OWNER, shown["id"], "allow-once")


async def test_without_anybody_who_may_approve_it_is_denied_at_once() -> None:
    desk = Desk(nobody=lambda turn, ask, event: "Nobody who may approve is connected")
    assert await desk.ask() == {}
    decision = await desk.asked
    assert decision.effect is Effect.DENY
    assert "Nobody who may approve is connected" in decision.reason
    assert desk.events == []


async def test_call_that_changed_meanwhile_is_denied() -> None:
    desk = Desk()
    arguments = {"to": "me"}
    shown = await desk.ask(make_call(arguments=arguments))
    arguments["to"] = "somebody else"
    with pytest.raises(TurnError, match="changed while it was asked about"):
        await desk.inbox.resolve(OWNER, shown["id"], "allow-once")
    decision = await desk.asked
    assert (decision.effect, decision.answer) == (Effect.DENY, "withdrawn")
    assert "changed" in decision.reason
    assert desk.events[-1].data["state"] == "withdrawn"


async def test_an_answer_that_is_overtaken_by_a_change_runs_nothing() -> None:
    in_force = ["one"]
    desk = Desk(policy=lambda: in_force[0])
    shown = await desk.ask()
    await desk.inbox.resolve(OWNER, shown["id"], "allow-once")
    in_force[0] = "two"
    decision = await desk.asked
    assert (decision.effect, decision.answer) == (Effect.DENY, "withdrawn")


async def test_answer_about_another_call_is_refused_and_the_question_waits_on() -> None:
    desk = Desk()
    shown = await desk.ask()
    with pytest.raises(TurnError) as caught:
        await desk.inbox.resolve(OWNER, shown["id"], "allow-once", digest="0" * 64)
    assert caught.value.code == "invalid_params"
    assert len(desk.inbox) == 1
    await desk.inbox.resolve(OWNER, shown["id"], "deny")
    assert not (await desk.asked).allowed


async def test_answer_that_is_not_offered_is_refused() -> None:
    desk = Desk()
    shown = await desk.ask(ask=replace(ASK, choices=("allow-once", "allow-always", "deny")))
    assert shown["choices"] == ["allow-once", "deny"]
    with pytest.raises(TurnError, match="expected one of allow-once, deny"):
        await desk.inbox.resolve(OWNER, shown["id"], "allow-always")
    desk.asked.cancel()


async def test_principal_sees_and_answers_only_within_its_bindings() -> None:
    desk = Desk()
    desk.turn = make_turn(address=Address("slack", "acme", "bob"), sink=desk.events.append)
    shown = await desk.ask()
    stranger = Principal(id="x", scopes=frozenset({"approve"}), bindings=(Claim("irc"),))
    assert await desk.inbox.waiting(stranger) == []
    with pytest.raises(TurnError, match="no question"):
        await desk.inbox.resolve(stranger, shown["id"], "allow-once")
    near = Principal(id="y", scopes=frozenset({"approve"}), bindings=(Claim("slack", "acme"),))
    assert len(await desk.inbox.waiting(near)) == 1
    await desk.inbox.resolve(near, shown["id"], "allow-once")
    assert (await desk.asked).by == "y"


def _other_turns() -> list[tuple[Turn, ToolCall]]:
    turn, call = make_turn(), make_call(arguments={"a": 1})
    return [
        (make_turn(), call),
        (make_turn(agent="other", id=turn.id), call),
        (turn, make_call(arguments={"a": 2})),
        (turn, make_call(arguments={"a": 1}, description="Other.")),
        (turn, make_call("other", arguments={"a": 1})),
        (turn, make_call(arguments={"a": 1}, call_id="call-2")),
        (turn, call),
    ]


def test_binding_changes_with_turn_session_arguments_tool_and_call() -> None:
    digests = [binding(turn, call) for turn, call in _other_turns()]
    assert len(set(digests)) == len(digests)
