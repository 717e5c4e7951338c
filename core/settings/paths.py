"""Where relative paths of the settings begin, and where paths stand in a model.

The folder that somebody stands in must not choose a policy or a key. So paths are made whole
before a model sees them, whatever it does with them then: `whole_paths` finds them by the
model's JSON Schema, in which pydantic marks every path.

A command's help reads where the settings are, and needs no model for that: pydantic, which takes
longer to load than all else together, is imported where it is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from hookgate.core.settings.toml_lines import KeyPath

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.json_schema import GenerateJsonSchema

M = TypeVar("M", bound="BaseModel")

FORMATS = frozenset(("path", "file-path", "directory-path"))
"""What pydantic calls paths in a JSON Schema."""

FROM_HOME = "x-hookgate-from-home"
"""Marks a path that begins at `home` where it is relative."""

IS_TEXT = "x-hookgate-text"
"""Marks a path that is kept as text, which may be empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathBases:
    """Where relative paths begin. It does not count when settings are compared.

    Attributes:
        folder: The folder of the settings file; None where there is none, for `home`.
        typed: The keys that the command line has set, such as ``plugin.policy.rules``. Their
            paths begin at the current folder, as whoever types them expects.
        user_home: The user's home folder, which ``~`` stands for; None for that of the process.
    """

    folder: Path | None = field(default=None, compare=False)
    typed: frozenset[str] = field(default=frozenset(), compare=False)
    user_home: Path | None = field(default=None, compare=False)

    def whole(self, text: str, path: KeyPath, home: Path) -> str:
        """Return the whole path that `text` means.

        Args:
            text: The path as it was given.
            path: Its key.
            home: Where it begins in the absence of a settings file.
        """
        base = home if self.folder is None else self.folder
        keys = [".".join(map(str, path[:length])) for length in range(1, len(path) + 1)]
        if not self.typed.isdisjoint(keys):
            base = Path()
        return str((base / expanded(text, self.user_home)).absolute())


def users_home() -> Path:
    """Return the user's home folder; ``/`` for one that has none, as containers start them."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def expanded(text: str, user_home: Path | None = None) -> Path:
    """Return a path whose ``~`` is replaced by `user_home`, or by the process's home folder."""
    if user_home is not None and (text == "~" or text.startswith("~/")):
        return user_home / text[2:]
    return Path(os.path.expanduser(text))


@cache
def _lenient() -> type[GenerateJsonSchema]:
    """Return what makes schemas of any model."""
    from pydantic.json_schema import GenerateJsonSchema

    class Lenient(GenerateJsonSchema):
        # Of a type that JSON Schema has no words for nothing is known; the others have theirs.
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

        def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> dict[str, Any]:
            return {}

    return Lenient


@lru_cache(maxsize=256)
def schema_of(model: type[BaseModel], *, by_alias: bool = True) -> Mapping[str, Any]:
    """Return the JSON Schema of what a model takes, without descriptions."""
    from hookgate.core.settings.documented import undescribed

    with undescribed():
        return model.model_json_schema(by_alias=by_alias, schema_generator=_lenient())


def whole_paths(
    model: type[BaseModel], values: Any, whole: Callable[[str, KeyPath, bool], str]
) -> Any:
    """Return `values`, which `model` is about to validate, with every path made whole.

    Args:
        model: The model, which marks its paths by their type.
        values: What is to be validated.
        whole: Takes a path as it was given, its key, and whether it begins at `home`.
    """
    # Of most sections that are given, nothing need be known of the model.
    if isinstance(values, Mapping) and not any(
        holds_text(value) or (isinstance(value, Mapping) and value) for value in values.values()
    ):
        return values
    return _Walk(schema_of(model), whole).walk(values)


def holds_text(value: Any) -> bool:
    """Whether a text or a path stands in `value` at any depth, keys of tables aside."""
    if isinstance(value, Mapping):
        return any(map(holds_text, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(holds_text, value))
    return isinstance(value, str | PurePath)


def whole_section(section: M, whole: Callable[[str, KeyPath, bool], str]) -> M:
    """Return `section` with the paths made whole that came from its model: its defaults."""
    if not any(_relative(section)):
        return section
    made: M = _Walk(schema_of(type(section), by_alias=False), whole).walk(section)
    return made


def _relative(value: Any) -> Iterator[PurePath]:
    """Yield the relative paths in `value`, at any depth."""
    from pydantic import BaseModel

    if isinstance(value, PurePath):
        if not value.is_absolute():
            yield value
    elif isinstance(value, BaseModel):
        for inner in vars(value).values():
            yield from _relative(inner)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _relative(key)
            yield from _relative(inner)
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            yield from _relative(inner)


class _Walk:
    """A walk through values beside the schema that they are for."""

    def __init__(
        self, schema: Mapping[str, Any], whole: Callable[[str, KeyPath, bool], str]
    ) -> None:
        self._schema = schema
        self._whole = whole

    def walk(self, value: Any) -> Any:
        return self._walk(value, self._branches(self._schema), ())

    def _branches(self, schema: Any) -> list[Mapping[str, Any]]:
        """Return a schema without its references and unions: all that a value may be."""
        found: list[Mapping[str, Any]] = []
        waiting, seen = [schema], set()
        while waiting:
            one = waiting.pop()
            if not isinstance(one, Mapping) or id(one) in seen:
                continue
            seen.add(id(one))
            found.append(one)
            if "$ref" in one:
                waiting.append(self._schema["$defs"][one["$ref"].rpartition("/")[2]])
            for union in ("anyOf", "oneOf", "allOf"):
                waiting += one.get(union, ())
        return found

    def _walk(self, value: Any, branches: list[Mapping[str, Any]], path: KeyPath) -> Any:
        from pydantic import BaseModel

        if isinstance(value, str | PurePath):
            return self._leaf(value, branches, path)
        if isinstance(value, BaseModel):
            fields = {
                name: self._walk(inner, self._below(branches, name), (*path, name))
                for name, inner in vars(value).items()
            }
            made = value.model_copy()
            # Which fields were given must not change, so not by `update`.
            vars(made).update(fields)
            return made
        if isinstance(value, Mapping):
            names = [two for one in branches for two in self._branches(one.get("propertyNames"))]
            made_table = {}
            for key, inner in value.items():
                here = (*path, str(key))
                walked = self._walk(inner, self._below(branches, key), here)
                made_table[self._walk(key, names, here)] = walked
            return made_table
        if isinstance(value, list | tuple | set | frozenset):
            made_items = [
                self._walk(inner, self._at(branches, number), (*path, number))
                for number, inner in enumerate(value)
            ]
            if all(made is inner for made, inner in zip(made_items, value, strict=True)):
                return value
            return type(value)(made_items)
        return value

    def _below(self, branches: list[Mapping[str, Any]], key: Any) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        for one in branches:
            inner = one.get("properties", {}).get(key)
            if inner is not None:
                found += self._branches(inner)
                continue
            found += self._branches(one.get("additionalProperties"))
            for pattern in one.get("patternProperties", {}).values():
                found += self._branches(pattern)
        return found

    def _at(self, branches: list[Mapping[str, Any]], number: int) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        for one in branches:
            own = one.get("prefixItems", ())
            found += self._branches(own[number] if number < len(own) else one.get("items"))
        return found

    def _leaf(self, value: Any, branches: list[Mapping[str, Any]], path: KeyPath) -> Any:
        marked = [one for one in branches if one.get("format") in FORMATS]
        text = str(value)
        # A `Path` says itself what it is, wherever it stands.
        if (not marked and not isinstance(value, Path)) or "://" in text:
            return value
        if isinstance(value, str):
            if any(text == one.get("const") or text in one.get("enum", ()) for one in branches):
                return value
            if not text and any(IS_TEXT in one for one in marked):
                return value
        whole = self._whole(text, path, any(FROM_HOME in one for one in branches))
        return whole if isinstance(value, str) else type(value)(whole)
