"""JSON Schemas: compiled to checks, and made of models that describe themselves.

The checks are of a tool's arguments, and of answers to questions. A model's fields are described
by the text below them, as in ::

    class Params(OperationModel):
        limit: int = 20
        '''How many at most.'''

pydantic's own ``use_attribute_docstrings`` reads the source of every class while it is made,
which was an eighth of a gateway's start. Here the source is read when a JSON Schema is asked
for, each module's once.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import (
    TYPE_CHECKING,
    Any,
    TypeAlias,
)

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler

from hookgate.core.domain.errors import ToolDefinitionError
from hookgate.core.domain.strict_json import canonical

if TYPE_CHECKING:
    import jsonschema_rs
    from pydantic_core import CoreSchema

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


# -- models that describe themselves ---------------------------------------


class Documented(BaseModel):
    """Base of models that are described in place, refuse unknown keys and do not change.

    What checks values is made when the first one comes, since most operations are never called;
    in a plugin's own package it is made at once, so that an error is found where it was made.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **more: Any) -> None:
        super().__pydantic_init_subclass__(**more)
        if not cls.__module__.startswith("hookgate."):
            cls.model_rebuild(raise_errors=False)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in _texts_of(cls).items():
            field = cls.model_fields[name]
            if field.description is not None:
                continue
            for key in {name, field.alias, field.validation_alias, field.serialization_alias}:
                if isinstance(key, str) and key in properties:
                    properties[key]["description"] = text
        return schema


def _texts_of(model: type[Documented]) -> dict[str, str]:
    """Return the texts below the fields of `model`; the nearest class that has a field counts."""
    texts: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if not issubclass(owner, Documented) or owner is Documented:
            continue
        found = _texts_in(owner.__module__).get(owner.__qualname__, {})
        for name in inspect.get_annotations(owner):
            texts.pop(name, None)
            if name in found and name in model.model_fields:
                texts[name] = found[name]
    return texts


@lru_cache(maxsize=256)
def _texts_in(module: str) -> Mapping[str, Mapping[str, str]]:
    """Return the texts below the fields of every class of a module, by the class's name.

    Nothing is known of classes without a source, such as those of an interactive session.
    """
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError, SyntaxError):
        return {}
    return dict(_classes(tree, ""))


def _classes(node: ast.AST, prefix: str) -> Iterator[tuple[str, dict[str, str]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            name = f"{prefix}{child.name}"
            yield name, _texts(child)
            yield from _classes(child, f"{name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(child, f"{prefix}{child.name}.<locals>.")
        else:
            yield from _classes(child, prefix)


def _texts(node: ast.ClassDef) -> dict[str, str]:
    texts, last = {}, ""
    for statement in node.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)):
                last = name
                continue
            case ast.Expr(value=ast.Constant(value=str(text))) if last:
                texts[last] = inspect.cleandoc(text)
        last = ""
    return texts
