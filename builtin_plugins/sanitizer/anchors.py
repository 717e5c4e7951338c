"""How a pattern can begin: the words that stand at the start of everything it matches.

Searching a text for a pattern that begins with one of many words costs a try at every
character. Where those words are is known from one pass over the text for all patterns
(`cues`), and the pattern is tried there only. `beginnings` reads them from the pattern.
"""

from __future__ import annotations

import re

__all__ = ["beginnings"]

_MOST, _MANY = 200, 24
"""So many beginnings of one pattern; past the second they are not made longer."""

_LONGEST, _LEAST = 14, 2
"""So many characters of a match are looked at, and no fewer."""

_LITERAL = re.compile(r"[A-Za-z0-9 '\"`,:;/@#=<>&!%~_-]|\\[^\w]")
_QUANTIFIER = re.compile(r"[?*+]|\{(\d+)(?:,\d*)?\}")
_CLASS = re.compile(r"\[([A-Za-z0-9 '\"`]-?|[A-Za-z0-9 '\"`]{2,4}-?|[ ]-)\]")
_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)


def beginnings(pattern: str) -> frozenset[str]:
    r"""Return words of which one begins each match of `pattern`, at the beginning of a word.

    The set is empty where there are none: for a pattern that does not start with ``\b`` and a
    letter or a digit in all of its alternatives, or that is not understood.
    """
    found: set[str] = set()
    for way in _ways(pattern):
        if not way.startswith("\\b"):
            return frozenset()
        whole, cut = _read(way[2:])
        found |= whole | cut
    good = all(_enough(word) and word.isascii() and word[0].isalnum() for word in found)
    return frozenset(found) if good and len(found) <= _MOST else frozenset()


def _enough(word: str) -> bool:
    return len(word) >= _LEAST


def _ways(pattern: str) -> list[str]:
    """Split a pattern at the bars that are in no group."""
    ways, depth, start = [], 0, 0
    for piece in _PIECE.finditer(pattern):
        sign = piece.group()
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and not depth:
            ways.append(pattern[start : piece.start()])
            start = piece.end()
    return [*ways, pattern[start:]]


def _read(way: str) -> tuple[set[str], set[str]]:
    """Return what `way`, without bars, can begin with: as a whole, and cut off before its end."""
    whole, cut, at = {""}, set[str](), 0
    while at < len(way):
        if way.startswith("\\b", at):
            at += 2
            continue
        if way.startswith(("(?!", "(?=", "(?<"), at):
            at = _behind(way, at)
            continue
        read = _item(way, at)
        if read is None:
            return set(), whole | cut
        (inner, inner_cut), at = read
        if len(whole) * len(inner) + len(cut) > _MANY and all(map(_enough, whole)):
            return set(), whole | cut
        quantifier = _QUANTIFIER.match(way, at)
        longer = {first + then for first in whole for then in inner}
        ended = {first + then for first in whole for then in inner_cut}
        if quantifier is None:
            whole, cut = longer, cut | ended
        elif quantifier.group() == "?":
            whole, cut, at = whole | longer, cut | ended, quantifier.end()
            at += way.startswith(("?", "+"), at)
        else:
            least = quantifier[1] or ("1" if quantifier.group() == "+" else "0")
            return set(), cut | ended | longer | (whole if least == "0" else set())
        if all(len(word) >= _LONGEST for word in whole):
            return set(), whole | cut
    return whole, cut


def _item(way: str, at: int) -> tuple[tuple[set[str], set[str]], int] | None:
    """Return what the literal, the small class, or the group at `at` begins with, and its end."""
    if way.startswith("(?:", at):
        end = _behind(way, at)
        whole, cut = set[str](), set[str]()
        for inner in _ways(way[at + 3 : end - 1]):
            as_whole, as_cut = _read(inner)
            whole |= as_whole
            cut |= as_cut
        return (whole, cut), end
    if found := _CLASS.match(way, at):
        return (set(found[1]), set()), found.end()
    if found := _LITERAL.match(way, at):
        return ({found.group()[-1]}, set()), found.end()
    return None


def _behind(way: str, at: int) -> int:
    """Return where the group that starts at `at` ends."""
    depth = 0
    for piece in _PIECE.finditer(way, at):
        depth += (piece.group() == "(") - (piece.group() == ")")
        if not depth:
            return piece.end()
    raise ValueError(f"the group at {at} of {way!r} is not closed: close it")
