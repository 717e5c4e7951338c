"""Conversations in the store: what was said, session by session."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from hookgate.builtin_plugins.storage.tables import MESSAGES, SESSIONS
from hookgate.core.errors import StaleFenceError, StoreError
from hookgate.core.messages import Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Select

    from hookgate.builtin_plugins.storage.store import SqlStore
    from hookgate.core.ports import Clock
    from hookgate.core.turn import SessionKey

__all__ = ["SqlConversations", "history_query"]


class SqlConversations:
    """Conversations in the store; see `hookgate.core.ports.Conversations`.

    Args:
        store: The store, with the tables of `storage.tables`.
        clock: Says when a session was last written.

    """

    def __init__(self, store: SqlStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    @property
    def durable(self) -> bool:
        """Whether conversations outlive the process."""
        return self._store.durable

    async def last_fence(self) -> int:
        """Return the highest fence that was ever written, 0 if none was."""
        query = select(func.max(SESSIONS.c.fence))
        return await self._store.read(lambda connection: connection.scalar(query) or 0)

    async def append(self, session: SessionKey, messages: Sequence[Message], *, fence: int) -> None:
        """Commit `messages` at the end of the conversation, all or none.

        Messages that carry no turn's id are taken for one turn.

        Raises:
            StaleFenceError: A higher fence has written to this session already.
            StoreUnavailableError: Nothing was written.

        """
        if not messages:
            return
        key, kept, now = str(session), tuple(messages), self._clock.now()
        await self._store.write(lambda connection: _append(connection, key, kept, fence, now))

    async def history(self, session: SessionKey, *, turns: int) -> Sequence[Message]:
        """Return the messages of the last `turns` turns, oldest first, turns whole.

        Raises:
            StoreError: A stored message cannot be read, for example because a newer version
                wrote it.
            StoreUnavailableError: The database cannot be read.

        """
        if turns <= 0:
            return ()
        query = history_query(str(session), turns)
        bodies = await self._store.read(
            lambda connection: [row[0] for row in connection.execute(query)]
        )
        return tuple(_message(body, session) for body in bodies)

    async def sessions(self, *, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        """Return ``{session, messages, updated}`` of the latest sessions, newest first."""
        query = (
            select(SESSIONS.c.session, SESSIONS.c.messages, SESSIONS.c.updated)
            .order_by(SESSIONS.c.updated.desc(), SESSIONS.c.session)
            .limit(limit)
        )
        rows = await self._store.read(lambda connection: connection.execute(query).all())
        return [
            {
                "session": row.session,
                "messages": row.messages,
                "updated": row.updated.isoformat(),
            }
            for row in rows
        ]


def history_query(session: str, turns: int) -> Select[str]:
    """Return the query for the bodies of the last `turns` turns; an index serves all of it."""
    last = select(SESSIONS.c.turns).where(SESSIONS.c.session == session).scalar_subquery()
    return (
        select(MESSAGES.c.body)
        .where(MESSAGES.c.session == session, MESSAGES.c.turn_number > last - turns)
        .order_by(MESSAGES.c.turn_number, MESSAGES.c.seq)
    )


def _append(
    connection: Connection, session: str, messages: Sequence[Message], fence: int, now: datetime
) -> None:
    _claim(connection, session, len(messages), fence, now)
    total, turns = connection.execute(
        select(SESSIONS.c.messages, SESSIONS.c.turns).where(SESSIONS.c.session == session)
    ).one()
    numbers: dict[str, int] = {}
    rows = []
    for seq, message in enumerate(messages, total - len(messages)):
        if message.turn not in numbers:
            known = _turn_number(connection, session, message.turn)
            turns += known is None
            numbers[message.turn] = turns if known is None else known
        rows.append(_row(session, seq, message, numbers[message.turn]))
    connection.execute(insert(MESSAGES), rows)
    connection.execute(update(SESSIONS).where(SESSIONS.c.session == session).values(turns=turns))


def _claim(connection: Connection, session: str, count: int, fence: int, now: datetime) -> None:
    """Make room for `count` messages if `fence` is not stale; this locks the session's row."""
    grow = (
        update(SESSIONS)
        .where(SESSIONS.c.session == session, SESSIONS.c.fence <= fence)
        .values(fence=fence, messages=SESSIONS.c.messages + count, updated=now)
    )
    if connection.execute(grow).rowcount:
        return
    # Two gateways on PostgreSQL may both write the first message of a session.
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    begin = (
        dialect.insert(SESSIONS)
        .values(session=session, fence=fence, messages=count, turns=0, updated=now)
        .on_conflict_do_nothing(index_elements=[SESSIONS.c.session])
    )
    if connection.execute(begin).rowcount or connection.execute(grow).rowcount:
        return
    held = connection.scalar(select(SESSIONS.c.fence).where(SESSIONS.c.session == session))
    raise StaleFenceError(
        f"session {session}: found a write with fence {fence}, expected {held} or higher: "
        "another turn took the session's lane since; this turn has to end"
    )


def _turn_number(connection: Connection, session: str, turn: str) -> int | None:
    if not turn:
        return None
    number: int | None = connection.scalar(
        select(MESSAGES.c.turn_number)
        .where(MESSAGES.c.session == session, MESSAGES.c.turn == turn)
        .limit(1)
    )
    return number


def _row(session: str, seq: int, message: Message, turn_number: int) -> dict[str, Any]:
    # ASCII escapes carry NUL and lone surrogates, which PostgreSQL's text cannot hold.
    return {
        "session": session,
        "seq": seq,
        "turn": message.turn,
        "turn_number": turn_number,
        "role": message.role,
        "taint": json.dumps(sorted(message.taint)),
        "body": json.dumps(message.to_json(), separators=(",", ":")),
        "created": message.created,
    }


def _message(body: str, session: SessionKey) -> Message:
    try:
        return Message.from_json(json.loads(body))
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"a message of session {session} cannot be read: {error}. Install the version that "
            "wrote it, or use another session"
        ) from error
