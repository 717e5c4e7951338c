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
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from types import SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    TypeAlias,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

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


# -- functions that are called with JSON ------------------------------------

# Tools and operations are functions whose parameters are annotated with types that exist at run
# time; `Annotated[int, Field(ge=1)]` says more than a type can, and the `Args:` section of the
# docstring, in Google's style, describes each.

_ARGS = frozenset(("Args", "Arguments", "Parameters", "Attributes"))
_EXAMPLES = frozenset(("Example", "Examples"))
_SECTIONS = _ARGS | _EXAMPLES | {"Returns", "Yields", "Raises", "Note"}
_ENTRY = re.compile(r"(?P<name>\*{0,2}\w+)\s*(?:\([^)]*\))?:\s*(?P<text>.*)")


class SignatureError(Exception):
    """A function's signature or docstring does not say what it takes."""


@dataclass(frozen=True, slots=True)
class Docstring:
    """What a docstring says.

    Attributes:
        text: What stands above its sections.
        args: The entries of the section on arguments or attributes, by name.
        examples: The section of examples, as it stands; "" without one.
    """

    text: str
    args: Mapping[str, str] = field(default_factory=dict)
    examples: str = ""

    @property
    def summary(self) -> str:
        """The first paragraph, on one line."""
        return " ".join(self.text.partition("\n\n")[0].split())


def read_docstring(text: str | None) -> Docstring:
    """Return the text above the sections, the entries of Args, and the examples."""
    head: list[str] = []
    examples: list[str] = []
    notes: dict[str, str] = {}
    section, entry, depth = "", "", 0
    for line in inspect.cleandoc(text or "").splitlines():
        title = line.removesuffix(":")
        if title != line and title in _SECTIONS:
            section, entry, depth = title, "", 0
        elif not section:
            head.append(line)
        elif section in _ARGS and line.strip():
            indent = len(line) - len(line.lstrip())
            depth = depth or indent
            match = _ENTRY.fullmatch(line.strip()) if indent <= depth else None
            if match:
                entry = match["name"].lstrip("*")
                notes[entry] = match["text"]
            elif entry:
                notes[entry] = f"{notes[entry]} {line.strip()}".strip()
        if section in _EXAMPLES:
            examples.append(line)
    return Docstring("\n".join(head).strip(), notes, "\n".join(examples).strip())


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes by name.

    Attributes:
        parameters: Its parameters, without those that are not the caller's to give.
        hints: Their types, and the result's as ``return``, where those exist at run time.
        first: Whether there is a first parameter that is not the caller's to give.
    """

    parameters: Mapping[str, inspect.Parameter]
    hints: Mapping[str, Any]
    first: bool


def read_signature(
    function: Callable[..., Any], *, first: str | None = None, result: bool = False
) -> Signature:
    """Return what `function` takes.

    Args:
        function: The function.
        first: The name of a first parameter that the caller does not give; None where any first
            one is none of the caller's. Its type is not looked at: it is often imported for type
            checkers only.
        result: Whether the type of the result is wanted, too.

    Raises:
        SignatureError: A parameter has no name or no type that exists at run time.
    """
    found = inspect.signature(function)
    parameters = dict(found.parameters)
    name = next(iter(parameters), "")
    given = bool(name) and first in (None, name)
    if given:
        del parameters[name]
    for name, parameter in parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise SignatureError(f"found the parameter {parameter}: expected one that has a name")
        if parameter.annotation is parameter.empty:
            raise SignatureError(
                f"the parameter {name!r} has no type: annotate it, as in `{name}: str`"
            )
    plain = inspect.unwrap(function)
    if not inspect.isroutine(plain):
        plain = inspect.unwrap(type(plain).__call__)
    scope = getattr(plain, "__globals__", {})
    annotations = {name: item.annotation for name, item in parameters.items()}
    if result:
        annotations["return"] = found.return_annotation
    try:
        hints = get_type_hints(
            SimpleNamespace(__annotations__=annotations), globalns=scope, include_extras=True
        )
    except NameError as error:
        raise SignatureError(
            f"{error}: the types of its parameters are needed at run time; import them "
            "outside of `if TYPE_CHECKING`, at the top of the module"
        ) from error
    return Signature(parameters, hints, given)


def arguments_model(
    name: str, signature: Signature, notes: Mapping[str, str], **config: Any
) -> type[BaseModel]:
    """Return the model of what a function takes; unknown names are refused.

    Each parameter is an alias, since pydantic reserves some names for itself: the fields are
    called ``argument_0`` and so on, in the order of the signature.

    Args:
        name: What the model is called.
        signature: The function's.
        notes: What the docstring says of the parameters.
        config: More of pydantic's settings of the model.

    Raises:
        SignatureError: A type cannot be read from JSON, or the docstring names what is not there.
    """
    if unknown := sorted(notes.keys() - signature.parameters.keys()):
        raise SignatureError(
            f"the docstring's Args name {', '.join(unknown)}, which is no parameter"
        )
    fields: Any = {}
    for number, (key, parameter) in enumerate(signature.parameters.items()):
        hint = signature.hints[key]
        more: dict[str, Any] = {"alias": key}
        if key in notes and not _is_described(hint):
            more["description"] = notes[key]
        if parameter.default is not parameter.empty:
            more["default"] = parameter.default
        fields[f"argument_{number}"] = (hint, Field(**more))
    settings = cast("ConfigDict", {"extra": "forbid", **config})
    try:
        return create_model(name, __config__=settings, **fields)
    except (PydanticUserError, TypeError) as error:
        first_line = str(error).partition("\n")[0]
        raise SignatureError(
            f"a parameter's type cannot be read from JSON: {first_line}"
        ) from error


def given_arguments(signature: Signature, checked: BaseModel) -> dict[str, Any]:
    """Return what was given of a model of `arguments_model`, by the names of the function."""
    return {
        key: getattr(checked, field)
        for number, key in enumerate(signature.parameters)
        if (field := f"argument_{number}") in checked.model_fields_set
    }


def _is_described(hint: Any) -> bool:
    return get_origin(hint) is Annotated and any(
        isinstance(item, FieldInfo) and item.description for item in get_args(hint)[1:]
    )


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


class DocumentedSchema(GenerateJsonSchema):
    """A schema in which ``Attributes:`` of a dataclass describes its members."""

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of a dataclass."""
        made = super().dataclass_schema(schema)
        for name, text in read_docstring(schema["cls"].__doc__).args.items():
            if name in made.get("properties", {}):
                made["properties"][name].setdefault("description", text)
        return made


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
