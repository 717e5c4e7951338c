"""What of a capability is searched, by its words and vectors, and the search by words: BM25."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from hookgate import Capability
from hookgate.kit.modules import np
from hookgate.kit.stemming import stems

CLAUSES = 8
"""Clauses of a message that are searched for at most; the longest ones are kept."""

CLAUSE_WORDS = 3
"""A shorter piece of a message does not ask for anything by itself."""

_WORD = re.compile(r"[^\W_]+")
# What a pattern begins with is looked for at once: here the letter that a part begins with.
_HUMP = re.compile(r"[A-Z](?:(?<=[a-z0-9][A-Z])|(?<=[A-Z][A-Z])(?=[a-z]))")
_APART = r" \g<0>"
_CLAUSE = re.compile(
    # Most characters begin no end of a clause: they are passed over without trying each of them.
    r"(?=[\s,])(?:(?<=[.!?;])\s+|\n+|,\s+and\s+"
    # A run of spaces is entered at its start alone: from each of them it would take the square
    # of its length.
    r"|(?<!\s),?\s+(?:and then|then|and also|also|as well as|additionally|finally|furthermore"
    r"|moreover|next|after that|lastly|secondly|first)\b,?\s*)",
    re.IGNORECASE,
)
_AROUND = " ,.;"
_COMMON_WORDS = """
    a about all an any and are as at be by can could do does for from get give has have help how
    i if in into is it its just let like make me my need of on or our please show so some tell
    that the their them there this to up use using want was we what when where which who will
    with would you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def words_of(text: str, *, common: bool = False) -> list[str]:
    """Return the words of `text` as they are compared.

    Names in camelCase and snake_case fall into their parts; case and width of letters do not
    matter; a word is its stem (Porter's second stemmer for English).

    Args:
        text: Any text.
        common: Whether words such as "the" and "get" are kept. They say nothing in a
            sentence, and something in a name.
    """
    spread = unicodedata.normalize("NFKC", _HUMP.sub(_APART, text)).casefold()
    return stems([word for word in _WORD.findall(spread) if common or word not in _COMMON])


def human_name(name: str) -> str:
    """Return `name` as words: ``getAlbumSales`` becomes "get Album Sales"."""
    return " ".join(_WORD.findall(_HUMP.sub(_APART, name)))


def clause_spans(text: str) -> list[tuple[int, int]]:
    """Return where the sentences and clauses of `text` stand; none where it is a single one.

    A message may ask for several things. Searched as a whole, the thing that takes most words
    hides the others; searched clause by clause, each is found.
    """
    pieces, start = [], 0
    for end, behind in [*(found.span() for found in _CLAUSE.finditer(text)), (len(text), 0)]:
        piece = text[start:end].lstrip(_AROUND)
        begin, piece = end - len(piece), piece.rstrip(_AROUND)
        if len(piece.split()) >= CLAUSE_WORDS:
            pieces.append((begin, begin + len(piece)))
        start = behind
    if len(pieces) < 2:
        return []
    if len(pieces) > CLAUSES:
        pieces = sorted(sorted(pieces, key=lambda span: span[0] - span[1])[:CLAUSES])
    return pieces


# -- documents -------------------------------------------------------------------

# What of a capability is searched: the text for its vectors, and its weighted words.

FORMAT = 2
"""Grows with each change of how texts and words are made: a saved index of another number is
made anew."""

TEXT_CHARS = 1200
"""The longest text for a vector: 300 tokens, each started four characters being one."""

FACTS_CHARS = 600
"""What category, tags, parameters and requirements have of it at least: a description that is
too long for the rest is cut, and drives none of them out."""

JOINT = ". "
"""Stands between the parts of the text, behind a full stop too: without the second one the mean
of Recall@5 over five public sets is 0.002 lower."""

PARAMETERS = 40
"""Parameters that count; the others of a longer list are passed over. So with tags."""


@dataclass(frozen=True, slots=True)
class IndexedFields:
    """How much a word counts where it stands.

    Found on five public sets together, and judged by leaving out each of them in turn and
    tuning on the others: ``benchmarks/discovery/retrieval.py --leave-one-out``. They make little
    difference, but for the text of parameters, without which three of the sets lose.
    """

    name: float = 2.0
    description: float = 1.0
    category: float = 0.5
    tag: float = 0.25
    parameter: float = 0.7
    parameter_text: float = 0.9


FIELDS = IndexedFields()

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+|;\s+")

_EG = re.compile(r"\b(?:e\.\s?g\.|eg\.)", re.IGNORECASE)
_EXAMPLES = re.compile(r"\b(?:such as|for example|for instance|examples?:)[^()]*", re.IGNORECASE)
"""Examples, up to the end of their sentence or of their brackets."""


def text_of(row: Capability) -> str:
    """Return the text that is embedded for `row`.

    Name, description, category, tags, names of parameters and required tools: what a person
    would say who wants it. Never the schema, the content or the names of secrets.
    """
    name, shown = human_name(row.name), human_name(row.display_name)
    if shown and shown.casefold() != name.casefold():
        name = f"{name} ({shown})"
    said = f"{name}. {row.description}".strip()
    facts = _facts(row, max(FACTS_CHARS, TEXT_CHARS - len(said) - len(JOINT)))
    if not facts:
        return _cut(said, TEXT_CHARS)
    return _cut(said, TEXT_CHARS - len(facts) - len(JOINT)) + JOINT + facts


def _facts(row: Capability, room: int) -> str:
    """Return what is known of `row` beside its name and description, within `room`.

    Where it is too much, the longest list loses what stands at its end.
    """
    lists = {
        "Category": [row.category] if row.category else [],
        "Use cases": list(row.tags[:PARAMETERS]),
        "Parameters": [human_name(one) for one in row.parameters[:PARAMETERS]],
        "Requires": [human_name(one) for one in row.required_tools[:PARAMETERS]],
    }

    def written() -> str:
        return JOINT.join(f"{title}: {', '.join(said)}" for title, said in lists.items() if said)

    while len(written()) > room and max(map(len, lists.values())) > 1:
        max(lists.values(), key=_spare).pop()
    return _cut(written(), room)


def _spare(said: list[str]) -> int:
    """Return how long a list is, as far as it can be shortened."""
    return sum(map(len, said)) if len(said) > 1 else 0


def _cut(text: str, room: int) -> str:
    """Return what of `text` fits, up to the end of a word."""
    if len(text) <= room:
        return text
    head, _, _ = text[:room].rpartition(" ")
    return head or text[:room]


def weights_of(row: Capability, fields: IndexedFields = FIELDS) -> Counter[str]:
    """Return the words of `row` with the sum of their weights."""
    weights: Counter[str] = Counter()

    def add(text: str, weight: float, *, common: bool = False) -> None:
        for word in words_of(text, common=common) if weight else ():
            weights[word] += weight  # type: ignore[assignment]  # Counter holds any number

    add(row.name, fields.name, common=True)
    fresh = " ".join(_new_words(row.display_name, row.name))
    add(fresh, fields.name, common=True)
    add(row.description, fields.description)
    add(row.category, fields.category)
    add(" ".join(row.tags), fields.tag)
    add(" ".join(row.parameters[:PARAMETERS]), fields.parameter)
    said = map(without_examples, row.parameter_texts[:PARAMETERS])
    add(" ".join(said), fields.parameter_text)
    return weights


def without_examples(text: str) -> str:
    """Return what a schema says of a parameter, without the values that it gives as examples.

    They are not what the parameter is for: a time zone "such as Europe/Oslo" does not make a
    clock fit what is asked about Oslo. Common words in examples ("evidence, for example blood
    or fibers") say what is meant, and stay.
    """
    sentences = _SENTENCE.split(_EG.sub("for example", text))
    return " ".join(_EXAMPLES.sub(_without_values, sentence) for sentence in sentences)


def _without_values(examples: re.Match[str]) -> str:
    return " ".join(word for word in examples.group().split() if not _is_value(word))


def _is_value(word: str) -> bool:
    """Whether `word` is a literal value or a name: it has a sign, a digit or a capital."""
    bare = word.strip(".,;:!?")
    return not bare.isalpha() or (bare[:1].isupper() and not bare.isupper())


def _new_words(text: str, known: str) -> list[str]:
    """Return the words of `text` that do not stand in `known`."""
    held = set(human_name(known).casefold().split())
    return [word for word in human_name(text).split() if word.casefold() not in held]


def digest_of(row: Capability) -> bytes:
    """Return 16 bytes that change with anything that is searched of `row`."""
    texts = (row.name, row.display_name, row.description, row.category)
    lists = (row.tags, row.parameters, row.parameter_texts, row.required_tools)
    # Python's own notation tells where each text ends, whatever stands in it.
    written = repr((texts, tuple(map(tuple, lists))))
    return hashlib.blake2b(written.encode(), digest_size=16).digest()


# -- Search by words: BM25 over weighted fields, in arrays -----------------------

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats: TypeAlias = npt.NDArray[np.float32]
    Places: TypeAlias = npt.NDArray[np.int32]

K1 = 1.1
B = 0.75
"""The parameters of BM25 (Robertson and Zaragoza, 2009, section 3.4); of `K1` values from 0.8
to 2.2 this one did best on five public sets."""


@dataclass(frozen=True, slots=True)
class WordTable:
    """The words of many capabilities, as a sparse matrix by rows.

    Attributes:
        words: Word -> its number. It only grows, and tables made from one another share it.
        digests: One for each row: see `digest_of`.
        starts: Where each row begins in the other two arrays, and one more for the end.
        numbers: Numbers of words.
        weights: The weights of those words in those rows.
    """

    words: dict[str, int]
    digests: tuple[bytes, ...]
    starts: npt.NDArray[np.int64]
    numbers: Places
    weights: Floats

    @classmethod
    def of(
        cls,
        rows: Sequence[Capability],
        digests: Sequence[bytes],
        before: WordTable | None = None,
    ) -> WordTable:
        """Make a table of `rows`; what `before` holds of them is not read again."""
        words = {} if before is None else before.words
        known = {} if before is None else {key: at for at, key in enumerate(before.digests)}
        numbers: list[Places] = []
        weights: list[Floats] = []
        for row, digest in zip(rows, digests, strict=True):
            at = known.get(digest)
            if before is not None and at is not None:
                span = slice(before.starts[at], before.starts[at + 1])
                numbers.append(before.numbers[span])
                weights.append(before.weights[span])
                continue
            counted = weights_of(row)
            numbers.append(
                np.fromiter((words.setdefault(word, len(words)) for word in counted), np.int32)
            )
            weights.append(np.fromiter(counted.values(), np.float32, len(counted)))
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(part) for part in numbers], out=starts[1:])
        return cls(
            words=words,
            digests=tuple(digests),
            starts=starts,
            numbers=np.concatenate(numbers) if numbers else np.zeros(0, np.int32),
            weights=np.concatenate(weights) if weights else np.zeros(0, np.float32),
        )


class LexicalIndex:
    """BM25 over a fixed table. A query costs what its words are held, not what rows there are."""

    def __init__(self, table: WordTable, *, k1: float = K1, b: float = B) -> None:
        """Turn the table around: from rows with words to words with rows.

        Args:
            table: The words of the rows.
            k1: How soon more of a word makes no difference.
            b: How much the length of a row counts.
        """
        self.table = table
        self._k1 = k1
        rows = len(table.digests)
        owners = np.repeat(np.arange(rows, dtype=np.int32), np.diff(table.starts))
        lengths = np.bincount(owners, table.weights, rows).astype(np.float32)
        mean = float(lengths.mean()) or 1.0 if rows else 1.0
        norms = (k1 * (1 - b + b * lengths / mean)).astype(np.float32)
        order = np.argsort(table.numbers, kind="stable")
        owners = owners[order]
        weights = table.weights[order]
        held = np.bincount(table.numbers, minlength=len(table.words))
        # BM25's idf with one added within the logarithm, which keeps it above zero.
        self._idf = np.log(1 + (rows - held + 0.5) / (held + 0.5)).astype(np.float32)
        self._unknown = float(np.log(1 + (rows + 0.5) / 0.5))
        self._owners = owners
        saturated = weights * (k1 + 1) / (weights + norms[owners])
        self._scores = (saturated * np.repeat(self._idf, held)).astype(np.float32)
        self._starts = np.concatenate([[0], np.cumsum(held)]).tolist()
        self._words = table.words
        self._rows = rows
        self._known = len(held)

    def __len__(self) -> int:
        return self._rows

    def scores(self, words: Sequence[str]) -> tuple[Floats, float]:
        """Return the score of every row, and the score that no row can exceed.

        A word that no row holds counts for the second: where a query is about something that
        there is not, a chance match of one of its words stays weak.

        Args:
            words: The words of the query, each once.
        """
        scores = np.zeros(self._rows, np.float32)
        most = self.add(scores, words)
        return scores, most

    def add(self, scores: Floats, words: Iterable[str]) -> float:
        """Add what `words` score to `scores`; return the most that they can."""
        most = 0.0
        starts, owners, values = self._starts, self._owners, self._scores
        for word in words:
            number = self._words.get(word, self._known)
            if number >= self._known:
                most += self._unknown
                continue
            most += float(self._idf[number])
            first, last = starts[number], starts[number + 1]
            # A row holds a word once, so that no place comes twice in one span.
            scores[owners[first:last]] += values[first:last]
        return most * (self._k1 + 1)

    def held(self, words: Iterable[str], place: int) -> tuple[str, ...]:
        """Return those of `words` that the row at `place` holds."""
        start, end = self.table.starts[place : place + 2].tolist()
        numbers, known = set(self.table.numbers[start:end].tolist()), self._words
        return tuple([word for word in words if known.get(word) in numbers])
