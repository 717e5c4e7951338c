"""The operations of quarantine: what has changed, and accepting it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from hookgate import Empty, Invocation, Operation, OperationModel, TurnError
from hookgate.settings import redact_json

if TYPE_CHECKING:
    from hookgate.builtin_plugins.policy.desk.quarantine import Quarantine


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


class Accept(OperationModel):
    """What is accepted: a tool or all."""

    name: str = Field(default="", max_length=64)
    """The tool's name."""
    all: bool = False
    """All tools that wait."""
    digest: str = Field(default="", max_length=64)
    """The tool's digest as it was shown; refused where it is another by now."""


class Accepted(OperationModel):
    """What was accepted."""

    tools: list[str]
    """Names of tools that may run again; one that was accepted before is not among them."""


class PinOperations:
    """Offers the quarantine to people."""

    def __init__(self, quarantine: Callable[[], Quarantine]) -> None:
        self._quarantine = quarantine

    def all(self) -> Sequence[Operation[Any, Any]]:
        """Return the operations."""
        return (
            Operation(
                name="tools.changes",
                summary="Show the tools in quarantine, with what of them has changed.",
                params=Empty,
                result=ChangedTools,
                handler=self.changes,
                rest=("GET", "/v1/tools/changes"),
            ),
            Operation(
                name="tools.accept",
                summary="Accept tools as they are now; they may run again.",
                params=Accept,
                result=Accepted,
                handler=self.accept,
                scope="operate",
                rest=("POST", "/v1/tools/accept"),
            ),
        )

    async def changes(self, invocation: Invocation, params: Empty) -> ChangedTools:
        """Return the tools that wait, with all that has changed."""
        rows = self._quarantine().rows()
        return ChangedTools.model_validate(
            redact_json(invocation.host.secrets, {"tools": list(rows)})
        )

    async def accept(self, invocation: Invocation, params: Accept) -> Accepted:
        """Accept tools as they are now."""
        if bool(params.name) == params.all or (params.all and params.digest):
            raise TurnError(
                "found neither a tool nor `all`, or both",
                code="invalid_params",
                action="name a tool, with its digest if you like, or say `all`",
            )
        tools = await self._quarantine().accept(
            params.name, by=invocation.principal.id, digest=params.digest
        )
        return Accepted(tools=[tool.name for tool in tools])
