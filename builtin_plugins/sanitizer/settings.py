"""The settings of the sanitizer: ``[plugin.sanitizer]``."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import AfterValidator, Field

from hookgate import Section

THRESHOLD = 1.0
"""From this score of the model on, a passage is a finding: see `benchmarks.sanitizer.injection`."""


def _digest(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise ValueError("expected a SHA-256 of 64 hexadecimal digits, as the rejection names it")
    return text


Score = Annotated[float, Field(ge=-5.0, le=10.0)]


class SanitizerSettings(Section):
    """``[plugin.sanitizer]``: what is let through."""

    allow: tuple[Annotated[str, AfterValidator(_digest)], ...] = ()
    """Texts that pass although something was found in them, by the SHA-256 that their rejection
    names. The text is cleaned all the same; another word in it, and it is judged again."""
    threshold: Score = THRESHOLD
    """From this score on, what reads like an order to a model is a finding; less finds more, and is
    wrong more often."""
    thresholds: dict[str, Score] = Field(default_factory=dict)
    """The same for some cards: a pattern of their ids, such as `skill:*`. The first one that fits
    counts."""

    def threshold_of(self, card: str) -> float:
        """Return the threshold for the card with this id."""
        fitting = (value for glob, value in self.thresholds.items() if fnmatchcase(card, glob))
        return next(fitting, self.threshold)
