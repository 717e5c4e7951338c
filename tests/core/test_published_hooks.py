"""Hooks that plugins publish for each other."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.loading import load, problems_of

from hookgate import hookimpl, hookspec
from hookgate.core.domain.errors import HookError, PluginError
from hookgate.core.settings.schema import HookSettings


@hookspec("each")
def acme_report_ready(report: str) -> str | None:
    """Hear of a report."""


@hookspec("fold", required=True, limit=1.0)
def acme_title(report: str, title: str) -> str | None:
    """Change the title of a report."""


class Acme:
    name = "acme"
    publishes = (acme_report_ready, acme_title)


def listener(**functions: Any) -> type:
    return type("Listener", (), {"name": "listener", **functions})


def hears() -> Any:
    """Return a new function each time: marks stay on what they are put on."""

    def hears(self: Any, report: str) -> str:
        return f"heard {report}"

    return hears


async def titled(self: Any, title: str) -> str:
    return title.upper()


HEARS = listener(acme_report_ready=hookimpl(hears()))


async def test_published_hook_is_called_under_its_contract() -> None:
    other = type("Other", (), {"name": "other", "acme_title": hookimpl(of="acme")(titled)})
    plugins = load(HEARS, Acme, other)
    assert await plugins.hooks.each(acme_report_ready, "May") == ["heard May"]
    assert await plugins.hooks.fold(acme_title, "May", "draft") == "DRAFT"
    assert plugins.hooks.contract(acme_title).required
    infos = {info.name: info for info in plugins.infos()}
    assert infos["acme"].publishes == ("acme_report_ready", "acme_title")
    assert infos["listener"].hooks == ("acme_report_ready",)


async def test_failure_names_hook_and_plugin() -> None:
    def fails(self: Any) -> None:
        raise RuntimeError("no")

    plugins = load(Acme, listener(acme_title=hookimpl(fails)))
    with pytest.raises(HookError, match=r"acme_title.*listener") as caught:
        await plugins.hooks.fold(acme_title, "May", "draft")
    assert (caught.value.hook, caught.value.plugin) == ("acme_title", "listener")


async def test_result_of_a_wrong_type_is_a_failure() -> None:
    plugins = load(Acme, listener(acme_title=hookimpl(lambda self: 5)))
    with pytest.raises(HookError, match="acme_title"):
        await plugins.hooks.fold(acme_title, "May", "draft")


async def test_operator_may_tighten_the_contract_of_a_published_hook() -> None:
    plugins = load(Acme, HEARS, hooks={"acme_report_ready": HookSettings(limit=0.5)})
    assert plugins.hooks.contract(acme_report_ready).limit == 0.5
    (problem,) = problems_of(Acme, hooks={"acme_report_redy": HookSettings(limit=0.5)})
    assert (problem.key, problem.nearest) == ("hooks.acme_report_redy", "hooks.acme_report_ready")


# -- while the publisher is off ------------------------------------------------------


async def test_while_the_publisher_is_off_an_implementation_is_idle() -> None:
    plugins = load(Acme, HEARS, disabled=["acme"], hooks={"acme_title": HookSettings(limit=0.5)})
    (info,) = (one for one in plugins.infos() if one.name == "listener")
    assert (info.state, info.hooks) == ("running", ())
    assert info.idle == ("acme_report_ready: acme does not run: it is disabled",)
    assert plugins.why("listener").endswith(
        "idle: acme_report_ready: acme does not run: it is disabled"
    )
    with pytest.raises(LookupError, match="or one that a running plugin publishes"):
        await plugins.hooks.each(acme_report_ready, "May")


def test_while_the_publisher_is_not_installed_the_implementation_says_whose_it_is() -> None:
    plugins = load(listener(acme_report_ready=hookimpl(of="acme")(hears())))
    (info,) = plugins.infos()
    assert info.idle == ("acme_report_ready: acme is not installed, or publishes no hooks",)
    with pytest.raises(PluginError, match=r'absent: @hookimpl\(of="NAME"\)'):
        load(HEARS)


def test_while_the_publisher_is_broken_its_hooks_are_not_there() -> None:
    class Bad(Acme):
        before_tol_call = hookimpl(lambda self: None)

    Bad.name = "acme"
    with pytest.raises(PluginError, match="before_tool_call"):
        load(Bad, HEARS)


def test_misspelt_hook_of_a_publisher_that_runs_is_refused_with_the_nearest() -> None:
    for mark in (hookimpl, hookimpl(of="acme")):
        with pytest.raises(PluginError, match="did you mean `acme_report_ready`"):
            load(Acme, listener(acme_report_redy=mark(hears())))


def test_misspelt_hook_of_the_core_is_refused_as_before() -> None:
    with pytest.raises(PluginError, match="did you mean `before_turn`"):
        load(Acme, listener(before_tun=hookimpl(lambda self: None)), disabled=["acme"])


def test_hook_of_another_than_it_says_is_refused() -> None:
    with pytest.raises(PluginError, match="says that the hook is of beta, and it is of acme"):
        load(Acme, listener(acme_report_ready=hookimpl(of="beta")(hears())))
    with pytest.raises(PluginError, match="it is one of the core's own"):
        load(Acme, listener(before_turn=hookimpl(of="acme")(lambda self: None)))


# -- what is refused -----------------------------------------------------------------


@hookspec("each")
def report_ready(report: str) -> None:
    """Hear of a report."""


@hookspec("each")
def acme_undocumented(report: str) -> None: ...


@hookspec("each")
def acme_defaults(report: str = "") -> None:
    """Hear of a report."""


@hookspec("each")
def acme_untyped(report: str) -> NoSuchType:  # type: ignore[name-defined]  # noqa: F821
    """Hear of a report."""


@hookspec("each")
def acme_raises(report: str) -> 1 / 0:  # type: ignore[valid-type]
    """Hear of a report."""


@hookspec("each", limit="5 s")  # type: ignore[arg-type]
def acme_odd_limit(report: str) -> None:
    """Hear of a report."""


def acme_odd_contract(report: str) -> None:
    """Hear of a report."""


acme_odd_contract.__contract__ = "each"  # type: ignore[attr-defined]


def acme_unmarked(report: str) -> None:
    """Hear of a report."""


@pytest.mark.parametrize(
    ("publishes", "said"),
    [
        ((report_ready,), "call it `acme_report_ready`"),
        ((acme_undocumented,), "has no docstring"),
        ((acme_defaults,), "no defaults"),
        ((acme_untyped,), "cannot be resolved"),
        ((acme_raises,), "cannot be resolved"),
        ((acme_odd_limit,), "whose contract is"),
        ((acme_odd_contract,), "whose contract is each: expected"),
        ((acme_unmarked,), "is not marked: put @hookspec"),
        ((acme_title, acme_title), "two hooks of one name"),
        ([acme_title], "expected a tuple of functions"),
        ((5,), "expected a tuple of functions"),
    ],
)
def test_hook_that_cannot_be_one_is_refused(publishes: Any, said: str) -> None:
    with pytest.raises(PluginError, match=said):
        load(type("Acme", (), {"name": "acme", "publishes": publishes}))


def test_two_plugins_publish_no_hook_of_one_name() -> None:
    @hookspec("each")
    def acme_report_ready(report: str) -> None:
        """Hear of a report, too."""

    other = type("Other", (), {"name": "acme_report", "publishes": (acme_report_ready,)})
    with pytest.raises(PluginError, match="there already, of acme: rename it"):
        load(Acme, other)


def test_what_a_plugin_publishes_may_raise() -> None:
    class Acme:
        name = "acme"

        @property
        def publishes(self) -> Any:
            raise RuntimeError("no luck")

        @hookimpl
        def before_turn(self) -> None:
            return None

    with pytest.raises(PluginError, match="`publishes` raised RuntimeError: no luck"):
        load(Acme)


def test_hook_of_the_core_cannot_be_published_again() -> None:
    @hookspec("each")
    def before_turn(turn: str) -> None:
        """Come before."""

    with pytest.raises(PluginError, match="there already, of the core"):
        load(type("Before", (), {"name": "before", "publishes": (before_turn,)}))
