"""Every extension point of hookgate, in the order in which a turn meets them.

A plugin implements a hook by defining a method of the same name, marked with
`hookimpl`. It names only the arguments that it wants. Plain and ``async`` methods both
work; one that blocks is marked `blocking` as well and runs on a thread of its plugin's
own pool. Every hook has a contract, which stands beside it:

- ``each``: every implementation is called; the results that are not None are collected.
- ``first``: the first result that is not None counts; the rest is not called.
- ``fold``: each implementation gets what the one before it made of the last argument.

``required`` (written ``!`` in the documentation) says that a failure raises; without it,
a failed implementation is skipped and reported to `hook_failed`. ``settle`` says that
all implementations run even after one has failed, and the failure is raised at the end.
``limit`` is the number of seconds for which one implementation may be suspended.

The order is pluggy's: last registered, first called; ``tryfirst`` and ``trylast`` move
an implementation. An operator may tighten a contract in ``[hooks.NAME]``, never loosen it.
"""

# A specification has no body: the implementations are the plugins'.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import pluggy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from aiohttp import web

    from hookgate.channels import Channel
    from hookgate.core.domain.descriptors import Capability, Card, Rejected, Selection
    from hookgate.core.domain.errors import Problem
    from hookgate.core.domain.events import MetricRecord
    from hookgate.core.domain.messages import Message
    from hookgate.core.domain.models import (
        Ending,
        ModelEvent,
        ModelRequest,
        Provider,
        ProviderInfo,
        Refusal,
        Usage,
    )
    from hookgate.core.domain.tools import (
        Ask,
        ClientCallFlags,
        Decision,
        Tool,
        ToolCall,
        ToolResult,
        Verdict,
    )
    from hookgate.core.domain.turn import Credential, Outcome, Principal, Turn, TurnAnswer, TurnPlan
    from hookgate.core.gateway.operations import Operation
    from hookgate.core.gateway.routes import Routes
    from hookgate.core.hooks.dispatch import HookFailure
    from hookgate.core.host import Host
    from hookgate.core.registry.snapshots import Capabilities
    from hookgate.core.turn.context import ContextBuilder

PROJECT = "hookgate"
"""The pluggy project name, and the entry-point group of third-party plugins."""

F = TypeVar("F", bound=Callable[..., object])

_implements = pluggy.HookimplMarker(PROJECT)
_mark = pluggy.HookspecMarker(PROJECT)


@overload
def hookimpl(function: F) -> F: ...


@overload
def hookimpl(
    *,
    tryfirst: bool = ...,
    trylast: bool = ...,
    specname: str | None = ...,
    of: str = ...,
    wrapper: bool = ...,
    hookwrapper: bool = ...,
    optionalhook: bool = ...,
) -> Callable[[F], F]: ...


def hookimpl(function: Any = None, *, of: str = "", **options: Any) -> Any:
    """Mark a method as the implementation of a hook of its name.

    Args:
        function: The method.
        of: The name of the plugin that publishes the hook, where that is no hook of the core's.
            While that plugin does not run, or is not installed, the implementation is idle.
        **options: ``tryfirst`` and ``trylast`` move it among the others; ``specname`` is the
            hook's name, where the method has another one. Further options of pluggy's are
            refused when the plugin is loaded.
    """

    def mark(function: F) -> F:
        if of:
            function.__hookgate_of__ = of  # type: ignore[attr-defined]
        marked: F = _implements(**options)(function)
        return marked

    return mark if function is None else mark(function)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """How the results of a hook combine, and what a failure costs.

    Attributes:
        combine: each, first or fold.
        required: Whether a failure raises `HookError`; otherwise it is skipped and said.
        limit: Seconds for which one implementation may be suspended.
        settle: Whether every implementation runs even after one has failed.
    """

    combine: Literal["each", "first", "fold"]
    required: bool = False
    limit: float = 5.0
    settle: bool = False


def hookspec(
    combine: Literal["each", "first", "fold"],
    *,
    required: bool = False,
    limit: float = 5.0,
    settle: bool = False,
) -> Callable[[F], F]:
    """Declare a hook together with its contract."""

    def mark(function: F) -> F:
        contract = Contract(combine=combine, required=required, limit=limit, settle=settle)
        function.__contract__ = contract  # type: ignore[attr-defined]
        return _mark(function)

    return mark


def blocking(function: F) -> F:
    """Mark an implementation that blocks, so that it runs on a thread, not on the event loop.

    It stands above or below `hookimpl`::

        @hookimpl
        @blocking
        def list_capabilities(self, host):
            return read_folder(self.settings.folder)
    """
    function.__hookgate_blocking__ = True  # type: ignore[attr-defined]
    return function


# -------------------------------------------------------------------------
# Wiring: once at start, and on reload where it says so
# -------------------------------------------------------------------------


@hookspec("each", required=True, limit=60.0)
def lifespan(host: Host) -> AbstractAsyncContextManager[None]:
    """Open what the plugin needs for the life of the gateway, and close it at the end.

    Called once at start, in the order of the plugins' ``requires`` and ``provides``; left
    in the opposite order. A failure stops the start, and what had opened is closed.
    Services for others are offered with ``host.provide(KEY, service)`` before the yield.

    Args:
        host: The gateway, as far as a plugin may touch it.

    Returns:
        An async context manager; ``contextlib.asynccontextmanager`` makes one.

    Example:
        ::

            @hookimpl
            @asynccontextmanager
            async def lifespan(self, host):
                self.pool = await open_pool(self.settings.url)
                yield
                await self.pool.close()
    """


@hookspec("each", required=True)
def list_operations(host: Host) -> Sequence[Operation[Any, Any]]:
    """Name what the gateway can be asked to do through this plugin.

    Called once at start. Each operation becomes a JSON-RPC method, a REST route and a
    command. Two operations of one name stop the start.

    The command line asks a plugin of a third party for them without opening its lifespan, so
    that help starts no gateway; where that raises, a gateway is started for it.

    Args:
        host: The gateway.

    Returns:
        The operations.

    Example:
        ::

            @hookimpl
            def list_operations(self, host):
                return [Operation(name="dice.roll", summary="Roll a die.", params=Empty,
                                  result=Rolled, handler=self.roll, scope="chat")]
    """


@hookspec("each", required=True)
def add_routes(host: Host, routes: Routes) -> None:
    """Add HTTP routes for webhooks, pages and compat endpoints.

    Called once at start, before the gateway listens. Each route declares its access; one
    that does not is refused. What can be an operation should be one instead.

    Args:
        host: The gateway.
        routes: Takes the routes: ``routes.add(method, path, handler, access=...)``.

    Example:
        ::

            @hookimpl
            def add_routes(self, host, routes):
                routes.add("GET", "/logo.svg", self.logo, access=Access.public("a picture"))
    """


@hookspec("each")
def check_settings(host: Host) -> Sequence[Problem]:
    """Say what the plugin lacks to do what its settings ask for: a secret, a name, another plugin.

    Called by ``hookgate config check`` alone, which opens nothing: no lifespan has run, so use the
    settings, `host.settings`, `host.secrets`, `host.plugins()` and `host.route`, and no network.
    What is wrong with the section by itself is for its pydantic model.

    Args:
        host: The gateway; rely on the core's own services alone.

    Returns:
        What is lacking, each with its `key`; file and line are found by that. A ``warning`` is
        told and is no mistake.

    Example:
        ::

            @hookimpl
            @blocking
            def check_settings(self, host):
                if host.secrets.get("pager_key") is None:
                    ways = ", or ".join(host.secrets.how_to_set("pager_key"))
                    return [Problem(key="plugin.pager", found="no `pager_key`", expected=ways)]
    """


@hookspec("each", required=True, limit=30.0)
def reloading(host: Host) -> Callable[[], None] | None:
    """Read again what the plugin's judgement rests on: rules, lists, keys.

    Called at each reload and not at start, after the settings have been checked, and before
    anything new is published: rules precede the tools that they judge. Prepare here and change
    nothing; what is to come into force is returned as a function, and is called once every
    plugin has prepared. A failure ends the reload, and everything stays as it was.

    Args:
        host: The gateway; its registries still hold what they held.

    Returns:
        A plain function that puts what was prepared into force; it assigns, and cannot fail.
        None where nothing has changed.

    Example:
        ::

            @hookimpl
            @blocking
            def reloading(self, host):
                rules = read_rules(self.settings.rules)  # raises where they are broken
                return lambda: setattr(self, "rules", rules)
    """


@hookspec("each")
def describe_providers(host: Host) -> Sequence[ProviderInfo]:
    """Say which providers the plugin brings, and what each lacks to be asked.

    Called before each `list_providers`, and by ``hookgate config check``, which opens nothing:
    no lifespan has run then, so use the settings and `host.secrets`, and no network. The agents'
    models are held against the answers.

    Args:
        host: The gateway; rely on the core's own services alone.

    Returns:
        What is known of each provider.

    Example:
        ::

            @hookimpl
            @blocking
            def describe_providers(self, host):
                if host.secrets.get("echo_key") is None:
                    places = ", or ".join(host.secrets.how_to_set("echo_key"))
                    return [ProviderInfo(name="echo", missing="no key for echo", action=places)]
                return [ProviderInfo(name="echo")]
    """


@hookspec("each", required=True)
def list_providers(host: Host) -> Sequence[Provider]:
    """Bring providers of models.

    Called at start, at each reload, and soon after a secret that was asked for has
    another value, so that rotated keys come into force. What is returned takes the place of what
    was returned before; calls that run go on with theirs. Return the same provider again where
    nothing has changed, and close one that is replaced when its last call has ended. Of two
    providers of one name the earlier plugin's counts.

    Args:
        host: The gateway.

    Returns:
        The providers, each with its models and their limits.

    Example:
        ::

            @hookimpl
            def list_providers(self, host):
                return [EchoProvider(self.settings)]
    """


@hookspec("each")
def list_tools(host: Host) -> Sequence[Tool]:
    """Bring tools: schema, flags, owner and runner in one object.

    Called at start and on reload. Afterwards a plugin says what changed with
    ``host.tools.apply(source, upsert=..., remove=...)``. Two tools of one name stop the start.

    Args:
        host: The gateway.

    Returns:
        The tools.

    Example:
        ::

            @hookimpl
            def list_tools(self, host):
                return [tool(self.roll_die, flags=Flags.none())]
    """


@hookspec("each")
def list_channels(host: Host) -> Sequence[Channel]:
    """Bring channels: ways in and out beside the gateway's own.

    Called once at start; what comes, changes or goes later does so by ``host.channels.apply``.

    Args:
        host: The gateway.

    Returns:
        The channels. One is left out whose name begins with ``wasm.``, which those of the sandbox
        alone do, or stands where no channel brings a message: ``cli``, ``internal``, ``nested``
        and ``schedule``.

    Example:
        ::

            @hookimpl
            def list_channels(self, host):
                return [IrcChannel(self.settings.server)]
    """


@hookspec("each", limit=30.0)
def list_capabilities(host: Host) -> Sequence[Capability]:
    """Bring capabilities that are no tools and no cards: skills, extensions, manifests.

    Called at start and on reload. A source that fails keeps its last good rows and is
    marked degraded. Tools, channels and cards become capabilities by themselves.

    Args:
        host: The gateway.

    Returns:
        The capabilities.

    Example:
        ::

            @hookimpl
            @blocking
            def list_capabilities(self, host):
                return read_manifests(self.settings.folder)
    """


@hookspec("each", limit=30.0)
def list_cards(host: Host) -> Sequence[Card]:
    """Bring capability cards.

    Called at start and on reload. Their text reaches a model only after `sanitize_card`.

    Args:
        host: The gateway.

    Returns:
        The cards.

    Example:
        ::

            @hookimpl
            async def list_cards(self, host):
                return [Card(id=row.id, text=row.text) for row in await self.rows()]
    """


# -------------------------------------------------------------------------
# Who asks
# -------------------------------------------------------------------------


@hookspec("first", required=True)
def authenticate(credential: Credential, request: web.Request) -> Principal | Refusal | None:
    """Say who comes with a credential: an API key, a session's cookie, a signed token.

    Called for each HTTP request, and each WebSocket once, that presents a credential which no
    token of the settings knows, also on a listener without tokens. A failure, or a principal
    that cannot be, refuses the request. Whoever nobody knows is refused and counted.

    Args:
        credential: What was presented. Compare it in constant time, or by its digest.
        request: The request that brought it; of a socket, the upgrade.

    Returns:
        The `Principal`; None where this plugin does not know the credential; a `Refusal` where it
        does, and it lets nobody in: its text is told, with 401, and nobody else is asked.

    Example:
        ::

            @hookimpl
            async def authenticate(self, credential, request):
                row = await self.find(sha256(credential.value.encode()).hexdigest())
                return row and Principal(id=f"key:{row.id}", key=row.id, scopes=row.scopes)
    """


# -------------------------------------------------------------------------
# Before the model
# -------------------------------------------------------------------------


@hookspec("fold", required=True)
def receive_message(turn: Turn, message: Message) -> Message | Refusal | None:
    """Change a message before anything of it is kept: mask what must not be stored.

    Called once for each message of a user, before it is committed, and before anything else
    sees it. What is made of it takes its place everywhere: in the store, in memory, for the model.

    Args:
        turn: The turn, which has not begun; ``turn.message`` is the message as it came.
        message: What the implementations before this one made of it.

    Returns:
        A changed message, a `Refusal`, after which nothing is kept and no turn begins, or None.

    Example:
        ::

            @hookimpl
            def receive_message(self, turn, message):
                if self.number.search(message.text):
                    return message.with_texts(lambda text: self.number.sub("[number]", text))
                return None
    """


@hookspec("each", required=True)
def before_turn(turn: Turn) -> Refusal | TurnAnswer | None:
    """Let a turn start, refuse it, or answer it: input guards, maintenance, limits, caches.

    Called once a turn, when the user's message is committed. The first refusal ends the
    turn; where nobody refuses, the first answer is the turn's. No model is asked in both.

    Args:
        turn: The turn; nothing of it is planned yet.

    Returns:
        A `Refusal`, a `TurnAnswer`, or None to let it start.

    Example:
        ::

            @hookimpl
            def before_turn(self, turn):
                if self.maintenance:
                    return Refusal(code="maintenance", message="Back at 18:00 UTC.")
    """


@hookspec("each")
def tag_turn(turn: Turn) -> Collection[str] | None:
    """Name the router tags of a turn, such as ``deployment``.

    Called once a turn, before it is planned. The union of all tags stands in ``turn.tags``.

    Args:
        turn: The turn.

    Returns:
        Tags, or None.

    Example:
        ::

            @hookimpl
            def tag_turn(self, turn):
                return {"billing"} if "invoice" in turn.message.text.lower() else None
    """


@hookspec("fold")
def plan_turn(turn: Turn, plan: TurnPlan) -> TurnPlan | None:
    """Change how the turn is to run: models, tool selection, failure mode, limits.

    Called once a turn, after `tag_turn`. A request's own ``fail_closed`` is applied by the
    core afterwards, so that no planner can forget it.

    Args:
        turn: The turn.
        plan: What the implementations before this one made of it.

    Returns:
        A changed plan, or None to leave it.

    Example:
        ::

            @hookimpl
            def plan_turn(self, turn, plan):
                if "hard" in turn.tags:
                    return replace(plan, models=(self.strong, *plan.models))
    """


@hookspec("each", required=True)
def withhold_capabilities(turn: Turn, capabilities: Capabilities) -> Collection[str] | None:
    """Take capabilities away from a turn. This beats selection, force and fallback.

    Called once a turn, before `select_capabilities`. A failure ends the turn: what should
    have been withheld must not slip through.

    Args:
        turn: The turn.
        capabilities: All that the snapshot holds, indexed.

    Returns:
        The ids to withhold, or None.

    Example:
        ::

            @hookimpl
            def withhold_capabilities(self, turn, capabilities):
                return {"tool:http_get"} if turn.address.channel == "kiosk" else None
    """


@hookspec("each")
def select_capabilities(turn: Turn, capabilities: Capabilities) -> Sequence[Selection] | None:
    """Choose the capabilities that fit a turn: tools to offer, cards to inject.

    Called once a turn where the plan has discovery on. The best score per id counts;
    scores compare within one kind. The loop sees a failure and follows the plan.

    Args:
        turn: The turn; the message is ``turn.message``.
        capabilities: What is left after withholding, indexed.

    Returns:
        The choices, or None to choose nothing.

    Example:
        ::

            @hookimpl
            def select_capabilities(self, turn, capabilities):
                return [Selection(id=hit.id, score=hit.score) for hit in self.search(turn)]
    """


@hookspec("fold", required=True)
def sanitize_card(card: Card) -> Card | Rejected | None:
    """Clean or reject third-party text before a model can see it.

    Called for each new text, not for each turn: the verdict is cached by the card's digest
    and the set of plugins, so the answer must depend on the card alone. A rejection, or a
    failure, drops this card and no other. SKILL.md texts, manifests and descriptions of
    foreign tools pass here too, as cards.

    Args:
        card: The card as the sanitizers before this one left it.

    Returns:
        A changed card, `Rejected`, or None to leave it.

    Example:
        ::

            @hookimpl
            def sanitize_card(self, card):
                if "BEGIN PRIVATE KEY" in card.text:
                    return Rejected(reason="holds a private key")
    """


@hookspec("each")
def before_context_build(turn: Turn, context: ContextBuilder) -> None:
    """Add blocks to what the model will read: instructions, recall, cards.

    Called before each model request of a turn; ``turn.stage`` tells the first one
    (``start``) from those behind tool calls (``after_tool``), where blocks are appended.
    The builder packs under the budget and says what it left out.

    Args:
        turn: The turn; its history is there already.
        context: Takes blocks: ``context.add(Block(...))``.

    Example:
        ::

            @hookimpl
            async def before_context_build(self, turn, context):
                facts = await self.recall(turn.message.text)
                context.add(Block(kind="recall", text=facts))
    """


@hookspec("fold", required=True)
def prepare_model_call(turn: Turn, request: ModelRequest) -> ModelRequest | None:
    """Change a model request before it is frozen.

    Called for each attempt at a model, fallbacks included, before any `before_model_call`.

    Args:
        turn: The turn.
        request: What the implementations before this one made of it.

    Returns:
        A changed request, or None to leave it.

    Example:
        ::

            @hookimpl
            def prepare_model_call(self, turn, request):
                return replace(request, temperature=0.0)
    """


@hookspec("each", required=True)
def before_model_call(turn: Turn, request: ModelRequest) -> Refusal | None:
    """Refuse one attempt at a model, or reserve what it may cost.

    Called for each attempt, with the request frozen. Any refusal refuses: nothing is sent.
    `after_model_call` runs once for each attempt that got here, whatever happens.

    Args:
        turn: The turn.
        request: The frozen request; ``request.call_id`` is unique to the attempt.

    Returns:
        A `Refusal`, or None.

    Example:
        ::

            @hookimpl
            async def before_model_call(self, turn, request):
                if not await self.reserve(request.call_id, request.input_tokens):
                    return Refusal(code="budget_exceeded", message="today's tokens are used up")
    """


@hookspec("fold", required=True)
def filter_stream(
    turn: Turn, events: AsyncIterator[ModelEvent]
) -> AsyncIterator[ModelEvent] | None:
    """Wrap what a model says on its way to the client: output guards, redaction.

    Called once for each attempt; the wrapper then sees every event. Usage is counted
    before the filters, so a filter cannot hide it. Each step of a filter is limited in
    time, and a filter that fails ends the call as cut.

    Args:
        turn: The turn.
        events: The stream as the filters before this one pass it on.

    Returns:
        An async iterator in its place, or None to leave it.

    Example:
        ::

            @hookimpl
            def filter_stream(self, turn, events):
                async def masked():
                    async for event in events:
                        yield self.mask(event)
                return masked()
    """


@hookspec("each", required=True, limit=10.0, settle=True)
def after_model_call(
    turn: Turn, request: ModelRequest, ending: Ending, usage: Usage | None
) -> None:
    """Settle one attempt at a model.

    Called exactly once for each `before_model_call` that was begun: refused, failed, cut,
    cancelled or done. It is shielded from the turn's cancellation and has its own limit.

    Args:
        turn: The turn.
        request: The request that `before_model_call` saw.
        ending: How the attempt ended.
        usage: What the provider reported. Where it has answered without figures that can be
            true it is an estimate: ``usage.reported`` is False. None where it has not answered.

    Example:
        ::

            @hookimpl
            async def after_model_call(self, turn, request, ending, usage):
                await self.settle(request.call_id, usage)
    """


# -------------------------------------------------------------------------
# Tools
# -------------------------------------------------------------------------


@hookspec("each", required=True)
def describe_client_call(
    turn: Turn, tool: Tool, arguments: Mapping[str, Any]
) -> ClientCallFlags | None:
    """Say what one call of a tool that its client runs does, by its name, schema and arguments.

    Called for each call of a client's tool, before it is judged, and again after a rewrite. Where
    several say something, the strictest of each flag counts, and what the request itself
    declares to be true stays true. A failure denies the call.

    Args:
        turn: The turn.
        tool: The tool, as the request declares it; one that it does not list has no schema.
        arguments: The arguments, a copy.

    Returns:
        What is known of the call, or None where this plugin does not know such a tool.

    Example:
        ::

            @hookimpl
            def describe_client_call(self, turn, tool, arguments):
                if tool.name == "clock" and not arguments:
                    return ClientCallFlags(flags=Flags.none(), why="it tells the time")
    """


@hookspec("each", required=True)
def before_tool_call(turn: Turn, call: ToolCall) -> Verdict | None:
    """Judge one tool call: allow, deny, ask a person, or rewrite its arguments.

    Called for every call on every path, in the order of the model's message, before any of
    them runs. The strictest verdict wins, whatever the order of plugins. A failure, a
    timeout or a wrong result denies. After a rewrite everybody judges the new arguments.
    Minutes may pass before the call runs: `Verdict.recheck` is asked again then.

    Args:
        turn: The turn, with its taint and its calls so far.
        call: The call: canonical arguments, the tool's flags, nesting.

    Returns:
        A `Verdict`, or None to abstain. Where all abstain, the configured default stands.

    Example:
        ::

            @hookimpl
            def before_tool_call(self, turn, call):
                if call.flags.sends_externally is not False and turn.taint:
                    return Verdict.deny("it could send out what a web page asked for")
    """


@hookspec("first", required=True, limit=610.0)
def resolve_ask(turn: Turn, call: ToolCall, ask: Ask) -> Decision | None:
    """Get a person's answer to a verdict that asks.

    Called when the strictest verdict is ASK, of the plugins that ``turn.answerers`` names alone,
    which is ``policy`` unless the operator says otherwise: whoever answers does so in a person's
    place. Nobody answers: the call is denied. Keeping the time of ``ask.timeout`` is the
    implementation's; a second later it is cancelled.

    Args:
        turn: The turn; its lane stays held while this waits.
        call: The call; its arguments are frozen from here on.
        ask: What to ask, and for how long.

    Returns:
        A `Decision`, or None to leave it to the next plugin.

    Example:
        ::

            @hookimpl
            async def resolve_ask(self, turn, call, ask):
                return await self.inbox.wait(turn, call, timeout=ask.timeout)
    """


@hookspec("each", required=True, settle=True)
def tool_decided(turn: Turn, call: ToolCall, decision: Decision) -> None:
    """Take note of the final decision on a call, before anything runs.

    Called once for each call whose judging began, also where that is cancelled. A failure denies
    the call: what cannot be recorded does not happen. It is shielded from the turn's cancellation.

    Args:
        turn: The turn.
        call: The call as it would run; a copy, and a change to it denies the call.
        decision: Allowed or denied, by whom and why; a copy as well.

    Example:
        ::

            @hookimpl
            async def tool_decided(self, turn, call, decision):
                await self.audit.append(turn.id, call.name, decision.effect.name)
    """


@hookspec("fold", required=True)
def after_tool_call(turn: Turn, call: ToolCall, result: ToolResult) -> ToolResult | None:
    """Change what a tool came to, before the model sees it: redact, shorten, taint.

    Called once for each call that ran, and for results that a client brings back. A
    failure makes it an error result. Taint can be added here, not removed.

    Args:
        turn: The turn.
        call: The call.
        result: The result as the implementations before this one left it.

    Returns:
        A changed result, or None to leave it.

    Example:
        ::

            @hookimpl
            def after_tool_call(self, turn, call, result):
                return replace(result, content=self.mask(result.content))
    """


@hookspec("each", required=True, limit=10.0, settle=True)
def tool_finished(turn: Turn, call: ToolCall, result: ToolResult) -> None:
    """Take note of what a call came to. Nothing can be changed any more.

    Called exactly once for each call whose judging began: done, failed, denied or
    cancelled. It is shielded from the turn's cancellation.

    Args:
        turn: The turn.
        call: The call.
        result: The final result; ``result.status`` says how it ended.

    Example:
        ::

            @hookimpl
            async def tool_finished(self, turn, call, result):
                await self.audit.append(turn.id, call.name, result.status)
    """


# -------------------------------------------------------------------------
# After the turn
# -------------------------------------------------------------------------


@hookspec("each")
def turn_ended(turn: Turn) -> None:
    """Say what is to be said of a turn before its client hears that it is done.

    Called exactly once for every started turn, refused and cancelled ones too, when its
    answer is committed. The client and the lane wait for it: leave work to `after_turn`.

    Args:
        turn: The turn; ``turn.ending``, ``turn.error`` and ``turn.answer`` are set.

    Example:
        ::

            @hookimpl
            def turn_ended(self, turn):
                turn.emit(Event("seconds", {"seconds": self.since(turn)}, scope="chat"))
    """


@hookspec("first")
def judge_turn(turn: Turn) -> Outcome | None:
    """Say how well a turn went.

    Called once a turn, after its end.

    Args:
        turn: The turn; ``turn.ending`` and ``turn.answer`` are set.

    Returns:
        An `Outcome`, or None to leave it to the next plugin, and at last to the core.

    Example:
        ::

            @hookimpl
            def judge_turn(self, turn):
                if turn.ending == "failed":
                    return Outcome(status="failed", score=0.0, source="example")
    """


@hookspec("each", limit=30.0)
def after_turn(turn: Turn, outcome: Outcome) -> None:
    """Do what follows a turn: learn from it, record it.

    Called exactly once for every started turn, refused and cancelled ones too, in the
    order of the session, when the lane is free again.

    Args:
        turn: The turn.
        outcome: How it went.

    Example:
        ::

            @hookimpl
            async def after_turn(self, turn, outcome):
                await self.remember(turn.message, turn.answer)
    """


@hookspec("each")
def log_metrics(record: MetricRecord) -> None:
    """Take a record of figures to where figures go: a file, Prometheus, a collector.

    Called off the turn's path, from a bounded queue. Budgets and audit do not ride on it.

    Args:
        record: Name, time in milliseconds since 1970, and fields.

    Example:
        ::

            @hookimpl
            def log_metrics(self, record):
                self.statsd.increment(record.name)
    """


@hookspec("each")
def hook_failed(failure: HookFailure) -> None:
    """Hear that an implementation of another hook failed.

    Never called for a failure of `hook_failed` itself.

    Args:
        failure: Hook, plugin, and what went wrong.

    Example:
        ::

            @hookimpl
            def hook_failed(self, failure):
                self.counter.labels(failure.plugin, failure.hook).inc()
    """
