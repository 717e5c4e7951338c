"""Builds a plugin's settings from its section, and makes problems of what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import to_json

from hookgate.core.domain.errors import ConfigError, Problem
from hookgate.core.settings.paths import expanded, whole_paths, whole_section
from hookgate.core.settings.schema import Section, Settings
from hookgate.core.settings.toml_lines import KeyPath
from hookgate.core.settings.words import problems_of

S = TypeVar("S", bound=Section)

OURS = "hookgate.builtin_plugins."
"""Begins the modules of sections whose defaults are known to hold."""

_TOML_TYPES = (str, bool, int, float, datetime, date, time)


def nearest(
    name: str, known: Iterable[str], prefix: str = "", *, cutoff: float = 0.6
) -> str | None:
    """Return the known name that looks most like `name`, with `prefix`.

    Args:
        name: What was found.
        known: What there is.
        prefix: Stands before the result.
        cutoff: How alike they must be, 0 to 1; 0.75 is one letter of four.
    """
    near = get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"{prefix}{near[0]}" if near else None


def problem(
    key: str, found: str, expected: str, near: str | None = None, *, file: str = ""
) -> Problem:
    """Return a problem; without `file`, the settings' reader fills in file and line."""
    return Problem(file=file, key=key, found=found, expected=expected, nearest=near)


def section_of(settings: Settings, name: str, model: type[S]) -> S:
    """Validate ``[plugin.NAME]``.

    What TOML can hold is validated as strictly as the core's own sections; what only a
    program can have put there, as Python values. Paths are made whole before the model sees
    them, and those of its defaults afterwards.

    Raises:
        ConfigError: All that is wrong in the section.
    """
    home = settings.home.expanduser().absolute()

    def whole(text: str, path: KeyPath, from_home: bool) -> str:
        if from_home:
            return str(home / expanded(text, settings.bases.user_home))
        return settings.bases.whole(text, ("plugin", name, *path), home)

    values = whole_paths(model, settings.plugin.get(name, {}), whole)
    if not values and model.__module__.startswith(OURS):
        return whole_section(model.by_default(), whole)
    try:
        if _is_toml(values):
            raw = to_json(values, inf_nan_mode="constants")
            section = model.model_validate_json(raw, strict=True)
        else:
            section = model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(problems_of(error, model, values, ("plugin", name))) from error
    return whole_section(section, whole)


def _is_toml(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_toml(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(map(_is_toml, value))
    return type(value) in _TOML_TYPES
