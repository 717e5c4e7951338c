"""The operations of approvals: questions, answers, and what was allowed always."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from hookgate import Empty, Invocation, Operation, OperationModel
from hookgate.builtin_plugins.policy.desk.approvals import Choice
from hookgate.builtin_plugins.policy.desk.grants import GrantScope, GrantState

if TYPE_CHECKING:
    from hookgate.builtin_plugins.policy.desk.desk import Desk


class Approvals(OperationModel):
    """The questions that wait."""

    approvals: list[dict[str, Any]]
    """Each with all that is asked about: see the event ``approval``."""


class Resolve(OperationModel):
    """An answer."""

    id: str = Field(min_length=1, max_length=200)
    """The question's id."""
    decision: Choice
    """``allow-once``, ``allow-always`` or ``deny``."""
    digest: str = Field(default="", max_length=64)
    """The question's digest, as it was shown; the answer is refused where it is another."""
    scope: GrantScope = "arguments"
    """How far ``allow-always`` reaches: these very arguments, or any of this tool in this
    session, where the settings allow that."""


class Resolved(OperationModel):
    """What became of an answer."""

    id: str
    decision: Choice
    tool: str
    session: str
    grant: str
    """The id of the grant that was made; empty where none was."""


class GrantRow(OperationModel):
    """What somebody has allowed always."""

    id: str
    scope: GrantScope
    """These very arguments, or any of this tool."""
    tool: str
    arguments: str
    """The arguments, in JSON with secrets masked; empty where any are allowed."""
    session: str
    by: str
    """Who allowed it."""
    at: str
    """When, ISO 8601 in UTC."""
    expires: str
    """When it ends, ISO 8601 in UTC."""
    state: GrantState
    """Whether it still answers anything; if not, what has changed since."""
    tool_digest: str
    """The tool as it was when this was allowed."""
    policy: str
    """The policy under which it was allowed."""


class Grants(OperationModel):
    """What stands."""

    grants: list[GrantRow]
    """The newest first."""


class Revoke(OperationModel):
    """What is taken back."""

    id: str = Field(min_length=1, max_length=200)
    """The grant's id."""


class Revoked(OperationModel):
    """What was taken back."""

    id: str
    tool: str
    session: str


class DeskOperations:
    """Offers the desk to people. There is no other way to answer a question."""

    def __init__(self, desk: Callable[[], Desk]) -> None:
        self._desk = desk

    def all(self) -> Sequence[Operation[Any, Any]]:
        """Return the operations."""
        return (
            Operation(
                name="approval.list",
                summary="List the tool calls that wait for somebody's approval.",
                params=Empty,
                result=Approvals,
                handler=self.list_approvals,
                scope="approve",
                rest=("GET", "/v1/approvals"),
                command="approvals list",
            ),
            Operation(
                name="approval.resolve",
                summary="Allow a waiting tool call, once or always, or deny it.",
                params=Resolve,
                result=Resolved,
                handler=self.resolve,
                scope="approve",
                rest=("POST", "/v1/approvals/resolve"),
                command="approvals resolve",
            ),
            Operation(
                name="approval.grants",
                summary="List what somebody has allowed always.",
                params=Empty,
                result=Grants,
                handler=self.list_grants,
                scope="approve",
                rest=("GET", "/v1/approvals/grants"),
                command="approvals grants",
            ),
            Operation(
                name="approval.revoke",
                summary="Take back what somebody has allowed always; such calls are asked about.",
                params=Revoke,
                result=Revoked,
                handler=self.revoke,
                scope="approve",
                rest=("POST", "/v1/approvals/revoke"),
                command="approvals revoke",
            ),
        )

    async def list_approvals(self, invocation: Invocation, params: Empty) -> Approvals:
        """Return the questions that the caller may answer."""
        waiting = await self._desk().inbox.waiting(invocation.principal)
        return Approvals(approvals=[dict(question.text) for question in waiting])

    async def resolve(self, invocation: Invocation, params: Resolve) -> Resolved:
        """Answer a question."""
        question, grant = await self._desk().resolve(
            invocation.principal,
            params.id,
            params.decision,
            digest=params.digest,
            scope=params.scope,
        )
        invocation.host.log.info(
            "approval resolved",
            tool=question.text["tool"],
            decision=params.decision,
            by=invocation.principal.id,
            session=question.text["session"],
        )
        return Resolved(
            id=question.id,
            decision=params.decision,
            tool=question.text["tool"],
            session=question.text["session"],
            grant=grant.id if grant is not None else "",
        )

    async def list_grants(self, invocation: Invocation, params: Empty) -> Grants:
        """Return what was allowed always at the addresses of the caller."""
        rows = await self._desk().rows(invocation.principal)
        return Grants(grants=[GrantRow(**row) for row in rows])

    async def revoke(self, invocation: Invocation, params: Revoke) -> Revoked:
        """Take a grant back."""
        grant = await self._desk().revoke(invocation.principal, params.id)
        invocation.host.log.info(
            "grant revoked", grant=grant.id, tool=grant.tool, by=invocation.principal.id
        )
        return Revoked(id=grant.id, tool=grant.tool, session=grant.session)
