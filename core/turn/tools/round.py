"""One round of tool calls: all the calls of one message of the model.

They are judged in the order of the message before any of them runs, then run side by
side. Whatever happens, every call gets a result, so that a stored conversation never
holds a call without one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

import orjson

from hookgate.core.domain.errors import HookError
from hookgate.core.domain.events import Event
from hookgate.core.domain.messages import (
    CLEAN,
    Message,
    Provenance,
    ToolResultPart,
    join_taints,
)
from hookgate.core.domain.tools import Decision, ToolCall, ToolResult
from hookgate.core.hooks.shielding import finish
from hookgate.core.turn.tools.call import cut_short, may_use
from hookgate.core.turn.tools.client import UNVERIFIED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from hookgate.core.domain.messages import ToolUse
    from hookgate.core.domain.tools import Tool
    from hookgate.core.domain.turn import FinishedCall, Turn
    from hookgate.core.host import Host
    from hookgate.core.turn.tools.call import Judged, ToolCalls

T = TypeVar("T")


def results_message(
    turn: Turn, results: Sequence[tuple[ToolUse | ToolCall, ToolResult]]
) -> Message:
    """Return the message that brings the results of calls back to the model."""
    parts = tuple(_part(use, result) for use, result in results)
    return Message(
        role="tool",
        parts=parts,
        taint=join_taints(part.taint for part in parts),
        provenance=Provenance.TOOL_RESULT,
        turn=turn.id,
    )


def _part(use: ToolUse | ToolCall, result: ToolResult) -> ToolResultPart:
    return ToolResultPart(
        tool_use_id=use.id, content=result.content, is_error=result.is_error, taint=result.taint
    )


class ToolRound:
    """The calls of one message.

    Attributes:
        pending: The calls that wait for their client.
    """

    def __init__(self, host: Host, calls: ToolCalls, turn: Turn, uses: Sequence[ToolUse]) -> None:
        self._host = host
        self._calls = calls
        self._turn = turn
        limit = host.settings.turn.max_tool_calls
        self._uses = uses
        self._may_run, self._beyond = uses[:limit], uses[limit:]
        self._before = len(turn.calls)
        self._results: dict[str, ToolResult] = {}
        self.pending: tuple[Judged, ...] = ()

    async def run(self) -> None:
        """Judge all calls, then run those that may run. See `message` for what came out."""
        self._refuse_the_rest()
        judged: list[Judged] = []
        cut: BaseException | None = None
        try:
            await self._judge(judged)
            await self._run_judged(judged)
        except BaseException as error:
            # Nobody is told of them, so nobody will bring their results.
            self.pending, cut = (), error
            raise
        finally:
            await self._end(judged, cut)
        for item in self.pending:
            _announce(self._turn, item)

    async def _run_judged(self, judged: Sequence[Judged]) -> None:
        mine = [item for item in judged if not _is_clients(item)]
        if len(mine) < len(judged):
            if self._beyond or not all(item.allowed for item in judged):
                await self._send_back(judged)
                return
            self.pending = tuple(item for item in judged if _is_clients(item))
        await self._run(mine)
        # The client runs them from now on, so this is the moment that counts for them.
        now = tuple(self._calls.still(self._turn, item) for item in self.pending)
        if not all(item.allowed for item in now):
            self.pending = ()
            await self._send_back(now)

    def message(self) -> Message | None:
        """Return the results so far as a message; None where there are none yet.

        A call that has no result, because the turn was cut short, gets one that says so.
        """
        waiting = {item.use.id for item in self.pending}
        missing = ToolResult.error("the turn ended before this call could run")
        # A call may be over although the round was cut short before it heard of that.
        over = {item.call.id: item.result for item in self._turn.calls[self._before :]}
        results = over | self._results
        answers = [
            (use, results.get(use.id, missing)) for use in self._uses if use.id not in waiting
        ]
        return results_message(self._turn, answers) if answers else None

    def failure(self) -> FinishedCall | None:
        """Return the first call of this round that was allowed, and whose tool failed."""
        return next(
            (
                item
                for item in self._turn.calls[self._before :]
                if item.decision.allowed
                and item.result.is_error
                and item.result.status != "cancelled"
            ),
            None,
        )

    def reveal(self) -> None:
        """Offer the tools that results have revealed, from the next request on."""
        turn = self._turn
        for result in self._results.values():
            for name in result.reveal:
                tool = turn.snapshot.tools.get(name)
                if tool is not None and name not in turn.offered and may_use(turn, tool):
                    turn.offered[name] = tool

    def _refuse_the_rest(self) -> None:
        """Answer the calls past the limit; neither the client nor a plugin hears of each."""
        if self._beyond:
            limit = len(self._may_run)
            refused = ToolResult.error(
                f"not run: at most {limit} calls of one message are, so call fewer at once"
            )
            self._results.update((use.id, refused) for use in self._beyond)

    async def _judge(self, judged: list[Judged]) -> None:
        index = len(self._turn.calls)
        for number, use in enumerate(self._may_run):
            judged.append(await self._calls.judge(self._turn, use, index=index + number))
            if len(self._may_run) > 1:
                # Judging need not wait for anything: others get their turn in between.
                await asyncio.sleep(0)

    async def _end(self, judged: Sequence[Judged], cut: BaseException | None) -> None:
        """End every call that was decided on, is not over and waits for no client.

        They have waited for a place, for the judging of another one, or for nothing any more.
        """
        waiting = {item.use.id for item in self.pending}
        over = {item.call.id for item in self._turn.calls[self._before :]}
        left = [item for item in judged if item.use.id not in waiting | over]
        result = cut_short(cut or asyncio.CancelledError())

        async def end(item: Judged) -> None:
            if item.call is not None and item.decision is not None:
                await self._calls.finished(self._turn, item.call, item.decision, result)

        if left:
            await finish(_each(left, end))

    async def _run(self, judged: Sequence[Judged]) -> None:
        places = asyncio.Semaphore(self._host.settings.turn.tool_concurrency)

        async def one(item: Judged) -> None:
            async with places:
                self._results[item.use.id] = await self._calls.run(self._turn, item)

        if len(judged) == 1:
            await one(judged[0])
            return
        # All of them end before a failure of one is raised: each has its own side effects.
        outcomes = await asyncio.gather(*(one(item) for item in judged), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _send_back(self, judged: Sequence[Judged]) -> None:
        """Answer a message with a denial in it whole, without running any of its calls."""

        async def back(item: Judged) -> None:
            if item.allowed and item.call is not None and item.decision is not None:
                result = ToolResult.error(
                    "not run: another call of the same message was denied", status="denied"
                )
                await self._calls.finished(self._turn, item.call, item.decision, result)
                self._results[item.use.id] = result
            else:
                self._results[item.use.id] = await self._calls.run(self._turn, item)

        await finish(_each(judged, back))


def _is_clients(item: Judged) -> bool:
    return item.call is not None and item.call.tool.owner == "client"


async def _each(items: Sequence[T], tell: Callable[[T], Awaitable[object]]) -> None:
    """Tell of each item, also where telling of one fails; the first failure is raised."""
    failure: HookError | None = None
    for item in items:
        try:
            await tell(item)
        except HookError as error:
            failure = failure or error
    if failure is not None:
        raise failure


def _announce(turn: Turn, item: Judged) -> None:
    # The client runs what was judged, which a plugin may have rewritten.
    use, arguments = item.use, orjson.loads(item.arguments)
    data = {"id": use.id, "name": use.name, "input": arguments, "owner": "client"}
    turn.emit(Event("tool_use", data, scope="chat"))


async def client_results(
    turn: Turn,
    calls: ToolCalls,
    waiting: Sequence[ToolUse],
    decided: Mapping[str, ToolUse],
    given: Sequence[ToolResultPart],
    tools: Sequence[Tool],
) -> Sequence[tuple[ToolCall, ToolResult]]:
    """Return what `waiting` came to: what the client brought back, past `after_tool_call`.

    A call for which the client brought nothing is answered with an error. For those that are
    `decided`, by id and as they were released, `client_finished` follows once the results are
    committed: until then they may be brought again. What the others came to is hearsay.
    """
    by_id = {part.tool_use_id: part for part in given}
    by_name = {tool.name: tool for tool in tools}
    brought_back = []
    for index, told in enumerate(waiting):
        use, hearsay = decided.get(told.id, told), CLEAN if told.id in decided else UNVERIFIED
        part = by_id.get(use.id)
        tool = by_name.get(use.name) or _forgotten(use.name)
        arguments = {} if isinstance(use.input, str) else use.input
        call = ToolCall(id=use.id, tool=tool, arguments=arguments, depth=turn.depth, index=index)
        if part is None:
            result = ToolResult.error("the client brought no result", status="cancelled")
        else:
            status = "failed" if part.is_error else "done"
            brought = ToolResult(
                content=part.content,
                is_error=part.is_error,
                taint=part.taint | hearsay,
                status=status,  # type: ignore[arg-type]
            )
            result = await calls.after(turn, call, brought)
        brought_back.append((call, result))
    return brought_back


async def client_finished(
    turn: Turn, calls: ToolCalls, results: Sequence[tuple[ToolCall, ToolResult]]
) -> None:
    """Say what calls came to that a client has run, as if they had run here."""
    decision = Decision.allow("decided when the call was made")

    async def tell(item: tuple[ToolCall, ToolResult]) -> None:
        await calls.finished(turn, item[0], decision, item[1])

    await _each(results, tell)


def _forgotten(name: str) -> Tool:
    # The caller of this turn no longer declares the tool. What it does is not known.
    from hookgate.core.domain.tools import Tool

    return Tool(name=name, description="", schema={"type": "object"}, owner="client")
