"""What is to be said: written before it is sent, kept until it was, and dead letters after that."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from hookgate import Address, Choice, Content, Store, new_id
from hookgate.builtin_plugins.channels.book.events import Leases, Positions
from hookgate.builtin_plugins.channels.book.tables import DELIVERIES
from hookgate.wire import content_from_json, content_to_json

DEAD = DELIVERIES.c.state == "dead"
WAITING = DELIVERIES.c.state == "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One message to be sent or changed.

    Attributes:
        address: To whom.
        content: What is said; at most as long as a message of the channel.
        thread: What it answers; "" for nothing.
        choices: What it offers.
        edits: The id of the message that it changes; "" where it is a new one.
        batch: What is said together.
        id: Its id, and the key of idempotency.
        attempts: How often it was tried.
        due: When it is tried next, in milliseconds since 1970.
        expires: From when on it is of no use; 0 for never.
        error: Why it was not sent.
    """

    address: Address
    content: Content
    thread: str = ""
    choices: tuple[Choice, ...] = ()
    edits: str = ""
    batch: str = ""
    id: str = ""
    attempts: int = 0
    due: int = 0
    expires: int = 0
    error: str = ""

    @property
    def peer(self) -> tuple[str, str]:
        """Whose order it stands in: account and peer."""
        return self.address.account, self.address.peer


class Deliveries:
    """The queue of all channels, in the store.

    Args:
        store: The store, with the tables of channels.
        leases: Say which gateways run, and which this one is.
    """

    def __init__(self, store: Store, leases: Leases) -> None:
        self._store = store
        self._leases = leases
        self._positions = Positions(leases.clock)

    def adding(self, deliveries: Sequence[Delivery]) -> Callable[[sa.Connection], None]:
        """Return what writes deliveries, in their order, in the transaction that it is handed."""
        rows = [self._row(one) for one in deliveries]

        def work(connection: sa.Connection) -> None:
            if rows:
                connection.execute(sa.insert(DELIVERIES), rows)

        return work

    async def add(self, deliveries: Sequence[Delivery]) -> None:
        """Commit deliveries.

        Raises:
            StoreError: Nothing was committed.
        """
        await self._store.write(self.adding(deliveries))

    def _row(self, one: Delivery) -> dict[str, Any]:
        address = one.address
        body = {
            "guild": address.guild,
            "team": address.team,
            "content": content_to_json(one.content),
            "thread": one.thread,
            "choices": [[choice.label, choice.data] for choice in one.choices],
            "edits": one.edits,
        }
        return {
            "id": one.id or new_id("say"),
            "position": self._positions.next(),
            "batch": one.batch,
            "channel": address.channel,
            "account": address.account,
            "peer": address.peer,
            "body": json.dumps(body),
            "state": "waiting",
            "owner": self._leases.gateway,
            "attempts": one.attempts,
            "due": one.due,
            "expires": one.expires,
            "error": "",
        }

    # -- sending -----------------------------------------------------------

    async def heads(
        self, channel: str, *, busy: Collection[tuple[str, str]], limit: int
    ) -> list[Delivery]:
        """Return what stands first in the order of its peer, the oldest first; due or not.

        Raises:
            StoreError: It cannot be read.
        """
        row, other = DELIVERIES.c, DELIVERIES.alias()
        before = sa.exists().where(
            other.c.channel == row.channel,
            other.c.state == "waiting",
            other.c.account == row.account,
            other.c.peer == row.peer,
            other.c.position < row.position,
        )
        mine = sa.and_(row.channel == channel, WAITING, row.owner == self._leases.gateway, ~before)
        if busy:
            taken = sa.or_(*(sa.and_(row.account == one, row.peer == two) for one, two in busy))
            mine = sa.and_(mine, ~taken)
        query = sa.select(DELIVERIES).where(mine).order_by(row.due, row.position).limit(limit)
        rows = await self._store.read(lambda connection: connection.execute(query).all())
        return [_delivery(one) for one in rows]

    async def blocked(self, channel: str) -> bool:
        """Whether anything of this gateway's waits for what another one has to say before it."""
        if not self._store.shared:
            return False
        mine = sa.and_(WAITING, DELIVERIES.c.owner == self._leases.gateway)
        query = sa.select(DELIVERIES.c.id).where(DELIVERIES.c.channel == channel, mine).limit(1)
        return (
            await self._store.read(lambda connection: connection.execute(query).first()) is not None
        )

    async def waits(self, address: Address) -> bool:
        """Whether anything is still to be sent to a peer."""
        row = DELIVERIES.c
        query = sa.select(row.id).where(
            row.channel == address.channel,
            WAITING,
            row.account == address.account,
            row.peer == address.peer,
        )
        return await self._store.read(
            lambda connection: connection.execute(query.limit(1)).first() is not None
        )

    async def sent(self, delivery_id: str) -> None:
        """Forget what was sent."""
        this = sa.delete(DELIVERIES).where(DELIVERIES.c.id == delivery_id)
        await self._store.write(lambda connection: bool(connection.execute(this).rowcount))

    async def again(self, one: Delivery, *, due: int, error: str, anew: bool = False) -> None:
        """Keep a delivery for another attempt.

        Args:
            one: The delivery.
            due: When, in milliseconds since 1970.
            error: Why this one failed.
            anew: Whether it is sent as a new message, since the one it changes cannot be.
        """
        values: dict[str, Any] = {"attempts": one.attempts + 1, "due": due, "error": error}

        def work(connection: sa.Connection) -> None:
            this = DELIVERIES.c.id == one.id
            if anew:
                text = connection.execute(sa.select(DELIVERIES.c.body).where(this)).scalar()
                if text is not None:
                    values["body"] = json.dumps({**json.loads(text), "edits": ""})
            connection.execute(sa.update(DELIVERIES).where(this).values(**values))

        await self._store.write(work)

    async def die(self, one: Delivery, error: str) -> None:
        """Put a delivery, and what is said behind it in one go, with the dead letters."""
        address = one.address
        these = sa.or_(
            DELIVERIES.c.id == one.id,
            _said_with(one.batch, address.channel, address.account, address.peer),
        )
        dead = sa.update(DELIVERIES).where(WAITING, these)

        def work(connection: sa.Connection) -> None:
            connection.execute(dead.values(state="dead", error=error))
            this = sa.update(DELIVERIES).where(DELIVERIES.c.id == one.id)
            connection.execute(this.values(attempts=one.attempts + 1))

        await self._store.write(work)

    async def take_over(self, channels: Collection[str]) -> int:
        """Take over what gateways that have stopped have left; return how many."""
        left = sa.and_(
            WAITING,
            DELIVERIES.c.channel.in_(list(channels)),
            DELIVERIES.c.owner != self._leases.gateway,
            DELIVERIES.c.owner.not_in(self._leases.running()),
        )
        mine = sa.update(DELIVERIES).where(left).values(owner=self._leases.gateway)
        return await self._store.write(lambda connection: connection.execute(mine).rowcount)

    # -- dead letters ------------------------------------------------------

    async def dead(self, channel: str, limit: int) -> list[Delivery]:
        """Return dead letters, the oldest first; of one channel, or of all."""
        query = sa.select(DELIVERIES).where(DEAD, _of(channel)).order_by(DELIVERIES.c.position)
        rows = await self._store.read(
            lambda connection: connection.execute(query.limit(limit)).all()
        )
        return [_delivery(row) for row in rows]

    async def replay(self, channel: str, delivery_id: str) -> list[str]:
        """Let dead letters be tried again, in their order; return the channels of them.

        Args:
            channel: One channel; "" for all.
            delivery_id: One letter, with those that were said with it; "" for all.
        """

        def work(connection: sa.Connection) -> list[str]:
            these = sa.and_(DEAD, _of(channel))
            if delivery_id:
                letter, this = DELIVERIES.c, DELIVERIES.c.id == delivery_id
                said = sa.select(letter.batch, letter.channel, letter.account, letter.peer)
                one = connection.execute(said.where(these, this)).first()
                with_it = sa.false() if one is None else _said_with(*one)
                these = sa.and_(these, sa.or_(this, with_it))
            found = sa.select(DELIVERIES.c.id, DELIVERIES.c.channel).where(these)
            rows = connection.execute(found.order_by(DELIVERIES.c.position)).all()
            for row in rows:
                # Behind what waits now: it was not said when it was its turn.
                values = {
                    "state": "waiting",
                    "owner": self._leases.gateway,
                    "position": self._positions.next(),
                    "attempts": 0,
                    "due": 0,
                    "expires": 0,
                }
                this = DELIVERIES.c.id == row.id
                connection.execute(sa.update(DELIVERIES).where(this).values(**values))
            return [row.channel for row in rows]

        return await self._store.write(work)

    async def prune(self, most: int) -> None:
        """Forget the oldest dead letters beyond `most`."""

        def work(connection: sa.Connection) -> None:
            newest = sa.select(DELIVERIES.c.position).where(DEAD)
            edge = connection.execute(
                newest.order_by(DELIVERIES.c.position.desc()).offset(most).limit(1)
            ).scalar()
            if edge is not None:
                connection.execute(sa.delete(DELIVERIES).where(DEAD, DELIVERIES.c.position <= edge))

        await self._store.write(work)

    async def counts(self) -> dict[tuple[str, str], int]:
        """Return how many deliveries there are, by channel and state."""
        row = DELIVERIES.c
        query = sa.select(row.channel, row.state, sa.func.count()).group_by(row.channel, row.state)
        rows = await self._store.read(lambda connection: connection.execute(query).all())
        return {(one[0], one[1]): one[2] for one in rows}


def _said_with(batch: str, channel: str, account: str, peer: str) -> sa.ColumnElement[bool]:
    """Return what is said to one peer in one go; the name of a batch is a platform's id."""
    row = DELIVERIES.c
    whom = sa.and_(row.channel == channel, row.account == account, row.peer == peer)
    return sa.and_(row.batch == batch, row.batch != "", whom)


def _of(channel: str) -> sa.ColumnElement[bool]:
    return DELIVERIES.c.channel == channel if channel else DELIVERIES.c.channel != ""


def _delivery(row: Any) -> Delivery:
    body = json.loads(row.body)
    address = Address(row.channel, row.account, row.peer, body["guild"], body["team"])
    one = Delivery(
        address=address,
        content=content_from_json(body["content"]),
        thread=body["thread"],
        choices=tuple(Choice(*choice) for choice in body["choices"]),
        edits=body["edits"],
    )
    return replace(
        one,
        id=row.id,
        batch=row.batch,
        attempts=row.attempts,
        due=row.due,
        expires=row.expires,
        error=row.error,
    )
