from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from tests.builtin_plugins.stores import book_of, differences, kept_in, opened_store

from hookgate.builtin_plugins.awareness.cards.shelf import CARD, CardChange, Pins, pin_digest
from hookgate.core.domain.descriptors import Card, Triggers
from hookgate.kit.acceptance import tables
from hookgate.ports import Store

MINE = Card(id="mine", text="How to deploy.", trusted=True, origin="repo")
THEIRS = Card(id="theirs", text="How to knit.", origin="workspace")


@pytest.fixture(params=["process", "store"])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with kept_in(request.param, tmp_path, "acceptance", tables) as store:
        yield store


async def pins_in(store: Store, mode: Literal["note", "strict"]) -> Pins:
    book = book_of(store)
    await book.load()
    return Pins(book, mode)


async def check(pins: Pins, *cards: Card) -> list[CardChange]:
    new, changes = pins.compare(cards)
    await pins.keep(new, changes)
    return changes


async def test_the_migrations_make_the_table_that_the_code_uses(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as store:
        await store.migrate("acceptance", tables.METADATA, tables.SCRIPTS)
        assert await differences(store, tables.METADATA) == []


async def test_a_card_that_changes_is_named_once_and_counts_as_changed_until_it_is_approved(
    kept: Store,
) -> None:
    pins = await pins_in(kept, "note")
    assert await check(pins, MINE, THEIRS) == []
    changed = replace(THEIRS, text="How to knit socks.")
    (change,) = await check(pins, MINE, changed)
    assert (change.before, change.seen.digest) == (pin_digest(THEIRS), pin_digest(changed))
    assert not pins.accepted(changed)
    assert await check(pins, MINE, changed) == []
    assert pins.differing([MINE, changed]) == [changed]
    assert pins.waiting([MINE, changed]) == frozenset()

    restarted = await pins_in(kept, "note")
    assert await check(restarted, MINE, changed) == []
    assert restarted.differing([MINE, changed]) == [changed]
    (approved,) = await restarted.approve([MINE, changed], by="ops")
    assert approved.name == "theirs"
    assert restarted.kept.of(CARD)["theirs"].accepted_by == "ops"
    assert restarted.differing([MINE, changed]) == []


async def test_a_card_that_changes_back_is_approved_as_it_was(kept: Store) -> None:
    pins = await pins_in(kept, "strict")
    await check(pins, MINE)
    await check(pins, replace(MINE, text="x"))
    (change,) = await check(pins, MINE)
    assert pins.accepted(change.card)
    assert pins.waiting([MINE]) == frozenset()


async def test_strict_lets_a_changed_card_and_a_strangers_new_one_wait(kept: Store) -> None:
    pins = await pins_in(kept, "strict")
    assert pins.waiting([MINE, THEIRS]) == {"mine", "theirs"}  # nobody has looked yet
    await check(pins, MINE, THEIRS)
    assert pins.waiting([MINE, THEIRS]) == {"theirs"}
    changed = replace(MINE, triggers=Triggers(keywords=("deploy",)))
    await check(pins, changed, THEIRS)
    assert pins.waiting([changed, THEIRS]) == {"mine", "theirs"}
    await pins.approve([THEIRS], by="ops")
    assert pins.waiting([changed, THEIRS]) == {"mine"}


async def test_where_a_card_was_declared_is_not_part_of_what_is_pinned() -> None:
    moved = replace(MINE, source_ref="/opt/venv/lib/python3.12/cards/mine.md")
    assert pin_digest(moved) == pin_digest(MINE)
    assert pin_digest(replace(MINE, trusted=False)) != pin_digest(MINE)
