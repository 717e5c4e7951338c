"""The last turns in the store: a row for each, without what was said in it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Index, MetaData, Row, func, select

from hookgate import Principal, Store
from hookgate.builtin_plugins.dashboard.turns import TurnSummary
from hookgate.kit.records import Field, Record, Records, may_see
from hookgate.kit.records.statements import Trim

SCRIPTS = Path(__file__).parent / "migrations"
METADATA = MetaData(info={"complete": True})


class KeptTurn(TurnSummary, Record):  # type: ignore[misc]  # as `Record` itself
    """What is kept of a turn. A list is JSON, whose texts are masked."""

    __tablename__ = "dashboard_turn"
    __table_args__ = (
        Index("dashboard_turn_by_place", "place"),
        Index("dashboard_turn_by_root", "root"),
    )
    metadata = METADATA

    id: str = Field(primary_key=True)
    place: str
    """Its place among all: what began later is greater."""
    root: str
    """The turn that a message from outside has started: itself, or the outermost one."""
    session: str
    """Where that message came in, as a session's key: who sees that sees this."""
    own: str
    """The session that it belongs to itself."""
    message: str
    action: str
    degraded: str
    taint: str
    tainted: bool
    called: int
    plugins: str
    """Those whose tools were called, and those that decided."""
    tools: str
    calls: str
    told: str
    """Events of it, of which its waterfall is made."""


TURNS = KeptTurn.table
_TRIM = Trim((TURNS.c.place,), ())


def names(listed: ColumnElement[str], name: str) -> ColumnElement[bool]:
    """Return whether a list in JSON has a name in it; to LIKE, some databases take A for a."""
    return func.replace(listed, orjson.dumps(name).decode(), "") != listed


async def keep(store: Store, rows: Sequence[Mapping[str, Any]]) -> None:
    """Keep turns, with the next write of anybody.

    Raises:
        StoreError: Nothing was written.
    """
    await asyncio.shield(store.insert_soon(TURNS, rows))


async def ended(
    records: Records[KeptTurn], since: str, principal: Principal, most: int
) -> list[Row[Any]]:
    """Return how so many turns ended and how long they took, those that began last first.

    Args:
        records: The turns.
        since: When the first of them may have begun, ISO 8601 in UTC.
        principal: Whose turns are wanted.
        most: So many at most.

    Raises:
        StoreError: They cannot be read.
    """
    c = TURNS.c
    query = (
        select(c.id, c.session, c.started, c.ending, c.milliseconds)
        .where(c.place >= since, may_see(principal, c.session))
        .order_by(c.place.desc())
        .limit(most)
    )
    rows = await records.store.read(lambda connection: list[Any](connection.execute(query)))
    return [row for row in rows if principal.sees(row.session)]


async def trim(store: Store, most: int) -> None:
    """Let the oldest turns go, where there are more than so many.

    Raises:
        StoreError: None has gone.
    """
    await store.write(lambda connection: _TRIM(connection, most), order="dashboard")
