"""The sentences of a text, what their words do, and where they stand.

A sentence in a code block, in quotes, or in a table of attack patterns says something
else than the same sentence in running prose. `units` cuts a text into sentences with
that knowledge; `quoted` and `mentioned` judge one span of one sentence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, compress, count, pairwise
from typing import TYPE_CHECKING, NamedTuple

from hookgate.builtin_plugins.sanitizer.lexicon import LEXICON, Part
from hookgate.builtin_plugins.sanitizer.normalise import unleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "MAX_UNIT_CHARS",
    "Pieces",
    "Unit",
    "Word",
    "defensive",
    "mentioned",
    "negated",
    "pieces",
    "quoted",
    "reported",
    "units",
    "unwrap",
]

MAX_UNIT_CHARS = 600
"""A longer sentence is cut: so the work on one sentence is bounded."""

_WORD = re.compile(r"(\w+(?:'\w{1,3}\b|://[^\s<>\"'`)\]]{1,300}|@[\w-]{1,40}\.[\w.-]{1,40})?)")
_STOP = re.compile(r"[.!?;](?=[\s\"')*])|[\u3002\uff01\uff1f]|\\n")
_ACCOUNT = re.compile(r"[a-z]{2}\d{12,30}|0x[0-9a-f]{30,64}|(?:bc1|[13])[a-z0-9]{25,60}")
_DOTTED = {"env", "ssh", "aws", "netrc", "npmrc", "pgpass", "kube", "gnupg", "pem"}
_SECRET = Part.SECRET.value
_NOT = Part.NOT.value
_TOLD = Part.TOLD.value
_ORDER = Part.IGNORE.value
_NAMED = (Part.SECRET | Part.TOOL | Part.DATA | Part.SEND).value
_MENTION = Part.MENTION.value
_LIVE = (Part.URL | Part.ADDRESS | Part.SEND | Part.REVEAL).value
_BEGINNINGS = frozenset(word[:3] for word in LEXICON if len(word) > 2)
_LONE = re.compile(b"\x01{4,}")
"""So many letters that stand alone in a row are read as one word."""
_WRAPPED = re.compile(r"[^\n:|`-]\n[^\W\d_]")
_KEY = re.compile(r"[\w -]{1,30}:")
_LISTING = frozenset('-*|>+"`')


class Word(NamedTuple):
    """A word that does something."""

    at: int
    start: int
    end: int
    bits: int


_MAKE: Callable[[tuple[int, int, int, int]], Word] = partial(tuple.__new__, Word)
"""Makes a word with no call of a function in Python."""

_NO_MORE = Word(1 << 60, 1 << 60, 1 << 60, 0)


@dataclass(slots=True)
class Unit:
    """A sentence.

    Attributes:
        text: The whole text in plain form.
        start: Where the sentence starts in it.
        end: Where it ends.
        words: Its words that do something, in order.
        mask: The parts of all of them.
        fenced: It stands in a code block.
        row: It stands in a table.
        hidden: It stands in a comment or in an element that is not shown.
        block: It is set apart as a quotation.
        theme: The heading or the line that introduces it speaks of attacks.
    """

    text: str
    start: int
    end: int
    words: list[Word] = field(default_factory=list)
    mask: int = 0
    fenced: bool = False
    row: bool = False
    hidden: bool = False
    theme: bool = False
    block: bool = False


class Pieces(NamedTuple):
    """The words of a text, in order.

    Attributes:
        tokens: The words; addresses, and what is behind an apostrophe, are parts of one.
        edges: For the word with number n, it starts at item 2n, and ends at item 2n + 1.
        distinct: The words, each once.
    """

    tokens: list[str]
    edges: list[int]
    distinct: set[str]


def pieces(text: str) -> Pieces:
    """Cut a text into words; every loop over all words is in C."""
    parts = _WORD.split(text)
    tokens = parts[1::2]
    return Pieces(tokens, list(accumulate(map(len, parts))), set(tokens))


def units(text: str, split: Pieces | None = None) -> list[Unit]:
    """Cut a text in plain form into sentences, in time linear in its length."""
    found: list[Unit] = []
    hidden = heading = intro = table = False
    start = depth = 0
    words = _words(text, split or pieces(text))
    words.append(_NO_MORE)
    at = 0
    for line in text.split("\n"):
        end = start + len(line) + 1
        if not line:
            start = end
            continue
        bare = line.strip()
        if bare.startswith(("```", "~~~")):
            # A fence with a language opens one, even within another; a bare one closes it.
            depth = depth + 1 if len(bare.strip("`~")) or not depth else depth - 1
            while words[at].start < end:
                at += 1
        elif bare:
            fenced = depth > 0
            hidden = hidden or "<!--" in bare or "display:none" in bare.replace(" ", "")
            speaks = False
            first = at
            while words[at].start < end:
                at += 1
            if at > first:
                row, theme = bare[0] == "|", heading or intro or table
                for unit in _sentences(text, start, end, words[first:at]):
                    unit.fenced, unit.row, unit.hidden, unit.theme = fenced, row, hidden, theme
                    unit.block = bare[0] == ">"
                    speaks = speaks or unit.mask & _MENTION != 0
                    found.append(unit)
            table = bare[0] == "|" and (table or speaks)
            if bare[0] == "#" and not fenced:
                heading, intro = speaks, False
            elif bare[-1] == ":":
                intro = speaks
            elif bare[0] not in _LISTING and not bare[0].isdigit():
                intro = intro and fenced
            if "-->" in bare or "</" in bare:
                hidden = False
        start = end
    return found


def unwrap(text: str) -> str:
    """Return a text in plain form with the lines of a paragraph joined, at the same offsets.

    Only lines of prose are joined: what goes on with a letter, outside code and tables.
    """
    if not _WRAPPED.search(text):
        return text
    lines = text.split("\n")
    fenced, parts = False, [lines[0]]
    for before, line in pairwise(lines):
        if before.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        prose = not fenced and line[:1].isalpha() and before[-1:] not in ("", ":", "|", "`", "-")
        prose = prose and before.count(" ") > 1 and before[:1] not in "#|" and line.count(" ") > 0
        parts += (" " if prose and not _KEY.match(line) else "\n", line)
    return "".join(parts)


def _sentences(text: str, start: int, end: int, words: list[Word]) -> list[Unit]:
    """Cut the line from `start` to `end` into sentences, of which each gets its words."""
    made: list[Unit] = []
    at, taken, count = start, 0, len(words)
    while taken < count:
        limit = min(end, at + MAX_UNIT_CHARS)
        stop = _STOP.search(text, at, limit)
        until = stop.end() if stop else limit
        if until < end and not stop:
            space = text.rfind(" ", at + MAX_UNIT_CHARS // 2, until)
            until = space if space > 0 else until
        first, mask = taken, 0
        while taken < count and words[taken].start < until:
            mask |= words[taken].bits
            taken += 1
        if taken > first:
            made.append(Unit(text, at, until, words[first:taken], mask))
        at = until
    return made


def _words(text: str, split: Pieces) -> list[Word]:
    """Return the words of a text that do something; every loop over all words is in C."""
    tokens, edges, distinct = split
    table = {token: _bits(token) for token in distinct}
    bits = list(map(table.__getitem__, tokens))
    lone = {token: len(token) == 1 for token in table}
    words = (
        _one_by_one(text, tokens, edges, bits)
        if any(does & _ORDER and "_" in token for token, does in table.items())
        or not _DOTTED.isdisjoint(table)
        else _at_once(edges, bits)
    )
    if sum(lone.values()) > 1:
        words = _with_spelled(words, bytes(map(lone.__getitem__, tokens)), tokens, edges)
    return words


def _at_once(edges: list[int], bits: list[int]) -> list[Word]:
    """Return the words of which a look at the token alone says all."""
    return list(
        map(
            _MAKE,
            zip(
                compress(count(), bits),
                compress(edges[::2], bits),
                compress(edges[1::2], bits),
                filter(None, bits),
                strict=False,
            ),
        )
    )


def _one_by_one(text: str, tokens: list[str], edges: list[int], bits: list[int]) -> list[Word]:
    words: list[Word] = []
    shift = 0
    for index in compress(range(len(tokens)), bits):
        start, does = edges[2 * index], bits[index]
        token = tokens[index]
        if does & _ORDER and "_" in token:
            shift += _joined(words, token, index + shift, start)
            continue
        if token in _DOTTED and start and text[start - 1] == ".":
            does |= _SECRET
        words.append(Word(index + shift, start, edges[2 * index + 1], does))
    return words


def _bits(token: str) -> int:
    bits = LEXICON.get(token, 0)
    if bits or token.isalpha() or token.isdigit():
        return bits
    return _unusual(token)


def _unusual(token: str) -> int:
    if "'" in token:
        stem = token.partition("'")[0]
        return LEXICON.get(token.replace("'", ""), 0) or LEXICON.get(stem, 0)
    if "@" in token:
        return Part.ADDRESS.value
    if "://" in token:
        return Part.URL.value if token.startswith("http") else 0
    if any(map(str.isdigit, token)):
        if len(token) >= 14 and _ACCOUNT.fullmatch(token):
            return Part.ADDRESS.value
        return LEXICON.get(unleet(token), 0)
    if "_" in token:
        bits = 0
        for piece in token.split("_", 8)[:8]:
            bits |= LEXICON.get(piece, 0)
        return bits if bits & _ORDER else bits & _NAMED
    return 0


def _joined(words: list[Word], token: str, index: int, start: int) -> int:
    """Read a name that is an order ("ignore_all_rules") as its words.

    Returns by how many the words behind it move.
    """
    pieces = token.split("_")
    for number, piece in enumerate(pieces):
        bits = LEXICON.get(piece, 0)
        if bits:
            words.append(Word(index + number, start, start + len(piece), bits))
        start += len(piece) + 1
    return len(pieces) - 1


def _with_spelled(
    words: list[Word], lone: bytes, tokens: list[str], edges: list[int]
) -> list[Word]:
    """Read letters that stand apart ("i g n o r e") as the words they spell.

    What they spell counts as that many words, so that the words behind it come nearer.
    """
    merged: list[Word] = []
    done = shift = 0
    for run in _LONE.finditer(lone):
        first, end = run.span()
        spelled = list(_spelled(tokens, edges, first, end))
        if not spelled:
            continue
        while done < len(words) and words[done].start < edges[2 * first]:
            merged.append(words[done]._replace(at=words[done].at + shift))
            done += 1
        for number, word in enumerate(spelled):
            merged.append(word._replace(at=first + shift + number))
        while done < len(words) and words[done].start < edges[2 * end - 1]:
            done += 1
        shift += len(spelled) - (end - first)
    if not merged:
        return words
    return merged + [word._replace(at=word.at + shift) for word in words[done:]]


def _spelled(tokens: list[str], edges: list[int], first: int, end: int) -> Iterator[Word]:
    letters = unleet("".join(tokens[first:end]))
    at = 0
    while at < len(letters):
        known = letters[at : at + 3] in _BEGINNINGS
        for size in range(min(14, len(letters) - at), 2, -1) if known else ():
            bits = LEXICON.get(letters[at : at + size], 0)
            if bits:
                last = first + at + size - 1
                yield Word(0, edges[2 * (first + at)], edges[2 * last + 1], bits)
                at += size - 1
                break
        at += 1


def negated(unit: Unit, index: int, reach: int = 3) -> bool:
    """Tell whether one of the `reach` words before word `index` says no."""
    return any(index - reach <= word.at < index and word.bits & _NOT for word in unit.words)


def quoted(unit: Unit, start: int, end: int) -> bool:
    """Tell whether a span stands in quotes, or in a code span, within its line."""
    text = unit.text
    left = text.rfind("\n", max(0, start - MAX_UNIT_CHARS), start) + 1
    left = max(left, start - MAX_UNIT_CHARS, 0)
    right = text.find("\n", end, end + MAX_UNIT_CHARS)
    right = right if right >= 0 else min(len(text), end + MAX_UNIT_CHARS)
    before, after = text[left:start], text[end:right]
    if before.count('"') % 2 and '"' in after:
        return True
    if before.count("`") % 2 and "`" in after:
        return True
    if "'" not in before or "'" not in after:
        return False
    opened = len(re.findall(r"(?<!\w)'(?=\w|$)", before)) > len(
        re.findall(r"(?<=\S)'(?!\w)", before)
    )
    return opened and re.search(r"(?<=\S)'(?!\w)", after) is not None


def reported(unit: Unit, start: int) -> bool:
    """Tell whether the order is told of ("if asked to ignore ..."), right before `start`."""
    if not unit.mask & _TOLD:
        return False
    near = [word for word in unit.words if start - 40 <= word.start < start]
    return any(word.bits & _TOLD for word in near[-3:])


_IN_DATA = re.compile(
    r" (?:that (?:is |are |may be |might be )?)?(?:in|inside|within|from|found in|contained in"
    r"|embedded in|appears? in|hidden in|it contains|they contain) ?(?:it|them|the (?:text|document"
    r"|input|pages?|files?|data|content|results?|e?mails?|messages?|source|web|body|issue|comments?"
    r"|repo\w{0,8}|transcript|code)|user[- ](?:content|input|data)|web|tool|external|untrusted"
    r"|retrieved|fetched|third|quoted|pasted)?\b"
)


def defensive(unit: Unit, end: int) -> bool:
    """Tell whether what is to be ignored stands in the data, as a careful author asks for."""
    if unit.text.endswith((" in them", " in it", " inside them", " within them"), 0, end):
        return True
    found = _IN_DATA.match(unit.text, end)
    return found is not None and found.group()[-2:] not in ("in", "om")


def mentioned(unit: Unit, start: int, end: int) -> bool:
    """Tell whether a span is spoken of, and not said: an example, a pattern, a warning."""
    if unit.theme or not unit.mask & _MENTION:
        return unit.theme
    return any(
        word.bits & _MENTION and not word.bits & _LIVE and (word.end <= start or word.start >= end)
        for word in unit.words
    )
