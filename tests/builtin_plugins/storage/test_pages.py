"""What was said, page by page: one session's, and all sessions' in the order of the commits."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.postgres import Server

from hookgate.builtin_plugins.storage.backup import Kept, back_up, put_back
from hookgate.builtin_plugins.storage.conversations import EXPORT, SINCE, SqlConversations
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.builtin_plugins.storage.tables import MESSAGES, SESSIONS
from hookgate.core.domain.messages import Message
from hookgate.core.domain.parts import Text
from hookgate.core.domain.turn import Fence, SessionKey
from hookgate.core.host import SystemClock
from hookgate.sessions import InProcessConversations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.builtin_plugins.storage.conftest import OpenStore

    from hookgate.core.domain.ports import Page

HERE = SessionKey("demo", "cli", "local", "main")
THERE = SessionKey("demo", "cli", "local", "other")

Conversing: TypeAlias = InProcessConversations | SqlConversations


@pytest.fixture(params=["process", "sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
async def kept(request: pytest.FixtureRequest, opened: OpenStore) -> Conversing:
    if request.param == "process":
        return InProcessConversations()
    where = {} if request.param == "sqlite" else {"url": request.getfixturevalue("url")}
    store = await opened(**where)
    assert store.durable
    return SqlConversations(store, SystemClock())


def said(text: str, turn: str = "t") -> Message:
    return Message(role="user", parts=(Text(text),), turn=turn)


async def put(kept: Conversing, key: SessionKey, *words: str, turn: str = "t") -> None:
    await kept.append(key, [said(word, turn) for word in words], fence=Fence())


async def texts(kept: Conversing, turns: int = 100) -> list[str]:
    return [message.text for message in await kept.history(HERE, turns=turns)]


def words(page: Page) -> list[str]:
    return [each.message.text for each in page.said]


async def everything(kept: Conversing, cursor: str = "", limit: int = 2) -> tuple[list[str], str]:
    found: list[str] = []
    while True:
        page = await kept.since(cursor, limit=limit)
        found += words(page)
        cursor = page.cursor
        if not page.more:
            return found, cursor


# -- pages -------------------------------------------------------------------------------


async def test_a_session_is_exported_page_by_page_and_goes_on_where_it_ended(
    kept: Conversing,
) -> None:
    await put(kept, HERE, "a", "b", turn="t1")
    await put(kept, THERE, "not this")
    await put(kept, HERE, "c", "d", "e", turn="t2")
    first = await kept.export(HERE, limit=3)
    assert (words(first), first.more) == (["a", "b", "c"], True)
    assert {each.session for each in first.said} == {HERE}
    second = await kept.export(HERE, after=first.cursor, limit=3)
    assert (words(second), second.more) == (["d", "e"], False)
    last = await kept.export(HERE, after=second.cursor)
    assert (words(last), last.more) == ([], False)
    await put(kept, HERE, "f", turn="t3")
    assert words(await kept.export(HERE, after=last.cursor)) == ["f"]
    assert words(await kept.export(SessionKey("no", "such", "session", "x"))) == []


async def test_turns_that_are_forgotten_between_two_pages_neither_repeat_nor_lose_others(
    kept: Conversing,
) -> None:
    for number in range(6):
        await put(kept, HERE, f"a{number}", f"b{number}", turn=f"t{number}")
    first = await kept.export(HERE, limit=5)
    await kept.forget(HERE, turns=["t0", "t3", "t5"])
    rest = await kept.export(HERE, after=first.cursor)
    assert words(first) + words(rest) == ["a0", "b0", "a1", "b1", "a2", "b2", "a4", "b4"]


async def test_all_sessions_are_read_in_the_order_in_which_they_were_written(
    kept: Conversing,
) -> None:
    await put(kept, HERE, "1", "2")
    await put(kept, THERE, "3")
    await put(kept, HERE, "4")
    found, cursor = await everything(kept)
    assert found == ["1", "2", "3", "4"]
    assert await everything(kept, cursor) == ([], cursor)
    page = await kept.since(cursor)
    assert page.cursor == cursor
    await kept.forget(HERE)
    await put(kept, THERE, "5")
    assert (await everything(kept, cursor))[0] == ["5"]
    assert (await everything(kept))[0] == ["3", "5"]
    assert (await kept.since(limit=1)).said[0].session == THERE


@pytest.mark.parametrize("cursor", ["x", "-1", "1.", "9" * 30 + ".1.2", "1e3", "²"])
async def test_a_cursor_that_no_page_gave_is_said(kept: Conversing, cursor: str) -> None:
    with pytest.raises(ValueError, match=r"found the cursor .*expected one that a page gave"):
        await kept.since(cursor)
    with pytest.raises(ValueError, match=r"found the cursor .*expected one that a page gave"):
        await kept.export(HERE, after=cursor)


async def test_a_page_on_which_nothing_could_stand_is_refused(kept: Conversing) -> None:
    with pytest.raises(ValueError, match="expected 1 or more"):
        await kept.since(limit=0)
    with pytest.raises(ValueError, match="expected 1 or more"):
        await kept.export(HERE, limit=0)


async def test_pages_are_found_by_indexes(store: SqlStore) -> None:
    def plans(connection: sa.Connection) -> list[str]:
        found: list[str] = []
        for query in (EXPORT, SINCE):
            compiled = query.compile(
                dialect=connection.dialect, compile_kwargs={"render_postcompile": True}
            )
            values = tuple(5 for _ in compiled.positiontup or ())
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}", values)
            found += [row[3] for row in rows]
        return found

    export, since = await store.read(plans)
    assert "session=? AND (turn_number,seq)>(?,?)" in export
    assert "storage_messages_by_position (position>?)" in since


async def test_a_copy_that_is_put_back_keeps_taint_and_order_and_goes_on(
    opened: OpenStore, tmp_path: Path
) -> None:
    web = frozenset({"tool:web"})
    first, other = tmp_path / "first", tmp_path / "other"
    kept = SqlConversations(await opened(first), SystemClock())
    await put(kept, HERE, "1", turn="t1")
    await put(kept, THERE, "2")
    await put(kept, HERE, "3", turn="t2")
    await kept.add_taint(HERE, web, fence=Fence())
    await kept.forget(HERE, turns=["t1"])
    now = datetime(2030, 1, 1, tzinfo=UTC)
    place, _ = back_up(Kept(store=first / "hookgate.db"), tmp_path, now=now, force=False)
    await put(kept, HERE, "after the copy")
    put_back(Kept(store=other / "hookgate.db"), place, force=False)

    again = SqlConversations(await opened(other), SystemClock())
    found, cursor = await everything(again)
    assert found == ["2", "3"]
    assert await again.taint(HERE, turns=5) == web
    await put(again, HERE, "4", turn="t3")
    assert (await everything(again, cursor))[0] == ["4"]
    assert await texts(again) == ["3", "4"]


# -- commits of others -------------------------------------------------------------------


@pytest.mark.slow
async def test_no_message_is_passed_over_while_several_gateways_write(
    url: str, opened: OpenStore
) -> None:
    gateways = [SqlConversations(await opened(url=url), SystemClock()) for _ in range(3)]
    reader = SqlConversations(await opened(url=url), SystemClock())
    rounds, peers = 40, 4

    async def write(which: int, peer: int) -> None:
        key = SessionKey("a", "c", "l", f"{which}-{peer}")
        for number in range(rounds):
            await put(gateways[which], key, f"{which}-{peer}-{number}")

    writing = asyncio.gather(*(write(which, peer) for which in range(3) for peer in range(peers)))
    found: list[str] = []
    cursor, over = "", False
    while not over:
        over = writing.done()  # what is committed by now is in the next pages
        fresh, cursor = await everything(reader, cursor, limit=7)
        found += fresh
    await writing
    assert len(found) == len(set(found)) == 3 * peers * rounds
    for which in range(3):
        for peer in range(peers):
            mine = [text for text in found if text.startswith(f"{which}-{peer}-")]
            assert mine == [f"{which}-{peer}-{number}" for number in range(rounds)]


@pytest.mark.slow
async def test_a_commit_that_hangs_holds_back_those_behind_it_and_not_the_reader(
    url: str, opened: OpenStore, server: Server
) -> None:
    stores = [await opened(url=url), await opened(url=url)]
    one, other = (SqlConversations(store, SystemClock()) for store in stores)
    await put(one, HERE, "before")
    _, cursor = await everything(other)
    busy, free = threading.Event(), threading.Event()
    hangs, release = threading.Event(), threading.Event()

    def wait(entered: threading.Event, until: threading.Event) -> None:
        entered.set()
        assert until.wait(30)

    # Both arrive while the writer is busy: one transaction.
    before = asyncio.create_task(stores[0].write(lambda _: wait(busy, free)))
    assert await asyncio.to_thread(busy.wait, 30)
    first = asyncio.gather(put(one, HERE, "first"), stores[0].write(lambda _: wait(hangs, release)))
    await asyncio.sleep(0)
    free.set()
    await before
    assert await asyncio.to_thread(hangs.wait, 30)
    second = asyncio.create_task(put(other, THERE, "second"))
    waits = "SELECT pid FROM pg_locks WHERE NOT granted"
    while not await asyncio.to_thread(server.ask, waits):
        assert not second.done()
    assert await everything(other, cursor) == ([], cursor)
    release.set()
    await asyncio.gather(first, second)
    assert (await everything(other, cursor))[0] == ["first", "second"]


# -- forgetting --------------------------------------------------------------------------


async def test_turns_are_forgotten_and_the_last_ones_are_counted_without_them(
    kept: Conversing,
) -> None:
    for number in range(6):
        await put(kept, HERE, f"a{number}", f"b{number}", turn=f"t{number}")
    assert await kept.forget(HERE, turns=["t4", "t1", "t5", "no such turn"]) == 6
    assert await texts(kept) == ["a0", "b0", "a2", "b2", "a3", "b3"]
    assert await texts(kept, turns=2) == ["a2", "b2", "a3", "b3"]
    (row,) = await kept.sessions()
    assert row["messages"] == 6
    # The same turn goes on: it is one of its own, and not the one that has its place now.
    await put(kept, HERE, "late", turn="t5")
    await put(kept, HERE, "next", turn="t6")
    assert await texts(kept, turns=2) == ["late", "next"]
    assert await texts(kept, turns=3) == ["a3", "b3", "late", "next"]
    assert await kept.forget(HERE, turns=["t4"]) == 0
    assert await kept.forget(THERE, turns=["t4"]) == 0


async def test_what_was_added_stays_when_turns_are_forgotten_and_goes_with_the_session(
    kept: Conversing,
) -> None:
    web = frozenset({"tool:web"})
    await put(kept, HERE, "a")
    await kept.add_taint(HERE, web, fence=Fence())
    assert await kept.forget(HERE, turns=["t"]) == 1
    assert await kept.sessions() == []
    assert await kept.taint(HERE, turns=5) == web
    await kept.forget(HERE)
    assert await kept.taint(HERE, turns=5) == frozenset()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("say"), st.lists(st.sampled_from("abcde"), min_size=1, max_size=3)),
            st.tuples(st.just("forget"), st.lists(st.sampled_from("abcde"), max_size=3)),
        ),
        max_size=12,
    ),
    turns=st.integers(1, 4),
)
async def test_forgetting_in_the_store_is_that_of_the_conversations_in_the_process(
    store: SqlStore, steps: Sequence[tuple[str, list[str]]], turns: int
) -> None:
    for table in (MESSAGES, SESSIONS):
        await store.write(lambda c, table=table: c.execute(table.delete()) and None)  # type: ignore[misc]
    both: tuple[Conversing, Conversing] = (
        InProcessConversations(),
        SqlConversations(store, SystemClock()),
    )
    number = 0
    for kind, names in steps:
        if kind == "forget":
            gone = [await each.forget(HERE, turns=names) for each in both]
            assert gone[0] == gone[1]
            continue
        for name in names:
            # A turn's id comes once: what follows an earlier one of that name is another turn.
            number += 1
            for each in both:
                await put(each, HERE, f"{number}", turn=name)
    ours, theirs = [await each.export(HERE) for each in both]
    assert words(ours) == words(theirs)
    assert [await texts(each) for each in both] == [words(ours)] * 2
