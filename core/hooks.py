"""Awaits the hooks, each under its contract: order, limit, failure, attribution.

pluggy registers, orders and blocks the implementations; it cannot await them. `Hooks`
takes the ordered list from pluggy once, when plugins change, and calls it itself::

    refusals = await hooks.each(hookspecs.before_turn, turn)
    plan = await hooks.fold(hookspecs.plan_turn, turn, plan)

The arguments are those of the specification, in its order or by name, and are checked
by mypy. What a failure costs stands in the hook's `Contract`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

import structlog

from hookgate.core._dispatch import (
    Failed,
    FailureKind,
    HookFailure,
    Implementation,
    Suspended,
    bind,
)
from hookgate.core._results import Expected, annotation_of, expected_of, members_of
from hookgate.core.errors import ConfigError, ConfigProblem, HookError, StartError
from hookgate.core.events import HookSpan
from hookgate.hookspecs import Contract

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    import pluggy

    from hookgate.core.settings import HookSettings

__all__ = ["Answer", "FailureKind", "HookFailure", "Hooks", "Implementation"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

POOL_THREADS = 4
"""Threads of each plugin for its `blocking` implementations."""

REPORT_CAPACITY = 256
"""Failures that may wait for `hook_failed`; the oldest is dropped when there are more."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[R]):
    """What one plugin's implementation came to.

    Attributes:
        plugin: The plugin's name.
        value: What it returned; None where it failed.
        failure: How it failed, if it did.

    """

    plugin: str
    value: R | None = None
    failure: HookFailure | None = None


class _Chain:
    """One hook with its implementations in call order."""

    __slots__ = (
        "arity",
        "classes",
        "contract",
        "ends",
        "expected",
        "fits",
        "implementations",
        "name",
        "names",
        "turn",
    )

    def __init__(
        self, name: str, function: Callable[..., Any], names: tuple[str, ...], contract: Contract
    ) -> None:
        self.name = name
        self.names = names
        self.arity = len(names)
        self.contract = contract
        result = annotation_of(function, "return")
        self.expected: Expected = expected_of(result)
        self.classes = self.expected.classes
        self.fits = self.expected.check
        self.turn = names.index("turn") if "turn" in names else None
        self.ends: Expected | None = None
        if contract.combine == "fold":
            carried = members_of(annotation_of(function, names[-1]))
            others = [member for member in members_of(result) if member not in carried]
            if others:
                self.ends = expected_of(_union(others))
        self.implementations: tuple[Implementation, ...] = ()

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        if kwargs or len(args) != self.arity:
            return bind(self.name, self.names, args, kwargs)
        return args


def _union(members: Sequence[Any]) -> Any:
    union = members[0]
    for member in members[1:]:
        union = union | member
    return union


class _Chains(dict[Callable[..., Any], _Chain]):
    def __missing__(self, spec: Callable[..., Any]) -> _Chain:
        raise LookupError(
            f"{getattr(spec, '__name__', spec)!r} is no hook of this gateway: expected a "
            "function of hookgate.hookspecs"
        )


class Hooks:
    """Calls the implementations of the hooks.

    Attributes:
        spans: Takes a `HookSpan` for each implementation that ran. None: nothing is
            measured and tracing costs nothing.

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
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._chains = _Chains()
        self._reports: deque[HookFailure] = deque(maxlen=REPORT_CAPACITY)
        self._reporter: asyncio.Task[None] | None = None
        self._reporting: _Chain | None = None
        self.spans: Callable[[HookSpan], None] | None = None
        self.recompute()

    # -- wiring ------------------------------------------------------------

    def recompute(self) -> None:
        """Read specifications and implementations again, after plugins have changed."""
        chains = _Chains()
        callers = [caller for caller in vars(self._manager.hook).values() if caller.has_spec()]
        contracts = {
            caller.name: getattr(caller.spec.function, "__contract__", Contract(combine="each"))
            for caller in callers
        }
        contracts = tightened(contracts, self._overrides)
        for caller in callers:
            if caller.spec.kwargnames:
                raise StartError(
                    f"hook {caller.name}: the specification gives {caller.spec.kwargnames[0]!r} "
                    "a default, which implementations would never see: remove the default"
                )
            function = caller.spec.function
            chain = _Chain(caller.name, function, caller.spec.argnames, contracts[caller.name])
            chain.implementations = tuple(
                self._implementation(chain, impl) for impl in reversed(caller.get_hookimpls())
            )
            chains[function] = chain
        self._chains = chains
        self._reporting = next((c for c in chains.values() if c.name == "hook_failed"), None)

    def _implementation(self, chain: _Chain, impl: pluggy.HookImpl) -> Implementation:
        takes_all = impl.argnames == chain.names
        plugin = impl.plugin_name
        blocks = getattr(impl.function, "__hookgate_blocking__", False)
        return Implementation(
            chain.name,
            plugin,
            impl.function,
            positions=None if takes_all else tuple(map(chain.names.index, impl.argnames)),
            limit=chain.contract.limit,
            required=chain.contract.required,
            expected=chain.expected,
            executor=(lambda: self._pool(plugin)) if blocks else None,
        )

    def _pool(self, plugin: str) -> Executor:
        pool = self._pools.get(plugin)
        if pool is None:
            pool = self._pools[plugin] = ThreadPoolExecutor(
                POOL_THREADS, thread_name_prefix=f"hookgate-{plugin}"
            )
        return pool

    async def close(self) -> None:
        """Tell `hook_failed` what is still to be told, and let the threads go.

        A thread whose implementation still blocks is not waited for.
        """
        await self.reported()
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

    # -- calls -------------------------------------------------------------

    def each(
        self, spec: Callable[P, R | None], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, list[R]]:
        """Call every implementation; await the list of the results that are not None.

        Raises:
            HookError: An implementation failed, and the hook is required. The hooks that
                settle raise when all have run.

        """
        chain = self._chains[spec]
        return self._each(chain, chain.bind(args, kwargs))

    def notify(
        self, spec: Callable[P, None], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, object]:
        """Call every implementation of a hook that returns nothing. Raises as `each`."""
        chain = self._chains[spec]
        return self._each(chain, chain.bind(args, kwargs))

    async def each_by_plugin(
        self, spec: Callable[P, R | None], /, *args: P.args, **kwargs: P.kwargs
    ) -> list[Answer[R]]:
        """Call every implementation; return what each came to, in call order.

        Results that are None are left out. Of a hook that is not required, failures are
        answers, too; of a required one they raise as with `each`.
        """
        chain = self._chains[spec]
        values = chain.bind(args, kwargs)
        answers: list[Answer[R]] = []
        errors: list[HookError] = []
        for implementation in chain.implementations:
            value = await self._run(chain, implementation, values)
            if value.__class__ is Failed:
                self._fail(chain, value.failure, errors)
                answers.append(Answer(implementation.plugin, failure=value.failure))
            elif value is not None:
                answers.append(Answer(implementation.plugin, value))
        if errors:
            raise _joined(errors)
        return answers

    async def first(
        self, spec: Callable[P, R | None], /, *args: P.args, **kwargs: P.kwargs
    ) -> R | None:
        """Return the first result that is not None; the implementations behind it do not run.

        Raises:
            HookError: An implementation failed before that, and the hook is required.

        """
        chain = self._chains[spec]
        values = chain.bind(args, kwargs)
        errors: list[HookError] = []
        for implementation in chain.implementations:
            value = await self._run(chain, implementation, values)
            if value.__class__ is Failed:
                self._fail(chain, value.failure, errors)
            elif value is not None:
                return cast("R", value)
        if errors:
            raise _joined(errors)
        return None

    async def fold(self, spec: Callable[P, R | None], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Pass the last argument through every implementation; return what became of it.

        A result that the specification allows, but which is not of the last argument's
        type, ends the fold and is returned (`Rejected` of `sanitize_card`). mypy needs
        the union to be written at such a call: ``end: Card | Rejected = await ...``.

        Raises:
            HookError: An implementation failed, and the hook is required.

        """
        chain = self._chains[spec]
        values = chain.bind(args, kwargs)
        errors: list[HookError] = []
        for implementation in chain.implementations:
            value = await self._run(chain, implementation, values)
            if value.__class__ is Failed:
                self._fail(chain, value.failure, errors)
            elif value is not None:
                if chain.ends is not None and chain.ends.fits(value):
                    return cast("R", value)
                values = (*values[:-1], value)
        if errors:
            raise _joined(errors)
        return cast("R", values[-1])

    async def run_one(self, implementation: Implementation, *args: Any) -> Any:
        """Run one implementation, with all of the hook's arguments, under the contract.

        Returns:
            Its result; None also where it failed and the hook is not required.

        Raises:
            HookError: It failed, and the hook is required.

        """
        chain = self._chain_of(implementation)
        value = await self._run(chain, implementation, args)
        if value.__class__ is not Failed:
            return value
        errors: list[HookError] = []
        self._fail(chain, value.failure, errors)
        if errors:
            raise errors[0]
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
            awaitable: What to await.
            passing: Exceptions that are no failure, for example `StopAsyncIteration`.

        Raises:
            HookError: It failed, whether or not the hook is required.

        """
        value = implementation.step(_outcome(awaitable))
        if value.__class__ is Suspended:
            value = await value
        if value.__class__ is Failed:
            failure: HookFailure = value.failure
            if failure.kind in ("raised", "cancelled") and isinstance(failure.error, passing):
                raise failure.error
            self._report(failure)
            raise failure.to_error()
        return cast("T", value.value)

    # -- the machinery -----------------------------------------------------

    async def _each(self, chain: _Chain, args: tuple[Any, ...]) -> list[Any]:
        results: list[Any] = []
        errors: list[HookError] = []
        classes, check, traced = chain.classes, chain.fits, self.spans is not None
        for implementation in chain.implementations:
            value = (
                await self._traced(chain, implementation, args)
                if traced
                else (implementation.start(args))
            )
            if value is not None:
                if not (isinstance(value, classes) or check(value)):
                    value = await implementation.settle(value)
                    if value.__class__ is Failed:
                        self._fail(chain, value.failure, errors)
                        continue
                    if value is None:
                        continue
                results.append(value)
        if errors:
            raise _joined(errors)
        return results

    async def _run(
        self, chain: _Chain, implementation: Implementation, args: tuple[Any, ...]
    ) -> Any:
        if self.spans is not None:
            return await self._traced(chain, implementation, args)
        value = implementation.start(args)
        if value is None or isinstance(value, chain.classes):
            return value
        return await implementation.settle(value)

    async def _traced(
        self, chain: _Chain, implementation: Implementation, args: tuple[Any, ...]
    ) -> Any:
        at = perf_counter()
        outcome, failed = "cancelled with its turn", True
        try:
            value = await implementation.settle(implementation.start(args))
            failed = value.__class__ is Failed
            outcome = value.failure.message if failed else _told(value)
            return value
        finally:
            span = HookSpan(
                hook=chain.name,
                plugin=implementation.plugin,
                seconds=perf_counter() - at,
                outcome=outcome,
                failed=failed,
                turn="" if chain.turn is None else str(getattr(args[chain.turn], "id", "")),
                at=at,
            )
            self._trace(span)

    def _trace(self, span: HookSpan) -> None:
        if self.spans is None:
            return
        try:
            self.spans(span)
        except Exception:  # noqa: BLE001 - a watcher must not break what it watches
            self._log.exception("a subscriber to hook spans failed", hook=span.hook)

    def _chain_of(self, implementation: Implementation) -> _Chain:
        for chain in self._chains.values():
            if chain.name == implementation.hook:
                return chain
        raise LookupError(f"{implementation!r} is of a hook that this gateway does not have")

    # -- failures ----------------------------------------------------------

    def _fail(self, chain: _Chain, failure: HookFailure, errors: list[HookError]) -> None:
        """Report a failure, and raise or note it where the hook is required."""
        self._report(failure)
        if not failure.required:
            return
        error = failure.to_error()
        if not chain.contract.settle:
            raise error
        errors.append(error)

    def _report(self, failure: HookFailure) -> None:
        log = self._log.error if failure.required else self._log.warning
        with suppress(OSError):  # a log that cannot be written is no reason to end a turn
            log(
                "hook failed",
                hook=failure.hook,
                plugin=failure.plugin,
                kind=failure.kind,
                reason=failure.message,
                exc_info=failure.error if failure.kind == "raised" else None,
            )
        reporting = self._reporting
        if reporting is None or not reporting.implementations or failure.hook == "hook_failed":
            return
        self._reports.append(failure)
        if self._reporter is None or self._reporter.done():
            self._reporter = asyncio.get_running_loop().create_task(
                self._tell(reporting), name="hook_failed"
            )

    async def _tell(self, chain: _Chain) -> None:
        while self._reports:
            failure = self._reports.popleft()
            for implementation in chain.implementations:
                value = await self._run(chain, implementation, (failure,))
                if value.__class__ is Failed:
                    self._report(value.failure)

    async def reported(self) -> None:
        """Wait until `hook_failed` has heard of all failures so far."""
        while self._reporter is not None and not self._reporter.done():
            await asyncio.wait([self._reporter])


class _Outcome:
    """Wraps the value of `Hooks.guard`, so that None and `Failed` stay what they are."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


async def _outcome(awaitable: Awaitable[Any]) -> _Outcome:
    return _Outcome(await awaitable)


def _joined(errors: Sequence[HookError]) -> HookError:
    """Return the first of `errors`, with the others as notes."""
    first, *others = errors
    for other in others:
        first.add_note(f"also: {other}")
    return first


def _told(value: Any) -> str:
    """Return a result in a few words, for a span."""
    if value is None:
        return "nothing"
    name = type(value).__name__
    if isinstance(value, str | bytes | list | tuple | set | frozenset | dict):
        return f"{name} of {len(value)}"
    parts = []
    for field in ("effect", "status", "code", "reason", "message"):
        told = getattr(value, field, None)
        if told is not None and told != "" and not callable(told):
            parts.append(str(getattr(told, "name", told)).partition("\n")[0][:80])
    return " ".join([name, *parts])


def tightened(
    contracts: Mapping[str, Contract], overrides: Mapping[str, HookSettings]
) -> dict[str, Contract]:
    """Return the contracts with the operator's overrides.

    Raises:
        ConfigError: An override names an unknown hook, or would loosen its contract.

    """
    result = dict(contracts)
    problems: list[ConfigProblem] = []
    for name, override in overrides.items():
        contract = contracts.get(name)
        if contract is None:
            near = get_close_matches(name, contracts, n=1)
            problems.append(
                ConfigProblem(
                    file="",
                    line=None,
                    key=f"hooks.{name}",
                    found="a hook that does not exist",
                    expected="the name of a hook",
                    nearest=f"hooks.{near[0]}" if near else None,
                )
            )
            continue
        limit = contract.limit if override.limit is None else override.limit
        if limit > contract.limit:
            problems.append(
                ConfigProblem(
                    file="",
                    line=None,
                    key=f"hooks.{name}.limit",
                    found=f"{limit:g}",
                    expected=f"at most {contract.limit:g}: a contract can be tightened, "
                    "never loosened",
                )
            )
        result[name] = Contract(
            combine=contract.combine,
            required=contract.required or override.required is True,
            limit=limit,
            settle=contract.settle,
        )
    if problems:
        raise ConfigError(problems)
    return result
