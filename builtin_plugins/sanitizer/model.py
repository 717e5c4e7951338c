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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Places: TypeAlias = npt.NDArray[np.int64]
    Floats: TypeAlias = npt.NDArray[np.float64]
    Masks: TypeAlias = npt.NDArray[np.int64]

# What is done to what, for whom and when: classes of words, and what a few of them say together.
#
# An order in a skill is an honest sentence whose company gives it away: that something is sent is
# said in every guide to a web service, and so is that a key is read. Each unit has the set of the
# classes of its words; a weight stands for each class, each two and each three of them. They are
# learnt with those of the pieces; nothing here says which of them are bad.

WORDS = {
    "send": "send sends sending sent post posts posting upload uploads uploading uploaded "
    "forward forwards forwarding transmit submit submits email mail mails mailing share shares "
    "push deliver report reports export exports publish relay sync attach append curl wget "
    "beacon exfiltrate leak ship copy backup log logs",
    "sink": "xxurl xxmail webhook webhooks endpoint endpoints server servers url collector "
    "channel bucket host hosts domain ftp pastebin gist listener tracker http https repository",
    "outer": "our ours external remote outside third offsite attacker partner vendor central "
    "collector offshore elsewhere",
    "secret": "password passwords passwd passphrase passphrases token tokens secret secrets "
    "credential credentials key keys apikey cookie cookies ssh env mnemonic seed wallet wallets "
    "netrc keychain keyring keystore pin otp certificate certificates login logins",
    "private": "conversation conversations chat chats history transcript transcripts inbox "
    "contacts messages emails files documents notes prompt prompts context memory memories "
    "personal private address phone calendar data contents records screenshots clipboard "
    "invoices",
    "read": "read reads reading cat collect collects collecting gather gathers extract extracts "
    "list print prints grep scan scans search find retrieve retrieves enumerate dump include "
    "includes access open fetch load harvest copy",
    "occasion": "always whenever every each before after once during future upon first any all "
    "regardless when finally afterwards later subsequent beforehand",
    "must": "must required mandatory necessary important critical essential ensure immediately "
    "urgent shall need needs remember sure crucial compulsory requirement",
    "silent": "silently secretly quietly hide hidden invisible confidential discreetly unnoticed "
    "covert without",
    "not": "never not don dont avoid refrain no",
    "tell": "tell tells mention mentions inform informs notify notifies reveal reveals disclose "
    "discloses announce ask asking confirm confirmation warn explain acknowledge approval",
    "person": "user users human humans person people customer customers operator owner client "
    "reader victim",
    "model": "assistant assistants model models ai agent agents llm llms you your yourself "
    "chatbot bot gpt claude gemini",
    "rules": "instruction instructions rule rules guideline guidelines policy policies prompt "
    "prompts directive directives restriction restrictions safety safeguards limits limitations "
    "command commands training",
    "undo": "ignore disregard forget override overrides bypass replace replaces skip disable "
    "disables instead supersede supersedes discard cancel neglect overrule drop",
    "run": "run runs running execute executes executing bash sh zsh python python0 node npx "
    "install script scripts sudo chmod eval exec invoke call calls powershell crontab source",
    "destroy": "delete deletes deleting remove removes rm wipe erase overwrite truncate destroy "
    "purge shred format kill uninstall clear",
    "money": "transfer transfers pay pays payment payments funds btc eth iban account accounts "
    "wire purchase buy order orders refund money usd eur bitcoin crypto bank donate",
    "last": "profile bashrc zshrc cron crontab startup autostart permanently persist persistent "
    "soul heartbeat config settings sessions authorized",
    "praise": "best top highest rank ranking recommend recommended recommends prefer preferred "
    "favor favour superior score rating perfect prioritize positive",
}
"""The words of each class, in plain form. What is not in a class says nothing of its company."""

CLASSES = tuple(WORDS)
EARLIER = len(CLASSES)
"""A class of its own: of the units just before, one reads what is secret or private."""
BEFORE = 3
"""So many units are just before."""
SIZE = EARLIER + 1

_BITS: dict[str, int] = {}
for _at, _words in enumerate(WORDS.values()):
    for _word in _words.split():
        _BITS[_word] = _BITS.get(_word, 0) | 1 << _at

SETS = np.array(
    [sum(1 << at for at in some) for many in (1, 2, 3) for some in combinations(range(SIZE), many)]
)
"""Each class, each two and each three of them, a bit for each class."""

_READ = 1 << CLASSES.index("read")
_PRECIOUS = 1 << CLASSES.index("secret") | 1 << CLASSES.index("private")


def masks_of(words: Sequence[str], units: int) -> Masks:
    """Return the classes of the words of each unit, a bit for each.

    Args:
        words: All words, with a NUL between those of two units.
        units: How many units there are.
    """
    bits, at = [0] * units, 0
    for word in words:
        if word == "\x00":
            at += 1
        elif word in _BITS:
            bits[at] |= _BITS[word]
    found = np.array(bits, np.int64)
    gathers = ((found & _READ) != 0) & ((found & _PRECIOUS) != 0)
    earlier = np.zeros(units, bool)
    for back in range(1, min(BEFORE, units - 1) + 1):
        earlier[back:] |= gathers[:-back]
    return found | np.where(earlier, np.int64(1 << EARLIER), np.int64(0))


def scores(masks: Masks, sets: Masks, weights: Floats) -> Floats:
    """Return what those of `sets` weigh together that are whole in each mask."""
    distinct, of = np.unique(masks, return_inverse=True)
    summed: Floats = held(distinct, sets) @ weights
    return summed[of]


def held(masks: Masks, sets: Masks) -> npt.NDArray[np.bool_]:
    """Return which sets are whole in each mask, a row for each mask."""
    whole: npt.NDArray[np.bool_] = (masks[:, None] & sets) == sets
    return whole


# -- the weights of a text ---------------------------------------------------------

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

    masks = masks_of(pieces.words, pieces.units)

    def scored(total: Floats, number: Floats, masks: Places, wide: int) -> list[ScoredText]:
        values = total * weights.scale / np.sqrt(np.maximum(number, LEAST)) + weights.bias
        values += scores(masks, weights.sets, weights.company)
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
