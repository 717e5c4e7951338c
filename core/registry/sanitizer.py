"""`Host.sanitize`: what a model may see of third-party text, decided once for each text."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from hookgate import hookspecs
from hookgate.core.domain.descriptors import Card, Rejected
from hookgate.core.domain.errors import HookError

if TYPE_CHECKING:
    from hookgate.core.host import Host

PART = "sanitizing"
"""What `status` calls this, where there is something to say."""

WAYS = 'enable the plugin sanitizer, or set `[context] unsanitized = "allow"`'

UNSANITIZED = f"no plugin sanitizes text of others: {WAYS}"
"""Why no model sees what others wrote, where that is so."""

CAPACITY = 4096
"""Verdicts that are remembered; the least recently used one goes first."""


class Sanitizer:
    """Runs `sanitize_card`, and remembers its verdicts by the card's digest.

    The set of plugins is fixed once a gateway has started, so the digest is key enough until
    the plugins may judge otherwise.

    Attributes:
        version: Grows each time when they may.
    """

    def __init__(self, host: Host) -> None:
        self.version = 0
        self._host = host
        self._verdicts: OrderedDict[str, Card | Rejected] = OrderedDict()

    def tell(self) -> None:
        """Say it where no plugin sanitizes, and what that means for text of others."""
        if self._host.hooks.implemented(hookspecs.sanitize_card):
            what = ""
        elif self._host.settings.context.unsanitized == "allow":
            what = "no plugin sanitizes: models see text of others as it is, as "
            what += "`[context] unsanitized` allows"
        else:
            what = f"no plugin sanitizes: no model sees text of others; {WAYS}"
        self._host.standing(PART).note(what)

    def reloaded(self, *, settings: bool) -> None:
        """Forget the verdicts at a reload after which plugins may judge otherwise.

        Args:
            settings: Whether a plugin has taken over changed settings.
        """
        hooks = self._host.hooks
        judges = {one.plugin for one in hooks.implementations(hookspecs.sanitize_card)}
        read_again = {one.plugin for one in hooks.implementations(hookspecs.reloading)}
        if settings or not judges.isdisjoint(read_again):
            self.version += 1
            self._verdicts.clear()

    async def sanitize(self, card: Card) -> Card | Rejected:
        """Return `card` as a model may see it, or why it may not.

        A sanitizer that fails drops this card; that verdict is not remembered. Where there is no
        sanitizer, cards that are trusted pass, and others if the settings allow it.
        """
        if not self._host.hooks.implemented(hookspecs.sanitize_card):
            if card.trusted or self._host.settings.context.unsanitized == "allow":
                return card
            return Rejected(reason=UNSANITIZED)
        digest = card.digest
        known = self._verdicts.get(digest)
        if known is not None:
            self._verdicts.move_to_end(digest)
            return known
        version = self.version
        try:
            verdict: Card | Rejected = await self._host.hooks.fold(hookspecs.sanitize_card, card)
        except HookError as error:
            return Rejected(reason=f"a sanitizer failed: {error}")
        if version != self.version:
            # It was reached by the rules before a reload: good for who asked then, not to keep.
            return verdict
        self._verdicts[digest] = verdict
        if len(self._verdicts) > CAPACITY:
            self._verdicts.popitem(last=False)
        return verdict
