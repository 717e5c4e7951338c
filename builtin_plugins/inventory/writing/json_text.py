"""JSON, also with comments and trailing commas: members put in and taken out of the text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from hookgate.builtin_plugins.inventory.writing import Edit, TranscodeError

_SPACE = re.compile(r"(?:\s++|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+")
_SCALAR = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\.)*+"|[-+.\w]++')
DEPTH = 64


@dataclass
class _Node:
    start: int
    end: int = 0
    value: Any = None
    members: dict[str, _Member] = field(default_factory=dict)


@dataclass
class _Member:
    start: int
    node: _Node
    comma: int = -1


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def document(self) -> _Node:
        node = self._value(0)
        self._space()
        if self.at != len(self.text):
            raise self._wrong("more after the end")
        return node

    def _value(self, depth: int) -> _Node:
        self._space()
        node = _Node(self.at)
        first = self.text[self.at : self.at + 1]
        if depth > DEPTH:
            raise self._wrong("deeper nesting")
        if first == "{":
            self._object(node, depth)
        elif first == "[":
            self._array(node, depth)
        else:
            token = self._scalar()
            node.value = json.loads(token)
        node.end = self.at
        return node

    def _object(self, node: _Node, depth: int) -> None:
        node.value = {}
        self.at += 1
        while not self._closed("}"):
            start = self.at
            key = json.loads(self._scalar())
            if not isinstance(key, str) or key in node.value:
                raise self._wrong(f"the key {key!r}, which is no text or stands twice")
            self._space()
            if self.text[self.at : self.at + 1] != ":":
                raise self._wrong("a key without a colon")
            self.at += 1
            below = self._value(depth + 1)
            node.value[key] = below.value
            node.members[key] = _Member(start, below, self._comma("}"))

    def _array(self, node: _Node, depth: int) -> None:
        node.value = []
        self.at += 1
        while not self._closed("]"):
            node.value.append(self._value(depth + 1).value)
            self._comma("]")

    def _closed(self, end: str) -> bool:
        self._space()
        if self.text[self.at : self.at + 1] != end:
            return False
        self.at += 1
        return True

    def _comma(self, end: str) -> int:
        self._space()
        found = self.text[self.at : self.at + 1]
        if found == ",":
            self.at += 1
            return self.at - 1
        if found != end:
            raise self._wrong("something else than a comma")
        return -1

    def _scalar(self) -> str:
        match = _SCALAR.match(self.text, self.at)
        if match is None:
            raise self._wrong("no value")
        self.at = match.end()
        return match.group()

    def _space(self) -> None:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _wrong(self, found: str) -> TranscodeError:
        line = self.text.count("\n", 0, self.at) + 1
        return TranscodeError(f"found {found} on line {line}, expected JSON")


def read(text: str) -> dict[str, Any]:
    """Return what a text says. An empty one says nothing.

    Raises:
        TranscodeError: It is no JSON object.
    """
    value = _parsed(text).value
    if not isinstance(value, dict):
        raise TranscodeError(f"found a {type(value).__name__}, expected an object")
    return value


def change(text: str, edit: Edit) -> str:
    """Return the text with one member put in, replaced or taken out."""
    text = text if text.strip() else "{}\n"
    node, path = _parsed(text), edit.path
    while len(path) > 1 and path[0] in node.members:
        node, path = node.members[path[0]].node, path[1:]
    member = node.members.get(path[0])
    if edit.gone:
        return text if member is None or len(path) > 1 else _without(text, node, member)
    value = edit.value
    for key in reversed(path[1:]):
        value = {key: value}
    if member is not None:
        return text[: member.node.start] + _written(text, member, value) + text[member.node.end :]
    return _with(text, node, path[0], value)


def _parsed(text: str) -> _Node:
    try:
        return _Parser(text if text.strip() else "{}").document()
    except ValueError as error:
        raise TranscodeError(str(error)) from None


def _indent(text: str, at: int) -> str | None:
    """Return what stands before `at` on its line, where that is blank; None where it is not."""
    before = text[text.rfind("\n", 0, at) + 1 : at]
    return before if "\n" in text[:at] and not before.strip() else None


def _written(text: str, member: _Member, value: Any) -> str:
    if not isinstance(value, dict | list) or not value:
        return json.dumps(value, ensure_ascii=False)
    return _lines(value, _indent(text, member.start))


def _lines(value: Any, indent: str | None) -> str:
    if indent is None:
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False, indent=2).replace("\n", f"\n{indent}")


def _with(text: str, node: _Node, key: str, value: Any) -> str:
    if not isinstance(node.value, dict):
        raise TranscodeError(f"found a {type(node.value).__name__}, expected an object")
    name = json.dumps(key, ensure_ascii=False)
    if not node.members:
        at = node.start + 1
        return f"{text[:at]}{name}: {_lines(value, None)}{text[at:]}"
    last = list(node.members.values())[-1]
    indent = _indent(text, last.start)
    gap = " " if indent is None else f"\n{indent}"
    at = last.node.end
    return f"{text[:at]},{gap}{name}: {_lines(value, indent)}{text[at:]}"


def _without(text: str, node: _Node, member: _Member) -> str:
    members = list(node.members.values())
    place = members.index(member)
    start, end = member.start, member.node.end
    if member.comma >= 0:
        end = member.comma + 1
    line_end = text.find("\n", end)
    rest = text[end:] if line_end < 0 else text[end:line_end]
    if _indent(text, start) is not None and not rest.strip() and line_end >= 0:
        start, end = text.rfind("\n", 0, start), line_end
    elif member.comma >= 0:
        end += len(rest) - len(rest.lstrip())
    result = text[:start] + text[end:]
    if member.comma < 0 and place and (before := members[place - 1].comma) >= 0:
        result = result[:before] + result[before + 1 :]
    return result
