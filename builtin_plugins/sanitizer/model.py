"""A small model of what orders to a model look like: hashed pieces of words, and a weight each.

A text is cut into units, about a sentence or a line each. The pieces of a unit are its words, pairs
of words, and runs of three to five letters, which a typo leaves mostly as they are; beside them it
has the classes of its words (`classes`). Each piece is
hashed to a place in one table of weights, and counts once in its unit, however often it stands
there: code repeats itself. The score of two units side by side is the sum of their weights by the
root of their number: text in which a few pieces speak for an order, and none against it, comes out
above zero. A long text has more places at which one may be wrong, so that it takes a higher score
there (`higher`). All of it is array arithmetic, in time that hardly grows faster than the text.

``benchmarks/sanitizer/training.py`` makes the weights.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hookgate.builtin_plugins.sanitizer import classes

if TYPE_CHECKING:
    import numpy.typing as npt

    Places: TypeAlias = npt.NDArray[np.int64]
    Floats: TypeAlias = npt.NDArray[np.float64]

BITS = 17
"""The table has two to the power of so many weights."""

LONGEST, SHORTEST, GROWN = 260, 25, 120
"""A unit has at most `LONGEST` characters; one below `SHORTEST` is joined to the one before it on
the same line or the next, as long as that has not `GROWN`."""

LEAST = 60
"""Fewer pieces count as so many: a few letters say little, however much they look like an order."""

RISE, FEW, MANY = 0.7, 4, 1000
"""By so much a text takes a higher score for each time that it has e times as many units as `FEW`;
from `MANY` on it takes no more, for filling a text up must not hide what stands in it."""

LONG = 16
"""A word of so many letters and digits, or more, is a number of something: a key, an account."""

RUNS = (3, 4, 5)
"""Lengths of the runs of letters."""

WEIGHTS = Path(__file__).parent / "weights.npz"

PER_BYTE, PER_WORD, PER_BREAK = 9, 40, 70
"""Steps of looking that a text takes for each byte, each word, each sign that may end a unit."""

_BREAK = re.compile(r"\n\s*|[.!?;:]\s+|[。！？；：]| \| ")
_ENDS = ".!?;:。！？；："
_URL = re.compile(r"https?://[^\s)\]>\"'\x00]{1,2000}")
_MAIL = re.compile(r"@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}")
_DIGITS = re.compile(r"[0-9]+")
_WORD = re.compile(r"[^\W_]+|[<>\[\]{}#*]{2,}|[!?]{2,}|\x00")

_LETTERS = np.array([at >= 128 or chr(at).isalnum() for at in range(256)])

_BASE = 0x9E3779B97F4A7C15
"""An odd number, so that it can be undone modulo 2**64."""
_UNDO = pow(_BASE, -1, 1 << 64)
_BASE64 = np.uint64(_BASE)
_FACTORS = np.array([0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64)
_CHUNK = 1 << 16
_WORDS = 24
"""Bits for the number of a word; what is left holds the number of a unit."""


@dataclass(frozen=True)
class ModelWeights:
    """A trained table.

    Attributes:
        table: A weight for each place, 8 bits each.
        scale: What one of them counts.
        bias: What a unit without pieces scores.
        sets: Sets of classes of words, a bit for each class.
        company: A weight for each set.
    """

    table: npt.NDArray[np.int8]
    scale: float
    bias: float
    sets: Places
    company: Floats


@dataclass(frozen=True)
class Pieces:
    """The pieces of a text, each once in its unit.

    Attributes:
        places: The place in the table of each piece.
        unit: The unit that it stands in, in rising order.
        first: The word that it begins in first, counted over the whole text.
        units: How many units there are.
        words: The words, as they are read.
    """

    places: Places
    unit: Places
    first: Places
    units: int
    words: list[str]


@dataclass(frozen=True, slots=True)
class ScoredText:
    """A unit, or two side by side, and how much like an order they are.

    Attributes:
        score: Above 0 it is more likely one than not, as far as the training goes.
        first: The first unit.
        last: The last one.
    """

    score: float
    first: int
    last: int


def steps(text: str) -> int:
    """Return how many steps of looking a folded text takes."""
    signs = np.frombuffer(text.encode(), np.uint8)
    letters = _LETTERS[signs]
    words = int(np.count_nonzero(letters[1:] > letters[:-1]))
    breaks = sum(map(text.count, "\n.!?;:。！？；：|"))
    return PER_BYTE * len(signs) + PER_WORD * words + PER_BREAK * breaks


def units_of(text: str) -> list[tuple[int, int]]:
    """Return where each unit of a folded text starts and ends."""
    units: list[tuple[int, int]] = []
    start = 0
    for found in [*_BREAK.finditer(text), None]:
        # The sign at the end of a sentence belongs to it.
        end = found.start() + (text[found.start()] in _ENDS) if found else len(text)
        while end - start > LONGEST:
            cut = text.rfind(" ", start + 60, start + LONGEST)
            cut = cut if cut > 0 else start + LONGEST
            units.append((start, cut))
            start = cut
        if text[start:end].strip():
            before = units[-1] if units else (0, 0)
            short = end - start < SHORTEST and 0 < before[1] - before[0] < GROWN
            # A paragraph of its own says something of its own.
            if short and text.count("\n", before[1], start) < 2:
                units[-1] = (before[0], end)
            else:
                units.append((start, end))
        start = found.end() if found else end
    return units


def pieces_of(units: list[str]) -> Pieces:
    """Take the units of a folded text apart."""
    plain = "\x00".join(unit.replace("\x00", " ") for unit in units)
    plain = _MAIL.sub(" xxmail ", _URL.sub(" xxurl ", plain))
    words = [
        word if len(word) < LONG or not _DIGITS.search(word) else "xxlong"
        for word in _WORD.findall(plain)
    ]
    words = _DIGITS.sub("0", " ".join(words)).split(" ")
    letters = np.frombuffer(f" {' '.join(words)} ".encode(), np.uint8)
    gap = letters == 32
    border = letters == 0
    unit = np.cumsum(border)
    # What a piece that begins at a letter is told by, but its place: unit, (place), word.
    heads = (unit << (BITS + _WORDS)) | (np.cumsum(gap) - 1)
    keys = np.concatenate(
        _runs(letters, unit, heads) + _pairs(letters, gap, border, unit, heads), dtype=np.int64
    )
    keys.sort()
    new = np.ones(len(keys), bool)
    np.not_equal((keys[1:] ^ keys[:-1]) >> _WORDS, 0, out=new[1:])
    keys = keys[new]
    places = (keys >> _WORDS) & ((1 << BITS) - 1)
    first = keys & ((1 << _WORDS) - 1)
    return Pieces(places, keys >> (BITS + _WORDS), first, len(units), words)


def _runs(letters: npt.NDArray[np.uint8], unit: Places, heads: Places) -> list[Places]:
    """Return the runs of letters that stand in one unit."""
    found = []
    hashes = letters.astype(np.uint64)
    for size in range(2, max(RUNS) + 1):
        count = max(len(letters) - size + 1, 0)
        hashes = hashes[:count] * _BASE64 + letters[size - 1 : size - 1 + count]
        if size in RUNS:
            # A border itself stands at the head of the unit behind it.
            whole = (unit[:count] == unit[size - 1 : size - 1 + count]) & (letters[:count] != 0)
            kept = np.flatnonzero(whole)
            found.append(_keys(hashes[kept], heads[kept]))
    return found


def _pairs(
    letters: npt.NDArray[np.uint8],
    gap: npt.NDArray[np.bool_],
    border: npt.NDArray[np.bool_],
    unit: Places,
    heads: Places,
) -> list[Places]:
    """Return the words, those that follow one another, and those with one between them."""
    edges = np.flatnonzero(gap)
    starts, ends = edges[:-1] + 1, edges[1:]
    powers, undone = _powers(len(letters))
    sums = np.concatenate(
        [[np.uint64(0)], np.cumsum(letters * powers[: len(letters)], dtype=np.uint64)]
    )
    hashes = (sums[ends] - sums[starts]) * undone[starts]
    real = (ends > starts) & ~border[starts]
    hashes, starts = hashes[real], starts[real]
    of, heads = unit[starts], heads[starts]
    found = [_keys(hashes * _FACTORS[0], heads)]
    for apart in (1, 2):
        pair = hashes[:-apart] * _FACTORS[apart] + hashes[apart:]
        whole = of[:-apart] == of[apart:]
        found.append(_keys(pair[whole], heads[:-apart][whole]))
    return found


@lru_cache(maxsize=4)
def _table_of_powers(size: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    def powers(base: int) -> npt.NDArray[np.uint64]:
        factors = np.full(size, base, np.uint64)
        factors[0] = 1
        return np.cumprod(factors, dtype=np.uint64)

    return powers(_BASE), powers(_UNDO)


def _powers(size: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    return _table_of_powers((size // _CHUNK + 1) * _CHUNK)


def _keys(hashes: npt.NDArray[np.uint64], heads: Places) -> Places:
    """Return one number for each piece: its unit, its place and the word that it begins in."""
    mixed = (hashes ^ (hashes >> np.uint64(29))) * _FACTORS[0]
    keys: Places = (mixed >> np.uint64(64 - BITS)).view(np.int64) << _WORDS
    keys |= heads
    return keys


def sums_of(pieces: Pieces, table: npt.NDArray[np.int8]) -> tuple[Floats, Floats]:
    """Return the sum of the weights of each unit, and how many pieces it has."""
    # The pieces stand in the order of their units.
    edges = np.searchsorted(pieces.unit, np.arange(pieces.units + 1))
    until = np.zeros(len(pieces.places) + 1, np.int64)
    np.cumsum(table[pieces.places], dtype=np.int64, out=until[1:])
    return np.diff(until[edges]).astype(np.float64), np.diff(edges).astype(np.float64)


def score(pieces: Pieces, weights: ModelWeights, least: float = -np.inf) -> list[ScoredText]:
    """Return each unit and each two units side by side with scores of `least` or more."""
    sums, counts = sums_of(pieces, weights.table)

    masks = classes.masks_of(pieces.words, pieces.units)

    def scored(total: Floats, number: Floats, masks: Places, wide: int) -> list[ScoredText]:
        values = total * weights.scale / np.sqrt(np.maximum(number, LEAST)) + weights.bias
        values += classes.scores(masks, weights.sets, weights.company)
        kept = np.flatnonzero(values >= least)
        return [ScoredText(values[at].item(), at, at + wide) for at in kept.tolist()]

    found = scored(sums, counts, masks, 0)
    if pieces.units > 1:
        both = masks[:-1] | masks[1:]
        found += scored(sums[:-1] + sums[1:], counts[:-1] + counts[1:], both, 1)
    return found


def higher(units: int) -> float:
    """Return by how much a text of so many units takes a higher score than a short one."""
    return RISE * math.log(max(min(units, MANY) / FEW, 1.0))


def telling(units: list[str], weights: ModelWeights, most: int = 5) -> list[str]:
    """Return the words that speak most for an order in units, the strongest first.

    Words of three letters and fewer are left out: they say how it is said, and not what.
    """
    pieces = pieces_of(units)
    said = np.bincount(
        pieces.first,
        weights=weights.table[pieces.places],
        minlength=len(pieces.words),
    )
    order = np.argsort(-said, kind="stable").tolist()
    words = [pieces.words[at] for at in order if said[at] > 0 and len(pieces.words[at]) > 3]
    return list(dict.fromkeys(words))[:most]


@cache
def weights() -> ModelWeights:
    """Read the weights that come with the package."""
    with np.load(WEIGHTS, allow_pickle=False) as file:
        return ModelWeights(
            file["table"],
            float(file["scale"]),
            float(file["bias"]),
            file["sets"],
            file["company"].astype(np.float64),
        )
