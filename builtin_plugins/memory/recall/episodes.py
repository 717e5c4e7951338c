"""`Episodes`: the turns of a gateway, kept in the store and found again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sqlalchemy import Connection

from hookgate import Conversations, Embedder, EmbeddingError, Said, Store
from hookgate.builtin_plugins.memory.domain import Hit, Scope, Utterance, check_scope
from hookgate.builtin_plugins.memory.recall import turns as rows
from hookgate.builtin_plugins.memory.recall.index import NONE, Floats, Indexes, TurnIndex, to_bytes
from hookgate.builtin_plugins.memory.recall.words import fold
from hookgate.kit.modules import on_demand
from hookgate.kit.vectors import small_talk

if TYPE_CHECKING:
    from hookgate.builtin_plugins.memory.recall import query as asking
    from hookgate.builtin_plugins.memory.recall import ranker
    from hookgate.builtin_plugins.memory.recall.query import Query
else:
    asking = on_demand("hookgate.builtin_plugins.memory.recall.query")
    ranker = on_demand("hookgate.builtin_plugins.memory.recall.ranker")

T = TypeVar("T")


class Moment(NamedTuple):
    """A time at which it is known who has changed memory's rows.

    Attributes:
        epoch: Changes where it is not known whose rows were changed.
        over: How many changes of this process are over.
    """

    epoch: int
    over: int


class Changes:
    """Counts the changes of memory's rows, each within the transaction that makes it.

    A transaction that was begun may be committed at any time, also where whoever waited for it
    has given up. So from the count on until a later one is known to be committed nothing that is
    known of the rows counts: the store's one writer takes one transaction after the other.

    Args:
        store: The store.
        indexes: What is known of scopes.
    """

    def __init__(self, store: Store, indexes: Indexes) -> None:
        self._store = store
        self._indexes = indexes
        self._begun = self._over = self._epoch = self._gone = 0
        self._outside: int | None = None

    def begin(self) -> int:
        """Count a change, within the transaction that makes it; return its number."""
        self._begun += 1
        return self._begun

    def takes_away(self) -> None:
        """Note, within its transaction, that a change which was counted forgets something."""
        self._gone = self._begun

    def forgotten(self) -> tuple[int, int] | None:
        """Return what stays the same as long as nobody has anything forgotten.

        Returns:
            None where that is not known: something is being forgotten, or others share the store.
        """
        outside = self._store.outside
        return None if outside is None or self._gone > self._over else (outside, self._gone)

    async def write(
        self,
        work: Callable[[Connection], T],
        scopes: Collection[str] | None = None,
        *,
        known: Callable[[T], Collection[str]] = lambda _: (),
    ) -> T:
        """Change rows in a write transaction; return once it is committed.

        Args:
            work: What changes them.
            scopes: Whose rows those are at most; None where that is not known.
            known: Takes what was changed into indexes, where nobody else has changed anything, and
                returns the scopes of which they know all by that.

        Raises:
            StoreError: The store did not take it; nothing was changed.
        """

        def counted(connection: Connection) -> tuple[int, T]:
            return self.begin(), work(connection)

        number, value = await self._store.write(counted)
        if scopes is None or number != self._over + 1:
            self._epoch += 1
        else:
            self._indexes.doubt(set(scopes).difference(known(value)))
        self._over = max(self._over, number)
        return value

    def moment(self) -> Moment | None:
        """Return since when nobody else has changed rows, as of the last commit of this process.

        Returns:
            None where that is not known: something is being changed, or others share the store.
        """
        outside = self._store.outside
        if outside is None or self._begun != self._over:
            return None
        if outside != self._outside:
            self._outside, self._epoch = outside, self._epoch + 1
        return Moment(self._epoch, self._over)


# -- rows that have changed --------------------------------------------------------

PAGE = 200
"""Messages that are learned in one transaction."""

READ_ROWS = 4096
"""Rows that are read into memory at once."""

MAX_NAMES = 4
"""Names of a message that its vector is freed of."""


class Episodes:
    """Keeps what was said, and finds what answers a message. Every row belongs to one scope.

    Args:
        store: The store; memory's tables are migrated.
        now: Returns the time in UTC.
        embedder: Returns the embedder, or None where there is none: then words alone decide.
        most_turns: Pieces of one scope that are kept; beyond it the oldest go.
        most_bytes: About how much memory the scopes take that were searched last.

    Attributes:
        changes: Who has changed memory's rows.
    """

    def __init__(
        self,
        store: Store,
        *,
        now: Callable[[], datetime],
        embedder: Callable[[], Embedder | None] = lambda: None,
        most_turns: int = 100_000,
        most_bytes: int = 128 * 2**20,
    ) -> None:
        self._store = store
        self._now = now
        self._embedder = embedder
        self._most_turns = most_turns
        self._indexes = Indexes(most_bytes)
        self.changes = Changes(store, self._indexes)
        # The vectors of small talk, by the fingerprint of the embedder.
        self._chatter: dict[str, Floats] = {}
        # What was forgotten while it was read is not to be learned.
        self._lock = asyncio.Lock()
        self._cursor: tuple[str, int] | None = None

    @property
    def in_memory(self) -> Sequence[str]:
        """The scopes that are in memory, the one that was searched last at the end."""
        return self._indexes.scopes

    # -- learning -----------------------------------------------------------------

    async def learn(self, said: Sequence[Utterance]) -> int:
        """Keep messages, the oldest first; return how many pieces are new.

        One that its scope has already is left as it is.

        Raises:
            StoreError: The store did not take them; none is kept.
            ValueError: One has a scope that is none.
        """
        async with self._lock:
            pieces = await self._pieces_of(said)
            added = await self.changes.write(
                lambda connection: rows.add_pieces(connection, pieces, most=self._most_turns),
                {one.scope for one in said},
                known=self._bring_up,
            )
            return sum(len(one.rows) for one in added)

    async def follow(
        self,
        conversations: Conversations,
        said_of: Callable[[Said], Iterable[Utterance]],
        also: Callable[[Connection, Sequence[Utterance]], bool] = lambda _, __: False,
    ) -> int:
        """Learn what was said since this was called last, by whichever gateway on the store.

        What is learned and how far that is are committed together, so that nothing is learned
        twice or passed over, whenever the gateway is killed. What was forgotten while it was
        read is read again.

        Args:
            conversations: What was said.
            said_of: Returns what is to be kept of a message: once for each scope.
            also: Learns facts from it, in the same transaction; returns whether there were any.

        Returns:
            How many pieces are new.

        Raises:
            StoreError: The store cannot be read or written.
        """
        added, more = 0, True
        while more:
            async with self._lock:
                before = await self._take_cursor()
                page = await conversations.since(before[0], limit=PAGE)
                said = [one for each in page.said for one in said_of(each)]
                pieces = await self._pieces_of(said)
                if page.cursor == before[0]:
                    self._cursor = before
                    return added

                def work(connection: Connection) -> tuple[list[rows.Added], bool] | None:
                    if not rows.move_cursor(connection, before, page.cursor):  # noqa: B023
                        return None
                    taught = also(connection, said)  # noqa: B023
                    most = self._most_turns
                    return rows.add_pieces(connection, pieces, most=most), taught  # noqa: B023

                new = await self.changes.write(
                    work,
                    {one.scope for one in said},
                    known=lambda new: self._bring_up(*new) if new else (),
                )
                if new is not None:
                    self._cursor = page.cursor, before[1]
                    added += sum(len(one.rows) for one in new[0])
            # Another gateway was faster, or something was forgotten: from the start.
            more = page.more or new is None
        return added

    def _bring_up(self, added: Sequence[rows.Added], taught: bool = True) -> set[str]:
        """Take what was added into indexes that knew all before it; return the scopes of these.

        Args:
            added: What was added, and committed just now.
            taught: Whether any of these scopes may have a fact more.
        """
        embedder = self._embedder()
        fingerprint = "" if embedder is None else embedder.fingerprint
        known = set()
        for one in added:
            index = self._indexes.kept(one.scope)
            # Nobody waits here for a search: the next one looks at the rows.
            if index is None or one.cut or not index.lock.acquire(blocking=False):
                continue
            try:
                # Of a scope that was not there an index knows all if it knows nothing.
                before = 0 if one.first else one.version - 1
                if (index.version, index.fingerprint) == (before, fingerprint):
                    index.take(one.rows)
                    index.version = one.version
                    index.no_facts = NONE if taught else index.no_facts
                    known.add(one.scope)
            finally:
                index.lock.release()
        self._indexes.trim(known)
        return known

    async def _take_cursor(self) -> tuple[str, int]:
        """Return how far what was said is learned, as this gateway knows it or as it is read.

        It is kept again once it was moved: what is forgotten, or learned by others, moves it, too.
        """
        known, self._cursor = self._cursor, None
        return await self._store.read(rows.cursor_of) if known is None else known

    async def _pieces_of(self, said: Sequence[Utterance]) -> list[rows.Piece]:
        """Return what is kept of messages; by what a turn has just asked is known by its vector.

        Others have room for one: a row that grew when it came would split its page of the store.
        """
        pieces = await asyncio.to_thread(rows.pieces_of, said)
        embedder = self._embedder()
        if embedder is None:
            return pieces
        vector_of = getattr(embedder, "cached", None)
        room = bytes(embedder.dimension + len(embedder.fingerprint))
        for piece in pieces:
            vector = None if vector_of is None else vector_of(piece["text"])
            piece["vector"] = room if vector is None else to_bytes(vector)
            piece["fingerprint"] = "" if vector is None else embedder.fingerprint
        return pieces

    async def know_small_talk(self) -> None:
        """Know the vectors of small talk, without which no message is below the floor.

        A start needs none of it: somebody has to have spoken.
        """
        embedder = self._embedder()
        if embedder is None or embedder.fingerprint in self._chatter:
            return
        fingerprint = embedder.fingerprint
        # Whoever owns the embedder says what is wrong with it.
        with suppress(EmbeddingError):
            self._chatter = {fingerprint: await embedder.embed(small_talk())}

    async def embed_waiting(
        self, limit: int = 32, *, busy: Callable[[], bool] = lambda: False
    ) -> int:
        """Give the latest pieces that have none their vectors; return how many it were.

        Each is read as the message of a turn is, which is quick. What has no vector is found by its
        words. A vector of another embedder than today's counts as none.

        Args:
            limit: How many at most.
            busy: Whether somebody waits for something: then no second one is begun.

        Raises:
            StoreError: The store cannot be read or written.
        """
        embedder = self._embedder()
        if embedder is None:
            return 0
        fingerprint = embedder.fingerprint
        waiting = await self._store.read(
            lambda connection: rows.without_vector(connection, fingerprint, limit)
        )
        if waiting or self.in_memory:
            await self.know_small_talk()
        kept: list[tuple[str, int, str, bytes]] = []
        with suppress(EmbeddingError):
            for row in waiting:
                vector = await embedder.embed_query(row.text)
                kept.append((row.scope, row.place, row.message, to_bytes(vector)))
                if busy():
                    break
        if kept and embedder.fingerprint == fingerprint:
            await self.changes.write(
                lambda connection: rows.keep_vectors(connection, fingerprint, kept),
                {scope for scope, *_ in kept},
            )
        return len(kept)

    # -- searching ------------------------------------------------------------------

    async def search(
        self,
        scopes: Collection[Scope],
        query: str,
        limit: int = 50,
        as_of: datetime | None = None,
        *,
        without: Collection[str] = (),
        moment: Moment | None = None,
        also: Callable[[Connection], object] | None = None,
        floor: Callable[[float], object] | None = None,
        worth: float = 0.0,
    ) -> list[Hit]:
        """Return the turns of `scopes` that answer `query`, the best first.

        Args:
            scopes: Whose turns may be read; no other's are.
            query: A message. One without any telling word finds nothing.
            limit: How many hits at most.
            as_of: Leaves out what was said later.
            without: The ids of turns that are left out: those that the model sees anyway.
            moment: As of when rows are wanted that are known already; None for now.
            also: Reads more, in the same transaction where there is one.
            floor: Called where the message is below the floor of relevance, as small talk is, so
                that no turn is found for it, with how near it came; None for no floor. It takes an
                embedder. With one, what the user has only asked is not found either.
            worth: The share of the best one's score that a hit must come to.

        Raises:
            StoreError: The store cannot be read.
            ValueError: One of `scopes` is none.
        """
        read = sorted({check_scope(scope) for scope in scopes})
        indexes = [self._indexes.of(scope) for scope in read]
        embedder = self._embedder()
        fingerprint = "" if embedder is None else embedder.fingerprint
        changed = [
            (scope, index)
            for scope, index in zip(read, indexes, strict=True)
            if moment is None or index.current != moment.epoch or index.fingerprint != fingerprint
        ]

        if any(not index.version for _, index in changed):
            # Who has spoken there has to be known before the message is read.
            await self._look(indexes, changed, fingerprint, also)
            also = None
            if self._note_current(changed, moment):
                changed = []
        speakers = list(dict.fromkeys(one for index in indexes for one in index.speakers))
        asked = asking.read_query(query, self._now(), speakers)
        may = bool(changed) or any(
            index.answers(asked.words, without, near=embedder is not None) for index in indexes
        )
        if not (asked.words and may):
            if also is not None:
                await self._store.read(also)
            return []
        wanted = await self._with_vectors(asked, query, speakers)
        chatter = None if floor is None else self._chatter.get(fingerprint)
        asks = floor is not None
        best = partial(
            ranker.rank, limit=limit, as_of=as_of, chatter=chatter, answers=asks, worth=worth
        )

        def work(connection: Connection) -> list[Hit]:
            with _brought_up(connection, indexes, changed, fingerprint):
                left_out = [index.of_turns(without) for index in indexes]
                found = best(indexes, wanted, without=left_out)
                turns = found if isinstance(found, list) else []
                places = [int(indexes[one.index].places[one.row]) for one in turns]
            if also is not None:
                also(connection)
            if isinstance(found, float) and floor is not None:
                floor(found)
            return _hits(connection, read, turns, places)

        hits = await self._store.read(work)
        self._note_current(changed, moment)
        return hits

    async def _look(
        self,
        indexes: Sequence[TurnIndex],
        changed: Sequence[tuple[str, TurnIndex]],
        fingerprint: str,
        also: Callable[[Connection], object] | None,
    ) -> None:
        """Bring indexes up, and read what else is wanted in the same transaction."""

        def look(connection: Connection) -> None:
            with _brought_up(connection, indexes, changed, fingerprint):
                pass
            if also is not None:
                also(connection)

        await self._store.read(look)

    def _note_current(self, read: Sequence[tuple[str, TurnIndex]], moment: Moment | None) -> bool:
        """Note that scopes were read whose rows nobody has changed since `moment`, if so."""
        self._indexes.trim([scope for scope, _ in read])
        if moment is None or self.changes.moment() != moment:
            return False
        for _, index in read:
            index.current = moment.epoch
        return True

    def has_no_facts(self, scope: Scope, moment: Moment | None) -> bool:
        """Whether it is known that a scope holds no facts and notes as of a moment."""
        return moment is not None and self._indexes.of(scope).no_facts == moment.epoch

    def note_no_facts(self, scopes: Iterable[Scope], moment: Moment | None) -> None:
        """Note that scopes were read that held none as of `moment`."""
        if moment is not None and self.changes.moment() == moment:
            for scope in scopes:
                self._indexes.of(scope).no_facts = moment.epoch

    async def _with_vectors(self, asked: Query, query: str, speakers: Sequence[str]) -> Query:
        """Return a message with its vector, and those of the names in it, if they can be had."""
        embedder = self._embedder()
        if embedder is None:
            return asked
        folded = fold(query)
        try:
            vector = await embedder.embed_query(query)
            named = asking.speakers_in(asked.text, speakers)
            names = [name for name in named if fold(name) in folded][:MAX_NAMES]
            return asked.with_vectors(
                vector, tuple([await embedder.embed_query(name) for name in names])
            )
        except EmbeddingError:
            return asked


@contextmanager
def _brought_up(
    connection: Connection,
    indexes: Sequence[TurnIndex],
    changed: Sequence[tuple[str, TurnIndex]],
    fingerprint: str,
) -> Iterator[None]:
    """Hold indexes, and bring those up that may have changed in the store since they were used."""
    with ExitStack() as held:
        for index in indexes:
            held.enter_context(index.lock)
        for scope, index in changed:
            now = rows.scope_row(connection, scope)
            same = index.fingerprint == fingerprint
            if now.version == index.version and same:
                continue
            if not same or not index.version <= now.version or now.removed > index.version:
                index.clear(fingerprint)
            after, more = -1, True
            while more:
                found = rows.changed_since(
                    connection, scope, index.version, after=after, limit=READ_ROWS
                )
                index.take(found)
                more = len(found) == READ_ROWS
                after = found[-1].place if found else after
            index.version = now.version
        yield


def _hits(
    connection: Connection, scopes: Sequence[str], found: Sequence[Any], places: Sequence[int]
) -> list[Hit]:
    wanted: dict[str, list[int]] = {}
    for one, place in zip(found, places, strict=True):
        wanted.setdefault(scopes[one.index], []).append(place)
    kept = {scope: rows.shown_at(connection, scope, some) for scope, some in wanted.items()}
    hits = []
    for one, place in zip(found, places, strict=True):
        scope = scopes[one.index]
        row = kept[scope].get(place)
        if row is None:
            continue  # forgotten since the index was brought up
        _, message, part, session, turn, at, speaker, text, taint, provenance = row
        hits.append(
            Hit(
                id=f"{message}#{part}" if part else message,
                kind="turn",
                text=text,
                at=rows.time_of(at),
                score=one.score,
                why=one.why,
                scope=scope,
                taint=rows.taint_of(taint),
                provenance=provenance,
                session=session,
                turn=turn,
                speaker=speaker,
            )
        )
    return hits
