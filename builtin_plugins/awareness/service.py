"""What the parts of the plugin share: settings, cards, switch, router and matcher."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from hookgate import EMBEDDER, Card, Embedder, EmbeddingError, Host, TurnError, not_found
from hookgate.builtin_plugins.awareness.cards.shelf import CARD, CardRegistry, Pins, pin_digest
from hookgate.builtin_plugins.awareness.selection.injector import PREFIX, Rules
from hookgate.builtin_plugins.awareness.selection.nearness import SentenceVectors
from hookgate.builtin_plugins.awareness.selection.router import TagRouter
from hookgate.builtin_plugins.awareness.selection.selector import CardMatcher
from hookgate.builtin_plugins.awareness.settings import AwarenessSettings, ProfileSettings
from hookgate.builtin_plugins.awareness.switch import CardSwitch
from hookgate.kit.acceptance.acceptances import AcceptanceDesk, WaitingSubject, acceptances_of
from hookgate.kit.content.files import write_whole
from hookgate.tasks import stop

FILE = "CAPABILITIES.md"

PART = "awareness runtime file"
"""What `status` calls a file that cannot be written."""

SECONDS = 1.0
"""A file that takes longer is told; and so long the end of the gateway waits for the rest."""

WAITING = 1024
"""So many sessions' files may wait to be written; of more, the oldest ones are not written."""

_DAY = 86_400.0


def place_of(home: Path, session: str) -> Path:
    """Return the path of a session's file: each session has a folder of its own.

    Args:
        home: The gateway's home folder.
        session: The session's key. Its SHA-256 names the folder: keys hold what peers sent.
    """
    name = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return home / "runtime" / name / FILE


def write(path: Path, text: str) -> None:
    """Put `text` there, whole, for nobody else to read. It blocks.

    It is not synced to the disk: it is there to be looked at, not to be kept.

    Raises:
        OSError: It could not be written.
    """
    write_whole(path, text.encode("utf-8", "replace"), durable=False)


def prune(home: Path, keep_days: float, now: float | None = None) -> int:
    """Remove the folders of sessions that had no card for `keep_days`; return how many.

    It blocks. Nothing is removed but what `write` puts there.
    """
    now = time.time() if now is None else now
    removed = 0
    try:
        folders = list((home / "runtime").iterdir())
    except OSError:
        return 0
    for folder in folders:
        try:
            old = (folder / FILE).stat().st_mtime < now - keep_days * _DAY
        except OSError:
            continue
        if old and not folder.is_symlink():
            with suppress(OSError):  # what cannot be removed is tried again at the next start
                (folder / FILE).unlink()
                folder.rmdir()
                removed += 1
    return removed


class ShownFiles:
    """Writes the files beside the turns, one at a time: no turn waits, or fails, for one.

    Of a session's file the newest text counts, and it is the one that stands there at last. A
    disk that hangs holds one thread, not one for each session.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._texts: dict[Path, str] = {}
        self._worker: asyncio.Task[None] | None = None
        self._writing: tuple[Path, asyncio.Future[None]] | None = None

    def put(self, path: Path, text: str) -> None:
        """Have `text` written to `path`, in place of one that waits."""
        self._texts.pop(path, None)
        self._texts[path] = text
        if len(self._texts) > WAITING:
            lost = next(iter(self._texts))
            del self._texts[lost]
            self._tell(lost, "too many others wait")
        if self._worker is None or self._worker.done():
            self._worker = self._host.spawn(self._write_all(), name="awareness.shown")

    async def close(self) -> None:
        """Write what waits, for `SECONDS` at most."""
        await stop(self._worker)
        try:
            async with asyncio.timeout(SECONDS):
                await self._write_all()
        except TimeoutError:
            self._host.log.warning("files of sessions are not written", part=PART)

    async def _write_all(self) -> None:
        await self._settle()
        while self._texts:
            path = next(iter(self._texts))
            text = self._texts.pop(path)
            self._writing = path, asyncio.ensure_future(asyncio.to_thread(write, path, text))
            await self._settle()

    async def _settle(self) -> None:
        """Wait for the file that is being written, and say what became of it.

        It is never cancelled: its thread would go on, and could end behind a newer text.
        """
        if self._writing is None:
            return
        path, writing = self._writing
        done, _ = await asyncio.wait([writing], timeout=SECONDS)
        if not done:
            self._tell(path, "it takes too long")
            await asyncio.wait([writing])
        self._writing = None
        if (error := writing.exception()) is None:
            self._host.standing(PART).good()
        else:
            self._tell(path, str(error))

    def _tell(self, path: Path, why: str) -> None:
        self._host.standing(PART).bad(f"{path} cannot be written: {why}")


# -- the service -------------------------------------------------------------------

AT_START = ("watch", "debounce_ms", "records", "keep_days")
"""Settings that are looked at when the plugin opens, and not again."""

MINIMAL = ProfileSettings(cards=("awareness", "policy"), budget=400)
"""The profile that is there already: what an agent can do at all, and what it may."""

MEANING = "awareness meaning"
REVIEW = "awareness review"
"""What `status` calls the embedding of tags, and the look through all cards."""

FIRST_LOOK_SECONDS = 2.0
"""Seconds after the first cards have come at which they are looked through."""

RETRY_SECONDS = 60.0
"""After so long, what went wrong in the background is tried again."""

SETS = 4
"""Sets of cards that are kept ready: turns that run use the ones that they began with."""

AGENTS = 256
"""Agents of which it is kept what the settings say of their cards."""


@dataclass
class _Made:
    """What was made of one set of cards."""

    cards: Mapping[str, Card]
    router: TagRouter
    withheld: dict[str, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def matcher(self) -> CardMatcher:
        """The matcher of all cards. The first time it takes a while where there are many."""
        return CardMatcher(self.cards)


class Awareness:
    """The plugin without its hooks.

    Attributes:
        settings: The settings as they are now.
        control: The switch and the records.
        registry: The cards.
        host: The gateway; there once it is open.
        shown: The files that show what models got to read; there once it is open.
    """

    host: Host
    shown: ShownFiles

    def __init__(self, settings: AwarenessSettings) -> None:
        self.settings = self._started = settings
        self.control = CardSwitch(settings)
        self.registry = CardRegistry(settings)
        self._vectors = SentenceVectors()
        self._made: tuple[_Made, ...] = ()
        self._rules: dict[str, Rules] = {}

    # -- opening -----------------------------------------------------------

    async def open(self, host: Host) -> None:
        """Read what earlier runs left."""
        self.host = host
        self.shown = ShownFiles(host)
        # The examples of the tags take seconds to embed; a start embeds what is new alone.
        self._vectors = SentenceVectors(host.settings.home / "awareness" / "sentences.vectors")
        book = await acceptances_of(host)
        book.desks[CARD] = AcceptanceDesk(self._waiting, self.accept)
        self.registry.pins = Pins(book, self.settings.pin)
        await self.control.open(host)
        keep = self.settings.keep_days
        await asyncio.to_thread(prune, host.settings.home, keep)

    async def look_through(self, changed: asyncio.Event) -> None:
        """Look through the cards, and embed the tags, after each change; until cancelled.

        What fails - the store, the audit, the model - is said, and tried again.
        """
        # Whoever starts a gateway for one message need not wait for this, nor pay for it: what
        # a turn shows is judged by itself.
        await changed.wait()
        await asyncio.sleep(FIRST_LOOK_SECONDS)
        wait: float | None = None
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await changed.wait()
            changed.clear()
            good = await self._looked_through()
            wait = None if await self.prepare() and good else RETRY_SECONDS

    async def _looked_through(self) -> bool:
        try:
            await self.registry.settle(self.host)
            await self.registry.judge(self.host)
        except Exception as error:  # noqa: BLE001 - store and audit may be anybody's
            self.host.standing(REVIEW).bad(f"the cards could not be looked through: {error!r}")
            return False
        self.host.standing(REVIEW).good()
        return True

    async def prepare(self) -> bool:
        """Make ready what turns need, and embed what the tags mean; say whether it is done."""
        embedder = self.embedder()
        made = self.made(self.host.cards.view())
        await asyncio.to_thread(lambda: made.matcher)
        router = made.router
        if embedder is None:
            return True
        try:
            await router.prepare(embedder)
        except Exception as error:  # noqa: BLE001 - it may be anybody's; words alone find much
            self._without_meaning(error)
            return False
        self.host.standing(MEANING).good()
        if self._vectors.problem:
            self.host.log.warning("vectors of sentences", problem=self._vectors.problem)
        return True

    def _without_meaning(self, error: Exception) -> None:
        why = str(error) if isinstance(error, EmbeddingError) else repr(error)
        self.host.standing(MEANING).bad(f"messages are tagged by their words alone: {why}")

    def take_settings(self, settings: AwarenessSettings) -> list[str]:
        """Take over changed settings; return the keys that wait for a restart.

        Folders are read again by the reload that brings them.
        """
        waiting = [key for key in AT_START if getattr(settings, key) != getattr(self._started, key)]
        self.settings = settings
        self.control.take_settings(settings)
        self.registry.settings = settings
        if self.registry.pins is not None:
            self.registry.pins.mode = settings.pin
        self._made = ()
        self._rules = {}
        return waiting

    # -- what a turn needs ---------------------------------------------------

    def embedder(self) -> Embedder | None:
        """Return the embedder, where meaning is asked for and it has a model."""
        embedder = self.host.get(EMBEDDER) if self.settings.meaning else None
        return embedder if embedder is not None and embedder.dimension else None

    def rules(self, agent: str) -> Rules:
        """Return what the settings say of the cards of `agent`."""
        known = self._rules.get(agent)
        if known is None:
            if len(self._rules) >= AGENTS:
                self._rules.clear()
            known = self._rules[agent] = self._read_rules(agent)
        return known

    def withheld(self, agent: str, cards: Mapping[str, Card]) -> frozenset[str]:
        """Return the ids of the rows of those `cards` that a turn of `agent` must not show."""
        kept = self.made(cards).withheld
        hidden = kept.get(agent)
        if hidden is None:
            if len(kept) >= AGENTS:
                kept.clear()
            hidden = kept[agent] = _rows(self.rules(agent).withheld(cards))
        waiting = self.registry.waiting(cards)
        return hidden | _rows(waiting) if waiting else hidden

    def _read_rules(self, agent: str) -> Rules:
        own = self.settings.agents.get(agent)
        name = own.capability_profile if own is not None else ""
        profile = None
        if name:
            profile = {"minimal": MINIMAL, **self.settings.profiles}.get(name)
            if profile is None:
                # A name that was misspelt must not bring everything.
                profile = ProfileSettings(cards=())
        return Rules.of(self.settings, own, profile)

    def made(self, cards: Mapping[str, Card]) -> _Made:
        """Return router and matcher for `cards`; made once for each set."""
        for known in self._made:
            if known.cards is cards:
                return known
        for known in self._made:
            if dict(known.cards) == dict(cards):
                # Another view of the same cards takes the place of the one before.
                known.cards = cards
                return known
        router = TagRouter(self.settings.tags, tuple(cards.values()), vectors=self._vectors)
        made = _Made(cards, router)
        self._made = (made, *self._made[: SETS - 1])
        return made

    async def tags(
        self, text: str, cards: Mapping[str, Card], *, patient: bool = True
    ) -> dict[str, str]:
        """Return the router tags of a message, and by what it has each.

        Args:
            text: The message.
            cards: The cards whose tags count.
            patient: Whether to wait for a model that is not loaded yet. A turn does not.
        """
        router = self.made(cards).router
        found = dict.fromkeys(sorted(router.words(text)), "words")
        embedder = self.embedder()
        if embedder is None or not router.ready(embedder) or not text.strip():
            return found
        # An embedder of somebody else's may not know whether it is loaded.
        if not patient and not getattr(embedder, "loaded", True):
            return found
        try:
            meant = await router.meaning(text, embedder)
        except Exception as error:  # noqa: BLE001 - it may be anybody's; words alone find much
            self._without_meaning(error)
            return found
        self.host.standing(MEANING).good()
        return {**dict.fromkeys(sorted(meant), "meaning"), **found}

    # -- cards ---------------------------------------------------------------

    def card_row(self, card: Card) -> dict[str, Any]:
        """Return what `cards list` shows of a card."""
        review = self.registry.review
        state, why = "ready", ""
        if card.id in review.rejected:
            state, why = "rejected", review.rejected[card.id]
        elif card.id in self.registry.waiting({card.id: card}):
            state = "waiting"
        elif card.id in review.differing:
            state = "changed"
        elif card.id in review.warned:
            state, why = "warned", review.warned[card.id]
        return {
            "id": card.id,
            "digest": pin_digest(card),
            "whose": card.origin,
            "priority": card.priority,
            "router_tags": card.triggers.router_tags,
            "state": state,
            "why": why,
        }

    async def _waiting(self) -> Sequence[WaitingSubject]:
        # Before they are looked through no card is known to be the one that was approved.
        review, cards = await self.registry.reviewed(self.host), self.host.cards.view()
        why = "it is not the card that was approved"
        there = [cards[name] for name in review.differing if name in cards]
        return [WaitingSubject(card.id, pin_digest(card), why) for card in there]

    async def accept(self, name: str, *, by: str, digest: str = "") -> tuple[str, ...]:
        """Approve one card as it is now; return its id, unless it was approved before.

        Raises:
            TurnError: There is none, or it is another one than was shown.
        """
        card = self.host.cards.view().get(name)
        if card is None:
            raise not_found("card", name, "`hookgate cards list` shows all")
        if digest and pin_digest(card) != digest:
            raise TurnError.invalid(
                f"the card {name!r} is another one than was shown",
                "look at it again; `hookgate cards list` shows its digest",
            )
        return await self.approve([card], by=by)

    async def approve(self, cards: Sequence[Card], *, by: str) -> tuple[str, ...]:
        """Approve `cards` as they are now; return the ids of those that were not before."""
        host = self.host
        approved = await self.registry.approve(cards, by=by)
        for one in approved:
            await host.record("card_approved", card=one.name, digest=one.digest, by=by)
        await self.registry.judge(host)
        return tuple(sorted(one.name for one in approved))


def _rows(cards: Iterable[str]) -> frozenset[str]:
    """Return the ids that cards have among all capabilities."""
    return frozenset(f"{PREFIX}{card}" for card in cards)
