"""The operations of the gateway itself, and what serves them."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from hookgate import (
    AUDIT,
    CONVERSATIONS,
    LANES,
    Empty,
    Event,
    Host,
    Invocation,
    Message,
    Operation,
    OperationModel,
    Scope,
    SessionKey,
    WireError,
)
from hookgate.builtin_plugins.control.chat import Accepted, ChatParams, send
from hookgate.builtin_plugins.control.schemas import (
    Cancelled,
    CancelParams,
    Deleted,
    DeleteParams,
    ExportedMessages,
    ExportParams,
    History,
    HistoryParams,
    OperationRow,
    OperationRows,
    OperationsParams,
    PluginRows,
    Pong,
    Reloaded,
    Revoked,
    RevokeParams,
    SessionRows,
    SessionsParams,
    Status,
    Subscribed,
    SubscribeParams,
    TokenRow,
    TokenRows,
    UnsubscribeParams,
)
from hookgate.builtin_plugins.control.tool_call import ToolCalled, ToolCallParams, call_tool
from hookgate.clients import PROTOCOL, describe_operation, token_book, wire_error
from hookgate.settings import redact_json


def control_operations(host: Host) -> list[Operation[Any, Any]]:
    """Return the operations of the gateway of `host`."""
    control = Control(host)

    def make(
        name: str,
        summary: str,
        handler: Callable[..., Any],
        params: type[OperationModel],
        result: type[OperationModel],
        scope: Scope | None,
        **more: Any,
    ) -> Operation[Any, Any]:
        return Operation(
            name=name,
            summary=summary,
            handler=handler,
            params=params,
            result=result,
            scope=scope,
            **more,
        )

    return [
        make("ping", "Answer.", control.ping, Empty, Pong, None, quick=True),
        make("status", "Say how the gateway is.", control.status, Empty, Status, "read", quick=True,
             rest=("GET", "/v1/status")),
        make("chat.send", "Send a message to an agent and stream the answer.", send,
             ChatParams, Accepted, "chat", streams=True, rest=("POST", "/v1/turns")),
        make("chat.cancel", "Cancel a turn that runs or waits.", control.cancel, CancelParams,
             Cancelled, "chat", quick=True),
        make("tool.call", "Call a tool without asking a model.", call_tool, ToolCallParams,
             ToolCalled, "chat", streams=True, rest=("POST", "/v1/tools/call")),
        make("plugin.list", "List the plugins.", control.plugins, Empty, PluginRows, "read",
             quick=True, rest=("GET", "/v1/plugins")),
        make("session.list", "List the latest sessions.", control.sessions, SessionsParams,
             SessionRows, "read", rest=("GET", "/v1/sessions")),
        make("session.history", "Show the last turns of a session.", control.history, HistoryParams,
             History, "read", rest=("GET", "/v1/sessions/history")),
        make("session.export", "Give all messages of a session, page by page.", control.export,
             ExportParams, ExportedMessages, "read", rest=("GET", "/v1/sessions/export")),
        make("session.delete", "Delete a session, or turns of it.", control.delete, DeleteParams,
             Deleted, "operate", rest=("POST", "/v1/sessions/delete")),
        make("operation.list", "List what this client may call, with schemas.", control.operations,
             OperationsParams, OperationRows, None, rest=("GET", "/v1/operations")),
        make("reload", "Read content again: cards, manifests, souls, rules.", control.reload, Empty,
             Reloaded, "operate"),
        make("events.subscribe", "Follow what happens in the gateway.", control.subscribe,
             SubscribeParams, Subscribed, "read", streams=True, rest=("GET", "/v1/events")),
        make("events.unsubscribe", "End a subscription of this socket.", control.unsubscribe,
             UnsubscribeParams, Cancelled, "read", quick=True),
        make("token.list", "List the access tokens.", control.tokens, Empty, TokenRows, "operate",
             quick=True, rest=("GET", "/v1/tokens"), command="token list"),
        make("token.revoke", "Revoke an access token and close its connections.", control.revoke,
             RevokeParams, Revoked, "operate", command="token revoke"),
    ]  # fmt: skip


_PONG = Pong()
_CANCELLED = Cancelled()


class Control:
    """The handlers of the operations."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._described: dict[Operation[Any, Any], OperationRow] = {}

    async def ping(self, _: Invocation, __: Empty) -> Pong:
        """Answer."""
        return _PONG

    async def status(self, _: Invocation, __: Empty) -> Status:
        """Say how the gateway is."""
        said = {**self._host.status(), "protocol": PROTOCOL}
        return Status.model_validate(redact_json(self._host.secrets, said))

    async def cancel(self, invocation: Invocation, params: CancelParams) -> Cancelled:
        """Cancel a turn of the caller's own; an operator may cancel any."""
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

    async def plugins(self, _: Invocation, __: Empty) -> PluginRows:
        """List the plugins."""
        infos = [asdict(info) for info in self._host.plugins(every=True)]
        for info in infos:
            del info["content"]  # a place on this machine
        rows = {"plugins": infos}
        return PluginRows.model_validate(redact_json(self._host.secrets, rows))

    # -- sessions --------------------------------------------------------------

    async def sessions(self, invocation: Invocation, params: SessionsParams) -> SessionRows:
        """List the sessions that the caller may speak in; an operator sees all."""
        wanted = params.limit
        while True:
            rows = await self._host[CONVERSATIONS].sessions(limit=wanted)
            mine = [row for row in rows if invocation.principal.sees(str(row["session"]))]
            if len(mine) >= params.limit or len(rows) < wanted:
                break
            wanted *= 4  # the newest ones are others'
        return SessionRows.model_validate({"sessions": mine[: params.limit]})

    async def history(self, invocation: Invocation, params: HistoryParams) -> History:
        """Show a session that the caller may speak in; an operator sees any."""
        key, messages = await self._messages(invocation, params.session, params.turns)
        return History(session=str(key), messages=tuple(item.to_json() for item in messages))

    async def export(self, invocation: Invocation, params: ExportParams) -> ExportedMessages:
        """Give messages of a session that the caller may speak in; an operator gets any."""
        key = self._session(invocation, params.session)
        if key is None:
            raise _no_session(params.session)
        conversations = self._host[CONVERSATIONS]
        try:
            page = await conversations.export(key, after=params.after, limit=params.limit)
        except ValueError as error:
            raise wire_error(
                "invalid_params", str(error), action="give the `next` of a former answer"
            ) from None
        if not page.said and not params.after:
            raise _no_session(params.session)
        return ExportedMessages(
            session=str(key),
            messages=tuple(each.message.to_json() for each in page.said),
            next=page.cursor if page.more else "",
        )

    async def delete(self, invocation: Invocation, params: DeleteParams) -> Deleted:
        """Delete a session in which nothing runs, or turns of it, and record who did."""
        host, key = self._host, self._session(invocation, params.session)
        if key is not None and host[LANES].ahead(key):
            raise wire_error(
                "lane_held",
                f"a turn of session {str(key)[:200]!r} runs or waits",
                action="cancel it, or wait until it is over",
            )
        gone = 0
        if key is not None:
            async with host[LANES].hold(key):
                gone = await host[CONVERSATIONS].forget(key, turns=params.turns)
        if key is None or not gone:
            raise _no_session(params.session)
        if (audit := host.get(AUDIT)) is not None:
            record = {"session": str(key), "messages": gone, "by": invocation.principal.id}
            if params.turns is not None:
                record["turns"] = sorted(set(params.turns))
            await audit.append("session_deleted", record)
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
                "invalid_params", str(error), action="`session.list` names the sessions"
            ) from None
        return key if invocation.principal.sees(text) else None

    # -- the gateway itself ------------------------------------------------------

    async def operations(self, invocation: Invocation, params: OperationsParams) -> OperationRows:
        """List what the caller may call, or all there is."""
        scopes = invocation.principal.scopes
        rows = [
            await self._describe(operation)
            for name, operation in sorted(self._host.operations.items())
            if (params.all or operation.scope is None or operation.scope in scopes)
            and fnmatch.fnmatchcase(name, params.name)
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

    async def reload(self, _: Invocation, __: Empty) -> Reloaded:
        """Read content again."""
        changed = redact_json(self._host.secrets, await self._host.reload())
        return Reloaded.model_validate(changed)

    # -- events ------------------------------------------------------------------

    async def subscribe(self, invocation: Invocation, params: SubscribeParams) -> Subscribed:
        """Pass on the events that the caller may see, until it goes away or cancels."""
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

    async def unsubscribe(self, invocation: Invocation, params: UnsubscribeParams) -> Cancelled:
        """End a subscription of this socket."""
        if not invocation.cancel(params.request):
            raise wire_error("not_found", "no such request of this socket runs")
        return _CANCELLED

    # -- tokens --------------------------------------------------------------------

    async def tokens(self, _: Invocation, __: Empty) -> TokenRows:
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

    async def revoke(self, _: Invocation, params: RevokeParams) -> Revoked:
        """Revoke a token here and at every gateway beside this one."""
        token = await token_book(self._host).revoke(params.name)
        if token is None:
            raise wire_error(
                "not_found",
                f"there is no token called {params.name[:80]!r}",
                action="`token.list` names them",
            )
        return Revoked(name=token.name)


def _no_session(session: str) -> WireError:
    return wire_error(
        "not_found",
        f"there is no session {session[:200]!r} that this principal may see",
        action="`session.list` names the sessions",
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
