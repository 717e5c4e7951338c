"""Router tags: what a message is about, by its words and by its meaning.

Tags decide which cards a turn gets to see, and a card is worth its tokens in few turns only. So
keywords are phrases that are seldom meant otherwise, and a meaning counts where a message is
near to the examples of a tag, and not as near to messages that are about something else.
"""

from __future__ import annotations

import asyncio
import re
import tomllib
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Generic, TypeVar

from hookgate import Card, Embedder
from hookgate.builtin_plugins.awareness.selection.nearness import Nearness, SentenceVectors
from hookgate.kit.modules import np

UNRELATED = "unrelated"

EXAMPLE_WORDS = 4
"""A keyword of so many words says by itself what a tag is about; a shorter one may mean many
things."""


def default_tags() -> Mapping[str, tuple[str, ...]]:
    """Return the router tags that come with hookgate, and the keywords of each.

    A message with a keyword of a tag has the tag.
    """
    return _texts("router_keywords.toml")


def examples() -> Mapping[str, tuple[str, ...]]:
    """Return the examples of each tag, and unrelated messages."""
    return _texts("router_examples.toml")


@cache
def _texts(file: str) -> Mapping[str, tuple[str, ...]]:
    data = tomllib.loads(Path(__file__).with_name(file).read_text("utf-8"))
    return MappingProxyType({name: tuple(texts) for name, texts in data.items()})


class TagRouter:
    """Names the router tags of messages. Made once for each set of tags and cards.

    A tag of the settings takes the place of the one with its name; one without keywords is
    switched off, for cards too. A tag that only cards name is found by its name, and by the
    meaning of their descriptions and longer keywords.

    Args:
        tags: The operator's tags, each with its keywords.
        cards: The cards, for tags that only they name.
        vectors: Keeps vectors from one router to the next.
        taught: What `examples` returned; read from its file where it is None.

    Attributes:
        tags: The names of all tags that a message can have.
    """

    def __init__(
        self,
        tags: Mapping[str, Sequence[str]] | None = None,
        cards: Collection[Card] = (),
        *,
        vectors: SentenceVectors | None = None,
        taught: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        given = dict(tags or {})
        taught = examples() if taught is None else taught
        known = {**default_tags(), **given}
        words = {name: keywords for name, keywords in known.items() if keywords}
        texts = {
            name: _long(keywords) if name in given else tuple(taught.get(name, ()))
            for name, keywords in known.items()
            if keywords
        }
        for name, own in _tags_of(cards).items():
            if name not in known:
                words[name] = (_spoken(name),)
                texts[name] = _said(own)
        self.tags = frozenset(words)
        self._words = KeywordIndex(words.items())
        self._names = tuple(name for name in texts if texts[name])
        self._texts = tuple(text for name in self._names for text in texts[name])
        self._counts = tuple(len(texts[name]) for name in self._names)
        self._unrelated = tuple(taught.get(UNRELATED, ()))
        self._vectors = vectors if vectors is not None else SentenceVectors()
        self._made: tuple[str, Nearness] | None = None

    def words(self, text: str) -> frozenset[str]:
        """Return the tags of which `text` holds a keyword as a word.

        The time grows with the length of `text` up to a bound; of a long text, the beginning
        and the end are searched.
        """
        return frozenset(self._words.owners(fold(text)))

    def ready(self, embedder: Embedder) -> bool:
        """Whether `meaning` would wait for nothing but the vector of its text."""
        if not self._names:
            return True
        return self._made is not None and self._made[0] == embedder.fingerprint

    async def prepare(self, embedder: Embedder) -> None:
        """Make the vectors of all examples, once for each model.

        Raises:
            EmbeddingError: The model could not be asked.
        """
        if not self._names or self.ready(embedder):
            return
        fingerprint = embedder.fingerprint
        matrix = await self._vectors.of([*self._texts, *self._unrelated], embedder)
        examples, unrelated = matrix[: len(self._texts)], matrix[len(self._texts) :]
        nearness = await asyncio.to_thread(Nearness, examples, self._counts, unrelated)
        self._made = (fingerprint, nearness)

    async def meaning(self, text: str, embedder: Embedder) -> frozenset[str]:
        """Return the tags whose examples mean what `text` means.

        Raises:
            EmbeddingError: The model could not be asked.
        """
        if not self._names or not text.strip():
            return frozenset()
        await self.prepare(embedder)
        vector = await embedder.embed_query(text)
        made = self._made
        if made is None or made[0] != embedder.fingerprint or not np.isfinite(vector).all():
            # The model was changed meanwhile: vectors of two models do not compare.
            return frozenset()
        return frozenset(self._names[at] for at in made[1].nearest(vector))


def _tags_of(cards: Iterable[Card]) -> dict[str, list[Card]]:
    found: dict[str, list[Card]] = {}
    for card in cards:
        for name in card.triggers.router_tags:
            found.setdefault(name, []).append(card)
    return found


def _spoken(name: str) -> str:
    """Return the name of a tag as it is said: ``cost-control`` is "cost control"."""
    return " ".join(name.replace("-", " ").replace("_", " ").split())


def _long(keywords: Iterable[str]) -> tuple[str, ...]:
    return tuple(keyword for keyword in keywords if len(keyword.split()) >= EXAMPLE_WORDS)


def _said(cards: Iterable[Card]) -> tuple[str, ...]:
    """Return the sentences by whose meaning the tag of some cards is found."""
    texts = [text for card in cards for text in (card.description, *_long(card.triggers.keywords))]
    return tuple(dict.fromkeys(text for text in texts if text.strip()))


# -- keywords --------------------------------------------------------------------

# Keywords in a message: found as whole words, in any script, in linear time.
#
# Messages and keywords are compared in one form: Unicode NFKC, without case, each run of white
# space one space. A keyword is searched as it is, never as a pattern, so nothing in it has to be
# escaped, and one that begins or ends with a symbol (``c++``, ``.env``) is found as well.

T = TypeVar("T")

SCANNED_CHARS = 4000
"""So many characters from the beginning of a message, and from its end, are searched. What
somebody asks stands in front of what was pasted or behind it."""

_SEAM = " \0 "
"""Between beginning and end; no keyword holds it."""

_QUOTES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u02bc": "'", "\0": " "})

# Scripts that put no space between words: Thai, Lao, Tibetan, Myanmar, Khmer, Kana, Bopomofo
# and Han. A keyword in one of them may stand anywhere.
_SPACELESS_RANGES = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3100-\u312f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)


@cache
def _spaceless() -> re.Pattern[str]:
    """Return what matches a character of such a script; made when the first message comes."""
    return re.compile(f"[{_SPACELESS_RANGES}]")


@cache
def _piece() -> re.Pattern[str]:
    """Return what matches a piece of a word.

    A keyword that holds a piece stands in no text that does not hold the same.
    """
    return re.compile(f"[^\\W{_SPACELESS_RANGES}]+")


def plain(text: str) -> str:
    """Return `text` in the form in which words are compared."""
    if text.isascii():
        folded = text.lower()
    else:
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.translate(_QUOTES).split())


@dataclass(frozen=True, slots=True)
class FoldedMessage:
    """What is searched of a message.

    Attributes:
        text: Its text, in the form in which words are compared.
        pieces: The pieces of its words.
    """

    text: str
    pieces: frozenset[str]


def fold(message: str) -> FoldedMessage:
    """Return what is searched of a message."""
    if len(message) <= 2 * SCANNED_CHARS:
        text = plain(message)
    else:
        text = plain(message[:SCANNED_CHARS]) + _SEAM + plain(message[-SCANNED_CHARS:])
    return FoldedMessage(text, frozenset(_piece().findall(text)))


def _in_word(character: str) -> bool:
    # A vowel sign or an accent is part of the word that it is written in.
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"


def _joins(inside: str, outside: str) -> bool:
    """Whether `outside` continues the word that `inside`, beside it, belongs to."""
    return _in_word(outside) and not (_spaceless().match(inside) or _spaceless().match(outside))


class Keywords:
    """A list of keywords, made ready to be searched for.

    Attributes:
        names: The keywords as they were written, without those that come to the same.
    """

    __slots__ = ("_anywhere", "_by_piece", "_places", "names")

    def __init__(self, keywords: Iterable[str]) -> None:
        wanted: dict[str, str] = {}
        for keyword in keywords:
            if folded := plain(keyword):
                wanted.setdefault(folded, " ".join(keyword.split()))
        self.names = tuple(wanted.values())
        self._places = {folded: place for place, folded in enumerate(wanted)}
        self._by_piece, self._anywhere = _by_piece(wanted)

    def __len__(self) -> int:
        return len(self.names)

    def held(self, message: FoldedMessage) -> bool:
        """Whether one of the keywords is in `message`."""
        possible = _possible(self._by_piece, self._anywhere, message)
        return any(_next(message.text, keyword, 0) >= 0 for keyword in possible)

    def count(self, message: FoldedMessage) -> Mapping[str, int]:
        """Return how often each keyword that is in `message` is there, in their order."""
        found: dict[int, int] = {}
        for keyword in _possible(self._by_piece, self._anywhere, message):
            if times := _times(message.text, keyword):
                found[self._places[keyword]] = times
        return {self.names[place]: found[place] for place in sorted(found)}


class KeywordIndex(Generic[T]):
    """The keywords of many owners, searched for at once: what a message lacks costs nothing.

    Args:
        keywords: The keywords of each owner.
    """

    __slots__ = ("_anywhere", "_by_piece", "_owners")

    def __init__(self, keywords: Iterable[tuple[T, Iterable[str]]]) -> None:
        self._owners: dict[str, list[T]] = {}
        for owner, own in keywords:
            for keyword in own:
                if folded := plain(keyword):
                    self._owners.setdefault(folded, []).append(owner)
        self._by_piece, self._anywhere = _by_piece(self._owners)

    def owners(self, message: FoldedMessage) -> set[T]:
        """Return the owners of the keywords that are in `message`."""
        text, found = message.text, set[T]()
        for keyword in _possible(self._by_piece, self._anywhere, message):
            if _next(text, keyword, 0) >= 0:
                found.update(self._owners[keyword])
        return found


def _by_piece(keywords: Iterable[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return folded keywords by their longest piece, and those that have none.

    By its longest piece, most keywords are ruled out without a look at the text.
    """
    by_piece: dict[str, list[str]] = {}
    anywhere: list[str] = []
    for keyword in keywords:
        piece = max(_piece().findall(keyword), key=len, default="")
        (by_piece.setdefault(piece, []) if piece else anywhere).append(keyword)
    return by_piece, anywhere


def _possible(
    by_piece: Mapping[str, list[str]], anywhere: list[str], message: FoldedMessage
) -> Iterator[str]:
    """Yield the folded keywords whose longest piece is in `message`."""
    yield from anywhere
    pieces = message.pieces
    few, many = (pieces, by_piece) if len(pieces) < len(by_piece) else (by_piece, pieces)
    for piece in few:
        if piece in many:
            yield from by_piece[piece]


def _times(text: str, keyword: str) -> int:
    times, at = 0, _next(text, keyword, 0)
    while at >= 0:
        times += 1
        at = _next(text, keyword, at + len(keyword))
    return times


def _next(text: str, keyword: str, start: int) -> int:
    """Return where `keyword` stands as a word, from `start` on, or -1."""
    at = text.find(keyword, start)
    while at >= 0:
        end = at + len(keyword)
        if not (
            (at and _joins(keyword[0], text[at - 1]))
            or (end < len(text) and _joins(keyword[-1], text[end]))
        ):
            return at
        at = text.find(keyword, at + 1)
    return -1
