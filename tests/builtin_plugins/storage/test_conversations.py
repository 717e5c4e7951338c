from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hookgate.builtin_plugins.storage.conversations import HISTORY, SqlConversations
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.builtin_plugins.storage.tables import MESSAGES, SESSIONS
from hookgate.core.domain.errors import StaleFenceError, StoreError
from hookgate.core.domain.messages import Message, Opaque, Part, Provenance, ToolResultPart, ToolUse
from hookgate.core.domain.parts import Image, Text
from hookgate.core.domain.turn import Fence, SessionKey
from hookgate.sessions import InProcessConversations

if TYPE_CHECKING:
    from tests.builtin_plugins.storage.conftest import OpenStore

HERE = SessionKey("demo", "cli", "local", "main")
THERE = SessionKey("demo", "cli", "local", "other")


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def conversations(store: SqlStore, clock: Clock) -> SqlConversations:
    return SqlConversations(store, clock)


def said(text: str, turn: str, role: Any = "user") -> Message:
    return Message(role=role, parts=(Text(text),), turn=turn)


def texts(messages: Any) -> list[str]:
    return [message.text for message in messages]


# -- what is kept --------------------------------------------------------------------

WORDS = st.text(max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(WORDS, JSON, max_size=3)
TAINTS = st.frozensets(WORDS, max_size=3)
PARTS: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, WORDS),
    st.builds(Image, media_type=WORDS, data=WORDS),
    st.builds(ToolUse, id=WORDS, name=WORDS, input=OBJECTS | WORDS),
    st.builds(
        ToolResultPart, tool_use_id=WORDS, content=WORDS, is_error=st.booleans(), taint=TAINTS
    ),
    st.builds(Opaque, provider=WORDS, data=OBJECTS),
)
MESSAGE = st.builds(
    Message,
    role=st.sampled_from(("user", "assistant", "tool")),
    parts=st.lists(PARTS, max_size=4).map(tuple),
    taint=TAINTS,
    provenance=st.sampled_from(Provenance),
    turn=st.sampled_from(("turn_1", "turn_2", "\x00", "")),
    created=st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.just(UTC)),
)
KEY = st.builds(SessionKey, WORDS, WORDS, WORDS, WORDS)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=KEY, messages=st.lists(MESSAGE, min_size=1, max_size=4))
async def test_every_message_comes_back_as_it_was(
    store: SqlStore, conversations: SqlConversations, key: SessionKey, messages: list[Message]
) -> None:
    await store.write(lambda connection: connection.execute(MESSAGES.delete()) and None)
    await store.write(lambda connection: connection.execute(SESSIONS.delete()) and None)
    await conversations.append(key, messages, fence=Fence())
    assert list(await conversations.history(key, turns=1000)) == messages


async def test_text_that_no_encoding_knows_comes_back(conversations: SqlConversations) -> None:
    odd = said("a\x00b \ud800 \U0001f600", "t1")
    await conversations.append(HERE, [odd], fence=Fence())
    assert list(await conversations.history(HERE, turns=1)) == [odd]


async def test_taint_and_time_stand_in_columns_of_their_own(
    store: SqlStore, conversations: SqlConversations
) -> None:
    east = datetime(2030, 5, 1, 14, 0, tzinfo=UTC).astimezone()
    message = replace(said("x", "t1"), taint=frozenset({"web", "mail"}), created=east)
    await conversations.append(HERE, [message], fence=Fence())
    query = sa.select(MESSAGES.c.taint, MESSAGES.c.created, MESSAGES.c.role, MESSAGES.c.turn)
    row = await store.read(lambda connection: tuple(connection.execute(query).one()))
    assert json.loads(row[0]) == ["mail", "web"]
    assert row[1:] == (datetime(2030, 5, 1, 14, 0, tzinfo=UTC), "user", "t1")


async def test_conversations_outlive_a_restart(opened: OpenStore, clock: Clock) -> None:
    store = await opened()
    await SqlConversations(store, clock).append(HERE, [said("hello", "t1")], fence=Fence())
    await store.close()
    again = SqlConversations(await opened(), clock)
    assert again.durable
    assert texts(await again.history(HERE, turns=5)) == ["hello"]


async def test_a_message_of_a_newer_version_is_an_error_that_names_the_session(
    store: SqlStore, conversations: SqlConversations
) -> None:
    await conversations.append(HERE, [said("x", "t1")], fence=Fence())
    body = json.dumps({"role": "user", "parts": [{"type": "smell"}]})
    await store.write(lambda c: c.execute(MESSAGES.update().values(body=body)) and None)
    with pytest.raises(StoreError, match=r"session demo:cli:local:main.*'smell'"):
        await conversations.history(HERE, turns=1)


async def test_one_message_that_is_no_json_fails_its_own_append_only(
    conversations: SqlConversations,
) -> None:
    bad = Message(role="user", parts=(Opaque(provider="p", data={"x": object()}),), turn="t1")
    first, second, third = await asyncio.gather(
        conversations.append(HERE, [said("a", "t1")], fence=Fence()),
        conversations.append(THERE, [said("lost", "t1"), bad], fence=Fence()),
        conversations.append(HERE, [said("b", "t1", "assistant")], fence=Fence()),
        return_exceptions=True,
    )
    assert (first, third) == (None, None)
    assert isinstance(second, TypeError)
    assert texts(await conversations.history(HERE, turns=1)) == ["a", "b"]
    assert await conversations.history(THERE, turns=1) == ()


# -- fences --------------------------------------------------------------------------


async def test_of_first_writes_that_meet_in_one_commit_the_first_alone_is_taken(
    conversations: SqlConversations,
) -> None:
    fences = [Fence() for _ in range(3)]
    for fence in fences:
        await conversations.load(HERE, turns=5, fence=fence)
    order = [0, 1, 0, 2, 1, 0]
    results = await asyncio.gather(
        *(
            conversations.append(HERE, [said(f"{place}", "t")], fence=fences[which])
            for place, which in enumerate(order)
        ),
        return_exceptions=True,
    )
    refused = [isinstance(result, StaleFenceError) for result in results]
    assert refused == [False, True, False, True, True, False]
    assert texts(await conversations.history(HERE, turns=1)) == ["0", "2", "5"]


async def test_nothing_to_write_leaves_no_session(conversations: SqlConversations) -> None:
    await conversations.append(HERE, [], fence=Fence())
    assert await conversations.sessions() == []


# -- history -------------------------------------------------------------------------


async def test_history_holds_the_last_turns_whole_and_oldest_first(
    conversations: SqlConversations,
) -> None:
    for number in range(4):
        turn = f"turn_{number}"
        await conversations.append(HERE, [said(f"ask {number}", turn)], fence=Fence())
        answer = [said(f"{word} {number}", turn, "assistant") for word in ("call", "answer")]
        await conversations.append(HERE, answer, fence=Fence())
    assert texts(await conversations.history(HERE, turns=2)) == [
        *("ask 2", "call 2", "answer 2"),
        *("ask 3", "call 3", "answer 3"),
    ]
    assert len(await conversations.history(HERE, turns=100)) == 12
    assert await conversations.history(HERE, turns=0) == ()
    assert await conversations.history(HERE, turns=-1) == ()
    assert await conversations.history(THERE, turns=5) == ()


async def test_messages_without_a_turn_are_a_turn_for_each_append(
    conversations: SqlConversations,
) -> None:
    for number in range(3):
        pair = [said(f"a{number}", ""), said(f"b{number}", "")]
        await conversations.append(HERE, pair, fence=Fence())
    assert texts(await conversations.history(HERE, turns=2)) == ["a1", "b1", "a2", "b2"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    appends=st.lists(
        st.tuples(
            st.integers(0, 2), st.lists(st.sampled_from("abc"), min_size=1), st.integers(0, 2)
        ),
        max_size=12,
    ),
    turns=st.integers(1, 4),
)
async def test_history_and_fences_are_those_of_the_conversations_in_the_process(
    store: SqlStore,
    conversations: SqlConversations,
    appends: list[tuple[int, list[str], int]],
    turns: int,
) -> None:
    await store.write(lambda connection: connection.execute(MESSAGES.delete()) and None)
    await store.write(lambda connection: connection.execute(SESSIONS.delete()) and None)
    keys = [SessionKey("a", "c", "l", str(number)) for number in range(3)]
    model = InProcessConversations()
    holders = {(key, number): (Fence(), Fence()) for key in keys for number in range(3)}
    for (key, _), (ours, its) in holders.items():
        await conversations.load(key, turns=1, fence=ours)
        await model.load(key, turns=1, fence=its)

    async def expected(key: SessionKey, messages: list[Message], fence: Fence) -> bool:
        try:
            await model.append(key, messages, fence=fence)
        except StaleFenceError:
            return False
        return True

    work = []
    accepted = []
    for which, ids, number in appends:
        messages = [said("x", turn) for turn in ids]
        ours, its = holders[keys[which], number]
        accepted.append(await expected(keys[which], messages, its))
        work.append(conversations.append(keys[which], messages, fence=ours))
    results = await asyncio.gather(*work, return_exceptions=True)
    assert [result is None for result in results] == accepted
    for key in keys:
        found = await conversations.history(key, turns=turns)
        assert list(found) == list(await model.history(key, turns=turns))


@pytest.mark.parametrize("length", [10, 1000, 10_000])
@pytest.mark.slow
async def test_history_costs_the_same_in_a_conversation_of_any_length(
    store: SqlStore, conversations: SqlConversations, length: int
) -> None:
    messages = [
        said(f"{role} {number}", f"turn_{number}", role)
        for number in range(length)
        for role in ("user", "assistant")
    ]
    await conversations.append(HERE, messages, fence=Fence())
    await conversations.append(THERE, messages[:20], fence=Fence())
    wanted = {"key": str(HERE), "turns": 5}

    def look(connection: sa.Connection) -> tuple[list[str], int]:
        sql = str(HISTORY.compile(dialect=connection.dialect))
        names = HISTORY.compile(dialect=connection.dialect).positiontup or ()
        values = tuple(wanted["key" if name.startswith("key") else name] for name in names)
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values)
        details = [row[3] for row in plan]
        steps = 0
        driver = connection.connection.driver_connection
        assert driver is not None

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        driver.set_progress_handler(count, 1)
        connection.execute(HISTORY, wanted).all()
        driver.set_progress_handler(None, 0)
        return details, steps

    details, steps = await store.read(look)
    # Rows are found by the primary key, in its order: nothing is scanned, nothing is sorted.
    assert details[0].startswith("SEARCH storage_messages USING INDEX sqlite_autoindex")
    assert "session=? AND turn_number>?" in details[0]
    assert not any("SCAN storage" in detail or "TEMP B-TREE" in detail for detail in details)
    # The steps of SQLite's machine: about ten for each of ten rows.
    assert 0 < steps < 200
    found = await conversations.history(HERE, turns=5)
    assert texts(found) == texts(messages[-10:])


async def test_appends_and_lists_use_indexes_only(store: SqlStore) -> None:
    def plans(connection: sa.Connection) -> list[str]:
        found: list[str] = []
        for sql in (
            "SELECT body FROM storage_messages WHERE position > 3 ORDER BY position LIMIT 5",
            "SELECT session FROM storage_sessions ORDER BY updated DESC LIMIT 5",
            "SELECT fence FROM storage_sessions WHERE session IN ('a', 'b') ORDER BY session",
        ):
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}")
            found += [row[3] for row in rows]
        return found

    assert all("USING" in plan and "INDEX" in plan for plan in await store.read(plans))


# -- sessions ------------------------------------------------------------------------


async def test_sessions_are_listed_newest_first(
    conversations: SqlConversations, clock: Clock
) -> None:
    await conversations.append(HERE, [said("a", "t1")], fence=Fence())
    clock.time += timedelta(minutes=1)
    await conversations.append(THERE, [said("a", "t1"), said("b", "t1")], fence=Fence())
    clock.time += timedelta(minutes=1)
    await conversations.append(HERE, [said("c", "t2")], fence=Fence())
    assert await conversations.sessions() == [
        {"session": str(HERE), "messages": 2, "updated": "2030-01-01T00:02:00+00:00"},
        {"session": str(THERE), "messages": 2, "updated": "2030-01-01T00:01:00+00:00"},
    ]
    assert len(await conversations.sessions(limit=1)) == 1


async def test_a_clock_that_jumps_back_neither_loses_nor_reorders_messages(
    conversations: SqlConversations, clock: Clock
) -> None:
    await conversations.append(HERE, [said("first", "t1")], fence=Fence())
    clock.time -= timedelta(days=400)
    late = replace(said("second", "t2"), created=clock.time)
    await conversations.append(HERE, [late], fence=Fence())
    assert texts(await conversations.history(HERE, turns=5)) == ["first", "second"]
    (row,) = await conversations.sessions()
    assert (row["messages"], row["updated"]) == (2, clock.time.isoformat())
