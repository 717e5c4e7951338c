"""Where each key of a TOML text stands.

`tomllib` gives the values without their places. The scanner here gives the places, of a
text that `tomllib` has read already: it trusts the syntax and looks at structure only.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping

KeyPath = tuple[str | int, ...]
"""The way to a value: keys, and places in arrays counted from 0."""

_SPACE = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_BLANK = re.compile(r"[ \t]*+")
_BARE = re.compile(r"[A-Za-z0-9_-]++")
_SCALAR = re.compile(r"[^,\]}#\n]++")
# A multi-line string may end in up to two quotes of its own before the closing three.
_STRING = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+"{3,5}'
    r"|'''(?:[^']++|'(?!''))*+'{3,5}"
    r'|"(?:[^"\\\n]++|\\.)*+"'
    r"|'[^'\n]*+'",
    re.DOTALL,
)


def locate(text: str) -> Mapping[KeyPath, int]:
    """Return the line, counted from 1, of every key, table and array element of `text`.

    A table stands where its header is, or where it is first named as a part of another
    key; an element of an array stands where it begins.

    Args:
        text: A TOML text that `tomllib.loads` accepts.
    """
    scanner = _Scanner(text.replace("\r\n", "\n"))
    scanner.document()
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._text = text
        self._at = 0
        self._line = 1
        self._counted = 0
        self._arrays: dict[KeyPath, int] = {}

    def document(self) -> None:
        table: KeyPath = ()
        while self._skip(_SPACE):
            if self._text.startswith("[[", self._at):
                table = self._array_header()
            elif self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)

    # -- moving on ---------------------------------------------------------

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        """Move behind `pattern`, which matches at least the empty text; whether more follows."""
        match = pattern.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        return self._at < len(self._text)

    def _here(self) -> int:
        """Return the line of the present place. Places only grow, so each line is counted once."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def _note(self, path: KeyPath, line: int, *, implied: bool = False) -> None:
        if implied:
            self.lines.setdefault(path, line)
        else:
            self.lines[path] = line

    # -- structure ---------------------------------------------------------

    def _header(self) -> KeyPath:
        self._at += 1
        line = self._here()
        path = self._resolve(self._key("]"), line)
        self._at += 1
        self._note(path, line)
        return path

    def _array_header(self) -> KeyPath:
        self._at += 2
        line = self._here()
        names = self._key("]")
        path = (*self._resolve(names[:-1], line), names[-1])
        self._at += 2
        number = self._arrays.get(path, -1) + 1
        self._arrays[path] = number
        self._note(path, line, implied=True)
        self._note((*path, number), line)
        return (*path, number)

    def _resolve(self, names: tuple[str, ...], line: int) -> KeyPath:
        """Return the path that a header's `names` lead to: into the latest element of arrays."""
        path: KeyPath = ()
        for name in names:
            path = (*path, name)
            self._note(path, line, implied=True)
            if path in self._arrays:
                path = (*path, self._arrays[path])
        return path

    def _pair(self, table: KeyPath) -> None:
        self._skip(_BLANK)
        line = self._here()
        path = table
        for name in self._key("="):
            path = (*path, name)
            self._note(path, line, implied=True)
        self._at += 1
        self._skip(_BLANK)
        self._value(path)

    def _key(self, end: str) -> tuple[str, ...]:
        """Read a dotted key up to, and not including, `end`."""
        names: list[str] = []
        while True:
            self._skip(_BLANK)
            character = self._text[self._at]
            if character == end:
                return tuple(names)
            if character == ".":
                self._at += 1
                continue
            start = self._at
            self._skip(_STRING if character in "\"'" else _BARE)
            token = self._text[start : self._at]
            names.append(_unquoted(token) if character in "\"'" else token)

    def _value(self, path: KeyPath) -> None:
        character = self._text[self._at]
        if character == "[":
            self._array(path)
        elif character == "{":
            self._inline_table(path)
        else:
            self._skip(_STRING if character in "\"'" else _SCALAR)

    def _array(self, path: KeyPath) -> None:
        self._at += 1
        number = 0
        while self._skip(_SPACE) and self._text[self._at] != "]":
            if self._text[self._at] == ",":
                self._at += 1
                continue
            self._note((*path, number), self._here())
            self._value((*path, number))
            number += 1
        self._at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        while self._skip(_SPACE) and self._text[self._at] != "}":
            if self._text[self._at] == ",":
                self._at += 1
                continue
            self._pair(path)
        self._at += 1


def _unquoted(token: str) -> str:
    if token[0] == "'":
        return token[1:-1]
    (name,) = tomllib.loads(f"{token} = 0")
    return name
