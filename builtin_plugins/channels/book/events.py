"""Which gateway sees to what, where several share a store: leases with an end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import sqlalchemy as sa

from hookgate import Clock, Image, ReceivedMessage, Store
from hookgate.builtin_plugins.channels.book.tables import CURSORS, EVENTS, LEASES, TURNS
from hookgate.kit.records.statements import insert_new

LEASE_SECONDS = 30.0
"""A gateway that has not been heard of for so long has stopped."""


def milliseconds(clock: Clock) -> int:
    """Return the time as milliseconds since 1970."""
    return int(clock.now().timestamp() * 1000)


class Leases:
    """The leases of one gateway.

    A store that no other gateway may share needs none of them to be looked at: whoever held
    anything before it was opened has stopped.

    Args:
        store: The store, with the tables of channels.
        clock: Says when a lease is over.
        gateway: The id of this run of this gateway.
    """

    def __init__(self, store: Store, clock: Clock, gateway: str) -> None:
        self._store = store
        self.clock = clock
        self.gateway = gateway
        self.held: set[str] = set()
        """The names of what is held beside, and renewed with each beat."""

    async def beat(self) -> None:
        """Say that this gateway runs, and holds what it holds.

        Raises:
            StoreError: That cannot be written.
        """

        def work(connection: sa.Connection) -> set[str]:
            names = (self._own, *sorted(self.held))
            return {name for name in names if not self._take(connection, name)}

        self.held -= await self._store.write(work)

    async def take(self, name: str) -> bool:
        """Take or renew a lease; return whether it is this gateway's now.

        Raises:
            StoreError: That cannot be written.
        """
        return await self._store.write(lambda connection: self._take(connection, name))

    async def release(self) -> None:
        """Give everything back.

        Raises:
            StoreError: That cannot be written.
        """

        def work(connection: sa.Connection) -> None:
            connection.execute(sa.delete(LEASES).where(LEASES.c.holder == self.gateway))

        await self._store.write(work)

    def holds(self, connection: sa.Connection, name: str) -> bool:
        """Whether this gateway holds a lease, for a transaction that depends on it."""
        mine = sa.select(LEASES.c.name).where(
            LEASES.c.name == name, LEASES.c.holder == self.gateway, LEASES.c.until > self._now
        )
        return connection.execute(mine.with_for_update()).first() is not None

    def running(self) -> sa.Select[tuple[str]]:
        """Return the query of the ids of the gateways that run; of a store of its own: this one."""
        if not self._store.shared:
            return sa.select(LEASES.c.holder).where(LEASES.c.holder == self.gateway)
        gateways: sa.ColumnElement[bool] = LEASES.c.name.startswith("gateway:", autoescape=True)
        return sa.select(LEASES.c.holder).where(gateways, LEASES.c.until > self._now)

    def _take(self, connection: sa.Connection, name: str) -> bool:
        now = self._now
        row = {"name": name, "holder": self.gateway, "until": now + int(LEASE_SECONDS * 1000)}
        if insert_new(connection, LEASES, row):
            return True
        free = LEASES.c.until <= now if self._store.shared else LEASES.c.holder != self.gateway
        taken = connection.execute(
            sa.update(LEASES)
            .where(LEASES.c.name == name, sa.or_(LEASES.c.holder == self.gateway, free))
            .values(holder=row["holder"], until=row["until"])
        )
        return bool(taken.rowcount)

    @property
    def _own(self) -> str:
        return f"gateway:{self.gateway}"

    @property
    def _now(self) -> int:
        return milliseconds(self.clock)


# -- events ----------------------------------------------------------------------

# Events that came in: each is known once, waits for its turn, and stays known for a while.

EventKey: TypeAlias = tuple[str, str, str]
"""What names an event: channel, account, and the platform's id of it."""

Begun: TypeAlias = tuple[tuple[str, str, str], ...]
"""Turns of an event: of each its id, its session, and the id of the message that shows its answer.
"""

PRUNED = 5000
"""So many events are forgotten in one transaction at most."""


class LostLeaseError(Exception):
    """Another gateway polls by now; nothing was kept."""


class ForeignEventError(Exception):
    """An event of this id is known, and another peer's: its answer is not for whoever asks."""


def event_key(channel: str, message: ReceivedMessage) -> EventKey:
    """Return what names the event of a message."""
    return channel, message.account, message.id


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
        turns: Those turns.
    """

    channel: str
    message: ReceivedMessage
    turns: Begun


class Events:
    """The events of all channels, in the store.

    Attributes:
        shared: Whether other gateways may take events over.

    Args:
        store: The store, with the tables of channels.
        leases: Say which gateways run, and which this one is.
    """

    def __init__(self, store: Store, leases: Leases) -> None:
        self.shared = store.shared
        self._store = store
        self._leases = leases
        self._positions = Positions(leases.clock)
        # Whether there may be events whose account was not kept.
        self._unplaced = True

    async def take(
        self,
        channel: str,
        messages: Sequence[ReceivedMessage],
        *,
        done: Collection[EventKey] = (),
        cursor: str | None = None,
        lease: str = "",
    ) -> list[ReceivedMessage]:
        """Commit messages, and the cursor behind them; return those that were not known.

        Args:
            channel: The channel.
            messages: The messages.
            done: Those that wait for no turn.
            cursor: Where the next poll begins; None to leave it.
            lease: The lease that this gateway must hold for that; "" for none.

        Raises:
            LostLeaseError: It does not hold it any more.
            StoreError: Nothing was committed.
        """
        rows = [self._row(channel, one, event_key(channel, one) in done) for one in messages]

        def work(connection: sa.Connection) -> list[ReceivedMessage]:
            if lease and not self._leases.holds(connection, lease):
                raise LostLeaseError
            before = self._known_before(connection, channel, messages)
            fresh = [
                message
                for message, row in zip(messages, rows, strict=True)
                if message.id not in before and insert_new(connection, EVENTS, row)
            ]
            if cursor is not None:
                row = {"channel": channel, "cursor": cursor}
                if not insert_new(connection, CURSORS, row):
                    at = CURSORS.c.channel == channel
                    connection.execute(sa.update(CURSORS).where(at).values(cursor=cursor))
            return fresh

        return await self._store.write(work)

    def _row(self, channel: str, message: ReceivedMessage, done: bool) -> dict[str, Any]:
        return {
            "channel": channel,
            "account": message.account,
            "id": message.id,
            "peer": message.peer,
            "position": self._positions.next(),
            "state": "done" if done else "waiting",
            "owner": self._leases.gateway,
            "message": "" if done else json.dumps(asdict(message)),
            "answer": "",
            "conversation": _conversation(message),
        }

    def _known_before(
        self, connection: sa.Connection, channel: str, messages: Sequence[ReceivedMessage]
    ) -> Collection[str]:
        """Return the ids of messages that came when accounts were not kept, to whichever it was.

        They are pruned in time; once none is left, nobody looks any more.
        """
        if not self._unplaced or not messages:
            return ()
        old = sa.select(EVENTS.c.id).where(EVENTS.c.account == "")
        if connection.execute(old.limit(1)).first() is None:
            self._unplaced = False
            return ()
        mine = old.where(EVENTS.c.channel == channel, EVENTS.c.id.in_([one.id for one in messages]))
        return set(connection.execute(mine).scalars())

    async def cursor(self, channel: str) -> str:
        """Return where the next poll begins; "" at the very beginning."""
        query = sa.select(CURSORS.c.cursor).where(CURSORS.c.channel == channel)
        found = await self._store.read(lambda connection: connection.execute(query).scalar())
        return str(found or "")

    # -- turns -------------------------------------------------------------

    async def turn_of(
        self, channel: str, messages: Sequence[ReceivedMessage]
    ) -> tuple[ReceivedMessage | None, bool]:
        """Return whose turn it is of messages of one conversation that were put here.

        Where gateways share the store, the events of a conversation are worked on in their order
        by whichever gateway has taken each in, and by none that another one has taken them from.

        Args:
            channel: The channel.
            messages: The messages, in their order, not none.

        Returns:
            The message; None while an earlier one waits at another gateway. And whether it is
            still for this gateway to answer; where not, it is to be left alone.

        Raises:
            StoreError: It cannot be read.
        """
        if not self.shared:
            return messages[0], True
        waiting = sa.and_(EVENTS.c.channel == channel, EVENTS.c.state == "waiting")
        own = {message.id: message for message in messages}
        here = EVENTS.c.conversation == _conversation(messages[0])
        first = sa.select(EVENTS.c.id, EVENTS.c.owner).where(waiting, here)
        query = first.order_by(EVENTS.c.position).limit(1)
        row = await self._store.read(lambda connection: connection.execute(query).first())
        if row is None:
            return messages[0], False
        if row.id not in own:
            return None, False
        return own[row.id], row.owner == self._leases.gateway

    async def ours(self, event: EventKey) -> Begun | None:
        """Return the turns that were begun for an event; None where it is not ours to answer.

        Raises:
            StoreError: It cannot be read.
        """
        mine = sa.and_(EVENTS.c.state == "waiting", EVENTS.c.owner == self._leases.gateway)
        query = sa.select(EVENTS.c.id).where(_is(event), mine)

        def work(connection: sa.Connection) -> Begun | None:
            return _begun(connection, event) if connection.execute(query).first() else None

        return await self._store.read(work)

    def begun(self, event: EventKey, turn: str, session: str) -> asyncio.Future[None]:
        """Say which turn answers an event, before anything of that turn is committed."""
        channel, account, number = event
        row = {"turn": turn, "channel": channel, "account": account, "event": number}
        row |= {"session": session, "live": ""}
        return self._store.insert_soon(TURNS, [row])

    async def shown(self, turn: str, message_id: str) -> None:
        """Keep the id of the message that shows the answer while it is written."""
        live = sa.update(TURNS).where(TURNS.c.turn == turn).values(live=message_id)
        await self._store.write(lambda connection: bool(connection.execute(live).rowcount))

    async def finish(
        self,
        event: EventKey,
        *,
        answer: str = "",
        also: Callable[[sa.Connection], None] = lambda _: None,
    ) -> None:
        """Let an event be done; `also` writes what is to be said, in the same transaction.

        Raises:
            StoreError: Nothing was written.
        """

        def work(connection: sa.Connection) -> None:
            still = sa.update(EVENTS).where(_is(event), EVENTS.c.state == "waiting")
            if connection.execute(still.values(state="done", message="", answer=answer)).rowcount:
                also(connection)
            connection.execute(sa.delete(TURNS).where(_answers(event)))

        await self._store.write(work)

    async def answer(self, event: EventKey, peer: str) -> str | None:
        """Return the answer to an event; None while it waits, "" where it has none.

        Args:
            event: The event.
            peer: Who asks.

        Raises:
            ForeignEventError: The event is another peer's, or nobody knows whose it was.
        """
        row = EVENTS.c
        # Of the event itself, or of one of its id whose account was not kept.
        this = sa.or_(_is(event), _is((event[0], "", event[2])))
        query = sa.select(row.peer, row.state, row.answer).where(this).order_by(row.account.desc())
        found = await self._store.read(lambda connection: connection.execute(query).first())
        if found is None:
            return None
        if found.peer != peer:
            raise ForeignEventError
        return None if found.state == "waiting" else str(found.answer)

    # -- after a stop ------------------------------------------------------

    async def take_over(self, channels: Collection[str], limit: int) -> list[Left]:
        """Take over what gateways that have stopped have left behind, the oldest first.

        Raises:
            StoreError: It cannot be read or written.
        """

        def work(connection: sa.Connection) -> list[Left]:
            left = sa.and_(
                EVENTS.c.state == "waiting",
                EVENTS.c.channel.in_(list(channels)),
                EVENTS.c.owner != self._leases.gateway,
                EVENTS.c.owner.not_in(self._leases.running()),
            )
            query = sa.select(EVENTS).where(left).order_by(EVENTS.c.position).limit(limit)
            found = []
            for row in connection.execute(query.with_for_update(skip_locked=True)).all():
                this = _is((row.channel, row.account, row.id))
                message = _from_json(row.message)
                mine = {"owner": self._leases.gateway, "conversation": _conversation(message)}
                connection.execute(sa.update(EVENTS).where(this).values(**mine))
                begun = _begun(connection, (row.channel, row.account, row.id))
                found.append(Left(row.channel, message, begun))
            return found

        return await self._store.write(work)

    # -- keeping -----------------------------------------------------------

    async def prune(self, *, before: int, most: int) -> None:
        """Forget events that are done, from before a position, and past `most` of a channel.

        Raises:
            StoreError: They cannot be deleted.
        """

        def work(connection: sa.Connection) -> None:
            for (channel,) in connection.execute(sa.select(EVENTS.c.channel).distinct()).all():
                mine = EVENTS.c.channel == channel
                newest = (
                    sa.select(EVENTS.c.position)
                    .where(mine)
                    .order_by(EVENTS.c.position.desc())
                    .offset(most)
                    .limit(1)
                )
                edge = max(before, connection.execute(newest).scalar() or 0)
                names = (EVENTS.c.account, EVENTS.c.id)
                old = (
                    sa.select(*names)
                    .where(mine, EVENTS.c.state == "done", EVENTS.c.position <= edge)
                    .limit(PRUNED)
                )
                connection.execute(sa.delete(EVENTS).where(mine, sa.tuple_(*names).in_(old)))

        await self._store.write(work)

    async def counts(self) -> dict[str, int]:
        """Return how many events of each channel wait for their turn."""
        query = (
            sa.select(EVENTS.c.channel, sa.func.count())
            .where(EVENTS.c.state == "waiting")
            .group_by(EVENTS.c.channel)
        )
        rows = await self._store.read(lambda connection: connection.execute(query).all())
        return {row[0]: row[1] for row in rows}


def _is(event: EventKey) -> sa.ColumnElement[bool]:
    row = EVENTS.c
    return sa.and_(row.channel == event[0], row.account == event[1], row.id == event[2])


def _answers(event: EventKey) -> sa.ColumnElement[bool]:
    row = TURNS.c
    return sa.and_(row.channel == event[0], row.account == event[1], row.event == event[2])


def _begun(connection: sa.Connection, event: EventKey) -> Begun:
    turns = sa.select(TURNS.c.turn, TURNS.c.session, TURNS.c.live).where(_answers(event))
    return tuple((row.turn, row.session, row.live) for row in connection.execute(turns))


def _conversation(message: ReceivedMessage) -> str:
    return json.dumps([message.account, message.peer])


def _from_json(text: str) -> ReceivedMessage:
    body: dict[str, Any] = json.loads(text)
    body["images"] = tuple(Image(**image) for image in body["images"])
    return ReceivedMessage(**body)
