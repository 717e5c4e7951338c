"""What is wrong in the settings, in words for people.

pydantic finds what is wrong; its messages speak of models and loc tuples. Here its errors
become `ConfigProblem` values that speak of keys and of TOML: what was found, masked where
it may be a secret, and what the key takes, said in the same words whatever failed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from hookgate.core.domain.errors import ConfigProblem
from hookgate.core.settings.paths import schema_of
from hookgate.core.settings.secret_store import looks_secret

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

    from hookgate.core.settings.toml_lines import KeyPath

FOUND_CHARS = 60

HIDDEN = "a value that is not shown, since it may be a secret"

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def dotted(path: KeyPath) -> str:
    """Return a path as one writes it in TOML: ``agents."my bot".tools[0]``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _BARE_KEY.fullmatch(part) else json.dumps(part, ensure_ascii=False)
            text += f".{name}" if text else name
    return text


def shown(path: KeyPath, value: Any) -> str:
    """Return `value` as a problem's ``found``: short, and without what may be a secret."""
    match value:
        case bool():
            return "true" if value else "false"
        case Mapping():
            names = ", ".join(f"`{name}`" for name in value)
            return f"a table with {names}" if names else "an empty table"
        case list() | tuple():
            return f"an array of {len(value)}" if value else "an empty array"
    if may_be_secret(path, value):
        return HIDDEN
    if isinstance(value, str):
        cut = value if len(value) <= FOUND_CHARS else value[: FOUND_CHARS - 1] + "…"
        return f"the text {json.dumps(cut, ensure_ascii=False)}"
    return str(value)


def may_be_secret(path: KeyPath, value: Any) -> bool:
    """Whether `value` must not be shown, judging by its key and by how it looks."""
    names = [part for part in path if isinstance(part, str)]
    if names[:1] == ["secrets"] or (names[:2] == ["gateway", "tokens"] and len(names) < 4):
        return True
    # What a header says is known to its receiver alone.
    if "headers" in names[:-1]:
        return True
    return looks_secret(names[-1] if names else "", value if isinstance(value, str) else "")


class Shape:
    """The keys that a model takes, read from its JSON Schema."""

    def __init__(self, model: type[BaseModel]) -> None:
        self._schema = schema_of(model)

    def at(self, path: KeyPath) -> Mapping[str, Any] | None:
        """Return the schema of what stands at `path`; None where nothing is known of it."""
        found: Sequence[Mapping[str, Any]] = (self._schema,)
        for part in path:
            found = [inner for schema in found for inner in self._inner(schema, part)]
        return self._resolved(found[0]) if found else None

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in schema:
            schema = self._schema["$defs"][schema["$ref"].rpartition("/")[2]]
        return schema

    def _inner(self, schema: Mapping[str, Any], part: str | int) -> Iterator[Mapping[str, Any]]:
        schema = self._resolved(schema)
        for branch in schema.get("anyOf", ()):
            yield from self._inner(branch, part)
        if isinstance(part, int):
            inner = schema.get("items")
        else:
            inner = schema.get("properties", {}).get(part) or schema.get("additionalProperties")
        if isinstance(inner, Mapping):
            yield inner

    def keys(self, path: KeyPath) -> list[str]:
        """Return the known keys of the table at `path`."""
        schema = self.at(path) or {}
        return list(schema.get("properties", ()))

    def every_key(self) -> Iterator[KeyPath]:
        """Yield every key that has a name of its own, at any depth."""
        yield from self._below(self._schema, ())

    def _below(self, schema: Mapping[str, Any], path: KeyPath) -> Iterator[KeyPath]:
        for name, inner in self._resolved(schema).get("properties", {}).items():
            yield (*path, name)
            yield from self._below(inner, (*path, name))


def type_words(schema: Mapping[str, Any] | None) -> str:
    """Say in words what a JSON Schema takes, for example ``a whole number from 1 to 100``."""
    if not schema:
        return "another value"
    if "anyOf" in schema:
        branches = [branch for branch in schema["anyOf"] if branch.get("type") != "null"]
        return " or ".join(dict.fromkeys(map(type_words, branches)))
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        words = [f"`{item}`" if isinstance(item, str) else json.dumps(item) for item in values]
        return words[0] if len(words) == 1 else f"one of {', '.join(words)}"
    match schema.get("type"):
        case "integer":
            return f"a whole number{_range(schema)}"
        case "number":
            return f"a number{_range(schema)}"
        case "boolean":
            return "true or false"
        case "string":
            return _text_words(schema)
        case "array":
            return f"an array, each element {type_words(schema.get('items'))}"
        case "object" | None if isinstance(schema.get("additionalProperties"), Mapping):
            return "a table with one key for each name"
        case _:
            return "a table"


def _text_words(schema: Mapping[str, Any]) -> str:
    if schema.get("format") == "path":
        return "a path, in quotes"
    if schema.get("pattern") == "^[0-9a-f]{64}$":
        return "64 hexadecimal digits, in quotes"
    if "pattern" in schema:
        return f"text of the form {schema['pattern']}, in quotes"
    return "text in quotes, not empty" if schema.get("minLength") else "text in quotes"


def _range(schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if low is not None and high is not None:
        return f" from {low} to {high}"
    bounds = [
        f"{word} {bound}"
        for word, bound in (
            ("of at least", low),
            ("above", above),
            ("of at most" if above is None else "at most", high),
            ("below", below),
        )
        if bound is not None
    ]
    return f" {', '.join(bounds)}" if bounds else ""


def problems_of(
    error: ValidationError, model: type[BaseModel], data: Any, prefix: KeyPath = ()
) -> list[ConfigProblem]:
    """Turn what pydantic found into problems, one for each key, without file and line.

    Args:
        error: What ``model.model_validate(data)`` raised.
        model: The model.
        data: What was validated.
        prefix: Where `data` stands in the settings, such as ``("plugin", "memory")``.
    """
    shape = Shape(model)
    problems: dict[str, ConfigProblem] = {}
    for one in error.errors(include_url=False):
        path = _path(one["loc"], data, absent=one["type"] in ("missing", "extra_forbidden"))
        full = (*prefix, *path)
        problem = _problem(one, path, full, shape)
        # The branches of a union each complain about the same key.
        problems.setdefault(problem.key, problem)
    return list(problems.values())


def _path(loc: Iterable[str | int], data: Any, *, absent: bool) -> KeyPath:
    """Return the keys of `loc`; pydantic puts the names of a union's branches among them."""
    path: KeyPath = ()
    parts = list(loc)
    for number, part in enumerate(parts):
        known: Iterable[str | int] = ()
        if isinstance(data, Mapping):
            known = data
        elif isinstance(data, Sequence) and not isinstance(data, str):
            known = range(len(data))
        if part in known:
            data = data[part]
        elif not (absent and number == len(parts) - 1):
            continue
        path = (*path, part)
    return path


def _problem(one: Any, path: KeyPath, full: KeyPath, shape: Shape) -> ConfigProblem:
    schema = shape.at(path)
    found, expected, near = shown(full, one["input"]), type_words(schema), None
    if _is_secret(schema):
        found = HIDDEN
    key = dotted(full)
    match one["type"]:
        case "extra_forbidden":
            found, expected = "a key that is not known", _known_keys(full, path, shape)
            near = _nearest(path, shape, full[: len(full) - len(path)])
            if near is None and len(full) == 1 and isinstance(one["input"], Mapping):
                # A plugin's section is where people look for it first: at the top.
                near = dotted(("plugin", *full))
        case "missing":
            found = "nothing"
        case "value_error" | "assertion_error":
            key, found, expected = _own_words(one["msg"].partition(", ")[2], key, found)
    return ConfigProblem(file="", line=None, key=key, found=found, expected=expected, nearest=near)


def _is_secret(schema: Mapping[str, Any] | None) -> bool:
    """Return whether pydantic marks the value as a secret, as it does with `SecretStr`."""
    schema = schema or {}
    return any(branch.get("writeOnly", False) for branch in (schema, *schema.get("anyOf", ())))


def _own_words(message: str, key: str, found: str) -> tuple[str, str, str]:
    """Take apart a validator's message: ``[KEY is] FOUND, expected EXPECTED``."""
    head, _, expected = message.rpartition("expected ")
    own = re.fullmatch(r"(?P<key>[\w.\[\]]+) is (?P<found>.+?)[:,] ?", head)
    if own is not None:
        return own["key"], own["found"], expected
    head = head.strip().rstrip(":,").removeprefix("found ")
    if head and found != HIDDEN:
        found = head
    return key, found, expected


def _known_keys(full: KeyPath, path: KeyPath, shape: Shape) -> str:
    known = ", ".join(f"`{name}`" for name in sorted(shape.keys(path[:-1])))
    section = f"[{dotted(full[:-1])}]" if len(full) > 1 else "the settings"
    return f"a key of {section}: {known}"


def _nearest(path: KeyPath, shape: Shape, prefix: KeyPath) -> str | None:
    """Return the known key that was probably meant: of this section, or of another one."""
    *parent, last = path
    name = str(last).lower()
    elsewhere: dict[str, KeyPath] = {}
    for key in shape.every_key():
        elsewhere.setdefault(str(key[-1]), key)
    if name in elsewhere:
        return dotted((*prefix, *elsewhere[name]))
    here = get_close_matches(name, shape.keys(tuple(parent)), n=1, cutoff=0.7)
    if here:
        return dotted((*prefix, *parent, here[0]))
    far = get_close_matches(name, elsewhere, n=1, cutoff=0.8)
    return dotted((*prefix, *elsewhere[far[0]])) if far else None
