"""Conversations in the store: what was said, session by session."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, select, tuple_, update

from hookgate import (
    CLEAN,
    Clock,
    Fence,
    Loaded,
    Message,
    Page,
    Said,
    SessionKey,
    StaleFenceError,
    StoreError,
    Taint,
    join_taints,
)
from hookgate.builtin_plugins.storage.engine.group import writes_beside
from hookgate.builtin_plugins.storage.lanes import check_lanes
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.builtin_plugins.storage.tables import MESSAGES, POSITIONS, SESSIONS
from hookgate.builtin_plugins.storage.tails import KnownTaints, Standing, Stored, Tail, Tails
from hookgate.kit.records.statements import Prepared, PreparedIn, insert_new

# Statements are made once: SQLAlchemy takes four times as long for one that is built anew.
_IS_SESSION = SESSIONS.c.session == bindparam("key")
_STANDING = [SESSIONS.c[name] for name in (*Standing._fields, "taint")]
_COUNTED = select(SESSIONS.c.session, *_STANDING)
# PostgreSQL locks the rows in this order, so that two gateways cannot wait for each other.
_SESSIONS = PreparedIn(_COUNTED.order_by(SESSIONS.c.session).with_for_update(), SESSIONS.c.session)
_MESSAGES = Prepared(insert(MESSAGES), MESSAGES.c.keys())
_CHANGE = (
    update(SESSIONS)
    .where(_IS_SESSION)
    .values(
        fence=bindparam("new_fence"),
        messages=bindparam("new_messages"),
        turns=bindparam("new_turns"),
        last_turn=bindparam("new_last_turn"),
        updated=bindparam("new_updated"),
        taint=bindparam("new_taint"),
    )
)
_UPDATE = Prepared(_CHANGE)
_GO_ON = Prepared(
    _CHANGE.where(*(column == bindparam(f"was_{column.name}") for column in _STANDING))
)
"""Changes a row that says what is remembered of it."""
_POSITION = Prepared(select(POSITIONS.c.last).where(POSITIONS.c.name == bindparam("counter")))
_MOVE_ON = Prepared(
    update(POSITIONS)
    .where(POSITIONS.c.name == bindparam("counter"))
    .values(last=POSITIONS.c.last + bindparam("count"))
    .returning(POSITIONS.c.last)
)
_COUNTER = {"counter": "messages"}
_LEFT = SESSIONS.c.messages - SESSIONS.c.forgotten
_LATEST = (
    select(SESSIONS.c.session, _LEFT.label("messages"), SESSIONS.c.updated)
    .where(_LEFT > 0)
    .order_by(SESSIONS.c.updated.desc())
    .limit(bindparam("most"))
)
HISTORY = (
    select(MESSAGES.c.turn_number, MESSAGES.c.body)
    .where(
        MESSAGES.c.session == bindparam("key"),
        MESSAGES.c.turn_number
        > select(SESSIONS.c.turns).where(_IS_SESSION).scalar_subquery() - bindparam("turns"),
    )
    .order_by(MESSAGES.c.turn_number, MESSAGES.c.seq)
)
"""The bodies of the last turns of a conversation. The primary key serves all of it, so it
costs the same in a long conversation as in a short one."""
_ROW = Prepared(select(*_STANDING).where(_IS_SESSION))
EXPORT = (
    select(MESSAGES.c.turn_number, MESSAGES.c.seq, MESSAGES.c.body)
    .where(
        MESSAGES.c.session == bindparam("key"),
        tuple_(MESSAGES.c.turn_number, MESSAGES.c.seq)
        > tuple_(bindparam("turn"), bindparam("behind")),
        # Forgetting moves turns up, and with them messages that were given already.
        MESSAGES.c.seq > bindparam("behind"),
    )
    .order_by(MESSAGES.c.turn_number, MESSAGES.c.seq)
    .limit(bindparam("most"))
)
"""A page of one conversation. The primary key leads to its first row."""
SINCE = (
    select(MESSAGES.c.position, MESSAGES.c.session, MESSAGES.c.body)
    .where(MESSAGES.c.position > bindparam("last"))
    .order_by(MESSAGES.c.position)
    .limit(bindparam("most"))
)
"""A page of all conversations."""
_SINCE = Prepared(SINCE)
_NUMBERS = (
    select(MESSAGES.c.turn_number)
    .where(MESSAGES.c.session == bindparam("key"))
    .distinct()
    .order_by(MESSAGES.c.turn_number.desc())
)
_RENUMBER = (
    update(MESSAGES)
    .where(MESSAGES.c.session == bindparam("key"), MESSAGES.c.turn_number == bindparam("old"))
    .values(turn_number=bindparam("new"))
)
_CARRIED = select(MESSAGES.c.taint).where(
    MESSAGES.c.session == bindparam("key"), MESSAGES.c.turn_number > bindparam("before")
)

_NOTHING = Tail(Standing(0, 0, 0, 0), "[]", 0, (), 0)
"""The tail of a session that does not exist."""


@dataclass(frozen=True, slots=True)
class _Append:
    session: str
    messages: Sequence[Message]
    fence: Fence
    now: datetime
    taint: Taint = CLEAN
    tail: Tail | None = None


@dataclass(slots=True)
class _Session:
    """A session's row while a group is written."""

    standing: Standing
    taint: str
    version: int
    updated: datetime | None = None


class _Appended(NamedTuple):
    """What became of an append: the row before and behind it, and its messages."""

    before: Standing
    after: Standing
    messages: Sequence[Stored]
    version: int


class SqlConversations:
    """Conversations in the store; see `hookgate.core.domain.ports.Conversations`.

    Args:
        store: The store, with the tables of `storage.tables`.
        clock: Says when a session was last written.
    """

    def __init__(self, store: SqlStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._tails = Tails()
        self._taints = KnownTaints()
        self._forgetting: list[
            Callable[[Connection, SessionKey, Collection[str] | None], None]
        ] = []

    @property
    def durable(self) -> bool:
        """Whether conversations outlive the process."""
        return self._store.durable

    async def load(self, session: SessionKey, *, turns: int, fence: Fence) -> Loaded:
        """Read what a holder of the lane goes on with; see `Conversations.load`.

        Raises:
            StoreError: A stored message cannot be read, for example because a newer version
                wrote it.
            StoreUnavailableError: The database cannot be read.
        """
        key = str(session)
        tail = self._tails.get(key)

        def work(connection: Connection) -> tuple[Standing, str, Sequence[Any] | None]:
            # The row first: a message that comes in between is read, and its fence is not, so
            # that the write which rests on this is refused rather than let through.
            found = _ROW.rows(connection, key=key)
            if not found:
                return _NOTHING.standing, _NOTHING.taint, ()
            (row,) = found
            standing = Standing(*row[:-1])
            if tail is not None and tail.standing == standing and tail.has(turns):
                return standing, row.taint, None
            wanted = {"key": key, "turns": turns}
            return standing, row.taint, connection.execute(HISTORY, wanted).all()

        standing, taint, found = await self._store.read(work)
        fence.read(standing.fence, standing.messages)
        fence.recalled = None
        if found is None and tail is not None:
            stored = tail.messages
        else:
            stored = tuple(
                Stored.of(number, body, _message(body, session)) for number, body in found or ()
            )
        tail = Tail.of(standing, taint, turns, stored)
        self._tails.keep(key, tail)
        return self._loaded(session, tail, turns)

    def recall(self, session: SessionKey, *, turns: int, fence: Fence) -> Loaded | None:
        """Return what `load` would, from memory; see `Conversations.recall`."""
        tail = self._tails.get(str(session))
        if tail is None or not tail.has(turns):
            return None
        fence.recalled = tail
        return self._loaded(session, tail, turns)

    @staticmethod
    def _loaded(session: SessionKey, tail: Tail, turns: int) -> Loaded:
        messages = tail.last(turns, lambda body: _message(body, session))
        return Loaded(messages, _labels(tail.taint))

    async def append(
        self, session: SessionKey, messages: Sequence[Message], *, fence: Fence
    ) -> None:
        """Commit `messages` at the end of the conversation, all or none.

        Messages that follow one another and carry the same turn's id are one turn; where
        they carry none, each call of this is one.

        Raises:
            StaleFenceError: Another holder has written since this one read the session.
            StoreUnavailableError: Nothing was written.
        """
        if messages:
            key = str(session)
            tail = self._tails.get(key)
            item = _Append(key, tuple(messages), fence, self._clock.now(), tail=tail)
            try:
                with self._taints.changing(key, self._behind):
                    done: _Appended = await self._store.write_together(_append_all, item)
            except StaleFenceError:
                self._tails.drop(key)
                raise
            fence.taken, fence.recalled = True, None
            self._tails.extend(key, *done)

    def check(self, connection: Connection, session: SessionKey, fence: Fence) -> None:
        """Make sure that `fence` may still write; see `Conversations.check`."""
        key = str(session)
        stale = check_lanes(connection, [fence])
        found = _load(connection, [key]) or _begin(connection, {key: self._clock.now()})
        if stale or not _stands(fence, found[key]):
            raise StaleFenceError.of(key)

    async def history(self, session: SessionKey, *, turns: int) -> Sequence[Message]:
        """Return the messages of the last `turns` turns, oldest first, turns whole.

        Raises:
            StoreError: A stored message cannot be read, for example because a newer version
                wrote it.
            StoreUnavailableError: The database cannot be read.
        """
        if turns <= 0:
            return ()
        wanted = {"key": str(session), "turns": turns}
        bodies = await self._store.read(
            lambda connection: [row.body for row in connection.execute(HISTORY, wanted)]
        )
        return tuple(_message(body, session) for body in bodies)

    async def taint(self, session: SessionKey, *, turns: int) -> Taint:
        """Return what a session is tainted with; see `Conversations.taint`.

        Once it was read, it is known until something is written to the session.

        Raises:
            StoreUnavailableError: The database cannot be read.
        """
        asked = self._taints.of(str(session), turns, self._store.outside)
        if asked.taint is not None and not self._store.shared:
            return asked.taint

        def work(connection: Connection) -> list[str]:
            rows = _ROW.rows(connection, key=str(session))
            if not rows:
                return []
            (row,) = rows
            found = [row.taint]
            if turns > 0:
                window = {"key": str(session), "before": row.turns - turns}
                found += connection.execute(_CARRIED, window).scalars()
            return found

        taint = join_taints(map(_labels, set(await self._store.read(work))))
        self._taints.keep(asked, taint)
        return taint

    async def add_taint(self, session: SessionKey, taint: Taint, *, fence: Fence) -> None:
        """Commit `taint` to a session's row; see `Conversations.add_taint`.

        Raises:
            StaleFenceError: Another holder has written since this one read the session.
            StoreUnavailableError: Nothing was written.
        """
        if taint:
            item = _Append(str(session), (), fence, self._clock.now(), taint)
            with self._taints.changing(item.session, self._behind):
                await self._store.write_together(_append_all, item)
            self._tails.drop(item.session)

    async def sessions(self, *, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        """Return ``{session, messages, updated}`` of the latest sessions, newest first."""
        rows = await self._store.read(
            lambda connection: connection.execute(_LATEST, {"most": limit}).all()
        )
        return [
            {
                "session": row.session,
                "messages": row.messages,
                "updated": row.updated.isoformat(),
            }
            for row in rows
        ]

    async def export(self, session: SessionKey, *, after: str = "", limit: int = 500) -> Page:
        """Return all that was said in a session, page by page; see `Conversations.export`.

        Raises:
            ValueError: `after` is no cursor of an export.
            StoreError: A stored message cannot be read.
            StoreUnavailableError: The database cannot be read.
        """
        Page.check(limit)
        turn, seq = _numbers(after, 2) if after else (0, -1)
        wanted = {"key": str(session), "turn": turn, "behind": seq, "most": limit + 1}
        rows = await self._store.read(lambda connection: connection.execute(EXPORT, wanted).all())
        shown = rows[:limit]
        return Page(
            said=tuple(Said(session, _message(row.body, session)) for row in shown),
            cursor=f"{shown[-1].turn_number}.{shown[-1].seq}" if shown else after,
            more=len(rows) > limit,
        )

    async def since(self, cursor: str = "", *, limit: int = 500) -> Page:
        """Return what was said in all sessions, page by page; see `Conversations.since`.

        Raises:
            ValueError: `cursor` is no cursor of this.
            StoreError: A stored message cannot be read.
            StoreUnavailableError: The database cannot be read.
        """
        Page.check(limit)
        (last,) = _numbers(cursor, 1) if cursor else (0,)
        wanted = {"last": last, "most": limit + 1}
        rows = await self._store.read(lambda connection: _SINCE.rows(connection, **wanted))
        shown, said = rows[:limit], []
        for _, session, body in shown:
            key = SessionKey.parse(session)
            # What was said here just now is known.
            said.append(Said(key, self._tails.said(session, body) or _message(body, key)))
        return Page(
            said=tuple(said),
            cursor=str(shown[-1].position) if shown else cursor,
            more=len(rows) > limit,
        )

    async def end(self) -> str:
        """Return the cursor of `since` behind all that is committed by now.

        Raises:
            StoreUnavailableError: The database cannot be read.
        """
        rows = await self._store.read(lambda connection: _POSITION.rows(connection, **_COUNTER))
        return str(rows[0][0] if rows else 0)

    async def forget(self, session: SessionKey, *, turns: Collection[str] | None = None) -> int:
        """Forget what was said in a session; see `Conversations.forget`.

        Raises:
            StoreUnavailableError: The database cannot be written; nothing was forgotten.
        """
        key = str(session)
        self._tails.drop(key)
        gone = None if turns is None else sorted(set(turns))

        def work(connection: Connection) -> int:
            if gone is None:
                count = _forget(connection, key)
            else:
                count = _forget_turns(connection, key, gone)
            for also in tuple(self._forgetting):
                also(connection, session, gone)
            return count

        with self._taints.changing(key, self._behind):
            return await self._store.write(work)

    def forgets_with(
        self, work: Callable[[Connection, SessionKey, Collection[str] | None], None]
    ) -> Callable[[], None]:
        """Have `work` run with each `forget`; see `Conversations.forgets_with`."""
        self._forgetting.append(work)
        return lambda: self._forgetting.remove(work)

    def _behind(self) -> asyncio.Future[None]:
        """Return what is done once all that was handed over until now is written."""
        return self._store.write_soon(lambda _: None)


def _append_all(
    connection: Connection, items: Sequence[_Append]
) -> list[_Appended | StaleFenceError]:
    """Write all appends of a group: a few statements, however many they are."""
    # The counter comes before any session, always: so two gateways cannot wait for each other.
    place = _take_positions(connection, sum(len(item.messages) for item in items))
    # Then the lanes, which others take in no transaction that holds anything else.
    stale = check_lanes(connection, [item.fence for item in items])
    rows: list[dict[str, Any]] = []
    each = {item.session: item for item in items}
    if not stale and len(each) == len(items) and all(map(_is_known, items)):
        # Sessions are locked in this order, so that two gateways cannot wait for each other.
        done = {key: _go_on(connection, each[key], rows) for key in sorted(each)}
        outcomes = [done[item.session] for item in items]
    else:
        found = _find(connection, items)
        outcomes = [
            StaleFenceError.of(item.session)
            if item.fence.number in stale
            else _append(item, found[item.session], rows)
            for item in items
        ]
        _UPDATE.run(connection, [_changed(key, row) for key, row in found.items() if row.updated])
    for position, row in enumerate(rows, place + 1):
        row["position"] = position
    _MESSAGES.run(connection, rows)
    return outcomes


def _is_known(item: _Append) -> bool:
    """Whether an append rests on a row that is remembered, and not on whatever there is."""
    fence = item.fence
    return item.tail is not None and (fence.recalled is item.tail or fence.seen is not None)


def _go_on(
    connection: Connection, item: _Append, rows: list[dict[str, Any]]
) -> _Appended | StaleFenceError:
    """Append to a session whose row is not read where it is as it is remembered."""
    tail, fence = item.tail, item.fence
    assert tail is not None, "it is known"
    version = tail.version
    if version is None or fence.recalled is not None:
        version = writes_beside(connection)
    session = _Session(tail.standing, tail.taint, version)
    seen, fresh = fence.seen, list[dict[str, Any]]()
    outcome = _append(item, session, fresh)
    was = {**tail.standing._asdict(), "taint": tail.taint}
    expected = {f"was_{name}": value for name, value in was.items()}
    if isinstance(outcome, StaleFenceError) or not _GO_ON.count(
        connection, **_changed(item.session, session), **expected
    ):
        fence.seen = seen  # nobody has seen that row
        found = _find(connection, [item])[item.session]
        outcome = _append(item, found, fresh := [])
        if found.updated:
            _UPDATE.run(connection, [_changed(item.session, found)])
    rows += fresh
    return outcome


def _find(connection: Connection, items: Sequence[_Append]) -> dict[str, _Session]:
    """Return the rows of sessions, which are held until the commit; make those that lack."""
    found = _load(connection, {item.session for item in items})
    new = {item.session: item.now for item in items if item.session not in found}
    return found | _begin(connection, new) if new else found


def _take_positions(connection: Connection, count: int) -> int:
    """Take `count` positions and return the one before them; they are held until the commit."""
    if not count:
        return 0
    ((last,),) = _MOVE_ON.rows(connection, count=count, **_COUNTER)
    return int(last) - count


def _load(connection: Connection, keys: Collection[str]) -> dict[str, _Session]:
    rows = _SESSIONS.rows(connection, sorted(keys))
    version = writes_beside(connection)
    return {key: _Session(Standing(*said), taint, version) for key, *said, taint in rows}


def _begin(connection: Connection, new: Mapping[str, datetime]) -> dict[str, _Session]:
    # Two gateways on PostgreSQL may both write the first message of a session.
    empty = {"fence": 0, "messages": 0, "turns": 0, "last_turn": "", "taint": "[]", "forgotten": 0}
    rows = [{"session": key, "updated": now, **empty} for key, now in new.items()]
    insert_new(connection, SESSIONS, *rows)
    return _load(connection, new)


def _stands(fence: Fence, row: _Session) -> bool:
    """Whether a holder may write, and what was recalled for it is what there is."""
    tail = fence.recalled
    if isinstance(tail, Tail) and (
        (tail.standing, tail.taint) != (row.standing, row.taint)
        or tail.version not in (None, row.version)
    ):
        return False
    return fence.stands(row.standing.fence, row.standing.messages)


def _append(
    item: _Append, session: _Session, rows: list[dict[str, Any]]
) -> _Appended | StaleFenceError:
    """Add the rows of one append to `rows`, and count them in `session`."""
    if not _stands(item.fence, session):
        return StaleFenceError.of(item.session)
    before = session.standing
    turns, last = before.turns, before.last_turn or None
    fresh = []
    for seq, message in enumerate(item.messages, before.messages):
        if message.turn != last:
            turns += 1
            last = message.turn
        fresh.append(_row(item.session, turns, seq, message))
    rows += fresh
    session.standing = after = Standing(
        fence=item.fence.number if fresh else before.fence,
        messages=before.messages + len(fresh),
        turns=turns,
        forgotten=before.forgotten,
        last_turn=last or "",
    )
    if item.taint:
        session.taint = json.dumps(sorted(_labels(session.taint) | item.taint))
    session.updated = item.now
    stored = [
        Stored.of(row["turn_number"], row["body"], message)
        for row, message in zip(fresh, item.messages, strict=True)
    ]
    return _Appended(before, after, stored, session.version)


def _forget(connection: Connection, key: str) -> int:
    # The row before the messages, as in every write: what another gateway is committing to this
    # session comes before, and is forgotten, too, or behind, and is refused.
    if not _load(connection, [key]):
        return 0
    gone = connection.execute(delete(MESSAGES).where(MESSAGES.c.session == key)).rowcount
    connection.execute(delete(SESSIONS).where(SESSIONS.c.session == key))
    return gone


def _forget_turns(connection: Connection, key: str, turns: Sequence[str]) -> int:
    """Delete turns, and move those before them up, so that the last ones stay a range."""
    found = _load(connection, [key])  # held until the commit, so that nobody appends meanwhile
    if key not in found:
        return 0
    fits = (MESSAGES.c.session == key, MESSAGES.c.turn.in_(turns))
    gone = connection.execute(delete(MESSAGES).where(*fits)).rowcount
    if not gone:
        return 0
    left = connection.execute(_NUMBERS, {"key": key}).scalars().all()
    places = zip(left, range(found[key].standing.turns, 0, -1), strict=False)
    moved = [{"key": key, "old": old, "new": new} for old, new in places if old != new]
    if moved:
        connection.execute(_RENUMBER, moved)
    values: dict[str, Any] = {"forgotten": SESSIONS.c.forgotten + gone}
    if found[key].standing.last_turn in turns:
        values["last_turn"] = ""  # the turn that has its number now is another one
    connection.execute(update(SESSIONS).where(SESSIONS.c.session == key).values(values))
    return gone


def _numbers(cursor: str, count: int) -> tuple[int, ...]:
    parts = cursor.split(".")
    if len(parts) != count or not all(re.fullmatch(r"[0-9]{1,18}", part) for part in parts):
        raise ValueError(f"found the cursor {cursor[:80]!r}, expected one that a page gave")
    return tuple(map(int, parts))


_written = json.JSONEncoder(separators=(",", ":")).encode


def _row(session: str, turn_number: int, seq: int, message: Message) -> dict[str, Any]:
    # ASCII escapes carry NUL and lone surrogates, which PostgreSQL's text cannot hold.
    return {
        "session": session,
        "turn_number": turn_number,
        "seq": seq,
        "turn": message.turn,
        "role": message.role,
        "taint": json.dumps(sorted(message.taint)) if message.taint else "[]",
        "body": _written(message.to_json()),
        "created": message.created,
    }


def _changed(key: str, session: _Session) -> dict[str, Any]:
    standing = session.standing
    return {
        "key": key,
        "new_fence": standing.fence,
        "new_messages": standing.messages,
        "new_turns": standing.turns,
        "new_last_turn": standing.last_turn,
        "new_updated": session.updated,
        "new_taint": session.taint,
    }


@lru_cache(maxsize=256)
def _labels(text: str) -> Taint:
    return frozenset(json.loads(text))


def _message(body: str, session: SessionKey) -> Message:
    try:
        return Message.from_json(json.loads(body))
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"a message of session {session} cannot be read: {error}. Install the version that "
            "wrote it, or use another session"
        ) from error
