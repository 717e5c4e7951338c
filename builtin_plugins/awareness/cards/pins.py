"""Digest pinning: a card that is not the one that was approved is named, or waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from hookgate import Card

if TYPE_CHECKING:
    from hookgate.builtin_plugins.awareness.cards.tables import Pin
    from hookgate.kit.records import Records


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A card that is seen in this form for the first time.

    Attributes:
        pin: What is known of it now.
        before: The digest that was seen before.
    """

    pin: Pin
    before: str


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

    def __init__(self, store: Records[Pin], mode: Literal["note", "strict"]) -> None:
        self.mode = mode
        self._store = store
        self._pins: dict[str, Pin] = {}
        self._digests: dict[str, tuple[Card, str]] = {}

    async def load(self) -> None:
        """Read what was pinned by earlier runs, and by other gateways on the same store."""
        self._pins = {pin.id: pin for pin in await self._store.all()}

    async def check(self, cards: Iterable[Card], now: str) -> Sequence[Change]:
        """Take note of the cards that there are; return those that have changed.

        Args:
            cards: All cards.
            now: The time, ISO 8601 in UTC.
        """
        fresh, changes = self.compare(cards, now)
        await self.keep(fresh)
        return changes

    def compare(self, cards: Iterable[Card], now: str) -> tuple[Sequence[Pin], Sequence[Change]]:
        """Return the pins of cards that are new or have changed, for `keep`, and the changes.

        Args:
            cards: All cards.
            now: The time, ISO 8601 in UTC.
        """
        fresh: list[Pin] = []
        changes: list[Change] = []
        for card in cards:
            digest, known = self._digest(card), self._pins.get(card.id)
            if known is None:
                approved = digest if card.trusted or self.mode == "note" else ""
                fresh.append(self._pin(card, approved, digest, now))
            elif known.seen != digest:
                news = {"seen": digest, "source": card.source_ref, "changed": now}
                pin = known.model_copy(update=news)
                fresh.append(pin)
                changes.append(Change(pin=pin, before=known.seen))
        return fresh, changes

    async def keep(self, pins: Sequence[Pin]) -> None:
        """Keep `pins` in place of those of the same ids."""
        await self._store.save(pins)
        self._pins.update({pin.id: pin for pin in pins})

    def differing(self, cards: Iterable[Card]) -> list[Card]:
        """Return the cards that are not, or not yet known to be, the approved ones."""
        differing = []
        for card in cards:
            pin = self._pins.get(card.id)
            if pin is None or pin.approved != self._digest(card):
                differing.append(card)
        return differing

    def waiting(self, cards: Iterable[Card]) -> frozenset[str]:
        """Return the ids of the cards that must not be shown before they are approved."""
        if self.mode == "note":
            return frozenset()
        return frozenset(card.id for card in self.differing(cards))

    async def approve(self, cards: Iterable[Card], now: str) -> Sequence[Pin]:
        """Approve `cards` as they are now; return the pins that this has changed."""
        pins = [
            self._pin(card, self._digest(card), self._digest(card), now)
            for card in self.differing(cards)
        ]
        await self.keep(pins)
        return pins

    def _digest(self, card: Card) -> str:
        known = self._digests.get(card.id)
        if known is None or known[0] is not card:
            known = self._digests[card.id] = (card, pin_digest(card))
        return known[1]

    def _pin(self, card: Card, approved: str, seen: str, now: str) -> Pin:
        source = card.source_ref
        return self._store.row(id=card.id, approved=approved, seen=seen, source=source, changed=now)
