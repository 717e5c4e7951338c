"""The plugin ``sanitizer``: cleans and judges what others wrote, before a model reads it."""

from __future__ import annotations

from collections.abc import Collection
from threading import Lock

from hookgate import Card, Rejected
from hookgate.builtin_plugins.sanitizer.sanitizer import SanitizerSettings, judged
from hookgate.hookspecs import blocking, hookimpl


class Plugin:
    """Takes the frame of a conversation out of foreign text, and rejects orders to a model."""

    Settings = SanitizerSettings

    def __init__(self, settings: SanitizerSettings) -> None:
        self._settings = settings
        self._allowed = frozenset(settings.allow)
        self._one = Lock()

    def take_settings(self, settings: SanitizerSettings) -> Collection[str]:
        """Judge by other settings from now on; return what takes a restart: nothing."""
        self._settings, self._allowed = settings, frozenset(settings.allow)
        return ()

    @hookimpl
    @blocking
    def sanitize_card(self, card: Card) -> Card | Rejected | None:
        """Take from a card what could pass for the frame of a conversation; judge the rest."""
        # Two at a time take as long as one after the other, and the event loop waits for both.
        with self._one:
            return judged(card, self._settings.threshold_of(card.id), self._allowed)
