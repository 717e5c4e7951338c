"""The tables of the plugin ``metering``: the ledger with its sums by day, and budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import sqlalchemy as sa

from hookgate.builtin_plugins.metering.calls import (
    COUNTS,
    PICO,
    TALLIES,
    WORDS,
    LedgerRow,
    UsageQuery,
)
from hookgate.kit.records.statements import Prepared, Trim, insert_new
from hookgate.wire import canonical

METADATA = sa.MetaData(info={"complete": True})
"""Of all tables of metering."""
SCRIPTS = Path(__file__).parent / "migrations"

WINDOWS = sa.Table(
    "metering_window",
    METADATA,
    # NAME/SUBJECT/WINDOW, such as daily/agent:main/day:2026-11-22.
    sa.Column("key", sa.Text, primary_key=True),
    # False where an amount counts only while a call runs.
    sa.Column("lasting", sa.Boolean, nullable=False),
    # What calls have used.
    sa.Column("settled", sa.BigInteger, nullable=False),
    # The sum of this window's rows of `metering_lease`.
    sa.Column("leased", sa.BigInteger, nullable=False),
    # What calls could have used that a crash has cut off.
    sa.Column("lost", sa.BigInteger, nullable=False),
    # How often gateways were asked to give back what they do not hold.
    sa.Column("asked", sa.BigInteger, nullable=False),
    # When it was last written: seconds since 1970, by the clock of who wrote.
    sa.Column("touched", sa.BigInteger, nullable=False),
    sa.Index("metering_window_by_touched", "touched"),
)

LEASES = sa.Table(
    "metering_lease",
    METADATA,
    sa.Column("gateway", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("amount", sa.BigInteger, nullable=False),
    # Up to which `metering_window.asked` this gateway has given back what it does not hold.
    sa.Column("answered", sa.BigInteger, nullable=False),
    sa.Index("metering_lease_by_key", "key"),
)

GATEWAYS = sa.Table(
    "metering_gateway",
    METADATA,
    # One run of a gateway.
    sa.Column("gateway", sa.Text, primary_key=True),
    # Another number with each write of that gateway.
    sa.Column("beat", sa.BigInteger, nullable=False),
    # Whether each of its calls has a row of `metering_open`. One that keeps none is charged all
    # that it had leased: nobody can know what its calls have used.
    sa.Column("opens", sa.Boolean, nullable=False, server_default=sa.false()),
)

OPEN = sa.Table(
    "metering_open",
    METADATA,
    # A call that may have been sent, and is not settled in `metering_window`.
    sa.Column("call", sa.Text, primary_key=True),
    sa.Column("gateway", sa.Text, nullable=False),
    # What it holds of each window that lasts, by key, in JSON.
    sa.Column("held", sa.Text, nullable=False),
    # Its row of the ledger, in JSON, should it never come to one of its own.
    sa.Column("row", sa.Text, nullable=False),
    sa.Index("metering_open_by_gateway", "gateway"),
)


# -- the ledger --------------------------------------------------------------------

MONEY = ("cost_dollars", "cost_rest", "saved_dollars", "saved_rest")
"""Sums of money, whole dollars and units of 1e-12 dollars apart: together they could be more
than 64 bits hold."""

MOST_IN_MEMORY = 10_000
"""So many of the last calls are kept where no plugin provides a store."""
MOST_WINDOWS_IN_MEMORY = 100_000
"""So many windows of budgets are kept then, those that were used last."""

_TYPES: Mapping[Any, Any] = {
    str: sa.Text,
    int: sa.BigInteger,
    bool: sa.Boolean,
    int | None: sa.BigInteger,
}
_SMALL = ("attempt", "iteration")


def _of_call() -> Iterator[sa.Column[Any]]:
    """Yield a column for each field of a call, and for each of its usage."""
    kinds = get_type_hints(LedgerRow)
    del kinds["usage"]
    for name, kind in {**kinds, "reported": bool, **dict.fromkeys(COUNTS, int)}.items():
        yield sa.Column(
            name,
            sa.Integer if name in _SMALL else _TYPES[kind],
            primary_key=name == "id",
            nullable=kind == int | None,
            server_default=LedgerRow._field_defaults.get(name),
        )


CALLS = sa.Table(
    "metering_call",
    METADATA,
    *_of_call(),
    # One writer for each start of a gateway; `seq` counts from 1 within it. A row keeps its number
    # however often it is tried, so a number that is missing is still to come, or never will.
    sa.Column("writer", sa.Text, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Index("metering_call_by_place", "writer", "seq", unique=True),
    sa.Index("metering_call_by_session", "session", "at"),
)

MARKS = sa.Table(
    "metering_mark",
    METADATA,
    sa.Column("writer", sa.Text, primary_key=True),
    # All rows of the writer up to this one are in the sums.
    sa.Column("seq", sa.BigInteger, nullable=False),
)


def _sums(name: str, *words: str) -> sa.Table:
    return sa.Table(
        name,
        METADATA,
        # A digest of the words: they are too long for the key of an index together.
        sa.Column("id", sa.Text, primary_key=True),
        *(sa.Column(word, sa.Text, nullable=False) for word in (*words, "provider", "model")),
        *(sa.Column(sum_, sa.BigInteger, nullable=False) for sum_ in (*COUNTS, *TALLIES, *MONEY)),
        sa.Index(f"{name}_by_day", "day"),
    )


DAYS = _sums("metering_day", "day", *WORDS)
"""Sums by day. Sessions are left out of them: there are many."""

SESSION_DAYS = _sums("metering_session_day", "day", "session", *WORDS)
sa.Index("metering_session_day_by_session", SESSION_DAYS.c.session, SESSION_DAYS.c.day)


def written(writer: str, rows: Sequence[Mapping[str, Any]]) -> Callable[[sa.Connection], set[str]]:
    """Return a function that writes those of `rows` that are not there yet, and the writer's mark.

    It returns the ids of those that are there from another writer: calls that were swept.

    A row that was tried before may have been committed after all: it is there with the same
    number, and stays as it is.
    """

    def write(connection: sa.Connection) -> set[str]:
        insert_new(connection, MARKS, {"writer": writer, "seq": 0})
        insert_new(connection, CALLS, *rows)
        ids = [row["id"] for row in rows]
        others = sa.select(CALLS.c.id).where(CALLS.c.id.in_(ids), CALLS.c.writer != writer)
        return set(connection.execute(others).scalars())

    return write


def calls_of(session: str, turn: str, most: int) -> Callable[[sa.Connection], list[LedgerRow]]:
    """Return a reader of the last calls of a session, or of one of its turns, the newest first.

    Args:
        session: The session, as text.
        turn: The turn's id; "" for all.
        most: So many calls at most.
    """
    query = sa.select(CALLS).where(CALLS.c.session == session)
    query = query.order_by(CALLS.c.at.desc()).limit(most)
    if turn:
        query = query.where(CALLS.c.turn == turn)

    def read(connection: sa.Connection) -> list[LedgerRow]:
        return [LedgerRow.from_row(dict(row)) for row in connection.execute(query).mappings()]

    return read


def turns_of(
    session: str, since: str, most: int
) -> Callable[[sa.Connection], list[tuple[Any, ...]]]:
    """Return a reader of what the last turns of a session have used, the oldest first.

    Args:
        session: The session, as text.
        since: Calls before this time are left out; as in the column `at`.
        most: How many calls are looked at, the last ones.

    Returns:
        A reader of rows: the turn's id, when it ended, its tokens.
    """

    def read(connection: sa.Connection) -> list[tuple[Any, ...]]:
        found = _TURNS.rows(connection, whose=session, since=since, most=most)
        return [tuple(row) for row in found]

    return read


def _turns() -> Prepared:
    tokens = sum((CALLS.c[name] for name in COUNTS[1:]), start=CALLS.c[COUNTS[0]])
    last = (
        sa.select(CALLS.c.turn, CALLS.c.at, tokens.label("tokens"))
        .where(CALLS.c.session == sa.bindparam("whose"), CALLS.c.at >= sa.bindparam("since"))
        .order_by(CALLS.c.at.desc())
        .limit(sa.bindparam("most"))
        .subquery()
    )
    ended, used = sa.func.max(last.c.at).label("ended"), sa.func.sum(last.c.tokens).label("used")
    return Prepared(sa.select(last.c.turn, ended, used).group_by(last.c.turn).order_by(ended))


_TURNS = _turns()


def trimmed(connection: sa.Connection) -> None:
    """Keep the last calls alone, and the windows of budgets that were used last."""
    _LAST(connection, MOST_IN_MEMORY)
    _LAST_WINDOWS(connection, MOST_WINDOWS_IN_MEMORY)


_LAST = Trim([CALLS.c.seq], [])
_LAST_WINDOWS = Trim([WINDOWS.c.touched, WINDOWS.c.key], [], WINDOWS.c.leased == 0)


# -- sums by day -------------------------------------------------------------------

# A row counts once: it is in the sums, or behind its writer's mark. The mark of a writer moves in
# the transaction that adds the rows up to it, and only if nobody else has moved it; and only over
# rows of which none is missing. Whoever reads takes the sums and what lies behind the marks, of one
# moment.

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


def added_up(chunk: Chunk) -> Callable[[sa.Connection], bool]:
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


def sums_of(queries: Sequence[UsageQuery]) -> Callable[[sa.Connection], list[list[dict[str, Any]]]]:
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
