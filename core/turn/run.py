"""`run_turn`: from a request to an ended turn, through the lane of its session.

What holds, whatever happens inside: the user's message is committed before a model is
asked, the answer before `done` goes out; `done` goes out exactly once; `after_turn` runs
exactly once for every turn whose message was committed, in the order of the session.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hookgate.core.domain.errors import (
    LaneHeldError,
    NotAllowedError,
    TurnCancelledError,
    TurnError,
)
from hookgate.core.domain.events import Event
from hookgate.core.domain.messages import Message, Provenance, Text, new_id
from hookgate.core.domain.ports import CONVERSATIONS, LANES
from hookgate.core.domain.turn import Address, Origin, SessionKey, Turn, TurnPlan, TurnRequest
from hookgate.core.hooks.shielding import contained_task, finish, raise_if_cancelled
from hookgate.core.sessions.order import InSessionOrder
from hookgate.core.sessions.routing import check_agent
from hookgate.core.settings.secret_store import redact_json
from hookgate.core.turn.endings import ending_of, follow
from hookgate.core.turn.history import stored_turns
from hookgate.core.turn.tools.client import admitted
from hookgate.core.turn.tools.round import (
    client_finished,
    client_results,
    results_message,
    unanswered,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hookgate.core.domain.tools import ToolCall, ToolResult
    from hookgate.core.domain.turn import Agent, Principal
    from hookgate.core.host import Host
    from hookgate.core.registry.snapshots import Snapshot
    from hookgate.core.sessions.routing import Router
    from hookgate.core.turn.loop import Loop

__all__ = ["Turns"]

STOP_LIMIT = 15.0
"""Seconds that cancelled turns get to settle when the gateway stops; past the limits of
`after_model_call` and `tool_finished`."""


@dataclass(slots=True)
class _Running:
    turn: Turn
    task: asyncio.Task[None]
    reason: str = ""


class Turns:
    """Runs turns, and knows those that run.

    Attributes:
        router: Chooses the agents.
    """

    def __init__(
        self, host: Host, loop: Loop, router: Router, snapshot: Callable[[], Snapshot]
    ) -> None:
        self._host = host
        self._loop = loop
        self.router = router
        self._snapshot = snapshot
        self._running: dict[str, _Running] = {}
        self._after = InSessionOrder()
        self._stopping = False

    # -- what runs -----------------------------------------------------------

    def running(self) -> Sequence[Turn]:
        """Return the turns that run or wait for their lane."""
        return tuple(item.turn for item in self._running.values())

    def owner(self, turn_id: str) -> Principal | None:
        """Return who started the running turn called `turn_id`."""
        item = self._running.get(turn_id)
        return item.turn.principal if item else None

    def cancel(self, turn_id: str, reason: str) -> bool:
        """Cancel a running turn, and the nested ones below it; False where there is none."""
        item = self._running.get(turn_id)
        if item is None or item.task.done():
            return False
        item.reason = item.reason or reason
        item.task.cancel()
        return True

    async def drain(self, seconds: float) -> None:
        """Take no new turns; let the running ones finish, and cancel them after `seconds`."""
        self._stopping = True
        tasks = {item.task for item in self._running.values()}
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for item in tuple(self._running.values()):
            self.cancel(item.turn.id, "the gateway stops")
        tasks = {item.task for item in self._running.values()}
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_LIMIT)
        await self._after.drain()

    # -- the way in ----------------------------------------------------------

    async def run(
        self,
        principal: Principal,
        origin: Origin,
        request: TurnRequest,
        *,
        sink: Callable[[Event], None] = lambda _: None,
        accepted: Callable[[Turn], None] = lambda _: None,
    ) -> Turn:
        """Run one turn and return it, ended.

        Args:
            principal: Who asks; authentication has settled that.
            origin: How the request came in; the entry path has settled that.
            request: What is asked.
            sink: Takes the turn's events; must not wait.
            accepted: Called once the user's message is committed.

        Raises:
            NotAllowedError: The principal may not chat, or not as this address.
            NoAgentError: No agent answers this address.
            ClientToolError: A tool that the request brings has the name of another one.
            LaneFullError: Too many messages wait for the session.
            TurnError: The gateway stops, or the request cannot be a turn.
            TurnCancelledError: It was cancelled while it waited for its lane.
            StoreError: The message could not be committed.
        """
        if "chat" not in principal.scopes:
            raise NotAllowedError(
                f"{principal.id} has the scopes {sorted(principal.scopes)}, expected `chat`",
                action="use a token with the scope `chat`",
            )
        if not principal.may_claim(request.address):
            raise NotAllowedError(
                f"{principal.id} may not speak as {request.address}",
                action="claim a channel, account and peer that the token is bound to",
            )
        route = self.router.resolve(request.address, request.agent)
        address = request.address
        session = SessionKey(route.agent.name, address.channel, address.account, address.peer)
        turn = self._make(principal, origin, request, route.agent, session, sink)
        return await self._start(turn, request, accepted)

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
        route = self.router.resolve(parent.address, agent or parent.agent.name)
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

        turn = self._make(parent.principal, origin, request, route.agent, session, ask)
        turn.parent, turn.depth = parent, parent.depth + 1
        turn.message = replace(turn.message, taint=parent.taint)
        turn.extra_taint = parent.taint
        try:
            return await self._start(turn, request, lambda _: None)
        finally:
            parent.extra_taint |= turn.taint

    def _make(
        self,
        principal: Principal,
        origin: Origin,
        request: TurnRequest,
        agent: Agent,
        session: SessionKey,
        sink: Callable[[Event], None],
    ) -> Turn:
        check_agent(principal, agent)
        settings = self._host.settings
        snapshot = self._snapshot()
        believed = settings.gateway.believe_client_flags
        tools = admitted(request.client_tools, snapshot.tools, principal, believed)
        events = self._host.events
        sound = True  # who listens badly ends no turn

        def client(event: Event) -> None:
            nonlocal sound
            try:
                sink(event)
            except Exception as error:
                if sound:
                    self._host.log.warning("a turn's sink fails", type=event.type, exc_info=error)
                sound = False

        def tell(event: Event) -> None:
            client(event)
            events.publish(event)

        turn = Turn(
            session=session,
            agent=agent,
            address=request.address,
            principal=principal,
            origin=origin,
            message=Message(
                role="user",
                parts=(Text(request.content), *request.images),
                provenance=origin.provenance,
            ),
            snapshot=snapshot,
            plan=TurnPlan(
                models=agent.models,
                failure_mode=settings.turn.failure_mode,
                tool_selection=settings.turn.tool_selection,
                whole_tool_tokens=settings.turn.whole_tool_tokens,
                history="client" if request.client_history is not None else "server",
                history_turns=settings.context.history_turns,
                max_iterations=settings.turn.max_iterations,
                context_tokens=settings.context.budget_tokens,
                deadline=settings.turn.deadline_seconds,
            ),
            sink=tell,
            client=client,
            options=request.options,
            client_tools=tools,
            started=self._host.clock.now(),
        )
        turn.message = replace(turn.message, turn=turn.id)
        return turn

    # -- the lane ------------------------------------------------------------

    async def _start(
        self, turn: Turn, request: TurnRequest, accepted: Callable[[Turn], None]
    ) -> Turn:
        """Run the turn in a task of its own, which `cancel` can reach."""
        if self._stopping and (turn.parent is None or turn.parent.id not in self._running):
            raise TurnError(
                "the gateway stops and takes no new messages",
                code="stopping",
                action="send it again in a moment",
            )
        task = contained_task(self._hold(turn, request, accepted), name=turn.id)
        item = self._running[turn.id] = _Running(turn, task)
        caller = asyncio.current_task()
        assert caller is not None, "a coroutine that runs has a task"
        before = caller.cancelling()
        try:
            await asyncio.shield(task)
        except Exception as error:
            # Nothing was committed: whoever asked is told, and so is the operator.
            self._host.log.warning(
                "turn did not begin",
                turn=turn.id,
                session=str(turn.session),
                code=getattr(error, "code", type(error).__name__),
                reason=str(error),
            )
            raise
        except asyncio.CancelledError:
            if not task.done() or caller.cancelling() > before:
                # Whoever waits for this turn is cancelled: so is the turn, and it settles.
                await self._settled(item)
                raise
            if turn.ending is None:
                why = item.reason or "cancelled"
                raise TurnCancelledError(
                    f"the turn was cancelled while it waited for its lane: {why}"
                ) from None
        finally:
            self._running.pop(turn.id, None)
        return turn

    async def _settled(self, item: _Running) -> None:
        """Cancel a turn whose caller is cancelled, and wait for its end; more than once so."""
        while not item.task.done():
            self.cancel(item.turn.id, "its caller was cancelled")
            with suppress(asyncio.CancelledError):
                await asyncio.wait([item.task])
        if not item.task.cancelled():
            item.task.exception()  # nobody is there any more to raise it to

    async def _hold(
        self, turn: Turn, request: TurnRequest, accepted: Callable[[Turn], None]
    ) -> None:
        lanes = self._host[LANES]
        if ahead := lanes.ahead(turn.session):
            turn.emit(Event("queued", {"before": ahead}, scope="chat"))
        async with lanes.hold(turn.session, turn) as lease:
            turn.fence = lease.fence
            results = await self._take_in(turn, request)
            committed = 0

            async def commit() -> None:
                nonlocal committed
                messages = tuple(turn.messages)
                await self._host[CONVERSATIONS].append(turn.session, messages, fence=turn.fence)
                committed = len(messages)
                try:
                    accepted(turn)
                finally:
                    await client_finished(turn, self._loop.calls, results)

            try:
                # Whole: a cancellation must not leave it open whether it was committed.
                await finish(commit())
                await self._inside(turn)
            except BaseException as error:
                # Whatever a plugin has raised, also what would stop the loop of all turns.
                if not committed:
                    raise
                self._failed(turn, error)
            # Whole, even if another cancellation comes: the turn was begun, so it ends.
            await finish(self._end(turn, committed))

    async def _take_in(
        self, turn: Turn, request: TurnRequest
    ) -> Sequence[tuple[ToolCall, ToolResult]]:
        """Load the history, and set what the user brought: a message, or tool results."""
        turns = max(turn.plan.history_turns, 1)
        conversations = self._host[CONVERSATIONS]
        stored = await stored_turns(conversations, turn.session, turns)
        # What the messages carry comes with the messages.
        turn.extra_taint |= await conversations.taint(turn.session, turns=0)
        history = stored if request.client_history is None else request.client_history
        turn.history = tuple(history) if turn.plan.history_turns else ()
        waiting = unanswered(history)
        unknown = {part.tool_use_id for part in request.tool_results} - {use.id for use in waiting}
        if unknown:
            raise TurnError(
                f"no call waits for the results of {sorted(unknown)}",
                code="unknown_tool_use",
                action="bring the results of the calls that the last turn ended with",
            )
        results: Sequence[tuple[ToolCall, ToolResult]] = ()
        if waiting:
            turn.history = tuple(history)
            results = await client_results(
                turn, self._loop.calls, waiting, request.tool_results, turn.client_tools
            )
            turn.messages.append(results_message(turn, results))
        if request.content or request.images or not waiting:
            turn.messages.append(turn.message)
        else:
            turn.message = turn.messages[0]
        return results

    async def _inside(self, turn: Turn) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._host.settings.turn.deadline_seconds) as clock:
                await self._loop.prepare(turn)
                clock.reschedule(min(clock.when() or 0, loop.time() + turn.plan.deadline))
                waits = await self._loop.converse(turn)
                raise_if_cancelled()
        except TimeoutError:
            if not clock.expired():
                raise
            raise TurnCancelledError(
                "the turn reached its deadline",
                code="deadline",
                action="raise `turn.deadline_seconds`, or ask for less at once",
            ) from None
        turn.ending = "awaiting_client" if waits else "done"

    # -- the end ---------------------------------------------------------------

    async def _end(self, turn: Turn, committed: int) -> None:
        """Commit the answer, say that the turn is done, and let what follows follow."""
        fresh = turn.messages[committed:]
        if fresh:
            try:
                await self._host[CONVERSATIONS].append(turn.session, fresh, fence=turn.fence)
            except BaseException as error:  # noqa: BLE001 - told
                self._failed(turn, error)
        data = {
            "turn": turn.id,
            "session": str(turn.session),
            "ending": turn.ending,
            "text": turn.answer,
            "stop": turn.stop,
            "usage": turn.usage.to_json(),
        }
        # Client and bus hear the same; what the conversation keeps is for the model.
        turn.emit(Event("done", redact_json(self._host.secrets, data), scope="chat"))
        self._after.run(turn.session, lambda: follow(self._host, turn))

    def _failed(self, turn: Turn, error: BaseException) -> None:
        """Set how the turn ended, in words that a client can act on."""
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None:
            # It has been heard: what follows is the turn's orderly end.
            task.uncancel()
        item = self._running.get(turn.id)
        turn.ending, turn.error = ending_of(turn, error, item.reason if item else "")
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
