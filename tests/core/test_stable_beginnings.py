"""A request begins as the one before it did, so that a provider's cache knows it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tests.support.script import Script, Scripted, Tools, blocks, call, echo_tool, gateway, say

from hookgate.core.domain.messages import Message
from hookgate.core.domain.models import ModelRequest
from hookgate.core.domain.tools import Verdict
from hookgate.core.domain.turn import Turn
from hookgate.core.turn.context import Block, Windows
from hookgate.hookspecs import hookimpl


class Adds:
    """Adds a block that stays, and one for each message."""

    name = "adds"

    @hookimpl
    def before_context_build(self, turn: Turn, context: Any) -> None:
        if context.stage == "start":
            context.add(Block(kind="other", key="house", text="The house rules.", stable=True))
            context.add(Block(kind="recall", text=f"For: {turn.message.text}"))

    @hookimpl
    def before_tool_call(self, turn: Turn, call: Any) -> Verdict:
        return Verdict.allow()


def texts(request: ModelRequest) -> list[str]:
    return [message.text for message in request.messages]


async def test_what_is_for_one_message_stands_behind_the_history_and_in_front_of_it() -> None:
    script = Script(say("one"), say("two"))
    async with gateway(Scripted(script), Adds()) as gate:
        await gate.chat("first")
        await gate.chat("second")
    first, second = script.requests
    assert [piece.text for piece in first.system] == ["The house rules."]
    assert first.system == second.system
    assert texts(second) == ["first", "one", "For: second\n\n", "second"]
    assert [message.is_context for message in second.messages] == [False, False, True, False]
    assert second.sources["adds/recall"] == "For: second"


async def test_a_round_of_tools_goes_on_behind_what_was_there() -> None:
    script = Script(call(("c", "echo", {"text": "x"})), say("done"))
    async with gateway(Scripted(script), Adds(), Tools(echo_tool())) as gate:
        await gate.chat("go")
    first, second = script.requests
    assert second.messages[: len(first.messages)] == first.messages
    assert (first.system, first.tools) == (second.system, second.tools)


async def test_the_history_loses_several_turns_at_once() -> None:
    script = Script(*[say(f"answer {number}") for number in range(14)])
    async with gateway(Scripted(script), Adds()) as gate:
        for number in range(14):
            await gate.chat(f"message {number}")
    histories = [
        [text for text in texts(request)[:-2] if text.startswith("message")]
        for request in script.requests
    ]
    lengths = [len(history) for history in histories]
    assert lengths == [0, 1, 2, 3, 4, 5, 3, 4, 5, 3, 4, 5, 3, 4]
    moved = [one[0] != other[0] for one, other in pairwise(histories[1:])]
    assert moved == [length == 3 and before == 5 for before, length in pairwise(lengths[1:])]


async def test_a_history_without_room_loses_so_much_that_it_has_room_for_some_turns() -> None:
    long = "word " * 150
    script = Script(*[say(long) for _ in range(12)])
    async with gateway(Scripted(script), context={"budget_tokens": 1000}) as gate:
        for number in range(12):
            await gate.chat(f"message {number}")
            assert blocks(script.requests[-1]) == []
    begins = [texts(request)[0] for request in script.requests]
    moves = sum(one != other for one, other in pairwise(begins))
    assert moves <= 6, begins
    assert all(len(texts(request)) >= 3 for request in script.requests[1:])


async def test_a_window_of_one_turn_slides() -> None:
    script = Script(*[say(f"answer {number}") for number in range(8)])
    async with gateway(Scripted(script), context={"history_turns": 1}) as gate:
        for number in range(4):
            await gate.chat(f"message {number}")
    assert [len(request.messages) for request in script.requests[:4]] == [1, 3, 3, 3]


def test_so_many_sessions_are_known_and_the_oldest_is_forgotten(monkeypatch: Any) -> None:
    monkeypatch.setattr("hookgate.core.turn.context.MOST_WINDOWS", 2)
    windows: Any = Windows()

    def turns(*names: str) -> list[list[Message]]:
        return [[Message(role="user", parts=(), turn=name)] for name in names]

    assert windows.start("a", turns("1", "2"), 3) == 0
    assert windows.start("a", turns("1", "2", "3"), 3) == 0
    assert windows.start("a", turns("2", "3", "4"), 3) == 1
    assert windows.start("a", turns("3", "4", "5"), 3) == 0
    for session in ("b", "c"):
        windows.start(session, turns("1"), 3)
    assert windows.start("a", turns("4", "5", "6"), 3) == 0, "as if it had just begun"
    assert windows.start("new", [], 3) == 0
