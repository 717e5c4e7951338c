"""The sums of the ledger by day: how rows come into them, and how they are read.

A row counts once: it is in the sums, or behind its writer's mark. The mark of a writer moves in
the transaction that adds the rows up to it, and only if nobody else has moved it; and only over
rows of which none is missing. Whoever reads takes the sums and what lies behind the marks, of one
moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from typing import Any, NamedTuple

import sqlalchemy as sa

from hookgate.builtin_plugins.metering.calls import COUNTS, PICO, TALLIES, WORDS, UsageQuery
from hookgate.builtin_plugins.metering.tables.ledger import (
    CALLS,
    DAYS,
    MARKS,
    MONEY,
    SESSION_DAYS,
)
from hookgate.kit.records.statements import Prepared
from hookgate.wire import canonical

SUMS = (*COUNTS, *TALLIES, *MONEY)
"""What is added up."""
_KEPT = ("day", "session", *WORDS, "provider", "model")


class Chunk(NamedTuple):
    """Rows of one writer that are in no sum yet.

    Attributes:
        writer: The writer.
        after: Its mark.
        to: The number of the last of the rows; none is missing in between.
        sums: Sums of them, by all that is kept.
    """

    writer: str
    after: int
    to: int
    sums: Sequence[Mapping[str, Any]]


def next_chunk(limit: int) -> Callable[[sa.Connection], list[Chunk]]:
    """Return a reader of rows that are in no sum yet: of each writer at most `limit`."""

    def read(connection: sa.Connection) -> list[Chunk]:
        chunks = []
        for writer, after, top in _behind_marks(connection):
            to = _whole(connection, writer, after, min(top, after + limit))
            if to > after:
                words = [CALLS.c[name] for name in _KEPT]
                rows_of = sa.select(*words, *_of_calls()).where(*_between(writer, after, to))
                rows = [_plain(row) for row in connection.execute(_grouped(rows_of, _KEPT))]
                chunks.append(Chunk(writer, after, to, rows))
        return chunks

    return read


def added(chunk: Chunk) -> Callable[[sa.Connection], bool]:
    """Return a writer that adds `chunk` to the sums, unless somebody has: then it says False."""

    def write(connection: sa.Connection) -> bool:
        moved = (
            sa.update(MARKS)
            .where(MARKS.c.writer == chunk.writer, MARKS.c.seq == chunk.after)
            .values(seq=chunk.to)
        )
        if connection.execute(moved).rowcount != 1:
            return False
        for table in (DAYS, SESSION_DAYS):
            _adding(table).run(connection, _cells(table, chunk.sums))
        return True

    return write


def usage(queries: Sequence[UsageQuery]) -> Callable[[sa.Connection], list[list[dict[str, Any]]]]:
    """Return a reader of the sums for each of `queries`, all of one moment.

    Each row has the sums of one group, and as `groups` how many there are.
    """

    def read(connection: sa.Connection) -> list[list[dict[str, Any]]]:
        if connection.dialect.name == "postgresql":
            # Each statement would see a moment of its own.
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        tails = list(_behind_marks(connection))
        return [list(_found(connection, query, tails)) for query in queries]

    return read


def _found(
    connection: sa.Connection, query: UsageQuery, tails: Sequence[tuple[str, int, int]]
) -> Iterator[dict[str, Any]]:
    table = SESSION_DAYS if "session" in {*query.by, *query.equal} else DAYS
    kept = sa.select(*_columns(table, query.by), *(table.c[name] for name in SUMS))
    late = sa.select(*_columns(CALLS, query.by), *_of_calls())
    behind = sa.or_(sa.false(), *(sa.and_(*_between(*tail)) for tail in tails))
    both = sa.union_all(
        kept.where(*_wanted(table, query)), late.where(behind, *_wanted(CALLS, query))
    )
    groups = _grouped(both, query.by).add_columns(sa.func.count().over().label("groups"))
    if query.most:
        groups = groups.order_by(*_dearest(query.by)).limit(query.most)
    return (_plain(row) for row in connection.execute(groups))


def _dearest(by: Sequence[str]) -> Iterator[Any]:
    """Yield what puts the dearest group first; to a billionth, where a sum is past 2^53."""
    yield (
        sa.func.sum(sa.column("cost_dollars")) + sa.func.sum(sa.column("cost_rest")) * (1.0 / PICO)
    ).desc()
    yield sum(
        (sa.func.sum(sa.column(name)) for name in COUNTS[1:]), sa.func.sum(sa.column(COUNTS[0]))
    ).desc()
    yield sa.func.sum(sa.column("calls")).desc()
    yield from map(sa.column, by)


def _behind_marks(connection: sa.Connection) -> Iterable[tuple[str, int, int]]:
    """Return the writers that have rows behind their marks: writer, mark, the last number."""
    newest = sa.select(sa.func.max(CALLS.c.seq)).where(CALLS.c.writer == MARKS.c.writer)
    query = sa.select(MARKS.c.writer, MARKS.c.seq, newest.scalar_subquery())
    marks = connection.execute(query.order_by(MARKS.c.writer))
    return [(writer, after, top) for writer, after, top in marks if top is not None and top > after]


def _whole(connection: sa.Connection, writer: str, after: int, to: int) -> int:
    """Return the last number up to which no row is missing.

    One that is missing is on its way, or being tried again. Where its gateway was killed before
    it was written it never comes; what is behind it then stays behind the mark, and counts there.
    """
    within = _between(writer, after, to)
    count = connection.execute(
        sa.select(sa.func.count()).select_from(CALLS).where(*within)
    ).scalar_one()
    if count == to - after:
        return to
    expected = after + 1
    for seq in connection.execute(sa.select(CALLS.c.seq).where(*within).order_by("seq")).scalars():
        if seq != expected:
            break
        expected += 1
    return expected - 1


def _between(writer: str, after: int, to: int) -> tuple[sa.ColumnElement[bool], ...]:
    return CALLS.c.writer == writer, CALLS.c.seq > after, CALLS.c.seq <= to


def _of_calls() -> list[sa.ColumnElement[Any]]:
    """Return what is added up, of a row of the ledger."""
    dollar: sa.ColumnElement[Any] = sa.literal_column(str(PICO))
    cost, saved = sa.func.coalesce(CALLS.c.cost, 0), CALLS.c.saved
    sent = CALLS.c.sent
    tallies: dict[str, sa.ColumnElement[Any]] = {
        "calls": sa.literal_column("1"),
        "refused": _once(sa.not_(sent)),
        "failed": _once(sent & (CALLS.c.status != "done")),
        "estimated": _once(sent & sa.not_(CALLS.c.reported)),
        "unpriced": _once(CALLS.c.cost.is_(None)),
        # Whole dollars and the rest apart: their sums fit 64 bits, whatever they are of.
        "cost_dollars": cost.op("/")(dollar),
        "cost_rest": cost.op("%")(dollar),
        "saved_dollars": saved.op("/")(dollar),
        "saved_rest": saved.op("%")(dollar),
    }
    counts = [CALLS.c[name] for name in COUNTS]
    return [*counts, *(tally.label(name) for name, tally in tallies.items())]


def _once(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    return sa.case((condition, 1), else_=0)


def _columns(table: sa.Table, by: Iterable[str]) -> list[sa.ColumnElement[Any]]:
    return [_column(table, name).label(name) for name in dict.fromkeys(by)]


def _column(table: sa.Table, name: str) -> sa.ColumnElement[Any]:
    if name == "month":
        return sa.func.substr(table.c.day, 1, 7)
    if name == "model":
        return table.c.provider + "/" + table.c.model
    return table.c[name]


def _grouped(rows: sa.Select[Any] | sa.CompoundSelect[Any], by: Sequence[str]) -> sa.Select[Any]:
    """Return the sums of rows, for each group of them that there is."""
    each = rows.subquery().c
    words = [each[name] for name in dict.fromkeys(by)]
    sums = [sa.func.sum(each[name]).label(name) for name in SUMS]
    return sa.select(*words, *sums).group_by(*words).having(sa.func.count() > 0)


def _wanted(table: sa.Table, query: UsageQuery) -> Iterator[sa.ColumnElement[bool]]:
    for name, value in query.equal.items():
        yield _column(table, name) == value
    if query.first:
        yield table.c.day >= query.first
    if query.last:
        yield table.c.day <= query.last
    if query.places is not None:
        yield sa.or_(sa.false(), *(_at(table, *place) for place in query.places))


def _at(table: sa.Table, channel: str, account: str) -> sa.ColumnElement[bool]:
    wanted = {"channel": channel, "account": account}
    return sa.and_(
        sa.true(), *(table.c[name] == value for name, value in wanted.items() if value != "*")
    )


def _plain(row: sa.Row[Any]) -> dict[str, Any]:
    """Return a row whose sums are `int`, as which PostgreSQL has them in no other way."""
    found = row._mapping
    return {name: int(value) if name in _SUMMED else value for name, value in found.items()}


_SUMMED = frozenset(SUMS)


def _cells(table: sa.Table, sums: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return `sums` as rows of `table`, in the order in which all gateways lock them."""
    words = [name for name in _KEPT if name in table.c]
    cells: dict[str, dict[str, Any]] = {}
    for row in sums:
        named = {name: row[name] for name in words}
        digest = blake2b(canonical(list(named.values())), digest_size=16).hexdigest()
        cell = cells.get(digest)
        if cell is None:
            cells[digest] = {"id": digest, **named, **{name: row[name] for name in SUMS}}
            continue
        for name in SUMS:
            cell[name] += row[name]
    for cell in cells.values():
        _carry(cell)
    return [cells[digest] for digest in sorted(cells)]


def _carry(cell: dict[str, Any]) -> None:
    for money in ("cost", "saved"):
        whole = cell[f"{money}_dollars"] * PICO + cell[f"{money}_rest"]
        # Towards zero, as SQL divides.
        dollars = abs(whole) // PICO * (1 if whole >= 0 else -1)
        cell[f"{money}_dollars"], cell[f"{money}_rest"] = dollars, whole - dollars * PICO


@cache
def _adding(table: sa.Table) -> Prepared:
    new = {name: f"{table.name}.{name} + excluded.{name}" for name in (*COUNTS, *TALLIES)}
    for money in ("cost", "saved"):
        rest = f"({table.name}.{money}_rest + excluded.{money}_rest)"
        whole = f"{table.name}.{money}_dollars + excluded.{money}_dollars"
        new[f"{money}_dollars"] = f"{whole} + {rest} / {PICO}"
        new[f"{money}_rest"] = f"{rest} % {PICO}"
    changes: dict[str, sa.ColumnElement[Any]] = {
        name: sa.literal_column(text) for name, text in new.items()
    }
    return Prepared(
        lambda insert: insert(table).on_conflict_do_update(index_elements=["id"], set_=changes),
        table.c.keys(),
    )
