"""Standing permissions: what somebody has allowed always, within narrow bounds.

A grant answers a question in the place of a person. It never makes a question unnecessary
that a rule answers with a denial, and it is good for one tool as it was when it was granted,
in one session, under one policy, until it expires or is revoked.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from hookgate.core.domain.messages import new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection

    from hookgate.core.domain.ports import Clock
    from hookgate.core.domain.tools import Tool, ToolCall
    from hookgate.core.domain.turn import Principal, Turn

GrantScope: TypeAlias = Literal["arguments", "tool"]
GrantState: TypeAlias = Literal["valid", "expired", "other_policy", "other_tool", "no_approver"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One standing permission.

    Attributes:
        id: Unique.
        scope: ``arguments`` for these very arguments, ``tool`` for any of this tool.
        tool: The tool's name.
        plugin: Who brings the tool.
        tool_digest: The tool's digest when it was granted.
        arguments: SHA-256 (hex) of the canonical arguments; "" with the scope ``tool``.
        shown: The arguments for people, in JSON, secrets masked.
        agent: The agent that called it.
        session: The session's key.
        provenance: How the turn came in whose call was asked about.
        tainted: Whether that turn had read what somebody else wrote.
        policy: The version of the policy under which it was granted.
        allowed_by: The principal who granted it.
        allowed_at: When, ISO 8601 in UTC.
        expires: When it ends, ISO 8601 in UTC.
    """

    id: str
    scope: GrantScope
    tool: str
    plugin: str
    tool_digest: str
    arguments: str
    shown: str
    agent: str
    session: str
    provenance: str
    tainted: bool
    policy: str
    allowed_by: str
    allowed_at: str
    expires: str

    def to_row(self) -> dict[str, Any]:
        """Return the columns of its row."""
        return asdict(self)

    def fits(self, turn: Turn, call: ToolCall) -> bool:
        """Whether it is about such a call, whatever the time and the policy.

        What was granted in a turn that had read nothing foreign does not hold in one that has:
        there, somebody else may be asking.
        """
        return (
            self.tool == call.name
            and self.plugin == call.tool.plugin
            and self.tool_digest == call.tool.digest
            and (self.scope == "tool" or self.arguments == arguments_digest(call))
            and self.agent == turn.agent.name
            and self.session == str(turn.session)
            and self.provenance == turn.origin.provenance.value
            and (self.tainted or not turn.taint)
        )


def arguments_digest(call: ToolCall) -> str:
    """Return SHA-256 (hex) of the canonical arguments of `call`."""
    return hashlib.sha256(call.canonical).hexdigest()


class GrantStore(Protocol):
    """Where grants are kept. Every question goes to it, so that a revocation counts at once."""

    async def of_session(self, session: str, tool: str) -> Sequence[Grant]:
        """Return the grants of one tool in one session, the newest first."""

    async def all(self) -> Sequence[Grant]:
        """Return every grant, the newest first."""

    def adding(self, grant: Grant) -> Callable[[Connection | None], None]:
        """Return what keeps `grant` by the transaction that it is handed."""

    async def remove(self, grant_id: str) -> bool:
        """Forget a grant; return whether it was there."""

    async def prune(self, before: str) -> None:
        """Forget the grants that ended before this time, ISO 8601 in UTC."""


class ProcessGrants:
    """Keeps grants in the process, where there is no store."""

    def __init__(self) -> None:
        self._grants: dict[str, Grant] = {}

    async def of_session(self, session: str, tool: str) -> Sequence[Grant]:
        """Return the grants of one tool in one session, the newest first."""
        return [one for one in await self.all() if (one.session, one.tool) == (session, tool)]

    async def all(self) -> Sequence[Grant]:
        """Return every grant, the newest first."""
        return list(reversed(self._grants.values()))

    def adding(self, grant: Grant) -> Callable[[Connection | None], None]:
        """Return what keeps `grant`."""

        def add(connection: Connection | None) -> None:
            del connection
            self._grants[grant.id] = grant

        return add

    async def remove(self, grant_id: str) -> bool:
        """Forget a grant; return whether it was there."""
        return self._grants.pop(grant_id, None) is not None

    async def prune(self, before: str) -> None:
        """Forget the grants that ended before this time."""
        kept = {key: one for key, one in self._grants.items() if one.expires >= before}
        self._grants = kept


class Grants:
    """Makes grants, finds the one that fits a call, and takes them back."""

    def __init__(
        self,
        store: GrantStore,
        clock: Clock,
        *,
        days: float,
        policy: Callable[[], str],
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        """Keep grants in `store`.

        Args:
            store: Where they are kept.
            clock: Says when they end.
            days: How long a new one holds.
            policy: Returns the version of the policy that is in force.
            redact: Masks secrets in arguments that are shown.
        """
        self._store = store
        self._clock = clock
        self._days = days
        self._policy = policy
        self._redact = redact

    def basis(self, turn: Turn, call: ToolCall, policy: str) -> dict[str, Any]:
        """Return what a grant is made from, as JSON: what is asked about, under which policy."""
        return {
            "tool": call.name,
            "plugin": call.tool.plugin,
            "tool_digest": call.tool.digest,
            "arguments": arguments_digest(call),
            "shown": self._redact(call.canonical.decode()),
            "agent": turn.agent.name,
            "session": str(turn.session),
            "provenance": turn.origin.provenance.value,
            "tainted": bool(turn.taint),
            "policy": policy,
        }

    def drafted(self, principal: Principal, basis: Mapping[str, Any], scope: GrantScope) -> Grant:
        """Return the grant that `principal` would make; it is not kept yet.

        Args:
            principal: Who grants.
            basis: What `basis` returned when it was asked, at whichever gateway.
            scope: How far it reaches.
        """
        now = self._clock.now()
        wide = {"arguments": "", "shown": ""} if scope == "tool" else {}
        return Grant(
            id=new_id("grant"),
            scope=scope,
            allowed_by=principal.id,
            allowed_at=now.isoformat(),
            expires=(now + timedelta(days=self._days)).isoformat(),
            **{**basis, **wide},
        )

    def keeping(self, grant: Grant) -> Callable[[Connection | None], None]:
        """Return what keeps `grant` in the transaction of the answer that makes it."""
        return self._store.adding(grant)

    async def fitting(
        self, turn: Turn, call: ToolCall, by: Callable[[str], bool] = lambda _: True
    ) -> Grant | None:
        """Return a grant that allows `call` now, or None.

        Args:
            turn: The turn.
            call: The call.
            by: Whether the principal with this id might answer the question today.

        Raises:
            StoreError: The grants cannot be read.
        """
        for grant in await self._store.of_session(str(turn.session), call.name):
            if grant.fits(turn, call) and self._holds(grant) and by(grant.allowed_by):
                return grant
        return None

    def _holds(self, grant: Grant) -> bool:
        return grant.policy == self._policy() and not self._is_over(grant)

    def _is_over(self, grant: Grant) -> bool:
        return datetime.fromisoformat(grant.expires) <= self._clock.now()

    def state(self, grant: Grant, tool: Tool | None, *, approver: bool = True) -> GrantState:
        """Return whether `grant` still holds, and if not, why.

        Args:
            grant: The grant.
            tool: The tool of its name as it is now; None where there is none.
            approver: Whether who granted it may still approve.
        """
        if self._is_over(grant):
            return "expired"
        if grant.policy != self._policy():
            return "other_policy"
        if not approver:
            return "no_approver"
        if tool is None or (tool.digest, tool.plugin) != (grant.tool_digest, grant.plugin):
            return "other_tool"
        return "valid"

    async def all(self) -> Sequence[Grant]:
        """Return every grant that is kept, the newest first."""
        return await self._store.all()

    async def revoke(self, grant_id: str) -> bool:
        """Take a grant back; return whether it was there."""
        return await self._store.remove(grant_id)

    async def made_by(self, principal: str) -> Sequence[Grant]:
        """Return the grants of the principal with this id."""
        return [one for one in await self._store.all() if one.allowed_by == principal]

    async def prune(self) -> None:
        """Forget the grants whose time is over."""
        await self._store.prune(self._clock.now().isoformat())
