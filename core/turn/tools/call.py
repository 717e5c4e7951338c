"""`run_tool_call`: judging a tool call, running it, and saying what it came to.

The only way to a tool. Every call is judged by `before_tool_call` on whatever path it
came; what was judged is byte for byte what the tool gets; `tool_decided` and then
`tool_finished` run exactly once for each call whose judging began, whatever cuts it short.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import orjson

from hookgate import hookspecs
from hookgate.core.domain.descriptors import identity
from hookgate.core.domain.errors import HookError
from hookgate.core.domain.events import Event
from hookgate.core.domain.messages import CLEAN
from hookgate.core.domain.parts import content_to_json
from hookgate.core.domain.strict_json import NAME, canonical
from hookgate.core.domain.tools import (
    Ask,
    ClientCallFlags,
    Decision,
    Effect,
    Tool,
    ToolCall,
    ToolResult,
)
from hookgate.core.domain.turn import HERE, FinishedCall
from hookgate.core.hooks.tasks import apart, finish, raise_if_cancelled, told
from hookgate.core.turn.tools.open_calls import OpenCalls
from hookgate.core.turn.tools.sound import (
    bytes_of,
    cut,
    masked,
    masked_alone,
    wrong_in_result,
    wrong_in_verdict,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from hookgate.core.domain.messages import Taint, ToolUse
    from hookgate.core.domain.tools import Sandbox, ToolOwner, Verdict, Would
    from hookgate.core.domain.turn import Turn
    from hookgate.core.host import Host

GRACE_SECONDS = 1.0
"""Seconds that whoever resolves a question gets beyond its time limit: keeping that is theirs."""

MAX_ROUNDS = 3
"""Rounds of judging, rewrites included; after them the call is denied."""


MOST_NAME = 256
"""Characters of the name of a tool that a client's request may not even list."""

LEAST_WAIT = 0.05
"""Seconds at least that a tool gets for itself once a call of its own is over."""


@dataclass(slots=True, eq=False)
class Call:
    """A call on its way: judged, run, and over once it has a result.

    Attributes:
        use: The call as the model wrote it, or as who calls within the turn did.
        inner: Whether it is made within the turn, and not by the turn's model.
        outer: The call in which a tool makes this one; None where it is made in none.
        depth: How deep it is nested, in turns and in calls.
        index: Its place among the calls of its turn.
        call: The call as it would run; None where there is no such tool or its arguments do not
            fit its schema, so that there is nothing to judge.
        arguments: The bytes that were judged, in canonical JSON; nothing else runs.
        decision: What was decided; a denial until something was.
        problem: What the model is told where `call` is None.
        result: What it came to.
        read: What calls within it have read, which whatever it returns may come from.
        waits: How many calls within it are under way.
        since: Since when, in seconds of the event loop.
        waited: For how long it has waited for such calls before.
    """

    use: ToolUse
    inner: bool = False
    outer: Call | None = None
    depth: int = 0
    index: int = 0
    call: ToolCall | None = None
    arguments: bytes = b"{}"
    decision: Decision = field(default_factory=lambda: Decision.deny("cancelled"))
    problem: str = ""
    result: ToolResult | None = None
    read: Taint = CLEAN
    waits: int = 0
    since: float = 0.0
    waited: float = 0.0

    @property
    def allowed(self) -> bool:
        """Whether the call runs."""
        return self.call is not None and self.decision.allowed

    @property
    def within(self) -> str:
        """The id of the call in which it is made; "" for a model's."""
        return "" if self.outer is None else self.outer.use.id

    def tainted(self, result: ToolResult) -> ToolResult:
        """Return `result` with what calls within this one have read."""
        if self.read <= result.taint:
            return result
        return replace(result, taint=result.taint | self.read)

    def of(self, tool: Tool, arguments: Mapping[str, Any]) -> ToolCall:
        """Return this call as it is judged, of `tool` with `arguments`."""
        return ToolCall(
            id=self.use.id,
            tool=tool,
            arguments=arguments,
            depth=self.depth,
            index=self.index,
            within=self.within,
        )


def _never_judged(turn: Turn, item: Call) -> ToolCall:
    """Return a call as it was written, of a tool that may not be there."""
    use = item.use
    tool = turn.offered.get(use.name) or unknown_tool(use.name)
    return item.of(tool, {} if isinstance(use.input, str) else use.input)


def usable(turn: Turn, item: Call) -> Tool | None:
    """Return the tool that is called, where it is there for whoever calls it.

    A model calls what it was offered. Who calls within the turn may use all that the turn may.
    """
    name = item.use.name
    if item.inner:
        tool = turn.snapshot.tools.get(name)
        return tool if tool is not None and may_use(turn, tool) else None
    tool = turn.offered.get(name) or of_client(turn, name)
    return tool if tool is None or tool.owner == "client" or may_use(turn, tool) else None


def of_client(turn: Turn, name: str) -> Tool | None:
    """Return what stands in for a tool of the client's that its request does not list.

    None where the request brings none, or where the gateway has one of that name, whether this
    turn may use it or not. In what is read as it came each call is the client's, but for those of
    the gateway's tools that its request asks for.
    """
    if turn.verbatim:
        if name in turn.snapshot.tools and matches(name, turn.host_tools):
            return None
        sound = 0 < len(name) <= MOST_NAME and name.isprintable()
        return unknown_tool(name, "client") if sound else None
    if not turn.client_tools or not NAME.fullmatch(name):
        return None
    spelt = identity(name)
    if any(identity(own) == spelt for own in turn.snapshot.tools):
        return None
    return unknown_tool(name, "client")


def unknown_tool(name: str, owner: ToolOwner = "host") -> Tool:
    """Return what stands in for a tool of which nothing is known but its name."""
    sandbox: Sandbox = "client" if owner == "client" else "python"
    schema = {"type": "object"}
    return Tool(name=name, description="", schema=schema, owner=owner, sandbox=sandbox)


def may_use(turn: Turn, tool: Tool) -> bool:
    """Whether the turn's agent may call `tool`, by its globs and by what was withheld."""
    if f"tool:{tool.name}" in turn.withheld:
        return False
    return matches(tool.name, turn.agent.tools)


def odd_answerers(host: Host) -> Sequence[str]:
    """Return, for people, where `turn.answerers` and the plugins that resolve questions differ."""
    named = host.settings.turn.answerers
    there = {item.plugin for item in host.hooks.implementations(hookspecs.resolve_ask)}
    usual = type(host.settings.turn)().answerers  # a gateway without them says so elsewhere
    return [
        *(
            f"the plugin {name!r} could answer, and `turn.answerers` does not name it"
            for name in sorted(there.difference(named))
        ),
        *(
            f"`turn.answerers` names {name!r}, and no plugin of that name answers"
            for name in named
            if name not in there and name not in usual
        ),
    ]


def matches(name: str, globs: Sequence[str] | None) -> bool:
    """Whether a tool of this name is among those that an agent may call; None is all."""
    return globs is None or any(fnmatchcase(name, glob) for glob in globs)


def _observed(
    call: ToolCall, written: bytes, decision: Decision, ask: Ask | None
) -> tuple[ToolCall, Decision]:
    """Return a call as it was written, let through, with what had become of it."""
    would: Would = "ask" if ask is not None else "allow" if decision.allowed else "deny"
    if bytes_of(call.arguments) != written:
        would = "rewrite" if would == "allow" else would
        call = replace(call, arguments=orjson.loads(written))
    reason = decision.reason or (ask.title if ask is not None else "")
    return call, replace(decision, effect=Effect.ALLOW, reason=reason, would=would)


def cut_short(error: BaseException) -> ToolResult:
    """Return what a call came to that did not come to its end because of `error`."""
    if isinstance(error, asyncio.CancelledError):
        return ToolResult.error("the call was cancelled", status="cancelled")
    return ToolResult.error(f"the call failed: {told(error)}")


class ToolCalls:
    """Judges and runs tool calls.

    Attributes:
        open: Calls that clients run in turns of which nothing is kept.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self.open = OpenCalls(lambda: host.clock.monotonic())

    # -- judging -----------------------------------------------------------

    async def judge(self, turn: Turn, item: Call) -> None:
        """Decide on one call.

        Never raises for what was written: an unknown tool and wrong arguments are a `problem`.
        """
        use, item.index = item.use, turn.next_index()
        if not item.inner:
            item.depth = turn.depth
        tool = usable(turn, item)
        item.problem = self._problem(turn, item, tool)
        if tool is None or item.problem or isinstance(use.input, str):
            return
        # Copies: a hook that changes the arguments in place changes neither the message, nor what
        # is said of a call that is cancelled meanwhile.
        written = canonical(use.input)
        call = item.call = item.of(tool, orjson.loads(written))
        here = HERE.set((turn, item))
        try:
            try:
                judging = replace(call, arguments=orjson.loads(written))
                item.call, item.decision = await self._decide(turn, judging)
            finally:
                # Whole, and also where nothing was decided: what is over has been decided on.
                item.arguments = item.call.canonical
                item.decision = await finish(self._noted(turn, item.call, item.decision))
        except BaseException as error:
            await self.end(turn, item, cut_short(error))
            raise
        finally:
            HERE.reset(here)

    def _problem(self, turn: Turn, item: Call, tool: Tool | None) -> str:
        """Say why there is nothing to judge, or ""."""
        use = item.use
        if tool is None and item.inner:
            return f"unknown tool {use.name!r}: this turn may use none of that name"
        if tool is None:
            known = ", ".join(sorted(turn.offered)) or "none"
            return f"unknown tool {use.name!r}: the tools are {known}"
        if isinstance(use.input, str):
            return f"the arguments of {use.name!r} are no JSON object: {use.input[:200]!r}"
        wrong = tool.wrong_arguments(use.input)
        return f"the arguments of {use.name!r} are wrong: " + "; ".join(wrong) if wrong else ""

    async def verdict(self, turn: Turn, use: ToolUse) -> Decision:
        """Judge a call without asking anybody, recording anything or running it."""
        arguments = {} if isinstance(use.input, str) else use.input
        call = ToolCall(id=use.id, tool=turn.offered[use.name], arguments=arguments)
        _, decision, _ = await self._verdict(turn, call)
        return decision

    async def _decide(self, turn: Turn, call: ToolCall) -> tuple[ToolCall, Decision]:
        written = call.canonical
        call, decision, ask = await self._verdict(turn, call)
        if turn.observe and call.tool.owner == "client":
            return _observed(call, written, decision, ask)
        if ask is None:
            return call, decision
        judged = call.canonical
        decision = await self._resolve(turn, call, ask, decision)
        if bytes_of(call.arguments) != judged:
            call = replace(call, arguments=orjson.loads(judged))
        return call, decision

    async def _noted(self, turn: Turn, call: ToolCall, decision: Decision) -> Decision:
        """Let plugins take note of a decision, which becomes a denial where one of them cannot."""
        judged = call.canonical
        # Copies: what is done to them changes neither what was decided nor what runs.
        told, said = replace(call, arguments=orjson.loads(judged)), replace(decision)
        try:
            await self._host.hooks.notify(hookspecs.tool_decided, turn, told, said)
        except HookError as error:
            why = f"the decision could not be recorded: {error}"
            return Decision.deny(why, by=error.plugin)
        if bytes_of(told.arguments) != judged or told.tool is not call.tool or said != decision:
            # Whoever took note of it after that has recorded something else.
            return Decision.deny("the decision could not be recorded: a plugin changed it in place")
        return decision

    async def _verdict(self, turn: Turn, call: ToolCall) -> tuple[ToolCall, Decision, Ask | None]:
        """Go through rounds of judging until nobody rewrites any more."""
        for number in range(1, MAX_ROUNDS + 1):
            judged = call.canonical
            try:
                if call.tool.owner == "client":
                    call = replace(call, said=await self._said(turn, call))
                answers = await self._host.hooks.each_by_plugin(
                    hookspecs.before_tool_call, turn, call
                )
            except HookError as error:
                return call, Decision.deny(f"policy failed: {error}", by=error.plugin), None
            verdicts = tuple(
                replace(answer.value, plugin=answer.plugin)
                for answer in answers
                if answer.value is not None
            )
            if bytes_of(call.arguments) != judged:
                call = replace(call, arguments=orjson.loads(judged))
                return call, Decision.deny("a plugin changed the arguments in place"), None
            for verdict in verdicts:
                if junk := wrong_in_verdict(verdict):
                    return call, Decision.deny(junk, by=verdict.plugin), None
            decision, ask, rewrite = self._merge(verdicts, number)
            if rewrite is None or (new := bytes_of(rewrite.arguments)) == judged:
                return call, decision, ask
            arguments: dict[str, Any] = orjson.loads(new)
            wrong = call.tool.wrong_arguments(arguments)
            if wrong:
                reason = f"{rewrite.plugin} rewrote the arguments wrongly: " + "; ".join(wrong)
                return call, Decision.deny(reason, by=rewrite.plugin), None
            call = replace(
                call,
                arguments=arguments,
                rewritten_by=(*call.rewritten_by, rewrite.plugin),
            )
        reason = f"the arguments were still being rewritten after {MAX_ROUNDS} rounds"
        return call, Decision.deny(reason), None

    async def _said(self, turn: Turn, call: ToolCall) -> ClientCallFlags | None:
        """Return what plugins know of a call that its client runs."""
        # Copies: they are to read the arguments, not to change them.
        arguments = orjson.loads(call.canonical)
        hooks = self._host.hooks
        said = await hooks.each(hookspecs.describe_client_call, turn, call.tool, arguments)
        return ClientCallFlags.joined(said)

    def _merge(
        self, verdicts: tuple[Verdict, ...], rounds: int
    ) -> tuple[Decision, Ask | None, Verdict | None]:
        """Combine verdicts by strictness; return the decision, what to ask, the rewrite."""
        if not verdicts:
            return self._default(rounds)
        strictest = max(verdicts, key=lambda verdict: verdict.effect)
        decision = Decision(
            effect=strictest.effect,
            reason=strictest.reason,
            by=strictest.plugin,
            rule=strictest.rule,
            verdicts=verdicts,
            rounds=rounds,
        )
        if strictest.effect is Effect.DENY:
            return decision, None, None
        rewrites = {
            bytes_of(verdict.arguments): verdict
            for verdict in verdicts
            if verdict.arguments is not None
        }
        if len(rewrites) > 1:
            who = " and ".join(sorted({verdict.plugin for verdict in rewrites.values()}))
            return Decision.deny(f"{who} rewrote the arguments differently"), None, None
        rewrite = next(iter(rewrites.values()), None)
        asks = sorted(
            (verdict for verdict in verdicts if verdict.ask_for is not None),
            key=lambda verdict: verdict.plugin,
        )
        return decision, Ask.joined([(item.plugin, item.ask_for) for item in asks]), rewrite

    def _default(self, rounds: int) -> tuple[Decision, Ask | None, Verdict | None]:
        effect = Effect[self._host.settings.turn.default_verdict.upper()]
        reason = "no policy had a say; `turn.default_verdict` stands"
        if effect is Effect.DENY:
            reason += ": deny (is the policy plugin enabled?)"
        ask = Ask(title="No policy had a say in this call") if effect is Effect.ASK else None
        return Decision(effect=effect, reason=reason, rounds=rounds), ask, None

    async def _resolve(self, turn: Turn, call: ToolCall, ask: Ask, asked: Decision) -> Decision:
        """Get an answer to `ask`; nobody, too late, or a failure denies."""
        judged = call.canonical
        try:
            async with asyncio.timeout(ask.timeout + GRACE_SECONDS):
                answer = await self._host.hooks.first_of(
                    self._host.settings.turn.answerers, hookspecs.resolve_ask, turn, call, ask
                )
        except TimeoutError:
            why = f"nobody answered within {ask.timeout:g} s"
            return replace(self._unanswered(asked, ask, why), answer="expired")
        except HookError as error:
            return self._unanswered(asked, ask, f"asking failed: {error}")
        if answer is None:
            why = "; ".join(("nobody is there to be asked", *odd_answerers(self._host)))
            return self._unanswered(asked, ask, why)
        if answer.effect is Effect.ASK:
            return self._unanswered(asked, ask, "the answer was another question")
        if bytes_of(call.arguments) != judged:
            return self._unanswered(asked, ask, "the arguments were changed while it was asked")
        return replace(answer, verdicts=asked.verdicts, rounds=asked.rounds, asked=ask)

    @staticmethod
    def _unanswered(asked: Decision, ask: Ask, why: str) -> Decision:
        reason = f"{ask.title}: {why}"
        return replace(asked, effect=Effect.DENY, reason=reason, by="core", asked=ask)

    def recheck(self, turn: Turn, item: Call) -> bool:
        """Whether a call may run still: it is denied where a verdict does not stand any more."""
        if item.call is None or not item.allowed:
            return False
        if item.decision.would:
            return True
        for verdict in item.decision.verdicts:
            if verdict.recheck is None:
                continue
            try:
                why = verdict.recheck(turn, item.call)
            except Exception as error:  # noqa: BLE001 - what cannot be said is no permission
                why = f"whether it may still run cannot be said: {error!r}"
            if why:
                item.decision = replace(
                    item.decision, effect=Effect.DENY, reason=why, by=verdict.plugin
                )
                return False
        return True

    # -- running -----------------------------------------------------------

    async def run(
        self,
        turn: Turn,
        item: Call,
        *,
        keep: Callable[[ToolResult], Awaitable[ToolResult]] | None = None,
    ) -> None:
        """Run a call that was decided on, or say why it does not run.

        `tool_finished` has run when this returns or is cancelled.

        Args:
            turn: The turn.
            item: The call.
            keep: Called with what the tool came to before anybody is told; returns what is told.
        """
        if item.call is None:
            result = masked(self._host, cut(self._host, ToolResult.error(item.problem)))
            self._over(turn, item, result, _never_judged(turn, item))
            return
        if not self.recheck(turn, item):
            denied = f"denied: {item.decision.reason}"
            await self.end(turn, item, ToolResult.error(denied, status="denied"))
            return
        began = self._host.clock.monotonic()
        here = HERE.set((turn, item))
        try:
            result = item.tainted(await self._execute(turn, item, item.call))
            if keep is not None:
                result = await keep(result)
        except BaseException as error:
            await self.end(turn, item, cut_short(error), began=began)
            raise
        finally:
            HERE.reset(here)
        await self.end(turn, item, result, began=began)

    async def _execute(self, turn: Turn, item: Call, call: ToolCall) -> ToolResult:
        tool = call.tool
        if tool.run is None:
            return ToolResult.error(f"tool {tool.name!r} has nothing that could run it")
        # The tool gets its own copy, read from the very bytes that were judged.
        arguments: dict[str, Any] = orjson.loads(item.arguments)
        run, loop = tool.run, asyncio.get_running_loop()
        began = loop.time()

        def left() -> float:
            # What it waits for a call of its own, and for whoever is asked about that, has limits
            # of its own, and the turn's.
            now = loop.time()
            if not item.waited and not item.waits:
                return 0.0
            waited = item.waited + (now - item.since if item.waits else 0.0)
            own = tool.timeout - (now - began - waited)
            return max(own, LEAST_WAIT) if own > 0 or item.waits else 0.0

        ended = await apart(lambda: run(turn, arguments), limit=tool.timeout, left=left)
        raise_if_cancelled()
        if ended.late:
            text = f"tool {tool.name!r} took longer than {tool.timeout:g} s"
            result = ToolResult.error(text, status="timeout")
        elif isinstance(ended.error, asyncio.CancelledError):
            result = ToolResult.error(f"tool {tool.name!r} cancelled itself")
        elif ended.error is not None:
            self._host.log.warning("tool failed", tool=tool.name, exc_info=ended.error)
            result = ToolResult.error(f"tool {tool.name!r} failed: {told(ended.error)}")
        else:
            result = self._checked(tool, ended.value)
        return await self.after(turn, call, result)

    @staticmethod
    def _checked(tool: Tool, value: object) -> ToolResult:
        if isinstance(value, str):
            return ToolResult(content=value)
        if isinstance(value, ToolResult):
            wrong = wrong_in_result(value)
            return ToolResult.error(f"tool {tool.name!r} returned {wrong}") if wrong else value
        return ToolResult.error(
            f"tool {tool.name!r} returned {type(value).__name__}, expected str or ToolResult"
        )

    async def after(self, turn: Turn, call: ToolCall, result: ToolResult) -> ToolResult:
        """Taint a result, cut it to its limit and let `after_tool_call` change it."""
        if call.flags.reads_external_data is not False:
            result = replace(result, taint=result.taint | {f"tool:{call.name}"})
        result = before = self._shown(turn, result)
        try:
            result = await self._host.hooks.fold(hookspecs.after_tool_call, turn, call, result)
        except HookError as error:
            result = ToolResult.error(f"the result could not be checked: {error}")
        if wrong := wrong_in_result(result):
            result = ToolResult.error(f"the result could not be checked: a plugin made {wrong}")
        if result.content != before.content:
            result = self._shown(turn, result)
        return replace(result, taint=frozenset(result.taint | before.taint))

    def _shown(self, turn: Turn, result: ToolResult) -> ToolResult:
        """Return a result as a model may have it."""
        if turn.verbatim:
            return masked_alone(self._host, result)
        # Masked before it is cut: half a secret is no longer known as one.
        return cut(self._host, masked(self._host, result))

    async def end(
        self, turn: Turn, item: Call, result: ToolResult, *, began: float | None = None
    ) -> None:
        """Record and announce what a call came to, whatever happens to the turn.

        Args:
            turn: The turn.
            item: The call.
            result: What it came to.
            began: The clock's seconds when the tool was started; None where it did not run here.
        """
        call, host = item.call, self._host
        assert call is not None, "a call that ends here was judged"
        took = {}
        if began is not None:
            took["milliseconds"] = (host.clock.monotonic() - began) * 1000
        result = masked(host, item.tainted(result))
        self._over(turn, item, result, call)
        host.metric(
            "tool.call",
            turn=turn.id,
            session=str(turn.session),
            tool=call.name,
            status=result.status,
            by=item.decision.by,
            **took,
        )
        await host.hooks.conclude(hookspecs.tool_finished, turn, call, result)

    @staticmethod
    def _over(turn: Turn, item: Call, result: ToolResult, call: ToolCall) -> None:
        """Keep a result, and tell the client of it."""
        item.result = result
        decision = Decision.deny(item.problem) if item.problem else item.decision
        turn.calls.append(FinishedCall(call, decision, result))
        data: dict[str, Any] = {
            "tool_use_id": item.use.id,
            "content": result.text,
            "is_error": result.is_error,
            "status": result.status,
        }
        if not isinstance(result.content, str):
            data["parts"] = content_to_json(result.content)
        if item.inner:
            data["within"] = item.within
        turn.emit(Event("tool_result", data, scope="chat"))
