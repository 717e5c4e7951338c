"""Weighing whether a sentence carries something of the person's to somebody else.

Every guide to a web service sends something somewhere. What sets a leak apart is the
company it keeps: what is sent, to whom, on what occasion, and whether in an order or in
a listing of code. `weigh` adds these up for one sentence that sends something somewhere.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from hookgate.builtin_plugins.sanitizer.context import negated
from hookgate.builtin_plugins.sanitizer.lexicon import Part as P

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hookgate.builtin_plugins.sanitizer.context import Unit, Word

__all__ = ["FAINTLY", "HIGH", "MEDIUM", "SENDS", "SINKS", "hosts", "weigh"]

HIGH = 7
MEDIUM = 6
FAINTLY = 5
"""From these sums on, a sentence is a finding of that severity, or no more than a signal."""

_HOST = re.compile(r"https?://([^/\s:\"'<>`)?]{1,120})")
_SEND, _PLACE, _URL, _ADDRESS = int(P.SEND), int(P.PLACE), int(P.URL), int(P.ADDRESS)
_SECRET, _PRIVATE, _DATA, _OUTER = int(P.SECRET), int(P.PRIVATE), int(P.DATA), int(P.OUTER)
SENDS, SINKS = _SEND, _URL | _ADDRESS | _PLACE | _OUTER
"""A sentence that sends something somewhere has words of both."""

_WHEN, _DONE, _ALWAYS, _SILENT = int(P.WHEN), int(P.DONE), int(P.ALWAYS), int(P.SILENTLY)
_UPLOAD = re.compile(
    r"-f\s{0,3}['\"]?\w{1,20}=@|--upload-file|-t\s{1,3}\S|(?:-d|--data|--data-binary"
    r"|--data-raw)\s{0,3}['\"]?@"
    r"|[:=]\s{0,2}['\"]?<[a-z_ ]{2,40}>|\$\(|=\{"
)


def hosts(text: str) -> Counter[str]:
    """Count the registered names (last two labels) of the addresses in a text."""
    return Counter(_registered(found[1]) for found in _HOST.finditer(text))


def _registered(host: str) -> str:
    return ".".join(host.rsplit(".", 2)[-2:])


def weigh(unit: Unit, before: Sequence[Unit], names: Counter[str]) -> tuple[int, int, int] | None:
    """Return the weight of a sentence that sends something, and its span.

    `before` are the sentences right before it: a list gathers first, and sends then.
    """
    mask = unit.mask
    if not (mask & SENDS and mask & SINKS):
        return None
    send = None
    for word in unit.words:
        if (
            word.bits & _SEND
            and not word.bits & (_URL | _ADDRESS)
            and _verb(unit, word)
            and not negated(unit, word.at, 4)
        ):
            send = word
            break
    if send is None:
        return None
    place = [
        w
        for w in unit.words
        if w.bits & (_URL | _ADDRESS | _PLACE | _OUTER) and w.at > send.at and w.at - send.at < 30
    ]
    if not place:
        return None
    text = unit.text[unit.start : unit.end]
    sure = any(w.bits & (_URL | _ADDRESS) for w in place)
    outer = any(w.bits & _OUTER for w in place)
    weight = (2 if sure else 0) + (2 if outer else 0)
    earlier = 0
    for other in before:
        earlier |= other.mask
    weight += 3 if mask & (_SECRET | _PRIVATE) else 1 if mask & _DATA else 0
    if _occasion(unit):
        weight += 2
    elif any(_occasion(other) for other in before):
        weight += 1
    if earlier & _SECRET and earlier & int(P.READ):
        weight += 1
    if "_" in unit.text[send.start : send.end] and not (unit.fenced or unit.row):
        weight += 2  # the call of a tool, spelled out
    if mask & int(P.INSTEAD):
        weight += 1
    if not mask & (_SECRET | _PRIVATE) and _KEYS.search(text):
        weight += 2 + bool(mask & int(P.READ))
    if mask & _SILENT:
        weight += 2
    if mask & int(P.OURS) and mask & _OUTER:
        weight += 1
    if _UPLOAD.search(text):
        weight += 1
    if unit.fenced or unit.row:
        weight -= 2
    if _HEADER.search(text):
        weight -= 2
    for found in _HOST.finditer(text):
        if names[_registered(found[1])] <= 2:
            weight += 1
            break
    else:
        if any(w.bits & _ADDRESS for w in place):
            weight += 1
    return weight, send.start, place[-1].end


_HEADER = re.compile(r"\b(?:authorization|bearer|x-api-key|basic auth|public[ -]key)\b")
_NOUNS = ("log", "email", "mail", "post", "report", "backup", "share", "dump", "push", "ship")
_KEYS = re.compile(
    r"\b(?:(?:api|private|access)[ _-]keys?|seed phrase|credit card|card number|social "
    r"security)"
)
_OBJECT = re.compile(
    r"\W{0,3}(?:the|a|an|it|them|this|these|that|all|any|every|each|your|their|his|her|its|user"
    r"|contents?|-x|to|summar\w{0,4})\b"
)


def _verb(unit: Unit, word: Word) -> bool:
    """Tell an order to send from a name of what is sent ("an email address")."""
    if unit.text[word.start : word.end] not in _NOUNS:
        return True
    return _OBJECT.match(unit.text, word.end, unit.end) is not None


def _occasion(unit: Unit) -> bool:
    """Tell whether the order is for every turn, and not for when it is asked for."""
    last = -10
    for word in unit.words:
        if word.bits & _ALWAYS:
            return True
        if word.bits & _DONE and 0 < word.at - last <= 3:
            return True
        if word.bits & _WHEN:
            last = word.at
    return False
