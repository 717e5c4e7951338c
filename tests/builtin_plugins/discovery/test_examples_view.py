from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.stores import opened_store

from hookgate.builtin_plugins.discovery.learn.store import METADATA, SCRIPTS, StoreExamples
from hookgate.builtin_plugins.discovery.learn.view import Example, ExampleBounds, ExampleView

LESSON = st.tuples(
    st.sampled_from(["s1", "s2"]),
    st.lists(st.sampled_from(["x", "y", "z"]), min_size=1, max_size=3, unique=True),
    st.sampled_from("abcdef"),
)
BOUNDS = st.builds(
    ExampleBounds,
    per_capability=st.integers(1, 4),
    total=st.integers(1, 6),
    overall=st.integers(1, 9),
)


def batches(
    lessons: Sequence[tuple[str, list[str], str]],
) -> list[list[Example]]:
    """Return the examples of each lesson, each used at another time."""
    made, at = [], 0
    for scope, owners, text in lessons:
        batch = []
        for owner in owners:
            at += 1
            batch.append(Example.new(scope, owner, text, at=at))
        made.append(batch)
    return made


def expected(rows: dict[str, Example], touched: list[Example], bounds: ExampleBounds) -> None:
    """Keep the bounds the slow way: sort, and cut."""

    def cut(level: list[Example], limit: int) -> None:
        for one in sorted(level, key=lambda one: one.used)[: max(len(level) - limit, 0)]:
            del rows[one.id]

    for owner in {(one.scope, one.capability) for one in touched}:
        level = [one for one in rows.values() if (one.scope, one.capability) == owner]
        cut(level, bounds.per_capability)
    for scope in {one.scope for one in touched}:
        cut([one for one in rows.values() if one.scope == scope], bounds.total)
    cut(list(rows.values()), bounds.overall)


@given(st.lists(LESSON, max_size=40), BOUNDS)
def test_the_least_recently_used_go_first_and_the_bounds_hold(
    lessons: list[tuple[str, list[str], str]], bounds: ExampleBounds
) -> None:
    view, rows = ExampleView(bounds), dict[str, Example]()
    for batch in batches(lessons):
        before = {one.id for one in view}
        gone = view.keep(batch)
        rows |= {one.id: one for one in batch}
        expected(rows, batch, bounds)
        assert list(view) == sorted(rows.values(), key=lambda one: one.used)
        assert {one.id for one in gone} == (before | {one.id for one in batch}) - set(rows)
    for scope in ("s1", "s2"):
        of_scope = [one for one in view if one.scope == scope]
        assert len(of_scope) <= bounds.total
        shown = view.of_scope(scope)
        pairs = sorted(zip(shown.owners, shown.texts, strict=True))
        assert pairs == sorted((one.capability, one.text) for one in of_scope)
        for owner in "xyz":
            assert sum(one.capability == owner for one in of_scope) <= bounds.per_capability
    assert len(view) <= bounds.overall


@given(st.lists(LESSON, max_size=25), BOUNDS)
async def test_the_store_keeps_what_memory_keeps(
    lessons: list[tuple[str, list[str], str]], bounds: ExampleBounds
) -> None:
    view = ExampleView(bounds)
    with TemporaryDirectory() as folder:
        async with opened_store(Path(folder)) as store:
            await store.migrate("discovery", METADATA, SCRIPTS)
            kept = StoreExamples(store, bounds)
            for batch in batches(lessons):
                view.keep(batch)
                await kept.keep(batch)
            assert [(one.id, one.used) for one in await kept.load()] == [
                (one.id, one.used) for one in view
            ]


@given(st.lists(LESSON, min_size=1, max_size=20), st.data())
def test_what_is_dropped_is_gone_and_the_rest_stays(
    lessons: list[tuple[str, list[str], str]], data: st.DataObject
) -> None:
    view = ExampleView(ExampleBounds())
    for batch in batches(lessons):
        view.keep(batch)
    rows = list(view)
    gone = data.draw(st.lists(st.sampled_from(rows), unique=True))
    versions = {scope: view.of_scope(scope).version for scope in ("s1", "s2")}
    view.drop(gone)
    view.drop(gone)
    assert list(view) == [one for one in rows if one not in gone]
    for scope, version in versions.items():
        changed = any(one.scope == scope for one in gone)
        assert (view.of_scope(scope).version != version) is changed
        assert len(view.of_scope(scope).texts) == sum(one.scope == scope for one in view)


def test_a_set_stays_as_it_is_and_a_repeat_makes_no_new_one() -> None:
    view = ExampleView(ExampleBounds())
    first = Example.new("s", "x", "a", at=1)
    view.keep([first])
    before = view.of_scope("s")
    view.keep([Example.new("s", "x", "A ", at=2)])
    assert view.of_scope("s") is before
    view.keep([Example.new("s", "x", "b", at=3)])
    assert before.texts == ("a",)
    assert view.of_scope("s").version > before.version


def test_names_that_run_into_each_other_are_different_examples() -> None:
    one, other = Example.new("a", "bc", "d", at=1), Example.new("ab", "c", "d", at=2)
    assert one.id != other.id


def test_a_scope_that_nobody_has_used_is_empty() -> None:
    assert ExampleView(ExampleBounds()).of_scope("s").texts == ()
