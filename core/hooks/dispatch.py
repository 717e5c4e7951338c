"""The hooks of a gateway: their contracts, their implementations, and how one of these is called.

Package-private: `core.hooks.caller` is the face of this, `core.hooks.limits` drives what suspends.
"""

from __future__ import annotations

import asyncio
import threading
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import or_
from types import CoroutineType
from typing import Any, Literal, TypeVar

import pluggy

from hookgate.core.domain.errors import (
    HookError,
    HookResultError,
    HookTimeoutError,
    Problem,
    StartError,
)
from hookgate.core.hooks.limits import GRACE, Watch, parked
from hookgate.core.hooks.results import Expected, annotation_of, expected_of, members_of
from hookgate.core.hooks.tasks import called
from hookgate.core.settings.schema import HookSettings
from hookgate.core.settings.sections import nearest, problem
from hookgate.hookspecs import Contract

T = TypeVar("T")

_clock_of: Callable[[int], int] | None = getattr(time, "pthread_getcpuclockid", None)


class Pool(ThreadPoolExecutor):
    """Threads that know what they have spent.

    Args:
        plugin: Whose they are.
        threads: How many.
    """

    def __init__(self, plugin: str, threads: int) -> None:
        super().__init__(threads, thread_name_prefix=f"hookgate-{plugin}")
        self._counting = threading.Lock()
        self._spent = 0.0
        # By the clock of a thread: what it showed when its work began.
        self._running: dict[int, float] = {}

    def spent(self) -> float:
        """Return the seconds of the processor that all work here has had until now.

        Where a thread's clock cannot be read by another (macOS), what runs counts once it is
        over. The clock of a thread that has ended is not there any more, which is no fault.
        """
        with self._counting:
            total = self._spent
            for clock, begun in self._running.items():
                with suppress(OSError):
                    total += time.clock_gettime(clock) - begun
        return total

    def counted(self, work: Callable[..., T], *args: Any) -> T:
        """Do `work` on a thread of the pool's, and count it."""
        begun = time.thread_time()
        clock = None if _clock_of is None else _clock_of(threading.get_ident())
        if clock is not None:
            with self._counting:
                self._running[clock] = begun
        try:
            return work(*args)
        finally:
            with self._counting:
                if clock is not None:
                    del self._running[clock]
                self._spent += time.thread_time() - begun


# -- contracts and implementations -----------------------------------------------

MESSAGE_CHARS = 300

FailureKind = Literal["raised", "timeout", "result", "cancelled", "exit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookFailure:
    """One implementation of a hook failed.

    Attributes:
        hook: The hook's name.
        plugin: The plugin's name.
        kind: ``raised`` an exception, ``timeout``: suspended for longer than the limit,
            ``result``: a result of a wrong type, ``cancelled``: a `CancelledError` of its
            own, ``exit``: a `SystemExit` or `KeyboardInterrupt`.
        message: What happened, in one line.
        required: Whether the hook's contract makes this an error of the caller.
        error: The exception, where there is one.
    """

    hook: str
    plugin: str
    kind: FailureKind
    message: str
    required: bool
    error: BaseException | None = None

    def to_error(self) -> HookError:
        """Return the exception that this failure raises where the hook is required."""
        kinds: dict[str, type[HookError]] = {"timeout": HookTimeoutError, "result": HookResultError}
        error = kinds.get(self.kind, HookError)(self.hook, self.plugin, self.message)
        error.__cause__ = self.error
        return error


class Failed:
    """Stands in place of a result; never leaves the core."""

    __slots__ = ("failure",)

    def __init__(self, failure: HookFailure) -> None:
        self.failure = failure


class Chain:
    """One hook with its implementations in call order.

    Attributes:
        name: The hook's name.
        names: The names of its arguments, in order.
        contract: Its contract, as the operator has tightened it.
        expected: What an implementation may return.
        turn: The place of the turn among the arguments, if it is one.
        ends: Of a fold, the results that end it.
        implementations: The implementations, the first one to be called first.
    """

    __slots__ = ("contract", "ends", "expected", "implementations", "name", "names", "turn")

    def __init__(
        self, name: str, spec: Callable[..., Any], names: tuple[str, ...], contract: Contract
    ) -> None:
        self.name = name
        self.names = names
        self.contract = contract
        result = annotation_of(spec, "return")
        self.expected: Expected = expected_of(result)
        self.turn = names.index("turn") if "turn" in names else None
        self.ends: Expected | None = None
        if contract.combine == "fold":
            carried = members_of(annotation_of(spec, names[-1]))
            others = [member for member in members_of(result) if member not in carried]
            if others:
                self.ends = expected_of(reduce(or_, others))
        self.implementations: tuple[Implementation, ...] = ()

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the arguments in order.

        Raises:
            TypeError: One is missing, or there is one too many.
        """
        if not kwargs and len(args) == len(self.names):
            return args
        names = self.names
        rest = names[len(args) :]
        if len(args) > len(names) or set(rest) != set(kwargs):
            raise TypeError(
                f"hook {self.name} takes ({', '.join(names)}); found {len(args)} positional "
                f"arguments and the names ({', '.join(kwargs)})"
            )
        return (*args, *(kwargs[name] for name in rest))


class Implementation:
    """One plugin's implementation of one hook, ready to be called.

    Attributes:
        chain: The hook, with its contract.
        plugin: The name that the plugin runs under.
        pool: Returns the threads that it runs on; None where it runs on the event loop.
        target: What is called: the plugin's own function, bound, or its way onto a thread.
        positions: The places of its arguments among the hook's; None: it takes them all.
    """

    __slots__ = ("chain", "plugin", "pool", "positions", "target")

    def __init__(self, chain: Chain, found: pluggy.HookImpl, pool: Callable[[str], Pool]) -> None:
        self.chain = chain
        self.plugin: str = found.plugin_name
        positions = tuple(map(chain.names.index, found.argnames))
        self.positions = None if found.argnames == chain.names else positions
        blocks = getattr(found.function, "__hookgate_blocking__", False)
        self.pool = partial(pool, self.plugin) if blocks else None
        self.target: Callable[..., Any] = found.function
        if self.pool is not None:
            self.target = _on_thread(found.function, self.pool)

    @property
    def hook(self) -> str:
        """The hook's name."""
        return self.chain.name

    @property
    def limit(self) -> float:
        """Seconds for which it may be suspended."""
        return self.chain.contract.limit

    def __repr__(self) -> str:
        return f"<{self.hook} of {self.plugin!r}>"

    async def call(self, watch: Watch, args: tuple[Any, ...]) -> Any:
        """Call it with all of the hook's arguments, inside a dispatch that is watched.

        Returns:
            A right result, None, or `Failed`.
        """
        positions = self.positions
        try:
            value = (
                self.target(*args)
                if positions is None
                else self.target(*[args[position] for position in positions])
            )
            if value.__class__ is CoroutineType:
                watch.implementation = self
                watch.coroutine = value
                if watch.apart:
                    await parked()
                value = await value
            if value is None or isinstance(value, self.chain.expected.classes):
                return value
        except BaseException as error:  # noqa: BLE001 - any failure is the implementation's
            value = watch.failed(self, error)
        unfit = self.unfit(value)
        return value if unfit is None else await self.settle(watch, value, unfit)

    async def settle(self, watch: Watch, value: Any, unfit: Failed) -> Any:
        """Await a result that is not fit by itself, if that can be. Returns as `call`."""
        if not hasattr(type(value), "__await__"):
            return unfit
        value = await self.wait(watch, value)
        return self.unfit(value) or value

    def unfit(self, value: Any) -> Failed | None:
        """Return what is wrong with a result, if anything is; of a failure nothing more."""
        if value is None or type(value) is Failed:
            return None
        try:
            expected = self.chain.expected
            if isinstance(value, expected.classes) or expected.check(value):
                return None
            return self.fail("result", expected.complaint(value))
        except BaseException as error:  # noqa: BLE001 - looking at it runs code of its own
            told = f"returned a {type(value).__name__} that cannot be read: {describe(error)}"
            return self.fail("result", told, error)

    async def wait(self, watch: Watch, awaitable: Awaitable[Any]) -> Any:
        """Await something that the implementation made; return its result or `Failed`."""
        coroutine = _result(awaitable)
        watch.implementation = self
        watch.coroutine = coroutine
        if watch.apart:
            await parked()
        try:
            return await coroutine
        except BaseException as error:  # noqa: BLE001
            return watch.failed(self, error)

    def failed(self, error: BaseException) -> Failed:
        """Turn what the implementation raised, of whatever class, into a failure."""
        if isinstance(error, CancelledError):
            return self.fail("cancelled", "raised CancelledError, though nobody cancelled", error)
        exits = isinstance(error, SystemExit | KeyboardInterrupt)
        kind: FailureKind = "exit" if exits else "raised"
        return self.fail(kind, describe(error), error)

    def overdue(self, *, abandoned: bool, error: BaseException | None) -> Failed:
        """Return the failure of having been suspended for too long."""
        message = f"suspended for longer than its limit of {self.limit:g} s"
        if self.pool is not None:
            message += "; its thread cannot be stopped: it goes on, or waits for a free one"
        elif abandoned:
            message += f", went on for {GRACE:g} s after it was cancelled, and was abandoned"
        return self.fail("timeout", message, error)

    def fail(self, kind: FailureKind, message: str, error: BaseException | None = None) -> Failed:
        """Return a failure of this implementation."""
        failure = HookFailure(
            hook=self.hook,
            plugin=self.plugin,
            kind=kind,
            message=message,
            required=self.chain.contract.required,
            error=error,
        )
        return Failed(failure)


async def _result(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _on_thread(
    function: Callable[..., Any], pool: Callable[[], Pool]
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return an ``async`` function that runs `function` on a thread of the pool."""

    async def run(*args: Any) -> Any:
        loop, threads = asyncio.get_running_loop(), pool()
        call = copy_context().run
        ended = await loop.run_in_executor(threads, threads.counted, call, called, function, *args)
        if ended.error is not None:
            raise ended.error
        return ended.value

    return run


def describe(error: BaseException) -> str:
    """Return an exception's type and first line."""
    try:
        text = str(error).strip().partition("\n")[0]
    except BaseException:  # noqa: BLE001 - some exceptions cannot even be printed
        text = "(its message cannot be read)"
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return line if len(line) <= MESSAGE_CHARS else f"{line[: MESSAGE_CHARS - 1]}…"


# -- all hooks of a gateway ---------------------------------------------------


class Chains(dict[Callable[..., Any], Chain]):
    """Every hook by its specification."""

    def __missing__(self, spec: Callable[..., Any]) -> Chain:
        raise LookupError(
            f"{getattr(spec, '__name__', spec)!r} is no hook of this gateway: expected a "
            "function of hookgate.hookspecs, or one that a running plugin publishes"
        )


def contracts_of(manager: pluggy.PluginManager) -> dict[str, Contract]:
    """Return the contract of every hook that `manager` has a specification of."""
    return {
        name: getattr(caller.spec.function, "__contract__", Contract(combine="each"))
        for name, caller in vars(manager.hook).items()
        if caller.spec is not None
    }


def chains_of(
    manager: pluggy.PluginManager,
    contracts: Mapping[str, Contract],
    pool: Callable[[str], Pool],
) -> Chains:
    """Read specifications and implementations of `manager`.

    Args:
        manager: Specifications are added and plugins are registered.
        contracts: The contract of every hook by name.
        pool: Returns the threads of a plugin by its name.

    Raises:
        StartError: A specification has an argument with a default.
    """
    chains = Chains()
    for name, contract in contracts.items():
        caller = getattr(manager.hook, name)
        spec = caller.spec
        if spec.kwargnames:
            raise StartError(
                f"hook {name}: the specification gives {spec.kwargnames[0]!r} a default, which "
                "no implementation would ever see: remove the default"
            )
        chain = chains[spec.function] = Chain(name, spec.function, spec.argnames, contract)
        chain.implementations = tuple(
            Implementation(chain, found, pool) for found in reversed(caller.get_hookimpls())
        )
    return chains


def tightened(
    contracts: Mapping[str, Contract], overrides: Mapping[str, HookSettings]
) -> tuple[dict[str, Contract], list[Problem]]:
    """Return the contracts with the operator's overrides, and what is wrong with these.

    A hook that is not known is a problem, and so is one that would be loosened.
    """
    result = dict(contracts)
    problems: list[Problem] = []
    for name, override in overrides.items():
        contract = contracts.get(name)
        if contract is None:
            near = nearest(name, contracts, "hooks.")
            problems.append(problem(f"hooks.{name}", "an unknown hook", "a hook's name", near))
            continue
        limit = contract.limit if override.limit is None else override.limit
        if limit > contract.limit:
            expected = f"at most {contract.limit:g}: a contract is tightened, never loosened"
            problems.append(problem(f"hooks.{name}.limit", f"{limit:g}", expected))
        required = contract.required or override.required is True
        result[name] = replace(contract, required=required, limit=limit)
    return result, problems
