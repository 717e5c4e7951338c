"""YAML for manifests and frontmatter: what two readers would understand alike, and no more.

The text is read at the level of PyYAML's events. What makes YAML surprising is refused: aliases,
merge keys, tags, directives, several documents, duplicate keys, keys that are no strings.

PyYAML has a parser in Python and one in C, which is ten times as fast and takes a little more.
What this module reads is what the one in Python reads: the other is asked where the two are
alike, and what it turns down is looked at again.

Plain scalars follow the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema)
where YAML 1.1 agrees, or JSON demands it. All others are strings: ``no``, ``on``, ``0123``,
``1_000``, ``2024-01-01`` and ``12:30`` stay the text that they are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

import yaml

from hookgate.core.domain.strict_json import MAX_INTEGER
from hookgate.core.settings.documents import Position, SourceDocument
from hookgate.core.settings.toml_lines import KeyPath
from hookgate.kit.content.files import BOM, MANIFEST_BYTES
from hookgate.kit.content.problems import ContentError, Problem, shortened

if TYPE_CHECKING:
    from yaml.events import Event

__all__ = ["MAX_DEPTH", "read_yaml"]

MAX_DEPTH = 8
"""Mappings and sequences may be nested this deep, the outermost one counted."""

_READ_DIFFERENTLY = re.compile(
    r"[^\n\x20-\x7e\xa0-\u2027\u2030-\ufefe\uff00-\U0010ffff]|\?[^ \n]|[|>][-+0-9]*+#|^---", re.M
)
"""Where the two parsers differ: tabs, odd line breaks, question marks within words or beside
brackets, comments that stick to the head of a block, and empty documents behind their mark."""
_MANY_BRACKETS = 200
"""The parser in C looks ever longer for the ends of brackets, the more of them are open."""

_NULL = {"", "~", "null", "Null", "NULL"}
_TRUE = {"true", "True", "TRUE"}
_FALSE = {"false", "False", "FALSE"}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*+)")
_FLOAT = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9]*+)(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][-+]?[0-9]++)?",
)


def read_yaml(
    text: str,
    file: str,
    *,
    first_line: int = 1,
    max_bytes: int = MANIFEST_BYTES,
    max_values: int | None = None,
) -> SourceDocument:
    """Read one document.

    The time goes into values more than into bytes: where reading has to be quick whatever the
    text says, a limit of each is needed.

    Args:
        text: The YAML text; a byte order mark before it is passed over.
        file: The file that it comes from, for messages.
        first_line: The line of the file on which the text begins.
        max_bytes: The largest size in UTF-8.
        max_values: The most values, mappings and lists counted with what they hold; None for
            as many as the size allows.

    Raises:
        ContentError: It is no YAML, or YAML of the kinds that are refused; it says where.
    """
    text = text.removeprefix(BOM)
    if _is_read_alike(text, max_bytes):
        # What is refused is refused in the words of the other parser, and at its places.
        with suppress(ContentError):
            return _Reader(file, first_line - 1, max_bytes, max_values).document(text, _FAST)
    return _Reader(file, first_line - 1, max_bytes, max_values).document(text, _Loader)


def _is_read_alike(text: str, max_bytes: int) -> bool:
    brackets = text.count("[") + text.count("{")
    return (
        len(text) <= max_bytes
        and brackets <= _MANY_BRACKETS
        and not (brackets and "?" in text)
        and _READ_DIFFERENTLY.search(text) is None
    )


class _Loader(yaml.SafeLoader):
    """PyYAML's scanner looks far ahead, and ever slower the more brackets are open."""

    flow_level: int

    def fetch_flow_collection_start(self, token: Any) -> None:
        """Refuse brackets that are deeper than `MAX_DEPTH` before they are looked through."""
        if self.flow_level >= MAX_DEPTH:
            raise _DepthError(None, None, None, self.get_mark())
        super().fetch_flow_collection_start(token)


_FAST: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else _Loader


class _DepthError(yaml.MarkedYAMLError):
    """Brackets are nested too deep."""


class _Reader:
    def __init__(self, file: str, offset: int, max_bytes: int, max_values: int | None) -> None:
        self._file = file
        self._offset = offset
        self._max_bytes = max_bytes
        self._max_values = max_values
        self._values = 0
        self._places: dict[KeyPath, Position] = {}
        self._texts: dict[KeyPath, str] = {}
        self._events: Iterator[Event] = iter(())

    def document(self, text: str, loader: Any) -> SourceDocument:
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > self._max_bytes:
            where = Position(1 + self._offset, 1)
            self._refuse(where, f"{size} bytes of YAML", f"at most {self._max_bytes}")
        try:
            self._events = iter(yaml.parse(text, Loader=loader))
            value = self._stream()
        except _DepthError as error:
            self._too_deep(self._at(error.problem_mark))
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            what = error.problem or error.context or "something else"
            expected = "YAML"
            if "escape character" in what:
                expected += ": between double quotes a backslash is written twice, between single "
                expected += "quotes and without any it stands for itself"
            self._refuse(self._at(mark), f"no YAML ({shortened(what)[1:-1]})", expected)
        except yaml.YAMLError as error:
            position = getattr(error, "position", 0)
            line = text.count("\n", 0, position) + 1 + self._offset
            reason = shortened(getattr(error, "reason", "it cannot be read"))[1:-1]
            self._refuse(Position(line, 1), f"no YAML ({reason})", "YAML")
        except (ValueError, OverflowError, RecursionError) as error:
            # PyYAML passes on what Python says of an escape beyond Unicode, for one.
            self._refuse(Position(1, 1), f"no YAML ({shortened(str(error))[1:-1]})", "YAML")
        return SourceDocument(file=self._file, value=value, places=self._places, texts=self._texts)

    # -- structure ---------------------------------------------------------

    def _stream(self) -> Any:
        value, seen = None, False
        for event in self._events:
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            where = self._at(event.start_mark)
            if seen:
                self._refuse(where, "a second document", "one document in a file")
            if event.version or event.tags:
                self._refuse(where, "a directive (%)", "a document without directives")
            seen = True
            value = self._node(next(self._events), (), 0)
        return value

    def _node(self, event: Event, path: KeyPath, depth: int) -> Any:
        where = self._at(event.start_mark)
        self._places.setdefault(path, where)
        self._check(event, where)
        self._values += 1
        if self._max_values is not None and self._values > self._max_values:
            self._refuse(where, f"more than {self._max_values} values", "fewer of them")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, path, where)
        if depth == MAX_DEPTH:
            self._too_deep(where)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path, depth + 1)
        values: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            values.append(self._node(event, (*path, len(values)), depth + 1))
        return values

    def _mapping(self, path: KeyPath, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            where = self._at(event.start_mark)
            self._check(event, where)
            key = self._key(event, where)
            if key in values:
                first = self._places[(*path, key)].line
                self._refuse(
                    where,
                    f"the key {shortened(key)} a second time",
                    f"each key once; it stands on line {first} already",
                )
            self._places[(*path, key)] = where
            values[key] = self._node(next(self._events), (*path, key), depth)
        return values

    def _key(self, event: Event, where: Position) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            self._refuse(where, "a mapping or a list as a key", "a string as a key")
        if _is_plain(event) and event.value == "<<":
            self._refuse(where, "a merge key (<<)", "the keys themselves")
        value = self._scalar(event, None, where)
        if not isinstance(value, str):
            self._refuse(
                where,
                f"the key {shortened(event.value)}, which is no string",
                "a string as a key: put it in quotes",
            )
        return value

    def _check(self, event: Event, where: Position) -> None:
        if isinstance(event, yaml.AliasEvent):
            self._refuse(where, f"an alias (*{_short(event.anchor or '')})", "the value itself")
        if getattr(event, "anchor", None) is not None:
            name = _short(event.anchor)  # type: ignore[attr-defined]  # checked on the line above
            self._refuse(where, f"an anchor (&{name})", "a value without an anchor")
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._refuse(where, f"a tag ({_short(tag)})", "a value without a tag")

    # -- scalars -----------------------------------------------------------

    def _scalar(self, event: yaml.ScalarEvent, path: KeyPath | None, where: Position) -> Any:
        try:
            # JSON writes what lies beyond the first plane as a pair of escapes.
            text = event.value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            self._refuse(where, "half of a surrogate pair", "whole characters")
        if not _is_plain(event):
            return text
        if path is not None:
            self._texts[path] = text
        if text in _NULL:
            return None
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        if _INTEGER.fullmatch(text):
            if len(text) > 17 or abs(number := int(text)) > MAX_INTEGER:
                self._refuse(
                    where,
                    f"the integer {_short(text)}",
                    f"at most {MAX_INTEGER} in size: put a longer one in quotes",
                )
            return number
        if _FLOAT.fullmatch(text) and math.isfinite(real := float(text)):
            return real
        return text

    def _at(self, mark: Any) -> Position:
        if mark is None:
            return Position(1 + self._offset, 1)
        return Position(mark.line + 1 + self._offset, mark.column + 1)

    def _too_deep(self, where: Position) -> NoReturn:
        self._refuse(where, "deeper nesting", f"mappings and lists at most {MAX_DEPTH} deep")

    def _refuse(self, where: Position, found: str, expected: str) -> NoReturn:
        raise ContentError(
            Problem(
                file=self._file,
                line=where.line,
                column=where.column,
                found=found,
                expected=expected,
            )
        ) from None


def _is_plain(event: yaml.ScalarEvent) -> bool:
    return event.style in (None, "")


def _short(text: str) -> str:
    return shortened(text)[1:-1]
