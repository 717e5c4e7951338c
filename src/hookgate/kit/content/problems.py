"""What is wrong with content: where it stands, what was found and what was expected."""

from __future__ import annotations

from collections.abc import Sequence

from hookgate.core.domain.errors import ContentError, Problem

__all__ = ["SHOWN_CHARS", "ContentError", "Problem", "brief", "shortened"]

SHOWN_CHARS = 80
"""So much of what a file holds is repeated in a message."""

BRIEF = 3
"""So many problems stand in `status`; a command that checks files shows all."""


def brief(told: Sequence[str], between: str = "; ") -> str:
    """Return the first `BRIEF` of what is told, and how many more there are."""
    more = f"{between}and {len(told) - BRIEF} more" if len(told) > BRIEF else ""
    return between.join(told[:BRIEF]) + more


def shortened(value: object) -> str:
    """Return a value for a message: on one line, escaped, and not too long."""
    text = value[: SHOWN_CHARS + 1] if isinstance(value, str) else value
    shown = ascii(text)
    return shown if len(shown) <= SHOWN_CHARS else f"{shown[: SHOWN_CHARS - 3]}..."
