"""Rows of a plugin: the same with a store and without one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import pytest
from pydantic import ValidationError
from sqlalchemy import BigInteger, Index, Integer, MetaData, Text, func, select
from tests.builtin_plugins.stores import opened_store

from hookgate.core.domain.turn import Claim, Principal
from hookgate.kit.records import Field, MemoryStore, Record, Records
from hookgate.kit.records.statements import Trim, insert_new

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

METADATA = MetaData()


class Visit(Record):
    """One visit."""

    __tablename__ = "acme_visit"
    __table_args__ = (Index("acme_visit_by_session", "session"),)
    metadata = METADATA

    place: str = Field(primary_key=True)
    number: int = Field(primary_key=True)
    session: str = ""
    """Whose it was."""
    kind: Literal["short", "long"] = "short"
    stars: int | None = Field(default=None, sa_type=Integer, index=True)
    until: datetime | None = None


@pytest.fixture(params=["process", "store"])
async def visits(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Records[Visit]]:
    if request.param == "process":
        yield Visit.records(MemoryStore(METADATA))
        return
    async with opened_store(tmp_path) as store:
        await store.write(METADATA.create_all)
        yield Visit.records(store)


def numbers(rows: list[Visit]) -> list[int]:
    return [row.number for row in rows]


def many(*wanted: int, **more: Any) -> list[Visit]:
    return [Visit(place="a", number=one, **more) for one in wanted]


def test_a_class_is_its_table() -> None:
    columns = Visit.table.c
    assert [column.name for column in Visit.table.primary_key] == ["place", "number"]
    assert [type(column.type) for column in columns][:4] == [Text, BigInteger, Text, Text]
    assert [column.name for column in columns if column.nullable] == ["stars", "until"]
    assert {index.name for index in Visit.table.indexes} == {
        "acme_visit_by_session",
        "ix_acme_visit_stars",
    }


def test_a_class_checks_its_rows_and_describes_them() -> None:
    with pytest.raises(ValidationError, match="short"):
        Visit(place="a", number=1, kind="endless")  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="frozen"):
        Visit(place="a", number=1).place = "b"
    said = Visit.model_json_schema()["properties"]
    assert said["session"]["description"] == "Whose it was."


def test_a_table_without_metadata_of_its_own_is_refused() -> None:
    with pytest.raises(TypeError, match="expected `metadata = METADATA`"):

        class Shared(Record):
            __tablename__ = "acme_shared"
            id: str = Field(primary_key=True)


async def test_what_is_kept_comes_back_as_it_was(visits: Records[Visit]) -> None:
    row = Visit(place="a", number=1, session="s", kind="long", stars=5)
    await visits.save([row])
    assert await visits.get("a", 1) == row
    assert await visits.get("a", 2) is None
    await visits.save([row.model_copy(update={"stars": None}), *many(2)])
    assert [one.stars for one in await visits.all()] == [None, None]
    assert await visits.remove(visits.c.number == 1) == 1
    assert numbers(await visits.all()) == [2]
    await visits.save([])
    assert await visits.add([]) == []


async def test_the_rows_that_fit_are_changed_and_no_others(visits: Records[Visit]) -> None:
    await visits.save(many(1, 2, 3))
    assert await visits.change(visits.c.number > 1, stars=4, session="s") == 2
    found = [(one.stars, one.session) for one in await visits.all()]
    assert found == [(None, ""), (4, "s"), (4, "s")]
    assert await visits.change(visits.c.number > 3, stars=1) == 0


async def test_of_two_rows_of_a_key_the_first_one_counts(visits: Records[Visit]) -> None:
    await visits.save(many(1, session="first"))
    kept = await visits.add(many(1, 2, session="second"))
    assert [row.session for row in kept] == ["first", "second"]
    assert kept == await visits.all()


async def test_pages_follow_each_other_in_both_directions(visits: Records[Visit]) -> None:
    await visits.save(many(*range(1, 8)))
    first = await visits.page(limit=3)
    assert numbers(first) == [7, 6, 5]
    assert numbers(await visits.page(limit=3, after=("a", 5))) == [4, 3, 2]
    assert numbers(await visits.page(limit=3, newest=False, after=("a", 5))) == [6, 7]
    assert [numbers(rows) async for rows in visits.each(size=4)] == [[1, 2, 3, 4], [5, 6, 7]]


async def test_whoever_is_bound_to_a_peer_sees_the_rows_of_its_sessions(
    visits: Records[Visit],
) -> None:
    def session(peer: str) -> str:
        return f"main:web:acme:{peer}"

    await visits.save(
        [
            *many(1, 4, session=session("ann")),
            *many(2, session=session("ANN")),
            *many(3, session=session("bob")),
            *many(5, session=""),
        ]
    )
    ann = Principal(id="ann", scopes=frozenset({"read"}), bindings=(Claim("web", "acme", "ann"),))
    nobody = Principal(id="x", scopes=frozenset({"read"}))
    boss = Principal(id="boss", scopes=frozenset({"operate"}))
    assert numbers(await visits.page(limit=1, principal=ann)) == [4]
    assert numbers(await visits.page(limit=9, principal=ann)) == [4, 1]
    assert await visits.page(limit=9, principal=nobody) == []
    assert numbers(await visits.page(limit=9, principal=boss)) == [5, 4, 3, 2, 1]


async def test_rows_go_out_as_lines_of_json(visits: Records[Visit]) -> None:
    until = datetime(2026, 1, 2, tzinfo=UTC)
    await visits.save([Visit(place="a", number=1, session="s", until=until)])
    (line,) = [line async for line in visits.export()]
    assert line.startswith('{"place":"a","number":1,"session":"s","kind":"short","stars":null')


async def test_only_the_newest_rows_stay_and_those_that_are_spared(
    visits: Records[Visit],
) -> None:
    await visits.save([*many(1, stars=1), *many(2, 3, 4)])
    await visits.save([Visit(place="b", number=0)])
    by, of = (visits.c.number,), (visits.c.place,)
    trim = Trim(by, of, visits.c.stars == None)  # noqa: E711
    await visits.store.write(lambda c: trim(c, 2, "a"))
    assert numbers(await visits.all()) == [1, 3, 4, 0]
    await visits.store.write(lambda c: trim(c, 5, "a"))
    assert len(await visits.all()) == 4
    await visits.store.write(lambda c: Trim(by, ())(c, 1))
    assert numbers(await visits.all()) == [4]


async def test_a_row_can_join_what_another_writes(visits: Records[Visit]) -> None:
    add = visits.adding(Visit(place="a", number=1))
    if visits.in_process:
        add(None)
    else:
        await visits.store.write(add)
    assert numbers(await visits.all()) == [1]


async def test_what_fails_leaves_nothing_behind(visits: Records[Visit]) -> None:
    def work(connection: Any) -> None:
        assert insert_new(connection, Visit.table, dict(many(1)[0]))
        assert not insert_new(connection, Visit.table, dict(many(1)[0]))
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        await visits.store.write(work)
    assert await visits.all() == []


async def test_a_store_of_the_process_does_what_a_store_does() -> None:
    store = MemoryStore(METADATA)
    await store.migrate("acme", METADATA, None)  # type: ignore[arg-type]
    rows = [dict(row) for row in many(1, 2)]
    await store.insert(Visit.table, rows[:1])
    await store.insert_soon(Visit.table, rows[1:])
    with pytest.raises(Exception, match="UNIQUE"):
        await store.insert_soon(Visit.table, rows)
    count = select(func.count()).select_from(Visit.table)
    assert await store.read(lambda connection: connection.scalar(count)) == 2
    assert (store.durable, store.problem, store.shared) == (False, "", False)
