"""What a message brought stays in front of it, as long as it may, and as long as there is room."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as tried
from hypothesis import strategies as st
from tests.support.script import (
    Allow,
    Script,
    Scripted,
    Tools,
    call,
    echo_tool,
    gateway,
    say,
    settings,
)

from hookgate.core.domain.messages import Provenance
from hookgate.core.domain.turn import Address, Origin, Principal, TurnRequest
from hookgate.core.turn.context import Block, message_tokens
from hookgate.gateway import Gateway
from hookgate.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hookgate.core.domain.messages import Message
    from hookgate.core.domain.models import ModelRequest
    from hookgate.core.domain.turn import Turn


ME = Address("cli", "local", "me")


class Brings:
    """Brings a block for each message, which stays as long as `may` says so."""

    name = "brings"

    def __init__(self, may: Callable[[Turn], Any] = lambda _: True, **block: Any) -> None:
        self.may = may
        self.block = {"kind": "recall", **block}
        self.standing: list[list[str]] = []

    def said(self, text: str) -> str:
        return f"For: {text}"

    @hookimpl
    def before_context_build(self, turn: Turn, context: Any) -> None:
        if context.stage != "start":
            return
        self.standing.append([block.text for block in context.standing])
        text = self.said(turn.message.text)
        context.add(Block(text=text, stays=lambda later: self.may(later), **self.block))


def texts(request: ModelRequest) -> list[str]:
    return [message.text.strip() for message in request.messages]


async def test_a_request_begins_as_all_of_the_one_before_it() -> None:
    script = Script(call(("c", "echo", {"text": "x"})), say("one"), say("two"), say("three"))
    adds = Brings()
    async with gateway(Scripted(script), adds, Allow(), Tools(echo_tool())) as gate:
        for text in ("first", "second", "third"):
            await gate.chat(text)
    for before, request in pairwise(script.requests):
        assert texts(request)[: len(before.messages)] == texts(before)
        assert request.system == before.system
    last = texts(script.requests[-1])
    assert last == [
        *("For: first", "first", "", "", "one"),
        *("For: second", "second", "two", "For: third", "third"),
    ]
    assert adds.standing == [[], ["For: first"], ["For: first", "For: second"]]


async def test_what_stands_is_not_taken_for_what_a_turn_has_brought() -> None:
    script = Script(say("one"), say("two"))
    async with gateway(Scripted(script), Brings()) as gate:
        await gate.chat("first")
        await gate.chat("second")
    first, second = script.requests
    assert first.sources == {"brings/recall": "For: first"}
    (stood,) = set(second.sources) - {"brings/recall"}
    assert second.sources["brings/recall"] == "For: second"
    assert second.sources[stood] == "For: first"
    assert [one.is_context for one in second.messages] == [True, False, False, True, False]


async def test_what_stands_is_not_said_again_and_what_has_gone_is() -> None:
    may = [True]
    script = Script(say("fine"))
    adds = Brings(lambda _: may[0])
    adds.said = lambda text: "The same."  # type: ignore[method-assign]
    async with gateway(Scripted(script), adds) as gate:
        for text in ("first", "second", "third"):
            await gate.chat(text)
        may[0] = False
        await gate.chat("fourth")
    said = [texts(request) for request in script.requests]
    assert [one.count("The same.") for one in said] == [1, 1, 1, 1]
    assert [one.index("The same.") for one in said] == [0, 0, 0, 6]


def failing(_: Turn) -> bool:
    raise ValueError("nobody knows")


@pytest.mark.parametrize("says", [lambda _: False, lambda _: None, lambda _: "yes", failing])
async def test_what_may_not_be_shown_any_more_is_gone_for_good(says: Any) -> None:
    now: list[Callable[[Turn], Any]] = [says]
    script = Script(say("fine"))
    async with gateway(Scripted(script), Brings(lambda turn: now[0](turn))) as gate:
        await gate.chat("first")
        await gate.chat("second")
        now[0] = lambda _: True
        await gate.chat("third")
    second, third = script.requests[1:]
    assert texts(second) == ["first", "fine", "For: second", "second"]
    assert texts(third)[: len(texts(second))] == texts(second), "and nothing comes back"


async def test_a_turn_is_asked_for_itself_and_tainted_by_what_it_reads() -> None:
    asked: list[str] = []

    def may(turn: Turn) -> bool:
        asked.append(turn.message.text)
        return turn.message.text != "third"

    script = Script(say("fine"))
    adds = Brings(may, taint=frozenset({"a page"}))
    async with gateway(Scripted(script), adds) as gate:
        await gate.chat("first")
        adds.block["taint"] = frozenset({"another"})
        turn = await gate.chat("second")
        await gate.chat("third")
    assert asked == ["second", "third", "third"]
    assert {"a page", "another"} <= turn.extra_taint
    assert {"a page", "another"} <= script.requests[1].taint
    assert "For: first" not in texts(script.requests[2])


@pytest.mark.parametrize(
    ("block", "context"),
    [({}, {"caps": {"recall": 500}}), ({"stable": True}, {})],
    ids=["its kind has a cap", "it stands among the instructions"],
)
async def test_a_block_goes_with_its_turn_where(block: Any, context: Any) -> None:
    script = Script(say("fine"))
    adds = Brings(**block)
    async with gateway(Scripted(script), adds, context=context) as gate:
        await gate.chat("first")
        await gate.chat("second")
    assert adds.standing == [[], []]


async def test_what_stands_goes_where_the_history_begins_anew() -> None:
    script = Script(say("fine"))
    adds = Brings()
    async with gateway(Scripted(script), adds) as gate:
        for number in range(9):
            await gate.chat(f"message {number}")
    assert [len(one) for one in adds.standing] == [0, 1, 2, 3, 4, 5, 0, 1, 2]
    begun = [request.messages[0].text for request in script.requests]
    assert begun[6] == "message 3"


async def test_what_stands_gives_way_to_what_a_turn_brings_the_least_kind_first() -> None:
    script = Script(say("fine"))
    large, small = Brings(kind="tiers"), Brings()
    large.name, large.said = "large", lambda text: f"{text} " + "x" * 1600  # type: ignore
    async with gateway(Scripted(script), large, small, context={"budget_tokens": 1000}) as gate:
        for number in range(4):
            await gate.chat(f"m{number}")
    for number, request in enumerate(script.requests):
        seen = "\n".join(texts(request))
        assert f"m{number} xxx" in seen, "what is new is there"
        assert all(f"For: m{before}" in seen for before in range(number)), "what is small stays"
        assert sum(seen.count(f"m{before} xxx") for before in range(number)) <= 1


async def test_a_turn_that_keeps_nothing_sees_and_leaves_nothing() -> None:
    script = Script(say("fine"))
    adds = Brings()
    async with gateway(Scripted(script), adds) as gate:
        await gate.chat("first", address=ME)
        request = TurnRequest(content="aside", address=ME, ephemeral=True)
        owner, origin = Principal.owner(), Origin(provenance=Provenance.EXTERNAL_USER, path="test")
        await gate.turns.start(owner, origin, request).wait()
        await gate.chat("second", address=ME)
    assert adds.standing == [[], [], ["For: first"]]


async def test_behind_a_restart_a_request_begins_anew_and_goes_on(tmp_path: Path) -> None:
    adds = Brings()

    async def session(script: Script, *said: str) -> None:
        plugins = [Scripted(script), adds]
        builtin = ("control", "storage")
        async with Gateway(settings(tmp_path), builtin=builtin, plugins=plugins) as gate:
            for text in said:
                await gate.chat(text)

    await session(Script(say("fine")), "first", "second")
    script = Script(say("fine"))
    await session(script, "third", "fourth")
    assert adds.standing == [[], ["For: first"], [], ["For: third"]]
    third, fourth = map(texts, script.requests)
    assert third == ["first", "fine", "second", "fine", "For: third", "third"]
    assert fourth[: len(third)] == third


async def test_only_so_many_sessions_are_kept(monkeypatch: Any) -> None:
    monkeypatch.setattr("hookgate.core.turn.context.MOST_SESSIONS", 2)
    adds = Brings()
    async with gateway(Scripted(Script(say("fine"))), adds) as gate:
        for peer in ("a", "b", "a", "c", "b", "a"):
            await gate.chat("hi", address=Address("cli", "local", peer))
    assert [len(one) for one in adds.standing] == [0, 0, 1, 0, 0, 0]


SIZES = st.lists(st.integers(0, 1500), min_size=2, max_size=7)


@tried(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=SIZES, blocks=SIZES, budget=st.integers(500, 3000))
async def test_a_request_is_within_its_budget_and_goes_on_or_begins_anew(
    messages: list[int], blocks: list[int], budget: int
) -> None:
    script, adds = Script(say("fine")), Brings(kind="tiers")
    sizes = iter(blocks * len(messages))
    adds.said = lambda text: f"{text[:3]}: " + "b" * next(sizes)  # type: ignore[method-assign]
    context = {"budget_tokens": budget, "floors": {}}
    async with gateway(Scripted(script), adds, context=context) as gate:
        counter = gate.host.tokens
        for number, size in enumerate(messages):
            await gate.chat(f"m{number} " + "w" * size)

    def tokens(request: ModelRequest) -> int:
        return sum(message_tokens(message, counter) for message in request.messages)

    def stood(request: ModelRequest) -> list[Message]:
        return [one for one in request.messages[:-2] if one.is_context]

    for before, request in pairwise(script.requests):
        assert tokens(request) <= budget
        if stood(request):
            known = texts(before)
            assert texts(request)[: len(known)] == known
