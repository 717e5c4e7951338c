"""Events that came in: each is known once, waits for its turn, and stays known for a while."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, delete, func, select, update

from hookgate.builtin_plugins.channels.book.tables import CURSORS, EVENTS, TURNS, insert_new
from hookgate.core.domain.channels.hosted import ReceivedMessage
from hookgate.core.domain.parts import Image

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Sequence

    from sqlalchemy import Connection

    from hookgate.builtin_plugins.channels.book.leases import Leases
    from hookgate.core.domain.ports import Clock, Store

__all__ = ["Events", "Left", "LostLeaseError", "Positions"]

PRUNED = 5000
"""So many events are forgotten in one transaction at most."""


class LostLeaseError(Exception):
    """Another gateway polls by now; nothing was kept."""


class Positions:
    """Numbers that grow: microseconds since 1970, no two the same."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = 0

    def next(self) -> int:
        """Return the next one."""
        self._last = max(self._last + 1, int(self._clock.now().timestamp() * 1_000_000))
        return self._last


@dataclass(frozen=True, slots=True)
class Left:
    """A message that a gateway has left behind, and the turns that it has started for it.

    Attributes:
        channel: The channel.
        message: The message.
        turns: Turn, session, and id of the message that showed the answer, of each.
    """

    channel: str
    message: ReceivedMessage
    turns: tuple[tuple[str, str, str], ...]


class Events:
    """The events of all channels, in the store.

    Args:
        store: The store, with the tables of channels.
        leases: Say which gateways run, and which this one is.
    """

    def __init__(self, store: Store, leases: Leases) -> None:
        self._store = store
        self._leases = leases
        self._positions = Positions(leases.clock)

    async def take(
        self,
        channel: str,
        messages: Sequence[ReceivedMessage],
        *,
        done: Collection[str] = (),
        cursor: str | None = None,
        lease: str = "",
    ) -> list[ReceivedMessage]:
        """Commit messages, and the cursor behind them; return those that were not known.

        Args:
            channel: The channel.
            messages: The messages.
            done: The ids of those that wait for no turn.
            cursor: Where the next poll begins; None to leave it.
            lease: The lease that this gateway must hold for that; "" for none.

        Raises:
            LostLeaseError: It does not hold it any more.
            StoreError: Nothing was committed.
        """
        rows = [
            {
                "channel": channel,
                "id": message.id,
                "position": self._positions.next(),
                "state": "done" if message.id in done else "waiting",
                "owner": self._leases.gateway,
                "message": "" if message.id in done else _to_json(message),
                "answer": "",
            }
            for message in messages
        ]

        def work(connection: Connection) -> list[ReceivedMessage]:
            if lease and not self._leases.holds(connection, lease):
                raise LostLeaseError
            fresh = [
                message
                for message, row in zip(messages, rows, strict=True)
                if insert_new(connection, EVENTS, row)
            ]
            if cursor is not None:
                row = {"channel": channel, "cursor": cursor}
                if not insert_new(connection, CURSORS, row):
                    at = CURSORS.c.channel == channel
                    connection.execute(update(CURSORS).where(at).values(cursor=cursor))
            return fresh

        return await self._store.write(work)

    async def cursor(self, channel: str) -> str:
        """Return where the next poll begins; "" at the very beginning."""
        query = select(CURSORS.c.cursor).where(CURSORS.c.channel == channel)
        found = await self._store.read(lambda connection: connection.execute(query).scalar())
        return str(found or "")

    # -- turns -------------------------------------------------------------

    def begun(self, channel: str, event: str, turn: str, session: str) -> asyncio.Future[None]:
        """Say which turn answers an event, before anything of that turn is committed."""
        row = {"turn": turn, "channel": channel, "event": event, "session": session, "live": ""}
        return self._store.insert_soon(TURNS, [row])

    async def shown(self, turn: str, message_id: str) -> None:
        """Keep the id of the message that shows the answer while it is written."""
        live = update(TURNS).where(TURNS.c.turn == turn).values(live=message_id)
        await self._store.write(lambda connection: bool(connection.execute(live).rowcount))

    async def finish(
        self,
        channel: str,
        event: str,
        *,
        answer: str = "",
        also: Callable[[Connection], None] = lambda _: None,
    ) -> None:
        """Let an event be done; `also` writes what is to be said, in the same transaction.

        Raises:
            StoreError: Nothing was written.
        """
        this = and_(EVENTS.c.channel == channel, EVENTS.c.id == event)
        turns = and_(TURNS.c.channel == channel, TURNS.c.event == event)

        def work(connection: Connection) -> None:
            still = update(EVENTS).where(this, EVENTS.c.state == "waiting")
            if connection.execute(still.values(state="done", message="", answer=answer)).rowcount:
                also(connection)
            connection.execute(delete(TURNS).where(turns))

        await self._store.write(work)

    async def answer(self, channel: str, event: str) -> str | None:
        """Return the answer to an event; None while it waits, "" where it has none."""
        this = and_(EVENTS.c.channel == channel, EVENTS.c.id == event)
        query = select(EVENTS.c.state, EVENTS.c.answer).where(this)
        row = await self._store.read(lambda connection: connection.execute(query).first())
        return None if row is None or row.state == "waiting" else str(row.answer)

    # -- after a stop ------------------------------------------------------

    async def take_over(self, channels: Collection[str], limit: int) -> list[Left]:
        """Take over what gateways that have stopped have left behind, the oldest first.

        Raises:
            StoreError: It cannot be read or written.
        """

        def work(connection: Connection) -> list[Left]:
            left = and_(
                EVENTS.c.state == "waiting",
                EVENTS.c.channel.in_(list(channels)),
                EVENTS.c.owner != self._leases.gateway,
                EVENTS.c.owner.not_in(self._leases.running()),
            )
            query = select(EVENTS).where(left).order_by(EVENTS.c.position).limit(limit)
            found = []
            for row in connection.execute(query.with_for_update(skip_locked=True)).all():
                this = and_(EVENTS.c.channel == row.channel, EVENTS.c.id == row.id)
                connection.execute(update(EVENTS).where(this).values(owner=self._leases.gateway))
                turns = select(TURNS).where(TURNS.c.channel == row.channel, TURNS.c.event == row.id)
                begun = tuple(
                    (one.turn, one.session, one.live) for one in connection.execute(turns).all()
                )
                found.append(Left(row.channel, _from_json(row.message), begun))
            return found

        return await self._store.write(work)

    # -- keeping -----------------------------------------------------------

    async def prune(self, *, before: int, most: int) -> None:
        """Forget events that are done, from before a position, and past `most` of a channel.

        Raises:
            StoreError: They cannot be deleted.
        """

        def work(connection: Connection) -> None:
            for (channel,) in connection.execute(select(EVENTS.c.channel).distinct()).all():
                mine = EVENTS.c.channel == channel
                newest = (
                    select(EVENTS.c.position)
                    .where(mine)
                    .order_by(EVENTS.c.position.desc())
                    .offset(most)
                    .limit(1)
                )
                edge = max(before, connection.execute(newest).scalar() or 0)
                old = (
                    select(EVENTS.c.id)
                    .where(mine, EVENTS.c.state == "done", EVENTS.c.position <= edge)
                    .limit(PRUNED)
                )
                connection.execute(delete(EVENTS).where(mine, EVENTS.c.id.in_(old)))

        await self._store.write(work)

    async def counts(self) -> dict[str, int]:
        """Return how many events of each channel wait for their turn."""
        query = (
            select(EVENTS.c.channel, func.count())
            .where(EVENTS.c.state == "waiting")
            .group_by(EVENTS.c.channel)
        )
        rows = await self._store.read(lambda connection: connection.execute(query).all())
        return {row[0]: row[1] for row in rows}


def _to_json(message: ReceivedMessage) -> str:
    return json.dumps(asdict(message))


def _from_json(text: str) -> ReceivedMessage:
    body: dict[str, Any] = json.loads(text)
    body["images"] = tuple(Image(**image) for image in body["images"])
    return ReceivedMessage(**body)
