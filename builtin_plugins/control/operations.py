"""The operations of the gateway itself, and what serves them."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field

from hookgate import (
    CONVERSATIONS,
    LANES,
    Event,
    Host,
    Invocation,
    Message,
    Operation,
    SessionKey,
    WireError,
    operation,
)
from hookgate.builtin_plugins.control.schemas import (
    Cancelled,
    CancelParams,
    Deleted,
    ExportedMessages,
    History,
    OperationRow,
    OperationRows,
    PluginRows,
    Pong,
    Reloaded,
    Revoked,
    SessionRows,
    Status,
    Subscribed,
    SubscribeParams,
    TokenRow,
    TokenRows,
)
from hookgate.clients import PROTOCOL, token_book, wire_error
from hookgate.kit.functions.operations import describe_operation

Key = Annotated[str, Field(max_length=2048)]
"""A session's key."""

_PONG = Pong()
_CANCELLED = Cancelled()


class Control:
    """The gateway itself: sessions, plugins, operations, tokens, events."""

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

    # -- sessions --------------------------------------------------------------

    @operation("sessions.list", also="session.list", rest=("GET", "/v1/sessions"))
    async def sessions(
        self, invocation: Invocation, limit: Annotated[int, Field(ge=1, le=1000)] = 100
    ) -> SessionRows:
        """List the latest sessions, newest first: those that the caller may speak in.

        An operator sees all.

        Args:
            limit: How many at most.
        """
        wanted = limit
        while True:
            rows = await self._host[CONVERSATIONS].sessions(limit=wanted)
            mine = [row for row in rows if invocation.principal.sees(str(row["session"]))]
            if len(mine) >= limit or len(rows) < wanted:
                break
            wanted *= 4  # the newest ones are others'
        return SessionRows.model_validate({"sessions": mine[:limit]})

    @operation(
        "sessions.show", also="session.history", rest=("GET", "/v1/sessions/history"), command=""
    )
    async def history(
        self,
        invocation: Invocation,
        session: Key,
        turns: Annotated[int, Field(ge=1, le=1000)] = 20,
    ) -> History:
        """Show the last turns of a session that the caller may speak in; an operator sees any.

        Args:
            session: The session's key.
            turns: How many turns at most.
        """
        key, messages = await self._messages(invocation, session, turns)
        return History(session=str(key), messages=tuple(item.to_json() for item in messages))

    @operation(
        "sessions.export", also="session.export", rest=("GET", "/v1/sessions/export"), command=""
    )
    async def export(
        self,
        invocation: Invocation,
        session: Key,
        after: Annotated[str, Field(max_length=100)] = "",
        limit: Annotated[int, Field(ge=1, le=1000)] = 500,
    ) -> ExportedMessages:
        """Give all messages of a session that the caller may speak in, page by page.

        Args:
            session: The session's key.
            after: The `next` of a former answer; empty for the first messages.
            limit: How many messages at most.
        """
        key = self._session(invocation, session)
        if key is None:
            raise _no_session(session)
        conversations = self._host[CONVERSATIONS]
        try:
            page = await conversations.export(key, after=after, limit=limit)
        except ValueError as error:
            raise wire_error(
                "invalid_params", str(error), action="give the `next` of a former answer"
            ) from None
        if not page.said and not after:
            raise _no_session(session)
        return ExportedMessages(
            session=str(key),
            messages=tuple(each.message.to_json() for each in page.said),
            next=page.cursor if page.more else "",
        )

    @operation("sessions.delete", also="session.delete", scope="operate")
    async def delete(
        self,
        invocation: Invocation,
        session: Key,
        turns: Annotated[tuple[str, ...], Field(min_length=1, max_length=1000)] | None = None,
    ) -> Deleted:
        """Delete a session, or turns of it. The audit and the notes of `memory` are kept.

        Nothing may run in it, and who did it is recorded.

        Args:
            session: The session's key, as `sessions list` shows it.
            turns: Ids of turns, as an export shows them; only these are deleted. Left out:
                everything.

        Examples:
            hookgate sessions delete main:web:shop:ada
            hookgate sessions delete main:web:shop:ada --turns turn_1f0c9d
        """
        host, key = self._host, self._session(invocation, session)
        if key is not None and host[LANES].ahead(key):
            raise wire_error(
                "lane_held",
                f"a turn of session {str(key)[:200]!r} runs or waits",
                action="cancel it, or wait until it is over",
            )
        gone = 0
        if key is not None:
            async with host[LANES].hold(key):
                gone = await host[CONVERSATIONS].forget(key, turns=turns)
        if key is None or not gone:
            raise _no_session(session)
        which = {} if turns is None else {"turns": sorted(set(turns))}
        by = invocation.principal.id
        await host.record("session_deleted", session=str(key), messages=gone, by=by, **which)
        return Deleted(session=str(key), messages=gone)

    async def _messages(
        self, invocation: Invocation, session: str, turns: int
    ) -> tuple[SessionKey, Sequence[Message]]:
        """Return the last `turns` turns of a session that the caller may see.

        Raises:
            WireError: There is none, or nothing was said in it.
        """
        key = self._session(invocation, session)
        if key is not None:
            messages = await self._host[CONVERSATIONS].history(key, turns=turns)
            if messages:
                return key, messages
        raise _no_session(session)

    @staticmethod
    def _session(invocation: Invocation, text: str) -> SessionKey | None:
        """Return the key of a session that the caller may see; None where it may not."""
        try:
            key = SessionKey.parse(text)
        except ValueError as error:
            raise wire_error(
                "invalid_params", str(error), action="`sessions.list` names the sessions"
            ) from None
        return key if invocation.principal.sees(text) else None

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

    @operation("reload", scope="operate", command="")
    async def reload(self, _: Invocation) -> Reloaded:
        """Read content again: cards, manifests, souls, rules."""
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
        wanted = Wanted(params)
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
    async def revoke(self, _: Invocation, name: Annotated[str, Field(max_length=256)]) -> Revoked:
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
        return Revoked(name=token.name)


def _no_session(session: str) -> WireError:
    return wire_error(
        "not_found",
        f"there is no session {session[:200]!r} that this principal may see",
        action="`sessions.list` names the sessions",
    )


class Wanted:
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
