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
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from hookgate.core.domain.descriptors import ExamplesError, Flags, checked_examples
from hookgate.core.domain.errors import ToolDefinitionError
from hookgate.core.domain.parts import CONTENT_PARTS
from hookgate.core.domain.strict_json import MAX_PROBLEMS, NAME, _path, compile_schema
from hookgate.core.domain.tools import Tool, ToolResult, ToolRunner
from hookgate.core.hooks.tasks import called
from hookgate.kit.functions.signatures import (
    Signature,
    SignatureError,
    arguments_model,
    given_arguments,
    read_docstring,
    read_signature,
)

if TYPE_CHECKING:
    from hookgate.core.domain.turn import Turn

__all__ = ["tool"]

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
    docstring = read_docstring(inspect.getdoc(function))
    description = description or docstring.text
    if not description:
        raise ToolDefinitionError(
            tool_name, "found no docstring: a model needs a sentence on what the tool does"
        )
    try:
        signature = read_signature(function, first="turn")
        notes = {name: text for name, text in docstring.args.items() if name != "turn"}
        model = arguments_model(f"{tool_name}_arguments", signature, notes)
    except SignatureError as error:
        raise ToolDefinitionError(tool_name, str(error)) from error
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


class _Schema(GenerateJsonSchema):
    # A default that JSON cannot hold is left out; the function has it all the same.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _json_schema(tool_name: str, model: type[BaseModel]) -> dict[str, Any]:
    try:
        schema = model.model_json_schema(schema_generator=_Schema)
    except PydanticUserError as error:
        why = str(error).partition("\n")[0]
        raise ToolDefinitionError(
            tool_name, f"a parameter's type has no JSON Schema: {why}"
        ) from error
    # What the class is called means nothing to a model that reads the schema.
    schema.pop("title", None)
    schema.setdefault("properties", {})
    return schema


def _runner(
    tool_name: str, function: Callable[..., Any], signature: Signature, model: type[BaseModel]
) -> ToolRunner:
    entry = function if inspect.isroutine(function) else type(function).__call__
    on_the_loop = inspect.iscoroutinefunction(entry)

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> ToolResult | str:
        try:
            checked = model.model_validate(dict(arguments))
        except ValidationError as error:
            return ToolResult.error(_validation_text(error))
        given = given_arguments(signature, checked)
        head = (turn,) if signature.first else ()
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
