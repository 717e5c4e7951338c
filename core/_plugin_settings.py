"""Builds a plugin's settings from its section, and says what is wrong with it."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError

from hookgate.core.errors import ConfigProblem

__all__ = ["nearest", "problem", "section_problems"]

FOUND_CHARS = 80

_SECRET_NAME = re.compile(r"secret|token|password|passwd|api_?key|credential", re.IGNORECASE)


def nearest(name: str, known: Iterable[str], prefix: str = "") -> str | None:
    """Return the known name that looks most like `name`, with `prefix`."""
    near = get_close_matches(name, list(known), n=1)
    return f"{prefix}{near[0]}" if near else None


def problem(key: str, found: str, expected: str, near: str | None = None) -> ConfigProblem:
    """Return a problem whose file and line are filled in by the reader of the settings."""
    return ConfigProblem(file="", line=None, key=key, found=found, expected=expected, nearest=near)


def section_problems(
    prefix: str, model: type[BaseModel], error: ValidationError
) -> list[ConfigProblem]:
    """Turn pydantic's errors about one section into problems.

    Args:
        prefix: The section's key, such as ``plugin.memory``.
        model: The section's type.
        error: What pydantic found.

    """
    problems = []
    for one in error.errors(include_url=False, include_context=False):
        path = one["loc"]
        key = ".".join([prefix, *map(str, path)])
        if one["type"] == "extra_forbidden":
            parent = _model_at(model, path[:-1])
            known = list(parent.model_fields) if parent is not None else []
            near = nearest(str(path[-1]), known, f"{key.rpartition('.')[0]}.")
            expected = f"one of {', '.join(known)}" if known else "no settings"
            problems.append(problem(key, "an unknown key", expected, near))
        elif one["type"] == "missing":
            problems.append(problem(key, "nothing", "a value, which has no default"))
        else:
            found = "a secret" if _is_secret(model, path) else _shown(one["input"])
            expected = one["msg"].removeprefix("Value error, ").removeprefix("expected ")
            problems.append(problem(key, found, expected[:1].lower() + expected[1:]))
    return problems


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"a table with the keys {', '.join(map(str, value)) or '(none)'}"
    text = repr(value)
    return text if len(text) <= FOUND_CHARS else f"{text[: FOUND_CHARS - 1]}…"


def _model_at(model: type[BaseModel], path: tuple[int | str, ...]) -> type[BaseModel] | None:
    current: type[BaseModel] | None = model
    for part in path:
        if current is None:
            return None
        field = current.model_fields.get(str(part))
        if field is not None:
            current = next(_classes(field.annotation, BaseModel), None)
    return current


def _is_secret(model: type[BaseModel], path: tuple[int | str, ...]) -> bool:
    if any(_SECRET_NAME.search(str(part)) for part in path):
        return True
    current: type[BaseModel] | None = model
    for part in path:
        field = current.model_fields.get(str(part)) if current is not None else None
        if field is None:
            continue
        if any(_classes(field.annotation, (SecretStr, SecretBytes))):
            return True
        current = next(_classes(field.annotation, BaseModel), None)
    return False


def _classes(annotation: Any, wanted: Any) -> typing.Iterator[Any]:
    if isinstance(annotation, type) and issubclass(annotation, wanted):
        yield annotation
    for arg in typing.get_args(annotation):
        yield from _classes(arg, wanted)
