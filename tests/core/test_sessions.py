from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.script import Script, Scripted, gateway, say, settled

from hookgate.core.domain.errors import LaneFullError, NoAgentError
from hookgate.core.domain.messages import Message
from hookgate.core.domain.models import ModelRef
from hookgate.core.domain.parts import Text
from hookgate.core.domain.ports import CONVERSATIONS
from hookgate.core.domain.turn import Address, Agent, Fence, SessionKey, Turn
from hookgate.core.hooks.tasks import InSessionOrder
from hookgate.core.registry.agents import Router
from hookgate.core.settings.schema import BindingSettings
from hookgate.hookspecs import hookimpl
from hookgate.sessions import InProcessConversations, InProcessLanes, InProcessSignals

KEY = SessionKey("a", "c", "x", "p")
PART = st.text(min_size=1, max_size=12)
FIELDS = ("peer", "guild", "team", "account", "channel")


@given(st.tuples(PART, PART, PART, PART), st.tuples(PART, PART, PART, PART))
def test_session_keys_read_back_and_never_collide(
    one: tuple[str, str, str, str], two: tuple[str, str, str, str]
) -> None:
    assert SessionKey.parse(str(SessionKey(*one))) == SessionKey(*one)
    assert (str(SessionKey(*one)) == str(SessionKey(*two))) == (one == two)


def test_a_colon_in_a_name_cannot_forge_another_session() -> None:
    assert str(SessionKey("a", "b:c", "d", "e")) != str(SessionKey("a:b", "c", "d", "e"))


def agents(*names: str) -> dict[str, Agent]:
    return {name: Agent(name=name, models=(ModelRef("p", "m"),)) for name in names}


NAMES = st.sampled_from(["one", "two", "three"])
BINDING = st.builds(
    BindingSettings,
    agent=NAMES,
    **{name: st.one_of(st.none(), st.sampled_from(["x", "y"])) for name in FIELDS},
)
ADDRESS = st.builds(
    Address,
    **{name: st.sampled_from(["x", "y"]) for name in ("channel", "account", "peer")},
    guild=st.one_of(st.none(), st.sampled_from(["x", "y"])),
    team=st.one_of(st.none(), st.sampled_from(["x", "y"])),
)


def by_the_book(bindings: list[BindingSettings], address: Address) -> str | None:
    """The rule as it is written: most specific tier first, then the order of the settings."""
    for tier in (*FIELDS, None):
        for binding in bindings:
            given_fields = [name for name in FIELDS if getattr(binding, name) is not None]
            if (given_fields[0] if given_fields else None) != tier:
                continue
            if all(getattr(binding, name) == getattr(address, name) for name in given_fields):
                return binding.agent
    return None


@given(st.lists(BINDING, max_size=6), ADDRESS)
def test_routing_follows_peer_guild_team_account_channel_default(
    bindings: list[BindingSettings], address: Address
) -> None:
    router = Router(agents("one", "two", "three"), bindings)
    wanted = by_the_book(bindings, address)
    try:
        found: str | None = router.resolve(address).agent.name
    except NoAgentError:
        found = None
    assert found == wanted


def test_an_agent_that_is_asked_for_comes_before_all_bindings() -> None:
    router = Router(agents("one", "two"), [BindingSettings(agent="one")])
    assert router.resolve(Address(), "two").agent.name == "two"
    with pytest.raises(NoAgentError, match="no agent called 'three'"):
        router.resolve(Address(), "three")


def test_the_only_agent_is_the_default_where_there_are_no_bindings() -> None:
    assert Router(agents("one")).resolve(Address()).tier == "default"


class FakeTurn:
    parent: Any = None


async def test_a_lane_serves_in_the_order_of_arrival() -> None:
    lanes = InProcessLanes(InProcessConversations, queue=100)
    order: list[int] = []

    async def take(number: int) -> None:
        async with lanes.hold(KEY, FakeTurn()):  # type: ignore[arg-type]
            order.append(number)
            await asyncio.sleep(0)

    await asyncio.gather(*(take(number) for number in range(20)))
    assert order == list(range(20))
    assert lanes.ahead(KEY) == 0


async def test_work_that_is_no_turn_waits_for_the_lane_like_one_and_keeps_it_from_others() -> None:
    lanes = InProcessLanes(InProcessConversations, queue=1)
    order: list[str] = []

    async def take(name: str, turn: Any) -> None:
        async with lanes.hold(KEY, turn):
            order.append(name)
            await asyncio.sleep(0)
            order.append(name)

    async with lanes.hold(KEY):
        assert lanes.ahead(KEY) == 1
        waiting = asyncio.create_task(take("turn", FakeTurn()))
        await asyncio.sleep(0)
        assert lanes.ahead(KEY) == 2
        with pytest.raises(LaneFullError):
            await take("work", None)
    await asyncio.gather(waiting, take("work", None))
    assert order == ["turn", "turn", "work", "work"]
    assert lanes.ahead(KEY) == 0


@pytest.mark.parametrize("seed", range(20))
async def test_a_lane_has_one_holder_whoever_gives_up_waiting(seed: int) -> None:
    chance = random.Random(seed)
    lanes, holders, most = InProcessLanes(InProcessConversations, queue=100), 0, 0

    async def take() -> None:
        nonlocal holders, most
        async with lanes.hold(KEY, FakeTurn()):  # type: ignore[arg-type]
            holders += 1
            most = max(most, holders)
            try:
                for _ in range(chance.randrange(3)):
                    await asyncio.sleep(0)
            finally:
                holders -= 1

    tasks = [asyncio.create_task(take()) for _ in range(30)]
    for _ in range(40):
        chance.choice(tasks).cancel()
        await asyncio.sleep(0)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert most <= 1
    async with asyncio.timeout(120), lanes.hold(KEY, FakeTurn()):  # type: ignore[arg-type]
        assert lanes.ahead(KEY) == 1


def message(text: str, turn: str) -> Message:
    return Message(role="user", parts=(Text(text),), turn=turn)


async def test_conversations_give_back_the_last_turns_whole() -> None:
    kept = InProcessConversations()
    for turn in range(4):
        await kept.append(KEY, [message("q", str(turn)), message("a", str(turn))], fence=Fence())
    found = await kept.history(KEY, turns=2)
    assert [item.turn for item in found] == ["2", "2", "3", "3"]


async def test_signals_reach_those_who_listen_and_nobody_else() -> None:
    signals = InProcessSignals()
    async with signals.listen("a") as first, signals.listen("a") as second:
        await signals.send("b", {"n": 0})
        await signals.send("a", {"n": 1})
        got: list[Mapping[str, Any]] = [await anext(first), await anext(second)]
    assert got == [{"n": 1}, {"n": 1}]


async def test_what_follows_turns_runs_in_the_order_of_the_session() -> None:
    order, done = InSessionOrder(), []
    gates = [asyncio.Event() for _ in range(3)]

    async def work(number: int) -> None:
        await gates[number].wait()
        done.append(number)

    for number in range(3):
        order.run(KEY, lambda number=number: work(number))  # type: ignore[misc]
    for gate in reversed(gates):
        gate.set()
    await order.drain()
    assert done == [0, 1, 2]


@pytest.mark.slow
async def test_fifty_sessions_of_twenty_messages_keep_their_order_and_do_not_mix() -> None:
    order: dict[str, list[str]] = {}

    class After:
        name = "after"

        @hookimpl
        def after_turn(self, turn: Turn) -> None:
            order.setdefault(turn.address.peer, []).append(turn.message.text)

    def answer(request: Any) -> Any:
        return say("re: " + request.messages[-1].text)

    async with gateway(Scripted(Script(answer)), After(), turn={"lane_queue": 64}) as gate:

        async def send(peer: str, number: int) -> None:
            turn = await gate.chat(f"{peer}-{number}", address=Address(peer=peer))
            assert turn.answer == f"re: {peer}-{number}"

        for_all = [(f"p{peer}", number) for number in range(20) for peer in range(50)]
        await asyncio.gather(*(send(peer, number) for peer, number in for_all))
        await settled(gate)
        for peer in range(50):
            key = SessionKey("main", "cli", "local", f"p{peer}")
            stored = await gate.host[CONVERSATIONS].history(key, turns=100)
            wanted = [text for n in range(20) for text in (f"p{peer}-{n}", f"re: p{peer}-{n}")]
            assert [item.text for item in stored] == wanted
            assert order[f"p{peer}"] == wanted[::2]
