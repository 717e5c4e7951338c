"""YAML: values replaced where they stand, lines put in and taken out."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from hookgate.builtin_plugins.inventory.writing import Edit, TranscodeError
from hookgate.kit.content.problems import ContentError
from hookgate.kit.content.yaml_reader import read_yaml

BYTES = 1024 * 1024
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}


def read(text: str) -> dict[str, Any]:
    """Return what a text says. An empty one says nothing.

    Raises:
        TranscodeError: It is no mapping, or YAML of a kind that readers understand differently.
    """
    try:
        value = read_yaml(text, "YAML", max_bytes=BYTES).value
    except ContentError as error:
        raise TranscodeError(str(error)) from None
    if value is not None and not isinstance(value, dict):
        raise TranscodeError(f"found a {type(value).__name__}, expected a mapping")
    return value or {}


def change(text: str, edit: Edit) -> str:
    """Return the text with one key put in, replaced or taken out."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    path = edit.path
    if node is None:
        return text if edit.gone else f"{_ended(text)}{_pair(path[0], _nested(path[1:], edit))}\n"
    while True:
        if not isinstance(node, yaml.MappingNode):
            return _in_place(text, node, path, edit)
        pair = next((one for one in node.value if one[0].value == path[0]), None)
        if pair is None:
            return text if edit.gone else _with(text, node, path, edit)
        if len(path) == 1:
            break
        node, path = pair[1], path[1:]
    if edit.gone:
        return _without(text, node, pair)
    return _in_place(text, pair[1], (), edit)


def _in_place(text: str, node: Any, path: tuple[str, ...], edit: Edit) -> str:
    start, end = node.start_mark.index, node.end_mark.index
    if edit.gone:
        return text
    if isinstance(node, yaml.ScalarNode):
        if path and text[start:end] not in {"", "~", "null"}:
            raise _by_hand(edit)
        if node.style in {"|", ">"}:
            raise _by_hand(edit)
        gap = " " if start == end else ""
        return f"{text[:start]}{gap}{_nested(path, edit)}{text[end:]}"
    if not node.flow_style:
        raise _by_hand(edit)
    return text[:start] + _nested(path, edit) + text[end:]


def _with(text: str, node: Any, path: tuple[str, ...], edit: Edit) -> str:
    pair = _pair(path[0], _nested(path[1:], edit))
    if node.flow_style:
        at = node.end_mark.index - 1
        return f"{text[:at].rstrip()}{', ' if node.value else ''}{pair}{text[at:]}"
    at = _line_end(text, node)
    note = f"  # {edit.note}" if edit.note else ""
    return f"{_ended(text[:at])}{' ' * node.start_mark.column}{pair}{note}\n{text[at:]}"


def _without(text: str, node: Any, pair: Any) -> str:
    start = pair[0].start_mark.index
    line = text.rfind("\n", 0, start) + 1
    if node.flow_style or len(node.value) == 1 or text[line:start].strip():
        raise TranscodeError(f"{pair[0].value} cannot be taken out alone: take it out by hand")
    return text[:line] + text[_line_end(text, pair[1]) :]


def _line_end(text: str, node: Any) -> int:
    """Return where the line after the last one of a node begins."""
    while not isinstance(node, yaml.ScalarNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    at: int = node.end_mark.index
    if isinstance(node, yaml.ScalarNode) and node.style in {"|", ">"} and text[at - 1] == "\n":
        return at
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _nested(path: tuple[str, ...], edit: Edit) -> str:
    value = edit.value
    for key in reversed(path):
        value = {key: value}
    # JSON is YAML, and reads alike everywhere.
    return json.dumps(value, ensure_ascii=False)


def _pair(key: str, value: str) -> str:
    plain = _PLAIN.fullmatch(key) and key.lower() not in _WORDS
    return f"{key if plain else json.dumps(key, ensure_ascii=False)}: {value}"


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _by_hand(edit: Edit) -> TranscodeError:
    return TranscodeError(f"{'.'.join(edit.path)} cannot be changed alone: change it by hand")
