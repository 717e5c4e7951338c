"""Keys that the core reaches what it needs by, and the protocols of what is found there.

A plugin offers a service with ``host.provide(KEY, service)`` and reaches another's with
``host[KEY]``; it declares both in ``provides`` and ``requires``. Keys at which plugins alone
meet are in `hookgate.ports`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from hookgate.core.domain.messages import Message, Taint
    from hookgate.core.domain.models import ModelEvent, ModelRequest, Usage
    from hookgate.core.domain.tools import Tool
    from hookgate.core.domain.turn import Fence, SessionKey, Turn

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
        """Return the secret called `name`: environment, then key file, then settings.

        It may read a file. Its value is followed from then on; see `watch`.
        """

    def read(self, path: Path) -> str | None:
        """Return what the key file `path` holds, as `get` does what a name means.

        Raises:
            ConfigError: It is not safe to use or cannot be read.
        """

    def watch(self, told: Callable[[str], None]) -> Callable[[], None]:
        """Call `told` whenever a secret that was asked for has another value, or none any more.

        It gets the secret's name or the file's path, on the event loop, some seconds after the
        change at most. What is returned undoes it.
        """

    def add_source(self, place: str, find: Callable[[str], str | None]) -> Callable[[], None]:
        """Look for secrets in another place as well, before key files and behind the environment.

        Args:
            place: How to set a secret there, such as ``put it into Vault at secret/hookgate``.
            find: Returns what is called so there, and None where nothing is. It is asked
                often and from any thread, so it answers from memory; what it says otherwise
                from one day to the next is noticed by itself.

        Returns:
            What undoes it.
        """

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


async def set_switch(switches: Switches, name: str, made: Callable[[Switch], Any]) -> Switch:
    """Set a switch to what is `made` of it, anew where somebody else was faster; return it.

    Raises:
        StoreError: It cannot be read or written; nothing was changed.
    """
    while True:
        known = await switches.get(name)
        put = await switches.put(name, made(known), version=known.version)
        if put is not None:
            return put


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
SIGNALS: Key[Signals] = Key("signals")
LANES: Key[Lanes] = Key("lanes")
CONVERSATIONS: Key[Conversations] = Key("conversations")
SWITCHES: Key[Switches] = Key("switches")
AUDIT: Key[Audit] = Key("audit")
