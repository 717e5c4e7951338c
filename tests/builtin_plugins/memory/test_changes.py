"""What is known of memory's rows is not asked for again, and what changes them is always seen."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.builtin_plugins.stores import opened_store
from tests.builtin_plugins.turns import TurnedClock, make_host

from hookgate import CLOCK, Fence, Message, Provenance, SessionKey, Text
from hookgate.builtin_plugins.memory import tables
from hookgate.builtin_plugins.memory.domain import Note, scopes_of
from hookgate.builtin_plugins.memory.keeper import BUSY_SECONDS, Keeper
from hookgate.builtin_plugins.memory.settings import MemorySettings
from hookgate.builtin_plugins.storage import tables as storage
from hookgate.builtin_plugins.storage.conversations import SqlConversations

if TYPE_CHECKING:
    from hookgate.builtin_plugins.storage.store import SqlStore

HERE, THERE = (SessionKey("demo", "cli", "local", peer) for peer in ("me", "you"))
SCOPE = scopes_of(HERE, MemorySettings()).kept


class Counted:
    """A store that counts how often it is asked and written to."""

    def __init__(self, store: SqlStore) -> None:
        self._store = self.behind = store
        self.reads = self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read(self, work: Callable[[Any], Any]) -> Any:
        self.reads += 1
        return await self._store.read(work)

    async def write(self, work: Callable[[Any], Any], **more: Any) -> Any:
        self.writes += 1
        return await self._store.write(work, **more)


class Told:
    """One gateway's memory, and what is said there."""

    def __init__(self, store: SqlStore) -> None:
        host = make_host()
        self.clock = TurnedClock()
        host.provide(CLOCK, self.clock)
        self.store = Counted(store)
        self.conversations = SqlConversations(store, host.clock)
        counted: Any = self.store
        self.keeper = Keeper(host, counted, self.conversations, MemorySettings)
        self.conversations.forgets_with(self.keeper.forget_with)

    async def say(self, text: str, turn: str, session: SessionKey = HERE) -> None:
        parts = (Text(text),)
        said = Message(role="user", parts=parts, turn=turn, provenance=Provenance.CHANNEL)
        await self.conversations.append(session, [said], fence=Fence())
        self.keeper.wake(session, turn)

    async def recalled(self, query: str, *without: str) -> list[str]:
        found = await self.keeper.search([SCOPE], query, without=without, committed=True)
        return [hit.text for hit in found if hit.kind != "fact"]

    async def asked(self, query: str, *without: str) -> int:
        """Return how often the store is asked where a message recalls nothing."""
        before = self.store.reads
        assert await self.recalled(query, *without) == []
        return self.store.reads - before


@pytest.fixture
async def told(tmp_path: Path) -> AsyncIterator[Told]:
    async with opened_store(tmp_path) as store:
        await store.migrate("storage", storage.METADATA, storage.SCRIPTS)
        await store.migrate("memory", tables.METADATA, tables.SCRIPTS)
        yield Told(store)


async def test_a_turn_in_a_scope_that_knows_no_fact_asks_the_store_nothing(told: Told) -> None:
    await told.say("The sky is wide.", "1")
    await told.keeper.follow()
    assert await told.asked("Where do I live, and is the sky wide?", "1") == 1
    assert await told.asked("Where do I live, and is the sky wide?", "1") == 0
    assert await told.asked("What of trains to Bergen?") == 0


async def test_what_is_learned_is_looked_at_once_and_in_its_scope_alone(told: Told) -> None:
    await told.say("The sky is wide.", "1")
    await told.keeper.follow()
    assert await told.asked("Bread?") == 1
    await told.say("Bread keeps for a week.", "2", THERE)
    await told.keeper.follow()
    assert await told.asked("Bread?") == 0
    await told.say("Bread keeps for a day.", "3")
    await told.keeper.follow()
    assert (await told.recalled("How long does bread keep?"))[0] == "Bread keeps for a day."


async def test_what_this_gateway_has_learned_itself_is_not_read_again(told: Told) -> None:
    await told.say("The sky is wide.", "1")
    await told.keeper.follow()
    assert await told.asked("Bread?") == 1
    await told.say("Bread keeps for a week, and cheese for a month.", "2")
    await told.keeper.follow()
    assert await told.asked("What of trains to Bergen?") == 0
    recalled = await told.recalled("How long does bread keep?")
    assert recalled[0] == "Bread keeps for a week, and cheese for a month."


async def test_what_somebody_has_said_first_of_all_is_not_read_again(told: Told) -> None:
    await told.say("The sky is wide.", "0", THERE)
    await told.keeper.follow()
    assert await told.asked("Bread?") == 1  # whether there is anything
    await told.say("Bread keeps for a week.", "1")
    await told.keeper.follow()
    assert await told.asked("What of trains to Bergen?") == 0
    assert await told.recalled("How long does bread keep?") == ["Bread keeps for a week."]


async def test_what_others_have_said_first_of_all_is_read_with_what_was_learned(
    told: Told,
) -> None:
    other = Told(told.store.behind)
    await told.say("The sky is wide.", "0", THERE)
    await told.keeper.follow()
    assert await told.asked("bread?") == 1
    await told.say("Bread keeps for a day.", "1")
    assert await other.keeper.follow() == 1
    await told.say("Bread keeps for a week.", "2")
    assert await told.keeper.follow() == 1
    assert len(await told.recalled("bread?")) == 2


async def test_what_is_said_first_behind_what_was_forgotten_is_all_that_is_known(
    told: Told,
) -> None:
    await told.say("Bread keeps for a day.", "1")
    await told.keeper.follow()
    assert await told.recalled("bread?") == ["Bread keeps for a day."]
    await told.conversations.forget(HERE)
    await told.say("Bread keeps for a week.", "2")
    await told.keeper.follow()
    assert await told.recalled("bread?") == ["Bread keeps for a week."]


async def test_what_others_learned_in_between_is_read_with_what_was_learned(told: Told) -> None:
    other = Told(told.store.behind)
    await told.say("Bread keeps for a day.", "1")
    await told.keeper.follow()
    assert await told.recalled("bread?") == ["Bread keeps for a day."]
    await told.say("Bread keeps for a month.", "2")
    assert await other.keeper.follow() == 1
    await told.say("Bread keeps for a week.", "3")
    assert await told.keeper.follow() == 1
    assert len(await told.recalled("bread?")) == 3


async def test_a_fact_is_seen_that_was_learned_where_there_was_none(told: Told) -> None:
    await told.say("The sky is wide.", "1")
    await told.keeper.follow()
    assert await told.asked("Where do I live?") == 1
    await told.say("I live in Lyon.", "2")
    await told.keeper.follow()
    found = await told.keeper.search([SCOPE], "Where do I live?", committed=True)
    assert "fact" in [hit.kind for hit in found]


async def test_what_was_just_said_elsewhere_is_learned_before_somebody_asks_for_it(
    told: Told,
) -> None:
    assert await told.recalled("bread?") == []
    await told.say("Bread keeps for a day.", "1")
    writes = told.store.writes
    assert await told.recalled("bread?", "1") == []
    assert told.store.writes == writes  # it stands in front of the model
    assert await told.recalled("bread?") == ["Bread keeps for a day."]
    assert told.store.writes == writes + 1


async def test_where_many_speak_at_once_not_each_turn_waits_for_what_the_others_said(
    told: Told,
) -> None:
    await told.keeper.follow()
    await told.say("Bread keeps for a day.", "1")
    writes = told.store.writes
    assert await told.recalled("bread?") == []
    assert told.store.writes == writes
    found = await told.keeper.search([SCOPE], "bread?")  # a command, or a tool, waits
    assert [hit.text for hit in found] == ["Bread keeps for a day."]
    await told.say("Bread keeps for a week.", "2")
    told.clock.advance(BUSY_SECONDS)
    assert len(await told.recalled("bread?")) == 2


async def test_what_many_say_is_learned_in_one_write(told: Told) -> None:
    for number in range(30):
        session = SessionKey("demo", "cli", "local", f"p{number}")
        await told.say(f"I like tea number {number}.", str(number), session)
    before = told.store.reads, told.store.writes
    assert await told.keeper.follow() == 30
    assert (told.store.reads, told.store.writes) == (before[0] + 1, before[1] + 1)


async def test_a_note_is_seen_where_nothing_was_known_before(told: Told) -> None:
    await told.say("The sky is wide.", "1")
    await told.keeper.follow()
    assert await told.asked("When comes the mail?") == 1
    note = Note(
        id="note_1", scope=SCOPE, text="The mail comes on Mondays.", created=datetime.now(UTC)
    )
    await told.keeper.note(note)
    assert await told.recalled("When comes the mail?") == ["The mail comes on Mondays."]


async def test_what_was_forgotten_with_its_conversation_is_never_recalled_again(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    await told.say("Bread keeps for a day.", "1")
    await told.keeper.follow()
    assert await told.recalled("bread?") == ["Bread keeps for a day."]
    begun, go_on = asyncio.Event(), threading.Event()
    loop, forget = asyncio.get_running_loop(), told.keeper.forget_with

    def slow(*given: Any) -> None:
        forget(*given)
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(10)

    monkeypatch.setattr(told.conversations, "_forgetting", [slow])
    forgetting = asyncio.create_task(told.conversations.forget(HERE))
    await begun.wait()
    # Before the commit it is there, and whoever forgets may give up waiting for that.
    assert await told.recalled("bread?") == ["Bread keeps for a day."]
    forgetting.cancel()
    go_on.set()
    await told.say("The sky is wide.", "2", THERE)
    assert await told.recalled("bread?") == []


async def test_what_another_program_writes_is_seen_as_of_the_next_commit(
    told: Told, tmp_path: Path
) -> None:
    await told.say("Bread keeps for a day.", "1")
    await told.keeper.follow()
    assert await told.recalled("bread?") == ["Bread keeps for a day."]
    assert await told.recalled("bread?") == ["Bread keeps for a day."]
    with closing(sqlite3.connect(tmp_path / "hookgate.db")) as other, other:
        other.execute("UPDATE memory_turn SET text = 'Bread keeps for ever.', stamp = stamp + 1")
        other.execute("UPDATE memory_scope SET version = version + 1, removed = version + 1")
        other.execute("DELETE FROM memory_turn")
    await told.say("The sky is wide.", "2", THERE)
    assert await told.recalled("bread?") == []


async def test_that_nothing_was_forgotten_is_known_as_long_as_nobody_can_have(
    told: Told, tmp_path: Path, monkeypatch: Any
) -> None:
    async def known() -> object:
        await told.say("The sky is wide.", f"{len(seen)}", THERE)
        await told.keeper.follow()
        seen.append(told.keeper.forgotten)
        return seen[-1]

    seen: list[object] = []
    first = await known()
    assert first is not None
    assert await known() == first, "learning forgets nothing"
    await told.keeper.forget([SCOPE], ids=["none"])
    await told.keeper.forget([SCOPE], everything=True, check=True)
    assert await known() == first, "nothing was there, and it was only looked at"
    await told.say("Bread keeps for a day.", "bread")
    await told.keeper.follow()
    await told.keeper.forget([SCOPE], turns=["bread"])
    second = await known()
    assert second not in (first, None)
    await told.conversations.forget(THERE)
    assert told.keeper.forgotten is None, "nobody here knows whether that is committed"
    third = await known()
    assert third not in (first, second, None)
    with closing(sqlite3.connect(tmp_path / "hookgate.db")) as other, other:
        other.execute("DELETE FROM memory_turn")
    assert await known() not in seen[:-1]
    monkeypatch.setattr(type(told.store.behind), "outside", None)
    assert told.keeper.forgotten is None, "others share the store"
