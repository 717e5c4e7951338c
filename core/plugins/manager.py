"""Finds, checks, configures and opens plugins.

A plugin is a class (or a stateless module)::

    class Plugin:
        Settings = PolicySettings               # omitted: it has no settings
        publishes = ()                          # specifications of hooks of its own
        requires = (STORE,)                     # keys that must be there before it opens
        uses = ()                               # keys that it can do without; they open before
        provides = ()                           # keys that it offers to others

        def __init__(self, settings: PolicySettings) -> None: ...

        def take_settings(self, settings: PolicySettings) -> Collection[str]: ...   # if it can

A plugin with `take_settings` is given its section again when it has changed at a reload, and
returns the keys that wait for a restart all the same; one without takes over a changed section
at the next start.

Builtins load in their given order, then installed third parties by name, then what the
embedding program brings: the last one loaded is the first one called. The set of plugins
is fixed once it is loaded, and belongs to one gateway: two gateways share nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import structlog
from structlog.typing import FilteringBoundLogger

from hookgate import hookspecs
from hookgate.core.domain.errors import (
    ConfigError,
    HookError,
    HookgateError,
    MissingKeyError,
    PluginError,
    StartError,
    StoreHeldError,
)
from hookgate.core.domain.ports import CLOCK, CONVERSATIONS, LANES, SECRETS, SIGNALS, TOKENS, Key
from hookgate.core.hooks.caller import Hooks
from hookgate.core.hooks.dispatch import Implementation
from hookgate.core.host import Host, PluginInfo
from hookgate.core.plugins.checks import Manager
from hookgate.core.plugins.loader import Loader, refuse_doubles, reserved
from hookgate.core.plugins.sources import builtin_candidates, extra_candidates, installed
from hookgate.core.settings.schema import Section, Settings
from hookgate.core.settings.sections import nearest, section_of

BUILTIN_PACKAGE = "hookgate.builtin_plugins"
"""Where the builtin plugins are looked for, one package each."""

CORE_KEYS: tuple[Key[Any], ...] = (CLOCK, TOKENS, SECRETS, SIGNALS, LANES, CONVERSATIONS)
"""Keys that the core itself provides, so that any plugin may require them."""


class Plugins:
    """The plugins of one gateway.

    Attributes:
        manager: pluggy's manager, with every running plugin registered.
        hooks: Calls their hooks.
        order: The names of the running plugins in the order in which they open.
        wrong: What would stop a start, where they were loaded leniently.
    """

    def __init__(self, settings: Settings, log: FilteringBoundLogger | None = None) -> None:
        """Make an empty set; `load` is the way to a filled one."""
        self.manager = Manager(hookspecs.PROJECT)
        self.manager.add_hookspecs(hookspecs)
        self.hooks: Hooks
        self.order: tuple[str, ...] = ()
        self.wrong: Sequence[str] = ()
        self._replacements = dict(settings.plugins.replace)
        self._sections = dict(settings.plugin)
        self._log = log or structlog.get_logger("hookgate.plugins")
        self._loader = Loader(settings, self.manager, self._log)

    @classmethod
    def load(
        cls,
        settings: Settings,
        *,
        builtin: Sequence[str],
        extra: Sequence[object] = (),
        disabled: Sequence[str] = (),
        package: str = BUILTIN_PACKAGE,
        core_keys: Collection[Key[Any]] = CORE_KEYS,
        log: FilteringBoundLogger | None = None,
        lenient: bool = False,
    ) -> Plugins:
        """Find the plugins, choose those that run, check, configure and register them.

        Args:
            settings: ``[plugins]`` says which run, ``[plugin.NAME]`` configures each.
            builtin: The names of the builtin plugins in load order.
            extra: Plugins of the embedding program: classes, instances or modules.
            disabled: Names that do not run, beside those of the settings (``-p no:NAME``).
            package: Where the builtin plugins are.
            core_keys: Keys that need no plugin.
            log: Takes what goes wrong; the gateway's own, which masks secrets.
            lenient: Whether to go on whatever is wrong, for people who ask what is: it stands in
                `wrong`, and the plugins answer questions and cannot be opened.

        Raises:
            ConfigError: Everything that is wrong in the settings of plugins and hooks.
            PluginError: A builtin plugin, a required one or one of `extra` is broken.
            MissingKeyError: A plugin requires a key that nobody provides.
            StartError: Two plugins have one name, or require each other in a circle.
        """
        self = cls(settings, log)
        options, loader = settings.plugins, self._loader
        loader.lenient = lenient
        third, problems = installed(options.allow) if options.entry_points else ([], [])
        third = reserved(third, settings, builtin)
        found = [*builtin_candidates(builtin, package), *third, *extra_candidates(extra)]
        try:
            candidates = refuse_doubles(found)
        except HookgateError as error:
            loader.stop(error)
            candidates = list({one.name: one for one in reversed(found)}.values())[::-1]
        loader.load(candidates, disabled, problems)
        try:
            nodes, idle = self._nodes(), self._idle_provisions
            self.order = tuple(opening_order(nodes, core_keys=core_keys, idle=idle))
        except HookgateError as error:
            loader.stop(error)
        self.wrong = loader.wrong
        if not lenient:
            self.hooks = Hooks(self.manager, loader.overrides, log=self._log)
        return self

    def _nodes(self) -> list[Node]:
        return [
            Node(name, *(getattr(plugin, what, ()) for what in ("requires", "provides", "uses")))
            for name, plugin in self.manager.list_name_plugin()
        ]

    def _idle_provisions(self) -> dict[str, tuple[Key[Any], ...]]:
        """Return what builtins that do not run would provide. Third parties stay unimported."""
        found = {}
        for candidate in self._loader.idle:
            if candidate.origin == "builtin":
                try:
                    found[candidate.name] = getattr(candidate.fetch(), "provides", ())
                except PluginError as error:
                    self._log.warning("plugin cannot be read", reason=str(error))
        return found

    # -- questions ---------------------------------------------------------

    def infos(self) -> tuple[PluginInfo, ...]:
        """Return what is known of every plugin, those that do not run included."""
        return tuple(self._loader.infos)

    def get(self, name: str) -> object | None:
        """Return the running plugin that is called `name`."""
        plugin: object | None = self.manager.get_plugin(name)
        return plugin

    def models(self) -> Mapping[str, type[Section]]:
        """Return the models of the sections of those that run and have one, by name."""
        found = {name: getattr(self.get(name), "Settings", None) for name in self.order}
        return {name: model for name, model in found.items() if model is not None}

    def why(self, name: str) -> str:
        """Say why the plugin called `name` runs, or why it does not."""
        told = [_told(info) for info in self._loader.infos if info.name == name]
        replaces = [
            f"{name!r} runs under the name {builtin!r}, in place of the builtin"
            for builtin, other in self._replacements.items()
            if other == name
        ]
        if told or replaces:
            return "; ".join([*told, *replaces])
        near = nearest(name, [info.name for info in self._loader.infos])
        hint = f"; did you mean {near!r}?" if near else ""
        return f"no plugin called {name!r} is builtin or installed{hint}"

    # -- settings that change ----------------------------------------------

    def changed_settings(
        self, settings: Settings
    ) -> tuple[list[Callable[[], Collection[str]]], list[str]]:
        """Check the sections that differ from those in use.

        Returns:
            What hands the changed sections to plugins that take them while they run, to be
            called once everything has been checked: it returns the keys that wait for a
            restart. And the sections of the other plugins.

        Raises:
            ConfigError: A section is wrong now.
        """
        apply: list[Callable[[], Collection[str]]] = []
        restart: list[str] = []
        for name in sorted({*self._sections, *settings.plugin}):
            values = settings.plugin.get(name, {})
            if values == self._sections.get(name, {}):
                continue
            plugin = self.get(name)
            take = getattr(plugin, "take_settings", None)
            model = getattr(plugin, "Settings", None)
            if take is None or model is None:
                restart.append(f"plugin.{name}")
                continue
            section = section_of(settings, name, model)

            def use(name: str = name, take: Any = take, section: Any = section) -> Collection[str]:
                waiting = take(section) or ()
                self._sections[name] = settings.plugin.get(name, {})
                return [f"plugin.{name}.{key}" for key in waiting]

            apply.append(use)
        return apply, restart

    # -- opening -----------------------------------------------------------

    @asynccontextmanager
    async def opened(self, host: Host) -> AsyncIterator[None]:
        """Open every plugin's lifespan, and close them in the opposite order.

        Providers of keys open before whoever requires them. When one fails to open, those
        that had opened are closed. A failure to close is logged, and the others are closed
        all the same. What stands behind the ``yield`` of a lifespan runs in every case: the
        gateway's own errors are not thrown into it.

        Raises:
            PluginError: A lifespan failed to open, or has not provided what it says.
            StoreHeldError: Another process holds the store.
            ConfigError: A lifespan found something wrong in the settings.
        """
        by_plugin: dict[str, list[Implementation]] = {}
        for implementation in self.hooks.implementations(hookspecs.lifespan):
            by_plugin.setdefault(implementation.plugin, []).append(implementation)
        async with AsyncExitStack() as stack:
            for name in self.order:
                for implementation in by_plugin.get(name, ()):
                    await self._open(stack, implementation, host)
                self._check_provided(name, host)
            yield

    def _check_provided(self, name: str, host: Host) -> None:
        """Make sure that a plugin provides what it says, before anybody builds on that.

        Raises:
            PluginError: It does not.
        """
        provides = getattr(self.manager.get_plugin(name), "provides", ())
        missing = [key.name for key in provides if key not in host]
        if missing:
            keys = ", ".join(map(repr, missing))
            raise PluginError(
                name,
                f"its `provides` names {keys}, and its lifespan has not provided that: call "
                "`host.provide(KEY, ...)` before its `yield`, or leave the key out",
            )

    async def _open(
        self, stack: AsyncExitStack, implementation: Implementation, host: Host
    ) -> None:
        try:
            manager = await self.hooks.run_one(implementation, host)
            if manager is None:
                return
            # What a plugin says on purpose is told whole, in its own words, and once.
            await self.hooks.guard(
                implementation, manager.__aenter__(), passing=(StartError, ConfigError)
            )
        except HookError as error:
            raise PluginError(
                implementation.plugin, f"its lifespan did not open: {error.reason}"
            ) from error
        except (ConfigError, PluginError, StoreHeldError):
            raise
        except StartError as error:
            raise PluginError(implementation.plugin, str(error)) from error
        stack.push_async_callback(self._close, implementation, manager)

    async def _close(
        self, implementation: Implementation, manager: AbstractAsyncContextManager[None]
    ) -> None:
        try:
            await self.hooks.guard(implementation, manager.__aexit__(None, None, None))
        except HookError as error:
            self._log.error("plugin not closed", plugin=error.plugin, reason=error.reason)


def _told(info: PluginInfo) -> str:
    if info.state == "running":
        hooks = ", ".join(info.hooks) or "no hooks"
        told = f"{info.name!r} ({info.origin}) runs; it implements {hooks}"
        if info.publishes:
            told += f"; it publishes {', '.join(info.publishes)}"
        return told + "".join(f"; idle: {why}" for why in info.idle)
    return f"{info.name!r} ({info.origin}) does not run: {info.state}, {info.reason}"


# -- the order in which plugins open ---------------------------------------------


@dataclass(frozen=True, slots=True)
class Node:
    """A plugin as far as the order is concerned."""

    name: str
    requires: tuple[Key[Any], ...] = ()
    provides: tuple[Key[Any], ...] = ()
    uses: tuple[Key[Any], ...] = ()


def opening_order(
    nodes: Sequence[Node],
    *,
    core_keys: Collection[Key[Any]],
    idle: Callable[[], Mapping[str, tuple[Key[Any], ...]]] = dict,
) -> list[str]:
    """Return the names so that whoever provides a key comes before whoever requires or uses it.

    Plugins that do not depend on one another keep the order of `nodes`. A plugin that
    both requires and provides a key builds on the other providers of that key.

    Args:
        nodes: The plugins, in load order.
        core_keys: Keys that are there without any plugin.
        idle: Returns what plugins that do not run would provide; asked for errors only.

    Raises:
        MissingKeyError: A plugin requires a key that nobody provides.
        StartError: Plugins require each other in a circle.
    """
    providers: dict[Key[Any], list[str]] = {}
    for node in nodes:
        for key in node.provides:
            providers.setdefault(key, []).append(node.name)
    needs: dict[str, dict[str, Key[Any]]] = {}
    for node in nodes:
        needs[node.name] = {}
        for key in node.requires:
            others = [name for name in providers.get(key, ()) if name != node.name]
            if not others and key not in core_keys:
                raise MissingKeyError(_missing(node.name, key, idle()))
            needs[node.name] |= dict.fromkeys(others, key)
        for key in node.uses:
            others = [name for name in providers.get(key, ()) if name != node.name]
            needs[node.name] |= dict.fromkeys(others, key)
    return _sorted([node.name for node in nodes], needs)


def _sorted(names: list[str], needs: Mapping[str, Mapping[str, Key[Any]]]) -> list[str]:
    order: list[str] = []
    waiting = list(names)
    while waiting:
        done = set(order)
        ready = next((name for name in waiting if needs[name].keys() <= done), None)
        if ready is None:
            raise StartError(_circle(waiting, needs))
        order.append(ready)
        waiting.remove(ready)
    return order


def _missing(plugin: str, key: Key[Any], idle: Mapping[str, tuple[Key[Any], ...]]) -> str:
    could = sorted(name for name, keys in idle.items() if key in keys)
    if could:
        advice = f"it would be provided by {', '.join(map(repr, could))}, which does not run"
    else:
        advice = "no plugin that is known here provides it"
    return (
        f"plugin {plugin!r} requires the key {key.name!r}, which nobody provides: {advice}; "
        f"enable a plugin that provides it, or disable {plugin!r}"
    )


def _circle(waiting: Sequence[str], needs: Mapping[str, Mapping[str, Key[Any]]]) -> str:
    # Everybody who waits needs somebody who waits, so that walking on must meet a name twice.
    path = [waiting[0]]
    while path.count(path[-1]) == 1:
        path.append(next(name for name in needs[path[-1]] if name in waiting))
    circle = path[path.index(path[-1]) :]
    steps = [
        f"{one!r} requires {needs[one][other].name!r} of {other!r}"
        for one, other in pairwise(circle)
    ]
    return f"plugins require each other in a circle: {', '.join(steps)}; disable one of them"
