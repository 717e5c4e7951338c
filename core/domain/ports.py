"""Keys at which two plugins meet, and the protocols of what is found there.

A plugin offers a service with ``host.provide(KEY, service)`` and reaches another's with
``host[KEY]``; it declares both in ``provides`` and ``requires``. A third party publishes
the keys of its own services in its own package.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from hookgate.core.domain.errors import TurnError

if TYPE_CHECKING:
    import aiohttp
    import httpx
    import numpy as np
    import numpy.typing as npt
    from sqlalchemy import Connection, MetaData, Table

    from hookgate.core.domain.messages import Message, Taint
    from hookgate.core.domain.models import ModelEvent, ModelRequest, Usage
    from hookgate.core.domain.tools import Tool
    from hookgate.core.domain.turn import Address, Fence, Principal, SessionKey, Turn

T = TypeVar("T")


class Key(Generic[T]):
    """A typed key of ``host``. Two keys of one name are two keys: compare by identity."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Key({self.name!r})"


class Clock(Protocol):
    """Time. Core's own reads the system; tests bring one that they can turn."""

    def now(self) -> datetime:
        """Return the time in UTC, for records. It can jump."""

    def monotonic(self) -> float:
        """Return seconds that never go backwards, for durations and limits."""


class TokenCounter(Protocol):
    """Counts tokens. Core's own takes a token for each started four characters."""

    def count(self, text: str) -> int:
        """Return how many tokens `text` takes at most."""


class Secrets(Protocol):
    """Secrets by name, and the redaction of every one of them."""

    def get(self, name: str) -> str | None:
        """Return the secret called `name`: environment, then key file, then settings."""

    def how_to_set(self, name: str) -> Sequence[str]:
        """Say where `get` looks for a secret, as what to do; the environment stands first."""

    def register(self, value: str) -> None:
        """Make `value` known as a secret, so that it is masked wherever text leaves."""

    def redact(self, text: str) -> str:
        """Return `text` with every known secret masked."""

    def settle(self, text: str) -> tuple[str, str]:
        """Divide the end of a stream: what can go out, masked, and what must wait for more."""


class Signals(Protocol):
    """Wakes whoever waits: approvals, cancels, revocations, reloads."""

    async def send(self, topic: str, data: Mapping[str, Any]) -> None:
        """Hand `data` to all who listen to `topic` now."""

    def listen(self, topic: str) -> AbstractAsyncContextManager[AsyncIterator[Mapping[str, Any]]]:
        """Listen to `topic` for the length of an ``async with`` block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Something that counts once somebody has accepted it, as it is now.

    Attributes:
        name: Its name; one of its kind has it.
        digest: SHA-256 of all that makes it what it is, in hex.
        detail: What that is, in JSON, kept so that one can say later what has changed.
    """

    name: str
    digest: str
    detail: str = ""


class Acceptance(Protocol):
    """What is known of a thing: its accepted digest ("" for none), and the one seen last."""

    name: str
    digest: str
    seen: str
    detail: str
    accepted_by: str
    changed: str


class Acceptances(Protocol):
    """What was accepted, by kind and name, at all gateways on one store.

    `hookgate.kit.acceptance` has it; ``await acceptances_of(host)`` opens it where nobody has.
    """

    problem: str

    async def load(self) -> None:
        """Read it again; a StoreError says that it cannot be."""

    def of(self, kind: str) -> Mapping[str, Acceptance]:
        """Return what is known of the things of one kind, by name, as it was read last."""

    async def accept(self, kind: str, subjects: Sequence[Subject], *, by: str) -> None:
        """Let these count as they are now; what cannot be kept raises a StoreError."""

    async def forget(self, kind: str, name: str) -> bool:
        """Take back that something was accepted; return whether anything was known of it."""

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call `watcher` once another gateway has accepted something; return what undoes it."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A small value that all gateways on one store share.

    Attributes:
        name: Its name, such as ``awareness.cards``.
        value: JSON; None where nobody has set it.
        version: Grows by one with each change; 0 where nobody has set it.
    """

    name: str
    value: Any = None
    version: int = 0


class Switches(Protocol):
    """Small named values that outlive the process: kill switches, runtime switches.

    The plugin `storage` keeps them in the database, for all gateways on it. Without it they
    stand in a file of the home folder. Values are JSON of a few kilobytes at most.
    """

    async def get(self, name: str) -> Switch:
        """Return a switch as it is now.

        Raises:
            StoreError: It cannot be read.
        """

    async def put(self, name: str, value: Any, *, version: int) -> Switch | None:
        """Set a switch, if nobody has done so since `version`; return it once it is durable.

        Args:
            name: Its name.
            value: JSON.
            version: The version that the caller has seen; 0 where it has never been set.

        Returns:
            The switch as it is now; None where its version is another one, so that nothing
            was changed: read it again, and decide on what it says now.

        Raises:
            StoreError: It cannot be written; nothing was.
        """

    def watch(self, name: str, watcher: Callable[[Switch], None]) -> Callable[[], None]:
        """Call `watcher` on the event loop with each change of a switch; return what undoes it.

        A change by this gateway is told at once, one by another gateway within a second. Of
        several changes in between only the last is told. What a watcher raises is logged.
        """

    def behind(self) -> float:
        """Return for how many seconds other gateways have not been heard of; 0 without others.

        Whoever must not act on what has been taken back elsewhere asks before it acts.
        """


class Lease(Protocol):
    """A lane that is held."""

    @property
    def fence(self) -> Fence:
        """Who holds it: what every write to the session carries."""

    def check(self, connection: Connection) -> None:
        """Make sure, within a function that `Store.write` runs, that the lane is still held.

        The session's row is held until that function's transaction ends, so that nobody takes
        the lane in between: what the function writes beside it stands or falls with the lane.

        Raises:
            StaleFenceError: Another holder has written to the session since, or the lane was
                given back.
        """


class Lanes(Protocol):
    """One lane a session: whoever holds it runs the session's only turn."""

    def hold(
        self, session: SessionKey, turn: Turn | None = None
    ) -> AbstractAsyncContextManager[Lease]:
        """Wait for the lane, in the order of arrival, and hold it.

        Args:
            session: The session.
            turn: The turn that runs; None for work that is no turn: a tool call from
                outside, a schedule, what a plugin writes to a session.

        Raises:
            LaneFullError: Too many wait for it already.
            LaneHeldError: An ancestor of `turn` holds it.
        """

    def ahead(self, session: SessionKey) -> int:
        """Return how many hold the lane or wait for it."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message, and where it was said."""

    session: SessionKey
    message: Message


@dataclass(frozen=True, slots=True)
class Page:
    """Messages, and where those after them are.

    Attributes:
        said: The messages.
        cursor: Where the next page begins. It holds for the store that gave it, also after a
            restart; of conversations that end with the process, as long as that lives.
        more: Whether there was more when this was read.
    """

    said: Sequence[Said]
    cursor: str
    more: bool

    @staticmethod
    def check(limit: int) -> None:
        """Refuse a page on which nothing could stand: whoever reads on would never end.

        Raises:
            ValueError: `limit` is below 1.
        """
        if limit < 1:
            raise ValueError(f"found a page of {limit} messages, expected 1 or more")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a holder of a session's lane goes on with.

    Attributes:
        messages: The messages of the last turns, oldest first.
        taint: What the session is tainted with beside its messages.
    """

    messages: Sequence[Message]
    taint: Taint


class Conversations(Protocol):
    """What was said, session by session. What `append` returned from is durable."""

    @property
    def durable(self) -> bool:
        """Whether conversations outlive the process."""

    async def load(self, session: SessionKey, *, turns: int, fence: Fence) -> Loaded:
        """Read, at one moment, what a holder of the lane goes on with; `fence` keeps which.

        Args:
            session: The session.
            turns: Of how many of the last turns the messages are wanted, as in `history`.
            fence: The holder.
        """

    def recall(self, session: SessionKey, *, turns: int, fence: Fence) -> Loaded | None:
        """Return what `load` would, from memory; None where it is to be read.

        The first write with `fence` raises `StaleFenceError` where that is not what is there any
        more; then nobody is to have seen it, and `load` takes its place.
        """

    async def append(
        self, session: SessionKey, messages: Sequence[Message], *, fence: Fence
    ) -> None:
        """Commit `messages` at the end of the conversation, all or none.

        The first time, the holder takes the session's row. One that has not read the session
        takes it as it is.

        Raises:
            StaleFenceError: Another holder has written since this one read the session.
            StoreUnavailableError: Nothing was written.
        """

    def check(self, connection: Connection, session: SessionKey, fence: Fence) -> None:
        """Do what `Lease.check` says, for `fence`. It runs where `Store.write` runs functions."""

    async def history(self, session: SessionKey, *, turns: int) -> Sequence[Message]:
        """Return the messages of the last `turns` turns, oldest first, turns whole."""

    async def taint(self, session: SessionKey, *, turns: int) -> Taint:
        """Return what a session is tainted with.

        That is the union of what the messages of its last `turns` turns carry, which ends when
        they leave that window, and of what `add_taint` added, which ends with the session. With
        `turns` 0 it is what was added alone. What another call has added before it returned
        is in it.
        """

    async def add_taint(self, session: SessionKey, taint: Taint, *, fence: Fence) -> None:
        """Commit that `taint` came into a session beside its messages.

        For what came out of a tool that no turn has called: whoever has read it may act on it
        in any later turn, or call. It stays until the whole session is forgotten; every turn
        that begins afterwards begins with it. It takes the row from nobody, so a turn that runs
        at another gateway goes on.

        Raises:
            StaleFenceError: Another holder has written since this one read the session. The
                taint was not kept, so what carries it must not be handed out.
            StoreUnavailableError: Nothing was written.
        """

    async def sessions(self, *, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        """Return ``{session, messages, updated}`` of the latest sessions, newest first."""

    async def export(self, session: SessionKey, *, after: str = "", limit: int = 500) -> Page:
        """Return all that was said in a session, page by page, oldest first.

        A page costs the same wherever it lies. What is said meanwhile comes at the end.

        Args:
            session: The session.
            after: The `Page.cursor` of the page before; "" for the first one.
            limit: How many messages at most.

        Raises:
            ValueError: `after` is no cursor of these conversations, or `limit` is below 1.
        """

    async def since(self, cursor: str = "", *, limit: int = 500) -> Page:
        """Return what was said in all sessions, page by page, in the order of the commits.

        No message is ever passed over, also where several gateways write at once: a cursor
        lies behind all that will be committed later. So whoever learns from what is said keeps
        the cursor with what it has learned, in one transaction of the same store, and goes on
        from there after a kill. What was forgotten is left out.

        Args:
            cursor: The `Page.cursor` of the page before; "" for the first message there is.
            limit: How many messages at most.

        Raises:
            ValueError: `cursor` is no cursor of these conversations, or `limit` is below 1.
        """

    async def end(self) -> str:
        """Return the cursor of `since` behind all that is committed by now."""

    async def forget(self, session: SessionKey, *, turns: Collection[str] | None = None) -> int:
        """Forget what was said in a session; return how many messages that were.

        Args:
            session: The session.
            turns: The ids of the turns; the others stay as they are, and `history` counts them
                alone. What `add_taint` added stays, too. None forgets the whole session.
        """

    def forgets_with(
        self, work: Callable[[Connection, SessionKey, Collection[str] | None], None]
    ) -> Callable[[], None]:
        """Have `work` run with each `forget`; return what undoes that.

        For what was made of what was said and is kept in the same store: `work` gets the
        connection of the very transaction, the session, and the turns (None for all of it), so
        that both are gone, or neither is. It runs where `Store.write` runs functions; if it
        raises, nothing is forgotten, and `forget` raises that. Conversations that are in no
        store never call it.
        """


class Store(Protocol):
    """One SQL database for all plugins. Each owns its tables and their migrations.

    The functions that are handed to it run off the event loop, with a plain (synchronous)
    SQLAlchemy connection, on SQLite and PostgreSQL alike.
    """

    @property
    def durable(self) -> bool:
        """False where the store is ephemeral because the real one is corrupt or gone."""

    @property
    def problem(self) -> str:
        """Why the store is ephemeral, or ""."""

    @property
    def shared(self) -> bool:
        """Whether other gateways may hold the same database.

        Then what this process counts is not all that there is, and that another one has
        stopped shows by itself to nobody.
        """

    async def migrate(self, plugin: str, metadata: MetaData, scripts: Path) -> None:
        """Bring the plugin's tables up to date with its Alembic scripts.

        Each plugin has a version table of its own, so that taking one plugin away leaves
        no revision that the others cannot locate.
        """

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a read transaction.

        Raises:
            StoreUnavailableError: The database cannot be read.
        """

    async def write(self, work: Callable[[Connection], T], *, order: str = "") -> T:
        """Run `work` in a write transaction; return once it is committed.

        Writes that wait together are committed together; if `work` raises, its own
        changes are undone and nobody else's.

        Args:
            work: The function.
            order: What changes rows that other gateways change at any moment, such as
                counters, names its plugin here. Within a transaction it runs after all that
                names nothing, and what does in the order of the names: so all gateways lock
                such rows in one order, and never wait for each other in a circle.

        Raises:
            StoreUnavailableError: The database cannot be written; nothing was.
        """

    async def insert(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert `rows`; return once they are committed. The fast way for logs and ledgers."""

    def insert_soon(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> asyncio.Future[None]:
        """Insert `rows` with the next write that anybody hands over; never waits.

        For what nobody waits for: it costs no commit of its own. Nothing that was handed over
        behind it is committed without it, so a turn whose rows are handed over before it goes on
        is not acknowledged before they are committed. Without another write they are written a
        tenth of a second later.

        Args:
            table: The table.
            rows: The rows, not none.

        Returns:
            Is done once they are committed, or has `StoreUnavailableError`: nothing was written.
            Others may hold the same one, so nobody cancels it.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeEntry:
    """How one turn went, in a window of the last ones.

    Attributes:
        turn: The turn's id.
        at: When it ended, in microseconds since 1970 UTC.
        status: How it went.
        score: 0 to 1.
        steers: Whether later turns may be planned by it: not where its own request said how it
            went, and not where it was refused or cancelled.
    """

    turn: str
    at: int
    status: Literal["success", "partial", "failed"]
    score: float
    steers: bool = True


class OutcomeWindows(Protocol):
    """Keeps windows of outcomes, so that they outlive the process."""

    async def load_windows(self) -> Mapping[str, Sequence[OutcomeEntry]]:
        """Return all windows by the scope's key, each with the oldest entry first.

        Raises:
            StoreError: They cannot be read.
        """

    async def save_window(self, scope_key: str, entries: Sequence[OutcomeEntry]) -> None:
        """Keep the window of a scope as it is now; without entries, forget it.

        Where several gateways keep one, what the others have saved meanwhile stays, as far as
        it is within the window.

        Raises:
            StoreError: It cannot be written; nothing was.
        """


QuestionState: TypeAlias = Literal["answered", "expired", "withdrawn"]
"""How a question ends: by an answer, by its time or its asker's end, or since it was void."""

STOPPED = "the gateway that asked has stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question that waits for a person, at whichever gateway that person is.

    Attributes:
        id: Unique and not to be guessed.
        subject: What it is about: ``tool_call``, ``model_call``, ``form``, or another kind.
        text: All that a person must see before answering, as JSON with secrets masked.
        schema: JSON Schema (2020-12) of an answer.
        binding: A digest of all that an answer is bound to. Whoever asked makes it again before
            acting on an answer, which is void where it is another one.
        address: Whose question it is; nobody who may not claim it sees or answers it.
        senders: The ids of those whose message led to it.
        approvers: Lists of who may answer, as whoever takes the answer knows them.
        basis: What it takes to act on an answer, as JSON; shown to nobody.
        asked: When it was asked, in UTC.
        expires: When it is too late, in UTC.
        owner: The gateway that asked and acts on the answer; stamped by who keeps questions.
    """

    id: str
    subject: str
    text: Mapping[str, Any]
    schema: Mapping[str, Any]
    binding: str
    address: Address
    senders: tuple[str, ...] = ()
    approvers: tuple[tuple[str, ...], ...] = ()
    basis: Mapping[str, Any] = field(default_factory=dict)
    asked: datetime
    expires: datetime
    owner: str = ""

    def check(self, value: Any) -> None:
        """Hold an answer against the schema.

        Raises:
            TurnError: It does not fit, or nothing can: the schema is not valid, or refers to
                what is not in it.
        """
        # Whoever asks nobody needs no validator.
        from hookgate.core.domain.schemas import problems_of

        try:
            problems = problems_of(value, self.schema)
        except (ValueError, TypeError) as error:
            raise TurnError(
                f"{self.id!r} cannot be answered: its schema cannot be used: {error}",
                action="tell whoever makes the plugin that asks",
            ) from error
        if problems:
            raise TurnError(
                f"the answer to {self.id!r} is none that was asked for: {'; '.join(problems)}",
                code="invalid_params",
                action="answer as the question's schema says",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What became of a question.

    Attributes:
        state: How it ended.
        value: The answer, where there is one.
        by: The id of the principal who answered.
        why: Why it ended without an answer.
    """

    state: QuestionState
    value: Any = None
    by: str = ""
    why: str = ""


class Questions(Protocol):
    """Questions that wait for people: asked at one gateway, answered at any on the same store.

    The plugin `storage` keeps them in the database. Without it they are kept in the process.
    """

    async def ask(self, question: Question) -> asyncio.Future[Settled]:
        """Let `question` wait; return once others can see it.

        The future is resolved when somebody has answered, or the question ended otherwise. It
        is the asker's to `end` a question in time, whatever happens to the asker.

        Raises:
            StoreError: It cannot be kept; nobody was asked.
        """

    async def find(self, question_id: str) -> Question | None:
        """Return a question that waits; None where none of this id does.

        Raises:
            StoreError: The questions cannot be read.
        """

    async def waiting(self, principal: Principal) -> Sequence[Question]:
        """Return the questions at addresses that `principal` may claim, the oldest first.

        Who of them may answer is for whoever takes the answers to say.

        Raises:
            StoreError: The questions cannot be read.
        """

    async def answer(
        self,
        question_id: str,
        value: Any,
        *,
        by: str,
        also: Callable[[Connection | None], None] | None = None,
    ) -> bool:
        """Answer a question. The first answer counts; there is no second one.

        Args:
            question_id: The question's id.
            value: The answer, JSON that fits the question's schema.
            by: The id of the principal who answers; that it may is for the caller to check.
            also: Writes what belongs to the answer, in the same transaction, off the event loop:
                both are kept, or neither. It gets None where there is no store.

        Returns:
            Whether it counts; False where the question does not wait any more.

        Raises:
            TurnError: The answer does not fit the schema, and the question waits on; or whoever
                asked has stopped, so nobody acts on the answer, though `also` has been kept.
            StoreError: It cannot be kept; the question waits on. So it does where `also` raises.
        """

    async def end(
        self, question_id: str, state: Literal["expired", "withdrawn"], why: str
    ) -> Settled:
        """End a question, if nobody has answered it first; return what became of it.

        Raises:
            StoreError: That cannot be kept.
        """

    async def expire(self) -> Sequence[Question]:
        """End the questions whose asker has stopped, so that nobody can act on an answer.

        Raises:
            StoreError: That cannot be kept.
        """


class Embedder(Protocol):
    """Turns texts into vectors of length 1. Caches the vectors of queries."""

    @property
    def dimension(self) -> int:
        """The length of a vector."""

    @property
    def fingerprint(self) -> str:
        """Names model and version; vectors of different fingerprints do not compare."""

    async def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return one vector for each text: an array of shape (texts, dimension).

        Raises:
            EmbeddingError: The model could not be asked.
        """

    async def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """Return the vector of a query, of shape (dimension,), from the cache where it is there.

        Raises:
            EmbeddingError: The model could not be asked.
        """


class PartsEmbedder(Embedder, Protocol):
    """An embedder that reads a query once, for its vector and for those of its parts.

    An embedder need not do that: whoever searches by parts calls `embed_parts`, which asks it part
    by part where it has no such method.
    """

    async def embed_parts(
        self, text: str, spans: Sequence[tuple[int, int]]
    ) -> Sequence[npt.NDArray[np.float32]]:
        """Return the vector of a query, and behind it one for each span of its characters.

        Args:
            text: The query. Its vector is that of `embed_query`.
            spans: Where each part begins and ends in `text`, as a slice has it.

        Raises:
            EmbeddingError: The model could not be asked.
        """


async def embed_parts(
    embedder: Embedder, text: str, spans: Sequence[tuple[int, int]]
) -> Sequence[npt.NDArray[np.float32]]:
    """Return the vector of a query, and behind it one for each span of its characters.

    By one run of the model where `embedder` is a `PartsEmbedder`, else part by part.

    Raises:
        EmbeddingError: The model could not be asked.
    """
    together = getattr(embedder, "embed_parts", None)
    if together is not None:
        made: Sequence[npt.NDArray[np.float32]] = await together(text, spans)
        return made
    texts = [text[start:end] for start, end in spans]
    return [await embedder.embed_query(text), *(await embedder.embed(texts) if texts else ())]


class Egress(Protocol):
    """The one checked way out for HTTP."""

    def client(
        self,
        grants: Sequence[str],
        *,
        name: str,
        timeout: httpx.Timeout | float = 30.0,
        max_bytes: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.AsyncClient:
        """Return a client that reaches what `grants` name and nothing else.

        Args:
            grants: URL patterns such as ``https://api.example.com/v1/*``.
            name: Who asks, for the errors and the log.
            timeout: Limits in seconds.
            max_bytes: The longest response body, after decompression.
            headers: Headers of every request; dropped when a redirect leaves the origin.

        The client's requests raise `EgressDeniedError` and `EgressFailedError`.
        """

    def websocket(
        self, grants: Sequence[str], url: str, *, name: str, max_bytes: int, timeout: float = 10.0
    ) -> AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]:
        """Open a WebSocket to what `grants` name, as long as the context lasts.

        No redirect is followed.

        Args:
            grants: URL patterns, with ``http`` for ``ws`` and ``https`` for ``wss``.
            url: Where to, ``ws:`` or ``wss:``.
            name: Who asks, for the errors and the log.
            max_bytes: The longest message.
            timeout: The seconds until it has to be open.

        Raises:
            EgressDeniedError: It lies outside the grants; nothing was sent.
            EgressFailedError: It could not be opened.
        """


class Audit(Protocol):
    """The record of decisions. What `append` returned from is durable."""

    async def append(self, kind: str, data: Mapping[str, Any]) -> None:
        """Commit one row.

        Raises:
            StoreUnavailableError: Nothing was written.
        """


class ToolFaces(Protocol):
    """How models see the tools that installed plugins bring: their words are those of others."""

    def shown(self) -> tuple[Mapping[str, Tool], Mapping[str, Tool]]:
        """Return the tools that turns may use, and those that models see otherwise, by name."""

    async def look(self, *, again: bool = False) -> None:
        """Look at every tool of others that nobody has looked at, and from then on at what comes.

        Args:
            again: Look once more at those that are not shown: a sanitizer may have failed.
        """


class Bills(Protocol):
    """What calls of models have used, as far as their providers can be believed."""

    def settled(
        self,
        request: ModelRequest,
        said: Sequence[ModelEvent],
        told: Usage | None,
        *,
        whole: bool,
        answered: bool,
    ) -> Usage | None:
        """Return what a call counts as that has ended.

        Args:
            request: The request, as it was sent.
            said: What its model has said.
            told: The provider's figures; None where it has told none that are counts.
            whole: Whether the provider has come to its end.
            answered: Whether something came of it, so that there is something to count.

        Returns:
            The provider's figures, or an estimate that says so; None where nothing was used.
        """


CLOCK: Key[Clock] = Key("clock")
TOKENS: Key[TokenCounter] = Key("tokens")
BILLS: Key[Bills] = Key("bills")
FACES: Key[ToolFaces] = Key("faces of tools")
SECRETS: Key[Secrets] = Key("secrets")
ACCEPTANCES: Key[Acceptances] = Key("acceptances")
SIGNALS: Key[Signals] = Key("signals")
LANES: Key[Lanes] = Key("lanes")
OUTCOME_WINDOWS: Key[OutcomeWindows] = Key("outcome windows")
QUESTIONS: Key[Questions] = Key("questions")
CONVERSATIONS: Key[Conversations] = Key("conversations")
STORE: Key[Store] = Key("store")
SWITCHES: Key[Switches] = Key("switches")
EMBEDDER: Key[Embedder] = Key("embedder")
EGRESS: Key[Egress] = Key("egress")
AUDIT: Key[Audit] = Key("audit")
