"""Text that fits: one line out of many, cuts within a budget of tokens, a JSON Schema as lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from hookgate import TokenCounter

CUT_NOTE = '[cut: {tokens:,} more tokens; {tool} {{"id": "{id}", "offset": {offset}}}]'


READ_TOOL = "read_capability"
"""The tool that reads on where a text was cut."""


def one_line(text: str) -> str:
    """Return `text` on one line: each run of white space, of any script, is one space."""
    # str.split knows every character that str.splitlines breaks at, U+2028 among them.
    return " ".join(text.split())


def clip(text: str, length: int) -> str:
    """Return `text` with at most `length` characters, the last one an ellipsis if cut."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def largest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to `most` that fits, or -1.

    Found by halving. Should `fits` go up and down, the answer may be smaller than it could
    be, but it fits.
    """
    if most >= 0 and fits(most):
        return most
    low, high = -1, most
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def cut_line(text: str, fits: Callable[[str], bool]) -> str:
    """Return the most of `text`, a line, that fits, cut at a word with an ellipsis; or ""."""
    if fits(text):
        return text

    def shortened(length: int) -> str:
        return _at_word(text[:length]) + "…"

    length = largest(len(text) - 1, lambda length: fits(shortened(length)))
    cut = shortened(length) if length > 0 else ""
    return cut if cut != "…" else ""


def _at_word(text: str) -> str:
    head, space, _ = text.rpartition(" ")
    # One word that is longer than what it is cut to: cut within the word.
    return (head if space and len(head) * 2 >= len(text) else text).rstrip(" .,;:")


def cut_text(
    text: str, foot: str, budget: int, counter: TokenCounter, *, id: str, offset: int = 0
) -> str:
    """Return `text` and `foot`, within a budget: whole, or cut with a note that reads on.

    The note says how much is gone, and with which arguments `READ_TOOL` goes on: the id of
    the capability, and the characters of `text` that were shown before and here.

    The cut is at a paragraph where that keeps half of what would fit; else at a line, else
    at a word. The foot stays whole where it takes at most a quarter of the budget.

    Returns:
        The text; "" where not even its first line and the note fit.
    """
    whole = text + foot
    if counter.count(whole) <= budget:
        return whole
    if counter.count(foot) * 4 > budget:
        text, foot = whole, ""
    size = counter.count(whole)

    def noted(kept: str) -> str:
        more = max(1, size - counter.count(kept + foot))
        note = CUT_NOTE.format(tokens=more, tool=READ_TOOL, id=id, offset=offset + len(kept))
        return f"{kept}\n\n{note}{foot}"

    def fits(length: int) -> bool:
        return counter.count(noted(_at_break(text[:length]))) <= budget

    length = largest(len(text) - 1, fits)
    kept = _at_break(text[:length]) if length > 0 else ""
    first = text.split("\n", 1)[0]
    return noted(kept) if kept.startswith(first) else ""


def _at_break(text: str) -> str:
    for mark in ("\n\n", "\n", " "):
        at = text.rfind(mark)
        if at * 2 >= len(text):
            return text[:at].rstrip()
    return text.rstrip()


# -- parameters ------------------------------------------------------------------

# A JSON Schema as lines for a model: one line for each parameter, nested ones with dots.

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
