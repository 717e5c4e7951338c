"""Builds a plugin's settings from its section, and makes problems of what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import to_json

from hookgate.core.config_words import problems_of
from hookgate.core.errors import ConfigError, ConfigProblem
from hookgate.core.settings import Section

__all__ = ["nearest", "problem", "section_of"]

S = TypeVar("S", bound=Section)

_TOML_TYPES = (str, bool, int, float, datetime, date, time)


def nearest(name: str, known: Iterable[str], prefix: str = "") -> str | None:
    """Return the known name that looks most like `name`, with `prefix`."""
    near = get_close_matches(name, list(known), n=1)
    return f"{prefix}{near[0]}" if near else None


def problem(
    key: str, found: str, expected: str, near: str | None = None, *, file: str = ""
) -> ConfigProblem:
    """Return a problem; without `file`, the settings' reader fills in file and line."""
    return ConfigProblem(
        file=file, line=None, key=key, found=found, expected=expected, nearest=near
    )


def section_of(name: str, model: type[S], values: Mapping[str, Any]) -> S:
    """Validate ``[plugin.NAME]``.

    What TOML can hold is validated as strictly as the core's own sections; what only a
    program can have put there, as Python values.

    Raises:
        ConfigError: All that is wrong in the section.
    """
    try:
        if _is_toml(values):
            raw = to_json(values, inf_nan_mode="constants")
            return model.model_validate_json(raw, strict=True)
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(problems_of(error, model, values, ("plugin", name))) from error


def _is_toml(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_toml(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(map(_is_toml, value))
    return type(value) in _TOML_TYPES
