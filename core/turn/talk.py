"""What happens in a turn once it holds its lane: planning, rounds of model and tools.

Nothing reaches a model but through `ModelCall`, and nothing reaches a tool but through
`ToolCalls`.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from hookgate import hookspecs
from hookgate.core.domain.errors import NotAllowedError, ProviderError, RefusedError, TurnError
from hookgate.core.domain.events import Event
from hookgate.core.domain.messages import Message, join_taints, new_id
from hookgate.core.domain.models import ModelRequest, SystemText, ToolUseEvent
from hookgate.core.domain.parts import Text
from hookgate.core.domain.strict_json import well_formed
from hookgate.core.domain.turn import TurnAnswer
from hookgate.core.hooks.tasks import raise_if_cancelled
from hookgate.core.registry.flags import FAILURE_MODE
from hookgate.core.turn.context import (
    Block,
    ContextBuilder,
    Past,
    message_tokens,
    newest_within,
    said_by,
    said_of,
)
from hookgate.core.turn.model.call import ModelCall
from hookgate.core.turn.model.reply import Reply
from hookgate.core.turn.tools.offer import choose_tools, schema_tokens
from hookgate.core.turn.tools.round import ToolRound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hookgate.core.domain.models import ModelRef, Refusal
    from hookgate.core.domain.tools import Tool
    from hookgate.core.domain.turn import Turn, TurnRequest
    from hookgate.core.hooks.caller import HookAnswer
    from hookgate.core.host import Host
    from hookgate.core.turn.context import Context, StandingBlocks, Windows
    from hookgate.core.turn.tools.call import ToolCalls

UNREAD = (
    (re.compile(r"\s*<think>"), 'think_tags = "on"', "its thoughts stand before what it says"),
    (
        re.compile(r"(?s).*?<tool_call>\s*\{"),
        "tool_call_tags = true",
        "it has called a tool in words, and nothing was called",
    ),
)
"""Tags of small models as they begin, the setting that has them read, and what they mean."""

PLANNED = ("models", "parameters", "deadline", "retries", "retry_delay", "retry_limit")
"""What counts of the plan of a turn that is read as it came."""

OUTPUT_BOUND = 32_000
"""The most tokens of an answer for which neither the request nor its model has a limit: what a
budget holds for it. It is not sent where the request is passed on as it came."""

HISTORY_LEFT = 0.5
"""The share of its room that is left to a history that has none for one turn more."""

FAILURE_CHARS = 500
"""Characters that an error tells of what a tool said."""
BREATH = 32
"""Tool calls of one message after which everybody else gets their turn of the event loop."""


async def prepare(host: Host, turn: Turn) -> TurnAnswer | None:
    """Let the turn be refused, tagged and planned, and choose what it is offered.

    Returns:
        The answer of a plugin that answers in a model's place; then nothing is planned.

    Raises:
        RefusedError: A plugin refused the turn.
        HookError: A required hook failed.
        TurnError: Discovery failed and the plan says ``fail_closed``.
    """
    if turn.unknown_flags:
        # The client may have misspelt one that matters.
        names = ", ".join(f"`{name}`" for name in turn.unknown_flags)
        why = f"nobody here reads these flags of the request: {names}"
        _warn(turn, "unknown_flags", why, "look for a misspelt name, or leave them out")
    if (answer := await admit(host, turn)) is not None:
        return answer
    before = turn.plan
    turn.plan = await host.hooks.fold(hookspecs.plan_turn, turn, before)
    if turn.verbatim:
        # What is read as it came is neither cut, chosen nor added to, whatever was planned.
        turn.plan = replace(before, **{name: getattr(turn.plan, name) for name in PLANNED})
    # No planner may loosen a `fail_closed` of the request or the settings.
    asked = turn.flags.get(FAILURE_MODE.name), host.settings.turn.failure_mode
    if "fail_closed" in asked:
        turn.plan = replace(turn.plan, failure_mode="fail_closed")
    await choose_tools(host, turn)
    return None


def give(host: Host, turn: Turn, answer: TurnAnswer) -> None:
    """Answer a turn with what a plugin says, and not with what a model does."""
    text = well_formed(answer.text)
    taint = turn.taint | answer.taint
    turn.messages.append(
        Message(
            role="assistant",
            parts=(Text(text),),
            taint=taint,
            turn=turn.id,
            created=host.clock.now(),
        )
    )
    turn.emit(Event("text", {"text": host.secrets.redact(text)}, scope="chat"))


async def admit(host: Host, turn: Turn) -> TurnAnswer | None:
    """Let the turn be refused, answered and tagged; return the first answer, if there is one.

    Raises:
        RefusedError: A plugin refused the turn.
        HookError: A required hook failed.
    """
    given: TurnAnswer | None = None
    answers: Sequence[HookAnswer[Refusal | TurnAnswer]]
    answers = await host.hooks.each_by_plugin(hookspecs.before_turn, turn)
    for answer in answers:
        said = answer.value
        if isinstance(said, TurnAnswer):
            given = given or said
        elif said is not None:
            raise RefusedError(replace(said, plugin=answer.plugin))
    for tags in await host.hooks.each(hookspecs.tag_turn, turn):
        turn.tags |= frozenset(tags)
    return given


def _warn(turn: Turn, code: str, message: str, action: str) -> None:
    """Tell the client of something that is no failure, and what it can do about it."""
    data = {"code": code, "message": message, "action": action}
    turn.emit(Event("warning", data, scope="chat"))


class Rounds:
    """The rounds of one turn: a request to a model, then the tools that it calls for."""

    def __init__(
        self,
        host: Host,
        calls: ToolCalls,
        windows: Windows,
        standing: StandingBlocks,
        turn: Turn,
        request: TurnRequest,
    ) -> None:
        self._host = host
        self._calls = calls
        self._windows = windows
        self._standing = standing
        self._turn = turn
        self._asked = request
        self._first: ModelRequest | None = None
        self._baseline: ModelRequest | None = None
        self._came: Mapping[str, ToolUseEvent] = {}
        self._system: tuple[SystemText, ...] = ()
        self._messages: list[Message] = []
        self._tokens = 0
        self._added: set[tuple[str, str, str]] = set()

    async def run(self) -> bool:
        """Run rounds until there is an answer; True where the client has to go on."""
        turn = self._turn
        await self._start_context()
        last = max(turn.plan.max_iterations, 0)
        for iteration in range(last + 1):
            turn.iteration = iteration
            reply = await self._ask()
            if not reply.tool_uses:
                return False
            if await self._run_tools(reply, over=iteration == last):
                return True
            turn.stage = "after_tool"
            await self._add_context()
        raise AssertionError("the last round returns or raises")

    # -- context -----------------------------------------------------------

    async def _start_context(self) -> None:
        """Pack instructions, history and blocks under the budget."""
        turn, settings = self._turn, self._host.settings.context
        if turn.verbatim:
            self._read_as_it_came()
            return
        past = Past.of(
            turn.history, turns=turn.plan.history_turns, goes_on=turn.messages[0].role == "tool"
        )
        needed = [*past.needed, *turn.messages]
        own = sum([message_tokens(message, self._host.tokens) for message in needed])
        if own > turn.plan.context_tokens:
            raise TurnError(
                f"the message takes {own} tokens, and the context has {turn.plan.context_tokens}",
                code="message_too_long",
                action="send a shorter message, or raise `context.budget_tokens`",
            )
        if turn.plan.history == "server":
            start = self._windows.start(turn.session, past.older, turn.plan.history_turns)
            turn.history = tuple(past.begin_at(start))
        keeps = turn.plan.history == "server" and not turn.ephemeral and turn.parent is None
        builder = ContextBuilder(
            budget=turn.plan.context_tokens,
            counter=self._host.tokens,
            floors=settings.floors,
            caps=settings.caps,
            standing=self._standing.of(self._host, turn) if keeps else {},
        )
        if turn.agent.soul:
            builder.add(Block(kind="soul", text=turn.agent.soul, plugin="core", stable=True))
        if turn.system:
            builder.add(
                Block(kind="soul", text=turn.system, plugin="core", key="request", stable=True)
            )
        builder.add_history(past.optional)
        await self._gather(builder)
        context = self._packed(builder, past, needed)
        turn.history = tuple(past.ordered(context.history))
        self._use(builder, context)
        self._system = tuple([piece for piece in context.system if piece.stable])
        self._messages = [*builder.shown(turn.history), *turn.messages]
        count = self._host.tokens.count
        self._tokens = context.of_messages + sum([count(piece.text) for piece in context.system])
        self._add_beside([piece for piece in context.system if not piece.stable])
        if keeps:
            # What stands beside tool results alone goes with its turn.
            fresh = context.staying if turn.message.role == "user" else ()
            self._standing.keep(turn, builder.stood, fresh)

    def _packed(self, builder: ContextBuilder, past: Past, needed: Sequence[Message]) -> Context:
        """Pack; where the history has no room, have it begin so late that it has for some turns."""
        turn, counter = self._turn, self._host.tokens
        context = builder.pack(needed)
        while builder.stood and (context.left_out or context.tokens > builder.budget):
            builder.let_go()
            context = builder.pack(needed)
        is_cut = bool(context.left_out) and "history" in [item.kind for item in context.left_out]
        if turn.plan.history != "server" or past.rounds or not is_cut or not context.history:
            return context
        room = sum([message_tokens(message, counter) for message in context.history])
        kept = newest_within(past.older, room * HISTORY_LEFT, counter)
        self._windows.begin(turn.session, past.older[-kept:])
        builder.keep_history(kept)
        return builder.pack(needed)

    def _add_beside(self, pieces: Sequence[SystemText]) -> None:
        """Put what is for this turn alone beside what began it.

        Behind the history, so that a request begins as the one before it did: what caches know.
        """
        if not pieces:
            return
        own = [message.role for message in self._turn.messages]
        place = len(self._messages) - len(own) + (own.index("user") if "user" in own else len(own))
        self._messages.insert(place, said_of(pieces, self._turn.id))

    def _read_as_it_came(self) -> None:
        """Have the model read the request: its own texts and messages, and nothing beside them."""
        turn, system = self._turn, self._asked.system
        if isinstance(system, str):
            system = (SystemText(text=system),) if system else ()
        turn.extra_taint |= join_taints(piece.taint for piece in system)
        self._system = system
        self._messages = [*turn.history, *turn.messages]
        count = self._host.tokens.count
        self._tokens = sum([message_tokens(item, self._host.tokens) for item in self._messages])
        self._tokens += sum([count(piece.text) for piece in system])

    async def _add_context(self) -> None:
        """Append what plugins add behind tool calls; nothing that is there is moved."""
        if self._turn.verbatim:
            return
        # What calls and results have taken since is not there any more.
        room = max(self._turn.plan.context_tokens - self._tokens, 0)
        builder = ContextBuilder(budget=room, counter=self._host.tokens, stage="after_tool")
        await self._gather(builder)
        context = builder.pack(())
        if not context.system:
            return
        self._use(builder, context)
        self._add(said_of(context.system, self._turn.id))

    def _add(self, message: Message) -> None:
        """Put a message in front of the model, behind all others."""
        self._messages.append(message)
        self._tokens += message_tokens(message, self._host.tokens)

    async def _gather(self, builder: ContextBuilder) -> None:
        hooks = self._host.hooks
        for implementation in hooks.implementations(hookspecs.before_context_build):
            builder.plugin = implementation.plugin
            await hooks.run_one(implementation, self._turn, builder)
        builder.drop(self._added)

    def _use(self, builder: ContextBuilder, context: Context) -> None:
        """Note what the model will read, for taint, for repeats and for the client."""
        turn = self._turn
        self._added.update(map(said_by, builder.blocks))
        turn.extra_taint |= join_taints([piece.taint for piece in context.system])
        if builder.stood:
            turn.extra_taint |= join_taints([block.taint for block in builder.standing])
        data = {
            "stage": builder.stage,
            "tokens": context.tokens,
            "budget": builder.budget,
            "by_kind": dict(context.by_kind),
            "left_out": [
                {"kind": item.kind, "plugin": item.plugin, "tokens": item.tokens}
                for item in context.left_out
            ],
        }
        turn.emit(Event("context", data, scope="chat"))

    # -- the model ---------------------------------------------------------

    async def _ask(self) -> Message:
        """Walk the plan's models until one answers; commit its answer to the turn."""
        turn = self._turn
        failure: ProviderError | None = None
        attempt = 0
        for model in self._models():
            for retry in range(turn.plan.retries + 1):
                call = ModelCall(self._host, turn, self._request(model, attempt))
                attempt += 1
                try:
                    return await self._read(call)
                except ProviderError as error:
                    if call.started:
                        raise
                    failure = error
                    wait = self._wait_for(error, retry)
                    data = {"model": str(model), "error": str(error), "retry_in": wait}
                    turn.emit(Event("attempt_failed", data, scope="chat"))
                    if wait is None:
                        break
                await asyncio.sleep(wait)
        if failure is None:
            raise TurnError(
                f"agent {turn.agent.name!r} has no model to ask",
                code="no_model",
                action=f"set `agents.{turn.agent.name}.model`",
            )
        raise failure

    def _models(self) -> Sequence[ModelRef]:
        """Return the plan's models that the turn's principal may use.

        Raises:
            NotAllowedError: It may use none of them.
        """
        principal, models = self._turn.principal, self._turn.plan.models
        allowed = [model for model in models if principal.may_use_model(model)]
        if models and not allowed:
            raise NotAllowedError(
                f"{principal.id} may use none of this turn's models: {', '.join(map(str, models))}",
                action="use a token whose `models` allow one, or an agent with another model",
            )
        return allowed

    @property
    def _most_output(self) -> int:
        """The tokens that an answer of this turn may have, unless a plugin lowers it."""
        return self._turn.plan.parameters.max_output_tokens or self._turn.agent.max_output_tokens

    def _wait_for(self, error: ProviderError, retry: int) -> float | None:
        """Return the seconds before the next attempt at the same model; None for none."""
        plan = self._turn.plan
        if not error.retryable or retry >= plan.retries:
            return None
        wait = error.retry_after if error.retry_after is not None else plan.retry_delay * 2**retry
        return wait if wait <= plan.retry_limit else None

    def _request(self, model: ModelRef, attempt: int) -> ModelRequest:
        turn, counter = self._turn, self._host.tokens
        if turn.verbatim:
            return self._request_as_it_came(model, attempt)
        tools = self._shown()
        tokens = self._tokens + schema_tokens(tools, counter)
        asked, agent = turn.plan.parameters, turn.agent
        return ModelRequest(
            model=model,
            system=self._system,
            messages=tuple(self._messages),
            tools=tools,
            max_output_tokens=self._most_output,
            temperature=agent.temperature if asked.temperature is None else asked.temperature,
            stop=asked.stop,
            attempt=attempt,
            iteration=turn.iteration,
            input_tokens=tokens,
            options=agent.settings,
            whole=turn.whole,
            parameters=asked,
        )

    def _shown(self) -> tuple[Tool, ...]:
        """Return what is offered as the model reads it.

        What others wrote of their tools is shown as the sanitizers let it through.
        """
        turn = self._turn
        faces = turn.snapshot.faces
        return tuple(
            [
                faces.get(name, tool) if tool.owner == "host" else tool
                for name, tool in turn.offered.items()
            ]
        )

    def _request_as_it_came(self, model: ModelRef, attempt: int) -> ModelRequest:
        """Return what is asked where nothing is added: the request, as far as it goes by now."""
        turn, asked = self._turn, self._turn.plan.parameters
        first = self._first
        if first is None:
            tools = self._shown()
            self._tokens += schema_tokens(tools, self._host.tokens)
            said = self._asked.parameters
            first = self._first = ModelRequest(
                model=model,
                system=self._system,
                messages=tuple(self._messages),
                tools=tools,
                max_output_tokens=(said.max_output_tokens or self._bound(model))
                * (said.answers or 1),
                temperature=said.temperature,
                stop=said.stop,
                parameters=said,
                whole=turn.whole,
                raw=turn.raw,
                embed=self._asked.embed,
                counts=self._asked.counts,
            )
        is_longer, most = len(self._messages) > len(first.messages), asked.max_output_tokens
        return replace(
            first,
            model=model,
            messages=tuple(self._messages) if is_longer else first.messages,
            max_output_tokens=most * (asked.answers or 1) if most else first.max_output_tokens,
            temperature=asked.temperature,
            stop=asked.stop,
            parameters=asked,
            call_id=new_id("call"),
            attempt=attempt,
            iteration=turn.iteration,
            input_tokens=self._tokens,
            baseline=self._came_as(first),
        )

    def _came_as(self, first: ModelRequest) -> ModelRequest:
        """Return what the body says as a request: nothing that stands beside it since."""
        if self._baseline is None:
            messages = tuple([one for one in first.messages if one.raw is not None])
            tools = tuple([tool for tool in first.tools if tool.owner == "client"])
            # Where all of it came so they are the very same: that is what a provider goes by.
            self._baseline = first
            if len(messages) < len(first.messages):
                self._baseline = replace(self._baseline, messages=messages)
            if len(tools) < len(first.tools):
                self._baseline = replace(self._baseline, tools=tools)
        return self._baseline

    def _bound(self, model: ModelRef) -> int:
        """Return the most tokens that a model writes of which nobody has asked for fewer."""
        provider = self._host.providers.get(model.provider)
        try:
            known = {info.name: info for info in provider.models()} if provider else {}
        except Exception as error:
            self._host.log.warning("models cannot be read", model=str(model), exc_info=error)
            known = {}
        info = known.get(model.model) or known.get("*")
        return (info and info.max_output_tokens) or OUTPUT_BOUND

    async def _read(self, call: ModelCall) -> Message:
        """Pass an answer on while it comes; keep of a torn one what its reader has seen."""
        turn, most = self._turn, self._host.settings.turn.max_tool_calls
        reply = Reply(turn, self._host.secrets, self._host.clock.now, most=most)
        events = call.events()
        try:
            async for event in events:
                reply.take(event)
                if isinstance(event, ToolUseEvent) and reply.calls % BREATH == 0:
                    await asyncio.sleep(0)
        except BaseException:
            # Closed here, not by the collector: settling must be over before the turn is.
            await events.aclose()
            torn = reply.message(call.request.taint | turn.taint, whole=False)
            if torn is not None:
                turn.messages.append(torn)
            raise
        finally:
            self._spent(call)
        # Of the request as it was sent: a plugin may have added to it.
        message = reply.message(call.request.taint | turn.taint, whole=True)
        assert message is not None, "a whole answer is a message, if an empty one"
        if reply.calls > most:
            self._too_many(reply.calls, most)
        self._odd_end(message, call)
        turn.messages.append(message)
        self._add(message)
        self._came = reply.came
        return message

    def _too_many(self, calls: int, most: int) -> None:
        """Say that a message called more tools than may run, to the operator and the client."""
        self._host.log.warning("too many tool calls", turn=self._turn.id, calls=calls, limit=most)
        _warn(
            self._turn,
            "too_many_tool_calls",
            f"the model called {calls} tools in one message; the first {most} are looked at, and "
            "the others get an error",
            "ask for less at once, or raise `turn.max_tool_calls`",
        )

    def _odd_end(self, message: Message, call: ModelCall) -> None:
        """Tell the client of an answer with nothing in it, and of one that its limit has cut."""
        turn, request = self._turn, call.request
        if turn.verbatim:
            return  # The client sees it as it came.
        cut = call.ending is not None and call.ending.stop == "max_tokens"
        text = message.text
        empty = not text.strip() and not message.tool_uses
        if "<think>" in text or "<tool_call>" in text:
            self._unread_tags(text, request.model)
        if not (cut or empty):
            return
        limit = f"its limit of {request.max_output_tokens} tokens" if cut else ""
        if empty:
            told = f"{request.model} answered with nothing" + (f" within {limit}" if cut else "")
            action = "ask again, or in other words"
        else:
            told = f"{request.model} stopped at {limit}: the answer is not whole"
            action = "ask it to go on"
        if cut and request.max_output_tokens >= self._most_output:
            action += f", or raise `agents.{turn.agent.name}.max_output_tokens`"
        _warn(turn, "empty_answer" if empty else "answer_cut", told, action)

    def _unread_tags(self, text: str, model: ModelRef) -> None:
        """Name what a small model's server leaves in the text, where nobody has read it."""
        for written, setting, meant in UNREAD:
            if written.match(text):
                _warn(
                    self._turn,
                    "unread_tags",
                    f"{model} has left tags in its answer: {meant}",
                    f'`{setting}` in [plugin.providers.{model.provider}.models."{model.model}"] '
                    "has them read",
                )

    def _spent(self, call: ModelCall) -> None:
        turn, ending = self._turn, call.ending
        turn.stop = ending.stop if ending else None
        if call.usage is not None:
            turn.usage += call.usage
            turn.emit(Event("usage", call.usage.to_json(), scope="chat", value=call.usage))
        if ending is not None:
            data = {
                "model": str(call.request.model),
                "call": call.request.call_id,
                "status": ending.status,
                "stop": ending.stop,
            }
            turn.tell(Event("model_ended", data, scope="chat", value=ending))
        self._host.metric(
            "model.call",
            turn=turn.id,
            session=str(turn.session),
            model=str(call.request.model),
            call=call.request.call_id,
            ending=ending.status if ending else "",
            milliseconds=call.seconds * 1000,
            **(call.usage.to_json() if call.usage else {}),
        )

    # -- the tools ---------------------------------------------------------

    async def _run_tools(self, reply: Message, *, over: bool) -> bool:
        """Run the calls of `reply`; True where some of them wait for the client."""
        turn = self._turn
        work = ToolRound(self._host, self._calls, turn, reply.tool_uses, self._came)
        try:
            if over:
                raise TurnError(
                    f"the model still calls tools after {turn.plan.max_iterations} rounds",
                    code="max_iterations",
                    action="raise `turn.max_iterations`, or ask for less at once",
                )
            raise_if_cancelled()
            await work.run()
        finally:
            message = work.message()
            if message is not None:
                turn.messages.append(message)
                self._add(message)
        failed = work.failure()
        if failed is not None and turn.plan.failure_mode == "fail_closed":
            name, result = failed
            raise TurnError(
                f"tool {name!r} failed and the turn is fail_closed: {result.text[:FAILURE_CHARS]}",
                code="tool_failed",
            )
        work.reveal()
        return bool(work.pending)
