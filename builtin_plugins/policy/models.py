"""What the operations here take and return; loaded when one is called or described."""

from __future__ import annotations

from typing import Any

from hookgate import OperationModel
from hookgate.builtin_plugins.policy.desk.approvals import Choice
from hookgate.builtin_plugins.policy.desk.grants import GrantScope, GrantState


class Approvals(OperationModel):
    """The questions that wait."""

    approvals: list[dict[str, Any]]
    """Each with all that is asked about: see the event ``approval``."""


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
    """These very arguments, calls that have the same in common, or any of this tool."""
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


class GrantRows(OperationModel):
    """What stands."""

    grants: list[GrantRow]
    """The newest first."""


class Revoked(OperationModel):
    """What was taken back."""

    id: str
    tool: str
    session: str


class ChangeRow(OperationModel):
    """One thing that is not as it was accepted."""

    part: str
    """description, schema, owner, sandbox, module, plugin, or a flag's name."""
    before: str
    """What was accepted."""
    after: str
    """What it is now."""


class ChangedTool(OperationModel):
    """A tool that waits."""

    tool: str
    plugin: str
    """Who brings it."""
    why: str
    """Why it waits."""
    digest: str
    """Its digest now: say it when you accept, and nothing else is accepted."""
    changes: list[ChangeRow]


class ChangedTools(OperationModel):
    """The tools that wait for somebody to accept them."""

    tools: list[ChangedTool]
