"""What is wrong in the settings and in other documents, in words for people.

pydantic finds what is wrong; its messages speak of models and loc tuples. Here its errors
become `Problem` values that speak of keys and of TOML: what was found, masked where
it may be a secret, and what the key takes, said in the same words whatever failed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from hookgate.core.domain.errors import Problem
from hookgate.core.settings.paths import schema_of
from hookgate.core.settings.secret_store import looks_secret
from hookgate.core.settings.toml_lines import KeyPath

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

FOUND_CHARS = 60

NAMED_UNKNOWN = 20
"""So many unknown keys are compared with the known ones, to name the nearest."""

UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
"""What pydantic calls a key that a model, or a dataclass, does not have."""

CHOICES = ("literal_error", "enum")
"""What it calls a value that is none of several words."""

ABSENT = ("missing", "missing_keyword_only_argument", "missing_argument")
"""What it calls a key that is not there."""

NOTHING = "nothing"
"""What is found where there is no value."""

HIDDEN = "a value that is not shown, since it may be a secret"

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def dotted(path: KeyPath) -> str:
    """Return a path as one writes it in TOML: ``agents."my bot".tools[0]``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _BARE_KEY.fullmatch(part) else _quoted(part)
            text += f".{name}" if text else name
    return text


def _quoted(text: str) -> str:
    """Return a text in quotes, on one line, with nothing in it that cannot be seen."""
    made = json.dumps(text, ensure_ascii=False)
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in made)


_ASSIGNED = re.compile(r"(?:[?&]|(?<!\S)--?)([\w.-]{1,80})=[^\s&]")
"""What a query of a URL, or a flag of a command, gives a value to."""


def may_be_secret(path: KeyPath, value: Any) -> bool:
    """Whether `value` must not be shown, judging by its key and by how it looks."""
    names = [part for part in path if isinstance(part, str)]
    if names[:1] == ["secrets"] or (names[:2] == ["gateway", "tokens"] and len(names) < 4):
        return True
    # What a header says is known to its receiver alone.
    if "headers" in names[:-1]:
        return True
    text = value if isinstance(value, str) else ""
    if any(looks_secret(name, "") for name in _ASSIGNED.findall(text)):
        return True
    return looks_secret(names[-1] if names else "", text)


def shown(path: KeyPath, value: Any, hides: Callable[[KeyPath, Any], bool] = may_be_secret) -> str:
    """Return `value` as a problem's ``found``: short, and without what `hides` tells to hide."""
    match value:
        case None:
            return NOTHING
        case bool():
            return "true" if value else "false"
        case Mapping():
            names = ", ".join(f"`{_quoted(str(name)[:FOUND_CHARS])[1:-1]}`" for name in value)
            cut = names if len(names) <= 8 * FOUND_CHARS else f"{names[: 8 * FOUND_CHARS]}…"
            return f"a table with {cut}" if names else "an empty table"
        case list() | tuple():
            return f"an array of {len(value)}" if value else "an empty array"
    if hides(path, value):
        return HIDDEN
    if isinstance(value, str):
        cut = value if len(value) <= FOUND_CHARS else value[: FOUND_CHARS - 1] + "…"
        return f"the text {_quoted(cut)}"
    return str(value)


class Shape:
    """The keys that a model takes, read from its JSON Schema.

    Where a model takes its keys in two spellings, snake_case is the one that is known here.
    """

    def __init__(self, model: type[BaseModel]) -> None:
        self.two_spellings = "alias_generator" in model.model_config
        self._schema = schema_of(model, by_alias=not self.two_spellings)

    def at(self, path: KeyPath) -> Mapping[str, Any] | None:
        """Return the schema of what stands at `path`; None where nothing is known of it."""
        found = self._all(path)
        return self._resolved(found[0]) if found else None

    def _all(self, path: KeyPath) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = (self._schema,)
        for part in path:
            found = [inner for schema in found for inner in self._inner(schema, part)]
        return found

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in schema:
            meant = self._schema["$defs"][schema["$ref"].rpartition("/")[2]]
            schema = {**meant, **{key: one for key, one in schema.items() if key != "$ref"}}
        return schema

    def _inner(self, schema: Mapping[str, Any], part: str | int) -> Iterator[Mapping[str, Any]]:
        schema = self._resolved(schema)
        for branch in schema.get("anyOf", ()):
            yield from self._inner(branch, part)
        if isinstance(part, int):
            inner = schema.get("items")
        else:
            known = schema.get("properties", {})
            inner = known.get(part) or known.get(self.known(part)) or known.get(f"{part}_")
            inner = inner or schema.get("additionalProperties")
        if isinstance(inner, Mapping):
            yield inner

    def known(self, key: str) -> str:
        """Return a key in the spelling that is known here."""
        from pydantic.alias_generators import to_snake

        return to_snake(key) if self.two_spellings else key

    def spellings(self, path: KeyPath) -> list[str]:
        """Return the known keys of the table at `path` in all their spellings."""
        from pydantic.alias_generators import to_camel

        known = self.keys(path)
        return [*known, *map(to_camel, known)] if self.two_spellings else known

    def keys(self, path: KeyPath) -> list[str]:
        """Return the known keys of the table at `path`."""
        return list(dict.fromkeys(key for one in self._all(path) for key in self._keys(one)))

    def _keys(self, schema: Mapping[str, Any]) -> Iterator[str]:
        schema = self._resolved(schema)
        for branch in schema.get("anyOf", ()):
            yield from self._keys(branch)
        # A field whose key is a word of Python's has an underscore behind it.
        yield from (key.removesuffix("_") for key in schema.get("properties", ()))
        names = schema.get("propertyNames", {})
        for branch in (names, *names.get("anyOf", ())):
            yield from branch.get("enum", (branch["const"],) if "const" in branch else ())

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
    if "expected" in schema:
        return str(schema["expected"])
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that pydantic found.

    Attributes:
        path: Where, within what was validated.
        kind: What pydantic calls it.
        value: What stands there.
        found: The same in words.
        expected: What would have been right.
        nearest: The known key that was probably meant.
    """

    path: KeyPath
    kind: str
    value: Any
    found: str
    expected: str
    nearest: KeyPath | None = None


def problems_of(
    error: ValidationError, model: type[BaseModel], data: Any, prefix: KeyPath = ()
) -> list[Problem]:
    """Turn what pydantic found into problems, one for each key, without file and line.

    Args:
        error: What ``model.model_validate(data)`` raised.
        model: The model.
        data: What was validated.
        prefix: Where `data` stands in the settings, such as ``("plugin", "memory")``.
    """
    problems = []
    for fault in faults_of(error, model, data, prefix):
        full, expected = (*prefix, *fault.path), fault.expected
        near = None if fault.nearest is None else dotted((*prefix, *fault.nearest))
        if fault.kind in UNKNOWN:
            section = f"[{dotted(full[:-1])}]" if len(full) > 1 else "the settings"
            expected = f"a key of {section}: {expected.removeprefix('one of ')}"
            if near is None and len(full) == 1 and isinstance(fault.value, Mapping):
                # A plugin's section is where people look for it first: at the top.
                near = dotted(("plugin", *full))
            elif fault.nearest is not None and not prefix and len(fault.nearest) < len(full) == 2:
                expected += f"; `{near}` stands at the top of the file, above all tables"
        elif fault.kind in ABSENT and prefix[:1] == ("plugin",):
            expected = f"{expected}: {_how_to_set(full)}"
        problems.append(
            Problem(key=dotted(full), found=fault.found, expected=expected, nearest=near)
        )
    return problems


def _how_to_set(path: KeyPath) -> str:
    """Say how a setting is set that a plugin cannot do without."""
    plugin, key = path[1], dotted(path[-1:])
    return (
        f"write `{key} = ...` below [{dotted(path[:-1])}] of the settings file; `hookgate -p "
        f"no:{plugin}` runs without the plugin"
    )


def faults_of(
    error: ValidationError,
    model: type[BaseModel],
    data: Any,
    prefix: KeyPath = (),
    *,
    hides: Callable[[KeyPath, Any], bool] = may_be_secret,
) -> list[Fault]:
    """Turn what pydantic found into words, one fault for each key.

    Args:
        error: What ``model.model_validate(data)`` raised.
        model: The model.
        data: What was validated.
        prefix: Where `data` stands in the whole.
        hides: Whether a value must not be shown.
    """
    shape = Shape(model)
    faults: dict[KeyPath, Fault] = {}
    unknown = 0
    for one in error.errors(include_url=False):
        path = _path(one["loc"], data, absent=one["type"] in (*ABSENT, *UNKNOWN))
        unknown += one["type"] in UNKNOWN
        fault = _fault(one, path, prefix, shape, hides, named=unknown <= NAMED_UNKNOWN)
        # The branches of a union each complain about the same key; who looked closest is heard.
        if fault.path not in faults or faults[fault.path].kind.endswith("_type"):
            faults[fault.path] = fault
    # What one branch of a union complains about as a whole, another one has looked into.
    outer = {path[:length] for path in faults for length in range(len(path))}
    return [one for one in faults.values() if one.path not in outer or one.kind == "value_error"]


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


def _fault(
    one: Any,
    path: KeyPath,
    prefix: KeyPath,
    shape: Shape,
    hides: Callable[[KeyPath, Any], bool],
    *,
    named: bool,
) -> Fault:
    schema, kind = shape.at(path), one["type"]
    found = shown((*prefix, *path), one["input"], hides)
    if _is_secret(schema):
        found = HIDDEN
    expected, near = type_words(schema), None
    if kind in CHOICES and one["loc"][-1] == "[key]":
        kind = UNKNOWN[0]
    if kind in UNKNOWN:
        known = ", ".join(f"`{name}`" for name in sorted(shape.keys(path[:-1])))
        found, expected = "a key that is not known", f"one of {known}"
        near = _nearest(path, shape) if named else None
        if shape.two_spellings and path[-1] in shape.spellings(path[:-1]):
            kind, near = "both_spellings", None
            found, expected = "the key in both its spellings", "one of the two"
    elif kind in CHOICES and isinstance(one["input"], str):
        words = re.findall(r"`(.+?)`", expected)
        if meant := get_close_matches(one["input"][:FOUND_CHARS], words, n=1):
            expected += f"; did you mean `{meant[0]}`?"
    elif kind in ABSENT:
        # pydantic asks for the other spelling.
        path, found = (*path[:-1], shape.known(str(path[-1]))), NOTHING
    elif kind in ("value_error", "assertion_error"):
        own, found, expected = _own_words(one["msg"].partition(", ")[2], path, found)
        if own != path:
            # What stands at a key that the message names is what it says.
            return Fault(path=own, kind=kind, value=found, found=found, expected=expected)
    return Fault(
        path=path, kind=kind, value=one["input"], found=found, expected=expected, nearest=near
    )


def _is_secret(schema: Mapping[str, Any] | None) -> bool:
    """Return whether pydantic marks the value as a secret, as it does with `SecretStr`."""
    schema = schema or {}
    return any(branch.get("writeOnly", False) for branch in (schema, *schema.get("anyOf", ())))


def _own_words(message: str, path: KeyPath, found: str) -> tuple[KeyPath, str, str]:
    """Take apart a validator's message: ``[KEY is] FOUND, expected EXPECTED``."""
    head, _, expected = message.rpartition("expected ")
    own = re.fullmatch(r"(?P<key>[\w.\[\]]+) is (?P<found>.+?)[:,;] ?", head)
    if own is not None:
        steps = re.findall(r"\w+", own["key"])
        below = tuple(int(step) if step.isdigit() else step for step in steps)
        return (*path, *below), own["found"], expected
    head = head.strip().rstrip(":,;").removeprefix("found ")
    if head and found != HIDDEN:
        found = head
    return path, found, expected


def _nearest(path: KeyPath, shape: Shape) -> KeyPath | None:
    """Return the known key that was probably meant: of this section, or of another one."""
    *parent, last = path
    name = str(last)
    elsewhere: dict[str, KeyPath] = {}
    for key in shape.every_key():
        elsewhere.setdefault(str(key[-1]), key)
    if name.lower() in elsewhere:
        return elsewhere[name.lower()]
    known = shape.spellings(tuple(parent))
    for spelt in (name, name.lower()):
        if here := get_close_matches(spelt, known, n=1, cutoff=0.7):
            return (*parent, here[0])
    far = get_close_matches(name.lower(), elsewhere, n=1, cutoff=0.8)
    return elsewhere[far[0]] if far else None
