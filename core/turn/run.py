"""From a request to an ended turn, through the lane of its session.

What holds, whatever happens inside: the user's message is committed before a model is
asked, the answer before `done` goes out; `done` goes out exactly once; `after_turn` runs
exactly once for every turn whose message was committed, in the order of the session.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from hookgate.core.domain.errors import (
    LaneHeldError,
    StaleFenceError,
    TurnCancelledError,
    TurnError,
)
from hookgate.core.domain.events import Event
from hookgate.core.domain.messages import CLEAN, Provenance, ToolUse, new_id
from hookgate.core.domain.ports import CONVERSATIONS, LANES
from hookgate.core.domain.strict_json import canonical
from hookgate.core.domain.turn import Address, Origin, SessionKey, Turn, TurnRequest
from hookgate.core.hooks.shielding import contained_task, finish, raise_if_cancelled
from hookgate.core.sessions.expiry import EXPIRED, Expiry
from hookgate.core.sessions.order import InSessionOrder
from hookgate.core.settings.secret_store import redact_json
from hookgate.core.turn.endings import ended, ending_of, follow
from hookgate.core.turn.handle import TurnEvents, TurnHandle
from hookgate.core.turn.history import MOST_TURNS, load_turns, whole
from hookgate.core.turn.model.call import ModelCall
from hookgate.core.turn.tools.client import (
    brought_history,
    record_unverified,
    released,
    unanswered,
)
from hookgate.core.turn.tools.direct import call_directly
from hookgate.core.turn.tools.offering import usable_tools
from hookgate.core.turn.tools.round import client_finished, client_results, results_message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence

    from hookgate.core.domain.messages import Taint
    from hookgate.core.domain.models import ModelEvent, ModelRequest
    from hookgate.core.domain.tools import Tool, ToolCall, ToolResult
    from hookgate.core.domain.turn import FinishedCall, Principal
    from hookgate.core.host import Host
    from hookgate.core.turn.loop import Loop
    from hookgate.core.turn.making import TurnMaker

RETRY_AFTER = 5.0
"""Seconds after which a message that met a gateway that stops is worth sending again: by then
its balancer has noticed, or it is there anew."""

BEGINNINGS = 3
"""So often a turn begins of which nothing was committed, since somebody else had the lane."""

STOP_LIMIT = 15.0
"""Seconds that cancelled turns get to settle when the gateway stops; past the limits of
`after_model_call` and `tool_finished`."""


class Turns:
    """Runs turns, and knows those that run.

    Attributes:
        maker: Makes them of requests.

    Args:
        begins: Called when a turn begins.
    """

    def __init__(
        self, host: Host, loop: Loop, maker: TurnMaker, *, begins: Callable[[], None]
    ) -> None:
        self._host = host
        self._begins = begins
        self._loop = loop
        self.maker = maker
        self._running: dict[str, TurnHandle] = {}
        self._after = InSessionOrder()
        self._stopping = False

    # -- what runs -----------------------------------------------------------

    @property
    def accepting(self) -> bool:
        """Whether new turns are taken."""
        return not self._stopping

    def running(self) -> Sequence[Turn]:
        """Return the turns that run or wait for their lane."""
        return tuple(handle.turn for handle in self._running.values())

    def handle(self, turn_id: str) -> TurnHandle | None:
        """Return the running turn called `turn_id`; None where there is none."""
        return self._running.get(turn_id)

    async def drain(self, seconds: float) -> None:
        """Take no new turns; let the running ones finish, and cancel them after `seconds`."""
        self._stopping = True
        await _over(self._running.values(), seconds)
        for handle in tuple(self._running.values()):
            handle.cancel("the gateway stops")
        await _over(self._running.values(), STOP_LIMIT)
        await self._after.drain()

    # -- the ways in ---------------------------------------------------------

    def start(
        self,
        principal: Principal,
        origin: Origin,
        request: TurnRequest,
        *,
        sink: Callable[[Event], None] | None = None,
    ) -> TurnHandle:
        """Start a turn; see `Host.start_turn`."""
        events = TurnEvents()
        sink = events.put if sink is None else sink
        turn = self.maker.asked(principal, origin, request, sink)
        return self._launch(turn, self._hold(turn, request), events)

    async def nested(
        self,
        parent: Turn,
        text: str,
        *,
        agent: str | None = None,
        tool: str = "",
        session: SessionKey | None = None,
    ) -> Turn:
        """Run a turn on behalf of `parent`; see `Host.nested_turn`."""
        limit = self._host.settings.turn.max_depth
        if parent.depth >= limit:
            raise LaneHeldError(
                f"turn {parent.id} is nested {parent.depth} deep, and {limit} is the limit",
                action="raise `turn.max_depth`, or do not nest so deep",
            )
        route = self.maker.router.resolve(parent.address, agent or parent.agent.name)
        if session is None:
            child = new_id("child")
            session = SessionKey(route.agent.name, "nested", parent.session.account, child)
        address = Address("nested", session.account, session.peer)
        request = TurnRequest(content=text, address=address)
        origin = Origin(
            provenance=Provenance.INTER_SESSION,
            path="nested",
            session=str(parent.session),
            tool=tool,
        )

        def ask(event: Event) -> None:
            # Whoever waits for the outer turn is asked; what else is said within stays within.
            if event.type == "approval":
                parent.client(event)

        turn = self.maker.make(parent.principal, origin, request, route.agent, session, ask)
        turn.parent, turn.depth = parent, parent.depth + 1
        turn.message = replace(turn.message, taint=parent.taint)
        turn.extra_taint = parent.taint
        try:
            return await self._launch(turn, self._hold(turn, request), TurnEvents()).wait()
        finally:
            parent.extra_taint |= turn.taint

    async def call_tool(
        self,
        principal: Principal,
        origin: Origin,
        address: Address,
        name: str,
        arguments: Mapping[str, Any],
        *,
        agent: str | None = None,
        taint: Taint = CLEAN,
        sink: Callable[[Event], None] = lambda _: None,
    ) -> FinishedCall:
        """Call a tool without a model; see `Host.call_tool`."""
        request = TurnRequest(content="", address=address, agent=agent)
        turn = self.maker.asked(principal, origin, request, sink)
        turn.extra_taint = taint
        use = ToolUse(id=new_id("call"), name=name, input=_json_ready(arguments))
        handle = self._launch(turn, self._call(turn, use), TurnEvents())
        try:
            await handle.wait()
        except (TurnCancelledError, StaleFenceError) as error:
            if not turn.calls:
                if isinstance(error, StaleFenceError):
                    raise ending_of(turn, error, "")[1] from error
                raise
        return turn.calls[-1]

    async def offered(
        self, principal: Principal, address: Address, agent: str | None, origin: Origin
    ) -> Sequence[Tool]:
        """Return what may be called without a model; see `Host.offered`."""
        request = TurnRequest(content="", address=address, agent=agent)
        turn = self.maker.asked(principal, origin, request, lambda _: None)
        faces = turn.snapshot.faces
        usable = await usable_tools(self._host, turn)
        return sorted((faces.get(tool.name, tool) for tool in usable), key=lambda tool: tool.name)

    async def call_model(self, turn: Turn, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask a model on behalf of `turn`; see `Host.call_model`."""
        # A plugin may send one request twice: these are two calls, and each is charged.
        call = ModelCall(self._host, turn, replace(request, call_id=new_id("call")))
        events = call.events()
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()
            if call.usage is not None:
                turn.usage += call.usage

    # -- the task --------------------------------------------------------------

    def _launch(
        self, turn: Turn, work: Coroutine[Any, Any, None], events: TurnEvents
    ) -> TurnHandle:
        """Run `work` in the one task of the turn, which its handle can reach."""
        if self._stopping and (turn.parent is None or turn.parent.id not in self._running):
            work.close()
            raise TurnError(
                "the gateway stops and takes no new messages",
                code="stopping",
                action="send it again in a moment",
                data={"retry_after": RETRY_AFTER},
            )
        self._begins()
        task = contained_task(work, name=turn.id)
        task.add_done_callback(lambda done: self._over(turn, done))
        handle = self._running[turn.id] = TurnHandle(turn, task, events)
        expiry = Expiry(turn.principal, self._host.clock, lambda: handle.cancel(EXPIRED))
        task.add_done_callback(lambda _: expiry.cancel())
        return handle

    def _over(self, turn: Turn, task: asyncio.Task[None]) -> None:
        del self._running[turn.id]
        if task.cancelled() or (error := task.exception()) is None:
            return
        # Nothing was committed: whoever waits is told, and so is the operator.
        self._host.log.warning(
            "turn did not begin",
            turn=turn.id,
            session=str(turn.session),
            code=getattr(error, "code", type(error).__name__),
            reason=str(error),
        )

    # -- the lane ------------------------------------------------------------

    async def _hold(self, turn: Turn, request: TurnRequest) -> None:
        taint = turn.extra_taint
        for left in reversed(range(BEGINNINGS)):
            try:
                await self._held(turn, request)
                break
            except StaleFenceError:
                if turn.ending is not None:
                    break  # the lane went while it ended: it was committed, and `done` was said
                if not left:
                    raise
                # Nothing of it is committed, and nobody has seen any of it: it begins anew.
                turn.messages.clear()
                turn.extra_taint = taint

    async def _held(self, turn: Turn, request: TurnRequest) -> None:
        """Run the turn while it holds the lane of its session.

        Raises:
            StaleFenceError: Somebody else has written to the session, or has its lane by now, and
                nothing of the turn was committed.
        """
        lanes = self._host[LANES]
        self._queued(turn, lanes.ahead(turn.session))
        async with lanes.hold(turn.session, turn) as lease:
            turn.fence = lease.fence
            taint = turn.extra_taint
            recalled = self._recall(turn, request)
            results = () if recalled else await self._take_in(turn, request)
            committed = 0

            async def commit() -> None:
                nonlocal committed
                messages = tuple(turn.messages)
                await self._host[CONVERSATIONS].append(turn.session, messages, fence=turn.fence)
                committed = len(messages)
                turn.tell(Event("accepted", _named(turn), scope="chat"))
                await client_finished(turn, self._loop.calls, results)

            try:
                try:
                    # Whole: a cancellation must not leave it open whether it was committed.
                    await finish(commit())
                except StaleFenceError:
                    if not recalled:
                        raise
                    # What was recalled is not there any more, and nobody has seen it yet.
                    turn.messages.clear()
                    turn.extra_taint = taint
                    results = await self._take_in(turn, request)
                    await finish(commit())
                await self._inside(turn)
            except BaseException as error:
                # Whatever a plugin has raised, also what would stop the loop of all turns.
                if not committed:
                    raise
                self._failed(turn, error)
            # Whole, even if another cancellation comes: the turn was begun, so it ends.
            await finish(self._end(turn, committed))

    async def _call(self, turn: Turn, use: ToolUse) -> None:
        """Hold the lane for one tool call without a model."""
        lanes = self._host[LANES]
        self._queued(turn, lanes.ahead(turn.session))
        async with lanes.hold(turn.session, turn) as lease:
            turn.fence = lease.fence
            try:
                async with _deadline(self._host.settings.turn.deadline_seconds):
                    await call_directly(self._host, self._loop, turn, use)
                    raise_if_cancelled()
            except Exception as error:
                _, told = ending_of(turn, error, "")
                if told.code == "internal":
                    self._log(turn, told, error)
                raise told from error
            turn.ending = "done"

    @staticmethod
    def _queued(turn: Turn, ahead: int) -> None:
        if ahead:
            # Its client does not know the turn yet, and may want to cancel it.
            turn.emit(Event("queued", {"turn": turn.id, "before": ahead}, scope="chat"))

    def _recall(self, turn: Turn, request: TurnRequest) -> bool:
        """Begin with what the store remembers, where the message goes on with no earlier turn.

        Returns:
            False where the session is to be read.
        """
        if request.tool_results or request.client_history is not None:
            return False
        wanted, conversations = turn.plan.history_turns, self._host[CONVERSATIONS]
        stored = conversations.recall(turn.session, turns=max(wanted, 1), fence=turn.fence)
        if stored is None or not whole(stored.messages) or unanswered(stored.messages):
            return False
        turn.extra_taint |= stored.taint
        turn.history = tuple(stored.messages) if wanted else ()
        turn.messages.append(turn.message)
        return True

    async def _take_in(
        self, turn: Turn, request: TurnRequest
    ) -> Sequence[tuple[ToolCall, ToolResult]]:
        """Load the history, and set what the user brought: a message, or tool results."""
        turns = max(turn.plan.history_turns, 1)
        conversations = self._host[CONVERSATIONS]
        stored = await load_turns(conversations, turn.session, turns, turn.fence)
        turn.extra_taint |= stored.taint  # what the messages carry comes with them
        history, given = stored.messages, request.tool_results
        if request.client_history is not None:
            history, given = brought_history(request)
            # What the caller leaves out was read all the same, and it may have kept the answers.
            turn.extra_taint |= await conversations.taint(turn.session, turns=MOST_TURNS)
        turn.history = tuple(history) if turn.plan.history_turns else ()
        waiting = unanswered(history)
        unknown = {part.tool_use_id for part in given} - {use.id for use in waiting}
        if unknown:
            raise TurnError(
                f"no call waits for the results of {sorted(unknown)}",
                code="unknown_tool_use",
                action="bring the results of the calls that the last turn ended with",
            )
        results: Sequence[tuple[ToolCall, ToolResult]] = ()
        if waiting:
            turn.history = tuple(history)
            decided = await released(self._host, turn, waiting, stored.messages)
            brought = {part.tool_use_id for part in given}
            hearsay = [use for use in waiting if use.id in brought and use.id not in decided]
            await record_unverified(self._host, turn, hearsay)
            every = await client_results(
                turn, self._loop.calls, waiting, decided, given, turn.client_tools
            )
            turn.messages.append(results_message(turn, every))
            results = [item for item in every if item[0].id in decided]
        if request.content or request.images or not waiting:
            turn.messages.append(turn.message)
        else:
            turn.message = turn.messages[0]
        return results

    async def _inside(self, turn: Turn) -> None:
        loop = asyncio.get_running_loop()
        async with _deadline(self._host.settings.turn.deadline_seconds) as clock:
            await self._loop.prepare(turn)
            clock.reschedule(min(clock.when() or 0, loop.time() + turn.plan.deadline))
            waits = await self._loop.converse(turn)
            raise_if_cancelled()
        turn.ending = "awaiting_client" if waits else "done"

    # -- the end ---------------------------------------------------------------

    async def _end(self, turn: Turn, committed: int) -> None:
        """Commit the answer, say that the turn is done, and let what follows follow."""
        fresh = turn.messages[committed:]
        if fresh:
            try:
                await self._host[CONVERSATIONS].append(turn.session, fresh, fence=turn.fence)
            except BaseException as error:  # noqa: BLE001 - told
                # Who has heard already that the lane is lost does not hear it again.
                if not (isinstance(error, StaleFenceError) and turn.fence.lost and turn.error):
                    self._failed(turn, error)
        data = {
            **_named(turn),
            "ending": turn.ending,
            "text": turn.answer,
            "stop": turn.stop,
            "usage": turn.usage.to_json(),
        }
        await ended(self._host, turn)
        # Client and bus hear the same; what the conversation keeps is for the model.
        turn.emit(Event("done", redact_json(self._host.secrets, data), scope="chat"))
        self._after.run(turn.session, lambda: follow(self._host, turn))

    def _failed(self, turn: Turn, error: BaseException) -> None:
        """Set how the turn ended, in words that a client can act on."""
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None:
            # It has been heard: what follows is the turn's orderly end.
            task.uncancel()
            if turn.fence.lost:
                error = StaleFenceError.of(turn.session)
        handle = self._running.get(turn.id)
        turn.ending, turn.error = ending_of(turn, error, handle.reason if handle else "")
        self._log(turn, turn.error, error)
        data = {
            "code": turn.error.code,
            "message": str(turn.error),
            "action": turn.error.action,
            **turn.error.data,
        }
        turn.emit(Event("error", redact_json(self._host.secrets, data), scope="chat"))

    def _log(self, turn: Turn, told: TurnError, error: BaseException) -> None:
        """Name a turn that did not end well, for whoever has to look for the reason."""
        log, about = self._host.log, {"turn": turn.id, "session": str(turn.session)}
        if told.code == "internal":
            log.error("turn failed", **about, code=told.code, exc_info=error)
        elif turn.ending == "cancelled":
            log.info("turn cancelled", **about, code=told.code, reason=str(told))
        else:
            log.warning(f"turn {turn.ending}", **about, code=told.code, reason=str(told))


def _named(turn: Turn) -> dict[str, Any]:
    return {"turn": turn.id, "session": str(turn.session)}


@asynccontextmanager
async def _deadline(seconds: float) -> AsyncIterator[asyncio.Timeout]:
    try:
        async with asyncio.timeout(seconds) as clock:
            yield clock
    except TimeoutError:
        if not clock.expired():
            raise
        raise TurnCancelledError(
            "the turn reached its deadline",
            code="deadline",
            action="raise `turn.deadline_seconds`, or ask for less at once",
        ) from None


def _json_ready(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a copy of the arguments of a call, as a model would have written them."""
    try:
        copy: Mapping[str, Any] = orjson.loads(canonical(dict(arguments)))
    except (TypeError, ValueError) as error:
        raise TurnError(
            f"found arguments that are no JSON object: {error}",
            code="invalid_params",
            action="pass texts, numbers, lists and mappings of them, by name",
        ) from None
    return copy


async def _over(handles: Collection[TurnHandle], seconds: float) -> None:
    """Wait until what runs now is over, at most `seconds`."""
    if tasks := {handle.task for handle in handles}:
        await asyncio.wait(tasks, timeout=seconds)
