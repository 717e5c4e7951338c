"""Phrases that reject every text they stand in, whatever is around them.

No quotation marks, no code block, no warning and no example takes anything from a finding of
the floor, and no trust does: it is what the sanitizer finds however its other rules change.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hookgate.core.domain.descriptors import Severity

__all__ = ["floor"]

_GAP = r"[\s\ufeff]"
_NOTE = "is a phrase of the floor, which no text may hold"
_PHRASES = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "floor-ignore": rf"ignore{_GAP}+(?:previous|prior|all){_GAP}+(?:instructions|prompts)",
        "floor-disregard": rf"disregard{_GAP}+(?:everything|all|previous)",
        "floor-system": rf"system:{_GAP}*you{_GAP}+are{_GAP}+now",
    }.items()
}
"""Not held to the borders of words: what a longer word ends or begins with counts, too."""


def floor(text: str) -> Iterator[tuple[str, Severity, str, int, int]]:
    """Yield the first place of each phrase of the floor: rule, severity, note, start, end."""
    for name, phrase in _PHRASES.items():
        found = phrase.search(text)
        if found is not None:
            yield name, "high", _NOTE, found.start(), found.end()
