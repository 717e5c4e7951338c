"""The operations of the gateway itself, and what serves them."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from hookgate import Event, Host, Invocation, Operation, OperationModel, operation
from hookgate.builtin_plugins.control.watchdog import Watchdog, resident
from hookgate.clients import PROTOCOL, token_book, wire_error
from hookgate.kit.functions.operations import describe_operation
from hookgate.kit.modules import on_demand

if TYPE_CHECKING:
    from hookgate.builtin_plugins.control import models
else:
    models = on_demand("hookgate.builtin_plugins.control.models")

LEAST_BLOCKED = 0.1
"""Seconds below which nothing is said: so little is a few samples."""


class Pong(OperationModel):
    """The gateway answers."""

    pong: Literal[True] = True
    """Always true."""


class Cancelled(OperationModel):
    """It is being cancelled; its `done` says when it has ended."""

    cancelled: Literal[True] = True
    """Always true; what does not run is an error, `not_found`."""


# -- The operations of the gateway itself, and what serves them ------------------

_PONG = Pong()
_CANCELLED = Cancelled()


class Control:
    """The gateway itself: plugins, operations, tokens, events."""

    def __init__(self, host: Host, watchdog: Watchdog) -> None:
        self._host = host
        self._watchdog = watchdog
        self._described: dict[Operation[Any, Any], models.OperationRow] = {}
        self._last: tuple[Event | None, Event] = (None, Event("event"))

    @operation("ping", scope=None, quick=True, command="")
    async def ping(self, _: Invocation) -> Pong:
        """Answer."""
        return _PONG

    @operation("status", rest=("GET", "/v1/status"), quick=True, command="")
    async def status(self, _: Invocation) -> models.Status:
        """Say how the gateway is."""
        watchdog = self._watchdog
        grown, turns = watchdog.growth() or (None, 0)
        told = {
            "protocol": PROTOCOL,
            "memory": models.Memory(
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
        return models.Status.model_validate({**self._host.status(), **told})

    @operation("chat.cancel", scope="chat", quick=True, command="")
    async def cancel(self, invocation: Invocation, params: models.CancelParams) -> Cancelled:
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
    async def plugins(self, _: Invocation) -> models.PluginRows:
        """List the plugins."""
        return models.PluginRows(plugins=tuple(self._host.plugins(every=True)))

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
    ) -> models.OperationRows:
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
        return models.OperationRows(operations=tuple(rows))

    async def _describe(self, operation: Operation[Any, Any]) -> models.OperationRow:
        row = self._described.get(operation)
        if row is None:
            # Making schemas takes milliseconds, so it is done once, and not on the event loop.
            row = models.OperationRow.model_validate(
                await asyncio.to_thread(describe_operation, operation)
            )
            self._described[operation] = row
        return row

    @operation("reload", scope="operate")
    async def reload(self, _: Invocation) -> models.Reloaded:
        """Have the gateway read cards, manifests, souls, rules, agents and bindings again.

        It names the settings that have changed as well, and need a restart.
        """
        return models.Reloaded.model_validate(await self._host.reload())

    # -- events ------------------------------------------------------------------

    @operation("events.subscribe", streams=True, rest=("GET", "/v1/events"))
    async def subscribe(
        self, invocation: Invocation, params: models.SubscribeParams
    ) -> models.Subscribed:
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

        answer = models.Subscribed(scopes=tuple(sorted(principal.scopes)))
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
    async def tokens(self, _: Invocation) -> models.TokenRows:
        """List the access tokens."""
        book = token_book(self._host)
        rows = [
            models.TokenRow(
                name=token.name,
                scopes=tuple(sorted(token.principal.scopes)),
                revoked=book.is_revoked(token),
                expires=token.principal.expires,
            )
            for token in book.tokens
        ]
        return models.TokenRows(tokens=tuple(rows))

    @operation("token.revoke", scope="operate")
    async def revoke(
        self, _: Invocation, name: Annotated[str, Field(max_length=256)]
    ) -> models.RevokedToken:
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
        return models.RevokedToken(name=token.name)


def _filter_of(params: models.SubscribeParams) -> Callable[[Event], bool] | None:
    """Return whether a subscriber wants an event of the types that it named; None for all."""
    turn, session = params.turn, params.session
    if turn is None and session is None:
        return None
    return lambda event: turn in (None, event.turn) and session in (None, event.session)
