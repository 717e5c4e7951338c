from __future__ import annotations

import asyncio
import enum
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import IntegrityError

from hookgate.builtin_plugins.storage.settings import DATABASE_NAME
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.builtin_plugins.storage.tables import UtcTime
from hookgate.core.domain.errors import StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from tests.builtin_plugins.storage.conftest import OpenStore

METADATA = sa.MetaData()
ROWS = sa.Table(
    "rows",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("text", sa.Text, nullable=False),
)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


TYPED = sa.Table(
    "typed",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("json", sa.JSON),
    sa.Column("flag", sa.Boolean),
    sa.Column("colour", sa.Enum(Colour)),
    sa.Column("at", UtcTime),
    sa.Column("real", sa.Float),
    sa.Column("blob", sa.LargeBinary),
)
FILLED = sa.Table(
    "filled",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("text", sa.Text, default=lambda: "made by Python"),
    sa.Column("word", sa.Text, server_default="made by SQL"),
)


@pytest.fixture
async def store(opened: OpenStore) -> SqlStore:
    store = await opened()
    await store.write(METADATA.create_all)
    return store


async def ids(store: SqlStore) -> list[int]:
    query = sa.select(ROWS.c.id).order_by(ROWS.c.id)
    return await store.read(lambda connection: [row[0] for row in connection.execute(query)])


def add(number: int) -> Callable[[sa.Connection], int]:
    def work(connection: sa.Connection) -> int:
        connection.execute(ROWS.insert(), {"id": number, "text": "x"})
        return number

    return work


@asynccontextmanager
async def held(store: SqlStore) -> AsyncIterator[None]:
    """Keep the writer busy, so that what is written inside gathers into one group."""
    begun, go_on = threading.Event(), threading.Event()

    def wait(_: sa.Connection) -> None:
        begun.set()
        go_on.wait()

    holding = asyncio.create_task(store.write(wait))
    await asyncio.to_thread(begun.wait)
    try:
        yield
    finally:
        # Everything that was started inside runs up to the point where it waits.
        for _ in range(5):
            await asyncio.sleep(0)
        go_on.set()
        await holding


@contextmanager
def commits(store: SqlStore) -> Iterator[list[int]]:
    """Count the groups that the writer commits."""
    counted: list[int] = []
    original = store._writer._carry_out

    def count(group: Any) -> str | None:
        counted.append(len(group))
        return original(group)

    store._writer._carry_out = count  # type: ignore[method-assign]
    try:
        yield counted
    finally:
        store._writer._carry_out = original  # type: ignore[method-assign]


# -- what was acknowledged is committed ----------------------------------------------


def count_rows(connection: sa.Connection) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(ROWS)).scalar_one()


async def test_what_returned_is_in_the_file_for_any_other_program(
    store: SqlStore, tmp_path: Path
) -> None:
    await store.insert(ROWS, [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}])
    assert await store.write(add(3)) == 3
    with sqlite3.connect(tmp_path / DATABASE_NAME) as other:
        found = other.execute("SELECT id FROM rows ORDER BY id").fetchall()
    other.close()
    assert found == [(1,), (2,), (3,)]


async def test_writes_that_wait_together_are_committed_together(store: SqlStore) -> None:
    with commits(store) as groups:
        async with held(store):
            inserts = [store.insert(ROWS, [{"id": n, "text": "x"}]) for n in range(100)]
            tasks: list[asyncio.Task[Any]]
            tasks = [asyncio.create_task(insert) for insert in inserts]
            tasks += [asyncio.create_task(store.write(add(1000 + n))) for n in range(100)]
        await asyncio.gather(*tasks)
    assert groups == [1, 200]
    assert len(await ids(store)) == 200


async def test_functions_that_name_an_order_run_behind_all_others_of_their_commit(
    store: SqlStore,
) -> None:
    ran: list[str] = []
    orders = ["b", "", "a", "", "b"]
    with commits(store) as groups:
        async with held(store):
            started = [
                asyncio.create_task(
                    store.write(lambda _, at=at, name=name: ran.append(f"{name}{at}"), order=name)
                )
                for at, name in enumerate(orders)
            ]
        await asyncio.gather(*started)
    assert max(groups) == len(orders)
    assert ran == ["1", "3", "a2", "b0", "b4"]


async def test_a_group_has_a_limit_and_the_rest_is_committed_next(opened: OpenStore) -> None:
    store = await opened(group_rows=8)
    await store.write(METADATA.create_all)
    with commits(store) as groups:
        async with held(store):
            starts = range(0, 20, 2)
            pairs = [[{"id": start + more, "text": "x"} for more in (0, 1)] for start in starts]
            tasks = [asyncio.create_task(store.insert(ROWS, pair)) for pair in pairs]
        await asyncio.gather(*tasks)
    assert groups == [1, 4, 4, 2]
    assert await ids(store) == list(range(20))


async def test_work_runs_on_another_thread_than_the_event_loop(store: SqlStore) -> None:
    here = threading.get_ident()
    assert await store.write(lambda _: threading.get_ident()) != here
    assert await store.read(lambda _: threading.get_ident()) != here


async def test_rows_that_go_soon_are_committed_with_the_next_write(store: SqlStore) -> None:
    first = store.insert_soon(ROWS, [{"id": 1, "text": "a"}])
    assert store.insert_soon(ROWS, [{"id": 2, "text": "b"}]) is first
    other = store.insert_soon(ROWS, [{"text": "c", "id": 3}])
    assert other is not first
    assert await store.write(count_rows) == 3
    await asyncio.gather(first, other)


async def test_rows_that_go_soon_wait_for_no_other_write_for_long(store: SqlStore) -> None:
    await store.insert_soon(ROWS, [{"id": 1, "text": "a"}])
    assert await store.read(count_rows) == 1


async def test_rows_that_go_soon_fail_by_themselves(store: SqlStore) -> None:
    await store.insert(ROWS, [{"id": 1, "text": "a"}])
    twice = store.insert_soon(ROWS, [{"id": 1, "text": "b"}])
    await store.insert(ROWS, [{"id": 2, "text": "c"}])
    with pytest.raises(IntegrityError):
        await twice
    assert await store.read(count_rows) == 2


async def test_rows_that_go_soon_are_written_at_the_end_and_not_behind_it(
    opened: OpenStore,
) -> None:
    store = await opened()
    await store.write(METADATA.create_all)
    soon = store.insert_soon(ROWS, [{"id": 1, "text": "a"}])
    await store.close()
    assert soon.done()
    assert soon.exception() is None
    with pytest.raises(StoreUnavailableError, match="is closed"):
        await store.insert_soon(ROWS, [{"id": 2, "text": "b"}])


async def test_rows_that_go_soon_wait_for_no_room_and_others_wait_for_theirs(
    opened: OpenStore,
) -> None:
    store = await opened(queue=1)
    await store.write(METADATA.create_all)
    async with held(store):
        writes = [asyncio.create_task(store.write(count_rows)) for _ in range(3)]
        await asyncio.sleep(0)
        soon = store.insert_soon(ROWS, [{"id": 1, "text": "a"}])
    assert await asyncio.gather(soon, *writes) == [None, 1, 1, 1]
    assert await store.write(count_rows) == 1


async def test_work_that_goes_soon_is_committed_with_the_next_write(store: SqlStore) -> None:
    insert = ROWS.insert().values(id=1, text="a")
    soon = store.write_soon(lambda connection: connection.execute(insert).rowcount)
    assert not soon.done()
    assert await store.write(count_rows) == 1
    assert await soon == 1


async def test_work_that_goes_soon_stands_between_rows_that_do(store: SqlStore) -> None:
    before = store.insert_soon(ROWS, [{"id": 1, "text": "a"}])
    soon = store.write_soon(count_rows)
    behind = store.insert_soon(ROWS, [{"id": 2, "text": "b"}])
    assert behind is not before
    assert await soon == await store.write(count_rows) == 2
    await asyncio.gather(before, behind)


async def test_work_that_goes_soon_waits_for_no_other_write_for_long(store: SqlStore) -> None:
    assert await store.write_soon(count_rows) == 0


async def test_work_that_goes_soon_fails_by_itself(store: SqlStore) -> None:
    def broken(connection: sa.Connection) -> None:
        connection.execute(ROWS.insert().values(id=1, text="a"))
        raise ValueError("no")

    soon = store.write_soon(broken)
    await store.insert(ROWS, [{"id": 2, "text": "b"}])
    with pytest.raises(ValueError, match="no"):
        await soon
    assert await ids(store) == [2]


async def test_work_that_goes_soon_is_refused_by_a_closed_store(opened: OpenStore) -> None:
    store = await opened()
    await store.write(METADATA.create_all)
    soon = store.write_soon(count_rows)
    await store.close()
    assert soon.result() == 0
    with pytest.raises(StoreUnavailableError, match="is closed"):
        await store.write_soon(count_rows)


async def test_no_rows_are_no_write(store: SqlStore) -> None:
    await store.insert(ROWS, [])
    assert await ids(store) == []


# -- a failure undoes itself alone ---------------------------------------------------


async def test_work_that_raises_undoes_itself_and_nobody_elses_changes(store: SqlStore) -> None:
    def broken(connection: sa.Connection) -> None:
        add(50)(connection)
        raise LookupError("on purpose")

    async with held(store):
        group = [
            asyncio.create_task(store.write(work)) for work in (add(1), broken, add(2), broken)
        ]
    results = await asyncio.gather(*group, return_exceptions=True)
    assert [results[0], results[2]] == [1, 2]
    assert [str(results[1]), str(results[3])] == ["on purpose", "on purpose"]
    assert await ids(store) == [1, 2]


async def test_one_bad_row_fails_its_own_insert_only(store: SqlStore) -> None:
    async with held(store):
        group = [
            asyncio.create_task(store.insert(ROWS, rows))
            for rows in (
                [{"id": 1, "text": "a"}],
                [{"id": 2, "text": "b"}, {"id": 1, "text": "twice"}],
                [{"id": 3, "text": None}],
                [{"id": 4, "text": "d"}],
                [{"id": 5, "nonsense": 1}],
            )
        ]
    results = await asyncio.gather(*group, return_exceptions=True)
    assert [results[0], results[3]] == [None, None]
    assert isinstance(results[1], IntegrityError)
    assert isinstance(results[2], IntegrityError)
    assert "no column 'nonsense': expected id, text" in str(results[4])
    assert await ids(store) == [1, 4]


async def test_an_error_does_not_show_the_values_that_were_written(store: SqlStore) -> None:
    await store.write(add(1))
    with pytest.raises(IntegrityError) as failure:
        await store.insert(ROWS, [{"id": 1, "text": "something private"}])
    assert "something private" not in str(failure.value)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
async def test_work_that_ends_the_transaction_is_refused_and_nothing_is_half_written(
    store: SqlStore, ending: str
) -> None:
    def ends(connection: sa.Connection) -> None:
        add(50)(connection)
        getattr(connection, ending)()

    async with held(store):
        group = [asyncio.create_task(store.write(work)) for work in (add(1), ends, add(2))]
    before, offender, after = await asyncio.gather(*group, return_exceptions=True)
    assert "leave both to the store" in str(offender)
    assert isinstance(before, StoreUnavailableError)
    assert isinstance(after, StoreUnavailableError)
    assert await ids(store) == []
    assert await store.write(add(3)) == 3


async def test_work_that_raises_alone_undoes_itself_and_the_next_one_is_kept(
    store: SqlStore,
) -> None:
    def broken(connection: sa.Connection) -> None:
        add(50)(connection)
        raise LookupError("on purpose")

    with pytest.raises(LookupError, match="on purpose"):
        await store.write(broken)
    assert await ids(store) == []
    assert await store.write(add(1)) == 1
    assert await ids(store) == [1]


async def test_work_that_hides_that_the_database_rolled_everything_back_is_refused(
    store: SqlStore,
) -> None:
    def hides(connection: sa.Connection) -> None:
        add(50)(connection)
        with pytest.raises(IntegrityError):
            connection.exec_driver_sql("INSERT OR ROLLBACK INTO rows VALUES (1, 'twice')")

    await store.write(add(1))
    with pytest.raises(StoreUnavailableError):
        await store.write(hides)
    assert await store.write(add(2)) == 2
    assert await ids(store) == [1, 2]


async def test_work_may_use_savepoints_of_its_own(store: SqlStore) -> None:
    def work(connection: sa.Connection) -> None:
        add(1)(connection)
        with pytest.raises(IntegrityError), connection.begin_nested():
            add(2)(connection)
            add(1)(connection)

    await store.write(work)
    assert await ids(store) == [1]


@pytest.mark.parametrize("error", [StopIteration, SystemExit, KeyboardInterrupt])
async def test_no_exception_of_work_ends_the_writer_or_the_event_loop(
    store: SqlStore, error: type[BaseException]
) -> None:
    def raises(_: sa.Connection) -> None:
        raise error

    with pytest.raises(StoreError, match=error.__name__):
        await store.write(raises)
    with pytest.raises(StoreError, match=error.__name__):
        await store.read(raises)
    assert await store.write(add(1)) == 1


async def test_a_file_that_work_does_not_find_is_no_failure_of_the_store(
    opened: OpenStore,
) -> None:
    def look(_: sa.Connection) -> None:
        raise FileNotFoundError(2, "No such file", "notes.txt")

    told: list[str] = []
    store = await opened(tell=told.append)
    with pytest.raises(FileNotFoundError):
        await store.write(look)
    with pytest.raises(FileNotFoundError):
        await store.read(look)
    assert told == []


async def test_a_commit_that_fails_fails_the_whole_group_and_keeps_nothing(
    store: SqlStore,
) -> None:
    def orphan(connection: sa.Connection) -> None:
        connection.execute(sa.text("INSERT INTO child VALUES (99)"))

    reference = "parent INTEGER REFERENCES rows(id) DEFERRABLE INITIALLY DEFERRED"
    await store.write(lambda c: c.execute(sa.text(f"CREATE TABLE child ({reference})")) and None)
    async with held(store):
        group = [asyncio.create_task(store.write(work)) for work in (add(1), orphan, add(2))]
    for result in await asyncio.gather(*group, return_exceptions=True):
        assert isinstance(result, StoreUnavailableError)
    assert await ids(store) == []
    assert await store.write(add(3)) == 3


# -- shapes and types of rows --------------------------------------------------------


async def test_rows_of_different_shapes_can_be_inserted_in_one_call(store: SqlStore) -> None:
    await store.insert(FILLED, [{"id": 1}, {"text": "b", "id": 2}, {"id": 3, "word": "c"}])
    rows = await store.read(lambda c: [tuple(row) for row in c.execute(sa.select(FILLED))])
    assert rows == [
        (1, "made by Python", "made by SQL"),
        (2, "b", "made by SQL"),
        (3, "made by Python", "c"),
    ]


async def test_a_call_of_mixed_shapes_is_inserted_whole_or_not_at_all(store: SqlStore) -> None:
    rows: list[dict[str, Any]] = [{"id": 1, "text": "a"}, {"id": 2}]
    with pytest.raises(IntegrityError):
        await store.insert(ROWS, rows)
    assert await ids(store) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
TYPED_ROW = st.fixed_dictionaries(
    {
        "json": JSON.filter(lambda value: value is not None),
        "flag": st.booleans() | st.none(),
        "colour": st.sampled_from(Colour) | st.none(),
        "at": st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1), timezones=st.just(UTC)),
        "real": st.floats(allow_nan=False),
        "blob": st.binary(max_size=9),
    }
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(TYPED_ROW, min_size=1, max_size=4))
async def test_insert_stores_each_type_as_sqlalchemy_does(
    store: SqlStore, rows: list[dict[str, Any]]
) -> None:
    def core(connection: sa.Connection) -> list[dict[str, Any]]:
        connection.execute(TYPED.delete())
        connection.execute(TYPED.insert(), rows)
        found = [dict(row) for row in connection.execute(sa.select(TYPED)).mappings()]
        connection.execute(TYPED.delete())
        return found

    expected = await store.write(core)
    await store.insert(TYPED, rows)
    query = sa.select(TYPED)
    found = await store.read(lambda c: [dict(row) for row in c.execute(query).mappings()])
    assert found == expected
    assert [{key: row[key] for key in rows[0]} for row in found] == rows
    await store.write(lambda connection: connection.execute(TYPED.delete()) and None)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    jobs=st.lists(
        st.tuples(
            st.sampled_from(("insert", "write", "raise", "mixed")),
            st.lists(st.integers(0, 12), min_size=1, max_size=3),
        ),
        max_size=25,
    )
)
async def test_whatever_waits_together_each_job_is_whole_or_not_there_at_all(
    store: SqlStore, jobs: list[tuple[str, list[int]]]
) -> None:
    def work(numbers: list[int], fails: bool) -> Callable[[sa.Connection], None]:
        def run(connection: sa.Connection) -> None:
            for number in numbers:
                add(number)(connection)
            if fails:
                raise LookupError

        return run

    def job(kind: str, numbers: list[int]) -> Any:
        if kind in ("write", "raise"):
            return store.write(work(numbers, kind == "raise"))
        rows: list[dict[str, Any]] = [{"id": number, "text": "x"} for number in numbers]
        if kind == "mixed":
            rows[-1] = dict(reversed(rows[-1].items()))
        return store.insert(ROWS, rows)

    await store.write(lambda connection: connection.execute(ROWS.delete()) and None)
    async with held(store):
        tasks = [asyncio.create_task(job(kind, numbers)) for kind, numbers in jobs]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    accepted: list[int] = []
    for (kind, numbers), result in zip(jobs, results, strict=True):
        assert result is None or isinstance(result, IntegrityError | LookupError)
        assert not (kind == "raise" and result is None)
        accepted += numbers if result is None else []
    assert await ids(store) == sorted(accepted)


# -- callers that go away, and queues that are full ----------------------------------


async def test_a_write_whose_caller_is_cancelled_is_carried_out_and_disturbs_nobody(
    store: SqlStore,
) -> None:
    async with held(store):
        tasks = [asyncio.create_task(store.write(add(number))) for number in range(10)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert results[1::2] == [1, 3, 5, 7, 9]
    assert all(isinstance(result, asyncio.CancelledError) for result in results[::2])
    assert await ids(store) == list(range(10))


async def test_a_full_queue_makes_later_writes_wait_in_their_order(opened: OpenStore) -> None:
    store = await opened(queue=3)
    await store.write(METADATA.create_all)
    with commits(store) as groups:
        async with held(store):
            tasks = [asyncio.create_task(store.write(add(number))) for number in range(7)]
            await asyncio.sleep(0)
            # The holder has one of the three places.
            assert store._writer._queue.qsize() == 2
        assert await asyncio.gather(*tasks) == list(range(7))
    assert max(groups) <= 3
    query = sa.select(ROWS.c.id).order_by(sa.text("rowid"))
    assert await store.read(lambda c: c.execute(query).scalars().all()) == list(range(7))


async def test_a_caller_that_is_cancelled_in_front_of_a_full_queue_has_written_nothing(
    opened: OpenStore,
) -> None:
    store = await opened(queue=2)
    await store.write(METADATA.create_all)
    async with held(store):
        tasks = [asyncio.create_task(store.write(add(number))) for number in range(5)]
        await asyncio.sleep(0)
        tasks[2].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[2], asyncio.CancelledError)
    assert await ids(store) == [0, 1, 3, 4]


async def test_closing_carries_out_what_was_handed_over_and_refuses_the_rest(
    opened: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(queue=2)
    await store.write(METADATA.create_all)
    writing, waited_for = store._writer._thread, threading.Event()
    join = writing.join

    def joined() -> None:
        waited_for.set()
        join()

    monkeypatch.setattr(writing, "join", joined)
    async with held(store):
        tasks = [asyncio.create_task(store.write(add(number))) for number in range(6)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(store.close())
        # The readers are closed first, on threads: the writer must be let go behind that.
        await asyncio.to_thread(waited_for.wait)
    await closing
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert results[0] == 0
    assert all(isinstance(result, StoreUnavailableError) for result in results[1:])
    with pytest.raises(StoreUnavailableError, match="closed"):
        await store.write(add(7))
    with pytest.raises(StoreUnavailableError, match="closed"):
        await store.insert(ROWS, [{"id": 8, "text": "x"}])
    with pytest.raises(StoreUnavailableError, match="closed"):
        await store.read(add(9))
    with sqlite3.connect(tmp_path / DATABASE_NAME) as other:
        assert other.execute("SELECT id FROM rows").fetchall() == [(0,)]
    other.close()


# -- reading -------------------------------------------------------------------------


async def test_a_read_sees_all_that_was_acknowledged_and_nothing_unfinished(
    store: SqlStore,
) -> None:
    await store.write(add(1))
    async with held(store):
        unfinished = asyncio.create_task(store.write(add(2)))
        assert await ids(store) == [1]
    await unfinished
    assert await ids(store) == [1, 2]


async def test_a_read_sees_one_state_of_the_database(store: SqlStore) -> None:
    loop = asyncio.get_running_loop()
    count = sa.select(sa.func.count()).select_from(ROWS)

    def twice(connection: sa.Connection) -> tuple[int | None, int | None]:
        first = connection.scalar(count)
        asyncio.run_coroutine_threadsafe(store.write(add(1)), loop).result()
        return first, connection.scalar(count)

    assert await store.read(twice) == (0, 0)
    assert await ids(store) == [1]


async def test_a_read_cannot_write(store: SqlStore) -> None:
    with pytest.raises(StoreUnavailableError, match="readonly"):
        await store.read(add(1))
    assert await ids(store) == []


async def test_an_error_of_a_read_reaches_its_caller_and_later_reads_work(
    store: SqlStore,
) -> None:
    with pytest.raises(sa.exc.OperationalError, match="no such table"):
        await store.read(lambda connection: connection.execute(sa.text("SELECT * FROM nowhere")))
    assert await ids(store) == []
