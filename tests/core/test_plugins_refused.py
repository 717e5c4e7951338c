"""What is refused of a plugin at load, and what it is told to write instead."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

import pytest
from tests.support.loading import load

from hookgate import hookspecs
from hookgate.core.domain.errors import PluginError
from hookgate.core.domain.models import Refusal
from hookgate.core.domain.ports import Key
from hookgate.hookspecs import blocking, hookimpl

TURN: Any = object()
ONE: Key[str] = Key("one")


def refused(**functions: Any) -> str:
    cls = type("Wrong", (), functions)
    with pytest.raises(PluginError) as caught:
        load(cls)
    assert caught.value.plugin == "wrong"
    return str(caught.value)


def test_a_misspelt_hook_is_refused_with_the_nearest() -> None:
    def before_tol_call(self, turn, call): ...  # type: ignore[no-untyped-def]

    told = refused(before_tol_call=hookimpl(before_tol_call))
    assert "plugin 'wrong'" in told
    assert "`def before_tol_call(self, turn, call)`" in told
    assert "did you mean `before_tool_call`?" in told


def test_a_misspelt_specname_is_refused_with_the_nearest() -> None:
    def judge(self, turn): ...  # type: ignore[no-untyped-def]

    told = refused(judge=hookimpl(specname="before_turns")(judge))
    assert "hook before_turns" in told
    assert "did you mean `before_turn`?" in told


async def test_specname_gives_an_implementation_another_hooks_name() -> None:
    class Two:
        @hookimpl(specname="before_turn")
        def one(self, turn: Any) -> Refusal:
            return Refusal(code="one", message="")

        @hookimpl(specname="before_turn", tryfirst=True)
        def two(self) -> Refusal:
            return Refusal(code="two", message="")

    plugins = load(Two)
    refusals = await plugins.hooks.each(hookspecs.before_turn, TURN)
    assert [one.code for one in refusals] == ["two", "one"]
    assert plugins.infos()[0].hooks == ("before_turn",)


async def test_an_implementation_may_have_the_name_of_what_every_object_has() -> None:
    def judge(self: Any, turn: Any) -> Refusal:
        return Refusal(code="odd", message="")

    base = type("Base", (), {"__reduce__": hookimpl(specname="before_turn")(judge)})
    plugins = load(type("Odd", (base,), {}))
    refusals = await plugins.hooks.each(hookspecs.before_turn, TURN)
    assert [one.code for one in refusals] == ["odd"]


@pytest.mark.parametrize("option", ["wrapper", "hookwrapper"])
def test_a_wrapper_is_refused(option: str) -> None:
    def before_turn(self, turn):  # type: ignore[no-untyped-def]
        yield

    told = refused(before_turn=hookimpl(**{option: True})(before_turn))
    assert "hook before_turn: `def before_turn(self, turn)` is a wrapper" in told
    assert "plain @hookimpl" in told


def test_an_optional_hook_is_refused() -> None:
    def before_turn(self, turn): ...  # type: ignore[no-untyped-def]

    assert "write plain @hookimpl" in refused(before_turn=hookimpl(optionalhook=True)(before_turn))


def test_an_async_generator_is_refused_and_told_what_to_be() -> None:
    async def filter_stream(self, turn, events):  # type: ignore[no-untyped-def]
        async for event in events:
            yield event

    async def lifespan(self, host):  # type: ignore[no-untyped-def]
        yield

    async def list_tools(self):  # type: ignore[no-untyped-def]
        yield 1

    told = refused(
        filter_stream=hookimpl(filter_stream),
        lifespan=hookimpl(lifespan),
        list_tools=hookimpl(list_tools),
    )
    assert "`async def filter_stream(self, turn, events)` is an async generator" in told
    assert "`return filtered()`" in told
    assert "@contextlib.asynccontextmanager" in told
    assert "write `async def` with `return` in its place" in told


def test_a_generator_is_refused() -> None:
    def list_tools(self):  # type: ignore[no-untyped-def]
        yield 1

    assert "return the values in a list" in refused(list_tools=hookimpl(list_tools))


def test_a_spec_argument_with_a_default_is_refused() -> None:
    def before_turn(self, turn=None): ...  # type: ignore[no-untyped-def]

    told = refused(before_turn=hookimpl(before_turn))
    assert "`def before_turn(self, turn=None)` gives `turn` a default" in told
    assert "write `turn` without the default" in told


@pytest.mark.parametrize("default", [False, True])
def test_an_argument_that_the_hook_does_not_have_is_refused_with_the_nearest(default: bool) -> None:
    def plain(self, turn, cal): ...  # type: ignore[no-untyped-def]

    def defaulted(self, turn, cal=None): ...  # type: ignore[no-untyped-def]

    function = defaulted if default else plain
    told = refused(before_tool_call=hookimpl(function))
    assert "takes an argument `cal` which the hook does not have" in told
    assert "did you mean `call`?" in told
    assert "the hook takes (turn, call)" in told


def test_arguments_that_pluggy_would_leave_out_are_refused() -> None:
    def rest(self, *args): ...  # type: ignore[no-untyped-def]

    def named(self, **kwargs): ...  # type: ignore[no-untyped-def]

    def keyword(self, *, turn): ...  # type: ignore[no-untyped-def]

    assert "takes *args, which stays empty" in refused(before_turn=hookimpl(rest))
    assert "takes **kwargs, which stays empty" in refused(before_turn=hookimpl(named))
    assert "takes `turn` by keyword only" in refused(before_turn=hookimpl(keyword))


def test_blocking_and_async_together_are_refused() -> None:
    async def before_turn(self, turn): ...  # type: ignore[no-untyped-def]

    assert "both @blocking and async" in refused(before_turn=hookimpl(blocking(before_turn)))


def test_a_function_named_as_a_hook_without_the_marker_is_refused() -> None:
    def before_tool_call(self, turn, call): ...  # type: ignore[no-untyped-def]

    assert "`before_tool_call` which is named as a hook and lacks the marker" in refused(
        before_tool_call=before_tool_call
    )


def test_a_module_may_import_a_hooks_specification() -> None:
    module = ModuleType("curious")
    module.before_turn = hookspecs.before_turn  # type: ignore[attr-defined]
    module.after_turn = hookimpl(lambda turn: None)  # type: ignore[attr-defined]
    assert load(module).infos()[0].state == "running"


def test_all_that_is_wrong_with_a_plugin_is_said_at_once() -> None:
    def before_turn(self, turn, depth): ...  # type: ignore[no-untyped-def]

    def tag_turns(self, turn): ...  # type: ignore[no-untyped-def]

    told = refused(before_turn=hookimpl(before_turn), tag_turns=hookimpl(tag_turns))
    assert "depth" in told
    assert "did you mean `tag_turn`?" in told


def test_requires_and_provides_must_be_tuples_of_keys() -> None:
    class Odd:
        requires: ClassVar[Any] = [ONE]

    with pytest.raises(PluginError, match=r"`requires` is .*expected a tuple of"):
        load(Odd)


def test_a_class_without_a_hook_is_refused() -> None:
    class Idle:
        name = "idle"

        def take(self) -> None: ...

    with pytest.raises(PluginError, match="'idle': it implements no hook"):
        load(Idle)


@pytest.mark.parametrize("arguments", ["", "turn", "turn, call"])
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_method_without_self_is_refused_and_a_static_one_is_not(
    kind: str, arguments: str
) -> None:
    names: dict[str, Any] = {}
    exec(f"{kind} before_tool_call({arguments}): ...", names)
    function = names["before_tool_call"]
    told = refused(before_tool_call=hookimpl(function))
    right = f"{kind} before_tool_call({', '.join(filter(None, ('self', arguments)))})"
    assert f"has no `self`, which takes the place of its first argument: write `{right}`" in told
    plugin = type("Static", (), {"before_tool_call": staticmethod(hookimpl(function))})
    assert load(plugin).infos()[0].hooks == ("before_tool_call",)
