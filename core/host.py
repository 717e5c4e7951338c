"""The gateway as far as a plugin may touch it."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, overload

import structlog
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from hookgate.core.domain.errors import MissingKeyError, StartError
from hookgate.core.domain.events import Event, EventBus, LogTail, MetricRecord, Standings
from hookgate.core.domain.messages import CLEAN, Provenance
from hookgate.core.domain.ports import AUDIT, CLOCK, CONVERSATIONS, SECRETS, TOKENS, Key
from hookgate.core.domain.turn import BEGUN_IN, HERE, Origin, TurnRequest
from hookgate.core.hooks.tasks import contained_task, stop
from hookgate.core.registry.admission import (
    admit_capability,
    admit_card,
    channel_admission,
    tool_admission,
)
from hookgate.core.registry.snapshots import Registry
from hookgate.core.settings.secret_store import redact_json

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Collection,
        Coroutine,
        Iterator,
        Mapping,
        Sequence,
    )

    from structlog.typing import FilteringBoundLogger

    from hookgate.channels import Channel
    from hookgate.core.domain.descriptors import Card, Rejected
    from hookgate.core.domain.messages import Taint
    from hookgate.core.domain.models import ModelEvent, ModelRequest, Provider, ProviderInfo
    from hookgate.core.domain.ports import Clock, Secrets, TokenCounter
    from hookgate.core.domain.tools import Tool
    from hookgate.core.domain.turn import Address, FinishedCall, Principal, RequestFlag, Turn
    from hookgate.core.gateway.operations import Operation
    from hookgate.core.hooks.caller import Hooks
    from hookgate.core.plugins.manager import Plugins
    from hookgate.core.registry.agents import AgentRoute
    from hookgate.core.registry.sanitizer import Sanitizer
    from hookgate.core.settings.schema import Section, Settings
    from hookgate.core.turn.handle import TurnHandle
    from hookgate.core.turn.start import Turns
    from hookgate.metrics import Instrument

T = TypeVar("T")
D = TypeVar("D")

METRICS_CAPACITY = 4096

KEY_ENDED = "the key was taken back"
"""Why something ends with the key that it came in with."""


class SystemClock:
    """The `Clock` of a running gateway: the system's."""

    def now(self) -> datetime:
        """Return the time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never go backwards."""
        return monotonic()


class QuarterTokens:
    """The default `TokenCounter`: one token for each started four characters.

    This is the rule of thumb that OpenAI documents for English text. A plugin that
    brings a real tokenizer provides the `TOKENS` key instead.
    """

    def count(self, text: str) -> int:
        """Return ``ceil(len(text) / 4)``."""
        return math.ceil(len(text) / 4)


_NAMED: Mapping[Key[Any], str] = {CLOCK: "clock", TOKENS: "tokens", SECRETS: "secrets"}
"""Services that each turn needs many times, and the attributes that they are."""


class Host:
    """What a plugin can reach: settings, services, registries and turns.

    Attributes:
        settings: The gateway's settings.
        events: The bus that carries every turn's events.
        tools: The tools, by name.
        capabilities: Skills, extensions and other capabilities, by id.
        descriptions: What is said besides of tools, channels and other capabilities that
            somebody else brings, by id; it is merged into their rows.
        cards: Capability cards, by id.
        instruments: The figures that are kept of what `metric` records, by name: a plugin's
            own come with ``host.instruments.apply("acme", [Instrument(...)])``.
        flags: What requests may ask of their turns, by name; a plugin declares what it reads
            with ``host.flags.apply("acme", [RequestFlag(...)])``.
        operations: What the gateway can be asked to do, by every name of it.
        providers: The providers of models, by name.
        described: What plugins say of their providers, those that lack a key included, by name.
        channels: The channels, by name. One that comes, changes or goes between starts does so
            with ``host.channels.apply("acme", [channel])``, and is served then.
        standing: What operators are told: ``host.standing("part").bad("why")`` says that a part
            does not work as it should, ``good()`` that it does again, and ``note("what")`` what
            they should know although nothing is wrong. Shown by ``status``.
        quarantined: Tools that must not run until somebody has looked at them: name -> why.
            Whoever puts one in denies its calls; ``tools.list`` shows it.
        unshown: Tools of others whose words did not pass, so that no model sees them and no turn
            has them: name -> why.
        switched_off: Tools that somebody has switched off: name -> for whom, which ``tools.list``
            shows. Whoever puts one in withholds it.
        clock: The clock: ``host[CLOCK]``.
        tokens: The token counter: ``host[TOKENS]``.
        secrets: The secrets: ``host[SECRETS]``.
        hooks: The dispatcher of the hooks; there once the plugins are loaded.
        for_command: Whether the gateway was started for one command and ends with it, so that what
            would outlive that, such as work by the clock, is left to one that stays.
        log: A structured logger.
        log_tail: The last lines of the log, masked.
        read_settings: The settings as they were read last, at the start or at a reload.
        restart_keys: Keys of them that have changed and wait for a restart.
    """

    def __init__(
        self,
        settings: Settings,
        secrets: Secrets,
        log: FilteringBoundLogger | None = None,
        *,
        reserved_tools: Mapping[str, str] | None = None,
    ) -> None:
        self.settings = self.read_settings = settings
        self.restart_keys: Sequence[str] = ()
        self.for_command = False
        self.log: FilteringBoundLogger = log or structlog.get_logger("hookgate")
        self.log_tail = LogTail()
        self.events = EventBus(redact=partial(redact_json, secrets))
        self.tools: Registry[Tool] = Registry(
            "tool",
            lambda one: one.name,
            tool_admission(settings.turn),
            rank=self._tool_rank,
            reserved=reserved_tools or {},
            tell=self._clash,
        )
        self.capabilities = self._registry("capability", lambda one: one.id, admit_capability)
        self.descriptions = self._registry("description", lambda one: one.id, admit_capability)
        self.channels: Registry[Channel] = self._registry(
            "channel", lambda one: one.name, channel_admission(settings.turn)
        )
        self.cards = self._registry("card", lambda one: one.id, admit_card)
        self.instruments: Registry[Instrument] = self._registry(
            "instrument", lambda one: one.name, lambda _, one: one
        )
        self.flags: Registry[RequestFlag] = self._registry(
            "flag", lambda one: one.name, lambda _, one: one
        )
        self.operations: dict[str, Operation[Any, Any]] = {}
        self.providers: dict[str, Provider] = {}
        self.described: dict[str, ProviderInfo] = {}
        self.standing = Standings(redact=secrets.redact, publish=self.events.publish, log=self.log)
        self.quarantined: dict[str, str] = {}
        self.unshown: dict[str, str] = {}
        self.switched_off: dict[str, str] = {}
        self.metrics: deque[MetricRecord] = deque(maxlen=METRICS_CAPACITY)
        self.metrics_ready = asyncio.Event()
        self._services: dict[Key[Any], Any] = {}
        self.clock: Clock
        self.tokens: TokenCounter
        self.secrets: Secrets
        self.hooks: Hooks
        self._tasks: set[asyncio.Task[None]] = set()
        self._plugins: Plugins | None = None
        self._sanitizer: Sanitizer | None = None
        self._turns: Turns | None = None
        self._begun = asyncio.Event()
        self._readers: list[Callable[[Settings], None]] = []
        self._key_enders: list[Callable[[str], None]] = []
        self._reload: Callable[[], Awaitable[Mapping[str, Any]]] | None = None
        self.provide(SECRETS, secrets)
        self.provide(CLOCK, SystemClock())
        self.provide(TOKENS, QuarterTokens())

    # -- services ----------------------------------------------------------

    def __getitem__(self, key: Key[T]) -> T:
        try:
            service: T = self._services[key]
        except KeyError:
            raise MissingKeyError(
                f"nobody provides {key.name!r}: declare it in the plugin's `requires`, and "
                "enable a plugin that provides it (`hookgate plugins list` shows which do)"
            ) from None
        return service

    def __contains__(self, key: Key[Any]) -> bool:
        return key in self._services

    @overload
    def get(self, key: Key[T]) -> T | None: ...

    @overload
    def get(self, key: Key[T], default: D) -> T | D: ...

    def get(self, key: Key[Any], default: Any = None) -> Any:
        """Return the service under `key`, or `default` where nobody provides one."""
        return self._services.get(key, default)

    async def record(self, kind: str, /, **data: Any) -> None:
        """Append a row to the audit, where there is one.

        Raises:
            Exception: It could not be recorded. What must not happen unrecorded does not go on.
        """
        if (audit := self.get(AUDIT)) is not None:
            await audit.append(kind, data)

    def provide(self, key: Key[T], service: T) -> None:
        """Offer `service` under `key`; a later offer takes the place of an earlier one."""
        self._services[key] = service
        if (name := _NAMED.get(key)) is not None:
            setattr(self, name, service)

    # -- what the gateway attaches -------------------------------------------

    def attach(
        self,
        *,
        hooks: Hooks | None = None,
        plugins: Plugins | None = None,
        sanitizer: Sanitizer | None = None,
        turns: Turns | None = None,
        reload: Callable[[], Awaitable[Mapping[str, Any]]] | None = None,
    ) -> None:
        """Hand over what is made after the host. Only the gateway calls this."""
        if hooks is not None:
            self.hooks = hooks
        self._plugins = plugins or self._plugins
        self._sanitizer = sanitizer or self._sanitizer
        self._turns = turns or self._turns
        self._reload = reload or self._reload

    def say_started(self) -> None:
        """Let those go on who wait for the end of the start. Only the gateway calls this."""
        self._begun.set()

    async def started(self) -> None:
        """Wait until the gateway has started.

        Whoever has something to make ready for later waits first: until then everybody waits for
        the gateway.
        """
        await self._begun.wait()

    def load_later(self, *modules: str) -> None:
        """Load modules on a thread once the gateway has started: what its first turn will take.

        `hookgate.kit.modules.on_demand` stands for them meanwhile; whoever needs one earlier loads
        it then. `status` names one that cannot be loaded. In a gateway that runs for one command
        only, nothing is loaded ahead.
        """
        if not self.for_command:
            self.spawn(self._load_later(modules), name="load what the first turn takes")

    async def _load_later(self, modules: Sequence[str]) -> None:
        await self.started()
        for name in modules:
            try:
                await asyncio.to_thread(import_module, name)
            except Exception as error:  # noqa: BLE001 - a module may raise anything
                why = f"{type(error).__name__}: {error}"
                self.standing(f"module {name}").bad(f"it cannot be loaded: {why}")

    @property
    def _runner(self) -> Turns:
        if self._turns is None:
            raise StartError(
                "the gateway has not started: turns and tool calls begin once every plugin is open"
            )
        return self._turns

    @property
    def ready(self) -> bool:
        """Whether the gateway has started and takes new turns."""
        return self._turns is not None and self._turns.accepting

    @property
    def sanitizers(self) -> int:
        """The version of the sanitizers: another number once they may judge otherwise.

        Whoever keeps what `sanitize` returned keeps it no longer than this stays the same.
        """
        return 0 if self._sanitizer is None else self._sanitizer.version

    async def sanitize(self, card: Card) -> Card | Rejected:
        """Return `card` as a model may see it; cached by digest and set of plugins."""
        assert self._sanitizer is not None, "the sanitizer is there once the plugins are loaded"
        return await self._sanitizer.sanitize(card)

    async def reload(self) -> Mapping[str, Any]:
        """Read content again: tools, capabilities, cards, souls. Return what changed."""
        assert self._reload is not None, "there is something to reload once the gateway starts"
        return await self._reload()

    def after_reading(self, told: Callable[[Settings], None]) -> None:
        """Call `told` each time content has been read: at the start, and after each reload.

        It gets the settings as they are then; those of the host are the ones of the start.
        """
        self._readers.append(told)

    def content_read(self, settings: Settings) -> None:
        """Tell those who want to know that content has been read. Only the gateway calls this."""
        self.read_settings = settings
        for told in self._readers:
            told(settings)

    # -- turns -----------------------------------------------------------------

    def start_turn(
        self,
        principal: Principal,
        origin: Origin,
        request: TurnRequest,
        *,
        sink: Callable[[Event], None] | None = None,
    ) -> TurnHandle:
        """Start a turn and return its handle at once: the one way to a turn, for everybody.

        The turn runs in a task of its own. Follow it with ``async for event in handle.events``,
        or pass a `sink`; ``await handle.wait()`` returns it ended. See ``docs/turns.md``.

        Args:
            principal: Who asks; authentication has settled that.
            origin: How the request came in; the entry path has settled that, not the request.
            request: What is asked.
            sink: Takes the turn's events as they come, instead of `TurnHandle.events`. It must
                not wait.

        Raises:
            NotAllowedError: The principal may not chat, or not as this address.
            NoAgentError: No agent answers this address.
            ClientToolError: A tool that the request brings has the name of another one.
            TurnError: The gateway stops, or the request asks for what it cannot do.
            StartError: The gateway has not started.
        """
        return self._runner.start(principal, origin, request, sink=sink)

    async def nested_turn(
        self, parent: Turn, text: str, *, agent: str | None = None, tool: str = ""
    ) -> Turn:
        """Run a turn of its own in a fresh child session and return it, ended.

        Its provenance is ``inter_session``, and its taint becomes its parent's.

        Raises:
            LaneHeldError: It would nest deeper than ``turn.max_depth``.
        """
        return await self._runner.nested(parent, text, agent=agent, tool=tool)

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
        """Call a tool without asking a model, and return the call, its decision and its result.

        It is admitted, judged, asked about, recorded and finished as a model's call is, in the
        lane of its session; see ``docs/turns.md``. What does not run has a result all the same,
        with a status that says so. If whoever awaits this is cancelled, so is the call.

        Args:
            principal: Who calls; authentication has settled that.
            origin: How the call came in; the entry path has settled that.
            address: On whose behalf: it chooses the agent and makes the session, as in a turn.
            name: The tool.
            arguments: What it is called with.
            agent: An agent by name, instead of the one that the bindings choose.
            taint: Where untrusted text in the arguments came from. Whoever calls on behalf of a
                turn passes that turn's.
            sink: Takes the call's events, questions to the caller among them; must not wait.

        Raises:
            NotAllowedError: The principal may not chat, or not as this address.
            NoAgentError: No agent answers this address.
            RefusedError: A plugin refused the call before it was judged.
            LaneFullError: Too many wait for the session.
            TurnCancelledError: It was cancelled before it was judged, or took too long.
            TurnError: The gateway stops, something that the call needs has failed, or the
                arguments are no JSON.
            StartError: The gateway has not started.
        """
        request = TurnRequest(content="", address=address, agent=agent, taint=taint)
        return await self._runner.call_tool(principal, origin, request, name, arguments, sink)

    async def offered(
        self,
        principal: Principal,
        address: Address,
        *,
        agent: str | None = None,
        origin: Origin | None = None,
    ) -> Sequence[Tool]:
        """Return the tools that `call_tool` would find there, by name, as a model is shown them.

        That is what is neither withheld nor outside of what the agent may call; policy judges
        the call itself.

        Args:
            principal: Who asks.
            address: On whose behalf.
            agent: An agent by name, instead of the one that the bindings choose.
            origin: How calls would come in; what is withheld may depend on it.

        Raises:
            NotAllowedError: The principal may not chat, or not as this address.
            NoAgentError: No agent answers this address.
            HookError: What should be withheld could not be found out.
        """
        origin = origin or Origin(provenance=Provenance.EXTERNAL_USER, path="offered")
        request = TurnRequest(content="", address=address, agent=agent)
        return await self._runner.offered(principal, origin, request)

    def running(self) -> Sequence[Turn]:
        """Return the turns that run or wait for their lane."""
        return () if self._turns is None else self._turns.running()

    def cancel(self, turn_id: str, reason: str) -> bool:
        """Cancel a running turn, and the nested ones below it; False where there is none."""
        handle = None if self._turns is None else self._turns.handle(turn_id)
        return handle is not None and handle.cancel(reason)

    def owner(self, turn_id: str) -> Principal | None:
        """Return who started the running turn called `turn_id`; None where there is none."""
        handle = None if self._turns is None else self._turns.handle(turn_id)
        return None if handle is None else handle.turn.principal

    def end_key(self, key: str) -> None:
        """End what came in with a key that a plugin knows and has taken back.

        The plugin calls it once its `authenticate` does not know the key any more. Sockets and
        requests of it are closed and its turns cancelled, at this gateway alone: the plugins of
        gateways beside this one have to hear of it, by a switch for example, and call it there.
        A token of the settings that has the name of the key is another one; see `token.revoke`.

        Args:
            key: The `Principal.key` of those whom the plugin let in.
        """
        for end in tuple(self._key_enders):
            end(key)
        for turn in self.running():
            if turn.principal.came_by(key):
                self.cancel(turn.id, KEY_ENDED)

    def ends_keys(self, end: Callable[[str], None]) -> Callable[[], None]:
        """Call `end` with each key that is ended; return what undoes it."""
        self._key_enders.append(end)
        return lambda: self._key_enders.remove(end)

    @contextmanager
    def keys_ended(self) -> Iterator[Collection[str]]:
        """Collect the keys that are ended within the block: what was found out may be over."""
        ended: set[str] = set()
        self._key_enders.append(ended.add)
        try:
            yield ended
        finally:
            # Equal sets of other blocks stay: methods are told apart by whose they are.
            self._key_enders.remove(ended.add)

    def agents(self) -> Sequence[str]:
        """Return the names of the agents."""
        return sorted(self._runner.router.agents)

    def route(self, address: Address) -> AgentRoute:
        """Return which agent answers `address`, and why.

        Raises:
            NoAgentError: None does.
        """
        return self._runner.router.resolve(address)

    def call_model(self, turn: Turn, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask a model on behalf of `turn`, through every hook that guards and meters.

        ``request.cause`` should name the plugin's purpose, such as ``memory.extract``.
        """
        return self._runner.call_model(turn, request)

    # -- plugins ---------------------------------------------------------------

    def plugins(self, *, every: bool = False) -> Sequence[PluginInfo]:
        """Return what is known of the plugins, in load order: name, origin, version, state.

        Args:
            every: Those that do not run as well: disabled, replaced and broken ones, with why.
        """
        # None are known before the gateway starts, and some names are asked about then.
        infos = () if self._plugins is None else self._plugins.infos()
        return [info for info in infos if every or info.state == "running"]

    def why(self, name: str) -> str:
        """Say why the plugin called `name` runs, or why it does not."""
        return "" if self._plugins is None else self._plugins.why(name)

    def section_models(self) -> Mapping[str, type[Section]]:
        """Return the models of the sections of the plugins that run, by the plugin's name."""
        return {} if self._plugins is None else self._plugins.models()

    # -- names -------------------------------------------------------------

    def rank(self, source: str) -> int:
        """Return the place of a plugin in the load order: the core, builtins, then the others.

        Of two that bring a thing of one name, the lower rank counts.
        """
        if source == "core":
            return -1
        names = [info.name for info in self.plugins()]
        return names.index(source) if source in names else len(names)

    def _tool_rank(self, source: str, tool: Tool | None) -> int:
        """Return a tool's place: what runs in the sandbox is a stranger's, so that it comes last.

        The builtin plugin that runs it is only who carries it.
        """
        if tool is not None and tool.sandbox == "wasm":
            return len(self.plugins()) + 1
        return self.rank(source)

    def clash(self, what: str, source: str, name: str, owner: str, file: str = "") -> None:
        """Say that what `source` brings is left out, since `owner` brings one of its name."""
        where = f"; this one stands in {file}" if file else ""
        why = f"{owner} brings one of this id: rename one of the two{where}"
        if owner == source:
            why = f"{source} brings two of this name, of which the first counts: rename one"
        elif what not in ("capability", "card", "description"):
            article = "an" if what[0] in "aeiou" else "a"
            why = f"left out, since {owner} brings {article} {what} of this name: rename one of "
            why += "the two, or disable one of the two plugins"
            if what == "tool" and self.tools.alike(name) is None:
                why = f"left out, since this is the name of a tool of {owner}, whether that one is "
                why += "offered or not: rename this one"
            builtin = {info.name for info in self.plugins() if info.origin == "builtin"}
            if owner in builtin and source not in builtin:
                why += f'; `replace = {{ {owner} = "{source}" }}` in [plugins] puts {source} in '
                why += f"the place of {owner} as a whole"
        self.standing(f"{what} {name} of {source}").bad(why)

    def _registry(
        self, what: str, name_of: Callable[[T], str], admit: Callable[[str, T], T]
    ) -> Registry[T]:
        return Registry(what, name_of, admit, rank=lambda one, _: self.rank(one), tell=self._clash)

    def _clash(self, what: str, source: str, name: str, owner: str, thing: object) -> None:
        if owner:
            file = str(getattr(thing, "source_ref", ""))
            self.clash(what, source, name, owner, file)
        else:
            self.standing(f"{what} {name} of {source}").good()

    # -- telling -----------------------------------------------------------

    def metric(self, name: str, **fields: Any) -> None:
        """Queue a record for `log_metrics`; never waits. The oldest goes when it is full."""
        timestamp = int(self.clock.now().timestamp() * 1000)
        safe = redact_json(self.secrets, fields)
        if not self.metrics:
            self.metrics_ready.set()
        self.metrics.append(MetricRecord(name=name, timestamp=timestamp, fields=safe))

    @property
    def degraded(self) -> Mapping[str, str]:
        """What does not work as it should: part -> why."""
        return self.standing.degraded

    @property
    def notices(self) -> Mapping[str, str]:
        """What an operator should know although nothing is wrong: part -> what."""
        return self.standing.notices

    def status(self) -> dict[str, Any]:
        """Return what an operator wants to know at a glance, JSON-ready."""
        from hookgate import __version__

        return {
            "version": __version__,
            "ready": self.ready,
            "degraded": dict(self.degraded),
            "notices": dict(self.notices),
            "durable": self[CONVERSATIONS].durable,
            "turns": len(self.running()),
            "agents": self.agents(),
            "providers": sorted(self.providers),
            "tools": len(self.tools),
            "capabilities": len(self._runner.snapshot().capabilities),
            "plugins": [info.name for info in self.plugins()],
        }

    # -- background work ---------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """Run `work` beside the turns until it ends or the gateway stops.

        A failure is logged with `name`; it does not end the gateway.
        """
        # It is no part of the turn that it was begun in, and may wait for that one's lane.
        context = copy_context()
        if (here := HERE.get()) is not None:
            context.run(BEGUN_IN.set, here)
            context.run(HERE.set, None)
        task = contained_task(work, name=name, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._reap)
        return task

    def _reap(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.log.error("background work failed", name=task.get_name(), exc_info=error)

    async def stop_tasks(self) -> None:
        """Cancel all background work and wait for it. Only the gateway calls this."""
        await stop(*self._tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """What is known of one plugin, for ``plugins list``.

    Attributes:
        name: The name that it runs under.
        origin: ``builtin``, ``program``, or the distribution and version that brought it.
        version: The version of what brought it: hookgate's own for a builtin; "" where it has none.
        hooks: The hooks that it implements.
        publishes: The hooks that it publishes for others.
        idle: Hooks that it implements and nobody publishes now, each with why.
        requires: The names of the keys that it needs.
        provides: The names of the keys that it offers.
        state: ``running``, ``disabled``, ``replaced`` or ``broken``.
        reason: Why, where it does not run.
        content: The folder ``capabilities`` of its package, where it is a third party's and has
            one: skills, manifests and cards that come with it.
    """

    name: str
    origin: str = "builtin"
    version: str = ""
    hooks: tuple[str, ...] = ()
    publishes: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    state: Literal["running", "disabled", "replaced", "broken"] = "running"
    reason: str = ""
    content: Annotated[Path | None, Field(exclude=True), SkipJsonSchema()] = None
