"""JSON Schemas, compiled to checks: of a tool's arguments, and of answers to questions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from hookgate.core.domain.errors import ToolDefinitionError
from hookgate.core.domain.strict_json import canonical

if TYPE_CHECKING:
    import jsonschema_rs

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
