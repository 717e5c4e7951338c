"""The sentences of a text, what their words do, and where they stand.

A sentence in a code block, in quotes, or in a table of attack patterns says something
else than the same sentence in running prose. `units` cuts a text into sentences with
that knowledge; `quoted` and `mentioned` judge one span of one sentence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from hookgate.builtin_plugins.awareness.lexicon import LEXICON, Part
from hookgate.builtin_plugins.awareness.normalise import unleet

__all__ = ["MAX_UNIT_CHARS", "Unit", "Word", "mentioned", "negated", "quoted", "reported", "units"]

MAX_UNIT_CHARS = 600
"""A longer sentence is cut: so the work on one sentence is bounded."""

_WORD = re.compile(r"\w+(?:'\w{1,3}|://[^\s<>\"'`)\]]{1,300}|@[\w-]{1,40}\.[\w.-]{1,40})?")
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
_SINGLE = 4
"""So many letters that stand alone in a row are read as one word."""


class Word(NamedTuple):
    """A word that does something."""

    at: int
    start: int
    end: int
    bits: int


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


def units(text: str) -> list[Unit]:
    """Cut a text in plain form into sentences, in time linear in its length."""
    found: list[Unit] = []
    hidden = heading = intro = False
    start = depth = 0
    read: dict[str, Unit] = {}  # what comes again is not read again
    for line in text.splitlines(keepends=True):
        bare = line.strip()
        if bare.startswith(("```", "~~~")):
            # A fence with a language opens one, even within another; a bare one closes it.
            depth = depth + 1 if len(bare.strip("`~")) or not depth else depth - 1
        elif bare:
            fenced = depth > 0
            hidden = hidden or "<!--" in bare or "display:none" in bare.replace(" ", "")
            made = _sentences(text, start, start + len(line), read)
            speaks = any(unit.mask & _MENTION for unit in made)
            for unit in made:
                unit.fenced, unit.row, unit.hidden = fenced, bare.startswith("|"), hidden
                unit.theme = heading or intro
            found += made
            if bare.startswith("#") and not fenced:
                heading, intro = speaks, False
            elif bare.endswith(":"):
                intro = speaks
            elif not bare.startswith(("-", "*", "|", ">", "+", '"', "`")) and not bare[0].isdigit():
                intro = intro and fenced
            if "-->" in bare or "</" in bare:
                hidden = False
        start += len(line)
    return found


def _sentences(text: str, start: int, end: int, read: dict[str, Unit]) -> list[Unit]:
    made: list[Unit] = []
    at = start
    while at < end:
        limit = min(end, at + MAX_UNIT_CHARS)
        stop = _STOP.search(text, at, limit)
        until = stop.end() if stop else limit
        if until < end and not stop:
            space = text.rfind(" ", at + MAX_UNIT_CHARS // 2, until)
            until = space if space > 0 else until
        unit = Unit(text, at, until)
        bare = text[at:until]
        same = read.get(bare)
        if same is None:
            _read(unit)
            read[bare] = unit
        elif same.words:
            unit.mask, by = same.mask, at - same.start
            unit.words = [Word(w.at, w.start + by, w.end + by, w.bits) for w in same.words]
        if unit.words:
            made.append(unit)
        at = until
    return made


def _read(unit: Unit) -> None:
    text, words = unit.text, unit.words
    single: list[re.Match[str]] = []
    known = LEXICON.get
    index = 0
    for match in _WORD.finditer(text, unit.start, unit.end):
        token = match.group()
        if len(token) == 1:
            single.append(match)
        elif single:
            index = _spaced(unit, single, index)
            single = []
        index += 1
        bits = known(token, 0)
        if not bits:
            if token.isalpha() or token.isdigit():
                continue
            bits = _unusual(token)
            if not bits:
                continue
        start = match.start()
        if "_" in token and bits & _ORDER:
            index = _joined(unit, token, start, index)
            continue
        if token in _DOTTED and start and text[start - 1] == ".":
            bits |= _SECRET
        words.append(Word(index, start, match.end(), bits))
        unit.mask |= bits
    if single:
        _spaced(unit, single, index)


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


def _joined(unit: Unit, token: str, start: int, index: int) -> int:
    """Read a name that is an order ("ignore_all_rules") as its words."""
    for piece in token.split("_"):
        index += 1
        bits = LEXICON.get(piece, 0)
        if bits:
            unit.words.append(Word(index, start, start + len(piece), bits))
            unit.mask |= bits
        start += len(piece) + 1
    return index


def _spaced(unit: Unit, single: list[re.Match[str]], index: int) -> int:
    """Read letters that stand apart ("i g n o r e") as the words they spell."""
    if len(single) < _SINGLE:
        return index
    letters = unleet("".join(match.group() for match in single))
    at = 0
    while at < len(letters):
        known = letters[at : at + 3] in _BEGINNINGS
        for size in range(min(14, len(letters) - at), 2, -1) if known else ():
            bits = LEXICON.get(letters[at : at + size], 0)
            if bits:
                index += 1
                last = single[at + size - 1]
                unit.words.append(Word(index, single[at].start(), last.end(), bits))
                unit.mask |= bits
                at += size - 1
                break
        at += 1
    return index


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
    opened = len(re.findall(r"(?<!\w)'(?=\w|$)", before)) > len(
        re.findall(r"(?<=\S)'(?!\w)", before)
    )
    return opened and re.search(r"(?<=\S)'(?!\w)", after) is not None


def reported(unit: Unit, start: int) -> bool:
    """Tell whether the order is told of ("if asked to ignore ..."), right before `start`."""
    near = [word for word in unit.words if start - 40 <= word.start < start]
    return any(word.bits & _TOLD for word in near[-3:])


def mentioned(unit: Unit, start: int, end: int) -> bool:
    """Tell whether a span is spoken of, and not said: an example, a pattern, a warning."""
    return unit.theme or any(
        word.bits & _MENTION and not word.bits & _LIVE and (word.end <= start or word.start >= end)
        for word in unit.words
    )
