"""What may be shown of a row is found out once, as long as nothing about it changes."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from tests.builtin_plugins.discovery.searching import row

from hookgate.builtin_plugins.discovery.show import entries as module
from hookgate.builtin_plugins.discovery.show.assembler import Assembler, TierBudgets
from hookgate.builtin_plugins.discovery.show.entries import Entries, FoundCapability, Tier
from hookgate.core.domain.descriptors import Capability, CapabilityDetail, Card, Rejected
from hookgate.core.host import QuarterTokens


class Watched:
    """Rows whose reading, and a sanitizer whose asking, is seen."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.asked: list[str] = []
        self.version = 0
        self.forbidden = "never"

    def row(self, name: str, text: str = "Text.", **more: Any) -> Capability:
        def load() -> CapabilityDetail:
            self.read.append(name)
            return CapabilityDetail(content=text)

        return replace(row(name, f"Does {name}.", **more), load=load)

    async def sanitize(self, card: Card) -> Card | Rejected:
        self.asked.append(card.text)
        if self.forbidden in card.text:
            return Rejected(reason="it is forbidden")
        return replace(card, text=card.text.replace("evil", ""))

    def entries(self) -> Entries:
        return Entries(self.sanitize, lambda: self.version)


def found(*rows: Capability) -> list[FoundCapability]:
    return [FoundCapability(row=one, relevance=0.9 - at / 100) for at, one in enumerate(rows)]


async def test_known_row_is_neither_read_nor_judged_again() -> None:
    watched = Watched()
    entries, mail = watched.entries(), watched.row("mail")
    first = await entries.of(found(mail), 5, details=1)
    asked = list(watched.asked)
    again = await entries.of([FoundCapability(row=mail, relevance=0.3)], 5, details=1)
    assert watched.read == ["mail"]
    assert watched.asked == asked != []
    assert (again[0].description, again[0].content) == ("Does mail.", "Text.")
    assert (first[0].found.relevance, again[0].found.relevance) == (0.9, 0.3)


async def test_row_that_was_brought_anew_is_read_anew() -> None:
    watched = Watched()
    entries, mail = watched.entries(), watched.row("mail")
    await entries.of(found(mail), 5, details=1)
    new = watched.row("mail", "Other text.")
    assert new == mail
    assert [one.content for one in await entries.of(found(new), 5, details=1)] == ["Other text."]


async def test_sanitizers_that_may_judge_otherwise_are_asked_again() -> None:
    watched = Watched()
    entries, mail = watched.entries(), watched.row("mail", "A text with a secret.")
    names = Tier(text="- Secret plans (3)", tokens=5)
    counter = QuarterTokens()
    assert await entries.of(found(mail), 5, details=1)
    assert (await entries.map(names, counter)).text
    watched.forbidden = "ecret"
    assert await entries.of(found(mail), 5, details=1)
    watched.version += 1
    assert not await entries.of(found(mail), 5, details=1)
    assert (await entries.map(names, counter)).text == ""


async def test_what_was_rejected_is_asked_for_again() -> None:
    watched = Watched()
    watched.forbidden = "Text"
    entries, mail = watched.entries(), watched.row("mail")
    assert await entries.of(found(mail), 5, details=1) == []
    watched.forbidden = "never"
    assert [one.content for one in await entries.of(found(mail), 5, details=1)] == ["Text."]


async def test_what_could_not_be_read_is_read_again() -> None:
    broken = [OSError(2, "No such file")]

    def load() -> CapabilityDetail:
        if broken:
            raise broken.pop()
        return CapabilityDetail(content="There again.")

    entries, mail = Watched().entries(), replace(row("mail", "Send mail."), load=load)
    (first,) = await entries.of(found(mail), 5, details=1)
    (again,) = await entries.of(found(mail), 5, details=1)
    assert first.content == "(its details cannot be read: FileNotFoundError)"
    assert again.content == "There again."


async def test_words_that_were_cleaned_stay_clean_and_the_rest_is_that_of_the_search() -> None:
    watched = Watched()
    entries = watched.entries()
    mail = watched.row("mail", "evil text", category="evil things", parameters=("evil", "to"))
    for relevance in (0.5, 0.7):
        one = FoundCapability(
            row=mail, relevance=relevance, pulled_by="tool:other", edge="DEPENDS_ON"
        )
        other = FoundCapability(row=watched.row("other"), relevance=1.0)
        (_, entry) = await entries.of([other, one], 5, details=1)
        assert entry.found == replace(one, row=entry.found.row)
        assert entry.found.row.category == " things"
        assert entry.found.row.parameters == ("to",)


async def test_only_so_many_rows_and_characters_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched()
    entries, rows = watched.entries(), [watched.row(f"mail{at}", "x" * 100) for at in range(4)]
    monkeypatch.setattr(module, "ROWS", 3)
    for one in (*rows, rows[3], rows[1], rows[0]):
        await entries.of(found(one), 1, details=1)
    assert watched.read == ["mail0", "mail1", "mail2", "mail3", "mail0"]
    watched.read.clear()
    monkeypatch.setattr(module, "CONTENT_CHARS", 250)
    for one in (rows[2], rows[1], rows[2], rows[0], rows[1]):
        await entries.of(found(one), 1, details=1)
    assert watched.read == ["mail2", "mail1", "mail0", "mail1"]


@pytest.mark.parametrize("seed", range(8))
async def test_tiers_of_known_rows_are_those_of_new_ones(seed: int) -> None:
    """Whatever was shown before, and under whatever budgets, a tier says the same."""
    chance, watched, counter = random.Random(seed), Watched(), QuarterTokens()
    rows = [
        watched.row(
            f"row{at}",
            "A word, evil or not. " * chance.choice((1, 40, 700)),
            category=chance.choice(("", "evil", "office")),
            parameters=tuple(f"parameter_{number}" for number in range(chance.randrange(20))),
            required_tools=chance.choice(((), ("row0",))),
            kind=chance.choice(("tool", "skill")),
        )
        for at in range(12)
    ]
    kept = watched.entries()
    for _ in range(60):
        hits = found(*chance.sample(rows, chance.randrange(1, 6)))
        other = chance.choice(rows)
        if all(one.row is not other for one in hits):
            hits.append(
                FoundCapability(
                    row=other, relevance=0.1, pulled_by=hits[0].row.id, edge="DEPENDS_ON"
                )
            )
        made = Assembler(
            TierBudgets(tier2=chance.choice((150, 2000)), entry=chance.choice((20, 50))), counter
        )
        offered = [one.row.name for one in hits if chance.random() < 0.5]
        known = await kept.of(hits, 5, details=2)
        new = await watched.entries().of(hits, 5, details=2)
        assert made.tier1(known) == made.tier1(new)
        assert made.tier2(known, offered=offered) == made.tier2(new, offered=offered)
