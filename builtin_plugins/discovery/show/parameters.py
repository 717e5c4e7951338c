"""A JSON Schema as lines for a model: one line for each parameter, nested ones with dots."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from hookgate.builtin_plugins.discovery.show.cutting import clip, one_line

PARAMETERS = 40
"""So many parameters are shown; the others are counted."""

COUNTED = 1000
"""So many of the others are counted: references can make a small schema boundless."""

DEPTH = 3
"""Levels of nested objects."""

DESCRIPTION_CHARS = 300
VALUE_CHARS = 40
VALUES = 12
NAME_CHARS = 80
REFERENCES = 8
"""So long a chain of references is followed."""


def parameter_lines(schema: Mapping[str, object]) -> list[str]:
    """Return a line for each parameter, in the order of the schema.

    Such as ``query (string, required): The search query`` and
    ``sort (string): The order [asc|desc] (default: "asc")``. Members of objects are
    ``filter.site``, those of objects in a list are ``items[].name``. Whatever in the schema
    is not what JSON Schema prescribes is passed over.
    """
    lines = _lines(schema, schema, "", 1)
    shown = list(islice(lines, PARAMETERS))
    more = sum(1 for _ in islice(lines, COUNTED))
    if more:
        shown.append(f"… and {more if more < COUNTED else f'at least {more}'} more")
    return shown


def _lines(
    schema: Mapping[str, object], root: Mapping[str, object], prefix: str, depth: int
) -> Iterator[str]:
    properties = _mapping(schema.get("properties"))
    needed = [name for name in _sequence(schema.get("required")) if isinstance(name, str)]
    for key, value in properties.items():
        name = prefix + clip(one_line(str(key)), NAME_CHARS)
        spec = _resolved(_mapping(value), root)
        yield _line(name, spec, root, required=key in needed)
        if depth < DEPTH:
            inner, suffix = _inner(spec, root)
            yield from _lines(inner, root, f"{name}{suffix}.", depth + 1)


def _line(
    name: str, spec: Mapping[str, object], root: Mapping[str, object], *, required: bool
) -> str:
    facts = ", ".join(filter(None, [_type(spec, root), "required" if required else ""]))
    line = f"{name} ({facts})" if facts else name
    rest = []
    description = spec.get("description")
    if isinstance(description, str) and (text := one_line(description)):
        rest.append(clip(text, DESCRIPTION_CHARS))
    values = [spec["const"]] if "const" in spec else _sequence(spec.get("enum"))
    if values:
        shown = [value if isinstance(value, str) else _value(value) for value in values[:VALUES]]
        more = ["…"] if len(values) > VALUES else []
        rest.append(f"[{'|'.join([clip(one_line(one), VALUE_CHARS) for one in shown] + more)}]")
    if spec.get("default") is not None:
        rest.append(f"(default: {_value(spec['default'])})")
    return f"{line}: {' '.join(rest)}" if rest else line


def _type(spec: Mapping[str, object], root: Mapping[str, object], depth: int = 0) -> str:
    given = spec.get("type")
    types = [one for one in (given, *_sequence(given)) if isinstance(one, str)]
    if not types:
        types = [
            _type(_resolved(option, root), root, depth + 1)
            for option in (_options(spec) if depth < DEPTH else ())
        ]
    if "array" in types and depth < DEPTH:
        items = _type(_resolved(_mapping(spec.get("items")), root), root, depth + 1)
        types = [f"array of {items}" if one == "array" and items else one for one in types]
    return "|".join(clip(one_line(one), NAME_CHARS) for one in dict.fromkeys(types) if one)


def _options(spec: Mapping[str, object]) -> list[Mapping[str, object]]:
    for word in ("anyOf", "oneOf", "allOf"):
        options = _sequence(spec.get(word))
        if options:
            return [_mapping(option) for option in options[:VALUES]]
    return []


def _inner(
    spec: Mapping[str, object], root: Mapping[str, object]
) -> tuple[Mapping[str, object], str]:
    """Return the object schema within a parameter's schema, and what its name gets for it."""
    for option in (spec, *(_resolved(one, root) for one in _options(spec))):
        if "properties" in option:
            return option, ""
        items = _resolved(_mapping(option.get("items")), root)
        if "properties" in items:
            return items, "[]"
    return {}, ""


def _resolved(spec: Mapping[str, object], root: Mapping[str, object]) -> Mapping[str, object]:
    """Return what a schema refers to, with what stands beside the reference."""
    for _ in range(REFERENCES):
        reference = spec.get("$ref")
        if not isinstance(reference, str) or reference[:2] not in ("#", "#/"):
            return spec
        target: Mapping[str, object] = root
        for part in filter(None, reference[1:].split("/")):
            target = _mapping(target.get(part.replace("~1", "/").replace("~0", "~")))
        beside = {key: value for key, value in spec.items() if key != "$ref"}
        spec = {**target, **beside}
    return spec


def _value(value: object) -> str:
    """Return a value as JSON; lists and objects that hold something only as what they are."""
    if isinstance(value, Mapping):
        return "{…}" if value else "{}"
    if isinstance(value, list | tuple):
        simple = len(value) <= VALUES and not any(
            isinstance(one, Mapping | list | tuple) for one in value
        )
        text = f"[{', '.join(map(_value, value))}]" if simple else "[…]"
    else:
        text = json.dumps(value, ensure_ascii=False, default=str)
    return clip(one_line(text), VALUE_CHARS)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()
