"""`Host.start_turn`: the one way to a turn, as a plugin of a third party uses it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.script import Events, Script, Scripted, gateway, say, until

from hookgate import (
    Address,
    Event,
    ModelParameters,
    NotAllowedError,
    Origin,
    Principal,
    Provenance,
    StartError,
    Turn,
    TurnCancelledError,
    TurnError,
    TurnRequest,
    hookimpl,
)
from hookgate.core.domain.messages import Opaque, ToolResultPart
from hookgate.core.domain.models import Ending, OpaqueDelta, Usage
from hookgate.core.domain.turn import Claim
from hookgate.core.turn.handle import TurnEvents
from hookgate.wire import Raw

HOOK = Origin(provenance=Provenance.CHANNEL, path="webhook", channel="mail")
MAIL = Principal(id="mail", scopes=frozenset(["chat"]), bindings=(Claim(channel="mail"),))
RESULT = ToolResultPart(tool_use_id="a", content="b")
FROM_BOB = Address("mail", "acme", "bob")


class Mail:
    """Starts turns of its own, as a channel does."""

    name = "mail"

    def __init__(self) -> None:
        self.host: Any = None

    @hookimpl
    def list_tools(self, host: Any) -> list[Any]:
        self.host = host
        return []

    def start(self, content: str = "hi", **more: Any) -> Any:
        principal = more.pop("principal", MAIL)
        sink = more.pop("sink", None)
        request = TurnRequest(content=content, **{"address": FROM_BOB, **more})
        return self.host.start_turn(principal, HOOK, request, sink=sink)


class Standing:
    """A step of the model that stands still until it is let go."""

    def __init__(self) -> None:
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> None:
        self.reached.set()
        await self.go.wait()


async def test_a_plugin_starts_a_turn_and_reads_its_numbered_events_to_the_end() -> None:
    mail = Mail()
    async with gateway(Scripted(Script(say("one two"))), mail):
        handle = mail.start()
        events = [event async for event in handle.events]
        turn = await handle.wait()

    assert [event.type for event in events] == [
        *("accepted", "context", "text", "text", "usage", "model_ended", "done")
    ]
    assert [event.seq for event in events] == list(range(1, 8))
    assert {event.turn for event in events} == {handle.turn.id}
    assert events[0].data == {"turn": turn.id, "session": "main:mail:acme:bob"}
    assert (turn.ending, turn.answer, turn.origin) == ("done", "one two", HOOK)


async def test_usage_and_the_end_of_a_model_call_come_as_objects_too() -> None:
    mail, part = Mail(), Opaque(provider="script", data={"signature": "x"})
    async with gateway(Scripted(Script([OpaqueDelta(part), *say("ok")])), mail):
        events = {event.type: event async for event in mail.start().events}

    assert events["opaque"].value == OpaqueDelta(part)
    assert isinstance(events["usage"].value, Usage)
    ended = events["model_ended"]
    assert isinstance(ended.value, Ending)
    assert (ended.data["status"], ended.data["stop"]) == ("done", "end")


async def test_who_listens_on_the_bus_sees_the_number_and_no_object() -> None:
    mail, sent = Mail(), Events()
    async with gateway(Scripted(Script(say("ok"))), mail) as gate:
        with gate.host.events.subscribe(scopes=frozenset(["chat"])) as heard:
            await mail.start(sink=sent).wait()
            heard.close()
            told = [event async for event in heard]

    assert [event.type for event in told] == ["context", "text", "usage", "done"]
    assert [event.seq for event in told] == [2, 3, 4, 6]
    assert {event.value for event in told} == {None}
    # Where no secret has to be masked, an event is not copied once more for the bus.
    assert [event for event in told if any(event is one for one in sent)] == [
        event for event in told if event.type != "usage"
    ]


async def test_a_turn_is_one_task() -> None:
    mail, standing = Mail(), Standing()
    async with gateway(Scripted(Script([standing, *say("ok")])), mail):
        before = asyncio.all_tasks()
        handle = mail.start()
        await standing.reached.wait()
        named = [task.get_name() for task in asyncio.all_tasks() - before]
        standing.go.set()
        await handle.wait()

    assert named.count(handle.turn.id) == 1
    assert not [name for name in named if name not in (handle.turn.id, "") and "turn" in name]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"principal": Principal(id="x", scopes=frozenset(["read"]))}, "expected `chat`"),
        ({"address": Address("irc", "acme", "bob")}, "may not speak as channel 'irc'"),
    ],
)
async def test_who_may_not_is_refused_before_anything_runs(more: dict[str, Any], told: str) -> None:
    mail = Mail()
    async with gateway(Scripted(Script(say("ok"))), mail) as gate:
        with pytest.raises(NotAllowedError, match=told):
            mail.start(**more)
        assert gate.host.running() == ()


async def test_a_turn_before_the_gateway_has_started_is_refused() -> None:
    early: list[Exception] = []

    class Early:
        @hookimpl
        def list_tools(self, host: Any) -> list[Any]:
            try:
                host.start_turn(MAIL, HOOK, TurnRequest(content="hi", address=FROM_BOB))
            except StartError as error:
                early.append(error)
            return []

    async with gateway(Early()) as gate:
        assert gate.host.ready
    assert "has not started" in str(early[0])
    assert not gate.host.ready


# -- ending it early -------------------------------------------------------------------


async def test_a_turn_is_cancelled_by_its_handle_and_settles() -> None:
    mail, standing = Mail(), Standing()
    async with gateway(Scripted(Script([*say("half")[:1], standing, *say("x")])), mail):
        handle = mail.start()
        await standing.reached.wait()
        assert handle.cancel("enough")
        turn = await handle.wait()
        events = [event async for event in handle.events]

    assert (turn.ending, str(turn.error), turn.answer) == ("cancelled", "enough", "half")
    assert events[-1].type == "done"
    assert handle.over and not handle.cancel("again")


async def test_a_turn_that_waits_for_its_lane_ends_without_a_done_when_cancelled() -> None:
    mail, standing = Mail(), Standing()
    async with gateway(Scripted(Script([standing, *say("ok")])), mail):
        first, second = mail.start(), mail.start()
        await standing.reached.wait()
        second.cancel("changed my mind")
        with pytest.raises(TurnCancelledError, match="changed my mind"):
            await second.wait()
        assert [event.type async for event in second.events] == ["queued"]
        standing.go.set()
        assert (await first.wait()).ending == "done"


async def test_a_cancelled_wait_cancels_the_turn_and_returns_once_it_has_settled() -> None:
    mail, standing = Mail(), Standing()
    async with gateway(Scripted(Script([standing, *say("ok")])), mail):
        handle = mail.start()
        waiting = asyncio.create_task(handle.wait())
        await standing.reached.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert handle.over

    assert (handle.turn.ending, handle.reason) == ("cancelled", "its caller was cancelled")


async def test_a_detached_turn_outlives_whoever_waits_for_it() -> None:
    mail, standing = Mail(), Standing()
    async with gateway(Scripted(Script([standing, *say("ok")])), mail):
        handle = mail.start()
        handle.detach()
        waiting = asyncio.create_task(handle.wait())
        await standing.reached.wait()
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        assert waiting.cancelled() and not handle.over
        standing.go.set()
        assert (await handle.wait()).answer == "ok"


async def test_who_runs_whose_it_is_and_how_to_end_it_is_the_hosts_to_say() -> None:
    mail, standing = Mail(), Standing()
    async with gateway(Scripted(Script([standing, *say("ok")])), mail) as gate:
        handle, host = mail.start(), gate.host
        await standing.reached.wait()
        assert host.running() == (handle.turn,)
        assert host.owner(handle.turn.id) == MAIL
        assert host.status()["turns"] == 1
        assert host.cancel(handle.turn.id, "stop") and not host.cancel("turn_x", "stop")
        assert (await handle.wait()).ending == "cancelled"
        assert (host.running(), host.owner(handle.turn.id)) == ((), None)


# -- who reads slowly ------------------------------------------------------------------


def text(number: int) -> Event:
    return Event("text", {"text": f"{number} "}, seq=number)


async def test_a_slow_reader_loses_no_text_and_the_turn_waits_for_nobody() -> None:
    events = TurnEvents(capacity=3)
    for number in range(1, 10):
        events.put(text(number))
    events.put(Event("done", {"text": "all"}, seq=10))
    events.end()

    read = [event async for event in events]

    assert "".join(event.data.get("text", "") for event in read[:-1]) == "2 3 4 5 6 7 8 9 "
    assert [event.seq for event in read] == [2, 9, 10]
    assert events.missed == 1
    assert (read[-1].type, read[-1].data["text"]) == ("done", "all")


async def test_text_that_was_joined_is_read_whole_while_more_is_to_come() -> None:
    events = TurnEvents(capacity=1)
    for number in range(1, 4):
        events.put(text(number))
    reader = aiter(events)

    assert (await anext(reader)).data["text"] == "1 2 3 "
    events.put(text(4))
    assert (await anext(reader)).data["text"] == "4 "
    assert events.missed == 0


# -- what a request may ask for --------------------------------------------------------


async def test_model_parameters_and_instructions_of_a_request_reach_the_model() -> None:
    mail, script = Mail(), Script(say("ok"))
    wanted = ModelParameters(temperature=0.25, max_output_tokens=7, stop=("END",))
    async with gateway(Scripted(script), mail):
        turn: Turn = await mail.start(
            model="script/other", parameters=wanted, system="Answer in verse."
        ).wait()

    assert turn.ending == "done"
    (asked,) = script.requests
    assert str(asked.model) == "script/other"
    assert (asked.temperature, asked.max_output_tokens, asked.stop) == (0.25, 7, ("END",))
    assert "Answer in verse." in [piece.text for piece in asked.system]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"raw": Raw(wire="openai-chat", data={})}, "`raw` without `verbatim`"),
        ({"verbatim": True, "tool_results": (RESULT,)}, "`verbatim` with `tool_results`"),
        ({"ephemeral": True, "tool_results": (RESULT,)}, "`ephemeral` with results"),
        ({"model": "other"}, "expected `provider/model`"),
    ],
)
async def test_what_a_request_cannot_have_is_refused_by_name(
    more: dict[str, Any], told: str
) -> None:
    mail = Mail()
    async with gateway(Scripted(Script(say("ok"))), mail):
        with pytest.raises(TurnError, match=told) as refused:
            mail.start(**more)
    assert refused.value.code == "invalid_params"


@pytest.mark.parametrize(
    "wrong", [{"temperature": -1.0}, {"max_output_tokens": 0}, {"stop": ("",)}]
)
def test_parameters_that_no_model_takes_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        ModelParameters(**wrong)


async def test_a_sink_that_fails_ends_no_turn() -> None:
    def fails(event: Event) -> None:
        raise OSError("gone")

    mail, events = Mail(), Events()
    async with gateway(Scripted(Script(say("ok"), say("ok"))), mail):
        assert (await mail.start(sink=fails).wait()).answer == "ok"
        handle = mail.start(sink=events)
        await handle.wait()
        assert [event async for event in handle.events] == []
    assert events[-1].type == "done"


async def test_a_gateway_that_stops_takes_no_new_turn() -> None:
    mail = Mail()
    async with gateway(Scripted(Script(say("ok"))), mail) as gate:
        await gate.drain(0)
        with pytest.raises(TurnError, match="takes no new messages"):
            mail.start()
        await until(lambda: not gate.host.running())


async def test_who_has_expired_starts_nothing() -> None:
    mail = Mail()
    late = replace(MAIL, expires=datetime(2020, 1, 1, tzinfo=UTC))
    async with gateway(mail, Scripted(Script(say("x")))) as gate:
        with pytest.raises(NotAllowedError, match="mail has expired"):
            mail.start(principal=late)
        with pytest.raises(NotAllowedError, match="mail has expired"):
            await gate.host.call_tool(late, HOOK, FROM_BOB, "echo", {})
        assert gate.host.running() == ()
