"""The operations of the gateway itself, and what serves them."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from hookgate import Event, Host, Invocation, Operation, OperationModel, PluginInfo, operation
from hookgate.builtin_plugins.control.watchdog import Watchdog, resident
from hookgate.clients import PROTOCOL, token_book, wire_error
from hookgate.kit.functions.operations import describe_operation

LEAST_BLOCKED = 0.1
"""Seconds below which nothing is said: so little is a few samples."""


class Pong(OperationModel):
    """The gateway answers."""

    pong: Literal[True] = True
    """Always true."""


class Memory(OperationModel):
    """The memory of the gateway's process."""

    bytes: int | None
    """What it holds now; null where the system does not say it."""
    bytes_a_turn: int | None
    """By how much it has grown a turn; null before a hundred turns."""
    turns: int
    """Over how many turns that is: the last thousand or so. The first fifty fill caches, and do
    not count."""


class Status(OperationModel):
    """How the gateway is; a later version may say more."""

    model_config = ConfigDict(extra="allow")

    version: str
    """The gateway's version."""
    protocol: int
    """The version of the wire protocol."""
    ready: bool
    """Whether new turns are taken."""
    degraded: dict[str, str]
    """What does not work as it should: part -> why."""
    notices: dict[str, str]
    """What an operator should know although nothing is wrong: part -> what."""
    turns: int
    """Turns that run or wait."""
    durable: bool
    """Whether conversations outlive the process."""
    agents: tuple[str, ...]
    """The agents by name."""
    providers: tuple[str, ...]
    """The providers of models by name."""
    tools: int
    """How many tools there are."""
    capabilities: int
    """How many capabilities there are."""
    plugins: tuple[str, ...]
    """The plugins that run."""
    memory: Memory
    """What it holds, and how that grows."""
    blocked_seconds: dict[str, float]
    """Seconds for which each plugin has held the event loop since the start, in which nobody else
    was served, the most first: an estimate by samples, and measured where one took over 50 ms."""


class CancelParams(OperationModel):
    """Which turn to cancel: one of the two."""

    turn: str | None = None
    """The turn's id."""
    request: str | int | None = None
    """The id of this client's own `chat.send`, which may not have been answered yet."""

    @model_validator(mode="after")
    def _one_of_two(self) -> CancelParams:
        if (self.turn is None) == (self.request is None):
            raise ValueError("expected either `turn` or `request`")
        return self


class Cancelled(OperationModel):
    """It is being cancelled; its `done` says when it has ended."""

    cancelled: Literal[True] = True
    """Always true; what does not run is an error, `not_found`."""


class PluginRows(OperationModel):
    """All plugins that are known."""

    plugins: tuple[PluginInfo, ...]
    """In the order in which they were loaded."""


class Content(OperationModel):
    """What there is after a reload."""

    tools: int
    """How many tools there are now."""
    capabilities: int
    """How many capabilities there are now."""
    cards: int
    """How many cards there are now."""
    agents: tuple[str, ...]
    """The agents by name."""


class Reloaded(OperationModel):
    """What a reload has read again; a later version may say more."""

    model_config = ConfigDict(extra="allow")

    changed: Content
    """What was read again, and holds from the next turn on."""
    restart: tuple[str, ...]
    """Keys of the settings that have changed and wait for a restart."""


class OperationRow(OperationModel):
    """One operation."""

    name: str
    """The method's name."""
    summary: str
    """What it does."""
    scope: str | None
    """The scope that it needs; null for none."""
    plugin: str
    """Who brings it."""
    command: str
    """The words of its command; empty where it has none."""
    streams: bool
    """Whether it emits events."""
    params: dict[str, Any]
    """JSON Schema of its parameters."""
    result: dict[str, Any]
    """JSON Schema of its result."""
    details: str
    """More on it, for the help of its command."""
    group: str
    """A sentence on the operations that begin with the same word."""


class OperationRows(OperationModel):
    """The operations that the principal may call."""

    operations: tuple[OperationRow, ...]
    """In the order of their names."""


class SubscribeParams(OperationModel):
    """Which events to follow."""

    types: tuple[str, ...] = Field(default=("*",), max_length=64)
    """Types, or globs such as `tool_*`."""
    turn: str | None = None
    """Only events of this turn."""
    session: str | None = None
    """Only events of this session."""
    spans: bool = False
    """Whether hook spans are wanted, as events of type `hook`; needs the scope `operate`."""


class Subscribed(OperationModel):
    """The subscription stands; `event` notifications follow until it is cancelled."""

    scopes: tuple[str, ...]
    """The scopes whose events are shown."""


class TokenRow(OperationModel):
    """One access token. The token itself is not known to the gateway."""

    name: str
    """Its name in the settings."""
    scopes: tuple[str, ...]
    """What its bearer may do."""
    revoked: bool
    """Whether it has been revoked."""


class TokenRows(OperationModel):
    """The access tokens."""

    tokens: tuple[TokenRow, ...]
    """In the order of the settings."""


class RevokedToken(OperationModel):
    """The token is refused from now on, and its live connections are being closed."""

    name: str
    """Its name."""


# -- The operations of the gateway itself, and what serves them ------------------

_PONG = Pong()
_CANCELLED = Cancelled()


class Control:
    """The gateway itself: plugins, operations, tokens, events."""

    def __init__(self, host: Host, watchdog: Watchdog) -> None:
        self._host = host
        self._watchdog = watchdog
        self._described: dict[Operation[Any, Any], OperationRow] = {}
        self._last: tuple[Event | None, Event] = (None, Event("event"))

    @operation("ping", scope=None, quick=True, command="")
    async def ping(self, _: Invocation) -> Pong:
        """Answer."""
        return _PONG

    @operation("status", rest=("GET", "/v1/status"), quick=True, command="")
    async def status(self, _: Invocation) -> Status:
        """Say how the gateway is."""
        watchdog = self._watchdog
        grown, turns = watchdog.growth() or (None, 0)
        told = {
            "protocol": PROTOCOL,
            "memory": Memory(
                bytes=resident(),
                bytes_a_turn=None if grown is None else round(grown),
                turns=turns,
            ),
            "blocked_seconds": {
                plugin: round(seconds, 2)
                for plugin, seconds in sorted(
                    watchdog.blocked.items(), key=lambda row: row[1], reverse=True
                )
                if seconds >= LEAST_BLOCKED
            },
        }
        return Status.model_validate({**self._host.status(), **told})

    @operation("chat.cancel", scope="chat", quick=True, command="")
    async def cancel(self, invocation: Invocation, params: CancelParams) -> Cancelled:
        """Cancel a turn that runs or waits: one of the caller's own; an operator may cancel any."""
        if params.request is not None:
            found = invocation.cancel(params.request)
        else:
            turn = params.turn or ""
            owner, principal = self._host.owner(turn), invocation.principal
            mine = owner is not None and owner.id == principal.id
            allowed = mine or "operate" in principal.scopes
            found = allowed and self._host.cancel(turn, f"{principal.id} cancelled it")
        if not found:
            raise wire_error(
                "not_found", "there is no such turn running", action="it may have ended already"
            )
        return _CANCELLED

    @operation(
        "plugins.list", also="plugin.list", rest=("GET", "/v1/plugins"), quick=True, command=""
    )
    async def plugins(self, _: Invocation) -> PluginRows:
        """List the plugins."""
        return PluginRows(plugins=tuple(self._host.plugins(every=True)))

    # -- the gateway itself ------------------------------------------------------

    @operation(
        "operations.list",
        also="operation.list",
        scope=None,
        rest=("GET", "/v1/operations"),
        command="",
    )
    async def operations(
        self,
        invocation: Invocation,
        name: Annotated[str, Field(max_length=256)] = "*",
        all: bool = False,
    ) -> OperationRows:
        """List what this client may call, with schemas.

        Args:
            name: A name, or a glob such as `chat.*`.
            all: Also those that this client may not call; `scope` says what they need.
        """
        scopes = invocation.principal.scopes
        rows = [
            await self._describe(operation)
            for called, operation in sorted(self._host.operations.items())
            if called == operation.name
            and (all or operation.scope is None or operation.scope in scopes)
            and any(fnmatch.fnmatchcase(each, name) for each in (called, *operation.also))
        ]
        return OperationRows(operations=tuple(rows))

    async def _describe(self, operation: Operation[Any, Any]) -> OperationRow:
        row = self._described.get(operation)
        if row is None:
            # Making schemas takes milliseconds, so it is done once, and not on the event loop.
            row = OperationRow.model_validate(
                await asyncio.to_thread(describe_operation, operation)
            )
            self._described[operation] = row
        return row

    @operation("reload", scope="operate")
    async def reload(self, _: Invocation) -> Reloaded:
        """Have the gateway read cards, manifests, souls, rules, agents and bindings again.

        It names the settings that have changed as well, and need a restart.
        """
        return Reloaded.model_validate(await self._host.reload())

    # -- events ------------------------------------------------------------------

    @operation("events.subscribe", streams=True, rest=("GET", "/v1/events"))
    async def subscribe(self, invocation: Invocation, params: SubscribeParams) -> Subscribed:
        """Follow what happens in the gateway, until the caller goes away or cancels."""
        principal = invocation.principal
        if not invocation.streaming:
            raise wire_error(
                "not_acceptable",
                "a subscription has no end, so it cannot be answered at once",
                action="ask with `Accept: text/event-stream`, or over WebSocket",
            )
        if params.spans and "operate" not in principal.scopes:
            raise wire_error(
                "forbidden", "hook spans need the scope `operate`", action="leave `spans` out"
            )
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def deliver(event: Event) -> None:
            try:
                last, shown = self._last
                invocation.emit(shown if event is last else self._shown(event))
            except Exception as error:  # noqa: BLE001 - it ends this subscription, and no turn
                if not failed.done():
                    failed.set_exception(error)

        answer = Subscribed(scopes=tuple(sorted(principal.scopes)))
        with self._host.events.subscribe(
            principal=principal,
            types=params.types,
            where=_filter_of(params),
            spans=params.spans,
            deliver=deliver,
        ):
            invocation.respond(answer)
            await failed
        return answer

    def _shown(self, event: Event) -> Event:
        """Return `event` as all who subscribe to it are told it."""
        data = {
            "type": event.type,
            "turn": event.turn,
            "session": event.session,
            "seq": event.seq,
            "at": event.at,
            "data": event.data,
        }
        self._last = event, Event("event", data)
        return self._last[1]

    @operation("request.cancel", also="events.unsubscribe", quick=True, command="")
    async def cancel_request(self, invocation: Invocation, request: str | int) -> Cancelled:
        """End what this socket has asked for and still runs: a subscription, or a replay.

        Args:
            request: The id of the request.
        """
        if not invocation.cancel(request):
            raise wire_error("not_found", "no such request of this socket runs")
        return _CANCELLED

    # -- tokens --------------------------------------------------------------------

    @operation("token.list", scope="operate", quick=True, rest=("GET", "/v1/tokens"))
    async def tokens(self, _: Invocation) -> TokenRows:
        """List the access tokens."""
        book = token_book(self._host)
        rows = [
            TokenRow(
                name=token.name,
                scopes=tuple(sorted(token.principal.scopes)),
                revoked=book.is_revoked(token),
            )
            for token in book.tokens
        ]
        return TokenRows(tokens=tuple(rows))

    @operation("token.revoke", scope="operate")
    async def revoke(
        self, _: Invocation, name: Annotated[str, Field(max_length=256)]
    ) -> RevokedToken:
        """Revoke an access token and close its connections, at every gateway beside this one.

        Args:
            name: Its name in the settings.
        """
        token = await token_book(self._host).revoke(name)
        if token is None:
            raise wire_error(
                "not_found",
                f"there is no token called {name[:80]!r}",
                action="`token.list` names them",
            )
        return RevokedToken(name=token.name)


def _filter_of(params: SubscribeParams) -> Callable[[Event], bool] | None:
    """Return whether a subscriber wants an event of the types that it named; None for all."""
    turn, session = params.turn, params.session
    if turn is None and session is None:
        return None
    return lambda event: turn in (None, event.turn) and session in (None, event.session)
