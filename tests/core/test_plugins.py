from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, SecretStr
from tests.support.hooking import SHORT, Log, forever

from hookgate import hookspecs
from hookgate.builtin_plugins import BUILTIN
from hookgate.core._plugin_order import Node, opening_order
from hookgate.core.errors import (
    ConfigError,
    ConfigProblem,
    HookError,
    MissingKeyError,
    PluginError,
    StartError,
)
from hookgate.core.host import Host
from hookgate.core.models import Refusal
from hookgate.core.plugins import Plugins
from hookgate.core.ports import CLOCK, Key
from hookgate.core.secrets import SecretStore
from hookgate.core.settings import HookSettings, PluginsSettings, Section, Settings
from hookgate.hookspecs import blocking, hookimpl

TURN: Any = object()
ONE: Key[str] = Key("one")
TWO: Key[str] = Key("two")


def load(
    *plugins: object,
    section: dict[str, Any] | None = None,
    hooks: dict[str, HookSettings] | None = None,
    builtin: Iterable[str] = (),
    disabled: Iterable[str] = (),
    package: str = "hookgate.builtin_plugins",
    log: Any = None,
    **options: Any,
) -> Plugins:
    options.setdefault("entry_points", False)
    settings = Settings(plugins=PluginsSettings(**options), plugin=section or {}, hooks=hooks or {})
    return Plugins.load(
        settings,
        builtin=tuple(builtin),
        extra=plugins,
        disabled=tuple(disabled),
        package=package,
        log=log or Log(),
    )


def host_of(plugins: Plugins) -> Host:
    settings = Settings()
    return Host(settings, SecretStore(settings))


def problems_of(*plugins: object, **options: Any) -> tuple[ConfigProblem, ...]:
    with pytest.raises(ConfigError) as caught:
        load(*plugins, **options)
    return caught.value.problems


class RatesSettings(Section):
    limit: int = Field(default=3, ge=1)
    folder: Path = Path("rates")
    phrase: SecretStr = SecretStr("")
    names: tuple[str, ...] = ()


class Rates:
    Settings = RatesSettings

    def __init__(self, settings: RatesSettings) -> None:
        self.settings = settings

    @hookimpl
    def before_turn(self, turn: Any) -> Refusal:
        return Refusal(code="rates", message=str(self.settings.limit))


class Bare:
    @hookimpl
    def before_turn(self, turn: Any) -> Refusal:
        return Refusal(code="bare", message="")


# -- settings ----------------------------------------------------------------------------


async def test_a_plugin_is_made_with_the_settings_of_its_section() -> None:
    plugins = load(Rates, section={"rates": {"limit": 9, "folder": "x", "names": ["a"]}})
    rates = plugins.get("rates")
    assert isinstance(rates, Rates)
    assert rates.settings == RatesSettings(limit=9, folder=Path("x"), names=("a",))
    (refusal,) = await plugins.hooks.each(hookspecs.before_turn, TURN)
    assert refusal.message == "9"


def test_a_plugin_without_a_section_gets_its_defaults() -> None:
    rates = load(Rates).get("rates")
    assert isinstance(rates, Rates)
    assert rates.settings == RatesSettings()


def test_a_section_may_hold_the_values_of_a_program() -> None:
    section = {"rates": {"folder": Path("x"), "phrase": SecretStr("hush"), "names": ("a",)}}
    rates = load(Rates, section=section).get("rates")
    assert isinstance(rates, Rates)
    assert rates.settings.phrase.get_secret_value() == "hush"


def test_everything_that_is_wrong_is_said_at_once() -> None:
    found = problems_of(
        Rates,
        Bare,
        section={
            "rates": {"limit": 0, "limt": 3, "folder": 4},
            "bare": {"size": 1},
            "rats": {},
        },
        hooks={"before_tun": HookSettings(required=True)},
        disable=("nobody",),
        required=("nobody_else",),
        replace={"policy": "rates"},
        allow=("no requirement!",),
        entry_points=True,
    )
    assert {problem.key for problem in found} == {
        "plugin.rates.limit",
        "plugin.rates.limt",
        "plugin.rates.folder",
        "plugin.bare",
        "plugin.rats",
        "hooks.before_tun",
        "plugins.disable",
        "plugins.required",
        "plugins.replace.policy",
        "plugins.allow[0]",
    }
    by_key = {problem.key: problem for problem in found}
    assert by_key["plugin.rates.limt"].nearest == "plugin.rates.limit"
    assert by_key["plugin.rats"].nearest == "plugin.rates"
    assert by_key["plugin.rates.limit"].found == "0"
    assert "no section" in by_key["plugin.bare"].expected
    assert all(problem.file == "" and problem.line is None for problem in found)


def test_sections_are_as_strict_as_the_cores_own() -> None:
    (problem,) = problems_of(Rates, section={"rates": {"limit": "9"}})
    assert (problem.key, problem.found) == ("plugin.rates.limit", 'the text "9"')


def test_a_secret_of_a_section_is_never_shown() -> None:
    found = problems_of(Rates, section={"rates": {"phrase": 123456789}})
    assert [problem.key for problem in found] == ["plugin.rates.phrase"]
    assert "123456789" not in str(found[0])


def test_a_section_of_a_plugin_that_is_disabled_is_no_problem() -> None:
    plugins = load(Rates, section={"rates": {"whatever": 1}}, disable=("rates",))
    assert plugins.get("rates") is None


def test_settings_must_be_a_section() -> None:
    class Odd:
        Settings = dict

    with pytest.raises(PluginError, match=r"plugin 'odd': `Settings` is .*expected a subclass"):
        load(Odd)


def test_a_constructor_that_finds_its_settings_wrong_is_a_problem_like_others() -> None:
    class Picky:
        def __init__(self) -> None:
            problem = ConfigProblem(
                file="", line=None, key="plugin.picky.rules", found="x", expected="y"
            )
            raise ConfigError([problem])

    (problem,) = problems_of(Picky)
    assert problem.key == "plugin.picky.rules"


def test_a_constructor_that_raises_is_named() -> None:
    class Broken:
        def __init__(self) -> None:
            raise OSError("no disk")

    with pytest.raises(PluginError, match="plugin 'broken': its constructor raised OSError"):
        load(Broken)


# -- names -------------------------------------------------------------------------------


class Named:
    name = "acme"


class MoonPhasePlugin:
    pass


class HTTPServer:
    pass


@pytest.mark.parametrize(
    ("plugin", "name"),
    [
        (Named, "acme"),
        (Named(), "acme"),
        (MoonPhasePlugin, "moon_phase"),
        (MoonPhasePlugin(), "moon_phase"),
        (HTTPServer, "httpserver"),
        (ModuleType("somewhere.tides"), "tides"),
        (ModuleType("somewhere.tides.plugin"), "tides"),
    ],
)
def test_a_programs_plugin_is_called_by_its_name_class_or_module(plugin: Any, name: str) -> None:
    assert [info.name for info in load(plugin).infos()] == [name]


def test_a_class_called_plugin_has_the_name_of_its_module() -> None:
    cls = type("Plugin", (), {"__module__": "acme.tides.plugin"})
    assert [info.name for info in load(cls).infos()] == ["tides"]


def test_a_plugins_properties_are_not_evaluated() -> None:
    class Lazy(Bare):
        @property
        def inbox(self) -> Any:
            raise AssertionError("not before it is opened")

        @cached_property
        def outbox(self) -> Any:
            raise AssertionError("not before it is opened")

    assert load(Lazy).infos()[0].hooks == ("before_turn",)


def test_two_plugins_that_are_equal_are_refused() -> None:
    class Same:
        def __init__(self, name: str) -> None:
            self.name = name

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = object.__hash__

    with pytest.raises(PluginError, match="plugin 'b': Plugin already registered"):
        load(Same("a"), Same("b"))


def test_a_module_with_a_plugin_class_stands_for_that_class() -> None:
    module = ModuleType("rates")
    module.Plugin = Rates  # type: ignore[attr-defined]
    assert isinstance(load(module, section={"rates": {"limit": 4}}).get("rates"), Rates)


async def test_a_stateless_module_is_a_plugin() -> None:
    module = ModuleType("stateless")

    def before_turn(turn: Any) -> Refusal:
        return Refusal(code="module", message="")

    module.before_turn = hookimpl(before_turn)  # type: ignore[attr-defined]
    refusals = await load(module).hooks.each(hookspecs.before_turn, TURN)
    assert [one.code for one in refusals] == ["module"]


def test_two_plugins_of_one_name_are_refused() -> None:
    with pytest.raises(StartError, match="plugin 'bare' is brought by both program and program"):
        load(Bare, Bare)


def test_an_unknown_name_on_the_command_line_is_a_problem_with_the_nearest() -> None:
    (problem,) = problems_of(Rates, disabled=["ratse"])
    assert (problem.file, problem.nearest) == ("command line", "rates")


def test_disabled_plugins_are_listed_with_the_reason_and_do_not_run() -> None:
    plugins = load(Rates, Bare, disable=("rates",), disabled=["bare"])
    assert [(info.name, info.state) for info in plugins.infos()] == [
        ("rates", "disabled"),
        ("bare", "disabled"),
    ]
    assert not plugins.hooks.implemented(hookspecs.before_turn)
    assert "does not run: disabled" in plugins.why("rates")


def test_why_says_why_a_plugin_runs_or_that_there_is_none() -> None:
    plugins = load(Rates)
    assert plugins.why("rates") == "'rates' (program) runs; it implements before_turn"
    assert plugins.why("rats") == (
        "no plugin called 'rats' is builtin or installed; did you mean 'rates'?"
    )


async def test_the_last_one_loaded_is_the_first_one_called() -> None:
    plugins = load(Rates, Bare)
    refusals = await plugins.hooks.each(hookspecs.before_turn, TURN)
    assert [one.code for one in refusals] == ["bare", "rates"]


async def test_two_sets_of_plugins_share_nothing() -> None:
    first = load(Rates, section={"rates": {"limit": 1}})
    second = load(Rates, Bare, section={"rates": {"limit": 2}})
    assert first.get("rates") is not second.get("rates")
    (refusal,) = await first.hooks.each(hookspecs.before_turn, TURN)
    assert refusal.message == "1"
    assert len(await second.hooks.each(hookspecs.before_turn, TURN)) == 2


# -- what is refused, and what to write instead ------------------------------------------


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


# -- the order of opening ----------------------------------------------------------------


def opening(
    name: str,
    steps: list[str],
    *,
    requires: tuple[Key[Any], ...] = (),
    provides: tuple[Key[Any], ...] = (),
    fails: str = "",
) -> object:
    class Plugin:
        @hookimpl
        @asynccontextmanager
        async def lifespan(self, host: Host) -> AsyncIterator[None]:
            if fails == "opening":
                raise ValueError(f"{name} does not open")
            steps.append(f"open {name}")
            for key in provides:
                host.provide(key, name)
            yield
            steps.append(f"close {name}")
            if fails == "closing":
                raise ValueError(f"{name} does not close")
            if fails == "hanging":
                await forever()

    made = Plugin()
    made.name, made.requires, made.provides = name, requires, provides  # type: ignore[attr-defined]
    return made


async def test_providers_open_before_those_who_require_and_close_after_them() -> None:
    steps: list[str] = []
    plugins = load(
        opening("a", steps, requires=(TWO,)),
        opening("b", steps, requires=(CLOCK,)),
        opening("c", steps, provides=(TWO,), requires=(ONE,)),
        opening("d", steps, provides=(ONE,)),
    )
    assert plugins.order == ("b", "d", "c", "a")
    host = host_of(plugins)
    async with plugins.opened(host):
        assert host[TWO] == "c"
        steps.append("open")
    names = ["b", "d", "c", "a"]
    closed = [f"close {name}" for name in reversed(names)]
    assert steps == [*(f"open {name}" for name in names), "open", *closed]


async def test_a_failed_opening_names_the_plugin_and_closes_what_had_opened() -> None:
    steps: list[str] = []
    plugins = load(opening("a", steps), opening("b", steps), opening("c", steps, fails="opening"))
    with pytest.raises(PluginError, match="plugin 'c': its lifespan did not open") as caught:
        async with plugins.opened(host_of(plugins)):
            steps.append("never")
    assert "ValueError: c does not open" in str(caught.value)
    assert isinstance(caught.value.__cause__, HookError)
    assert steps == ["open a", "open b", "close b", "close a"]


async def test_failures_to_close_are_logged_and_the_others_close() -> None:
    steps: list[str] = []
    log = Log()
    plugins = load(
        opening("a", steps, fails="closing"),
        opening("b", steps, fails="hanging"),
        opening("c", steps),
        hooks={"lifespan": HookSettings(limit=SHORT)},
        log=log,
    )
    async with plugins.opened(host_of(plugins)):
        steps.clear()
    assert steps == ["close c", "close b", "close a"]
    closing = [line for line in log.lines if line["event"] == "plugin not closed"]
    assert [line["plugin"] for line in closing] == ["b", "a"]
    assert "a does not close" in closing[1]["reason"]


async def test_lifespans_close_also_when_the_gateway_fails() -> None:
    steps: list[str] = []
    plugins = load(opening("a", steps))
    with pytest.raises(RuntimeError, match="the gateway's own"):
        async with plugins.opened(host_of(plugins)):
            raise RuntimeError("the gateway's own")
    assert steps == ["open a", "close a"]


async def test_opening_is_limited_in_time() -> None:
    class Slow:
        @hookimpl
        @asynccontextmanager
        async def lifespan(self, host: Host) -> AsyncIterator[None]:
            await forever()
            yield

    plugins = load(Slow, hooks={"lifespan": HookSettings(limit=SHORT)})
    with pytest.raises(PluginError, match=r"plugin 'slow': .*longer than its limit"):
        async with plugins.opened(host_of(plugins)):
            pass


async def test_a_lifespan_may_be_a_coroutine_that_returns_the_context_manager() -> None:
    steps: list[str] = []

    class Late:
        @hookimpl
        async def lifespan(self, host: Host) -> Any:
            return self.span()

        @asynccontextmanager
        async def span(self) -> AsyncIterator[None]:
            steps.append("open")
            yield
            steps.append("close")

    class Nothing:
        @hookimpl
        def lifespan(self) -> None:
            steps.append("nothing to open")

    plugins = load(Late, Nothing)
    async with plugins.opened(host_of(plugins)):
        pass
    assert steps == ["open", "nothing to open", "close"]


def test_a_missing_key_names_plugin_and_key() -> None:
    with pytest.raises(MissingKeyError, match="plugin 'a' requires the key 'one'") as caught:
        load(opening("a", [], requires=(ONE,)))
    assert "no plugin that is known here provides it" in str(caught.value)


def test_a_circle_is_named() -> None:
    with pytest.raises(StartError) as caught:
        load(
            opening("a", [], requires=(ONE,), provides=(TWO,)),
            opening("b", [], requires=(TWO,), provides=(ONE,)),
        )
    assert "'a' requires 'one' of 'b', 'b' requires 'two' of 'a'" in str(caught.value)


def test_a_plugin_may_build_on_the_key_that_it_provides() -> None:
    steps: list[str] = []
    wraps = opening("wraps", steps, requires=(ONE,), provides=(ONE,))
    plugins = load(wraps, opening("base", steps, provides=(ONE,)))
    assert plugins.order == ("base", "wraps")
    with pytest.raises(MissingKeyError):
        load(wraps)
    assert load(opening("clock", steps, requires=(CLOCK,), provides=(CLOCK,))).order == ("clock",)


@st.composite
def graphs(draw: st.DrawFn, at_least: int = 0) -> list[Node]:
    """Plugins whose requirements only point to plugins of a hidden, valid order."""
    count = draw(st.integers(at_least, 8))
    hidden = draw(st.permutations(range(count)))
    keys = [Key[int](f"of{number}") for number in range(count)]
    nodes: list[Node | None] = [None] * count
    for place, number in enumerate(hidden):
        earlier = [keys[other] for other in hidden[:place]]
        requires = draw(st.lists(st.sampled_from(earlier), unique=True)) if earlier else []
        nodes[number] = Node(f"p{number}", tuple(requires), (keys[number],))
    return [node for node in nodes if node is not None]


@settings(deadline=None)
@given(nodes=graphs())
def test_the_order_satisfies_every_requirement_and_is_otherwise_the_load_order(
    nodes: list[Node],
) -> None:
    order = opening_order(nodes, core_keys=())
    by_name = {node.name: node for node in nodes}
    assert sorted(order) == sorted(by_name)
    there: set[Any] = set()
    waiting = [node.name for node in nodes]
    for name in order:
        # The next one is the first in load order of those that could open.
        could = [one for one in waiting if set(by_name[one].requires) <= there]
        assert name == could[0]
        waiting.remove(name)
        there |= set(by_name[name].provides)


@settings(deadline=None)
@given(nodes=graphs(at_least=2), data=st.data())
def test_a_graph_with_a_circle_never_gets_an_order(nodes: list[Node], data: st.DataObject) -> None:
    names = [node.name for node in nodes]
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=2, max_size=4, unique=True))
    links = {name: Key[int](f"link{name}") for name in chosen}
    behind = dict(zip(chosen, [*chosen[1:], chosen[0]], strict=True))
    circle = [
        Node(
            node.name,
            (*node.requires, links[behind[node.name]]),
            (*node.provides, links[node.name]),
        )
        if node.name in links
        else node
        for node in nodes
    ]
    with pytest.raises(StartError, match="in a circle"):
        opening_order(circle, core_keys=())


# -- builtins ----------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with three builtin plugins: alpha, beta that requires it, and a broken one."""
    name = f"builtins_{tmp_path.name.replace('-', '_')}"
    sources = {
        "alpha": "class Plugin:\n    provides = (ONE,)\n",
        "beta": "class Plugin:\n    requires = (ONE,)\n",
        "broken": "raise ImportError('no wheel for this machine')\n",
    }
    head = f"from {name}.keys import ONE\n"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "keys.py").write_text("from hookgate.core.ports import Key\nONE = Key('one')\n")
    for plugin, source in sources.items():
        (folder / plugin).mkdir()
        (folder / plugin / "__init__.py").write_text("")
        (folder / plugin / "plugin.py").write_text(head + source)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_builtins_are_found_by_name_in_their_package(package: str) -> None:
    plugins = load(builtin=("alpha", "beta"), package=package)
    assert [(info.name, info.origin) for info in plugins.infos()] == [
        ("alpha", "builtin"),
        ("beta", "builtin"),
    ]
    assert plugins.infos()[0].provides == ("one",)
    assert plugins.infos()[1].requires == ("one",)


def test_a_key_of_a_disabled_builtin_names_that_builtin(package: str) -> None:
    with pytest.raises(MissingKeyError, match="would be provided by 'alpha', which does not run"):
        load(builtin=("alpha", "beta"), package=package, disable=("alpha",))


def test_a_disabled_builtin_that_is_broken_does_not_hide_what_is_missing(package: str) -> None:
    with pytest.raises(MissingKeyError, match="no plugin that is known here"):
        load(builtin=("beta", "broken"), package=package, disable=("broken",))


def test_a_broken_builtin_stops_the_start(package: str) -> None:
    with pytest.raises(PluginError, match="plugin 'broken': cannot be imported: ImportError"):
        load(builtin=("alpha", "broken"), package=package)


def test_a_broken_builtin_that_is_disabled_is_never_imported(package: str) -> None:
    plugins = load(builtin=("alpha", "broken"), package=package, disable=("broken",))
    assert plugins.get("alpha") is not None


def test_a_programs_plugin_replaces_a_builtin_only_by_the_operators_line(package: str) -> None:
    class Alpha:
        name = "alpha"

    with pytest.raises(PluginError, match="installing never replaces a builtin"):
        load(Alpha, builtin=("alpha",), package=package)


def test_a_replacement_runs_under_the_builtins_name_and_section_and_in_its_place(
    package: str,
) -> None:
    plugins = load(
        Bare,
        Rates,
        builtin=("alpha", "beta"),
        package=package,
        section={"beta": {"limit": 7}},
        replace={"beta": "rates"},
    )
    beta = plugins.get("beta")
    assert isinstance(beta, Rates)
    assert beta.settings.limit == 7
    assert [(info.name, info.state, info.origin) for info in plugins.infos()] == [
        ("alpha", "running", "builtin"),
        ("beta", "replaced", "builtin"),
        ("beta", "running", "program"),
        ("bare", "running", "program"),
    ]
    assert "'rates' of program takes its place" in plugins.why("beta")
    assert "runs under the name 'beta'" in plugins.why("rates")


@pytest.mark.parametrize(
    ("options", "key", "told"),
    [
        ({"replace": {"alhpa": "rates"}}, "plugins.replace.alhpa", "plugins.replace.alpha"),
        ({"replace": {"alpha": "rats"}}, "plugins.replace.alpha", "rates"),
        ({"replace": {"alpha": "beta"}}, "plugins.replace.alpha", "one of bare, rates"),
        (
            {"replace": {"alpha": "rates", "beta": "rates"}},
            "plugins.replace.alpha",
            "replaces 'beta' already",
        ),
        (
            {"replace": {"alpha": "rates"}, "disable": ("alpha",)},
            "plugins.replace.alpha",
            "neither of the two is disabled",
        ),
        (
            {"replace": {"alpha": "rates"}, "section": {"rates": {}}},
            "plugin.rates",
            "plugin.alpha",
        ),
        ({"required": ("alpha",)}, "plugins.required", "one of bare, rates"),
    ],
)
def test_names_that_make_no_sense_are_problems(
    package: str, options: dict[str, Any], key: str, told: str
) -> None:
    found = problems_of(Bare, Rates, builtin=("alpha", "beta"), package=package, **options)
    assert key in [problem.key for problem in found]
    assert told in str(next(problem for problem in found if problem.key == key))


def test_a_broken_replacement_stops_the_start(package: str) -> None:
    class Broken:
        name = "acme"

        def __init__(self) -> None:
            raise ValueError("no")

    with pytest.raises(PluginError, match="its constructor raised ValueError"):
        load(Broken, builtin=("alpha",), package=package, replace={"alpha": "acme"})


def test_the_builtin_plugins_load() -> None:
    plugins = load(builtin=BUILTIN)
    assert {info.name for info in plugins.infos() if info.state == "running"} == set(BUILTIN)
