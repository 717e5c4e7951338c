"""What stands around a place of a text: code, quotation marks, talk of attacks.

A text that speaks of attacks has to name them. What it shows as an example is told apart from what
it asks for, as far as the marks around it tell.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

_THEME = re.compile(
    r"\b(?:prompt[ -]?injection|injection|injected|jailbreak\w{0,6}|attack\w{0,5}|malicious"
    r"|exploit\w{0,4}|payloads?|detect(?:ion|or)s?|adversar\w{0,6}|red[ -]?team\w{0,4}|phishing"
    r"|exfiltrat\w{0,4}|threats?|vulnerab\w{0,7}"
    r"|social engineering|untrusted|sanitiz\w{0,4}|guardrails?|security|scam\w{0,4}|malware)\b"
)
_FENCE = re.compile(r"^[ \t>]{0,12}(```|~~~)", re.MULTILINE)
_ASIDE = re.compile(r"[ \t]{0,12}(?:\||>|[-*+] {0,3}[`\"'“]|\d{1,3}\. {0,3}[`\"'“]|[`\"'“])")
_QUOTATION = re.compile(r"\"[^\"\n]{1,400}\"|`[^`\n]{1,400}`|(?<!\w)'[^'\n]{1,400}'(?!\w)")

THEMED = 2
"""A text speaks of attacks when so many words of the theme stand in it."""
NEAR = 300
"""Characters around a place in which one of them must stand, too."""


@dataclass(frozen=True, slots=True)
class TextSurroundings:
    """What stands where in one folded text.

    Attributes:
        text: The text.
        theme: Where words of the theme stand.
        fences: Where code blocks open and close, in turns.
    """

    text: str
    theme: tuple[int, ...]
    fences: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> TextSurroundings:
        """Look a folded text through."""
        theme = tuple(match.start() for match in _THEME.finditer(text))
        return cls(text, theme, tuple(match.start() for match in _FENCE.finditer(text)))

    def mentioned(self, start: int, end: int) -> bool:
        """Tell whether what stands there is shown as an example of an attack."""
        near = bisect_right(self.theme, end + NEAR) - bisect_right(self.theme, start - NEAR - 1)
        if not near:
            return False
        if self._quoted(start, end):
            return True
        return len(self.theme) >= THEMED and (self.fenced(start) or self._aside(start))

    def fenced(self, start: int) -> bool:
        """Tell whether a place lies in a code block."""
        return bisect_right(self.fences, start) % 2 == 1

    def _aside(self, start: int) -> bool:
        line = self.text.rfind("\n", 0, start) + 1
        return _ASIDE.match(self.text, line) is not None

    def _quoted(self, start: int, end: int) -> bool:
        """Tell whether a good part of a place stands in quotation marks."""
        first = self.text.rfind("\n", 0, start) + 1
        last = self.text.find("\n", end)
        inside = 0
        for quote in _QUOTATION.finditer(self.text, first, last if last >= 0 else len(self.text)):
            inside += max(min(quote.end(), end) - max(quote.start(), start), 0)
        return 3 * inside > end - start
