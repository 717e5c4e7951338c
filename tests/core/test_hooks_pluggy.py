"""pluggy's own synchronous call is the reference: same order, same arguments, same results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

import pluggy
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.hooking import Log, Made

from hookgate.core.hooks.caller import Hooks
from hookgate.hookspecs import PROJECT, hookimpl, hookspec

ARGUMENTS = ("turn", "call", "value")
GIVEN = ("T", "C", 0)


def collect(turn: str, call: str, value: int) -> int | None: ...


def take_first(turn: str, call: str, value: int) -> int | None: ...


def carry(turn: str, call: str, value: int) -> int | None: ...


def required(turn: str, call: str, value: int) -> int | None: ...


SPECS = ModuleType("specs")
SPECS.collect = hookspec("each")(collect)  # type: ignore[attr-defined]
SPECS.take_first = hookspec("first")(take_first)  # type: ignore[attr-defined]
SPECS.carry = hookspec("fold")(carry)  # type: ignore[attr-defined]
SPECS.required = hookspec("each", required=True)(required)  # type: ignore[attr-defined]

_oracle = pluggy.HookspecMarker(PROJECT)
ORACLE = ModuleType("oracle")


def _copied(function: Callable[..., Any]) -> Callable[..., Any]:
    copy = type(function)(function.__code__, function.__globals__, function.__name__)
    copy.__annotations__ = dict(function.__annotations__)
    return copy


ORACLE.collect = _oracle(_copied(collect))  # type: ignore[attr-defined]
ORACLE.take_first = _oracle(firstresult=True)(_copied(take_first))  # type: ignore[attr-defined]
ORACLE.carry = _oracle(_copied(carry))  # type: ignore[attr-defined]
ORACLE.required = _oracle(_copied(required))  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Shape:
    """How one implementation looks and what it does."""

    arguments: tuple[str, ...]
    order: Literal["", "tryfirst", "trylast"]
    result: int | None
    ends: Literal["plain", "async", "suspends", "raises", "raises later"] = "plain"

    @property
    def fails(self) -> bool:
        return self.ends.startswith("raises")


SHAPES = st.builds(
    Shape,
    arguments=st.permutations(ARGUMENTS).flatmap(
        lambda names: st.integers(0, 3).map(lambda count: tuple(names[:count]))
    ),
    order=st.sampled_from(["", "tryfirst", "trylast"]),
    result=st.none() | st.integers(-3, 3),
)
ENDS = st.sampled_from(["plain", "async", "suspends", "raises", "raises later"])


def implementation(number: int, shape: Shape, calls: list[Any], *, awaits: bool) -> Any:
    """Return a function with exactly the arguments of `shape`, which notes its calls."""

    def note(*values: Any) -> int | None:
        calls.append((number, values))
        return shape.result

    async def later(*values: Any) -> int | None:
        if shape.ends in ("suspends", "raises later"):
            await asyncio.sleep(0)
        if shape.fails:
            raise ValueError(number)
        return note(*values)

    def now(*values: Any) -> int | None:
        if shape.fails:
            raise ValueError(number)
        return note(*values)

    is_async = awaits and shape.ends not in ("plain", "raises")
    names = ", ".join(shape.arguments)
    scope = {"body": later if is_async else now}
    if is_async:
        exec(f"async def function({names}): return await body({names})", scope)
    else:
        exec(f"def function({names}): return body({names})", scope)
    options = {shape.order: True} if shape.order else {}
    return hookimpl(**options)(scope["function"])


def managed(
    specs: object, hook: str, shapes: list[Shape], calls: list[Any], *, awaits: bool
) -> pluggy.PluginManager:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(specs)
    for number, shape in enumerate(shapes):
        plugin = Made()
        setattr(plugin, hook, implementation(number, shape, calls, awaits=awaits))
        manager.register(plugin, f"p{number}")
    return manager


def by_pluggy(hook: str, shapes: list[Shape]) -> tuple[Any, list[Any]]:
    calls: list[Any] = []
    manager = managed(ORACLE, hook, shapes, calls, awaits=False)
    result = getattr(manager.hook, hook)(**dict(zip(ARGUMENTS, GIVEN, strict=True)))
    return result, calls


def by_hooks(hook: str, shapes: list[Shape]) -> tuple[Any, list[Any]]:
    calls: list[Any] = []
    hooks = Hooks(managed(SPECS, hook, shapes, calls, awaits=True), log=Log())
    spec = getattr(SPECS, hook)
    call = {"take_first": hooks.first, "carry": hooks.fold}.get(hook, hooks.each)
    return asyncio.run(call(spec, *GIVEN)), calls


def with_ends(shapes: list[Shape], ends: list[Any]) -> list[Shape]:
    return [
        Shape(shape.arguments, shape.order, shape.result, end)
        for shape, end in zip(shapes, ends, strict=True)
    ]


@st.composite
def varied(draw: st.DrawFn) -> list[Shape]:
    shapes = draw(st.lists(SHAPES, max_size=12))
    return with_ends(shapes, [draw(ENDS) for _ in shapes])


@settings(deadline=None)
@given(shapes=st.lists(SHAPES, max_size=12))
def test_plain_implementations_are_called_as_pluggy_calls_them(shapes: list[Shape]) -> None:
    assert by_hooks("collect", shapes) == by_pluggy("collect", shapes)


@settings(deadline=None)
@given(shapes=st.lists(SHAPES, max_size=12))
def test_the_first_result_is_pluggys_first_result(shapes: list[Shape]) -> None:
    assert by_hooks("take_first", shapes) == by_pluggy("take_first", shapes)


@settings(deadline=None)
@given(shapes=varied())
def test_async_implementations_give_what_plain_ones_give_and_failed_ones_are_as_if_absent(
    shapes: list[Shape],
) -> None:
    # pluggy's order depends on all that are registered, so the failing ones stay, silent.
    calls = [call for call in by_pluggy("collect", silenced(shapes))[1] if works(shapes, call)]
    results = [shapes[number].result for number, _ in calls]
    assert by_hooks("collect", shapes) == ([r for r in results if r is not None], calls)


@settings(deadline=None)
@given(shapes=varied())
def test_the_first_result_of_async_implementations_is_that_of_plain_ones(
    shapes: list[Shape],
) -> None:
    result, calls = by_pluggy("take_first", silenced(shapes))
    expected = [call for call in calls if works(shapes, call)]
    assert by_hooks("take_first", shapes) == (result, expected)


def silenced(shapes: list[Shape]) -> list[Shape]:
    """Return the same shapes for pluggy, where a failing one returns None instead."""
    return [
        Shape(shape.arguments, shape.order, None if shape.fails else shape.result)
        for shape in shapes
    ]


def works(shapes: list[Shape], call: Any) -> bool:
    return not shapes[call[0]].fails


@settings(deadline=None)
@given(shapes=varied())
def test_a_fold_gives_each_implementation_what_the_one_before_it_made(shapes: list[Shape]) -> None:
    _, order = by_pluggy("carry", silenced(shapes))
    value, expected = 0, []
    for number, _ in order:
        shape = shapes[number]
        if shape.fails:
            continue
        given_now = {"turn": "T", "call": "C", "value": value}
        expected.append((number, tuple(given_now[name] for name in shape.arguments)))
        value = value if shape.result is None else shape.result
    assert by_hooks("carry", shapes) == (value, expected)


@settings(deadline=None)
@given(shapes=varied())
def test_a_required_failure_stops_where_the_failing_one_stands(shapes: list[Shape]) -> None:
    result, calls = by_pluggy("required", silenced(shapes))
    failing = next((n for n, (number, _) in enumerate(calls) if shapes[number].fails), None)
    seen: list[Any] = []
    hooks = Hooks(managed(SPECS, "required", shapes, seen, awaits=True), log=Log())
    try:
        found = asyncio.run(hooks.each(SPECS.required, *GIVEN))
    except Exception as error:
        assert failing is not None
        assert f"'p{calls[failing][0]}'" in str(error)
        assert seen == calls[:failing]
    else:
        assert failing is None
        assert (found, seen) == (result, calls)
