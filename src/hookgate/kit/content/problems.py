"""What is wrong with content: where it stands, what was found and what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hookgate.core.domain.errors import HookgateError

__all__ = ["SHOWN_CHARS", "ContentError", "Problem", "brief", "shortened"]

SHOWN_CHARS = 80
"""So much of what a file holds is repeated in a message."""

BRIEF = 3
"""So many problems stand in `status`; a command that checks files shows all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with a file of content.

    Attributes:
        file: The file or folder.
        line: The line, from 1; None where it concerns the whole file.
        column: The column, from 1.
        key: The key within the file, dotted; "" where it concerns none.
        found: What stands there.
        expected: What should stand there, or what to do.
        nearest: The known key that looks most like the one that was found.
        severity: An ``error`` costs the capability; a ``warning`` costs nothing.
    """

    file: str
    line: int | None = None
    column: int | None = None
    key: str = ""
    found: str
    expected: str
    nearest: str | None = None
    severity: Literal["error", "warning"] = "error"

    @property
    def place(self) -> str:
        """``FILE:LINE:COLUMN``, as far as it is known."""
        parts = [self.file, *(str(one) for one in (self.line, self.column) if one is not None)]
        return ":".join(parts)

    def __str__(self) -> str:
        key = f"{self.key}: " if self.key else ""
        near = f" (did you mean {self.nearest!r}?)" if self.nearest else ""
        return f"{self.place}: {key}found {self.found}, expected {self.expected}{near}"


class ContentError(HookgateError):
    """A file of content cannot be used.

    Attributes:
        problem: Why.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def brief(told: Sequence[str], between: str = "; ") -> str:
    """Return the first `BRIEF` of what is told, and how many more there are."""
    more = f"{between}and {len(told) - BRIEF} more" if len(told) > BRIEF else ""
    return between.join(told[:BRIEF]) + more


def shortened(value: object) -> str:
    """Return a value for a message: on one line, escaped, and not too long."""
    text = value[: SHOWN_CHARS + 1] if isinstance(value, str) else value
    shown = ascii(text)
    return shown if len(shown) <= SHOWN_CHARS else f"{shown[: SHOWN_CHARS - 3]}..."
