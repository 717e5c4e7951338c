"""The order in which plugins open, and what becomes of those that fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.hooking import SHORT, Log, forever
from tests.support.loading import host_of, load

from hookgate.core.domain.errors import HookError, MissingKeyError, PluginError, StartError
from hookgate.core.domain.ports import CLOCK, Key
from hookgate.core.host import Host
from hookgate.core.plugins.manager import Node, opening_order
from hookgate.core.settings.schema import HookSettings
from hookgate.hookspecs import hookimpl

ONE: Key[str] = Key("one")
TWO: Key[str] = Key("two")


def opening(
    name: str,
    steps: list[str],
    *,
    requires: tuple[Key[Any], ...] = (),
    provides: tuple[Key[Any], ...] = (),
    uses: tuple[Key[Any], ...] = (),
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
    made.uses = uses  # type: ignore[attr-defined]
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


async def test_a_plugin_that_does_not_provide_what_it_says_stops_the_start() -> None:
    class Forgets:
        name, provides = "forgets", (ONE, TWO)

        @hookimpl
        @asynccontextmanager
        async def lifespan(self, host: Host) -> AsyncIterator[None]:
            host.provide(TWO, "two")
            yield

    steps: list[str] = []
    plugins = load(Forgets(), opening("needs", steps, requires=(ONE,)))
    with pytest.raises(PluginError, match="plugin 'forgets': its `provides` names") as caught:
        async with plugins.opened(host_of(plugins)):
            steps.append("never")
    assert repr(ONE.name) in str(caught.value)
    assert repr(TWO.name) not in str(caught.value)
    assert "host.provide(KEY, ...)" in str(caught.value)
    assert steps == []


async def test_what_a_plugin_can_do_without_opens_before_it_where_somebody_provides_it() -> None:
    provided = load(opening("a", [], uses=(ONE, TWO)), opening("b", [], provides=(TWO,)))
    assert provided.order == ("b", "a")
    assert load(opening("a", [], uses=(ONE,)), opening("b", [])).order == ("a", "b")


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
