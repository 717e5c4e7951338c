"""What the environment and the command line put over the settings file."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from hookgate.core.domain.errors import Problem
from hookgate.core.settings.toml_lines import KeyPath
from hookgate.core.settings.words import Shape, dotted

PREFIX = "HOOKGATE_"
"""What the environment variables that set a key begin with."""

ENVIRONMENT = "environment"
"""What the `SettingPlace` of a value calls the environment."""

COMMAND_LINE = "command line"
"""What the `SettingPlace` of a value calls the command line."""

HOME = "home"
"""The key of the home folder."""

# HOOKGATE_CONFIG names the file, HOOKGATE_TOKEN is what the command line shows the gateway.
_NOT_KEYS = frozenset({"CONFIG", "TOKEN", "TOKEN_FILE", "CAPABILITY_DIRS"})
# What Kubernetes sets for a service that is called `hookgate`, or `hookgate-...`.
_OF_KUBERNETES = re.compile(
    r"(?:^|_)(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_\w+)=|PORT=\w+://"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingPlace:
    """Where a value came from.

    Attributes:
        file: The settings file, ``environment`` or ``command line``.
        line: The line in the file, counted from 1.
        variable: The environment variable.
        around: Whether it is a table that is there for what was set within it alone.
    """

    file: str
    line: int | None = None
    variable: str = ""
    around: bool = False

    def __str__(self) -> str:
        if self.variable:
            return self.variable
        return self.file if self.line is None else f"{self.file}:{self.line}"


@cache
def settings_shape() -> Shape:
    """Return the keys that the core's own sections take."""
    from hookgate.core.settings.schema import Settings

    return Shape(Settings)


def joined(path: KeyPath) -> str:
    """Return a path in the form in which places are kept: ``bindings.0.agent``."""
    return ".".join(map(str, path))


def normal(key: str) -> str:
    """Return a dotted key in that form: ``a."b c"[0]`` becomes ``a.b c.0``."""
    return re.sub(r"\[(\d+)\]", r".\1", key).replace('"', "")


class Layers:
    """Values over values, each with its place.

    Args:
        data: What the settings file holds; changed in place.
        places: Where each value came from, by key in the form of `joined`; changed in place.

    Attributes:
        problems: Variables that no key can have.
        unread: Variables that look like ours and that nothing reads.
    """

    def __init__(self, data: dict[str, Any], places: dict[str, SettingPlace]) -> None:
        self.problems: list[Problem] = []
        self.unread: list[str] = []
        self._data = data
        self._places = places

    def environment(self, environ: Mapping[str, str]) -> None:
        """Put every ``HOOKGATE_SECTION__KEY`` variable over the values so far."""
        for variable in sorted(environ):
            name = variable.removeprefix(PREFIX)
            if name == variable or name in _NOT_KEYS:
                continue
            # Without `__` only the keys outside all sections count, and other names pass:
            # Kubernetes sets HOOKGATE_PORT and the like for a service of that name.
            if "__" in name or _is_key(name.lower()):
                path = self._path(variable, name.split("__"))
                if path is not None:
                    value = _value(path, environ[variable])
                    self._put(path, value, SettingPlace(file=ENVIRONMENT, variable=variable))
            elif not _OF_KUBERNETES.search(f"{name}={environ[variable]}"):
                self.unread.append(variable)

    def command_line(self, overrides: Mapping[str, Any]) -> None:
        """Put `overrides`, by dotted key, over the values so far."""
        for key, value in overrides.items():
            self._put(tuple(key.split(".")), value, SettingPlace(file=COMMAND_LINE))

    def _path(self, variable: str, names: list[str]) -> KeyPath | None:
        """Return the key that a variable means; None where it can mean none."""
        path: KeyPath = ()
        table: Any = self._data
        for name in names:
            if isinstance(table, list) and name.isdigit() and int(name) < len(table):
                path = (*path, int(name))
                table = table[int(name)]
            elif isinstance(table, dict) and name:
                path = (*path, _key(path, table, name))
                table = table.get(path[-1], {})
            else:
                self.problems.append(
                    Problem(
                        file=ENVIRONMENT,
                        key=dotted(path) or variable,
                        found=f"a part that is no key of it in {variable}",
                        expected=f"{PREFIX}SECTION__KEY; an array is given whole, as JSON",
                    )
                )
                return None
        return path

    def _put(self, path: KeyPath, value: Any, place: SettingPlace) -> None:
        data: Any = self._data
        for depth, part in enumerate(path[:-1], start=1):
            if isinstance(data, dict) and not isinstance(data.get(str(part)), dict | list):
                data[part] = {}
                self._places[joined(path[:depth])] = replace(place, around=True)
            data = data[part]
        data[path[-1]] = value
        # What the key held before is gone, and so are the places of that.
        key = joined(path)
        for name in [name for name in self._places if name.startswith(f"{key}.")]:
            del self._places[name]
        self._places[key] = place


def unread_variable(variable: str) -> Problem:
    """Say that a variable looks like ours, and that nothing reads it."""
    section, _, key = variable.removeprefix(PREFIX).partition("_")
    meant = f"{PREFIX}{section}__{key}" if key else f"{PREFIX}SECTION__KEY"
    known = settings_shape().keys(())
    return Problem(
        file=ENVIRONMENT,
        key=variable,
        found="a variable that no setting is read from",
        expected=f"two underscores for each dot, as in {PREFIX}SECTION__KEY",
        nearest=meant if section.lower() in known else None,
    )


def _is_key(name: str) -> bool:
    """Whether a key outside of all sections is called `name`."""
    # Most variables are this one, and nothing need be loaded to know it.
    if name == HOME:
        return True
    from hookgate.core.settings.schema import Settings

    return name in Settings.model_fields


def _key(path: KeyPath, table: Mapping[str, Any], name: str) -> str:
    """Return the key that a part of a variable's name means: it has no small letters, no dash."""
    plain = name.lower()
    if not path and plain == HOME:
        return HOME
    for known in (*table, *settings_shape().keys(path)):
        if known.lower().replace("-", "_") == plain:
            return known
    return plain


def _value(path: KeyPath, raw: str) -> Any:
    """Read JSON, then TOML. What is neither is text, and so is all that a key for text gets."""
    # Bytes that are not UTF-8 come as lone surrogates, which no text of TOML holds.
    raw = raw.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    value = _literal(raw)
    if isinstance(value, str):
        return value
    schema = settings_shape().at(path) or {}
    kinds = {branch.get("type") for branch in (schema, *schema.get("anyOf", ()))}
    return raw if "string" in kinds else value


def _literal(raw: str) -> Any:
    with suppress(ValueError, RecursionError):
        return json.loads(raw)
    try:
        table = tomllib.loads(f"value = {raw}")
    except (ValueError, RecursionError):
        return raw
    # A line break in `raw` could bring in keys of its own.
    return table["value"] if len(table) == 1 else raw
