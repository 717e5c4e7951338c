"""Statements that are compiled once say what SQLAlchemy says."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from sqlalchemy import bindparam, select
from tests.builtin_plugins.stores import opened_store

from hookgate.kit.records import MemoryStore
from hookgate.kit.records.statements import Prepared, PreparedIn, insert_new, upsert

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from hookgate.ports import Store

METADATA = sa.MetaData()
SEEN = sa.Table(
    "acme_seen",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, unique=True),
    sa.Column("good", sa.Boolean),
    sa.Column("at", sa.DateTime(timezone=True)),
)
ROWS = [
    {"name": "b", "key": "1", "good": True, "at": None},
    {"name": "a", "key": "2", "good": None, "at": datetime(2026, 1, 2, tzinfo=UTC)},
]
ADD = Prepared(sa.insert(SEEN), SEEN.c.keys())
BY_NAME = Prepared(select(SEEN).where(SEEN.c.name == bindparam("wanted")).limit(1))
ALL = select(SEEN).order_by(SEEN.c.name)


@pytest.fixture(params=["process", "store"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "process":
        yield MemoryStore(METADATA)
        return
    async with opened_store(tmp_path) as opened:
        await opened.write(METADATA.create_all)
        yield opened


async def test_rows_come_back_as_sqlalchemy_gives_them(store: Store) -> None:
    def work(connection: sa.Connection) -> None:
        ADD.run(connection, ROWS)
        ADD.run(connection, [])
        asked = connection.execute(ALL).all()
        assert [tuple(row) for row in asked] == Prepared(ALL).rows(connection)
        (found,) = BY_NAME.rows(connection, wanted="b")
        assert (found.name, found.key, found.good, found.at) == ("b", "1", True, None)
        assert BY_NAME.rows(connection, wanted="c") == []

    await store.write(work)


MANY = [
    {"key": str(place), "at": datetime(2026, 1, 1, tzinfo=UTC), "good": not place % 3}
    | {"name": f"{place:02}"}
    for place in range(45)
]


def _traced(connection: sa.Connection, work: Callable[[], None]) -> list[str]:
    """Return the inserts that the driver is asked for by `work`."""
    asked: list[str] = []
    driver: Any = connection.connection.dbapi_connection
    driver.set_trace_callback(asked.append)
    try:
        work()
    finally:
        driver.set_trace_callback(None)
    return [each for each in asked if each.startswith("INSERT")]


async def test_many_rows_are_few_statements(store: Store) -> None:
    """SQLite's driver lets go of the interpreter at each, and takes it back behind others."""
    worse = Prepared(
        lambda insert: insert(SEEN).on_conflict_do_update(
            index_elements=["name"], set_={"key": insert(SEEN).excluded.key + "!", "good": None}
        ),
        SEEN.c.keys(),
    )

    def work(connection: sa.Connection) -> None:
        # 32 + 8 + 4 + 1
        assert len(_traced(connection, lambda: ADD.run(connection, MANY))) == 4
        found = Prepared(ALL).rows(connection)
        assert [row._asdict() for row in found] == [
            row | {"at": datetime(2026, 1, 1)} for row in MANY
        ]
        again = MANY[:2]
        assert len(_traced(connection, lambda: worse.run(connection, again))) == 1
        found = Prepared(ALL).rows(connection)[:3]
        assert [(row.key, row.good) for row in found] == [("0!", None), ("1!", None), ("2", False)]

    await store.write(work)


async def test_one_row_that_does_not_fit_leaves_none_of_its_statement(store: Store) -> None:
    def work(connection: sa.Connection) -> None:
        with pytest.raises(sqlite3.IntegrityError, match=r"acme_seen\.key"):
            ADD.run(connection, [*MANY[:3], MANY[0] | {"name": "else"}])

    await store.write(work)


async def test_it_tells_how_many_rows_it_has_changed_and_returns_what_it_is_asked_to(
    store: Store,
) -> None:
    over = Prepared(sa.update(SEEN).where(SEEN.c.key < bindparam("most")).values(good=False))
    gone = Prepared(sa.delete(SEEN).returning(SEEN.c.name, SEEN.c.good))

    def work(connection: sa.Connection) -> None:
        ADD.run(connection, ROWS)
        assert over.count(connection, most="2") == 1
        assert sorted(gone.rows(connection)) == [("a", None), ("b", False)]

    await store.write(work)


async def test_a_statement_is_compiled_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def statement(insert: Any) -> Any:
        made.append(insert)
        return insert(SEEN).on_conflict_do_nothing()

    add = Prepared(statement, SEEN.c.keys())

    def work(connection: sa.Connection) -> list[int]:
        return [add.count(connection, **row) for row in (*ROWS, *ROWS)]

    assert await store.write(work) == [1, 1, 0, 0]
    monkeypatch.setattr(sa.Connection, "execute", None)
    assert await store.write(work) == [0, 0, 0, 0]
    assert len(made) == 1


async def test_a_row_is_new_by_its_key_and_what_else_is_taken_is_an_error(store: Store) -> None:
    def work(connection: sa.Connection) -> None:
        assert insert_new(connection, SEEN, ROWS[0])
        assert not insert_new(connection, SEEN, {**ROWS[0], "good": False})
        upsert(connection, SEEN, [{**ROWS[0], "good": False}, ROWS[1]])
        assert [row.good for row in connection.execute(ALL)] == [None, False]
        insert_new(connection, SEEN, {**ROWS[0], "name": "c"})

    with pytest.raises(Exception, match=r"UNIQUE constraint failed: acme_seen\.key"):
        await store.write(work)


async def test_a_list_is_refused_when_it_is_prepared(store: Store) -> None:
    some = Prepared(select(SEEN).where(SEEN.c.name.in_(bindparam("names", expanding=True))))
    with pytest.raises(AssertionError, match="has a list"):
        await store.read(lambda connection: some.rows(connection, names=["a"]))


@pytest.mark.parametrize("count", [0, 1, 2, 8, 9, 600])
async def test_what_takes_a_list_takes_any(store: Store, count: int) -> None:
    some = PreparedIn(select(SEEN.c.name).where(SEEN.c.key != bindparam("other")), SEEN.c.name)
    rows = [{**ROWS[0], "name": f"n{place}", "key": str(place)} for place in range(700)]

    def work(connection: sa.Connection) -> list[str]:
        ADD.run(connection, rows)
        wanted = [f"n{place}" for place in range(1, count + 1)]
        return [row.name for row in some.rows(connection, wanted, other="1")]

    assert sorted(await store.write(work)) == sorted(f"n{place}" for place in range(2, count + 1))
