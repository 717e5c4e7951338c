"""Tools that a request brings and its client runs: what of them is believed.

So it is with a conversation that the caller keeps. It may hold calls that nobody has judged, and
results of whatever text: a call is over as a decided one only where this gateway released it in
the same session, and each result is foreign text unless whoever reads it says why not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hookgate.core.domain.descriptors import FLAG_NAMES, Flags, identity
from hookgate.core.domain.errors import ClientToolError
from hookgate.core.domain.messages import CLEAN, ToolResultPart, join_taints
from hookgate.core.domain.parts import Document, came_as
from hookgate.core.domain.ports import CONVERSATIONS
from hookgate.core.domain.tools import Decision, ToolResult
from hookgate.core.registry.admission import frozen_json
from hookgate.core.turn.tools.call import Call, unknown_tool
from hookgate.core.turn.tools.round import MISSING, each, results_message

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from hookgate.core.domain.messages import Message, Taint, ToolUse
    from hookgate.core.domain.tools import Tool
    from hookgate.core.domain.turn import Principal, Turn, TurnRequest
    from hookgate.core.host import Host
    from hookgate.core.turn.tools.call import ToolCalls

FOREIGN: Taint = frozenset(("client:history",))
"""What taints a result in a conversation that the caller keeps."""

UNVERIFIED: Taint = frozenset(("client:unverified",))
"""What taints the result of a call that this gateway has never released."""

UNDECLARED = Flags()

DECIDED = Decision.allow("decided when the call was made")

RELEASED_TURNS = 64
"""Of so many of a session's last turns the calls may still be answered by a client that keeps the
conversation itself: other conversations of the same session may have gone on meanwhile."""

MOST_RECORDED = 100
"""So many unverified calls of one request are named in the record; beyond that they are counted."""
MOST_CHARS = 200
"""Characters of a name or an id there: it is whatever the client wrote."""


def admitted(
    brought: Sequence[Tool],
    own: Mapping[str, Tool],
    principal: Principal,
    believed: Collection[str],
) -> tuple[Tool, ...]:
    """Return the tools of a request as they may be offered.

    Args:
        brought: The tools, as the request declares them.
        own: The gateway's own tools by name.
        principal: Who brings them.
        believed: The ids of the principals whose declarations are believed.

    Raises:
        ClientToolError: One has the name of a tool of the gateway's own, or of another.
    """
    if not brought:
        return ()
    seen: dict[str, str] = {}
    tools: list[Tool] = []
    names = {identity(name): name for name in own}
    is_believed = principal.id in believed or "*" in believed
    for tool in brought:
        name = identity(tool.name)
        if name in names or name in seen:
            whose = "this gateway" if name in names else "the same request"
            other = names.get(name) or seen[name]
            known = "one of that name" if other == tool.name else f"{other!r}"
            raise ClientToolError(
                f"the request brings a tool {tool.name!r}, and {whose} has {known}",
                code="client_tool_taken",
                action="give the client's tool another name",
                data={"tool": tool.name},
            )
        seen[name] = tool.name
        tools.append(_made(tool) if is_believed else tool.offered or _offered(tool))
    return tuple(tools)


def _made(tool: Tool, *, believed: bool = True) -> Tool:
    """Return a tool of a request as its client's, whatever it says that it is."""
    flags = replace(tool.flags, proven=frozenset())
    if not believed:
        flags = stricter(flags)
    made = replace(tool, owner="client", sandbox="client", run=None, flags=flags)
    return came_as(made, tool.raw)


def _offered(tool: Tool) -> Tool:
    """Return a tool of a request as one whose flags are not believed.

    One that came by a wire is kept with what it was made of, and cannot be changed any more:
    agents bring the same tools with each request, and what was found of one holds for all.
    """
    made = _made(tool, believed=False)
    if tool.raw is not None:
        made = came_as(replace(made, schema=frozen_json(tool.schema)), tool.raw)
        object.__setattr__(made, "admitted", True)
        object.__setattr__(tool, "offered", made)
    return made


def stricter(flags: Flags) -> Flags:
    """Return what of a declaration can be believed of anybody: a True, and never a False."""
    believed = {name: True for name in FLAG_NAMES if flags.get(name)}
    # Agents bring dozens of tools with each request, and mostly declare nothing.
    return Flags.from_mapping(believed) if believed else UNDECLARED


def unanswered(history: Sequence[Message]) -> tuple[ToolUse, ...]:
    """Return the calls in `history` that wait for their client still, one of each id."""
    answered: set[str] = set()
    for message in reversed(history):
        if message.role == "assistant":
            left = {use.id: use for use in message.tool_uses if use.id not in answered}
            return tuple(left.values())
        answered.update(part.tool_use_id for part in message.tool_results)
    return ()


def brought_history(
    request: TurnRequest,
) -> tuple[Sequence[Message], tuple[ToolResultPart, ...]]:
    """Return the conversation that a caller keeps, tainted, and the results that it brings now.

    Results at its end that answer the last calls are brought now, wherever the caller put them.
    """
    history = request.client_history or ()
    end = len(history)
    while end and history[end - 1].role == "tool" and not history[end - 1].turn:
        end -= 1
    parts = [part for message in history[end:] for part in message.parts]
    results = [part for part in parts if isinstance(part, ToolResultPart)]
    waiting = {use.id for use in unanswered(history[:end])}
    if len(results) < len(parts) or not waiting.issuperset(part.tool_use_id for part in results):
        end, results = len(history), []
    taint = CLEAN if request.clean_results else FOREIGN
    tainted = [with_taint(message, taint) for message in history[:end]]
    return _in_turns(tainted), (*results, *request.tool_results)


def _in_turns(messages: Iterable[Message]) -> list[Message]:
    """Return messages with the turn that each is of: a caller's conversation has none.

    What does not fit the context is left out turn by turn, and with each user message one begins.
    """
    found: list[Message] = []
    number = 0
    for message in messages:
        number += message.role == "user"
        found.append(replace(message, turn=f"client_{number}"))
    return found


def with_taint(message: Message, taint: Taint) -> Message:
    """Return `message` with its results tainted, and with what taints them and its documents.

    One of the gateway's own turns has what taints it already.
    """
    if message.plain or message.turn:
        return message
    parts = tuple(
        came_as(replace(part, taint=part.taint | taint), part.raw)
        if isinstance(part, ToolResultPart)
        else part
        for part in message.parts
    )
    carried = [part.taint for part in parts if isinstance(part, ToolResultPart)]
    if any(isinstance(part, Document) for part in parts):
        carried.append(taint)
    if not carried:
        return message
    tainted = replace(message, parts=parts, taint=message.taint | join_taints(carried))
    return came_as(tainted, message.raw)


class HeldCalls:
    """The calls that wait for their client, and what it brings of them.

    Args:
        host: The host.
        calls: Checks the results, and says that the calls are over.
        turn: The turn that brings them.
        waiting: The calls, as whoever keeps the conversation tells of them.
    """

    def __init__(
        self, host: Host, calls: ToolCalls, turn: Turn, waiting: Sequence[ToolUse]
    ) -> None:
        self._host = host
        self._calls = calls
        self._turn = turn
        self._waiting = waiting
        self._decided: list[Call] = []

    async def take(self, given: Sequence[ToolResultPart], stored: Sequence[Message]) -> Message:
        """Return what the calls came to: what the client brought, past `after_tool_call`.

        A call for which it brought nothing is answered with an error. What calls came to that
        this gateway has not released is hearsay, and recorded as that.

        Args:
            given: What the client brought.
            stored: The session's last messages, of which there may be more.
        """
        turn, brought = self._turn, {part.tool_use_id: part for part in given}
        released = await self._released(stored)
        hearsay = [use for use in self._waiting if use.id in brought and use.id not in released]
        await self._record(hearsay)
        every = []
        for told in self._waiting:
            use, is_known = released.get(told.id, told), told.id in released
            every.append(await self._ended(use, brought.get(use.id), is_known=is_known))
        self._decided = [item for item in every if item.use.id in released]
        return results_message(turn, every)

    async def _ended(self, use: ToolUse, part: ToolResultPart | None, *, is_known: bool) -> Call:
        """Return a call with what its client brought of it, past `after_tool_call`."""
        turn = self._turn
        own = {tool.name: tool for tool in turn.client_tools}
        item = Call(use, depth=turn.depth, index=turn.next_index(), decision=DECIDED)
        # The caller of this turn may declare the tool no more: what it does is not known.
        tool = own.get(use.name) or unknown_tool(use.name, "client")
        item.call = item.of(tool, {} if isinstance(use.input, str) else use.input)
        if part is None:
            item.result = ToolResult.error("the client brought no result", status="cancelled")
            return item
        brought = ToolResult(
            content=part.content,
            is_error=part.is_error,
            taint=part.taint | (CLEAN if is_known else UNVERIFIED),
            status="failed" if part.is_error else "done",
        )
        item.result = await self._calls.after(turn, item.call, brought)
        return item

    async def over(self) -> None:
        """Say what the calls came to, as if they had run here, once that is committed.

        Until then the results may be brought again. Of what was not released nothing is said.
        """
        await each(
            self._decided,
            lambda item: self._calls.end(self._turn, item, item.result or MISSING),
        )

    async def _released(self, stored: Sequence[Message]) -> Mapping[str, ToolUse]:
        """Return those calls that this gateway released in the session, as it released them."""
        found = _open_calls(stored)
        if any(use.id not in found for use in self._waiting):
            session, conversations = self._turn.session, self._host[CONVERSATIONS]
            found = _open_calls(await conversations.history(session, turns=RELEASED_TURNS))
        own = ((use, found.get(use.id)) for use in self._waiting)
        return {use.id: call for use, call in own if call is not None and call.name == use.name}

    async def _record(self, uses: Sequence[ToolUse]) -> None:
        """Record that a client told of calls and what they came to, which nobody released."""
        if not uses:
            return
        turn, most = self._turn, MOST_CHARS
        data = {
            "turn": turn.id,
            "session": str(turn.session),
            "principal": turn.principal.id,
            "count": len(uses),
            "calls": [
                {"id": use.id[:most], "tool": use.name[:most]} for use in uses[:MOST_RECORDED]
            ],
        }
        self._host.log.warning("results of calls that were never released", **data)
        await self._host.record("tool_unverified", **data)


def _open_calls(stored: Sequence[Message]) -> dict[str, ToolUse]:
    """Return the calls in `stored` without a result; what has not run here was given one."""
    found: dict[str, ToolUse] = {}
    for message in stored:
        for part in message.tool_results:
            if not part.taint >= UNVERIFIED:  # hearsay closes nothing
                found.pop(part.tool_use_id, None)
        if message.role == "assistant":
            found.update((use.id, use) for use in message.tool_uses)
    return found
