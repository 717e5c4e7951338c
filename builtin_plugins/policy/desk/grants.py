"""Standing permissions: what somebody has allowed always, within narrow bounds.

A grant answers a question in the place of a person. It never makes a question unnecessary
that a rule answers with a denial, and it is good for one tool as it was when it was granted,
in one session, under one policy, until it expires or is revoked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hookgate import Clock, Principal, Tool, ToolCall, Turn, new_id
from hookgate.wire import canonical

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

    from hookgate.builtin_plugins.policy.desk.tables import StandingGrant
    from hookgate.kit.records import Records

GrantScope: TypeAlias = Literal["arguments", "family", "tool"]
GrantState: TypeAlias = Literal["valid", "expired", "other_policy", "other_tool", "no_approver"]


def arguments_digest(call: ToolCall) -> str:
    """Return SHA-256 (hex) of the canonical arguments of `call`."""
    return hashlib.sha256(call.canonical).hexdigest()


def family_of(call: ToolCall) -> str:
    """Return what calls like this one have in common, in canonical JSON; "" where nothing."""
    if call.said is None or not call.said.family:
        return ""
    return canonical(dict(call.said.family)).decode()


class GrantBook:
    """Makes grants, finds the one that fits a call, and takes them back."""

    def __init__(
        self,
        store: Records[StandingGrant],
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
            "family": family_of(call),
            "shown": self._redact(call.canonical.decode()),
            "agent": turn.agent.name,
            "session": str(turn.session),
            "provenance": turn.origin.provenance.value,
            "tainted": bool(turn.taint),
            "policy": policy,
        }

    def drafted(
        self, principal: Principal, basis: Mapping[str, Any], scope: GrantScope
    ) -> StandingGrant:
        """Return the grant that `principal` would make; it is not kept yet.

        Args:
            principal: Who grants.
            basis: What `basis` returned when it was asked, at whichever gateway.
            scope: How far it reaches.
        """
        now = self._clock.now()
        end = now + timedelta(days=self._days)
        if principal.expires is not None:
            # Who may not come in any more would not be asked either.
            end = min(end, principal.expires.astimezone(UTC))
        wide = {} if scope == "arguments" else {"arguments": "", "shown": ""}
        if scope == "family":
            wide["shown"] = self._redact(basis.get("family", ""))
        else:
            wide["family"] = ""
        return self._store.row(
            id=new_id("grant"),
            scope=scope,
            allowed_by=principal.id,
            allowed_at=now.isoformat(),
            expires=end.isoformat(),
            **{**basis, **wide},
        )

    def keeping(self, grant: StandingGrant) -> Callable[[Connection | None], None]:
        """Return what keeps `grant` in the transaction of the answer that makes it."""
        return self._store.adding(grant)

    async def fitting(
        self, turn: Turn, call: ToolCall, by: Callable[[str], bool] = lambda _: True
    ) -> StandingGrant | None:
        """Return a grant that allows `call` now, or None.

        Args:
            turn: The turn.
            call: The call.
            by: Whether the principal with this id might answer the question today.

        Raises:
            StoreError: The grants cannot be read.
        """
        mine = (self._store.c.session == str(turn.session), self._store.c.tool == call.name)
        for grant in await self._all(*mine):
            if grant.fits(turn, call) and self._holds(grant) and by(grant.allowed_by):
                return grant
        return None

    def _holds(self, grant: StandingGrant) -> bool:
        return grant.policy == self._policy() and not self._is_over(grant)

    def _is_over(self, grant: StandingGrant) -> bool:
        return datetime.fromisoformat(grant.expires) <= self._clock.now()

    def state(
        self, grant: StandingGrant, tool: Tool | None, *, approver: bool = True
    ) -> GrantState:
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
        if tool is None and grant.plugin in ("", "client"):
            return "valid"  # a client's: it brings the tool itself, with each message
        if tool is None or (tool.digest, tool.plugin) != (grant.tool_digest, grant.plugin):
            return "other_tool"
        return "valid"

    async def all(self) -> Sequence[StandingGrant]:
        """Return every grant that is kept, the newest first."""
        return await self._all()

    async def _all(self, *where: ColumnElement[bool]) -> Sequence[StandingGrant]:
        return await self._store.all(*where, by=(self._store.c.allowed_at.desc(),))

    async def revoke(self, grant_id: str) -> bool:
        """Take a grant back; return whether it was there."""
        return bool(await self._store.remove(self._store.c.id == grant_id))

    async def made_by(self, principal: str) -> Sequence[StandingGrant]:
        """Return the grants of the principal with this id."""
        return await self._all(self._store.c.allowed_by == principal)

    async def prune(self) -> None:
        """Forget the grants whose time is over."""
        await self._store.remove(self._store.c.expires < self._clock.now().isoformat())
