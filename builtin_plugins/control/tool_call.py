"""`tools.call`: a client calls a tool by itself, and no model is asked."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from hookgate import Event, Invocation, OperationModel, Origin, Provenance, operation
from hookgate.builtin_plugins.control.chat import AddressParams, Name
from hookgate.wire import CONTENT_FORMS


class ToolCallParams(AddressParams):
    """A call of a tool, on behalf of an address."""

    name: Name
    """The tool."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """What it is called with."""


class DecisionRow(OperationModel):
    """What was decided on a call."""

    effect: Literal["allow", "deny"]
    """Whether it was allowed."""
    reason: str
    """Why, for people."""
    by: str
    """The plugin that decided, or who answered."""
    rule: str
    """The rule, where one decided."""


class ToolCalled(OperationModel):
    """What a call came to."""

    id: str
    """The id of the call, as the record of decisions has it."""
    name: str
    """The tool."""
    status: Literal["done", "failed", "denied", "cancelled", "timeout"]
    """What became of it."""
    content: str
    """What the tool returned, or why it did not run, as text."""
    parts: tuple[dict[str, Any], ...] = ()
    """The parts of a result that is more than plain text, each as it is stored."""
    is_error: bool
    """Whether it failed, was denied or was cancelled."""
    taint: tuple[str, ...]
    """Where text of others in `content` came from; none where it is the gateway's own."""
    decision: DecisionRow
    """What was decided before it ran."""


@operation("tools.call", also="tool.call", scope="chat", streams=True)
async def call_tool(invocation: Invocation, params: ToolCallParams) -> ToolCalled:
    """Call a tool without asking a model: judged, asked and recorded as a model's call would be."""
    origin = Origin(provenance=Provenance.EXTERNAL_USER, path=invocation.path)

    def sink(event: Event) -> None:
        # What the tool returned is the operation's result.
        if event.type != "tool_result":
            invocation.emit(event)

    made = await invocation.host.call_tool(
        invocation.principal,
        origin,
        params.to_address(),
        params.name,
        params.arguments,
        sink=sink,
    )
    result, decision = made.result, made.decision
    parts = () if isinstance(result.content, str) else result.content
    return ToolCalled(
        id=made.call.id,
        name=made.call.name,
        status=result.status,
        content=result.text,
        parts=tuple(map(CONTENT_FORMS.to_json, parts)),
        is_error=result.is_error,
        taint=tuple(sorted(result.taint)),
        decision=DecisionRow(
            effect="allow" if decision.allowed else "deny",
            reason=decision.reason,
            by=decision.by,
            rule=decision.rule,
        ),
    )
