"""The operations of policy: questions, what was allowed always, tools that changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from hookgate import Invocation, operation
from hookgate.builtin_plugins.policy.desk import Desk
from hookgate.builtin_plugins.policy.desk.approvals import Choice
from hookgate.builtin_plugins.policy.desk.grants import GrantScope
from hookgate.builtin_plugins.policy.desk.quarantine import Quarantine
from hookgate.kit.modules import on_demand

if TYPE_CHECKING:
    from hookgate.builtin_plugins.policy import models
else:
    models = on_demand("hookgate.builtin_plugins.policy.models")

Id = Annotated[str, Field(min_length=1, max_length=200)]
Digest = Annotated[str, Field(max_length=64)]
Why = Annotated[str, Field(max_length=500)]


class ApprovalOperations:
    """Approvals: tool calls that wait for somebody, and what was allowed always.

    There is no other way to answer a question.
    """

    def __init__(self, desk: Callable[[], Desk]) -> None:
        self._desk = desk

    @operation(
        "approvals.list", also="approval.list", scope="approve", rest=("GET", "/v1/approvals")
    )
    async def list_approvals(self, invocation: Invocation) -> models.Approvals:
        """List the tool calls that wait for somebody's approval: those that the caller may give."""
        waiting = await self._desk().inbox.waiting(invocation.principal)
        return models.Approvals(approvals=[dict(question.text) for question in waiting])

    @operation("approvals.resolve", also="approval.resolve", scope="approve")
    async def resolve(
        self,
        invocation: Invocation,
        id: Id,
        decision: Choice,
        digest: Digest = "",
        scope: GrantScope = "arguments",
        reason: Why = "",
    ) -> models.Resolved:
        """Allow a waiting tool call, once or always, or deny it.

        Args:
            id: The question's id.
            decision: ``allow-once``, ``allow-always`` or ``deny``.
            digest: The question's digest, as it was shown; the answer is refused where it is
                another.
            scope: How far ``allow-always`` reaches: these very arguments, calls that have in
                common with this one what the question names as its family, or any of this tool in
                this session, where the settings allow that.
            reason: Why, in at most 500 characters: on record, and of a denial told to the model.
        """
        question, grant = await self._desk().resolve(
            invocation.principal, id, decision, digest=digest, scope=scope, reason=reason
        )
        invocation.host.log.info(
            "approval resolved",
            tool=question.text["tool"],
            decision=decision,
            by=invocation.principal.id,
            session=question.text["session"],
        )
        return models.Resolved(
            id=question.id,
            decision=decision,
            tool=question.text["tool"],
            session=question.text["session"],
            grant=grant.id if grant is not None else "",
        )

    @operation(
        "approvals.grants",
        also="approval.grants",
        scope="approve",
        rest=("GET", "/v1/approvals/grants"),
    )
    async def list_grants(self, invocation: Invocation) -> models.GrantRows:
        """List what somebody has allowed always, at addresses of the caller."""
        granted = await self._desk().granted(invocation.principal)
        return models.GrantRows(
            grants=[
                models.GrantRow.of_record(
                    one,
                    arguments=one.shown,
                    by=one.allowed_by,
                    at=one.allowed_at,
                    state=state,
                )
                for one, state in granted
            ]
        )

    @operation("approvals.revoke", also="approval.revoke", scope="approve")
    async def revoke(
        self,
        invocation: Invocation,
        id: Id,
    ) -> models.Revoked:
        """Take back what somebody has allowed always; such calls are asked about.

        Args:
            id: The grant's id.
        """
        grant = await self._desk().revoke(invocation.principal, id)
        invocation.host.log.info(
            "grant revoked", grant=grant.id, tool=grant.tool, by=invocation.principal.id
        )
        return models.Revoked(id=grant.id, tool=grant.tool, session=grant.session)


# -- quarantine ------------------------------------------------------------


class QuarantineOperations:
    """Tools: what models can call."""

    def __init__(self, quarantine: Callable[[], Quarantine]) -> None:
        self._quarantine = quarantine

    @operation("tools.changes", rest=("GET", "/v1/tools/changes"))
    async def changes(self, _: Invocation) -> models.ChangedTools:
        """Show the tools in quarantine: what was accepted, and what they are now.

        Example:
            hookgate tools changes
        """
        return models.ChangedTools.model_validate({"tools": list(self._quarantine().rows())})
