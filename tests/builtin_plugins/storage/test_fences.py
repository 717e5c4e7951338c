"""Of two who hold one session's lane without knowing of one another, one writes."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import sqlalchemy as sa
from tests.support.postgres import Server
from tests.support.script import Script, Scripted, say

from hookgate import Gateway
from hookgate.builtin_plugins.storage import lanes
from hookgate.builtin_plugins.storage.conversations import SqlConversations
from hookgate.builtin_plugins.storage.engine.sqlite import Written
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.core.domain.errors import StaleFenceError
from hookgate.core.domain.messages import Message
from hookgate.core.domain.parts import Text
from hookgate.core.domain.ports import CONVERSATIONS, LANES
from hookgate.core.domain.turn import Fence, SessionKey, Turn
from hookgate.core.host import SystemClock
from hookgate.core.settings.schema import Settings
from hookgate.hookspecs import hookimpl
from hookgate.ports import STORE
from hookgate.sessions import InProcessConversations, InProcessLanes

if TYPE_CHECKING:
    from tests.builtin_plugins.storage.conftest import OpenStore

HERE = SessionKey("demo", "cli", "local", "main")
BUILTIN = ("control", "storage", "providers")

Kept: TypeAlias = InProcessConversations | SqlConversations


@pytest.fixture(params=["process", "sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
async def two(request: pytest.FixtureRequest, opened: OpenStore) -> tuple[Kept, Kept]:
    """The conversations of one store, as two gateways have them; on SQLite there is but one."""
    if request.param == "process":
        kept = InProcessConversations()
        return kept, kept
    if request.param == "sqlite":
        store = await opened()
        return SqlConversations(store, SystemClock()), SqlConversations(store, SystemClock())
    url = request.getfixturevalue("url")
    stores = [await opened(url=url), await opened(url=url)]
    assert all(store.durable for store in stores)
    return SqlConversations(stores[0], SystemClock()), SqlConversations(stores[1], SystemClock())


def said(text: str, turn: str = "t") -> Message:
    return Message(role="user", parts=(Text(text),), turn=turn)


async def texts(kept: Kept) -> list[str]:
    return [message.text for message in await kept.history(HERE, turns=100)]


async def holder(kept: Kept) -> Fence:
    fence = Fence()
    await kept.load(HERE, turns=5, fence=fence)
    return fence


async def test_a_stale_holders_write_is_refused(two: tuple[Kept, Kept]) -> None:
    one, other = two
    old = await holder(one)
    await one.append(HERE, [said("question")], fence=old)
    new = await holder(other)
    await other.append(HERE, [said("another")], fence=new)
    with pytest.raises(StaleFenceError, match="somebody else has written"):
        await one.append(HERE, [said("late answer")], fence=old)
    await other.append(HERE, [said("answer")], fence=new)
    assert await texts(one) == ["question", "another", "answer"]


async def test_of_two_that_read_the_same_the_first_to_write_goes_on(
    two: tuple[Kept, Kept],
) -> None:
    one, other = two
    fences = await holder(one), await holder(other)
    results = await asyncio.gather(
        one.append(HERE, [said("one")], fence=fences[0]),
        other.append(HERE, [said("other")], fence=fences[1]),
        return_exceptions=True,
    )
    (loser,) = [which for which, result in enumerate(results) if result is not None]
    assert isinstance(results[loser], StaleFenceError)
    winner = 1 - loser
    await two[winner].append(HERE, [said("more")], fence=fences[winner])
    with pytest.raises(StaleFenceError):
        await two[loser].append(HERE, [said("never")], fence=fences[loser])
    assert await texts(one) == [("one", "other")[winner], "more"]


async def test_a_first_write_is_refused_where_messages_came_since_the_session_was_read(
    two: tuple[Kept, Kept],
) -> None:
    one, other = two
    early = await holder(one)
    await one.append(HERE, [said("question")], fence=early)
    late = await holder(other)
    # Of the same holder that `late` has seen there: it is not the holder that tells.
    await one.append(HERE, [said("answer")], fence=early)
    with pytest.raises(StaleFenceError):
        await other.append(HERE, [said("without the answer")], fence=late)
    assert await texts(other) == ["question", "answer"]


async def test_a_holder_that_has_read_nothing_takes_the_session_as_it_is_and_then_keeps_it(
    two: tuple[Kept, Kept],
) -> None:
    one, other = two
    await one.append(HERE, [said("a")], fence=Fence())
    blind = Fence()
    await other.append(HERE, [said("b")], fence=blind)
    await other.append(HERE, [said("c")], fence=blind)
    await one.append(HERE, [said("d")], fence=Fence())
    with pytest.raises(StaleFenceError):
        await other.append(HERE, [said("e")], fence=blind)
    assert await texts(one) == ["a", "b", "c", "d"]


async def test_a_holder_that_does_not_know_whether_its_write_was_taken_can_go_on(
    opened: OpenStore,
) -> None:
    kept = SqlConversations(await opened(), SystemClock())
    fence = await holder(kept)
    task = asyncio.create_task(kept.append(HERE, [said("question")], fence=fence))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await kept.append(HERE, [said("answer")], fence=fence)
    assert await texts(kept) == ["question", "answer"]


async def test_a_session_that_was_deleted_is_not_brought_back_by_whoever_wrote_to_it(
    two: tuple[Kept, Kept],
) -> None:
    one, other = two
    fence = await holder(one)
    await one.append(HERE, [said("question")], fence=fence)
    await other.forget(HERE)
    with pytest.raises(StaleFenceError):
        await one.append(HERE, [said("answer")], fence=fence)
    assert await texts(one) == []


# -- what a plugin writes beside it ------------------------------------------------------


async def test_what_a_plugin_writes_stands_or_falls_with_the_lane(tmp_path: Path) -> None:
    rows = sa.Table("rows", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True))
    async with Gateway(settings(tmp_path), builtin=BUILTIN) as gateway:
        host = gateway.host
        await host[STORE].write(rows.metadata.create_all)

        def put(lease: Any, number: int) -> Any:
            def work(connection: sa.Connection) -> None:
                connection.execute(rows.insert(), {"id": number})
                lease.check(connection)

            return host[STORE].write(work)

        async with host[LANES].hold(HERE) as lease:
            await put(lease, 1)
            await host[CONVERSATIONS].append(HERE, [said("mine")], fence=lease.fence)
            await put(lease, 2)
            await host[CONVERSATIONS].append(HERE, [said("another's")], fence=Fence())
            with pytest.raises(StaleFenceError, match="somebody else"):
                await put(lease, 3)
        async with host[LANES].hold(HERE) as lease:
            pass
        with pytest.raises(StaleFenceError, match="given back"):
            await put(lease, 4)
        found = await host[STORE].read(lambda c: list(c.execute(sa.select(rows.c.id)).scalars()))
        assert found == [1, 2]
        (session,) = await host[CONVERSATIONS].sessions()
        assert session["messages"] == 2


async def test_a_lease_is_checked_without_a_store_too() -> None:
    kept = InProcessConversations()
    async with InProcessLanes(lambda: kept).hold(HERE) as lease:
        lease.check(None)  # type: ignore[arg-type]
        await kept.append(HERE, [said("another's")], fence=Fence())
        with pytest.raises(StaleFenceError):
            lease.check(None)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("begun", [True, False])
async def test_nobody_takes_the_lane_between_the_check_and_the_commit(
    opened: OpenStore, url: str, server: Server, begun: bool
) -> None:
    stores: list[SqlStore] = [await opened(url=url), await opened(url=url)]
    one, other = (SqlConversations(store, SystemClock()) for store in stores)
    if begun:
        await one.append(HERE, [said("before")], fence=Fence())
    checked, release = threading.Event(), threading.Event()
    fence = await holder(one)

    def work(connection: sa.Connection) -> None:
        one.check(connection, HERE, fence)
        checked.set()
        assert release.wait(30)

    working = asyncio.create_task(stores[0].write(work))
    assert await asyncio.to_thread(checked.wait, 30)
    taking = asyncio.create_task(other.append(HERE, [said("after")], fence=Fence()))
    waits = "SELECT pid FROM pg_locks WHERE NOT granted"
    while not await asyncio.to_thread(server.ask, waits):
        assert not taking.done()
    release.set()
    await asyncio.gather(working, taking)
    with pytest.raises(StaleFenceError):
        await stores[0].write(lambda connection: one.check(connection, HERE, fence))


# -- gateways ----------------------------------------------------------------------------


def settings(home: Path, **storage: Any) -> Settings:
    return Settings(
        home=home,
        agents={"main": {"model": "script/one"}},
        default_agent="main",
        plugin={"storage": storage},
    )


def gateway(url: str, home: Path, script: Script) -> Gateway:
    return Gateway(settings(home, url=url), builtin=BUILTIN, plugins=[Scripted(script)])


async def stored(gate: Gateway, turn: Turn) -> list[str]:
    kept = await gate.host[CONVERSATIONS].history(turn.session, turns=100)
    return [message.text for message in kept]


@pytest.mark.slow
async def test_of_two_gateways_on_one_database_one_answers_in_a_session_at_a_time(
    url: str, tmp_path: Path
) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def pause() -> None:
        asked.set()
        await go_on.wait()

    async with (
        gateway(url, tmp_path / "a", Script([pause, *say("late")])) as one,
        gateway(url, tmp_path / "b", Script(say("first"))) as other,
    ):
        slow = asyncio.create_task(one.chat("slow"))
        await asked.wait()
        quick = asyncio.create_task(other.chat("quick"))
        wanted = sa.text("SELECT count(*) FROM storage_lanes WHERE wanted <> ''")
        while not await other.host[STORE].read(lambda c: c.execute(wanted).scalar()):
            assert not quick.done()
        go_on.set()
        turns = await asyncio.gather(slow, quick)
        assert [turn.ending for turn in turns] == ["done", "done"]
        assert await stored(one, turns[0]) == ["slow", "late", "quick", "first"]


TAKEN = (
    "UPDATE storage_lanes SET holder = 'another', epoch = epoch + 1, wanted = '', "
    "until = clock_timestamp() + interval '0.3 s'"
)
"""What another gateway does whose clock says that a lane is over."""


@pytest.mark.slow
async def test_a_turn_that_has_lost_its_lane_keeps_no_answer_and_says_what_to_do(
    url: str, tmp_path: Path
) -> None:
    async def lose() -> None:
        await one.host[STORE].write(lambda c: c.exec_driver_sql(TAKEN) and None)

    async with gateway(url, tmp_path / "a", Script([lose, *say("late")], say("again"))) as one:
        turn = await one.chat("slow")
        assert turn.ending == "failed"
        assert turn.error is not None
        assert (turn.error.code, turn.error.action) == ("lane_lost", "send the message again")
        assert await stored(one, turn) == ["slow"]
        # And it goes on from there.
        assert (await one.chat("more")).answer == "again"


@pytest.mark.slow
async def test_a_turn_that_has_lost_its_lane_before_it_was_committed_begins_anew(
    url: str, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    recall = SqlConversations.recall
    calls = 0

    def lost_once(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            server.ask(TAKEN, database="hookgate")
        return recall(*args, **kwargs)

    monkeypatch.setattr(SqlConversations, "recall", lost_once)
    async with gateway(url, tmp_path / "a", Script(say("hi"))) as one:
        turn = await one.chat("hello")
        assert (turn.ending, turn.answer, calls) == ("done", "hi", 2)
        assert await stored(one, turn) == ["hello", "hi"]


async def test_a_turn_costs_two_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits: list[Written] = []
    commit = Written.commit

    def counted(written: Written) -> None:
        commits.append(written)
        commit(written)

    plugins = [Scripted(Script(say("hi")))]
    async with Gateway(settings(tmp_path), builtin=BUILTIN, plugins=plugins) as gate:
        monkeypatch.setattr(Written, "commit", counted)
        turns = [await gate.chat("hello"), await gate.chat("again")]
    assert [turn.ending for turn in turns] == ["done", "done"]
    assert len(commits) == 4


@pytest.mark.slow
async def test_a_turn_whose_lane_goes_while_it_ends_was_committed_and_is_no_other_one(
    url: str, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "RENEW_SECONDS", 0.05)
    ends: list[str] = []
    noticed = asyncio.Event()

    class Slow:
        name = "slow"

        @hookimpl
        async def turn_ended(self, turn: Turn) -> None:
            ends.append(str(turn.ending))
            await asyncio.to_thread(server.ask, TAKEN, database="hookgate")
            task = asyncio.current_task()
            assert task is not None
            # Until the keeper of lanes has seen it, and has stopped the turn.
            with suppress(TimeoutError):
                async with asyncio.timeout(2.0):
                    await noticed.wait()

    script = Script(say("first"), say("second"))
    config = settings(tmp_path / "a", url=url)
    async with Gateway(config, builtin=BUILTIN, plugins=[Scripted(script), Slow()]) as one:
        turn = await one.chat("pay once")
        kept = await stored(one, turn)
    assert (ends, kept) == (["done"], ["pay once", "first"])
    assert len(script.requests) == 1
