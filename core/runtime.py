"""A gateway as a value: plugins, services and turns, without a socket.

`Runtime` starts and stops everything in the right order; `core.gateway.app` puts HTTP
and WebSocket in front of it. Two gateways run side by side in one process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from hookgate import hookspecs
from hookgate.core.domain.errors import HookgateError, MissingKeyError, PluginError, StartError
from hookgate.core.domain.events import Event, HookSpan
from hookgate.core.domain.messages import Provenance
from hookgate.core.domain.turn import Address, Origin, Principal, Turn, TurnRequest
from hookgate.core.gateway.access.tokens import Token, followed_token_book, read_tokens, token_book
from hookgate.core.gateway.codes import ERROR_CODES
from hookgate.core.gateway.routes import Routes
from hookgate.core.hooks.dispatch import HookFailure
from hookgate.core.host import Host
from hookgate.core.log import Log
from hookgate.core.plugins.manager import Plugins
from hookgate.core.registry.agents import Router, load_agents, souls_there
from hookgate.core.registry.catalogue import Catalogue
from hookgate.core.registry.flags import FAILURE_MODE
from hookgate.core.registry.sanitizer import Sanitizer
from hookgate.core.settings.schema import ContextSettings, Section, Settings, TurnSettings
from hookgate.core.settings.secret_store import SecretStore
from hookgate.core.turn.selftest import check_that_policy_is_asked
from hookgate.core.turn.start import Turns
from hookgate.core.turn.tools.call import ToolCalls

if TYPE_CHECKING:
    from aiohttp import web

BOUNDS: Mapping[str, type[Section]] = {"turn": TurnSettings, "context": ContextSettings}
"""Sections by which turns and their context are bound. Each turn reads them anew."""

AT_START: Mapping[str, tuple[str, ...]] = {
    "turn": ("sandbox", "lane_queue", "answerers", "default_verdict"),
    "context": ("unsanitized",),
}
"""Keys of them by which something is made or admitted at the start, and who judges what."""

RESTART_FREE = frozenset(
    ("agents", "bindings", "default_agent", "gateway.tokens", "gateway.limits")
) | {
    f"{section}.{key}"
    for section, kind in BOUNDS.items()
    for key in kind.model_fields
    if key not in AT_START[section]
}
"""Sections of the settings that `Runtime.reload` takes over without a restart."""

SECRETS_SECONDS = 4.0
"""So often it is looked whether a secret has another value."""

GATHER_SECONDS = 0.05
"""So long records of figures wait for those that come behind them."""

READING_PAUSE = 0.02
"""Seconds between two operations that are read behind a start, so that a first turn goes before."""

OPERATIONS_TASK = "operations"
"""Names the background work that reads them."""

LOOK_SECONDS = 1.0
"""So often it is looked whether a soul's file has changed."""


class Runtime:
    """What a gateway is made of; `hookgate.Gateway` is one that knows the builtin plugins.

    Use it as an async context manager::

        async with Runtime(settings, builtin=BUILTIN) as gateway:
            turn = await gateway.chat("hello")
            print(turn.answer)

    Attributes:
        settings: The settings that it started with.
        host: What its plugins can reach.
        plugins: Its plugins.
        log: The sink of its log; whoever owns the process may make it the default.
        secrets: Where it looks for secrets.
        routes: The HTTP routes that its plugins have added.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        builtin: Sequence[str] = (),
        plugins: Sequence[object] = (),
        disabled: Sequence[str] = (),
        read_settings: Callable[[], Settings] | None = None,
        for_command: bool = False,
        listens: bool = False,
        reserved_tools: Mapping[str, str] | None = None,
        offer: Callable[[Host], None] = lambda _: None,
    ) -> None:
        """Load the plugins; nothing is opened before the gateway is entered.

        Args:
            settings: The settings; without any, a demo agent runs on loopback.
            builtin: Names of the plugins that come with hookgate, in load order.
            plugins: Plugins of the embedding program: classes, instances or modules.
            disabled: Names of plugins that are not to run, beside the settings' own.
            read_settings: Reads the settings again, for `reload`.
            for_command: Whether it runs for one command; see `Host.for_command`.
            listens: Whether `hookgate.core.gateway.serve.serve` is to follow, which says that it
                has started: what is made ready for later (`Host.started`) waits until it listens.
            reserved_tools: Names of tools that are those of plugins which come with hookgate,
                and of which: no stranger's tool has one, and no other plugin's while that one
                runs, even where it does not offer it.
            offer: Offers what plugins may put something else in the place of: conversations,
                lanes, questions, signals and switches, without which no turn runs, and how models
                see the tools of others, without which they see none.

        Raises:
            ConfigError: A section of a plugin is wrong.
            StartError: A plugin cannot be loaded.
        """
        self.settings = settings or Settings()
        self.secrets = secrets = SecretStore(self.settings)
        self.log = Log(self.settings.log, secrets)
        log = self.log.logger()
        self.host = Host(self.settings, secrets, log, reserved_tools=reserved_tools)
        self.host.for_command = for_command
        self.host.log_tail = self.log.tail
        offer(self.host)
        self.plugins = Plugins.load(
            self.settings,
            builtin=builtin,
            extra=plugins,
            disabled=disabled,
            log=self.host.log,
        )
        self.routes = Routes()
        self._read_settings = read_settings
        self._listens = listens
        self._stack = AsyncExitStack()
        self._sanitizer = Sanitizer(self.host)
        self._catalogue = Catalogue(self.host)
        self._turns: Turns | None = None
        self._reloading = asyncio.Lock()
        self._following_souls: asyncio.Task[None] | None = None

    # -- start and stop ------------------------------------------------------

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.host.ready:
            await self.drain(0)
        await self._stack.aclose()

    async def _start(self) -> None:
        host, stack = self.host, self._stack
        hooks = self.plugins.hooks
        host.attach(
            hooks=hooks, plugins=self.plugins, sanitizer=self._sanitizer, reload=self.reload
        )
        host.flags.apply("core", (FAILURE_MODE,))
        host.events.on_spans = self._trace
        stack.enter_context(self.log.tail.told(host.events))
        hooks.failed = self._publish_failure
        stack.push_async_callback(hooks.close)
        # Of a start that fails, too: what plugins had begun by then.
        stack.push_async_callback(host.stop_tasks)
        await stack.enter_async_context(self.plugins.opened(host))
        stack.push_async_callback(host.stop_tasks)
        await followed_token_book(host)
        self._sanitizer.tell()
        await self._catalogue.fill()
        host.content_read(self.settings)
        for implementation in hooks.implementations(hookspecs.add_routes):
            self.routes.plugin = implementation.plugin
            await hooks.run_one(implementation, host, self.routes)
        host.provide(ERROR_CODES, self.routes.codes)
        calls = ToolCalls(host)
        router = await self._router(self.settings)
        self._turns = Turns(host, calls, router, self._catalogue.snapshot)
        host.attach(turns=self._turns)
        await check_that_policy_is_asked(host, calls, self._catalogue.snapshot())
        host.spawn(self._pump_metrics(), name="log_metrics")
        await self._follow_souls(self.settings)
        if not host.for_command:
            host.spawn(self._follow_secrets(), name="secrets")
            host.spawn(self._read_operations_later(), name=OPERATIONS_TASK)
        if not self._listens:
            host.say_started()

    async def _read_operations_later(self) -> None:
        await self.host.started()
        await self.read_operations(pause=READING_PAUSE)

    async def read_operations(self, *, pause: float = 0.0) -> None:
        """Read what operations take and return, which their first caller would wait for otherwise.

        An operation of which that cannot be read answers nobody, and `status` says why.

        Args:
            pause: Seconds between two of them, in which others get the event loop.
        """
        for operation in tuple(self.host.operations.values()):
            try:
                # Here, and not on a thread, for which whoever asks now would wait longer.
                operation.params  # noqa: B018 - it is read by that
            except StartError as error:
                part = f"operation {operation.name} of {operation.plugin}"
                self.host.standing(part).bad(str(error))
            await asyncio.sleep(pause)

    async def drain(self, seconds: float | None = None) -> None:
        """Take no new messages; let turns finish, and cancel them after `seconds`.

        Args:
            seconds: The default is ``gateway.limits.drain_seconds``.
        """
        if seconds is None:
            seconds = self.host.read_settings.gateway.limits.drain_seconds
        await self.turns.drain(seconds)
        await self._flush_metrics()

    async def _router(self, settings: Settings) -> Router:
        agents = await load_agents(settings)
        return Router(agents, settings.bindings, settings.default_agent)

    # -- turns -----------------------------------------------------------------

    @property
    def turns(self) -> Turns:
        """The turns; there once the gateway has started."""
        if self._turns is None:
            raise MissingKeyError("the gateway has not started: use `async with Gateway(...)`")
        return self._turns

    @property
    def router(self) -> Router:
        """Chooses the agents."""
        return self.turns.router

    async def chat(
        self,
        text: str,
        *,
        address: Address | None = None,
        agent: str | None = None,
        options: Mapping[str, Any] | None = None,
        sink: Callable[[Event], None] = lambda _: None,
    ) -> Turn:
        """Say `text` as the gateway's owner and return the ended turn.

        The answer is ``turn.answer``. For scripts, tests and the command line.

        Raises:
            TurnError: The message could not become a turn. What goes wrong inside a turn
                stands in ``turn.error`` instead.
        """
        request = TurnRequest(
            content=text, address=address or Address(), agent=agent, options=options or {}
        )
        origin = Origin(provenance=Provenance.EXTERNAL_USER, path="embedded")
        owner = Principal.owner("embedded")
        return await self.host.start_turn(owner, origin, request, sink=sink).wait()

    def app(self) -> web.Application:
        """Return an aiohttp application that serves this gateway.

        It is mounted in another one with ``parent.add_subapp("/prefix", gateway.app())``. The
        gateway's own checks of Host, Origin, tokens and peers stand before its routes there as
        well. The application ends its clients when it is shut down; the gateway is closed by
        whoever entered it, after that.

        Raises:
            StartError: The gateway has not started, or its settings name hosts, proxies or
                tokens that cannot be.
        """
        if not self.host.ready:
            raise StartError(
                "the gateway does not run: call `app()` within `async with Gateway(...)`"
            )
        # Who never serves loads no server.
        from hookgate.core.gateway.app import build_app

        return build_app(self)

    # -- telling ---------------------------------------------------------------

    async def reload(self) -> Mapping[str, Any]:
        """Read content again: tools, capabilities, cards, souls; and what of the settings is live.

        That is agents, bindings, tokens, limits, and what turns and their context are bound by; a
        turn that has been planned keeps what stands in its plan.

        Returns:
            ``changed``, and ``restart``: keys of the settings whose change needs a restart.

        Raises:
            ConfigError: The settings are wrong now; everything stays as it was.
            HookError: A plugin's `reloading` failed; everything stays as it was.
        """
        # One at a time: of two, the one that has read newer settings must come last.
        async with self._reloading:
            return await self._reload()

    async def _reload(self) -> Mapping[str, Any]:
        settings = self._read_settings() if self._read_settings else self.settings
        differing = _differing(self.settings, settings)
        live, later = self.plugins.changed_settings(settings)
        differing.update(later)
        router = await self._router(settings)
        tokens = await self._tokens(settings)
        await self._put_in_force()
        token_book(self.host).take(tokens)
        self._bind_turns(settings)
        for take in live:
            differing.update(take())
        self._sanitizer.reloaded(settings=bool(live))
        waiting = sorted(differing - RESTART_FREE)
        self.host.restart_keys = waiting
        what = f"changed and waiting for a restart: {', '.join(waiting)}" if waiting else ""
        self.host.standing("settings").note(what)
        counts = await self._catalogue.fill()
        self.host.content_read(settings)
        self.turns.router = router
        await self._follow_souls(settings)
        result = {
            "changed": {**counts, "agents": sorted(router.agents)},
            "restart": list(self.host.restart_keys),
        }
        self.host.events.publish(Event("reloaded", result, scope="read"))
        return result

    def _bind_turns(self, settings: Settings) -> None:
        """Have turns that begin from now on read their bounds from `settings`."""
        bounds = {}
        for section, keys in AT_START.items():
            now, began = getattr(settings, section), getattr(self.settings, section)
            bounds[section] = now.model_copy(update={key: getattr(began, key) for key in keys})
        self.host.settings = self.host.settings.model_copy(update=bounds)

    async def _tokens(self, settings: Settings) -> tuple[Token, ...]:
        """Return the tokens of `settings`, with which this gateway may go on listening.

        Raises:
            ConfigError: A token's file is not safe to use.
            StartError: There are none, and it listens where others can reach it.
        """
        named = settings.gateway.tokens
        if not named and self.settings.gateway.tokens:
            from hookgate.core.gateway.access.auth import check_listener

            gateway = self.settings.gateway.model_copy(update={"tokens": named})
            check_listener(self.settings.model_copy(update={"gateway": gateway}))
        return await asyncio.to_thread(read_tokens, self.host, named)

    async def _put_in_force(self) -> None:
        """Have plugins prepare what judges, then put all of it into force, or none."""
        prepared = await self.host.hooks.each_by_plugin(hookspecs.reloading, self.host)
        failed: list[PluginError] = []
        for answer in prepared:
            if (put := answer.value) is None:
                continue
            # Past the point where one failure could spare the others: half in force is worse.
            try:
                put()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - it is the plugin's
                why = f"what it had prepared in `reloading` did not come into force: {error}"
                failed.append(PluginError(answer.plugin, why))
        if failed:
            raise failed[0]

    async def _follow_souls(self, settings: Settings) -> None:
        """Read the souls of `settings` again whenever a file of theirs changes, from now on."""
        if self._following_souls is not None:
            self._following_souls.cancel()
        there = await asyncio.to_thread(souls_there, settings)
        if there and not self.host.for_command:
            follow = self._read_souls(settings, there)
            self._following_souls = self.host.spawn(follow, name="souls")

    async def _read_souls(self, settings: Settings, read: tuple[Any, ...]) -> None:
        before = read
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = await asyncio.to_thread(souls_there, settings)
            changing, before = now != before, now
            # Whoever writes one may not be done: it has to look the same twice.
            if changing or now == read:
                continue
            read, standing = now, self.host.standing("souls")
            try:
                async with self._reloading:
                    self.turns.router = await self._router(settings)
            except HookgateError as error:
                standing.bad(f"the souls are those of before: {error}")
                continue
            standing.good()
            changed = {"agents": sorted(self.router.agents)}
            result = {"changed": changed, "restart": []}
            self.host.events.publish(Event("reloaded", result, scope="read"))

    async def _follow_secrets(self) -> None:
        """Put secrets into force that have been rotated, and tell those who watch them."""
        secrets, standing = self.secrets, self.host.standing("secrets")
        waiting: dict[str, None] = {}
        while True:
            await asyncio.sleep(SECRETS_SECONDS)
            names, wrong = await asyncio.to_thread(secrets.changed)
            waiting |= dict.fromkeys(names)
            if waiting:
                try:
                    async with self._reloading:
                        tokens = await self._tokens(self.host.read_settings)
                        await self._catalogue.fill_providers()
                        token_book(self.host).take(tokens)
                except HookgateError as error:
                    wrong = f"providers and tokens have the keys of before: {error}"
                else:
                    self.host.log.info("secrets have changed", names=[*waiting])
                    secrets.tell(waiting)
                    waiting = {}
            standing.bad(wrong)

    # -- what runs beside the turns ----------------------------------------------

    def _trace(self, wanted: bool) -> None:
        self.plugins.hooks.spans = self._publish_span if wanted else None

    def _publish_span(self, span: HookSpan) -> None:
        data = {
            "hook": span.hook,
            "plugin": span.plugin,
            "milliseconds": round(span.seconds * 1000, 3),
            "outcome": span.outcome,
            "failed": span.failed,
            "at": span.at,
        }
        event = Event("hook", data, turn=span.turn, scope="operate", at=perf_counter())
        self.host.events.publish(event)

    def _publish_failure(self, failure: HookFailure) -> None:
        data = {
            "hook": failure.hook,
            "plugin": failure.plugin,
            "message": failure.message,
            "skipped": not failure.required,
        }
        self.host.events.publish(Event("hook_failed", data, scope="operate"))

    async def _pump_metrics(self) -> None:
        while True:
            await self.host.metrics_ready.wait()
            await asyncio.sleep(GATHER_SECONDS)
            await self._flush_metrics()

    async def _flush_metrics(self) -> None:
        host = self.host
        host.metrics_ready.clear()
        while host.metrics:
            record = host.metrics.popleft()
            try:
                await host.hooks.each(hookspecs.log_metrics, record)
            except HookgateError as error:
                host.log.error("a record of metrics was lost", name=record.name, error=str(error))


def _differing(before: Settings, now: Settings) -> set[str]:
    """Return the sections that differ, of some of them their keys, and nothing of plugins."""
    was, settings = before.model_dump(exclude={"plugin"}), now.model_dump(exclude={"plugin"})
    differing = {key for key, value in settings.items() if was[key] != value}
    for section in {"gateway", *BOUNDS} & differing:
        keys = settings[section].items()
        differing |= {f"{section}.{key}" for key, value in keys if was[section][key] != value}
        differing.remove(section)
    return differing
