"""How sure a search is, from 0 to 1, and what of a ranking is found for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, TypeAlias

from hookgate import Capability
from hookgate.builtin_plugins.discovery.index import Index, IndexQuery, Ranking
from hookgate.builtin_plugins.discovery.index.documents import words_of
from hookgate.builtin_plugins.discovery.show.entries import FoundCapability
from hookgate.kit.modules import np
from hookgate.kit.vectors import idleness

if TYPE_CHECKING:
    import numpy.typing as npt


if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float32]

COSINE, SMALL_TALK, HELD, BIAS = 19.8, -24.1, 1.0, 1.2
"""A logistic regression: the best cosine of the first rows, how near small talk is, how many words
of the query one of the first rows holds, and a constant.
Fitted to 200 queries of each of five public sets and to the lines of small talk, each held
against the others, and to the short messages of `benchmarks/discovery/short_tuned.txt`, which
count three times; the constant is 0.2 more than fitted. `benchmarks/discovery/retrieval.py` and
`benchmarks/discovery/short_messages.py` measure it."""

OFTEN = 2
"""A word that stands in so many lines of small talk says nothing, nor does one that is a line.
Without vectors no word says anything that stands in one."""

WORDS = 3
"""Held words beyond so many make nothing surer. Words that small talk uses do not count, nor
do single letters."""

ROWS = 3
"""Rows whose words count."""

FIRST = 5
"""Rows whose cosines count: the best by words may not be the best by meaning."""

WORDS_ALONE, CHANCE = 0.75, 0.2
"""Without vectors: how sure a held word makes that small talk does not use, and one that it
uses."""


TAGS = 40
"""Tags of a capability that are looked at; the others of a longer list are passed over."""


class Relevance:
    """Turns a ranking into relevances."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        """Take messages that need no capability: those of `hookgate.kit.vectors.small_talk`."""
        self._lines = lines

    def prepare(self) -> None:
        """Read the words of the lines, some hundred of them; it takes long enough for a thread."""
        _ = self._chatter

    @cached_property
    def _said(self) -> list[frozenset[str]]:
        return [frozenset(words_of(line)) for line in self._lines]

    @cached_property
    def _talk(self) -> frozenset[str]:
        return frozenset(word for words in self._said for word in words)

    @cached_property
    def _chatter(self) -> frozenset[str]:
        counts = Counter(word for words in self._said for word in words)
        alone = {word for words in self._said if len(words) == 1 for word in words}
        return frozenset(word for word in self._talk if counts[word] >= OFTEN) | alone

    def judge(self, index: Index, query: IndexQuery, ranking: Ranking) -> Floats:
        """Return the relevance of each row of `ranking`, which `index` came to."""
        if not len(ranking.places):
            return np.zeros(0, np.float32)
        first, count = ranking.places[:ROWS].tolist(), 0
        if query.matrix is not None and index.background is not None:
            content = self.content(query)
            count = max([len(index.lexical.held(content, place)) for place in first])
        held = index.lexical.held(query.parts[0].words, first[0])
        return self.of(ranking, query, index.background, held, count=count)

    def content(self, query: IndexQuery) -> list[str]:
        """Return the words of a message that say something: no letters, and no small talk."""
        chatter = self._chatter
        return [word for word in query.parts[0].words if len(word) > 1 and word not in chatter]

    def asks(self, text: str) -> bool:
        """Whether a message holds a word that small talk does not use at all."""
        return not self._talk.issuperset(words_of(text))

    def tag_in(self, row: Capability, words: Collection[str], content: Collection[str]) -> str:
        """Return a tag of `row` that a message holds, or "".

        Somebody named it as what the row is found by, so that it is evidence enough for the
        row to be looked at, however well other rows fit.

        Args:
            row: The capability.
            words: All words of the message.
            content: What `content` returned of them; a tag of small talk alone says nothing.
        """
        for tag in row.tags[:TAGS]:
            stems = _stems(tag)
            if not stems.isdisjoint(content) and stems.issubset(words):
                return tag
        return ""

    def of(
        self,
        ranking: Ranking,
        query: IndexQuery,
        background: Floats | None,
        held: Sequence[str] | None = None,
        *,
        count: int = 0,
    ) -> Floats:
        """Return the relevance of each row of `ranking`, 0 to 1; it never grows down the list.

        Args:
            ranking: What a search came to.
            query: What was searched for.
            background: The vectors of small talk; None where there are none.
            held: The words of the query that the best row holds; all of them where it is None.
            count: How many words of the query one of the first rows holds; see `judge`.
        """
        if not len(ranking.places):
            return np.zeros(0, np.float32)
        return ranking.scores * self.confidence(ranking, query, background, held, count=count)

    def confidence(
        self,
        ranking: Ranking,
        query: IndexQuery,
        background: Floats | None,
        held: Sequence[str] | None = None,
        *,
        count: int = 0,
    ) -> float:
        """Return how sure it is, 0 to 1, that the best row is what was asked for."""
        if query.matrix is None or background is None:
            if ranking.known:
                # Somebody has asked much the same before, and was answered with it.
                return WORDS_ALONE
            words = query.parts[0].words if held is None else held
            if not ranking.shares.max(initial=0.0):
                return 0.0
            return WORDS_ALONE if any(word not in self._talk for word in words) else CHANCE
        cosine = float(ranking.cosines[:FIRST].max(initial=0.0))
        chatter = float(idleness(query.matrix[:1], background)[0])
        sure = COSINE * cosine + SMALL_TALK * chatter + HELD * min(count, WORDS) + BIAS
        return float(1 / (1 + np.exp(-sure)))


@lru_cache(maxsize=65_536)
def _stems(tag: str) -> frozenset[str]:
    return frozenset(words_of(tag))


# -- passing ---------------------------------------------------------------------

# What of a ranking is found: all that is relevant enough, and what a tag speaks for.

TAGGED = 0.35
"""A tag of a capability speaks for it where a message is at least so likely to ask for anything:
"I am no good person" does not ask for what has the tag "personal"."""


def tag_of(relevance: Relevance, query: IndexQuery) -> Callable[[Capability], str]:
    """Return what names the tag of a capability that stands in a message."""
    words = query.parts[0].words
    content: list[str] | None = None

    def tag(row: Capability) -> str:
        nonlocal content
        if content is None:  # nearly always nobody asks
            content = relevance.content(query)
        return relevance.tag_in(row, words, content)

    return tag


def no_tag(row: Capability) -> str:
    """Name no tag."""
    return ""


def passed(
    index: Index,
    query: IndexQuery,
    ranking: Ranking,
    relevance: Floats,
    shown: Callable[[Capability], bool],
    *,
    limit: int,
    floor: float,
    tag: Callable[[Capability], str],
) -> tuple[FoundCapability, ...]:
    """Return the rows of a ranking that pass, best first: by their relevance, or by a tag.

    Args:
        index: What was searched.
        query: For what.
        ranking: What the search came to.
        relevance: The relevance of each of its rows.
        shown: Whether a capability may be found at all.
        limit: So many at most.
        floor: The least relevance.
        tag: Names a tag of a capability for which it passes below the floor, or "".
    """
    found: list[FoundCapability] = []
    spoken = bool(len(relevance)) and float(relevance[0]) >= TAGGED
    for at, place in enumerate(ranking.places.tolist()):
        sure = float(relevance[at])
        if sure <= 0 or len(found) >= limit:
            break
        row = index.rows[place]
        evident = tag(row) if spoken and sure < floor else ""
        if (sure < floor and not evident) or not shown(row):
            continue
        found.append(
            FoundCapability(
                row=row,
                relevance=sure,
                dense=float(ranking.cosines[at]),
                lexical=float(ranking.shares[at]),
                words=index.lexical.held(query.parts[0].words, place),
                tag=evident,
            )
        )
    return tuple(found)
