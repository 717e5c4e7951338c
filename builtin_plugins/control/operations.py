"""The operations of the gateway itself, and what serves them."""

from __future__ import annotations

import asyncio
import fnmatch
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field

from hookgate import (
    Event,
    Host,
    Invocation,
    Operation,
    operation,
)
from hookgate.builtin_plugins.control.schemas import (
    Cancelled,
    CancelParams,
    OperationRow,
    OperationRows,
    PluginRows,
    Pong,
    Reloaded,
    RevokedToken,
    Status,
    Subscribed,
    SubscribeParams,
    TokenRow,
    TokenRows,
)
from hookgate.clients import PROTOCOL, token_book, wire_error
from hookgate.kit.functions.operations import describe_operation

_PONG = Pong()
_CANCELLED = Cancelled()


class Control:
    """The gateway itself: plugins, operations, tokens, events."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._described: dict[Operation[Any, Any], OperationRow] = {}

    @operation("ping", scope=None, quick=True, command="")
    async def ping(self, _: Invocation) -> Pong:
        """Answer."""
        return _PONG

    @operation("status", rest=("GET", "/v1/status"), quick=True, command="")
    async def status(self, _: Invocation) -> Status:
        """Say how the gateway is."""
        return Status.model_validate({**self._host.status(), "protocol": PROTOCOL})

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
        infos = [asdict(info) for info in self._host.plugins(every=True)]
        for info in infos:
            del info["content"]  # a place on this machine
        return PluginRows.model_validate({"plugins": infos})

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
        wanted = WantedEvents(params)
        answer = Subscribed(scopes=tuple(sorted(principal.scopes)))
        with self._host.events.subscribe(
            principal=principal, where=wanted, spans=params.spans
        ) as subscription:
            invocation.respond(answer)
            missed = 0
            async for event in subscription:
                if subscription.dropped > missed:
                    lost = subscription.dropped - missed
                    missed = subscription.dropped
                    invocation.emit(Event("events.missed", {"events": lost}))
                invocation.emit(
                    Event(
                        "event",
                        {
                            "type": event.type,
                            "turn": event.turn,
                            "session": event.session,
                            "seq": event.seq,
                            "at": event.at,
                            "data": event.data,
                        },
                    )
                )
        return answer

    @operation("events.unsubscribe", quick=True, command="")
    async def unsubscribe(self, invocation: Invocation, request: str | int) -> Cancelled:
        """End a subscription of this socket.

        Args:
            request: The id of this client's own `events.subscribe`.
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


class WantedEvents:
    """Whether a subscriber wants an event. Whom it is for, the event says itself."""

    def __init__(self, params: SubscribeParams) -> None:
        self._params = params

    def __call__(self, event: Event) -> bool:
        """Return whether to show `event`."""
        params = self._params
        return (
            (params.turn is None or event.turn == params.turn)
            and (params.session is None or event.session == params.session)
            and any(fnmatch.fnmatchcase(event.type, pattern) for pattern in params.types)
        )
