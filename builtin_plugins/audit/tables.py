"""The table of the audit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    MetaData,
    Table,
    Text,
    false,
    insert,
    or_,
    select,
    tuple_,
)

from hookgate import Claim, SessionKey
from hookgate.builtin_plugins.audit.sealing import Head, Sealer

if TYPE_CHECKING:
    from hookgate.builtin_plugins.audit.trail import Place

SCRIPTS = Path(__file__).parent / "migrations"

METADATA = MetaData()

ENTRIES = Table(
    "audit_entry",
    METADATA,
    # One chain for each start of a process; `seq` counts from 1 within it, without a gap.
    Column("chain", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    # ISO 8601 in UTC with microseconds: one form, which sorts as text.
    Column("at", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("turn", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("call", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("category", Text, nullable=False),
    # allow or deny for a decision, the result's status for an outcome.
    Column("outcome", Text, nullable=False),
    # Everything, as canonical JSON with secrets masked.
    Column("data", Text, nullable=False),
    # Of a chain's first row: the last row of all that were there, as CHAIN/SEQ/SEAL.
    Column("previous", Text, nullable=False, server_default=""),
    # Names the key of the seal; see `sealing`. Rows from before there were seals have neither.
    Column("key", Text, nullable=False, server_default=""),
    Column("seal", Text, nullable=False, server_default=""),
    Index("audit_entry_by_time", "at", "chain", "seq"),
    Index("audit_entry_by_turn", "turn"),
    Index("audit_entry_by_session", "session", "at"),
)


def newest(
    filters: Mapping[str, str],
    *,
    limit: int,
    before: Place | None = None,
    within: Sequence[Claim] | None = None,
) -> Callable[[Connection], list[dict[str, Any]]]:
    """Return a reader of the newest rows.

    Args:
        filters: Column -> the value that it must have.
        limit: So many rows at most.
        before: Only rows that come before this place; None for all.
        within: Only rows of the sessions that these cover; None for all. SQLite does not
            tell A from a here, so whoever asks looks at each row again.
    """
    place = (ENTRIES.c.at, ENTRIES.c.chain, ENTRIES.c.seq)
    query = select(ENTRIES).order_by(*(column.desc() for column in place))
    for column, value in filters.items():
        query = query.where(ENTRIES.c[column] == value)
    if before is not None:
        query = query.where(tuple_(*place) < tuple_(*before))
    if within is not None:
        covered = [ENTRIES.c.session.like(_sessions(claim), escape="\\") for claim in within]
        query = query.where(or_(false(), *covered))

    def read(connection: Connection) -> list[dict[str, Any]]:
        return [dict(row) for row in connection.execute(query.limit(limit)).mappings()]

    return read


def _sessions(claim: Claim) -> str:
    """Return what the keys of the sessions are like that `claim` covers."""
    meant = (claim.channel, claim.account, claim.peer)
    key = str(SessionKey("", *meant)).split(":")[1:]
    told = (
        "%" if part == "*" else re.sub(r"([\\%_])", r"\\\1", text)
        for part, text in zip(meant, key, strict=True)
    )
    # No part of a key holds a colon, so each `%` stands for one part.
    return ":".join(("%", *told))


def chained(sealer: Sealer, row: Mapping[str, Any]) -> Callable[[Connection], Head]:
    """Return a writer of `row` at the end of its chain, which returns the chain's head.

    What stands at the end is read within the transaction: a row that could not be committed
    leaves no gap.
    """
    columns = (ENTRIES.c.chain, ENTRIES.c.seq, ENTRIES.c.seal)
    own = select(*columns).where(ENTRIES.c.chain == row["chain"])
    newest_own = own.order_by(ENTRIES.c.seq.desc()).limit(1)

    def write(connection: Connection) -> Head:
        last = connection.execute(newest_own).first()
        own = Head(chain=last.chain, seq=last.seq, seal=last.seal) if last else None
        head = own or newest_head(connection)
        sealed = sealer.chained(row, head)
        connection.execute(insert(ENTRIES).values(sealed))
        return Head(chain=sealed["chain"], seq=sealed["seq"], seal=sealed["seal"])

    return write


def page(after: tuple[str, int], limit: int) -> Callable[[Connection], list[dict[str, Any]]]:
    """Return a reader of rows in the order of chains and numbers, from behind `after` on."""
    place = (ENTRIES.c.chain, ENTRIES.c.seq)
    query = select(ENTRIES).where(tuple_(*place) > tuple_(*after)).order_by(*place).limit(limit)

    def read(connection: Connection) -> list[dict[str, Any]]:
        return [dict(row) for row in connection.execute(query).mappings()]

    return read


def newest_head(connection: Connection) -> Head | None:
    """Return the last row of all, as a head; None where there is no row."""
    by_time = (ENTRIES.c.at.desc(), ENTRIES.c.chain.desc(), ENTRIES.c.seq.desc())
    query = select(ENTRIES.c.chain, ENTRIES.c.seq, ENTRIES.c.seal).order_by(*by_time).limit(1)
    last = connection.execute(query).first()
    return Head(chain=last.chain, seq=last.seq, seal=last.seal) if last else None


def seal_of(head: Head) -> Callable[[Connection], str | None]:
    """Return a reader of the seal of the row that `head` names; None where it is gone."""
    place = (ENTRIES.c.chain == head.chain) & (ENTRIES.c.seq == head.seq)

    def read(connection: Connection) -> str | None:
        seal: str | None = connection.execute(select(ENTRIES.c.seal).where(place)).scalar()
        return seal

    return read


def links(connection: Connection) -> list[str]:
    """Return what first rows of chains name as the row before them."""
    query = select(ENTRIES.c.previous).where(ENTRIES.c.seq == 1, ENTRIES.c.previous != "")
    return list(connection.execute(query).scalars())
