"""From a request to a turn that runs: who may ask, who answers, how it is to run.

Nothing starts but by `Turns`, and every turn runs in one task of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hookgate.core.domain.errors import (
    LaneHeldError,
    NotAllowedError,
    StaleFenceError,
    TurnCancelledError,
    TurnError,
)
from hookgate.core.domain.events import Event
from hookgate.core.domain.messages import Message, Provenance, ToolUse, new_id
from hookgate.core.domain.models import ModelEvent, ModelRef, ModelRequest, SystemText
from hookgate.core.domain.parts import Text
from hookgate.core.domain.tools import Tool
from hookgate.core.domain.turn import (
    HERE,
    Address,
    Agent,
    FinishedCall,
    Origin,
    Principal,
    SessionKey,
    Turn,
    TurnPlan,
    TurnRequest,
    is_guest_channel,
)
from hookgate.core.hooks.tasks import EXPIRED, Expiry, InSessionOrder, contained_task
from hookgate.core.host import Host
from hookgate.core.registry.agents import Router, check_agent
from hookgate.core.registry.flags import FlagReader
from hookgate.core.registry.snapshots import Snapshot
from hookgate.core.turn.context import StandingBlocks, Windows
from hookgate.core.turn.end import ending_of
from hookgate.core.turn.handle import TurnEvents, TurnHandle
from hookgate.core.turn.hold import TurnRun
from hookgate.core.turn.model.call import ModelCall
from hookgate.core.turn.shared import SessionLanes
from hookgate.core.turn.tools.call import ToolCalls, matches
from hookgate.core.turn.tools.held import admitted
from hookgate.core.turn.tools.inner import InnerCalls, json_ready
from hookgate.core.turn.tools.offer import usable_tools
from hookgate.core.turn.verbatim import Brought, stamped

RETRY_AFTER = 5.0
"""Seconds after which a message that met a gateway that stops is worth sending again: by then
its balancer has noticed, or it is there anew."""

STOP_LIMIT = 15.0
"""Seconds that cancelled turns get to settle when the gateway stops; past the limits of
`after_model_call` and `tool_finished`."""


class Turns:
    """Starts turns, and knows those that run.

    Attributes:
        host: What plugins can reach.
        calls: The way to tools.
        router: Chooses the agents.
        snapshot: Returns what a turn that starts now draws on.
        lanes: The lanes of sessions.
        windows: Where the histories of sessions begin.
        standing: What earlier messages of sessions brought, and what stays in front of them.
        after: What follows turns, in the order of their session.
    """

    def __init__(
        self,
        host: Host,
        calls: ToolCalls,
        router: Router,
        snapshot: Callable[[], Snapshot],
    ) -> None:
        self.host = host
        self.calls = calls
        self.router = router
        self.snapshot = snapshot
        self.after = InSessionOrder()
        self.lanes = SessionLanes(host)
        self.windows = Windows()
        self.standing = StandingBlocks()
        self._inner = InnerCalls(host, calls)
        self._flags = FlagReader(host.flags)
        self._running: dict[str, TurnHandle] = {}
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
        await self.after.drain()

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
        turn = self._asked(principal, origin, request, sink)
        return self._launch(turn, TurnRun(self, turn, request).run(), events)

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
        limit, depth = self.host.settings.turn.max_depth, _depth(parent)
        if depth >= limit:
            raise LaneHeldError(
                f"turn {parent.id} is nested {depth} deep, and {limit} is the limit",
                action="raise `turn.max_depth`, or do not nest so deep",
            )
        route = self.router.resolve(parent.address, agent or parent.agent.name)
        if session is None:
            child = new_id("child")
            session = SessionKey(route.agent.name, "nested", parent.session.account, child)
        address = Address("nested", session.account, session.peer)
        request = TurnRequest(content=text, address=address, whole=True)
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

        turn = self._make(parent.principal, origin, request, route.agent, session, ask, parent)
        try:
            return await self._launch(turn, TurnRun(self, turn, request).run()).wait()
        finally:
            parent.extra_taint |= turn.taint

    async def call_tool(
        self,
        principal: Principal,
        origin: Origin,
        request: TurnRequest,
        name: str,
        arguments: Mapping[str, Any],
        sink: Callable[[Event], None],
    ) -> FinishedCall:
        """Call a tool without a model; see `Host.call_tool`."""
        turn = self._asked(principal, origin, request, sink)
        self._refuse_own_lane(turn)
        turn.extra_taint = request.taint
        use = ToolUse(id=new_id("call"), name=name, input=json_ready(arguments))
        handle = self._launch(turn, TurnRun(self, turn, request).call(use))
        try:
            await handle.wait()
        except (TurnCancelledError, StaleFenceError) as error:
            if not turn.calls:
                if isinstance(error, StaleFenceError):
                    raise ending_of(turn, error, "")[1] from error
                raise
        return turn.calls[-1]

    def _refuse_own_lane(self, turn: Turn) -> None:
        """Refuse a call in a session whose lane a turn holds that waits for the call."""
        here = HERE.get()
        holder = None if here is None else here[0]
        while holder is not None:
            if holder.session == turn.session and holder.ending is None:
                raise LaneHeldError(
                    f"session {turn.session} is held by turn {holder.id}, within which this is "
                    "called, so it would wait for itself: `turn.call` needs no lane",
                    action="call the tool within that turn, with `turn.call(name, arguments)`",
                )
            holder = holder.parent

    async def offered(
        self, principal: Principal, origin: Origin, request: TurnRequest
    ) -> Sequence[Tool]:
        """Return what may be called without a model; see `Host.offered`."""
        turn = self._asked(principal, origin, request, lambda _: None)
        faces = turn.snapshot.faces
        usable = await usable_tools(self.host, turn)
        return sorted((faces.get(tool.name, tool) for tool in usable), key=lambda tool: tool.name)

    async def call_model(self, turn: Turn, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask a model on behalf of `turn`; see `Host.call_model`."""
        # A plugin may send one request twice: these are two calls, and each is charged.
        call = ModelCall(self.host, turn, replace(request, call_id=new_id("call")))
        events = call.events()
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()
            if call.usage is not None:
                turn.usage += call.usage

    # -- from a request to a turn ----------------------------------------------

    def _asked(
        self,
        principal: Principal,
        origin: Origin,
        request: TurnRequest,
        sink: Callable[[Event], None],
    ) -> Turn:
        """Return a turn of what a principal asks, if it may ask that where it says it does.

        The one check of a claim: nothing starts without it but a turn within another.

        Raises:
            NotAllowedError: The principal may not chat, or not as this address; or see `_make`.
            NoAgentError: No agent answers this address.
        """
        address = request.address
        if "chat" not in principal.scopes:
            raise NotAllowedError(
                f"{principal.id} has the scopes {sorted(principal.scopes)}, expected `chat`",
                action="use a token with the scope `chat`",
            )
        if not principal.may_claim(address):
            raise NotAllowedError(
                f"{principal.id} may not speak as channel {address.channel!r}, account "
                f"{address.account!r}, peer {address.peer!r}",
                action="claim an address that the token is bound to",
            )
        if is_guest_channel(address.channel) and origin.channel != address.channel:
            # What is said there goes out by a stranger's code, and what stands there came by it.
            raise NotAllowedError(
                f"the channel {address.channel!r} is that of a plugin of the sandbox, and nothing "
                "starts there but what that plugin brings in",
                action="claim another channel, such as `cli`",
            )
        agent = self.router.resolve(address, request.agent).agent
        session = SessionKey(agent.name, address.channel, address.account, address.peer)
        return self._make(principal, origin, request, agent, session, sink)

    def _make(
        self,
        principal: Principal,
        origin: Origin,
        request: TurnRequest,
        agent: Agent,
        session: SessionKey,
        sink: Callable[[Event], None],
        parent: Turn | None = None,
    ) -> Turn:
        """Return a turn that has not begun.

        Raises:
            NotAllowedError: The principal's key does not allow the agent, or has expired.
            ClientToolError: A tool that the request brings has the name of another one.
            TurnError: The request asks for what it cannot have.
        """
        host, turn_id = self.host, new_id("turn")
        _check_honoured(request)
        check_agent(principal, agent)
        if principal.has_expired(host.clock.now()):
            raise NotAllowedError(f"{principal.id} has expired", action="use another token")
        flags, unknown = self._flags.read(request.options)
        snapshot, believed = self.snapshot(), host.settings.gateway.believe_client_flags
        taint = request.taint if parent is None else request.taint | parent.taint
        own, now = _offerable(snapshot.tools, request), host.clock.now()

        turn = Turn(
            id=turn_id,
            session=session,
            agent=agent,
            address=request.address,
            principal=principal,
            origin=origin,
            message=Message(
                role="user",
                parts=(Text(request.content), *request.images),
                taint=taint,
                provenance=origin.provenance,
                principal=principal.id,
                turn=turn_id,
                created=now,
            ),
            snapshot=snapshot,
            plan=self._plan(agent, request),
            sink=host.events.publish,
            client=sink,
            unheard=self._unheard(),
            options=request.options,
            flags=flags,
            unknown_flags=unknown,
            system=_text_of(request.system),
            whole=request.whole,
            verbatim=request.verbatim,
            host_tools=request.host_tools,
            observe=request.observe,
            ephemeral=request.ephemeral,
            raw=request.raw,
            client_tools=admitted(request.client_tools, own, principal, believed),
            parent=parent,
            started=now,
            caller=self._inner.make,
        )
        if request.verbatim:
            turn.message = stamped(Brought.of(request).message, turn, taint)
        if parent is not None:
            turn.depth, turn.extra_taint = _depth(parent) + 1, parent.taint
        return turn

    def _unheard(self) -> Callable[[Event, Exception], None]:
        """Return what logs the first event that a turn's client does not take."""
        sound = True

        def unheard(event: Event, error: Exception) -> None:
            nonlocal sound
            if sound:
                self.host.log.warning("a turn's sink fails", type=event.type, exc_info=error)
            sound = False

        return unheard

    def _plan(self, agent: Agent, request: TurnRequest) -> TurnPlan:
        """Return how the turn runs if no planner has anything to say."""
        settings = self.host.settings
        plan = TurnPlan(
            models=agent.models if request.model is None else _models(request.model),
            parameters=request.parameters,
            failure_mode=settings.turn.failure_mode,
            tool_selection=settings.turn.tool_selection,
            whole_tool_tokens=settings.turn.whole_tool_tokens,
            history="server"
            if request.client_history is None and not request.verbatim
            else "client",
            history_turns=settings.context.history_turns,
            max_iterations=settings.turn.max_iterations,
            context_tokens=settings.context.budget_tokens,
            deadline=settings.turn.deadline_seconds,
        )
        return plan if request.retries is None else replace(plan, retries=request.retries)

    # -- the task --------------------------------------------------------------

    def _launch(
        self, turn: Turn, work: Coroutine[Any, Any, None], events: TurnEvents | None = None
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
        task = contained_task(work, name=turn.id)
        task.add_done_callback(lambda done: self._over(turn, done))
        handle = self._running[turn.id] = TurnHandle(turn, task, events or TurnEvents())
        expiry = Expiry(turn.principal, self.host.clock, lambda: handle.cancel(EXPIRED))
        task.add_done_callback(lambda _: expiry.cancel())
        return handle

    def _over(self, turn: Turn, task: asyncio.Task[None]) -> None:
        del self._running[turn.id]
        if task.cancelled() or (error := task.exception()) is None:
            return
        # Nothing was committed: whoever waits is told, and so is the operator.
        self.host.log.warning(
            "turn did not begin",
            turn=turn.id,
            session=str(turn.session),
            code=getattr(error, "code", type(error).__name__),
            reason=str(error),
        )


def _depth(turn: Turn) -> int:
    """Return how deep `turn` is nested here: as deep as the call in it that is under way."""
    here = HERE.get()
    if here is None or here[0] is not turn or here[1] is None:
        return turn.depth
    depth: int = here[1].depth
    return depth


def _offerable(tools: Mapping[str, Tool], request: TurnRequest) -> Mapping[str, Tool]:
    """Return the gateway's tools that a request may be offered: other names are free."""
    if not request.verbatim:
        return tools
    if not request.host_tools:
        return {}
    return {name: tool for name, tool in tools.items() if matches(name, request.host_tools)}


def _text_of(system: str | tuple[SystemText, ...]) -> str:
    return system if isinstance(system, str) else SystemText.joined(system).text


def _models(named: str | tuple[str, ...]) -> tuple[ModelRef, ...]:
    try:
        return tuple(map(ModelRef.parse, (named,) if isinstance(named, str) else named))
    except ValueError as error:
        raise TurnError.invalid(error, "name the model as `provider/model`") from None


def _check_honoured(request: TurnRequest) -> None:
    """Refuse what this gateway would otherwise pass over in silence."""
    client_keeps = request.verbatim or request.client_history is not None
    wrong = action = ""
    if request.raw is not None and not request.verbatim:
        wrong = "`raw` without `verbatim`: what the gateway adds and chooses would not be in it"
        action = "set `verbatim`, or leave `raw` out"
    elif (request.embed is not None or request.counts) and not request.verbatim:
        name = "counts" if request.counts else "embed"
        wrong = f"`{name}` without `verbatim`: what the gateway adds and chooses would not be in it"
        action = f"set `verbatim`, or leave `{name}` out"
    elif request.host_tools and not request.verbatim:
        wrong = "`host_tools` without `verbatim`: all tools of its agent are there anyway"
        action = "leave it out"
    elif request.verbatim and request.tool_results:
        wrong = "`verbatim` with `tool_results`: what is read as it came has them in their places"
        action = "put the results into `client_history`"
    elif request.ephemeral and request.tool_results and not client_keeps:
        wrong = "`ephemeral` with results of calls that the gateway keeps, which stays as it is"
        action = "bring the conversation along in `client_history`, or leave `ephemeral` out"
    if wrong:
        raise TurnError.invalid(f"found a request with {wrong}", action)


async def _over(handles: Collection[TurnHandle], seconds: float) -> None:
    """Wait until what runs now is over, at most `seconds`."""
    if tasks := {handle.task for handle in handles}:
        await asyncio.wait(tasks, timeout=seconds)
