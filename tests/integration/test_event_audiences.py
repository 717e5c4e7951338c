"""Who hears what: events reach those whom they are for, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.integration.test_answers_over_sockets import EVERYBODY, Sending, sending
from tests.support.wire import Socket, bearer, tokens

from hookgate.core.domain.events import Event

HEARS = ["chat", "approve", "read"]


@asynccontextmanager
async def listening(
    home: Path, people: Mapping[str, Mapping[str, Any]], **policy: Any
) -> AsyncIterator[tuple[Sending, dict[str, Socket]]]:
    """A gateway at which everybody listens to everything that is for them."""
    section, made = tokens(**people)
    async with AsyncExitStack() as stack:
        place = await stack.enter_async_context(sending(home, wire=section, **policy))
        sockets = {}
        for name, token in made.items():
            socket = await stack.enter_async_context(place.served.socket(**bearer(token)))
            await socket.result("events.subscribe")
            sockets[name] = socket
        yield place, sockets


async def heard(place: Sending, socket: Socket) -> list[dict[str, Any]]:
    """Return the events that a socket's subscription has been handed until now."""
    place.served.gate.host.events.publish(Event("mark", scope="read"))
    while (await socket.until("event"))["type"] != "mark":
        pass
    told = [frame["params"] for frame in socket.heard if frame["method"] == "event"]
    return [event for event in told if event["type"] != "mark"]


async def test_a_question_reaches_its_approvers_and_the_client_of_its_turn_alone(
    tmp_path: Path,
) -> None:
    people = {
        "ann": {"scopes": ["chat", "read"], "peers": ["ann"]},
        "boss": {"scopes": HEARS},
        "bound": {"scopes": HEARS, "peers": ["bob"]},
        "other": {"scopes": HEARS},
        "ops": EVERYBODY,
    }
    names = {"approvers": ["token:boss", "token:bound"]}
    async with listening(tmp_path, people, approvals=names) as (place, sockets):
        await sockets["ann"].send("chat.send", content="the hidden word", peer="ann")
        shown = await sockets["ann"].until("approval")
        assert shown["arguments"] == {"text": "the hidden word"}
        answer = {"id": shown["id"], "decision": "allow-once", "digest": shown["digest"]}
        await sockets["boss"].result("approval.resolve", **answer)
        await sockets["ann"].until("done")
        states: dict[str, list[Any]] = {}
        for name, socket in sockets.items():
            questions = [one for one in await heard(place, socket) if one["type"] == "approval"]
            states[name] = [one["data"]["state"] for one in questions]
        unseen = {"ann": [], "bound": [], "other": [], "ops": []}
        assert states == {"boss": ["pending", "allowed"], **unseen}
        assert place.ran == ["the hidden word"]


async def test_of_two_bound_principals_neither_hears_the_others_turns(tmp_path: Path) -> None:
    people = {
        "ann": {"scopes": HEARS, "peers": ["ann"]},
        "bob": {"scopes": HEARS, "peers": ["bob"]},
        "ops": EVERYBODY,
    }
    async with listening(tmp_path, people, profile="open") as (place, sockets):
        await sockets["ann"].send("chat.send", content="the hidden word", peer="ann")
        await sockets["ann"].until("done")
        kinds = {
            name: {event["type"] for event in await heard(place, socket)}
            for name, socket in sockets.items()
        }
    assert kinds["bob"] == set()
    assert kinds["ann"] >= {"text", "tool_use", "tool_result", "usage", "done"}
    assert kinds["ops"] == kinds["ann"]


async def test_what_names_a_turn_or_a_session_is_not_for_all_where_it_names_no_audience(
    tmp_path: Path,
) -> None:
    people = {"ann": {"scopes": HEARS, "peers": ["ann"]}, "ops": EVERYBODY}
    async with listening(tmp_path, people) as (place, sockets):
        events = place.served.gate.host.events
        events.publish(Event("mine", turn="turn_1", scope="read"))
        events.publish(Event("mine", session="main:cli:local:bob", scope="read"))
        assert await heard(place, sockets["ann"]) == []
        assert len(await heard(place, sockets["ops"])) == 2


async def test_a_nested_turns_question_reaches_the_client_that_waits_for_the_outer_one(
    tmp_path: Path,
) -> None:
    people = {
        "bob": {"scopes": HEARS, "peers": ["bob"]},
        "ann": {"scopes": HEARS, "peers": ["ann"]},
        "idle": {"scopes": HEARS, "peers": ["bob"]},
    }
    async with listening(tmp_path, people) as (place, sockets):
        bob = sockets["bob"]
        await bob.send("chat.send", content="nest: hello", peer="bob")
        shown = await bob.until("approval")
        assert (shown["state"], shown["tool"]) == ("pending", "send")
        assert shown["session"].startswith("main:nested:")
        answer = {"id": shown["id"], "decision": "allow-once", "digest": shown["digest"]}
        await bob.result("approval.resolve", **answer)
        assert (await bob.until("approval"))["state"] == "allowed"
        await bob.until("done")
        others = {
            name: {event["type"] for event in await heard(place, sockets[name])}
            for name in ("ann", "idle")
        }
        own = [frame["params"] for frame in bob.heard if frame["method"] == "text"]
    assert place.ran == ["hello"]
    assert others["ann"] == set()
    assert others["idle"] >= {"approval", "text", "done"}
    assert [one["text"] for one in own] == ["sent"], "the words of the nested turn stay within"


async def test_a_question_that_ran_out_is_told_as_expired_everywhere(tmp_path: Path) -> None:
    async with sending(tmp_path, approvals={"timeout_seconds": 0.05}) as place:
        async with place.served.socket() as socket:
            await socket.send("chat.send", content="hello")
            assert (await socket.until("approval"))["state"] == "pending"
            assert (await socket.until("approval"))["state"] == "expired"
            await socket.until("done")
        _, rows = await place.served.get("/v1/audit?tool=send&kind=tool_decided")
    (row,) = rows["entries"]
    assert (row["outcome"], row["data"]["answer"]) == ("deny", "expired")
    assert "Nobody answered within 0.05 s" in row["data"]["reason"]
    assert place.ran == []
