"""The cards of a gateway: read from folders and URLs, watched, looked through, and pinned."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from hookgate import EGRESS, Card, Egress, Event, HookgateError, Host, PluginInfo, Rejected, Subject
from hookgate.builtin_plugins.awareness.cards.folders import (
    CARD_BYTES,
    CardFolder,
    CardScan,
    card_left_out,
    folders_of,
    parse_card,
    scan,
)
from hookgate.builtin_plugins.awareness.settings import AwarenessSettings, RemoteCard
from hookgate.kit.acceptance.acceptances import AcceptanceBook
from hookgate.kit.content.documents import DocumentReading
from hookgate.kit.content.files import decoded, write_whole
from hookgate.kit.content.folders import ContentFolder
from hookgate.kit.content.problems import ContentError, Problem, brief
from hookgate.kit.content.workspaces import CARDS
from hookgate.kit.modules import httpx

TIMEOUT = 10.0
"""Seconds that one card may take; a source that does not answer must not hold up a start."""


async def fetched(
    sources: Sequence[RemoteCard], egress: Egress | None, kept: Path
) -> list[DocumentReading[Card]]:
    """Return a reading of every source, in their order. It raises nothing.

    What has the pinned digest is kept, so that a source which is away later costs nothing, and
    is never asked again.

    Args:
        sources: The sources.
        egress: The way out; None where no plugin provides one.
        kept: The folder in which files are kept, by their digest.
    """
    return list(await asyncio.gather(*(_fetch(one, egress, kept) for one in sources)))


async def _fetch(source: RemoteCard, egress: Egress | None, kept: Path) -> DocumentReading[Card]:
    path = kept / f"{source.sha256}.md"
    raw = await asyncio.to_thread(_read, path)
    unkept: tuple[Problem, ...] = ()
    try:
        if raw is None or _digest(raw) != source.sha256:
            raw = await _ask(source, egress)
            unkept = await asyncio.to_thread(_keep, path, raw, source)
        text = decoded(raw, source.url, max_bytes=CARD_BYTES)
    except ContentError as error:
        return DocumentReading(problems=(error.problem,))
    reading = await asyncio.to_thread(
        parse_card, text, source.url, origin="configured", trusted=False, strict=True
    )
    return replace(reading, problems=(*unkept, *reading.problems))


async def _ask(source: RemoteCard, egress: Egress | None) -> bytes:
    if egress is None:
        raise ContentError(_wrong(source, "no way out", "the plugin `egress`"))
    try:
        async with egress.client(
            [source.url], name="awareness", timeout=TIMEOUT, max_bytes=CARD_BYTES
        ) as client:
            response = await client.get(source.url)
    except (HookgateError, httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise ContentError(_wrong(source, f"no answer ({error})")) from error
    if not response.is_success:
        # Redirects are not followed: what is pinned is this URL.
        answer = f"the answer {response.status_code} {response.reason_phrase}"
        raise ContentError(_wrong(source, answer, "a card, at this very URL"))
    found = _digest(response.content)
    if found != source.sha256:
        raise ContentError(
            _wrong(
                source,
                f"a file with the digest {found}",
                f"the pinned digest {source.sha256}: look at what has changed, and pin that",
            )
        )
    return response.content


def _keep(path: Path, raw: bytes, source: RemoteCard) -> tuple[Problem, ...]:
    try:
        write_whole(path, raw, durable=True)
    except OSError as error:
        # It is the pinned card all the same; it is fetched again the next time.
        problem = _wrong(source, f"no room to keep it ({error})", f"a folder to write to: {path}")
        return (replace(problem, severity="warning"),)
    return ()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _wrong(source: RemoteCard, found: str, expected: str = "a card") -> Problem:
    return Problem(file=source.url, found=found, expected=expected)


# -- shelf -----------------------------------------------------------------------

# The cards of a gateway: read from folders and URLs, watched, looked through, and pinned.

CARD = "card"
"""What cards are called among all that is accepted."""


class CardChange(NamedTuple):
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

    def compare(self, cards: Iterable[Card]) -> tuple[list[Card], list[CardChange]]:
        """Return the cards that are new, for `keep`, and those that have changed."""
        there = {card.id: card for card in cards}
        new, changed = self.kept.news(CARD, map(self._subject, there.values()))
        known = self.kept.of(CARD)
        changes = [CardChange(there[one.name], known[one.name].seen, one) for one in changed]
        return [there[one.name] for one in new], changes

    async def keep(self, new: Iterable[Card], changes: Iterable[CardChange]) -> None:
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


# -- shelf -----------------------------------------------------------------------

# The cards of a gateway: read from folders and URLs, watched, looked through, and pinned.

SOURCE = "awareness"
"""The name under which the cards of folders and URLs are registered: the plugin's."""

REJECTED = "cards rejected"
CHANGED = "cards changed"
"""What `status` calls what was found in cards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What was found in the cards that there are.

    Attributes:
        rejected: Why a card reaches no model, by its id.
        warned: What was found in trusted cards that are used all the same, by id.
        differing: Ids of the cards that are not the ones that were approved.
    """

    rejected: Mapping[str, str] = field(default_factory=dict)
    warned: Mapping[str, str] = field(default_factory=dict)
    differing: tuple[str, ...] = ()


class CardRegistry(ContentFolder["tuple[Card, ...]"]):
    """Reads cards, and keeps what it knows of them.

    Attributes:
        settings: The plugin's settings as they are now.
        pins: What was approved; None before the plugin is open.
        review: What was found in the cards when they were last looked through.
    """

    part = "cards"
    file = "card file"
    brought = CARDS

    def __init__(self, settings: AwarenessSettings, *, workspace: Path | None = None) -> None:
        super().__init__((), workspace=workspace, debounce_ms=settings.debounce_ms)
        self.settings = settings
        self.pins: Pins | None = None
        self.review = Review()
        self._scan = CardScan()
        self._judging = asyncio.Lock()
        self._judged = -1
        self._warnings: dict[str, tuple[Card, str]] = {}

    def folders(
        self, home: Path, accepted: Path | None = None, plugins: Sequence[PluginInfo] = ()
    ) -> tuple[CardFolder, ...]:
        """Return the folders that are read, the most important one first.

        Args:
            home: The gateway's home folder.
            accepted: Where what the workspace brings is read, if somebody has accepted it.
            plugins: The plugins that run.
        """
        return folders_of(
            home=home,
            workspace=self.workspace,
            dirs=self.settings.dirs,
            allow_workspace_cards=self.settings.allow_workspace_cards,
            allow_user_capabilities=self.settings.allow_user_capabilities,
            accepted=accepted,
            plugins=plugins,
        )

    # -- reading -----------------------------------------------------------

    def paths(self, host: Host) -> Sequence[Path]:
        """Return the folders to watch."""
        folders = self.folders(host.settings.home, plugins=host.plugins())
        return [folder.path for folder in folders]

    def reads_workspace(self, host: Host) -> bool:
        """Whether the settings allow cards of the workspace."""
        return self.settings.allow_workspace_cards

    async def read(
        self, host: Host, accepted: Path | None
    ) -> tuple[tuple[Card, ...], Sequence[Problem]]:
        """Read the folders and the URLs again."""
        folders = self.folders(host.settings.home, accepted, host.plugins())
        self._scan = await asyncio.to_thread(scan, folders, self._scan)
        kept = host.settings.home / "awareness" / "sources"
        readings = await fetched(self.settings.sources, host.get(EGRESS), kept)
        problems = list(self._scan.problems)
        cards = {card.id: card for card in self._scan.cards}
        for reading in readings:
            problems += reading.problems
            if (card := reading.one) is not None:
                first = cards.setdefault(card.id, card)
                if first is not card:
                    problems.append(card_left_out(card, first))
        # Shipped cards tell of builtins: one that does not run takes its card along.
        off = {
            info.name
            for info in host.plugins(every=True)
            if info.origin == "builtin" and info.state != "running"
        }
        found = (one for one in cards.values() if one.origin != "repo" or one.id not in off)
        return tuple(found), problems

    def publish(self, host: Host, before: Sequence[Card]) -> None:
        """Register the cards, and say what has changed."""
        host.cards.replace(SOURCE, self.found)
        known = {card.id: card for card in before}
        now = {card.id: card for card in self.found}
        data = {
            "added": sorted(now.keys() - known.keys()),
            "removed": sorted(known.keys() - now.keys()),
            "changed": sorted(i for i in now.keys() & known.keys() if now[i] != known[i]),
        }
        host.log.info("cards reloaded", **data)
        host.events.publish(Event("cards_reloaded", data, scope="read"))

    async def settle(self, host: Host) -> None:
        """Register the cards again where a reload has brought what it had read before a change."""
        async with self._reading:
            left_out = {name for owner, name in host.cards.clashes if owner == SOURCE}
            wanted = {card.id: card for card in self.found if card.id not in left_out}
            there = {
                name: card
                for name, card in host.cards.view().items()
                if host.cards.source_of(name) == SOURCE
            }
            if wanted != there:
                host.cards.replace(SOURCE, self.found)

    # -- what is in them ---------------------------------------------------

    async def judge(self, host: Host) -> None:
        """Look through all cards that there are, from wherever; say what was found.

        A card that is rejected reaches no model in any case: this says it before a turn asks.

        Raises:
            Exception: Pins could not be kept, or a change not be written into the audit. What
                was found is said all the same; the next call tries it again.
        """
        async with self._judging:
            await self._judge(host)

    async def reviewed(self, host: Host) -> Review:
        """Return what was found in the cards that there are now, looking where nobody has yet."""
        async with self._judging:
            if self._judged != host.cards.version:
                try:
                    await self._judge(host)
                except Exception as error:  # noqa: BLE001 - store and audit may be anybody's
                    host.log.warning("the cards could not be looked through", error=repr(error))
            return self.review

    async def _judge(self, host: Host) -> None:
        version, cards = host.cards.version, list(host.cards.view().values())
        failure: Exception | None = None
        try:
            if self.pins is not None:
                await self._check_pins(host, self.pins, cards)
        except Exception as error:  # noqa: BLE001 - raised below
            failure = error
        rejected: dict[str, str] = {}
        warned: dict[str, str] = {}
        for card in cards:
            safe = await host.sanitize(card)
            if isinstance(safe, Rejected):
                rejected[card.id] = safe.reason
            elif card.trusted and (why := await self._warning(host, card)):
                warned[card.id] = why
        self._warnings = {i: told for i, told in self._warnings.items() if i in host.cards.view()}
        new = {card: why for card, why in warned.items() if self.review.warned.get(card) != why}
        for card_id, why in new.items():
            host.log.warning("a trusted card is suspicious", card=card_id, why=why)
        differing = self.pins.differing(cards) if self.pins is not None else []
        self.review = Review(
            rejected=rejected,
            warned=warned,
            differing=tuple(sorted(card.id for card in differing)),
        )
        self._judged = version
        self._say_review(host)
        if failure is not None:
            raise failure

    async def approve(self, cards: Sequence[Card], *, by: str) -> Sequence[Subject]:
        """Approve `cards` as they are now; return those that were not approved before."""
        assert self.pins is not None, "the plugin is open"
        # Not while they are looked through: what was compared before must not be kept after.
        async with self._judging:
            return await self.pins.approve(cards, by=by)

    async def _warning(self, host: Host, card: Card) -> str:
        """Return what would reject this trusted card if it were a stranger's; "" for nothing."""
        known = self._warnings.get(card.id)
        if known is None or known[0] != card:
            safe = await host.sanitize(replace(card, trusted=False))
            # Without findings it is not the text that is wrong: nobody sanitizes, say.
            why = safe.reason if isinstance(safe, Rejected) and safe.findings else ""
            known = self._warnings[card.id] = (card, why)
        return known[1]

    async def _check_pins(self, host: Host, pins: Pins, cards: Sequence[Card]) -> None:
        # Another gateway on the same store may have approved some meanwhile.
        await pins.kept.load()
        # Digests of thousands of cards take longer than the event loop may be held.
        new, changes = await asyncio.to_thread(pins.compare, cards)
        for change in changes:
            data = {
                "card": change.card.id,
                "source": change.card.source_ref,
                "before": change.before,
                "after": change.seen.digest,
                "approved": pins.accepted(change.card),
            }
            host.log.warning("a card has changed", **data)
            host.events.publish(Event("card_changed", data, scope="read"))
            await host.record("card_changed", **data)
        # Last: what the audit does not have yet is found again the next time.
        await pins.keep(new, changes)

    def _say_review(self, host: Host) -> None:
        review = self.review
        told = [f"{card} ({why})" for card, why in sorted(review.rejected.items())]
        host.standing(REJECTED).bad(f"no model sees {brief(told)}" if told else "")
        if not review.differing:
            host.standing(CHANGED).note("")
            return
        strict = self.settings.pin == "strict"
        one = len(review.differing) == 1
        what = "waits to be approved" if one else "wait to be approved"
        if not strict:
            verb = "is used, and was" if one else "are used, and were"
            what = f"{verb} not approved like this"
        named = brief(review.differing, ", ")
        then = "`hookgate accept give card ID`, or `--all`"
        host.standing(CHANGED).note(f"{named} {what}: look, then {then}")

    def waiting(self, cards: Mapping[str, Card]) -> frozenset[str]:
        """Return the ids of the cards that nobody has approved in their present form."""
        if self.settings.pin == "note":
            return frozenset()
        return frozenset(cards) if self.pins is None else self.pins.waiting(cards.values())
