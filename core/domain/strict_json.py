"""Reading JSON strictly, and writing it in one way only.

Policy and tools must see the same bytes, so what two readers could understand in two
ways is refused: duplicate keys, NaN, lone surrogates, integers that a double cannot
hold, deep nesting.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import orjson

from hookgate.core.domain.errors import ToolDefinitionError

if TYPE_CHECKING:
    import jsonschema_rs

MAX_DEPTH = 64
"""Objects and arrays may be nested this deep."""

MAX_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader holds exactly (RFC 7493, section 2.2)."""

# A string that never ends is one match too, and nothing is ever tried twice: otherwise a
# megabyte of `"\\"` would cost its length squared.
_BRACKETS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
# Past -2**63, which has 19 digits, an integer becomes a float; before that, one beyond 53 bits is
# found by the writer. Looked for where each digit is a zero: a pattern takes five times as long.
_DIGITS = bytes(ord("0") if chr(byte).isdecimal() else ord(" ") for byte in range(256))
_LONG_NUMBER = b"0" * 19
_LARGE = 16_384
_SURROGATE = re.compile("[\ud800-\udfff]")


class StrictJSONError(ValueError):
    """The text is not JSON, or is JSON that two readers could understand differently."""


def _too_deep(data: bytes) -> bool:
    # Counted over the raw bytes, before any recursive parser sees them.
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for match in _BRACKETS.finditer(data):
        token = match.group()
        if token in (b"[", b"{"):
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif token in (b"]", b"}"):
            depth -= 1
    return False


def _nests_too_deep(value: Any) -> bool:
    # Level by level: a large body has few objects and lists, and much text between them.
    level, depth = [value] if type(value) is dict or type(value) is list else [], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            return True
        level = [
            one
            for item in level
            for one in (item.values() if type(item) is dict else item)
            if type(one) is dict or type(one) is list
        ]
    return False


def _refuse_constant(name: str) -> NoReturn:
    raise StrictJSONError(f"found the number {name}: expected a finite number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise StrictJSONError(f"found the key {key[:80]!r} twice in one object")
            seen.add(key)
    return result


def _integer(text: str) -> int:
    if len(text) > 17 or abs(value := int(text)) > MAX_INTEGER:
        raise StrictJSONError(
            f"found the integer {text[:24]}: expected at most {MAX_INTEGER} in size; "
            "send larger ones as strings"
        )
    return value


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise StrictJSONError(f"found the number {text[:24]}: expected one that a double can hold")
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=_integer,
    parse_float=_float,
    parse_constant=_refuse_constant,
)


def _same_as_strict(value: Any, raw: bytes) -> bool:
    """Whether `value`, which orjson read from `raw`, is surely what `_strict` reads.

    False means that it is not known. orjson is a strict reader but for three things: of a
    key that stands twice it keeps the last value, integers reach to 2**64, and larger ones
    become floats. It refuses halves of surrogate pairs, and its floats are Python's.
    """
    # Whether a large body has so few of them takes as long to find out as how deep it nests.
    may_be_deep = len(raw) > _LARGE or raw.count(b"[") + raw.count(b"{") > MAX_DEPTH
    if may_be_deep and _nests_too_deep(value):
        return False
    try:
        written = orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
    except TypeError:  # an integer beyond 53 bits
        return False
    # A text that equals what a writer makes of the value has no key twice, and no integer
    # that became a float.
    if written == raw:
        return True
    # Otherwise, if colons are not written as escapes, each colon of `written` stands in
    # `raw` too, and a key that was dropped has one more there.
    return (
        written.count(b":") == raw.count(b":")
        and b"\\u003" not in raw
        and _LONG_NUMBER not in raw.translate(_DIGITS)
    )


def loads(data: bytes | str) -> Any:
    """Read one JSON text.

    Small frames are on every path, so orjson reads them where that is provably the same.

    Args:
        data: UTF-8 bytes without a byte order mark, or text.

    Returns:
        dict, list, str, int, float, bool or None.

    Raises:
        StrictJSONError: It is no JSON; or it has duplicate keys, NaN or infinities, lone
            surrogates, integers beyond `MAX_INTEGER`, or nests deeper than `MAX_DEPTH`.
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return _strict(raw)
    return value if _same_as_strict(value, raw) else _strict(raw)


def _strict(raw: bytes) -> Any:
    """Read one JSON text slowly, and say exactly what is wrong with it."""
    if raw.startswith(BOM_UTF8):
        raise StrictJSONError("found a byte order mark: expected JSON in UTF-8 without one")
    if _too_deep(raw):
        raise StrictJSONError(f"found more than {MAX_DEPTH} levels of nesting")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StrictJSONError(f"found a byte that is not UTF-8 at offset {error.start}") from None
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise StrictJSONError(
            f"found no JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    if "\\u" in text:
        _refuse_surrogates(value)
    return value


def _refuse_surrogates(value: Any) -> None:
    # Only an escape can bring one in: the decoding of UTF-8 has refused the rest.
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if _SURROGATE.search(item):
                raise StrictJSONError("found half of a surrogate pair in a string")
        elif isinstance(item, dict):
            pending.extend(item)
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)


def well_formed(text: str) -> str:
    """Return `text` as JSON can hold it: pairs of surrogates joined, lone ones replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def dumps(value: Any) -> bytes:
    """Write compact JSON for the wire."""
    return orjson.dumps(value)


def canonical(value: Any) -> bytes:
    """Write `value` in one form only: sorted keys, no spaces, UTF-8.

    Equal values give equal bytes, which is what digests and approvals are bound to.
    """
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)


# -- schemas ---------------------------------------------------------------------

# JSON Schemas, compiled to checks: of a tool's arguments, and of answers to questions.

SchemaCheck: TypeAlias = Callable[[Mapping[str, Any]], list[str]]
"""Takes arguments and returns what is wrong with them, in sentences; nothing wrong: []."""

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

MAX_PROBLEMS = 8
"""So many problems of one set of arguments are told; a model mends the first ones first."""

MAX_PROBLEM_CHARS = 240
"""A problem quotes the value that was found; a long one is cut."""

BACKTRACK_LIMIT = 10_000
"""Steps that a pattern with look-around or back-references may take on one value. Patterns
without them run in linear time whatever this is."""


def compile_schema(schema: Mapping[str, Any], *, tool: str = "") -> SchemaCheck:
    """Compile the JSON Schema (2020-12) of a tool's arguments.

    Nothing is ever fetched: a reference that leads out of the schema is refused here.

    Args:
        schema: The schema; its ``type`` is ``object``.
        tool: The tool's name, for the error.

    Returns:
        A check that is safe to call from several threads. It returns at most
        `MAX_PROBLEMS` sentences, each naming the place by its path.

    Raises:
        ToolDefinitionError: The schema is not valid, or refers to what is not in it.
    """
    if schema.get("type") != "object":
        raise ToolDefinitionError(
            tool,
            f"the schema's type is {schema.get('type')!r}: expected `object`, because the "
            "arguments of a tool have names",
        )
    try:
        validator = _compiled(canonical(schema))
    except (ValueError, TypeError) as error:
        place = _path(getattr(error, "instance_path", ()))
        where = f" at `{place}`" if place else ""
        raise ToolDefinitionError(
            tool, f"the schema is not valid{where}: {getattr(error, 'message', error)}"
        ) from error

    def check(arguments: Mapping[str, Any]) -> list[str]:
        try:
            return _problems(validator, dict(arguments))
        except ValueError as error:
            return [f"the arguments hold what JSON cannot: {error}"]

    return check


def problems_of(value: Any, schema: Mapping[str, Any]) -> list[str]:
    """Return what of `value` does not fit `schema`, of any type, in sentences.

    Raises:
        ValueError: The schema is not valid, or refers to what is not in it.
        TypeError: The schema or the value holds what JSON cannot.
    """
    return _problems(_compiled(canonical(schema)), value)


@lru_cache(maxsize=1024)
def _compiled(schema: bytes) -> jsonschema_rs.Draft202012Validator:
    """Compile a schema, given in canonical JSON. Who makes, admits and calls a tool shares one."""
    # Settings are read without it.
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(
        schema.decode(),
        retriever=_refuse,
        pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT),
    )


def _problems(validator: jsonschema_rs.Draft202012Validator, value: Any) -> list[str]:
    return [_problem(error) for error in islice(validator.iter_errors(value), MAX_PROBLEMS)]


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} lies outside of the schema, and nothing is fetched: put it in $defs")


def _problem(error: jsonschema_rs.ValidationError) -> str:
    message = error.message
    branches = getattr(error.kind, "context", None)
    if branches:
        # "is not valid under any of the schemas" helps nobody: say what each one wanted.
        wanted = [branch[0].message for branch in branches if branch]
        message = "; and ".join(dict.fromkeys(wanted)) or message
    if len(message) > MAX_PROBLEM_CHARS:
        half = MAX_PROBLEM_CHARS // 2
        message = f"{message[:half]} ... {message[-half:]}"
    place = _path(error.instance_path)
    return f"`{place}`: {message}" if place else message


def _path(parts: Sequence[str | int]) -> str:
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")
