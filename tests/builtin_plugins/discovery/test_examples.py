from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import func, select
from tests.builtin_plugins.discovery.lessons import SUCCESS, finished, selected, taught, use
from tests.builtin_plugins.stores import BrokenStore, differences, opened_store
from tests.builtin_plugins.turns import make_host, make_turn

from hookgate.builtin_plugins.discovery.learn.examples import Examples
from hookgate.builtin_plugins.discovery.learn.store import EXAMPLES, METADATA
from hookgate.core.domain.errors import StoreUnavailableError
from hookgate.core.domain.ports import CLOCK
from hookgate.core.domain.tools import ToolResult
from hookgate.core.domain.turn import REQUEST_OVERRIDE, Principal
from hookgate.ports import STORE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.builtin_plugins.turns import TurnedClock

    from hookgate.builtin_plugins.storage.store import SqlStore
    from hookgate.core.domain.turn import Turn

MINE = "principal:loopback"


async def opened(store: Any = None, **options: Any) -> Examples:
    host = make_host(secrets=["canary-1"])
    if store is not None:
        host.provide(STORE, store)
    examples = Examples(**options)
    await examples.open(host)
    return examples


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    async with opened_store(tmp_path) as store:
        yield store


@pytest.fixture(params=["memory", "store"])
async def maybe_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    if request.param == "memory":
        yield None
        return
    async with opened_store(tmp_path) as store:
        yield store


async def stored(store: SqlStore) -> list[tuple[str, str, int]]:
    columns = EXAMPLES.c
    query = select(columns.capability, columns.text, columns.count).order_by(columns.used)
    return await store.read(lambda connection: [tuple(r) for r in connection.execute(query)])


FAILED = replace(SUCCESS, status="failed", score=0.0)
WRONG = ToolResult.error("no such place")


def broken(text: str, *names: str) -> Turn:
    """Return a turn in which the tools `names` were called, and ended in an error."""
    return finished(selected(make_turn(text), *names), *(use(name, WRONG) for name in names))


def pairs(examples: Examples, scope: str = MINE) -> list[tuple[str, str]]:
    found = examples.of_scope(scope)
    return sorted(zip(found.owners, found.texts, strict=True))


# -- learning -----------------------------------------------------------------------


async def test_a_turn_that_used_a_tool_well_teaches_its_message(maybe_store: Any) -> None:
    examples = await opened(maybe_store)
    assert await examples.learn(taught("  Is it raining? ", "weather"), SUCCESS) == 1
    assert pairs(examples) == [("tool:weather", "Is it raining?")]


async def test_each_tool_that_was_used_well_gets_the_message(maybe_store: Any) -> None:
    examples = await opened(maybe_store)
    assert await examples.learn(taught("wind and rain", "wind", "rain"), SUCCESS) == 2
    assert pairs(examples) == [("tool:rain", "wind and rain"), ("tool:wind", "wind and rain")]


async def test_a_failure_halves_what_counts_and_ends_what_counted_once(maybe_store: Any) -> None:
    examples = await opened(maybe_store)
    for text in ("Is it raining?", "is it raining?", "is it  raining?", "Snow?"):
        await examples.learn(taught(text, "weather"), SUCCESS)
    for text, left in (("Is it raining?", {"Is it raining?": 1, "Snow?": 1}),
                       ("Snow?", {"Is it raining?": 1}),
                       ("Is it raining?", {})):  # fmt: skip
        assert await examples.learn(broken(text, "weather"), FAILED) == 0
        assert {one.text: one.count for one in examples.matching()} == left
    assert pairs(examples) == []
    if maybe_store is not None:
        assert await stored(maybe_store) == []


async def test_no_other_turn_takes_anything_from_what_was_learned(maybe_store: Any) -> None:
    examples = await opened(maybe_store)
    await examples.learn(taught("Is it raining?", "weather"), SUCCESS)
    foreign = selected(make_turn("Is it raining?"), "weather")
    finished(foreign, use("weather", WRONG), taint=("web",))
    denied = ToolResult.error("no", status="denied")
    refused = finished(make_turn("Is it raining?"), use("weather", denied))
    claimed = replace(FAILED, source=REQUEST_OVERRIDE)
    for turn, outcome in (
        (foreign, FAILED),
        (refused, FAILED),
        (taught("Is it raining?", "weather"), FAILED),
        (broken("Is it raining?", "weather"), None),
        (broken("Is it raining?", "weather"), claimed),
        (broken("Is it raining?", "wind"), FAILED),
        (broken("Is it snowing?", "weather"), FAILED),
    ):
        assert await examples.learn(turn, outcome) == 0
        assert pairs(examples) == [("tool:weather", "Is it raining?")]


async def test_a_repeat_counts_and_moves_the_time_of_use(store: SqlStore) -> None:
    examples = await opened(store)
    host = examples._host
    assert host is not None
    clock: TurnedClock = host[CLOCK]  # type: ignore[assignment]  # the host's own is a test's
    await examples.learn(taught("Is it raining?", "weather"), SUCCESS)
    before = examples.of_scope(MINE)
    clock.advance(60)
    assert await examples.learn(taught("is  IT raining?", "weather"), SUCCESS) == 0
    (example,) = examples.matching()
    assert (example.text, example.count) == ("Is it raining?", 2)
    assert example.used - example.learned == 60_000_000
    assert examples.of_scope(MINE) is before
    assert await stored(store) == [("tool:weather", "Is it raining?", 2)]


async def test_the_order_of_use_holds_where_the_clock_stands_still_or_goes_back() -> None:
    examples = await opened()
    host = examples._host
    assert host is not None
    clock: TurnedClock = host[CLOCK]  # type: ignore[assignment]  # the host's own is a test's
    for text in "abc":
        await examples.learn(taught(text, "t"), SUCCESS)
        clock.advance(-5)
    assert [one.text for one in examples.matching()] == ["c", "b", "a"]
    used = [one.used for one in examples.matching()]
    assert used == sorted(set(used), reverse=True)


@pytest.mark.parametrize("text", ["", "  \n", "x" * 501, "my key is canary-1", "a\0b", "a\ud800"])
async def test_a_text_that_is_not_kept_leaves_nothing(text: str, store: SqlStore) -> None:
    examples = await opened(store)
    assert await examples.learn(taught(text, "t"), SUCCESS) == 0
    assert examples.of_scope(MINE).texts == ()
    assert await stored(store) == []


async def test_a_text_of_exactly_the_limit_is_kept() -> None:
    examples = await opened()
    assert await examples.learn(taught("x" * 500, "t"), SUCCESS) == 1


async def test_switched_off_it_learns_and_shows_nothing_but_still_erases(store: SqlStore) -> None:
    await (await opened(store)).learn(taught("rain?", "weather"), SUCCESS)
    off = await opened(store, enabled=False)
    assert await off.learn(taught("snow?", "weather"), SUCCESS) == 0
    assert off.of_scope(MINE).texts == ()
    assert [one.text for one in off.matching()] == ["rain?"]
    assert await off.forget() == 1
    assert await stored(store) == []


async def test_before_it_is_open_it_learns_nothing() -> None:
    examples = Examples()
    assert await examples.learn(taught("rain?", "weather"), SUCCESS) == 0
    assert examples.of_scope(MINE).texts == ()


# -- scopes -------------------------------------------------------------------------


def by(name: str, turn: Turn) -> Turn:
    turn.principal = Principal.owner(name)
    return turn


async def test_two_scopes_never_mix(maybe_store: Any) -> None:
    examples = await opened(maybe_store)
    await examples.learn(by("ann", taught("rain?", "weather")), SUCCESS)
    await examples.learn(by("bob", taught("snow?", "weather")), SUCCESS)
    assert examples.of_scope("principal:ann").texts == ("rain?",)
    assert examples.of_scope("principal:bob").texts == ("snow?",)
    assert await examples.forget(scope="principal:ann") == 1
    assert examples.of_scope("principal:ann").texts == ()
    assert examples.of_scope("principal:bob").texts == ("snow?",)


@pytest.mark.parametrize(
    ("width", "scope"),
    [("principal", "principal:ann"), ("agent", "agent:demo"), ("gateway", "gateway")],
)
async def test_the_scope_is_as_wide_as_it_is_set(width: Any, scope: str) -> None:
    examples = await opened(scope=width)
    turn = by("ann", taught("rain?", "weather"))
    assert examples.scope_of(turn) == scope
    await examples.learn(turn, SUCCESS)
    assert examples.of_scope(scope).texts == ("rain?",)


async def test_the_bounds_of_one_scope_leave_another_alone(maybe_store: Any) -> None:
    examples = await opened(maybe_store, total=1)
    for name, text in [("ann", "a"), ("bob", "b"), ("bob", "c")]:
        await examples.learn(by(name, taught(text, "t")), SUCCESS)
    assert examples.of_scope("principal:ann").texts == ("a",)
    assert examples.of_scope("principal:bob").texts == ("c",)


# -- the store ----------------------------------------------------------------------


async def test_the_migrations_make_the_table_that_the_code_expects(store: SqlStore) -> None:
    await opened(store)
    assert await differences(store, METADATA) == []


async def test_examples_survive_a_restart_with_their_order_and_counts(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as store:
        examples = await opened(store)
        for text in ["a", "b", "a"]:
            await examples.learn(taught(text, "t"), SUCCESS)
        before = examples.matching()
        assert examples.durable
    async with opened_store(tmp_path) as store:
        again = await opened(store, per_capability=2)
        assert again.matching() == before
        assert [(one.text, one.count) for one in before] == [("a", 2), ("b", 1)]
        await again.learn(taught("c", "t"), SUCCESS)
        assert [one.text for one in again.matching()] == ["c", "a"]
        assert [text for _, text, _ in await stored(store)] == ["a", "c"]


async def test_bounds_that_were_lowered_hold_from_the_start(store: SqlStore) -> None:
    examples = await opened(store)
    for text in "abc":
        await examples.learn(taught(text, "t"), SUCCESS)
    lower = await opened(store, per_capability=1)
    assert lower.of_scope(MINE).texts == ("c",)
    assert [text for _, text, _ in await stored(store)] == ["c"]


async def test_without_a_store_it_says_that_examples_are_lost() -> None:
    examples = await opened()
    assert examples._host is not None
    assert "kept in memory" in examples._host.degraded["discovery.examples"]
    assert not examples.durable


async def test_without_a_store_and_switched_off_there_is_nothing_to_say() -> None:
    examples = await opened(enabled=False)
    assert examples._host is not None
    assert examples._host.degraded == {}


async def test_a_store_that_fails_fails_no_turn_and_is_tried_again(store: SqlStore) -> None:
    examples = await opened(store)
    host = examples._host
    assert host is not None
    await examples.learn(taught("a", "t"), SUCCESS)
    real, examples._kept._store = examples._kept._store, BrokenStore()  # type: ignore[union-attr, assignment]  # a store that breaks while it runs
    assert await examples.learn(taught("b", "t"), SUCCESS) == 0
    assert "the disk is gone" in host.degraded["discovery.examples"]
    assert examples.of_scope(MINE).texts == ("a",)
    with pytest.raises(StoreUnavailableError):
        await examples.forget()
    assert examples.of_scope(MINE).texts == ("a",)
    examples._kept._store = real  # type: ignore[union-attr]  # see above
    assert await examples.learn(taught("b", "t"), SUCCESS) == 1
    assert host.degraded == {}
    assert [text for _, text, _ in await stored(store)] == ["a", "b"]


async def test_a_store_that_fails_at_start_is_loaded_when_it_works(store: SqlStore) -> None:
    await (await opened(store)).learn(taught("a", "t"), SUCCESS)
    examples = await opened(BrokenStore())
    assert examples._host is not None
    assert await examples.learn(taught("b", "t"), SUCCESS) == 0
    assert examples.of_scope(MINE).texts == ()
    examples._store = store
    assert await examples.learn(taught("b", "t"), SUCCESS) == 1
    assert sorted(examples.of_scope(MINE).texts) == ["a", "b"]
    assert examples._host.degraded == {}


# -- forgetting ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ({}, []),
        ({"capability": "tool:x"}, [("tool:y", "Rain?")]),
        ({"query": " rain? "}, [("tool:x", "snow")]),
        ({"query": "rain"}, [("tool:x", "Rain?"), ("tool:x", "snow"), ("tool:y", "Rain?")]),
        ({"capability": "tool:x", "query": "RAIN?"}, [("tool:x", "snow"), ("tool:y", "Rain?")]),
        ({"scope": "gateway"}, [("tool:x", "Rain?"), ("tool:x", "snow"), ("tool:y", "Rain?")]),
    ],
)
async def test_what_is_erased_is_gone_at_once_and_from_the_store(
    filters: dict[str, str], left: list[tuple[str, str]], store: SqlStore
) -> None:
    examples = await opened(store)
    await examples.learn(taught("Rain?", "x", "y"), SUCCESS)
    await examples.learn(taught("snow", "x"), SUCCESS)
    version = examples.of_scope(MINE).version
    assert await examples.forget(**filters) == 3 - len(left)
    assert pairs(examples) == left
    assert sorted((owner, text) for owner, text, _ in await stored(store)) == left
    assert (examples.of_scope(MINE).version == version) is (len(left) == 3)
    assert pairs(await opened(store)) == left


async def test_what_was_erased_can_be_learned_again_from_one(store: SqlStore) -> None:
    examples = await opened(store)
    for _ in range(3):
        await examples.learn(taught("a", "t"), SUCCESS)
    await examples.forget(query="a")
    assert await examples.learn(taught("a", "t"), SUCCESS) == 1
    assert await stored(store) == [("tool:t", "a", 1)]


async def test_learning_and_erasing_at_once_leave_memory_and_store_alike(store: SqlStore) -> None:
    examples = await opened(store, per_capability=5, total=8)

    async def learn(number: int) -> None:
        await examples.learn(taught(f"q{number % 13}", f"t{number % 3}"), SUCCESS)

    async with asyncio.TaskGroup() as group:
        for number in range(60):
            group.create_task(learn(number))
            if number % 10 == 9:
                group.create_task(examples.forget(capability=f"tool:t{number % 3}"))
    kept = [(one.capability, one.text, one.count) for one in reversed(examples.matching())]
    assert kept
    assert kept == await stored(store)


async def test_the_same_lesson_at_once_is_one_example_that_counts_each(store: SqlStore) -> None:
    examples = await opened(store)
    lessons = (examples.learn(taught("a", "t"), SUCCESS) for _ in range(5))
    assert sum(await asyncio.gather(*lessons)) == 1
    assert [one.count for one in examples.matching()] == [5]
    assert await stored(store) == [("tool:t", "a", 5)]


async def test_a_lesson_whose_hook_is_cancelled_is_kept_whole(store: SqlStore) -> None:
    examples = await opened(store)
    lesson = asyncio.create_task(examples.learn(taught("a", "t"), SUCCESS))
    await asyncio.sleep(0)
    lesson.cancel()
    with pytest.raises(asyncio.CancelledError):
        await lesson
    assert [text for _, text, _ in await stored(store)] == [one.text for one in examples.matching()]
    assert [text for _, text, _ in await stored(store)] == ["a"]
    assert [one.text for one in examples.matching()] == ["a"]


async def test_a_store_of_many_scopes_is_bounded_as_a_whole(store: SqlStore) -> None:
    examples = await opened(store, overall=3)
    for name in ["ann", "bob", "eve", "ann", "joe"]:
        await examples.learn(by(name, taught("rain?", "t")), SUCCESS)
    assert {one.scope for one in examples.matching()} == {
        "principal:ann",
        "principal:eve",
        "principal:joe",
    }
    count = select(func.count()).select_from(EXAMPLES)
    assert await store.read(lambda connection: connection.execute(count).scalar_one()) == 3


# -- what counts as used well: see also test_examples_lessons ------------------------


async def test_a_turn_that_nobody_judged_teaches_only_where_that_is_allowed() -> None:
    strict = await opened(judged_only=True)
    assert await strict.learn(taught("a", "t"), SUCCESS) == 0
    assert await strict.learn(taught("a", "t"), replace(SUCCESS, source="judge")) == 1
    assert await (await opened()).learn(taught("a", "t"), None) == 0


@pytest.mark.parametrize("judged_only", [False, True])
async def test_that_a_request_calls_itself_a_success_teaches_nothing(judged_only: bool) -> None:
    examples = await opened(judged_only=judged_only)
    claimed = replace(SUCCESS, source="request_override")
    assert await examples.learn(taught("a", "t"), claimed) == 0


async def test_a_turn_without_calls_teaches_nothing() -> None:
    turn = make_turn("hello")
    assert await (await opened()).learn(turn, SUCCESS) == 0
    finished(turn, use("t"))
    assert await (await opened()).learn(turn, SUCCESS) == 0, "it was not selected"
