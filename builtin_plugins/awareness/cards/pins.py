"""Digest pinning: a card that is not the one that was approved is named, or waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from hookgate import Card, Subject

if TYPE_CHECKING:
    from hookgate.kit.acceptance.acceptances import AcceptanceBook


CARD = "card"
"""What cards are called among all that is accepted."""


class Change(NamedTuple):
    """A card that is seen in this form for the first time.

    Attributes:
        card: The card.
        before: The digest that was seen before.
        seen: What is seen now.
    """

    card: Card
    before: str
    seen: Subject


def pin_digest(card: Card) -> str:
    """Return the digest that is pinned: of all but the place, which an upgrade may change."""
    return replace(card, source_ref="").digest


class Pins:
    """Compares cards with what was approved.

    A card that is new is approved when it is first seen; in strict mode an untrusted one is
    not.

    Attributes:
        mode: ``note`` or ``strict``.
    """

    def __init__(self, kept: AcceptanceBook, mode: Literal["note", "strict"]) -> None:
        self.mode = mode
        self.kept = kept
        self._digests: dict[str, tuple[Card, str]] = {}

    def compare(self, cards: Iterable[Card]) -> tuple[list[Card], list[Change]]:
        """Return the cards that are new, for `keep`, and those that have changed."""
        there = {card.id: card for card in cards}
        new, changed = self.kept.news(CARD, map(self._subject, there.values()))
        known = self.kept.of(CARD)
        changes = [Change(there[one.name], known[one.name].seen, one) for one in changed]
        return [there[one.name] for one in new], changes

    async def keep(self, new: Iterable[Card], changes: Iterable[Change]) -> None:
        """Keep that these were seen: a new one counts unless strict mode says otherwise.

        Raises:
            StoreError: It cannot be kept.
        """
        trusted, others = list[Subject](), list[Subject]()
        for card in new:
            counts = card.trusted or self.mode == "note"
            (trusted if counts else others).append(self._subject(card))
        await self.kept.add(CARD, trusted)
        await self.kept.add(CARD, others, accepted=False)
        await self.kept.note(CARD, [change.seen for change in changes])

    def accepted(self, card: Card) -> bool:
        """Whether `card` is the one that was approved."""
        pin = self.kept.of(CARD).get(card.id)
        return pin is not None and pin.digest == self._digest(card)

    def differing(self, cards: Iterable[Card]) -> list[Card]:
        """Return the cards that are not, or not yet known to be, the approved ones."""
        return [card for card in cards if not self.accepted(card)]

    def waiting(self, cards: Iterable[Card]) -> frozenset[str]:
        """Return the ids of the cards that must not be shown before they are approved."""
        if self.mode == "note":
            return frozenset()
        return frozenset(card.id for card in self.differing(cards))

    async def approve(self, cards: Iterable[Card], *, by: str) -> Sequence[Subject]:
        """Approve `cards` as they are now; return those that were not approved before."""
        subjects = [self._subject(card) for card in self.differing(cards)]
        await self.kept.accept(CARD, subjects, by=by)
        return subjects

    def _digest(self, card: Card) -> str:
        known = self._digests.get(card.id)
        if known is None or known[0] is not card:
            known = self._digests[card.id] = (card, pin_digest(card))
        return known[1]

    def _subject(self, card: Card) -> Subject:
        return Subject(name=card.id, digest=self._digest(card))
