"""`Keeper`: what memory keeps in the store. It follows what is said, finds it, and forgets it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, bindparam, select

from hookgate import (
    EMBEDDER,
    Conversations,
    Embedder,
    Host,
    Provenance,
    Said,
    SessionKey,
    Store,
    StoreError,
    Taint,
)
from hookgate.builtin_plugins.memory.domain import (
    ASSISTANT,
    USER,
    Aside,
    Forgotten,
    Hit,
    Imported,
    Note,
    Scope,
    Utterance,
    own_scopes,
    scopes_of,
)
from hookgate.builtin_plugins.memory.recall.episodes import Episodes
from hookgate.builtin_plugins.memory.recall.lines import CUT, fused
from hookgate.builtin_plugins.memory.recall.turns import forget_pieces, touch_cursor
from hookgate.builtin_plugins.memory.settings import MemorySettings
from hookgate.builtin_plugins.memory.tables import FACTS, SOURCES
from hookgate.builtin_plugins.memory.tables import TURNS as TURNS_TABLE
from hookgate.kit.modules import on_demand
from hookgate.kit.records.statements import Prepared

if TYPE_CHECKING:
    from hookgate.builtin_plugins.memory.facts import exchange, learner, rows, search
    from hookgate.builtin_plugins.memory.facts.clauses import Assertion
else:
    # What facts are is first asked on a thread of the store's, and a start does without it.
    _FACTS = "hookgate.builtin_plugins.memory.facts"
    exchange, learner, rows, search = (
        on_demand(f"{_FACTS}.{name}") for name in ("exchange", "learner", "rows", "search")
    )

T = TypeVar("T")

_NOTHING: frozenset[str] = frozenset()

LEARNING = "memory learning"
"""The part that is degraded while nothing can be learned."""

PEOPLE = frozenset({Provenance.EXTERNAL_USER, Provenance.CHANNEL})
"""How that comes in which somebody says. What a model, a schedule or a plugin makes up as the
message of a turn is nobody's word."""

NESTED = "nested"
"""The channel of turns within turns: a model speaks there with another one."""

LEARN_SECONDS = 1.0
"""What is said is learned with all that is said meanwhile, or before somebody asks for it."""
BUSY_SECONDS = 0.25
"""A turn that asks sooner after the last learning goes without the rest: where many speak at once
in one scope, each would wait for a commit."""
RETRY_SECONDS = 5.0
IDLE_SECONDS = 0.25
EMBED_AT_ONCE = 8
TURNS, FACTS_FOUND = 50, 10
"""How many of each are looked at for one recall."""
FACTS_SHOWN = 5
"""How many facts a turn shows at most."""
SURE = 2.0
"""The least score of a fact that is shown below the floor of relevance: somebody is named, or asked
for, or two words are in it. A single word of what was said is in small talk as well."""

_HAS_FACTS = Prepared(select(FACTS.c.number).where(FACTS.c.scope == bindparam("of")).limit(1))


class Keeper:
    """Keeps turns, facts and notes in the store.

    Args:
        host: The gateway.
        store: The store; memory's tables are up to date.
        conversations: What is followed; None where nothing can be, and nothing is learned.
        settings: Returns the settings as they are now.

    Attributes:
        store: The store.
    """

    def __init__(
        self,
        host: Host,
        store: Store,
        conversations: Conversations | None,
        settings: Callable[[], MemorySettings],
    ) -> None:
        self._host = host
        self.store = store
        self._conversations = conversations
        self._settings = settings
        self._episodes = Episodes(
            store,
            now=host.clock.now,
            embedder=self._embedder,
            most_turns=settings().max_turns,
        )
        self._max_notes = settings().max_notes
        self._said = asyncio.Event()
        self._waiting: dict[Scope, set[str]] = {}
        self._learned = -math.inf

    def _embedder(self) -> Embedder | None:
        embedder = self._host.get(EMBEDDER)
        return embedder if embedder is not None and embedder.dimension else None

    # -- learning ------------------------------------------------------------------

    def wake(self, session: SessionKey, turn: str) -> None:
        """Say that something was said."""
        settings = self._settings()
        if settings.learn and session.channel != NESTED:
            self._waiting.setdefault(scopes_of(session, settings).kept, set()).add(turn)
        self._said.set()

    async def run(self) -> None:
        """Learn what is said as it is said, until this is cancelled; the past comes first."""
        while True:
            self._said.clear()
            try:
                added = await self.follow()
                self._host.standing(LEARNING).good()
                if added:
                    # Not when nobody waits for anything: a gateway may never come to rest.
                    await self._episodes.know_small_talk()
                await self._embed_idle()
            except Exception as error:
                if not isinstance(error, StoreError):
                    self._host.log.error("learning failed", exc_info=error)
                self._host.standing(LEARNING).bad(f"what is said is not learned: {error}")
                await asyncio.sleep(RETRY_SECONDS)
                continue
            await self._said.wait()
            await asyncio.sleep(LEARN_SECONDS)

    async def finish(self) -> None:
        """Learn what waits for it still, before the gateway stops; the next start does the rest."""
        with suppress(StoreError):
            await self.catch_up(self._waiting)

    async def follow(self) -> int:
        """Learn what was said since this was done last; return how many pieces are new.

        Turns, facts and how far that is are committed together.

        Raises:
            StoreError: The store cannot be read or written.
        """
        if self._conversations is None:
            return 0

        def facts_too(connection: Connection, said: Sequence[Utterance]) -> bool:
            return learner.learn(said, connection, redact=self._host.secrets.redact)

        learned = {scope: frozenset(turns) for scope, turns in self._waiting.items()}
        added = await self._episodes.follow(self._conversations, self.kept_of, facts_too)
        # Only now: whoever asks meanwhile waits for it as well.
        for scope, turns in learned.items():
            if left := self._waiting.pop(scope, set()) - turns:
                self._waiting[scope] = left
        self._learned = self._host.clock.monotonic()
        return added

    async def catch_up(self, scopes: Iterable[Scope], without: Collection[str] = ()) -> None:
        """Learn what was said in `scopes`, but for what was said in the turns `without`.

        Raises:
            StoreError: The store cannot be read or written.
        """
        if any(self._waiting.get(scope, _NOTHING).difference(without) for scope in scopes):
            await self.follow()

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Read memory's rows in a read transaction, behind all that was said here."""
        await self.catch_up(self._waiting)
        return await self.store.read(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Change memory's rows in a write transaction; see `Store.write`."""
        return await self._episodes.changes.write(work)

    def kept_of(self, said: Said) -> Iterator[Utterance]:
        """Yield what is to be kept of a message: the words of people, and the answers to them."""
        message, settings = said.message, self._settings()
        if not settings.learn or said.session.channel == NESTED:
            return
        if message.role == "user" and message.provenance in PEOPLE:
            speaker = USER
        elif message.role == "assistant":
            speaker = ASSISTANT
        else:
            return
        text = message.text.strip()
        if text and self._host.secrets.redact(text) == text:
            yield Utterance(
                id=message.id,
                scope=scopes_of(said.session, settings).kept,
                session=str(said.session),
                turn=message.turn,
                at=message.created,
                speaker=speaker,
                text=text,
                taint=message.taint,
                provenance=str(message.provenance),
            )

    async def take(self, said: Utterance, claims: Sequence[Assertion]) -> None:
        """Learn what somebody else has read in a message, unless that was forgotten meanwhile.

        Raises:
            StoreError: The store did not take it.
        """
        await self.follow()
        there = select(TURNS_TABLE.c.message).where(
            TURNS_TABLE.c.scope == said.scope, TURNS_TABLE.c.message == said.id
        )

        def work(connection: Connection) -> None:
            touch_cursor(connection, by=0)  # held, as by whoever forgets
            if connection.execute(there.limit(1)).first() is not None:
                learner.take(said, claims, connection)

        await self.write(work)

    async def _embed_idle(self) -> None:
        """Give vectors to what has none, while nobody waits for anything."""

        def busy() -> bool:
            return bool(self._host.running())

        while True:
            await asyncio.sleep(IDLE_SECONDS)
            if self._said.is_set():
                return
            if not busy() and not await self._episodes.embed_waiting(EMBED_AT_ONCE, busy=busy):
                return

    async def note(self, note: Note) -> Note:
        """Keep a note; see `hookgate.builtin_plugins.memory.facts.rows.add_note`.

        Raises:
            FullError: Its scope holds as many as it may.
            StoreError: The store did not take it.
        """
        return await self.write(
            lambda connection: rows.add_note(connection, note, limit=self._max_notes)
        )

    def import_rows(
        self, connection: Connection, rows: Sequence[Mapping[str, Any]], taint: Taint
    ) -> Imported:
        """Add exported rows; see `hookgate.builtin_plugins.memory.facts.exchange.import_rows`."""
        return exchange.import_rows(connection, rows, max_notes=self._max_notes, taint=taint)

    # -- finding -------------------------------------------------------------------

    async def search(
        self,
        scopes: Collection[Scope],
        query: str,
        *,
        as_of: datetime | None = None,
        without: Collection[str] = (),
        committed: bool = False,
        turn: Aside | None = None,
    ) -> list[Hit]:
        """Return what of `scopes` answers a message, facts and turns in one order.

        Args:
            scopes: Whose memory may be read; no other is.
            query: The message.
            as_of: A time: what held then, and what was said by then.
            without: The ids of turns that are left out, with what was learned from them.
            committed: Whether the message was just committed: what others have written is known
                as of its commit, and only what may have changed is asked for.
            turn: Given for the message of a turn, which may ask for nothing, and told of what is
                beside: below the floor of relevance no turns are found, and no facts that a word
                alone speaks for; nor is a turn that is worth much less than the best one, or one of
                many facts of somebody for which nothing speaks but the name.

        Raises:
            StoreError: The store cannot be read.
        """
        read, now = sorted(scopes), self._host.clock.now()
        # The reasons say the words that were found, and a part of a secret is not masked.
        query = self._host.secrets.redact(query)

        if not committed or self._host.clock.monotonic() - self._learned >= BUSY_SECONDS:
            await self.catch_up(read, without)
        episodes = self._episodes
        moment = episodes.changes.moment() if committed else None
        some = [scope for scope in read if not episodes.has_no_facts(scope, moment)]
        empty: list[Scope] = []
        facts: list[Hit] = []

        def known(connection: Connection) -> None:
            empty[:] = [one for one in some if not _HAS_FACTS.rows(connection, of=one)]
            full = [scope for scope in some if scope not in empty]
            limit, telling = (FACTS_FOUND, False) if turn is None else (FACTS_SHOWN, True)
            facts[:] = search.search(
                connection, full, query, at=now, as_of=as_of, limit=limit, telling=telling
            )
            if turn is not None:
                turn.orders = search.standing(connection, full, at=now)

        turns = await episodes.search(
            read,
            query,
            TURNS,
            as_of if as_of is None or as_of < now else None,
            without=without,
            moment=moment,
            also=known if some else None,
            floor=None if turn is None else lambda near: setattr(turn, "near", near),
            worth=0.0 if turn is None else CUT,
        )
        if empty:
            episodes.note_no_facts(empty, moment)
        facts = [hit for hit in facts if hit.kind == "note" or hit.turn not in without]
        if turn is not None:
            told = {(hit.scope, hit.id) for hit in turn.orders}
            facts = [hit for hit in facts if (hit.scope, hit.id) not in told]
        if turn is not None and turn.near is not None:
            facts = [hit for hit in facts if hit.kind == "note" or hit.score >= SURE]
        return fused(facts, turns)

    @property
    def forgotten(self) -> tuple[int, int] | None:
        """What stays the same as long as nobody has anything forgotten; see `Changes`."""
        return self._episodes.changes.forgotten()

    # -- forgetting ----------------------------------------------------------------

    async def forget(
        self,
        scopes: Sequence[Scope],
        *,
        ids: Sequence[str] = (),
        turns: Sequence[str] = (),
        sessions: Sequence[str] = (),
        everything: bool = False,
        check: bool = False,
    ) -> Forgotten:
        """Delete what fits any of these, in `scopes` alone, and all that was made of it.

        A fact takes with it what was said in the turns that it was learned from; what was said
        takes the facts that rest on it alone, and what it had ended holds again. What was said
        stays in its conversation.

        Args:
            scopes: Whose memory.
            ids: Of facts, notes and messages.
            turns: Of turns.
            sessions: Sessions as text.
            everything: All of the scopes.
            check: Whether it is only said what would go.

        Raises:
            StoreError: The store did not take it; nothing is forgotten.
        """
        # What was said and is not learned yet would be learned afterwards.
        await self.follow()

        def delete(connection: Connection) -> Forgotten:
            touch_cursor(connection)  # first, as whoever learns does
            if everything:
                facts = rows.forget_all(connection, scopes)
                return Forgotten(facts=facts, pieces=forget_pieces(connection, scopes=scopes))
            messages = [one.partition("#")[0] for one in ids]
            pieces = forget_pieces(connection, scopes=scopes, messages=messages)
            # The answer in such a turn says most likely what is to be forgotten, too.
            heard = {*turns, *_turns(connection, scopes, ids)} - {""}
            pieces += forget_pieces(connection, scopes=scopes, turns=heard)
            for session in sessions:
                pieces += forget_pieces(connection, scopes=scopes, session=session)
            facts = rows.forget_facts(connection, scopes, ids)
            facts += rows.forget_said(
                connection, scopes, said=messages, turns=turns, sessions=sessions
            )
            return Forgotten(facts=facts, pieces=pieces)

        def look(connection: Connection) -> Forgotten:
            raise _OnlyLookedError(delete(connection))

        def work(connection: Connection) -> Forgotten:
            gone = delete(connection)
            if gone.facts or gone.pieces:
                self._episodes.changes.takes_away()
            return gone

        try:
            return await self.write(look if check else work)
        except _OnlyLookedError as looked:
            return looked.gone.model_copy(update={"check": True})

    def forget_with(
        self, connection: Connection, session: SessionKey, turns: Collection[str] | None
    ) -> None:
        """Forget what was made of a session, or of turns of it, with the conversation itself."""
        self._episodes.changes.begin()  # whoever began the transaction commits it
        self._episodes.changes.takes_away()
        key, some = str(session), None if turns is None else sorted(turns)
        touch_cursor(connection)
        forget_pieces(connection, scopes=None, session=key, turns=some)
        scopes = [*own_scopes(session), *_shared(connection)]
        if some is None:
            rows.forget_said(connection, scopes, sessions=[key])
        else:
            rows.forget_said(connection, scopes, turns=some)


class _OnlyLookedError(Exception):
    """What would be forgotten is known; raised so that the store undoes it."""

    def __init__(self, gone: Forgotten) -> None:
        super().__init__()
        self.gone = gone


def _turns(connection: Connection, scopes: Sequence[str], ids: Sequence[str]) -> set[str]:
    """Return the turns that facts were learned from."""
    columns = FACTS.c
    numbers = select(columns.number).where(columns.scope.in_(scopes), columns.id.in_(ids))
    said = select(SOURCES.c.turn).where(SOURCES.c.fact.in_(numbers))
    return set(connection.execute(said).scalars())


def _shared(connection: Connection) -> Sequence[str]:
    """Return the shared scopes that hold facts, whatever is set now."""
    scope = FACTS.c.scope
    found = select(scope).where(scope >= "shared:", scope < "shared;").distinct()
    return connection.execute(found).scalars().all()
