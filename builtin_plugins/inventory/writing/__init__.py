"""Changing what is there: what a change has to pass, and how it is recorded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class TranscodeError(ValueError):
    """A text cannot be changed without touching more of it than is asked for."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What is to stand under a key, or that it goes.

    Attributes:
        path: The keys that lead to it.
        value: What is to stand there, as JSON has it.
        gone: Whether the key is taken away instead.
        note: A comment beside a line that is new, where the format has comments.
    """

    path: tuple[str, ...]
    value: Any = None
    gone: bool = False
    note: str = ""


def applied(data: Mapping[str, Any], edit: Edit) -> dict[str, Any]:
    """Return what a document says after an edit; `data` stays as it is."""
    key, rest = edit.path[0], edit.path[1:]
    result = dict(data)
    if rest:
        below = result.get(key)
        if below is not None and not isinstance(below, Mapping):
            raise TranscodeError(f"found a {type(below).__name__} under {key!r}, expected a table")
        result[key] = applied(below or {}, Edit(rest, edit.value, edit.gone))
    elif edit.gone:
        result.pop(key, None)
    else:
        result[key] = edit.value
    return result


def same(one: Any, other: Any) -> bool:
    """Whether two documents say the same; the order of keys says nothing."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return type(one) is type(other) and bool(one == other)
