from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.builtin_plugins.stores import differences, kept_in, opened_store

from hookgate.builtin_plugins.awareness.cards import tables
from hookgate.builtin_plugins.awareness.cards.pins import Pins, pin_digest
from hookgate.builtin_plugins.awareness.cards.tables import METADATA, SCRIPTS, Pin
from hookgate.core.domain.descriptors import Card, Triggers
from hookgate.kit.records import Records

MINE = Card(id="mine", text="How to deploy.", trusted=True, origin="repo")
THEIRS = Card(id="theirs", text="How to knit.", origin="workspace")
NOW, LATER = "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"


@pytest.fixture(params=["process", "store"])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Records[Pin]]:
    async with kept_in(request.param, tmp_path, "awareness", tables) as store:
        yield Pin.records(store)


async def test_the_migrations_make_the_table_that_the_code_uses(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as store:
        await store.migrate("awareness", METADATA, SCRIPTS)
        assert await differences(store, METADATA) == []


async def test_a_card_that_changes_is_named_once_and_counts_as_changed_until_it_is_approved(
    kept: Records[Pin],
) -> None:
    pins = Pins(kept, "note")
    assert await pins.check([MINE, THEIRS], NOW) == []
    changed = replace(THEIRS, text="How to knit socks.")
    (change,) = await pins.check([MINE, changed], LATER)
    assert (change.before, change.pin.seen) == (pin_digest(THEIRS), pin_digest(changed))
    assert (change.pin.approved, change.pin.changed) == (pin_digest(THEIRS), LATER)
    assert await pins.check([MINE, changed], LATER) == []
    assert pins.differing([MINE, changed]) == [changed]
    assert pins.waiting([MINE, changed]) == frozenset()

    restarted = Pins(kept, "note")
    await restarted.load()
    assert await restarted.check([MINE, changed], LATER) == []
    assert restarted.differing([MINE, changed]) == [changed]
    (pin,) = await restarted.approve([MINE, changed], LATER)
    assert pin.id == "theirs"
    assert restarted.differing([MINE, changed]) == []


async def test_a_card_that_changes_back_is_approved_as_it_was(kept: Records[Pin]) -> None:
    pins = Pins(kept, "strict")
    await pins.check([MINE], NOW)
    await pins.check([replace(MINE, text="x")], NOW)
    (change,) = await pins.check([MINE], LATER)
    assert change.pin.approved == change.pin.seen
    assert pins.waiting([MINE]) == frozenset()


async def test_strict_lets_a_changed_card_and_a_strangers_new_one_wait(kept: Records[Pin]) -> None:
    pins = Pins(kept, "strict")
    assert pins.waiting([MINE, THEIRS]) == {"mine", "theirs"}  # nobody has looked yet
    await pins.check([MINE, THEIRS], NOW)
    assert pins.waiting([MINE, THEIRS]) == {"theirs"}
    changed = replace(MINE, triggers=Triggers(keywords=("deploy",)))
    await pins.check([changed, THEIRS], LATER)
    assert pins.waiting([changed, THEIRS]) == {"mine", "theirs"}
    await pins.approve([THEIRS], LATER)
    assert pins.waiting([changed, THEIRS]) == {"mine"}


async def test_where_a_card_was_declared_is_not_part_of_what_is_pinned() -> None:
    moved = replace(MINE, source_ref="/opt/venv/lib/python3.12/cards/mine.md")
    assert pin_digest(moved) == pin_digest(MINE)
    assert pin_digest(replace(MINE, trusted=False)) != pin_digest(MINE)
