"""One round of tool calls: all the calls of one message of the model.

They are judged in the order of the message before any of them runs, then run side by
side. Whatever happens, every call gets a result, so that a stored conversation never
holds a call without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import orjson

from hookgate.core.domain.errors import HookError
from hookgate.core.domain.events import Event
from hookgate.core.domain.messages import Message, Provenance, ToolResultPart, ToolUse, join_taints
from hookgate.core.domain.models import ToolUseEvent
from hookgate.core.domain.tools import ToolResult
from hookgate.core.domain.turn import Turn
from hookgate.core.hooks.tasks import finish
from hookgate.core.turn.tools.call import Call, ToolCalls, cut_short, may_use

if TYPE_CHECKING:
    from hookgate.core.host import Host

T = TypeVar("T")

MISSING = ToolResult.error("the turn ended before this call could run")
"""What a call came to that has no result since its turn was cut short."""


def results_message(turn: Turn, calls: Iterable[Call]) -> Message:
    """Return the message that brings the results of calls back to the model."""
    parts = []
    for item in calls:
        use_id, result = item.use.id, item.result or MISSING
        parts.append(
            ToolResultPart(
                tool_use_id=use_id,
                content=result.content,
                is_error=result.is_error,
                taint=result.taint,
            )
        )
    return Message(
        role="tool",
        parts=tuple(parts),
        taint=join_taints(part.taint for part in parts),
        provenance=Provenance.TOOL_RESULT,
        turn=turn.id,
    )


async def each(items: Iterable[T], tell: Callable[[T], Awaitable[object]]) -> None:
    """Tell of each item, also where telling of one fails; the first failure is raised."""
    failure: HookError | None = None
    for item in items:
        try:
            await tell(item)
        except HookError as error:
            failure = failure or error
    if failure is not None:
        raise failure


class ToolRound:
    """The calls of one message.

    Args:
        host: The host.
        calls: Judges and runs them.
        turn: The turn.
        uses: The calls.
        came: By id, what those came as that were passed on as they came.

    Attributes:
        pending: The calls that wait for their client.
    """

    def __init__(
        self,
        host: Host,
        calls: ToolCalls,
        turn: Turn,
        uses: Sequence[ToolUse],
        came: Mapping[str, ToolUseEvent],
    ) -> None:
        self._host = host
        self._calls = calls
        self._turn = turn
        self._came = came
        self._items = [Call(use) for use in uses]
        limit = host.settings.turn.max_tool_calls
        self._may_run, self._beyond = self._items[:limit], self._items[limit:]
        self.pending: list[Call] = []

    async def run(self) -> None:
        """Judge all calls, then run those that may run. See `message` for what came out."""
        # Neither the client nor a plugin hears of each of those past the limit.
        for item in self._beyond:
            item.result = ToolResult.error(
                f"not run: at most {len(self._may_run)} calls of one message are, so call fewer "
                "at once"
            )
        cut: BaseException = asyncio.CancelledError()
        try:
            await self._judge()
            await self._run_judged()
        except BaseException as error:
            # Nobody is told of them, so nobody will bring their results.
            self.pending, cut = [], error
            raise
        finally:
            await self._end(cut)
        # The client runs what was judged, which a plugin may have rewritten.
        self._turn.pending = tuple(
            replace(item.use, input=orjson.loads(item.arguments)) for item in self.pending
        )
        if self._turn.ephemeral:
            self._calls.open.release(self._turn.session, self._turn.pending)
        for use in self._turn.pending:
            data = {"id": use.id, "name": use.name, "input": use.input, "owner": "client"}
            event = self._came.get(use.id)
            as_it_came = event is not None and event.input == use.input
            value = event if as_it_came else None
            self._turn.emit(Event("tool_use", data, scope="chat", value=value))

    async def _judge(self) -> None:
        for item in self._may_run:
            await self._calls.judge(self._turn, item)
            if len(self._may_run) > 1:
                # Judging need not wait for anything: others get their turn in between.
                await asyncio.sleep(0)

    async def _run_judged(self) -> None:
        judged = self._may_run
        clients = [item for item in judged if item.call and item.call.tool.owner == "client"]
        if clients and (self._beyond or not all(item.allowed for item in judged)):
            await self._send_back(judged)
            return
        self.pending = clients
        await self._run([item for item in judged if item not in clients] if clients else judged)
        # The client runs them from now on, so this is the moment that counts for them.
        if [item for item in clients if not self._calls.recheck(self._turn, item)]:
            self.pending = []
            await self._send_back(clients)

    async def _run(self, judged: Sequence[Call]) -> None:
        if len(judged) == 1:
            await self._calls.run(self._turn, judged[0])
            return
        places = asyncio.Semaphore(self._host.settings.turn.tool_concurrency)

        async def one(item: Call) -> None:
            async with places:
                await self._calls.run(self._turn, item)

        # All of them end before a failure of one is raised: each has its own side effects.
        outcomes = await asyncio.gather(*map(one, judged), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _send_back(self, judged: Sequence[Call]) -> None:
        """Answer a message with a denial in it whole, without running any of its calls."""
        why = "not run: another call of the same message was denied"

        async def back(item: Call) -> None:
            if item.allowed:
                await self._calls.end(self._turn, item, ToolResult.error(why, status="denied"))
            else:
                await self._calls.run(self._turn, item)

        await finish(each(judged, back))

    async def _end(self, cut: BaseException) -> None:
        """End every call that was judged, is not over and waits for no client.

        They have waited for a place, for the judging of another one, or for nothing any more.
        """
        left = [
            item
            for item in self._may_run
            if item.call is not None and item.result is None and item not in self.pending
        ]
        if left:
            result = cut_short(cut)
            await finish(each(left, lambda item: self._calls.end(self._turn, item, result)))

    # -- what came out -------------------------------------------------------

    def message(self) -> Message | None:
        """Return the results so far as a message; None where all calls wait for the client."""
        answered = [item for item in self._items if item not in self.pending]
        return results_message(self._turn, answered) if answered else None

    def failure(self) -> tuple[str, ToolResult] | None:
        """Return name and result of the first call that was allowed, and whose tool failed."""
        for item in self._may_run:
            result = item.result
            if item.allowed and result and result.is_error and result.status != "cancelled":
                return item.use.name, result
        return None

    def reveal(self) -> None:
        """Offer the tools that results have revealed, from the next request on."""
        turn = self._turn
        if turn.verbatim:
            return  # Its request has said what is offered.
        for item in self._items:
            for name in item.result.reveal if item.result else ():
                tool = turn.snapshot.tools.get(name)
                if tool is not None and name not in turn.offered and may_use(turn, tool):
                    turn.offered[name] = tool
