"""From a typed Python function to a `Tool`, and from a tool's schema to a check of arguments.

A tool written in Python is a function with a typed signature and a docstring in Google's
style. Of ::

    async def weather(turn: Turn, city: str, days: int = 1) -> str: ...

``tool(weather, flags=Flags(...))`` makes a tool with two arguments, one of them required.
The signature becomes the JSON Schema, the docstring what the model reads.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from hookgate.core.domain.descriptors import ExamplesError, Flags, checked_examples
from hookgate.core.domain.errors import ToolDefinitionError
from hookgate.core.domain.parts import CONTENT_PARTS
from hookgate.core.domain.schemas import MAX_PROBLEMS, NAME, _path, compile_schema
from hookgate.core.domain.tools import Tool, ToolResult, ToolRunner
from hookgate.core.hooks.tasks import called

if TYPE_CHECKING:
    from hookgate.core.domain.turn import Turn

__all__ = ["tool"]

_SECTIONS = frozenset(
    (
        "Args",
        "Arguments",
        "Parameters",
        "Returns",
        "Yields",
        "Raises",
        "Example",
        "Examples",
        "Note",
    )
)
_ARGS = frozenset(("Args", "Arguments", "Parameters"))
_ENTRY = re.compile(r"(?P<name>\*{0,2}\w+)\s*(?:\([^)]*\))?:\s*(?P<text>.*)")


# -- tools -----------------------------------------------------------------


def tool(
    function: Callable[..., Any],
    *,
    flags: Flags,
    name: str | None = None,
    description: str | None = None,
    always_on: bool = False,
    timeout: float = 30.0,
    category: str = "",
    tags: Sequence[str] = (),
    examples: Sequence[str] = (),
    idempotent: bool | None = None,
) -> Tool:
    """Make a tool of a typed function.

    A first parameter called ``turn`` gets the `Turn` and is not part of the schema. An
    ``async`` function runs on the event loop, a plain one on a thread; a thread that
    outlives ``timeout`` cannot be stopped, only left behind. What the function returns
    is a `ToolResult`, or text, or anything that pydantic can write as JSON.

    Args:
        function: The function. Its parameters are annotated with types that exist at run
            time; ``Annotated[int, Field(ge=1)]`` says more than a type can.
        flags: What it does to the world. Five statements; one that is left out is unknown.
        name: The tool's name; the function's where it is not given.
        description: What the model reads; the docstring above its sections where it is
            not given.
        always_on: Offered on every turn, whatever selection says.
        timeout: Seconds that a call may take.
        category: One word, for people and discovery.
        tags: Words that it is found by.
        examples: Messages that ask for it, as people would write them: 8 at most, of 200
            characters. It is found by them, and no model reads them.
        idempotent: Whether a call that is made again with the same arguments changes nothing
            more; None where that is not known.

    Raises:
        ToolDefinitionError: The name, a parameter, the docstring or an example does not do.
    """
    tool_name = name or str(getattr(function, "__name__", ""))
    if not NAME.fullmatch(tool_name):
        raise ToolDefinitionError(
            tool_name, "expected a name of 1 to 64 characters of [A-Za-z0-9_-]: give `name=`"
        )
    text, notes = _read_docstring(inspect.getdoc(function) or "")
    description = description or text
    if not description:
        raise ToolDefinitionError(
            tool_name, "found no docstring: a model needs a sentence on what the tool does"
        )
    signature = _read_signature(tool_name, function)
    if unknown := sorted(notes.keys() - signature.parameters.keys() - {"turn"}):
        raise ToolDefinitionError(
            tool_name, f"the docstring's Args name {', '.join(unknown)}, which is no parameter"
        )
    model = _arguments_model(tool_name, signature, notes)
    schema = _json_schema(tool_name, model)
    compile_schema(schema, tool=tool_name)
    try:
        asked = checked_examples(examples)
    except ExamplesError as error:
        raise ToolDefinitionError(tool_name, str(error)) from error
    return Tool(
        name=tool_name,
        description=description,
        schema=schema,
        flags=flags,
        run=_runner(tool_name, function, signature, model),
        always_on=always_on,
        timeout=timeout,
        category=category,
        tags=tuple(tags),
        examples=asked,
        idempotent=idempotent,
    )


@dataclass(frozen=True, slots=True)
class _Signature:
    parameters: Mapping[str, inspect.Parameter]
    hints: Mapping[str, Any]
    wants_turn: bool


def _read_signature(tool_name: str, function: Callable[..., Any]) -> _Signature:
    parameters = dict(inspect.signature(function).parameters)
    # The type of `turn` is often imported for type checkers only: it is not looked at.
    wants_turn = next(iter(parameters), "") == "turn"
    if wants_turn:
        del parameters["turn"]
    for name, parameter in parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ToolDefinitionError(
                tool_name, f"found the parameter {parameter}: expected one that has a name"
            )
        if parameter.annotation is parameter.empty:
            raise ToolDefinitionError(
                tool_name, f"the parameter {name!r} has no type: annotate it, as in `{name}: str`"
            )
    plain = inspect.unwrap(function)
    if not inspect.isroutine(plain):
        plain = inspect.unwrap(type(plain).__call__)
    scope = getattr(plain, "__globals__", {})
    annotated = SimpleNamespace(
        __annotations__={name: item.annotation for name, item in parameters.items()}
    )
    try:
        hints = get_type_hints(annotated, globalns=scope, include_extras=True)
    except NameError as error:
        raise ToolDefinitionError(
            tool_name,
            f"{error}: the types of a tool's parameters are needed at run time; import them "
            "outside of `if TYPE_CHECKING`, at the top of the module",
        ) from error
    return _Signature(parameters, hints, wants_turn)


def _arguments_model(
    tool_name: str, signature: _Signature, notes: Mapping[str, str]
) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for number, (name, parameter) in enumerate(signature.parameters.items()):
        hint = signature.hints[name]
        # The parameter's name is the alias: pydantic reserves some names for itself.
        more: dict[str, Any] = {"alias": name}
        if name in notes and not _is_described(hint):
            more["description"] = notes[name]
        if parameter.default is not parameter.empty:
            more["default"] = parameter.default
        fields[f"argument_{number}"] = (hint, Field(**more))
    try:
        return create_model(
            f"{tool_name}_arguments", __config__=ConfigDict(extra="forbid"), **fields
        )
    except (PydanticUserError, TypeError) as error:
        raise ToolDefinitionError(
            tool_name, f"a parameter's type cannot be read from JSON: {_first_line(error)}"
        ) from error


def _is_described(hint: Any) -> bool:
    return get_origin(hint) is Annotated and any(
        isinstance(item, FieldInfo) and item.description for item in get_args(hint)[1:]
    )


class _Schema(GenerateJsonSchema):
    # A default that JSON cannot hold is left out; the function has it all the same.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _json_schema(tool_name: str, model: type[BaseModel]) -> dict[str, Any]:
    try:
        schema = model.model_json_schema(schema_generator=_Schema)
    except PydanticUserError as error:
        raise ToolDefinitionError(
            tool_name, f"a parameter's type has no JSON Schema: {_first_line(error)}"
        ) from error
    # What the class is called means nothing to a model that reads the schema.
    schema.pop("title", None)
    schema.setdefault("properties", {})
    return schema


def _runner(
    tool_name: str, function: Callable[..., Any], signature: _Signature, model: type[BaseModel]
) -> ToolRunner:
    names = {f"argument_{number}": name for number, name in enumerate(signature.parameters)}
    entry = function if inspect.isroutine(function) else type(function).__call__
    on_the_loop = inspect.iscoroutinefunction(entry)

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> ToolResult | str:
        try:
            checked = model.model_validate(dict(arguments))
        except ValidationError as error:
            return ToolResult.error(_validation_text(error))
        given = {names[key]: getattr(checked, key) for key in checked.model_fields_set}
        head = (turn,) if signature.wants_turn else ()
        if on_the_loop:
            value = await function(*head, **given)
        else:
            ended = await asyncio.to_thread(called, function, *head, **given)
            if ended.error is not None:
                raise ended.error
            value = ended.value
        return _as_result(tool_name, value)

    return run


def _as_result(tool_name: str, value: Any) -> ToolResult | str:
    if isinstance(value, str | ToolResult):
        return value
    parts = tuple(value) if isinstance(value, list | tuple) else (value,)
    if parts and all(isinstance(part, CONTENT_PARTS) for part in parts):
        return ToolResult(content=parts)
    try:
        return ToolResult(content=to_json(value).decode(), data=to_jsonable_python(value))
    except PydanticSerializationError as error:
        raise TypeError(
            f"tool {tool_name!r} returned a {type(value).__name__}, which JSON cannot hold: "
            "expected text, a ToolResult, or values of JSON"
        ) from error


def _validation_text(error: ValidationError) -> str:
    problems = (
        f"`{_path(item['loc'])}`: {item['msg']}" if item["loc"] else item["msg"]
        for item in error.errors(include_url=False, include_input=False)
    )
    return "The arguments do not fit the tool: " + "; ".join(islice(problems, MAX_PROBLEMS))


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the text above the sections, and the entries of the Args section."""
    head: list[str] = []
    notes: dict[str, str] = {}
    section, entry, depth = "", "", 0
    for line in text.splitlines():
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
    return "\n".join(head).strip(), notes


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
