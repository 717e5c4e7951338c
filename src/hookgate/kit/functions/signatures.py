"""What a function takes, as its signature and its docstring say it.

Tools and operations are functions whose parameters are annotated with types that exist at run
time; ``Annotated[int, Field(ge=1)]`` says more than a type can, and the ``Args:`` section of the
docstring, in Google's style, describes each.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

__all__ = [
    "Docstring",
    "Signature",
    "SignatureError",
    "arguments_model",
    "given_arguments",
    "read_docstring",
    "read_signature",
    "schema_of",
]

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


class DocumentedSchema(GenerateJsonSchema):
    """A schema in which ``Attributes:`` of a dataclass describes its members."""

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of a dataclass."""
        made = super().dataclass_schema(schema)
        for name, text in read_docstring(schema["cls"].__doc__).args.items():
            if name in made.get("properties", {}):
                made["properties"][name].setdefault("description", text)
        return made


def schema_of(kind: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema of parameters or of a result, each member described."""
    schema: dict[str, Any] = TypeAdapter(kind).json_schema(schema_generator=DocumentedSchema)
    return schema
