from __future__ import annotations

from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import Field, SecretStr
from tests.support.loading import load, problems_of

from hookgate import hookspecs
from hookgate.builtin_plugins import BUILTIN
from hookgate.core.domain.errors import (
    ConfigError,
    MissingKeyError,
    PluginError,
    Problem,
    StartError,
)
from hookgate.core.domain.models import Refusal
from hookgate.core.settings.schema import HookSettings, Section, Settings
from hookgate.hookspecs import hookimpl

TURN: Any = object()


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
    home = Settings().home
    assert rates.settings == RatesSettings(limit=9, folder=home / "x", names=("a",))
    (refusal,) = await plugins.hooks.each(hookspecs.before_turn, TURN)
    assert refusal.message == "9"


def test_a_plugin_without_a_section_gets_its_defaults() -> None:
    rates = load(Rates).get("rates")
    assert isinstance(rates, Rates)
    assert rates.settings == RatesSettings(folder=Settings().home / "rates")


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
            problem = Problem(file="", line=None, key="plugin.picky.rules", found="x", expected="y")
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


def module_called(name: str) -> ModuleType:
    module = ModuleType(name)
    module.before_turn = hookimpl(lambda turn: None)  # type: ignore[attr-defined]
    return module


class Named(Bare):
    name = "acme"


class MoonPhasePlugin(Bare):
    pass


class HTTPServer(Bare):
    pass


@pytest.mark.parametrize(
    ("plugin", "name"),
    [
        (Named, "acme"),
        (Named(), "acme"),
        (MoonPhasePlugin, "moon_phase"),
        (MoonPhasePlugin(), "moon_phase"),
        (HTTPServer, "httpserver"),
        (module_called("somewhere.tides"), "tides"),
        (module_called("somewhere.tides.plugin"), "tides"),
    ],
)
def test_a_programs_plugin_is_called_by_its_name_class_or_module(plugin: Any, name: str) -> None:
    assert [info.name for info in load(plugin).infos()] == [name]


def test_a_class_called_plugin_has_the_name_of_its_module() -> None:
    cls = type("Plugin", (Bare,), {"__module__": "acme.tides.plugin"})
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
    class Same(Bare):
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

    class Loud(Bare):
        name = "BARE"

    with pytest.raises(StartError, match=r"plugin 'BARE' is brought by both .* there as 'bare'"):
        load(Bare, Loud)


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


# -- builtins ----------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with three builtin plugins: alpha, beta that requires it, and a broken one."""
    name = f"builtins_{tmp_path.name.replace('-', '_')}"
    sources = {
        "alpha": "class Plugin(Bare):\n    provides = (ONE,)\n",
        "beta": "class Plugin(Bare):\n    requires = (ONE,)\n",
        "broken": "raise ImportError('no wheel for this machine')\n",
    }
    head = f"from {name}.keys import ONE\nfrom {__name__} import Bare\n"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "keys.py").write_text(
        "from hookgate.core.domain.ports import Key\nONE = Key('one')\n"
    )
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
    class Alpha(Bare):
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
