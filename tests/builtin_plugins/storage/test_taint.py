"""The taint of a session: what its messages carry, and what was added beside them."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from hookgate.builtin_plugins.storage.conversations import SqlConversations
from hookgate.builtin_plugins.storage.tails import KnownTaints
from hookgate.core.domain.errors import StaleFenceError, StoreUnavailableError
from hookgate.core.domain.messages import CLEAN, Message
from hookgate.core.domain.parts import Text
from hookgate.core.domain.turn import Fence, SessionKey
from hookgate.core.host import SystemClock
from hookgate.sessions import InProcessConversations

if TYPE_CHECKING:
    from tests.builtin_plugins.storage.conftest import OpenStore

HERE = SessionKey("demo", "cli", "local", "main")
THERE = SessionKey("demo", "cli", "local", "other")
WEB, MAIL = frozenset({"tool:web"}), frozenset({"tool:mail"})

Kept: TypeAlias = InProcessConversations | SqlConversations


@pytest.fixture(params=["in the process", "in the store"])
async def kept(request: pytest.FixtureRequest, opened: OpenStore) -> Kept:
    if request.param == "in the process":
        return InProcessConversations()
    return SqlConversations(await opened(), SystemClock())


def said(turn: str, taint: frozenset[str] = CLEAN) -> Message:
    return Message(role="user", parts=(Text("x"),), turn=turn, taint=taint)


async def test_what_messages_carry_ends_with_the_window_and_what_was_added_does_not(
    kept: Kept,
) -> None:
    await kept.append(HERE, [said("t1", WEB), said("t1")], fence=Fence())
    await kept.add_taint(HERE, MAIL, fence=Fence())
    assert await kept.taint(HERE, turns=5) == WEB | MAIL
    for turn in ("t2", "t3"):
        await kept.append(HERE, [said(turn)], fence=Fence())
    assert await kept.taint(HERE, turns=3) == WEB | MAIL
    assert await kept.taint(HERE, turns=2) == MAIL
    assert await kept.taint(HERE, turns=0) == MAIL
    assert await kept.taint(THERE, turns=5) == CLEAN


async def test_what_is_added_is_there_before_anything_was_said_and_grows(kept: Kept) -> None:
    await kept.add_taint(HERE, frozenset(), fence=Fence())
    assert await kept.taint(HERE, turns=5) == CLEAN
    await asyncio.gather(*(kept.add_taint(HERE, each, fence=Fence()) for each in (WEB, MAIL, WEB)))
    assert await kept.taint(HERE, turns=5) == WEB | MAIL
    assert await kept.sessions() == []
    await kept.append(HERE, [said("t1")], fence=Fence())
    assert await kept.taint(HERE, turns=5) == WEB | MAIL
    (row,) = await kept.sessions()
    assert row["messages"] == 1


async def test_a_holder_that_was_replaced_adds_nothing(kept: Kept) -> None:
    stale, late = Fence(), Fence()
    await kept.load(HERE, turns=5, fence=stale)
    await kept.append(HERE, [said("t1", WEB)], fence=Fence())
    with pytest.raises(StaleFenceError):
        await kept.add_taint(HERE, MAIL, fence=stale)
    assert await kept.taint(HERE, turns=5) == WEB
    await kept.add_taint(HERE, MAIL, fence=late)
    assert await kept.taint(HERE, turns=5) == WEB | MAIL


async def test_adding_takes_the_lane_from_nobody(kept: Kept) -> None:
    running = Fence()
    await kept.load(HERE, turns=5, fence=running)
    await kept.add_taint(HERE, WEB, fence=Fence())
    for _ in range(2):
        await kept.append(HERE, [said("t1")], fence=running)
        await kept.add_taint(HERE, MAIL, fence=Fence())
    assert len(await kept.history(HERE, turns=5)) == 2


async def test_a_session_that_is_deleted_begins_clean(kept: Kept) -> None:
    await kept.append(HERE, [said("t1", WEB)], fence=Fence())
    await kept.add_taint(HERE, MAIL, fence=Fence())
    assert await kept.forget(HERE) == 1
    assert await kept.taint(HERE, turns=5) == CLEAN


async def test_sessions_of_which_only_the_taint_is_kept_are_bounded_too() -> None:
    kept = InProcessConversations(total=10)
    for number in range(100):
        key = SessionKey("demo", "cli", "local", str(number))
        await kept.add_taint(key, WEB, fence=Fence())
    keys = [SessionKey("demo", "cli", "local", str(number)) for number in range(100)]
    found = [await kept.taint(key, turns=5) for key in keys]
    assert found == [CLEAN] * 90 + [WEB] * 10


async def test_what_was_added_outlives_a_restart(opened: OpenStore) -> None:
    store = await opened()
    odd = frozenset({"tool:\x00 \ud800"})
    await SqlConversations(store, SystemClock()).add_taint(HERE, odd, fence=Fence())
    await store.close()
    again = SqlConversations(await opened(), SystemClock())
    assert await again.taint(HERE, turns=5) == odd


# -- what is known without asking the store -----------------------------------------------


async def asked_by(opened: OpenStore, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[int]]:
    """Return conversations whose store has been written to, and when it was read since."""
    store = await opened()
    kept = SqlConversations(store, SystemClock())
    await kept.append(HERE, [said("t1", WEB)], fence=Fence())
    read, reads = store.read, []

    async def counted(work: Any) -> Any:
        reads.append(len(reads))
        return await read(work)

    monkeypatch.setattr(store, "read", counted)
    return kept, reads


async def test_what_is_known_is_not_asked_for_again_before_it_changes(
    opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, reads = await asked_by(opened, monkeypatch)
    assert [await kept.taint(HERE, turns=5) for _ in range(3)] == [WEB] * 3
    assert len(reads) == 1
    await kept.add_taint(HERE, MAIL, fence=Fence())
    assert [await kept.taint(HERE, turns=5) for _ in range(2)] == [WEB | MAIL] * 2
    assert len(reads) == 2
    assert await kept.taint(HERE, turns=0) == MAIL
    await kept.append(HERE, [said("t2", frozenset({"tool:new"}))], fence=Fence())
    assert await kept.taint(HERE, turns=5) == WEB | MAIL | {"tool:new"}
    await kept.forget(HERE)
    assert await kept.taint(HERE, turns=5) == CLEAN


async def test_what_was_read_while_it_changed_is_not_kept(
    opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, _ = await asked_by(opened, monkeypatch)
    read = kept._store.read

    async def slow(work: Any) -> Any:
        found = await read(work)
        await kept.add_taint(HERE, MAIL, fence=Fence())
        return found

    with monkeypatch.context() as patched:
        patched.setattr(kept._store, "read", slow)
        assert await kept.taint(HERE, turns=5) == WEB
    assert await kept.taint(HERE, turns=5) == WEB | MAIL


async def test_a_write_that_fails_may_have_been_made(
    opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, _ = await asked_by(opened, monkeypatch)
    assert await kept.taint(HERE, turns=5) == WEB
    write = kept._store.write_together

    async def lost(*given: Any) -> Any:
        await write(*given)
        raise StoreUnavailableError("lost")

    with monkeypatch.context() as patched:
        patched.setattr(kept._store, "write_together", lost)
        with pytest.raises(StoreUnavailableError):
            await kept.add_taint(HERE, MAIL, fence=Fence())
    assert await kept.taint(HERE, turns=5) == WEB | MAIL


async def test_a_write_whose_caller_has_gone_is_made_all_the_same(opened: OpenStore) -> None:
    store = await opened()
    kept = SqlConversations(store, SystemClock())
    await kept.append(HERE, [said("t1", WEB)], fence=Fence())
    began, go = threading.Event(), threading.Event()

    def busy(_: object) -> None:
        began.set()
        go.wait(10)

    before = asyncio.ensure_future(store.write(busy))
    await asyncio.to_thread(began.wait, 10)
    gone = asyncio.ensure_future(kept.add_taint(HERE, MAIL, fence=Fence()))
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert await kept.taint(HERE, turns=5) == WEB  # it is not made yet
    go.set()
    await before
    await store.write(lambda _: None)
    assert await kept.taint(HERE, turns=5) == WEB | MAIL


async def test_where_other_gateways_write_too_it_is_asked_for_each_time(
    opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, reads = await asked_by(opened, monkeypatch)
    kept._store.shared = True
    assert [await kept.taint(HERE, turns=5) for _ in range(3)] == [WEB] * 3
    assert len(reads) == 3


async def test_once_a_program_beside_the_gateway_has_written_it_is_asked_for_again(
    opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, reads = await asked_by(opened, monkeypatch)
    for _ in range(2):
        assert await kept.taint(HERE, turns=5) == WEB
    monkeypatch.setattr(type(kept._store), "outside", property(lambda _: 7))
    assert await kept.taint(HERE, turns=5) == WEB
    assert len(reads) == 2


async def test_a_store_in_which_nobody_has_spoken_is_asked_once(
    opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened()
    kept, reads = SqlConversations(store, SystemClock()), []
    read = store.read

    async def counted(work: Any) -> Any:
        reads.append(work)
        return await read(work)

    monkeypatch.setattr(store, "read", counted)
    assert [await kept.taint(HERE, turns=5) for _ in range(3)] == [CLEAN] * 3
    assert len(reads) == 1


def test_of_many_sessions_the_last_ones_are_known() -> None:
    known = KnownTaints(sessions=2)
    for name in ("a", "b", "c"):
        known.keep(known.of(name, 5, 1), WEB)
    assert [known.of(name, 5, 1).taint for name in ("b", "c", "a")] == [WEB, WEB, None]
