"""Every hook of hookgate, each with every way to fail: what its contract says happens."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.hooking import SHORT, Log, Made, forever, hooks_of, plugin

from hookgate import hookspecs
from hookgate.core.domain.errors import HookError, HookResultError, HookTimeoutError
from hookgate.core.hooks.caller import Hooks
from hookgate.core.hooks.dispatch import HookFailure
from hookgate.hookspecs import Contract, blocking, hookimpl

SPECS: dict[str, Callable[..., Any]] = {
    name: one for name, one in vars(hookspecs).items() if hasattr(one, "__contract__")
}


def contract_of(spec: Callable[..., Any]) -> Contract:
    contract: Contract = spec.__contract__  # type: ignore[attr-defined]
    return contract


def raises() -> Any:
    raise RuntimeError("it broke")


def junk() -> Any:
    return Unfit()


def exits() -> Any:
    raise SystemExit(4)


def cancels() -> Any:
    raise asyncio.CancelledError


class Unfit:
    """A type that no hook returns."""


async def raises_async() -> Any:
    raises()


async def raises_later() -> Any:
    await asyncio.sleep(0)
    raises()


async def hangs() -> Any:
    await forever()


async def junk_async() -> Any:
    return Unfit()


async def junk_later() -> Any:
    await asyncio.sleep(0)
    return Unfit()


async def exits_async() -> Any:
    exits()


async def exits_later() -> Any:
    await asyncio.sleep(0)
    exits()


async def cancels_async() -> Any:
    cancels()


async def cancels_later() -> Any:
    await asyncio.sleep(0)
    cancels()


FAULTS: dict[Callable[[], Any], str] = {
    raises: "raised",
    raises_async: "raised",
    raises_later: "raised",
    hangs: "timeout",
    junk: "result",
    junk_async: "result",
    junk_later: "result",
    exits: "exit",
    exits_async: "exit",
    exits_later: "exit",
    cancels: "cancelled",
    cancels_async: "cancelled",
    cancels_later: "cancelled",
}
ERRORS = {"timeout": HookTimeoutError, "result": HookResultError}


def dummies(spec: Callable[..., Any]) -> list[Any]:
    return [object() for _ in spec.__code__.co_varnames[: spec.__code__.co_argcount]]


async def called(hooks: Hooks, spec: Callable[..., Any], args: list[Any]) -> Any:
    combine = contract_of(spec).combine
    call: Any = {"each": hooks.each, "first": hooks.first, "fold": hooks.fold}[combine]
    return await call(spec, *args)


def test_there_are_hooks_to_test() -> None:
    assert len(SPECS) > 25


@pytest.mark.parametrize("name", [name for name in SPECS if name != "hook_failed"])
async def test_a_failure_costs_what_the_contract_says_and_names_hook_and_plugin(name: str) -> None:
    for fault in FAULTS:
        await check_what_a_failure_costs(name, fault)


async def check_what_a_failure_costs(name: str, fault: Callable[[], Any]) -> None:
    spec, kind = SPECS[name], FAULTS[fault]
    contract = contract_of(spec)
    ran: list[str] = []
    heard: list[HookFailure] = []
    other = plugin(**{name: lambda: ran.append("other")})
    if name != "hook_failed":
        listener = plugin(hook_failed=lambda failure: heard.append(failure))
    hooks = hooks_of(
        listener, other, plugin(**{name: hookimpl(_alone(fault))}), limits={name: SHORT}
    )
    args = dummies(spec)

    if contract.required:
        with pytest.raises(HookError) as caught:
            await called(hooks, spec, args)
        assert type(caught.value) is ERRORS.get(kind, HookError)
        assert (caught.value.hook, caught.value.plugin) == (name, "p2")
        assert name in str(caught.value)
        assert "'p2'" in str(caught.value)
    else:
        result = await called(hooks, spec, args)
        assert result == (args[-1] if contract.combine == "fold" else _nothing(contract))
    assert ran == (["other"] if contract.settle or not contract.required else [])
    await hooks.close()
    (failure,) = heard
    assert (failure.hook, failure.plugin, failure.kind) == (name, "p2", kind)
    assert failure.required == contract.required
    assert failure.message
    assert "\n" not in failure.message


def _alone(fault: Callable[[], Any]) -> Callable[[], Any]:
    """Return a copy of `fault`, so that its marker stays with one test."""
    return type(fault)(fault.__code__, fault.__globals__, fault.__name__)  # type: ignore[no-any-return]


def _nothing(contract: Contract) -> Any:
    return [] if contract.combine == "each" else None


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_failing_hook_failed_is_logged_only(fault: Callable[[], Any]) -> None:
    log = Log()
    hooks = hooks_of(
        plugin(tag_turn=hookimpl(_alone(raises)), hook_failed=hookimpl(_alone(fault))),
        limits={"hook_failed": SHORT},
        log=log,
    )
    assert await hooks.each(hookspecs.tag_turn, object()) == []  # type: ignore[arg-type]
    await hooks.close()
    assert [(line["hook"], line["kind"]) for line in log.lines] == [
        ("tag_turn", "raised"),
        ("hook_failed", FAULTS[fault]),
    ]


@pytest.mark.parametrize("name", SPECS)
async def test_every_hook_runs_implementations_that_block_on_a_thread(name: str) -> None:
    threads: list[bool] = []

    @blocking
    def implementation() -> None:
        threads.append(threading.current_thread() is threading.main_thread())

    hooks = hooks_of(plugin(**{name: implementation}))
    args = dummies(SPECS[name])
    result = await called(hooks, SPECS[name], args)
    contract = contract_of(SPECS[name])
    assert result == (args[-1] if contract.combine == "fold" else _nothing(contract))
    assert threads == [False]
    await hooks.close()


@pytest.mark.parametrize("name", SPECS)
async def test_every_hook_is_there_without_any_plugin(name: str) -> None:
    args = dummies(SPECS[name])
    result = await called(hooks_of(), SPECS[name], args)
    contract = contract_of(SPECS[name])
    assert result == (args[-1] if contract.combine == "fold" else _nothing(contract))


@pytest.mark.parametrize("name", SPECS)
async def test_every_hooks_arguments_arrive_by_name(name: str) -> None:
    spec = SPECS[name]
    names = spec.__code__.co_varnames[: spec.__code__.co_argcount]
    seen: dict[str, Any] = {}
    made = Made()
    scope: dict[str, Any] = {"seen": seen}
    exec(f"def function({', '.join(reversed(names))}): seen.update(locals())", scope)
    setattr(made, name, hookimpl(scope["function"]))
    args = dummies(spec)
    await called(hooks_of(made), spec, args)
    assert seen == dict(zip(names, args, strict=True))
