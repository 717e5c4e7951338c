"""The plugin ``sanitizer``: cleans and judges what others wrote, before a model reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookgate.builtin_plugins.sanitizer.sanitizer import judged
from hookgate.hookspecs import blocking, hookimpl

if TYPE_CHECKING:
    from hookgate.core.domain.descriptors import Card, Rejected


class Plugin:
    """Takes the frame of a conversation out of foreign text, and rejects orders to a model."""

    @hookimpl
    @blocking
    def sanitize_card(self, card: Card) -> Card | Rejected | None:
        """Take from a card what could pass for the frame of a conversation; judge the rest."""
        return judged(card)
