"""Text that comes in pieces, broken between words on a terminal."""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING

from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Callable

_PARTS = re.compile(r"\n|[^\S\n]+|\S+")

FENCE = "```"
"""Between two of these stands code, whose lines stay as they are."""


class WordWrap:
    """Writes pieces of a text, and begins a new line where a word would be cut in two.

    A word is written once its end has come, or `flush` is called; whitespace where a line is
    broken is left out. What is longer than a line is left to the terminal.

    Args:
        file: Where it goes.
        width: Returns the columns of the terminal, which may change.
    """

    def __init__(self, file: IO[str], width: Callable[[], int]) -> None:
        self._file = file
        self._width = width
        self._column = 0
        self._space = ""
        self._word = ""
        self._code = False

    def write(self, text: str) -> None:
        """Take a piece; what of it can be shown is shown at once."""
        for part in _PARTS.findall(text):
            if part == "\n":
                self._end_word()
                self._put("\n")
                self._column, self._space = 0, ""
            elif part.isspace():
                self._end_word()
                self._space += part
            else:
                self._word += part
        self._file.flush()

    def flush(self) -> None:
        """Show what is held back."""
        self._end_word()
        self._put(self._space)
        self._space = ""
        self._file.flush()

    def reset(self) -> None:
        """Begin anew, at the beginning of a line."""
        self.flush()
        self._column, self._code = 0, False

    def _end_word(self) -> None:
        word, self._word = self._word, ""
        if not word:
            return
        if word.startswith(FENCE):
            self._code = not self._code
        needed = self._column + cell_len(self._space) + cell_len(word)
        if needed > self._width() and self._column and not self._code:
            self._put("\n")
            self._column, self._space = 0, ""
        self._put(self._space + word)
        self._space = ""

    def _put(self, text: str) -> None:
        self._file.write(text)
        self._column += cell_len(text.replace("\n", ""))
