"""Awaits the hooks, each under its contract: order, limit, failure, attribution.

pluggy registers, orders and blocks the implementations; it cannot await them. `Hooks`
takes the ordered list from pluggy once, when plugins change, and calls it itself::

    refusals = await hooks.each(hookspecs.before_turn, turn)
    plan = await hooks.fold(hookspecs.plan_turn, turn, plan)

The arguments are those of the specification, in its order or by name, and are checked
by mypy. What a failure costs stands in the hook's `Contract`; what holds about limits and
cancellation stands in `core.hooks.limits`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from types import CoroutineType, FrameType
from typing import Any, Generic, ParamSpec, TypeVar

import pluggy
import structlog

from hookgate.core.domain.errors import ConfigError, HookError
from hookgate.core.domain.events import HookSpan
from hookgate.core.hooks.dispatch import (
    Chain,
    Failed,
    HookFailure,
    Implementation,
    Pool,
    chains_of,
    contracts_of,
    tightened,
)
from hookgate.core.hooks.limits import Watch, driven, parked, rest
from hookgate.core.hooks.reports import CUT, FailureReports, span_of
from hookgate.core.hooks.tasks import finish
from hookgate.core.settings.schema import HookSettings
from hookgate.hookspecs import Contract, hook_failed

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

POOL_THREADS = 4
"""Threads of each plugin for its `blocking` implementations."""

LOOP = ("_run_once", "run_until_complete", "run_forever", "run")
"""Functions of asyncio that are the event loop itself."""

CLOSE_SECONDS = 5.0
"""How long `Hooks.close` waits for `hook_failed`."""


@dataclass(frozen=True, slots=True)
class HookAnswer(Generic[R]):
    """What one plugin's implementation came to.

    Attributes:
        plugin: The plugin's name.
        value: What it returned; None where it failed.
        failure: How it failed, if it did.
    """

    plugin: str
    value: R | None = None
    failure: HookFailure | None = None


class Hooks:
    """Calls the implementations of the hooks.

    Attributes:
        spans: Takes a `HookSpan` for each implementation that ran. None: nothing is
            measured and tracing costs nothing.
        failed: Takes each failure, in the moment in which it is known.
    """

    def __init__(
        self,
        manager: pluggy.PluginManager,
        overrides: Mapping[str, HookSettings] | None = None,
        *,
        log: Any = None,
    ) -> None:
        """Read the specifications and the implementations of `manager`.

        Args:
            manager: Specifications are added and plugins are registered.
            overrides: Tighter contracts by the hook's name.
            log: Takes the failures; a structlog logger.

        Raises:
            ConfigError: An override names an unknown hook, or loosens a contract.
            StartError: A specification has an argument with a default.
        """
        self._manager = manager
        self._overrides = dict(overrides or {})
        self._log = log or structlog.get_logger("hookgate.hooks")
        self._pools: dict[str, Pool] = {}
        self._reports = FailureReports(self._tell, self._log)
        self.spans: Callable[[HookSpan], None] | None = None
        self.failed: Callable[[HookFailure], None] | None = None
        self.recompute()

    # -- wiring ------------------------------------------------------------

    def recompute(self) -> None:
        """Read specifications and implementations again, after plugins have changed."""
        contracts, problems = tightened(contracts_of(self._manager), self._overrides)
        if problems:
            raise ConfigError(problems)
        self._chains = chains_of(self._manager, contracts, self._pool)
        told = self._chains.get(hook_failed)
        self._listeners = () if told is None else told.implementations
        self._packages = [
            (_package(plugin), name) for name, plugin in self._manager.list_name_plugin() if plugin
        ]

    def _pool(self, plugin: str) -> Pool:
        pool = self._pools.get(plugin)
        if pool is None:
            pool = self._pools[plugin] = Pool(plugin, POOL_THREADS)
        return pool

    async def close(self) -> None:
        """Tell `hook_failed` what is still to be told, and let the threads go.

        This takes `CLOSE_SECONDS` at most: a thread whose implementation still blocks is
        not waited for.
        """
        await self._reports.close(CLOSE_SECONDS)
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    # -- questions ---------------------------------------------------------

    def implemented(self, spec: Callable[..., Any]) -> bool:
        """Return whether any plugin implements `spec`."""
        return bool(self._chains[spec].implementations)

    def implementations(self, spec: Callable[..., Any]) -> tuple[Implementation, ...]:
        """Return the implementations of `spec` in call order."""
        return self._chains[spec].implementations

    def contract(self, spec: Callable[..., Any]) -> Contract:
        """Return the contract of `spec` as this gateway has tightened it."""
        return self._chains[spec].contract

    def running(self, frame: FrameType | None) -> Implementation | None:
        """Return whose hook runs in `frame`; the innermost one where hooks call hooks."""
        while frame is not None:
            if frame.f_globals.get("__name__", "").startswith("hookgate.core.hooks."):
                for name in ("implementation", "self"):
                    found = frame.f_locals.get(name)
                    if isinstance(found, Implementation):
                        return found
            frame = frame.f_back
        return None

    def held_by(self, frame: FrameType | None) -> str:
        """Return the plugin that computes in `frame`: by its hook, else by whose code it is.

        Empty where it is nobody's.
        """
        if (hook := self.running(frame)) is not None:
            return hook.plugin
        while frame is not None:
            module = frame.f_globals.get("__name__", "")
            if module.startswith("asyncio.") and frame.f_code.co_name in LOOP:
                break  # what lies behind has called the loop, and computes nothing
            for package, plugin in self._packages:
                if module == package or module.startswith(package + "."):
                    return plugin
            frame = frame.f_back
        return ""

    # -- calls -------------------------------------------------------------

    async def each(
        self, spec: Callable[P, R | None], /, *args: P.args, **kwargs: P.kwargs
    ) -> list[R]:
        """Call every implementation; return the results that are not None, in call order.

        Raises:
            HookError: An implementation failed, and the hook is required. Where the
                contract says ``settle``, all run before the first failure is raised.
        """
        chain = self._chains[spec]
        exact = not kwargs and len(args) == len(chain.names)
        values = args if exact else chain.bind(args, kwargs)
        if not chain.implementations:
            return []
        watch = Watch()
        dispatch = self._each(watch, chain, values)
        try:  # as `driven` does, without its cost
            yielded = dispatch.send(None)
        except StopIteration as stop:
            found: list[R] = stop.value
        else:
            found = await rest(watch, dispatch, yielded)
        return found

    def notify(
        self, spec: Callable[P, None], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, object]:
        """Call every implementation of a hook that returns nothing. Raises as `each`."""
        return self.each(spec, *args, **kwargs)

    async def conclude(self, spec: Callable[P, None], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call every implementation, to its end also where the caller is cancelled meanwhile.

        From the first one that awaits anything on they have a task of their own; see `finish`. Most
        await nothing, and a task costs more than they do. Raises as `each`.
        """
        chain, watch = self._chains[spec], Watch()
        watch.apart = True
        dispatch = self._each(watch, chain, chain.bind(args, kwargs))
        try:
            dispatch.send(None)
        except StopIteration:
            return
        watch.apart = False
        await finish(driven(watch, dispatch))

    async def each_by_plugin(
        self, spec: Callable[P, R | None], /, *args: P.args, **kwargs: P.kwargs
    ) -> list[HookAnswer[R]]:
        """Call every implementation; return what each came to, in call order.

        Results that are None are left out. Of a hook that is not required, failures are
        answers, too; of a required one they raise as with `each`.
        """
        chain = self._chains[spec]
        values, watch = chain.bind(args, kwargs), Watch()
        dispatch = self._each(watch, chain, values, named=True)
        found: list[HookAnswer[R]] = await driven(watch, dispatch)
        return found

    async def each_of(
        self,
        plugins: Collection[str],
        spec: Callable[P, R | None],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> list[HookAnswer[R]]:
        """Call the implementations of some plugins alone; otherwise as `each_by_plugin`."""
        chain = self._chains[spec]
        values, watch = chain.bind(args, kwargs), Watch()
        dispatch = self._each(watch, chain, values, plugins, named=True)
        found: list[HookAnswer[R]] = await driven(watch, dispatch)
        return found

    async def first(
        self, spec: Callable[P, R | None], /, *args: P.args, **kwargs: P.kwargs
    ) -> R | None:
        """Return the first result that is not None; the implementations behind it do not run.

        Raises:
            HookError: An implementation failed before that, and the hook is required.
        """
        chain = self._chains[spec]
        values, watch = chain.bind(args, kwargs), Watch()
        found: list[R] = await driven(watch, self._each(watch, chain, values, one=True))
        return found[0] if found else None

    async def first_of(
        self,
        plugins: Collection[str],
        spec: Callable[P, R | None],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R | None:
        """Call the implementations of some plugins alone; otherwise as `first`."""
        chain = self._chains[spec]
        values, watch = chain.bind(args, kwargs), Watch()
        found: list[R] = await driven(watch, self._each(watch, chain, values, plugins, one=True))
        return found[0] if found else None

    async def fold(self, spec: Callable[P, R | None], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Pass the last argument through every implementation; return what became of it.

        A result that the specification allows, but which is not of the last argument's
        type, ends the fold and is returned (`Rejected` of `sanitize_card`). mypy needs
        the union to be written at such a call: ``end: Card | Rejected = await ...``.

        Raises:
            HookError: An implementation failed, and the hook is required.
        """
        chain = self._chains[spec]
        values, watch = chain.bind(args, kwargs), Watch()
        folded: R = await driven(watch, self._fold(watch, chain, values))
        return folded

    async def run_one(self, implementation: Implementation, *args: Any) -> Any:
        """Run one implementation, with all of the hook's arguments, under the contract.

        Returns:
            Its result; None also where it failed and the hook is not required.

        Raises:
            HookError: It failed, and the hook is required.
        """
        if not hasattr(self._manager.hook, implementation.chain.name):
            raise LookupError(f"{implementation!r} is of a hook that this gateway does not have")
        watch = Watch()
        call = Implementation.call if self.spans is None else self._traced
        value = await driven(watch, call(implementation, watch, args))
        if type(value) is not Failed:
            return value
        self._report(value.failure)
        if value.failure.required:
            raise value.failure.to_error()
        return None

    async def guard(
        self,
        implementation: Implementation,
        awaitable: Awaitable[T],
        *,
        passing: tuple[type[BaseException], ...] = (),
    ) -> T:
        """Await something that an implementation made, under its limit and in its name.

        A step of a filter's stream is one such thing, the entry of a lifespan another.

        Args:
            implementation: Whose it is.
            awaitable: What to await; its result is not checked.
            passing: Exceptions that are no failure, for example `StopAsyncIteration`.

        Raises:
            HookError: It failed, whether or not the hook is required.
        """
        watch = Watch()
        value = await driven(watch, implementation.wait(watch, awaitable))
        if type(value) is Failed:
            failure: HookFailure = value.failure
            if failure.kind != "timeout" and isinstance(failure.error, passing):
                raise failure.error
            self._report(failure)
            raise failure.to_error()
        result: T = value
        return result

    async def reported(self) -> None:
        """Wait until `hook_failed` has heard of all failures so far."""
        await self._reports.told()

    # -- the machinery -----------------------------------------------------
    #
    # These coroutines are dispatches: they await implementations and nothing else, and
    # are driven by `core.hooks.limits`.

    async def _each(
        self,
        watch: Watch,
        chain: Chain,
        args: tuple[Any, ...],
        plugins: Collection[str] | None = None,
        *,
        named: bool = False,
        one: bool = False,
    ) -> list[Any]:
        """Return what implementations return.

        Args:
            watch: Knows of this dispatch.
            chain: The hook.
            args: All of its arguments.
            plugins: Those whose implementations are called; None for all.
            named: Whether results are a `HookAnswer` each, and failures are results, too.
            one: Whether the first result is enough.
        """
        results: list[Any] = []
        errors: list[HookError] = []
        classes, traced = chain.expected.classes, self.spans is not None
        called, plain = chain.implementations, not (named or one)
        if plugins is not None:
            called = tuple([each for each in called if each.plugin in plugins])
        for implementation in called:
            if traced:
                value = await self._traced(implementation, watch, args)
            else:
                # `Implementation.call` written out: this is the hot path.
                positions = implementation.positions
                try:
                    value = (
                        implementation.target(*args)
                        if positions is None
                        else implementation.target(*[args[place] for place in positions])
                    )
                    if value.__class__ is CoroutineType:
                        watch.implementation = implementation
                        watch.coroutine = value
                        if watch.apart:
                            await parked()
                        value = await value
                    if value is None:
                        continue
                    if plain and isinstance(value, classes):
                        results.append(value)
                        continue
                except BaseException as error:  # noqa: BLE001 - the implementation's failure
                    value = watch.failed(implementation, error)
                if (unfit := implementation.unfit(value)) is not None:
                    value = await implementation.settle(watch, value, unfit)
            if type(value) is Failed:
                self._fail(chain, value.failure, errors)
                if named:
                    results.append(HookAnswer(implementation.plugin, failure=value.failure))
            elif value is not None:
                results.append(HookAnswer(implementation.plugin, value) if named else value)
                if one:
                    return results
        if errors:
            _raise(errors)
        return results

    async def _fold(self, watch: Watch, chain: Chain, args: tuple[Any, ...]) -> Any:
        errors: list[HookError] = []
        call = Implementation.call if self.spans is None else self._traced
        for implementation in chain.implementations:
            value = await call(implementation, watch, args)
            if type(value) is Failed:
                self._fail(chain, value.failure, errors)
            elif value is not None:
                if chain.ends is not None and chain.ends.fits(value):
                    return value
                args = (*args[:-1], value)
        if errors:
            _raise(errors)
        return args[-1]

    async def _traced(
        self, implementation: Implementation, watch: Watch, args: tuple[Any, ...]
    ) -> Any:
        """Call one implementation, and tell `spans` about it."""
        at, value, waited = perf_counter(), CUT, True
        try:
            value = await implementation.call(watch, args)
            # Whoever suspends has himself noted as the one who is waited for.
            waited = getattr(watch, "implementation", None) is implementation
            return value
        finally:
            if self.spans is not None:
                try:
                    self.spans(span_of(implementation, args, at, value, waited=waited))
                except Exception:  # noqa: BLE001 - a watcher must not break what it watches
                    hook = implementation.hook
                    self._log.exception("a subscriber to hook spans failed", hook=hook)

    # -- failures ----------------------------------------------------------

    def _fail(self, chain: Chain, failure: HookFailure, errors: list[HookError]) -> None:
        """Report a failure; where the hook is required raise it, or note it for the end."""
        self._report(failure)
        if failure.required:
            error = failure.to_error()
            if not chain.contract.settle:
                raise error
            errors.append(error)

    def _report(self, failure: HookFailure) -> None:
        self._reports.add(failure, tell=bool(self._listeners) and failure.hook != "hook_failed")
        if self.failed is not None:
            with suppress(Exception):  # a watcher must not break what it watches
                self.failed(failure)

    async def _tell(self, failure: HookFailure) -> None:
        """Call `hook_failed`; its own failures are for the log alone."""
        for implementation in self._listeners:
            watch = Watch()
            value = await driven(watch, implementation.call(watch, (failure,)))
            if type(value) is Failed:
                self._report(value.failure)


def _package(plugin: object) -> str:
    """Return the name of the package, or of the lone module, that a plugin's code is in."""
    module: str = getattr(plugin, "__name__", "") or type(plugin).__module__
    return module.removesuffix(".plugin")


def _raise(errors: Sequence[HookError]) -> None:
    """Raise the first of `errors`, with the others as notes."""
    first, *others = errors
    for other in others:
        first.add_note(f"also: {other}")
    raise first
