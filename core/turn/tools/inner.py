"""Calls within a turn: what a tool, a provider or a hook calls, and not the turn's model.

Such a call is judged, asked about, recorded and finished as any other. Taint is joined both ways:
it is judged with what the turn and whoever calls have read, and what it has read taints both
before anybody has its result. It ends before its turn does, and their number and depth are bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson

from hookgate.core.domain.errors import HookError, LaneHeldError, TurnCancelledError, TurnError
from hookgate.core.domain.events import Event
from hookgate.core.domain.messages import CLEAN, Taint, ToolUse, new_id
from hookgate.core.domain.strict_json import canonical
from hookgate.core.domain.tools import ToolResult
from hookgate.core.domain.turn import BEGUN_IN, HERE, FinishedCall, Turn, TurnKey
from hookgate.core.hooks.tasks import contained_task, until_over
from hookgate.core.settings.secret_store import redact_json
from hookgate.core.turn.shared import ACTS, SHARED, only_looks
from hookgate.core.turn.tools.call import Call, ToolCalls

if TYPE_CHECKING:
    from hookgate.core.host import Host


class _Made:
    """The calls that were made within one turn.

    Attributes:
        count: How many there were.
        under_way: Those that are not over, with their tasks.
        failure: What a required hook came to in one of them: whoever called may have passed it
            over, and the turn may not.
    """

    def __init__(self) -> None:
        self.count = 0
        self.under_way: dict[asyncio.Task[FinishedCall], Call] = {}
        self.failure: HookError | None = None


MADE: TurnKey[_Made] = TurnKey("inner calls")
"""Stands in a turn in which calls were made."""


class InnerCalls:
    """Makes calls within turns."""

    def __init__(self, host: Host, calls: ToolCalls) -> None:
        self._host = host
        self._calls = calls

    async def make(
        self, turn: Turn, name: str, arguments: Mapping[str, Any], taint: Taint = CLEAN
    ) -> FinishedCall:
        """Call a tool within `turn`; see `Turn.call`."""
        if not turn.takes_calls:
            raise TurnError(
                f"turn {turn.id} takes no calls now: it has not chosen its tools yet, or is over",
                code="no_calls_now",
                action="call while the turn runs, from `before_context_build` to its last tool",
            )
        made = turn.get(MADE)
        if made is None:
            made = turn[MADE] = _Made()
        most = self._host.settings.turn.max_inner_calls
        if made.count >= most:
            raise TurnError(
                f"turn {turn.id} has had its {most} calls of tools, providers and hooks "
                "(`turn.max_inner_calls`)",
                code="too_many_inner_calls",
                action="call less within one turn, or raise `turn.max_inner_calls`",
            )
        if turn.get(SHARED) and not only_looks(turn.snapshot.tools.get(name)):
            raise TurnError(
                f"{name!r} may act, and the tool that calls it declares that it only looks: it "
                "shares its session's lane, and what acts has that alone",
                code="lane_shared",
                action="let the tool that calls declare what its calls may do "
                f"({', '.join(ACTS)}), or leave that undeclared",
            )
        use = ToolUse(id=new_id("call"), name=name, input=json_ready(arguments))
        item = self._placed(turn, Call(use, inner=True), made)
        made.count += 1
        turn.extra_taint |= taint | _of_caller(item.outer) | _of_elsewhere(turn)
        task = contained_task(self._made(turn, item, made))
        made.under_way[task] = item
        task.add_done_callback(made.under_way.pop)
        try:
            await _ended(task)
        finally:
            _has_read_elsewhere(turn, item)
        if task.cancelled():
            raise TurnCancelledError(f"turn {turn.id} ended before the call of {name!r} had")
        return task.result()

    def _placed(self, turn: Turn, item: Call, made: _Made) -> Call:
        """Find out in which call it is made, and how deep that is.

        Raises:
            LaneHeldError: Too deep.
        """
        here = HERE.get()
        if here is not None and here[0] is turn:
            item.outer = here[1]
            item.depth = turn.depth if item.outer is None else item.outer.depth + 1
        else:
            # Work of a plugin's own: it may be that of any call, so it is that of the deepest.
            depths = [call.depth for call in made.under_way.values()]
            if here is not None and here[1] is not None:
                depths.append(here[1].depth)
            item.depth = max(depths) + 1 if depths else turn.depth
        limit = self._host.settings.turn.max_depth
        if item.depth > limit:
            raise LaneHeldError(
                f"a call of {item.use.name!r} would be nested {item.depth} deep, and {limit} is "
                "the limit (`turn.max_depth`)",
                action="raise `turn.max_depth`, or do not nest so deep",
            )
        return item

    async def _made(self, turn: Turn, item: Call, made: _Made) -> FinishedCall:
        use, outer = item.use, item.outer
        told = {"id": use.id, "name": use.name, "input": use.input, "within": item.within}
        turn.emit(Event("tool_use", redact_json(self._host.secrets, told), scope="chat"))
        now = asyncio.get_running_loop().time

        async def keep(result: ToolResult) -> ToolResult:
            _has_read(turn, outer, result.taint)
            return result

        if outer is not None:
            if not outer.waits:
                outer.since = now()
            outer.waits += 1
        try:
            await self._calls.judge(turn, item)
            await self._calls.run(turn, item, keep=keep)
        except HookError as error:
            made.failure = made.failure or error
            raise
        finally:
            if outer is not None:
                outer.waits -= 1
                if not outer.waits:
                    outer.waited += now() - outer.since
        return next(one for one in reversed(turn.calls) if one.call.id == use.id)


def _of_caller(outer: Call | None) -> Taint:
    """Return what the tools that call may have read themselves, before they have said so."""
    taint: Taint = CLEAN
    while outer is not None:
        if outer.call is not None and outer.call.flags.reads_external_data is not False:
            taint |= {f"tool:{outer.call.name}"}
        outer = outer.outer
    return taint


def _elsewhere(turn: Turn) -> tuple[Turn, Call | None] | None:
    """Return where whoever calls within `turn` is, or was when its work was spawned.

    None where that is the turn itself, since what is called in it is its outer call already; and
    where it is a turn that is over, since who outlives one works for others.
    """
    here = HERE.get()
    if here is None:
        here = BEGUN_IN.get()
        return None if here is None or here[0].ending is not None else here
    return None if here[0] is turn or here[0].ending is not None else here


def _of_elsewhere(turn: Turn) -> Taint:
    """Return what whoever calls may have read, where they do not run within `turn` itself."""
    there = _elsewhere(turn)
    return CLEAN if there is None else there[0].taint | _of_caller(there[1])


def _has_read_elsewhere(turn: Turn, item: Call) -> None:
    """Taint whence a call was made with what it came to, if that is not its own turn."""
    there = _elsewhere(turn)
    if there is not None and item.result is not None:
        _has_read(*there, item.result.taint)


def _has_read(turn: Turn, outer: Call | None, taint: Taint) -> None:
    """Taint a turn, and the calls in which one was made, with what that one came to."""
    turn.extra_taint |= taint
    while outer is not None:
        outer.read |= taint
        outer = outer.outer


def json_ready(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a copy of the arguments of a call, as a model would have written them.

    Raises:
        TurnError: They are no JSON object.
    """
    try:
        copy: Mapping[str, Any] = orjson.loads(canonical(dict(arguments)))
    except (TypeError, ValueError) as error:
        raise TurnError.invalid(
            f"found arguments that are no JSON object: {error}",
            "pass texts, numbers, lists and mappings of them, by name",
        ) from None
    return copy


async def _ended(task: asyncio.Task[FinishedCall]) -> None:
    """Wait for a call; it is for whoever waits, so it is cancelled with them, and settles."""
    try:
        await until_over(task)
    except asyncio.CancelledError:
        while not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await until_over(task)
        raise


async def end_calls(turn: Turn) -> None:
    """Take no more calls within `turn`, and end those that are under way.

    Raises:
        HookError: A required hook failed in one of them.
    """
    turn.takes_calls = False
    made = turn.get(MADE)
    if made is None:
        return
    tasks = tuple(made.under_way)
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
    if made.failure is not None:
        failure, made.failure = made.failure, None
        raise failure
