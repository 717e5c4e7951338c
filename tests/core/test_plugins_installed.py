"""Plugins of installed distributions, found by entry point; each is a real one on disk."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from tests.support.hooking import Log

from hookgate import hookspecs
from hookgate.core.domain.errors import ConfigError, PluginError, StartError
from hookgate.core.host import PluginInfo
from hookgate.core.plugins.manager import Plugins
from hookgate.core.plugins.sources import allowed_by
from hookgate.core.settings.schema import PluginsSettings, Settings

Install = Callable[..., None]

GOOD = """
import sys
from hookgate.core.domain.models import Refusal
from hookgate.core.settings.schema import Section
from hookgate.hookspecs import hookimpl

sys.modules["hookgate_test_log"].imported.append(__name__)

class GreetingSettings(Section):
    text: str = "hello"

class Plugin:
    Settings = GreetingSettings

    def __init__(self, settings):
        self.settings = settings

    @hookimpl
    def before_turn(self, turn):
        return Refusal(code=__name__, message=self.settings.text)
"""


class Imports:
    """Notes which of the modules were imported."""

    def __init__(self) -> None:
        self.imported: list[str] = []


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[Imports]:
    log = Imports()
    monkeypatch.setitem(sys.modules, "hookgate_test_log", log)
    before = set(sys.modules)
    yield log
    for name in set(sys.modules) - before:
        if name.startswith("acme"):
            del sys.modules[name]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imports: Imports) -> Install:
    """Install a distribution with one module and entry points of the group `hookgate`."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(
        distribution: str,
        version: str = "1.2",
        source: str = GOOD,
        points: dict[str, str] | None = None,
    ) -> None:
        module = distribution.lower().replace("-", "_")
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{module}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        )
        lines = [f"{name} = {target}" for name, target in (points or {module: module}).items()]
        (info / "entry_points.txt").write_text("\n".join(["[hookgate]", *lines, ""]))

    return make


def load(
    *, section: dict[str, Any] | None = None, builtin: tuple[str, ...] = (), **options: Any
) -> Plugins:
    settings = Settings(plugins=PluginsSettings(**options), plugin=section or {})
    return Plugins.load(settings, builtin=builtin, log=Log())


def infos(plugins: Plugins) -> dict[str, PluginInfo]:
    return {info.name: info for info in plugins.infos() if info.name.startswith("acme")}


async def test_an_installed_plugin_runs_under_its_entry_points_name(install: Install) -> None:
    install("Acme-Greeting", points={"acme_hello": "acme_greeting:Plugin"})
    plugins = load(section={"acme_hello": {"text": "good day"}})
    info = infos(plugins)["acme_hello"]
    assert (info.origin, info.state) == ("Acme-Greeting 1.2", "running")
    assert info.hooks == ("before_turn",)
    turn: Any = object()
    refusals = await plugins.hooks.each(hookspecs.before_turn, turn)
    assert "good day" in [refusal.message for refusal in refusals]


async def test_an_entry_point_may_name_a_module(install: Install) -> None:
    install("acme-greeting")
    assert infos(load())["acme_greeting"].state == "running"


def test_entry_points_are_not_looked_for_where_the_operator_says_so(
    install: Install, imports: Imports
) -> None:
    install("acme-greeting")
    assert infos(load(entry_points=False)) == {}
    assert imports.imported == []


@pytest.mark.parametrize(
    ("allow", "allowed"),
    [
        (None, True),
        ((), False),
        (("acme-greeting",), True),
        (("ACME_greeting",), True),
        (("acme-greeting==1.2",), True),
        (("acme-greeting==1.3",), False),
        (("acme-greeting>=1,<2",), True),
        (("acme-greeting==1.*",), True),
        (("another-one", "acme-greeting~=1.1"), True),
        (("acme",), False),
    ],
)
def test_allow_is_checked_by_distribution_and_version_before_the_import(
    install: Install, imports: Imports, allow: tuple[str, ...] | None, allowed: bool
) -> None:
    install("acme-greeting")
    info = infos(load(allow=allow))["acme_greeting"]
    if allowed:
        assert info.state == "running"
        assert imports.imported == ["acme_greeting"]
    else:
        assert (info.state, info.reason) == (
            "disabled",
            "its distribution is not in `plugins.allow`",
        )
        assert imports.imported == []


def test_a_prerelease_that_is_named_is_allowed() -> None:
    assert allowed_by([Requirement("acme==2.0rc1")], "acme", "2.0rc1")
    assert allowed_by([Requirement("acme>=1")], "acme", "2.0rc1")
    assert not allowed_by([Requirement("acme<2")], "acme", "2.0")


@pytest.mark.parametrize(
    "text", ["==1.2", "acme greeting", "acme @ https://x.example/a.whl", "acme; os_name=='nt'"]
)
def test_an_entry_that_is_no_plain_requirement_is_a_problem(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(allow=("acme-greeting", text))
    (problem,) = caught.value.problems
    assert (problem.key, problem.found) == ("plugins.allow[1]", repr(text))


def test_a_required_plugin_that_is_not_allowed_stops_the_start(install: Install) -> None:
    install("acme-greeting")
    with pytest.raises(PluginError, match=r"it is required, and .* not in `plugins\.allow`"):
        load(allow=("another",), required=("acme_greeting",))


BROKEN = {
    "cannot be imported: ImportError: no wheel": "raise ImportError('no wheel')",
    "cannot be imported: SyntaxError": "def",
    "cannot be imported: SystemExit: 3": "raise SystemExit(3)",
    "its constructor raised ValueError: no": (
        "class Plugin:\n    def __init__(self):\n        raise ValueError('no')\n"
    ),
    "did you mean `before_turn`?": (
        "from hookgate.hookspecs import hookimpl\n"
        "class Plugin:\n    @hookimpl\n    def before_turns(self, turn): ...\n"
    ),
}


@pytest.mark.parametrize("reason", BROKEN)
def test_a_broken_plugin_is_named_and_skipped_with_the_reason(
    install: Install, reason: str
) -> None:
    install("acme-broken", source=BROKEN[reason])
    install("acme-greeting")
    plugins = load()
    assert infos(plugins)["acme_broken"].state == "broken"
    assert reason in infos(plugins)["acme_broken"].reason
    assert reason in plugins.why("acme_broken")
    assert infos(plugins)["acme_greeting"].state == "running"


@pytest.mark.parametrize("reason", BROKEN)
def test_a_broken_plugin_that_is_required_stops_the_start(install: Install, reason: str) -> None:
    install("acme-broken", source=BROKEN[reason])
    with pytest.raises(PluginError) as caught:
        load(required=("acme_broken",))
    assert reason in str(caught.value)
    assert caught.value.plugin == "acme_broken"


def test_a_disabled_plugin_is_never_imported(install: Install, imports: Imports) -> None:
    install("acme-greeting")
    assert infos(load(disable=("acme_greeting",)))["acme_greeting"].state == "disabled"
    assert imports.imported == []


def test_a_required_plugin_that_is_not_installed_is_a_problem_with_the_nearest(
    install: Install,
) -> None:
    install("acme-greeting")
    with pytest.raises(ConfigError) as caught:
        load(required=("acme_greting",))
    (problem,) = caught.value.problems
    assert (problem.key, problem.nearest) == ("plugins.required", "acme_greeting")


def test_installing_a_plugin_of_a_builtins_name_stops_the_start_and_says_how_to_replace(
    install: Install,
) -> None:
    install("acme-policy", points={"policy": "acme_policy"})
    with pytest.raises(PluginError) as caught:
        load(builtin=("policy",))
    told = str(caught.value)
    assert "plugin 'policy': acme-policy 1.2 brings a plugin of this name" in told
    assert 'replace = { policy = "acme_policy" }' in told


def test_a_plugin_of_a_builtins_name_that_is_not_allowed_is_in_nobodys_way(
    install: Install, imports: Imports
) -> None:
    install("acme-policy", points={"policy": "acme_policy"})
    plugins = load(builtin=("policy",), allow=())
    assert [(info.name, info.origin) for info in plugins.infos() if info.name == "policy"] == [
        ("policy", "builtin")
    ]
    assert imports.imported == []


def test_an_operators_line_replaces_a_builtin(install: Install) -> None:
    install("acme-policy")
    plugins = load(
        builtin=("policy",),
        replace={"policy": "acme_policy"},
        section={"policy": {"text": "no"}},
    )
    assert type(plugins.get("policy")).__module__ == "acme_policy"
    states = [(info.origin, info.state) for info in plugins.infos() if info.name == "policy"]
    assert states == [("builtin", "replaced"), ("acme-policy 1.2", "running")]


def test_a_replacement_that_is_not_allowed_is_a_problem(install: Install) -> None:
    install("acme-policy")
    with pytest.raises(ConfigError) as caught:
        load(builtin=("policy",), replace={"policy": "acme_policy"}, allow=("other",))
    (problem,) = caught.value.problems
    assert problem.key == "plugins.replace.policy"
    assert "not in `plugins.allow`" in problem.expected


def test_two_distributions_that_bring_one_name_are_both_named(install: Install) -> None:
    install("acme-greeting", points={"acme_hello": "acme_greeting"})
    install("acme-other", points={"acme_hello": "acme_other"})
    with pytest.raises(StartError, match=r"by both acme-(greeting|other) 1\.2 and acme-"):
        load()


def test_allow_settles_which_of_two_distributions_brings_a_name(install: Install) -> None:
    install("acme-greeting", points={"acme_hello": "acme_greeting"})
    install("acme-other", points={"acme_hello": "acme_other"})
    for chosen in ("acme-greeting", "acme-other"):
        plugins = load(allow=(chosen,))
        assert infos(plugins)["acme_hello"].origin == f"{chosen} 1.2"


def test_an_entry_point_that_names_a_function_is_broken(install: Install) -> None:
    install("acme-odd", source="def make(): ...\n", points={"acme_odd": "acme_odd:make"})
    assert "expected a class or a module" in infos(load())["acme_odd"].reason
