"""What is set: each value in force and the layer that set it, without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import SecretStr

from hookgate.core.domain.errors import ConfigError
from hookgate.core.settings.layers import COMMAND_LINE, ENVIRONMENT, SettingPlace, joined
from hookgate.core.settings.schema import Section, Settings
from hookgate.core.settings.secret_store import MASK, looks_secret
from hookgate.core.settings.sections import nearest, problem, section_of
from hookgate.core.settings.toml_lines import KeyPath
from hookgate.core.settings.words import Shape, dotted, may_be_secret

Layer = Literal["default", "program", "file", "environment", "command line"]

_SECTION = re.compile(r'plugin\.(?:"[^"]*"|[\w-]+)|[^.\[]+')
_STARS = str(SecretStr("x"))
"""What pydantic shows of a secret."""


@dataclass(frozen=True, slots=True)
class SetValue:
    """One value in force.

    Attributes:
        key: Its key, as one writes it in TOML.
        value: The value, JSON-ready; what may be a secret is masked, at any depth.
        layer: Who has the last word on it: nobody, the program that made the gateway, the
            settings file, the environment or the command line.
        place: Where that is: ``config.toml:3``, a variable; empty for a default.
        restart: Whether it has changed since the start, and waits for a restart: until then what
            it was counts.
    """

    key: str
    value: Any
    layer: Layer
    place: str
    restart: bool = False


def set_values(settings: Settings, models: Mapping[str, type[Section]]) -> Iterator[SetValue]:
    """Yield every value that is in force, in the order of the sections.

    Args:
        settings: The settings.
        models: The models of plugins by name; with them, the defaults of their sections are shown
            and their figures are told from secrets. What has no model is shown as it was set.
    """
    from hookgate.core.settings.schema import Settings as Whole

    data = settings.model_dump(mode="json", exclude={"plugin"})
    given = settings.model_dump(mode="json", exclude={"plugin"}, exclude_unset=True)
    yield from _Walk(settings, Shape(Whole)).values(data, given, ())
    for name in sorted({*settings.plugin, *models}):
        section, shape = settings.plugin.get(name, {}), None
        shown: Mapping[str, Any] = section
        model = models.get(name)
        # A section that has become wrong since the start is shown as it stands there.
        with suppress(ConfigError):
            if model is not None:
                shown = section_of(settings, name, model).model_dump(mode="json")
                shape = Shape(model)
        yield from _Walk(settings, shape).values(shown, section, ("plugin", name))


def values_of(values: Iterable[SetValue], section: str) -> list[SetValue]:
    """Return the values of one section, such as ``gateway`` or ``plugin.memory``; "" is all.

    Raises:
        ConfigError: There is no section called so.
    """
    rows = list(values)
    found = [row for row in rows if is_within(row.key, section)]
    if not found:
        known = dict.fromkeys(one[0] for row in rows if (one := _SECTION.match(row.key)))
        expected, near = f"one of {', '.join(known)}", nearest(section, known)
        raise ConfigError([problem(section, "no section of the settings", expected, near)])
    return found


def is_within(key: str, section: str) -> bool:
    """Whether a key stands in a section, or is it; each stands in "", which is all."""
    return not section or key == section or key.startswith((f"{section}.", f"{section}["))


class _Walk:
    def __init__(self, settings: Settings, shape: Shape | None) -> None:
        self._places = settings.places or {}
        self._of_program = settings.places is None
        self._shape = shape

    def values(self, data: Mapping[str, Any], given: Any, path: KeyPath) -> Iterator[SetValue]:
        """Yield a row for every key that is no table.

        Args:
            data: The values in force.
            given: Those of them that somebody has set.
            path: Where they stand.
        """
        for name, value in data.items():
            here = (*path, name)
            is_set = isinstance(given, Mapping) and name in given
            if isinstance(value, Mapping) and value:
                yield from self.values(value, given[name] if is_set else {}, here)
                continue
            place = self._place(here)
            unplaced: Layer = "program" if is_set and self._of_program else "default"
            layer = _layer(place) if place else unplaced
            shown = self._masked(here, value)
            yield SetValue(dotted(here), shown, layer, str(place) if place else "")

    def _place(self, path: KeyPath) -> SettingPlace | None:
        """Return where a value was set, or where the first part of it was."""
        key = joined(path)
        inner = (place for one, place in self._places.items() if one.startswith(f"{key}."))
        return self._places.get(key) or next(inner, None)

    def _masked(self, path: KeyPath, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: self._masked((*path, name), one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            value = _without_given(value)
            return [self._masked((*path, number), one) for number, one in enumerate(value)]
        if value in (None, "") or isinstance(value, bool):
            return value
        if value == _STARS:
            return MASK
        hides = may_be_secret(path, value) and not self._is_figure(path, value)
        return MASK if hides else value

    def _is_figure(self, path: KeyPath, value: Any) -> bool:
        """Whether a model takes a number here: no secret, though it may count tokens."""
        if self._shape is None or not isinstance(value, int | float):
            return False
        within = path[2:] if path[0] == "plugin" else path
        schema = self._shape.at(within) or {}
        kinds = {branch.get("type") for branch in (schema, *schema.get("anyOf", ()))}
        return not kinds.isdisjoint(("integer", "number"))


def _without_given(words: Sequence[Any]) -> list[Any]:
    """Return the words of a command without what flags such as `--token` are given."""
    before = (None, *words)
    return [
        MASK if isinstance(one, str) and _takes_secret(flag) else one
        for flag, one in zip(before, words, strict=False)
    ]


def _takes_secret(flag: Any) -> bool:
    return isinstance(flag, str) and flag.startswith("-") and looks_secret(flag.lstrip("-"), "")


def _layer(place: SettingPlace) -> Layer:
    if place.file == COMMAND_LINE:
        return "command line"
    return "environment" if place.file == ENVIRONMENT else "file"
