"""Keys at which plugins meet, the protocols of what is found there, and the errors of these.

Those that the core itself needs are at home in it, and named in `hookgate` with these. A third
party publishes the keys of its own services in its own package.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from hookgate.core.domain.errors import HookgateError, TurnError, wait_of
from hookgate.core.domain.ports import Key
from hookgate.core.domain.turn import Address, Principal

if TYPE_CHECKING:
    import aiohttp
    import httpx
    import numpy as np
    import numpy.typing as npt
    from sqlalchemy import Connection, MetaData, Table

    from hookgate.core.domain.turn import Turn


T = TypeVar("T")


class PassingError(HookgateError):
    """Something that did not work, and may by itself when it is tried again.

    Attributes:
        transient: Whether it may.
        retry_after: Seconds after which it may, if that is known; a day at most.
    """

    def __init__(
        self, message: str, *, transient: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.transient = transient
        self.retry_after = wait_of(retry_after)


class EmbeddingError(PassingError):
    """A text could not be turned into a vector: the model is missing, or does not answer.

    Attributes:
        transient: Whether the same request may succeed a little later.
        retry_after: Seconds that the model's server asked to wait, if it did; a day at most.
    """


class EgressError(HookgateError):
    """An outgoing request did not happen as asked."""


class EgressDeniedError(EgressError):
    """The request, or a redirect that it met, lies outside the grants. Nothing was sent there."""


EgressFailureKind = Literal["connect", "timeout", "cut", "limit", "protocol"]


class EgressFailedError(EgressError):
    """The request was allowed, and failed: connection, limit, or protocol.

    Attributes:
        kind: ``connect`` (nothing could be sent), ``timeout``, ``cut`` (the connection broke
            before the response was whole), ``limit`` (the response is too large, or there
            were too many redirects) or ``protocol`` (what came back is no valid HTTP).
    """

    def __init__(self, message: str, *, kind: EgressFailureKind = "protocol") -> None:
        super().__init__(message)
        self.kind: EgressFailureKind = kind


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

    @property
    def outside(self) -> int | None:
        """A number that is another one once anybody beside this process has written.

        It is as of the last message of a user that this process has committed, so what was read
        since then need not be read again by who finds the same number. None where nobody can tell:
        others share the store, or nothing was said yet.
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

    def write_soon(self, work: Callable[[Connection], T], *, order: str = "") -> asyncio.Future[T]:
        """Run `work` with the next write that anybody hands over; never waits.

        What `insert_soon` is for rows, where more has to be done than to insert them.

        Args:
            work: The function.
            order: See `write`.

        Returns:
            Is done once what it wrote is committed, or has what `write` would raise.
        """


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


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeEntry:
    """How one turn went, in a window of the last ones.

    Attributes:
        turn: The turn's id.
        at: When it ended, in microseconds since 1970 UTC.
        status: How it went.
        score: 0 to 1.
        steers: Whether later turns may be planned by it: not where its own request said how it
            went, where it was refused or cancelled, or where it failed for want of a model.
        fault: What of discovery and tools went wrong in it: ``discovery``, ``tools``, or "".
        session: The key of its session.
        reason: Why it went so, for people.
    """

    turn: str
    at: int
    status: Literal["success", "partial", "failed"]
    score: float
    steers: bool = True
    fault: str = ""
    session: str = ""
    reason: str = ""

    @property
    def steering(self) -> float:
        """What planning weighs: its score where discovery or tools went wrong in it, else 1."""
        return self.score if self.fault else 1.0


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
        from hookgate.core.domain.strict_json import problems_of

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


class RateLeft(NamedTuple):
    """How much of a rate is left.

    Attributes:
        unit: ``requests`` or ``tokens``.
        limit: The most in a minute.
        left: What is left of this minute.
        seconds: When it is over.
    """

    unit: str
    limit: int
    left: int
    seconds: float


class BudgetView(Protocol):
    """What is left of the budgets that model calls are held to."""

    def names(self) -> Collection[str]:
        """Return the names of the budgets and limits that hold now."""

    async def left(self, turn: Turn, names: Collection[str]) -> Mapping[str, Mapping[str, float]]:
        """Return what is left of some budgets for a turn, over all gateways on the store.

        Args:
            turn: Whose calls count.
            names: Budgets and limits.

        Returns:
            Of each that counts the turn's calls: `left`, the share that is left, 0 to 1, of the
            unit that has the least; and how much is left of each unit that it limits: `usd`,
            `tokens`, `requests`, `parallel`. What calls hold that run now is not left.

        Raises:
            StoreError: It cannot be known.
        """

    async def rates(self, turn: Turn) -> Sequence[RateLeft]:
        """Return what is left of the rates that count a turn's calls; of each unit the least.

        Raises:
            StoreError: It cannot be known.
        """


BUDGETS: Key[BudgetView] = Key("budgets")
ACCEPTANCES: Key[Acceptances] = Key("acceptances")
OUTCOME_WINDOWS: Key[OutcomeWindows] = Key("outcome windows")
QUESTIONS: Key[Questions] = Key("questions")
EMBEDDER: Key[Embedder] = Key("embedder")
EGRESS: Key[Egress] = Key("egress")
STORE: Key[Store] = Key("store")
