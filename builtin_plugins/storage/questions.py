"""Questions in the store: any gateway on the database lists and answers them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from structlog.typing import FilteringBoundLogger

from hookgate import Address, Clock, Principal, Question, Settled, StoreError, TurnError, new_id
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.builtin_plugins.storage.tables import ASKERS, QUESTION_ROWS
from hookgate.kit.records.statements import insert_of
from hookgate.sessions import STOPPED
from hookgate.tasks import finish, stop

POLL_SECONDS = 0.5
"""How often a gateway looks what became of its questions, while any waits."""

LEASE_SECONDS = 15.0
"""A gateway that has not been heard of for so long has stopped."""

BEATS = 3
"""How often a gateway is heard of within a lease, while any of its questions waits."""

HEARD_SECONDS = 5.0
"""So long whoever answers waits until the gateway that asked has taken the answer. That looks for
answers every `POLL_SECONDS`; one that has died is taken to run as long as its lease stands."""

HEARD = "heard"
"""Stands as the reason of an answer that whoever asked has taken, and acts on."""

KEPT = timedelta(days=30)
"""How long it is known what became of a question."""

# The one clock that all gateways on a database share. `now()` is when the group of writes began.
_NOW = sa.func.clock_timestamp(type_=sa.DateTime(timezone=True))

_ID = QUESTION_ROWS.c.id
_WAITS = QUESTION_ROWS.c.state == "waiting"
_UNHEARD = (QUESTION_ROWS.c.state == "answered") & (QUESTION_ROWS.c.why == "")
_ROW = (_ID, QUESTION_ROWS.c.owner, QUESTION_ROWS.c.subject, QUESTION_ROWS.c.body)
_SETTLED = (
    _ID,
    QUESTION_ROWS.c.state,
    QUESTION_ROWS.c.answer,
    QUESTION_ROWS.c.answered_by,
    QUESTION_ROWS.c.why,
)
_OUTCOMES = sa.select(*_SETTLED).where(
    _ID.in_(sa.bindparam("ids", expanding=True)), QUESTION_ROWS.c.state != "waiting"
)


class SqlQuestions:
    """Questions in the store; see `hookgate.core.domain.ports.Questions`.

    What becomes of a question is decided by one conditional update of its row. Gateways that
    share the database hold a lease each while their questions wait; a database of one gateway
    alone needs none, since whoever asked before it was opened has stopped.

    A gateway acts on an answer of another one once it has marked the row as heard. Where that does
    not happen in time, the one that took the answer takes it back by the same condition, and says
    so: of both, one succeeds, so nothing runs that a person was told would not.

    Args:
        store: The store, with the tables of `storage.tables`.
        clock: Says what is so long ago that it may be forgotten.
        spawn: Runs work beside the turns.
        tell: Called on the event loop with why answers cannot be heard of, and with "" when
            they can again.
        log: Told of questions that ended with their askers.
    """

    def __init__(
        self,
        store: SqlStore,
        clock: Clock,
        *,
        spawn: Callable[..., asyncio.Task[None]],
        tell: Callable[[str], None] = lambda _: None,
        log: FilteringBoundLogger | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._spawn = spawn
        self._tell = tell
        self._log = log
        self._waiting: dict[str, asyncio.Future[Settled]] = {}
        self._following: asyncio.Task[None] | None = None
        self.owner = new_id("gateway")

    # -- asking ------------------------------------------------------------

    async def ask(self, question: Question) -> asyncio.Future[Settled]:
        """Let `question` wait; return once every gateway on the database can see it."""
        settled: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
        row = _row(replace(question, owner=self.owner))

        def work(connection: sa.Connection) -> None:
            connection.execute(sa.insert(QUESTION_ROWS).values(row))
            self._beat(connection)

        # There, and listened for, before others can see it: an answer may come at once.
        self._waiting[question.id] = settled
        if self._store.shared and (self._following is None or self._following.done()):
            self._following = self._spawn(self._follow(), name="storage.questions")
        try:
            await finish(self._store.write(work))
        except BaseException as error:
            self._waiting.pop(question.id, None)
            if isinstance(error, asyncio.CancelledError):
                # It was written all the same, and nobody would hear an answer to it.
                await finish(self._unasked(question.id))
            raise
        return settled

    async def _unasked(self, question_id: str) -> None:
        try:
            await self.end(question_id, "withdrawn", "its asker was cancelled")
        except StoreError as error:
            self._tell(f"a question that nobody waits for any more is not ended: {error}")

    async def end(
        self, question_id: str, state: Literal["expired", "withdrawn"], why: str
    ) -> Settled:
        """End a question, if nobody has answered it first; return what became of it."""

        def work(connection: sa.Connection) -> Settled:
            ended = _WAITS & (_ID.in_((question_id,)))
            connection.execute(sa.update(QUESTION_ROWS).where(ended).values(state=state, why=why))
            rows = _taken(connection, [question_id])
            return _settled(rows[0]) if rows else Settled(state=state, why=why)

        waiting = self._waiting.get(question_id)
        try:
            settled = await self._store.write(work)
            if waiting is not None and not waiting.done():
                waiting.set_result(settled)
            return settled
        finally:
            self._waiting.pop(question_id, None)

    async def expire(self) -> Sequence[Question]:
        """End the questions whose asker has stopped, and forget what is over for long."""
        forgotten = self._clock.now() - KEPT

        def work(connection: sa.Connection) -> list[Question]:
            ended = connection.execute(
                sa.update(QUESTION_ROWS)
                .where(_WAITS, ~self._asker_runs())
                .values(state="expired", why=STOPPED)
                .returning(*_ROW)
            ).all()
            old = (QUESTION_ROWS.c.state != "waiting") & (QUESTION_ROWS.c.asked < forgotten)
            connection.execute(sa.delete(QUESTION_ROWS).where(old))
            if self._store.shared:
                over = ASKERS.c.until < _NOW
                connection.execute(sa.delete(ASKERS).where(over))
            return [_question(row) for row in ended]

        found = await self._store.write(work)
        for question in found:
            if self._log is not None:
                self._log.warning("question expired", question=question.id, why=STOPPED)
        return found

    async def look_after(self) -> None:
        """End what gateways that have stopped had asked, for as long as it runs."""
        while True:
            await asyncio.sleep(LEASE_SECONDS)
            try:
                await self.expire()
            except (StoreError, SQLAlchemyError) as error:
                self._tell(f"questions of gateways that stopped are not ended: {error}")

    async def close(self) -> None:
        """Say that this gateway asks nothing any more."""
        await stop(self._following)
        if self._store.shared and self._following is not None:
            mine = sa.delete(ASKERS).where(ASKERS.c.owner == self.owner)

            def work(connection: sa.Connection) -> None:
                connection.execute(mine)

            try:
                await self._store.write(work)
            except StoreError as error:
                self._tell(f"others take this gateway to run for some seconds yet: {error}")

    # -- answering ---------------------------------------------------------

    async def find(self, question_id: str) -> Question | None:
        """Return a question that waits, and whose asker runs."""

        def work(connection: sa.Connection) -> Question | None:
            query = sa.select(*_ROW).where(_WAITS, _ID.in_((question_id,)), self._asker_runs())
            row = connection.execute(query).one_or_none()
            return None if row is None else _question(row)

        found = await self._store.read(work)
        # Whoever asked has not waited any longer, even if the store did not take that down.
        return None if found is None or found.expires <= self._clock.now() else found

    async def waiting(self, principal: Principal) -> Sequence[Question]:
        """Return the questions at addresses that `principal` may claim, the oldest first."""
        query = (
            sa.select(*_ROW)
            .where(_WAITS, self._asker_runs())
            .order_by(QUESTION_ROWS.c.asked, QUESTION_ROWS.c.id)
        )
        rows = await self._store.read(lambda connection: connection.execute(query).all())
        now = self._clock.now()
        found = [_question(row) for row in rows]
        return [one for one in found if one.expires > now and principal.may_claim(one.address)]

    async def answer(
        self,
        question_id: str,
        value: Any,
        *,
        by: str,
        also: Callable[[sa.Connection | None], None] | None = None,
    ) -> bool:
        """Answer a question; False where it does not wait any more.

        Raises:
            TurnError: It does not fit the schema, or whoever asked has not heard of it in time.
        """
        question = await self.find(question_id)
        if question is None:
            return False
        question.check(value)
        own = question.owner == self.owner
        first = (
            sa.update(QUESTION_ROWS)
            .where(_WAITS, _ID.in_((question_id,)), self._asker_runs())
            .values(
                state="answered",
                answer=json.dumps(value),
                answered_by=by,
                why=HEARD if own else "",
            )
        )

        def work(connection: sa.Connection) -> bool:
            counts = bool(connection.execute(first).rowcount)
            if counts and also is not None:
                also(connection)
            return counts

        async def settle() -> bool:
            counts = await self._store.write(work)
            if counts:
                self._resolve(question_id, Settled(state="answered", value=value, by=by))
            return counts

        # Whole: what was handed to the store is written, and then its asker has to hear of it.
        counts = await finish(settle())
        if counts and not own:
            await self._heard(question_id)
        return counts

    async def _heard(self, question_id: str) -> None:
        """Return once the gateway that asked acts on an answer that was given here.

        Raises:
            TurnError: It does not, and will not: it has stopped.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + HEARD_SECONDS
        read = partial(_outcomes, ids=[question_id])
        while loop.time() < until:
            rows = await self._store.read(read)
            if not rows or rows[0].why == HEARD:
                return
            await asyncio.sleep(POLL_SECONDS / 2)
        unheard = _UNHEARD & (_ID.in_((question_id,)))
        taken_back = sa.update(QUESTION_ROWS).where(unheard).values(state="withdrawn", why=STOPPED)
        if await self._store.write(lambda c: bool(c.execute(taken_back).rowcount)):
            raise TurnError(
                f"{STOPPED}, or cannot be reached, so nobody acts on the answer to "
                f"{question_id!r}: nothing runs",
                code="not_found",
                action="have the message sent again, where it still matters",
            )

    # -- within ------------------------------------------------------------

    def _asker_runs(self) -> sa.ColumnElement[bool]:
        if not self._store.shared:
            return QUESTION_ROWS.c.owner == sa.literal(self.owner)
        running = sa.select(ASKERS.c.owner).where(ASKERS.c.until > _NOW)
        return QUESTION_ROWS.c.owner.in_(running)

    def _beat(self, connection: sa.Connection) -> None:
        if self._store.shared:
            until = _NOW + sa.literal(timedelta(seconds=LEASE_SECONDS), type_=sa.Interval)
            lease = insert_of(connection)(ASKERS).values(owner=self.owner, until=until)
            connection.execute(
                lease.on_conflict_do_update(
                    index_elements=[ASKERS.c.owner], set_={"until": lease.excluded.until}
                )
            )

    async def _follow(self) -> None:
        """Hear of answers at other gateways, and be heard of, until no question waits."""
        loop = asyncio.get_running_loop()
        beaten = loop.time()
        while self._waiting:
            await asyncio.sleep(POLL_SECONDS)
            try:
                if loop.time() - beaten >= LEASE_SECONDS / BEATS:
                    await self._store.write(self._beat)
                    beaten = loop.time()
                rows = await self._store.read(partial(_outcomes, ids=list(self._waiting)))
                if rows:
                    ids = [row.id for row in rows]
                    rows = await self._store.write(partial(_taken, ids=ids))
            except (StoreError, SQLAlchemyError) as error:
                self._tell(f"answers at other gateways are not heard of: {error}")
                continue
            self._tell("")
            for row in rows:
                self._resolve(row.id, _settled(row))

    def _resolve(self, question_id: str, settled: Settled) -> None:
        waiting = self._waiting.pop(question_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(settled)


def _outcomes(connection: sa.Connection, ids: Sequence[str]) -> Sequence[Any]:
    return connection.execute(_OUTCOMES, {"ids": ids}).all()


def _taken(connection: sa.Connection, ids: Sequence[str]) -> Sequence[Any]:
    """Mark answers as heard, and return what became of the questions with them."""
    unheard = _UNHEARD & _ID.in_(ids)
    connection.execute(sa.update(QUESTION_ROWS).where(unheard).values(why=HEARD))
    return _outcomes(connection, ids)


def _row(question: Question) -> dict[str, Any]:
    body = asdict(question)
    for column in ("id", "subject", "owner"):
        del body[column]
    body |= {"asked": question.asked.isoformat(), "expires": question.expires.isoformat()}
    return {
        "id": question.id,
        "state": "waiting",
        "owner": question.owner,
        "subject": question.subject,
        # ASCII escapes carry NUL and lone surrogates, which PostgreSQL's text cannot hold.
        "body": json.dumps(body),
        "asked": question.asked,
        "answer": "",
        "answered_by": "",
        "why": "",
    }


def _question(row: Any) -> Question:
    body: dict[str, Any] = json.loads(row.body)
    body |= {
        "address": Address(**body["address"]),
        "senders": tuple(body["senders"]),
        "approvers": tuple(tuple(names) for names in body["approvers"]),
        "asked": _time(body["asked"]),
        "expires": _time(body["expires"]),
    }
    return Question(id=row.id, subject=row.subject, owner=row.owner, **body)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _settled(row: Any) -> Settled:
    return Settled(
        state=row.state,
        value=json.loads(row.answer) if row.answer else None,
        by=row.answered_by,
        why="" if row.state == "answered" else row.why,
    )
