from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from tests.builtin_plugins.turns import TurnedClock, make_host

from hookgate.builtin_plugins.storage.questions import SqlQuestions
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.builtin_plugins.storage.tables import QUESTION_ROWS
from hookgate.core.domain.errors import TurnError
from hookgate.core.domain.turn import Address, Claim, Principal
from hookgate.ports import STOPPED, Question

if TYPE_CHECKING:
    from sqlalchemy import Connection

CLOCK = TurnedClock()
NOTES = sa.Table("notes", sa.MetaData(), sa.Column("text", sa.Text))
ADA = Principal(id="ada", scopes=frozenset({"approve"}), bindings=(Claim("web"),))


def question(number: int = 1, **more: Any) -> Question:
    now = CLOCK.now()
    made: dict[str, Any] = {
        "id": f"ask_{number}",
        "subject": "form",
        "text": {"title": "a \u202e \x00 title"},
        "schema": {"type": "object", "properties": {"yes": {"type": "boolean"}}},
        "binding": "d" * 64,
        "address": Address("web", "shop", "ada"),
        "senders": ("ada",),
        "approvers": (("finance", "token:c*"),),
        "basis": {"of": "it"},
        "asked": now + timedelta(seconds=number),
        "expires": now + timedelta(days=2),
    }
    return Question(**{**made, **more})


def opened(store: SqlStore) -> SqlQuestions:
    return SqlQuestions(store, CLOCK, spawn=make_host().spawn)


async def rows(store: SqlStore) -> list[tuple[str, str, str]]:
    columns = (QUESTION_ROWS.c.id, QUESTION_ROWS.c.state, QUESTION_ROWS.c.why)
    query = sa.select(*columns).order_by(QUESTION_ROWS.c.id)
    return [tuple(row) for row in await store.read(lambda c: c.execute(query).all())]


async def test_a_question_is_shown_as_it_was_asked_to_whom_it_concerns(store: SqlStore) -> None:
    questions = opened(store)
    second, first = question(2), question(1)
    await questions.ask(second)
    await questions.ask(first)
    shown = [replace(one, owner=questions.owner) for one in (first, second)]
    assert list(await questions.waiting(ADA)) == shown
    assert await questions.find("ask_1") == shown[0]
    stranger = replace(ADA, bindings=(Claim("irc"),))
    assert list(await questions.waiting(stranger)) == []


async def test_of_racing_answers_one_counts_and_what_goes_with_it_is_written_once(
    store: SqlStore,
) -> None:
    await store.write(NOTES.create)
    questions = opened(store)
    settled = await questions.ask(question())

    def answer(number: int) -> Any:
        def also(connection: Connection | None) -> None:
            assert connection is not None
            connection.execute(NOTES.insert().values(text=f"p{number}"))

        return questions.answer("ask_1", {"yes": True}, by=f"p{number}", also=also)

    won = await asyncio.gather(*map(answer, range(20)))
    assert won.count(True) == 1
    notes = await store.read(lambda c: c.execute(sa.select(NOTES)).scalars().all())
    assert [settled.result().by] == notes
    assert (await questions.end("ask_1", "withdrawn", "late")) == settled.result()


async def test_whoever_ends_a_question_ends_the_wait_for_it(store: SqlStore) -> None:
    questions = opened(store)
    settled = await questions.ask(question())
    ended = await questions.end("ask_1", "expired", "its client waits no longer")
    assert (await settled, ended.state) == (ended, "expired")


async def test_an_answer_whose_company_fails_is_none(store: SqlStore) -> None:
    questions = opened(store)
    settled = await questions.ask(question())

    def fails(_: Connection | None) -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await questions.answer("ask_1", {"yes": True}, by="ada", also=fails)
    with pytest.raises(TurnError, match="none that was asked for"):
        await questions.answer("ask_1", {"yes": "perhaps"}, by="ada")
    assert not settled.done()
    assert await rows(store) == [("ask_1", "waiting", "")]


async def test_what_an_earlier_run_asked_is_expired_by_name_and_answered_no_more(
    store: SqlStore,
) -> None:
    before, now = opened(store), opened(store)
    await before.ask(question(1))
    await now.ask(question(2))
    assert [one.id for one in await now.waiting(ADA)] == ["ask_2"]
    assert not await now.answer("ask_1", {"yes": True}, by="ada")
    assert [one.id for one in await now.expire()] == ["ask_1"]
    assert await rows(store) == [("ask_1", "expired", STOPPED), ("ask_2", "waiting", "")]
    assert list(await now.expire()) == []


async def test_what_has_run_out_is_neither_shown_nor_answered(store: SqlStore) -> None:
    questions = opened(store)
    await questions.ask(question(expires=CLOCK.now()))
    assert list(await questions.waiting(ADA)) == []
    assert not await questions.answer("ask_1", {"yes": True}, by="ada")


async def test_what_is_over_for_a_month_is_forgotten(store: SqlStore) -> None:
    questions = opened(store)
    for number, days in ((1, 31), (2, 29)):
        await questions.ask(question(number, asked=CLOCK.now() - timedelta(days=days)))
        await questions.end(f"ask_{number}", "withdrawn", "why")
    await questions.ask(question(3, asked=CLOCK.now() - timedelta(days=31)))
    await questions.expire()
    assert await rows(store) == [("ask_2", "withdrawn", "why"), ("ask_3", "waiting", "")]


async def test_an_answer_whose_giver_went_away_reaches_the_asker(store: SqlStore) -> None:
    questions = opened(store)
    settled = await questions.ask(question())
    begun, written = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def also(_: Connection | None) -> None:
        loop.call_soon_threadsafe(begun.set)
        assert written.wait(10)

    answering = asyncio.create_task(questions.answer("ask_1", {"yes": True}, by="ada", also=also))
    await begun.wait()
    answering.cancel()
    await asyncio.sleep(0)
    written.set()
    with pytest.raises(asyncio.CancelledError):
        await answering
    assert (await settled).by == "ada"


async def test_a_question_whose_asker_is_cancelled_while_it_is_put_down_waits_for_nobody(
    store: SqlStore,
) -> None:
    questions, written = opened(store), threading.Event()
    blocking = asyncio.create_task(store.write(lambda _: written.wait(10)))
    await asyncio.sleep(0)
    asking = asyncio.create_task(questions.ask(question()))
    await asyncio.sleep(0)
    asking.cancel()
    written.set()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await blocking
    assert await questions.find("ask_1") is None
    assert await rows(store) == [("ask_1", "withdrawn", "its asker was cancelled")]
