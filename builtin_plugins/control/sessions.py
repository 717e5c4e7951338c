"""The operations on sessions: conversations that are stored."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from hookgate import (
    CONVERSATIONS,
    LANES,
    Host,
    Invocation,
    OperationModel,
    SessionKey,
    WireError,
    operation,
)
from hookgate.clients import wire_error
from hookgate.kit.functions.operations import POSITIONAL

Key = Annotated[str, Field(max_length=2048)]
"""A session's key."""


class SessionSummary(OperationModel):
    """One session."""

    session: str
    """Its key."""
    messages: int
    """How many messages it holds."""
    updated: str
    """When the last one came, in UTC (ISO 8601)."""


class SessionRows(OperationModel):
    """The latest sessions that the principal may see."""

    sessions: tuple[SessionSummary, ...]
    """Newest first."""


class ExportedMessages(OperationModel):
    """Messages of a session, in order."""

    session: str
    """Its key."""
    messages: tuple[dict[str, Any], ...]
    """Oldest first, each as it is stored, secrets masked."""
    next: str
    """What to give as `after` for those behind these; empty where there are none."""


class Deleted(OperationModel):
    """What was deleted."""

    session: str
    """The session's key."""
    messages: int
    """How many messages it held."""


class SessionHistory(OperationModel):
    """The last turns of a session."""

    session: str
    """Its key."""
    messages: tuple[dict[str, Any], ...]
    """Its messages, oldest first, each as it is stored: `role`, `parts`, `taint` and so on."""


class Sessions:
    """Sessions: conversations that are stored."""

    def __init__(self, host: Host) -> None:
        self._host = host

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

    @operation("sessions.show", also="session.history", rest=("GET", "/v1/sessions/history"))
    async def history(
        self,
        invocation: Invocation,
        session: Annotated[Key, POSITIONAL] = "",
        turns: Annotated[int, Field(ge=1, le=1000)] = 10,
    ) -> SessionHistory:
        """Show the last turns of a session that the caller may speak in; an operator sees any.

        Args:
            session: The session's key, as `sessions list` shows it; the latest one without it.
            turns: How many turns at most.

        Example:
            hookgate sessions show demo:cli:local:main --turns 3
        """
        if not session:
            latest = (await self.sessions(invocation, limit=1)).sessions
            if not latest:
                raise wire_error("not_found", "no session is stored", action="say something first")
            session = latest[0].session
        key = self._session(invocation, session)
        messages = key and await self._host[CONVERSATIONS].history(key, turns=turns)
        if not messages:
            raise _no_session(session)
        return SessionHistory(session=str(key), messages=tuple(item.to_json() for item in messages))

    @operation("sessions.export", also="session.export", rest=("GET", "/v1/sessions/export"))
    async def export(
        self,
        invocation: Invocation,
        session: Key,
        after: Annotated[str, Field(max_length=100)] = "",
        limit: Annotated[int, Field(ge=1, le=1000)] = 500,
    ) -> ExportedMessages:
        """Give all messages of a session that the caller may speak in, page by page.

        The command writes one JSON object a line, secrets masked.

        Args:
            session: The session's key, as `sessions list` shows it.
            after: The `next` of a former answer; empty for the first messages.
            limit: How many messages at most.

        Example:
            hookgate sessions export main:web:shop:ada --out ada.jsonl
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
        """Delete a session, or turns of it, with what `memory` keeps of it. The audit is kept.

        Nothing may run in it, and who did it is recorded. What `hookgate examples list` shows was
        learned from what a person asked, whatever the session, and is kept.

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


def _no_session(session: str) -> WireError:
    return wire_error(
        "not_found",
        f"there is no session {session[:200]!r} that this principal may see",
        action="`sessions.list` names the sessions",
    )
