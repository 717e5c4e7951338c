"""Documents of TOML and YAML, read into models: file, line and nearest key of all that is wrong.

A model derives from `DocumentModel` and is made of dataclasses, models and the types below; see
`hookgate.core.settings.documents.read`, which is the settings' own reader::

    class Recipe(DocumentModel):
        name: Name
        labels: Labels = ()

    reading = read_text_as(Recipe, text, "soup.yaml")
    for problem in reading.problems:
        print(problem)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, PlainValidator
from pydantic.alias_generators import to_camel, to_snake
from pydantic_core import PydanticCustomError, PydanticOmit, core_schema

from hookgate.core.domain.descriptors import ExamplesError, Flags, checked_examples
from hookgate.core.domain.errors import ContentError, ToolDefinitionError, counted
from hookgate.core.domain.strict_json import compile_schema
from hookgate.core.settings.documented import Documented
from hookgate.core.settings.documents import (
    DocumentReading,
    Position,
    SourceDocument,
    parse_toml,
    read,
)
from hookgate.kit.content.yaml_reader import read_yaml

__all__ = [
    "A_SCHEMA",
    "KEYWORD",
    "NAME",
    "ArgumentsSchema",
    "Description",
    "DisplayName",
    "DocumentModel",
    "DocumentReading",
    "Examples",
    "FlagValues",
    "Form",
    "Id",
    "Keyword",
    "Label",
    "Labels",
    "Made",
    "Name",
    "Position",
    "Secrets",
    "Snake",
    "SourceDocument",
    "ToolGlob",
    "ToolNames",
    "many",
    "matching",
    "once",
    "parse",
    "parse_toml",
    "prose",
    "read",
    "read_text_as",
    "several",
    "wrong_schema",
]

M = TypeVar("M", bound="BaseModel")

MANY = 64
"""The most entries of a list."""


class DocumentModel(Documented):
    """Base of the models of documents: each key is taken in snake_case and in camelCase."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        arbitrary_types_allowed=True,
    )


def parse(text: str, file: str, **limits: Any) -> SourceDocument:
    """Parse TOML, where the file's name ends in ``.toml``, or YAML; see `read_yaml`.

    Raises:
        ContentError: It is neither.
    """
    return parse_toml(text, file) if file.endswith(".toml") else read_yaml(text, file, **limits)


def read_text_as(
    model: type[M], text: str, file: str, *, lenient: bool = False, **limits: Any
) -> DocumentReading[M]:
    """Read a text into a model. It never raises.

    Args:
        model: The model.
        text: The text.
        file: The file that it comes from; TOML where its name ends in ``.toml``, else YAML.
        lenient: Whether unknown keys are passed over, with a warning.
        limits: What `read_yaml` takes.
    """
    try:
        document = parse(text, file, **limits)
    except ContentError as error:
        return DocumentReading(problems=(error.problem,))
    return read(model, document, lenient=lenient)


# -- fields ----------------------------------------------------------------


class Made:
    """Marks a field that whoever reads fills in, and that no document may name."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        """Refuse any value."""

        def refuse(value: object) -> object:
            raise PydanticCustomError("extra_forbidden", "made by the reader")

        return core_schema.no_info_before_validator_function(refuse, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        """Say nothing of it."""
        raise PydanticOmit


class Form:
    """What checks a value, and says in words what it takes, whatever stands there instead."""

    def __init__(self, expected: str, check: Callable[[Any], Any] | None = None) -> None:
        """Take the words, and a check that returns the value or raises `ValueError`."""
        self.expected = expected
        self._check = check

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        """Check what pydantic has made of the value."""
        schema: core_schema.CoreSchema = handler(source)
        if self._check is None:
            return schema
        return core_schema.no_info_after_validator_function(self._check, schema)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        """Keep the words where `hookgate.core.settings.words.type_words` finds them."""
        return {**handler(schema), "expected": self.expected}


def matching(pattern: str | re.Pattern[str], expected: str) -> Form:
    """Return what holds a text against a pattern, which is to match all of it."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(f"expected {expected}")
        return text

    return Form(expected, check)


def prose(most: int) -> AfterValidator:
    """Return what takes a text of 1 to `most` characters, its white space as single spaces."""

    def check(value: str) -> str:
        text = " ".join(value.split())
        if not text or len(text) > most:
            found = counted(len(text), "character") if text else "an empty text"
            raise ValueError(f"found {found}, expected 1 to {most} characters")
        if not text.isprintable():
            odd = next(char for char in text if not char.isprintable())
            found = f"the character {ascii(odd)[1:-1]}"
            raise ValueError(f"found {found}, expected text that can be printed")
        return text

    return AfterValidator(check)


def _many(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(values) > MANY:
        raise ValueError(f"found {len(values)} entries, expected at most {MANY}")
    return tuple(dict.fromkeys(values))


many = AfterValidator(_many)
"""Of a tuple: at most `MANY`, and each once."""


def _several(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else (value,)


several = BeforeValidator(_several)
"""Of a tuple: what stands there alone counts as a list of it."""


def _once(value: Any) -> Any:
    if isinstance(value, Mapping) and len({to_snake(str(key)) for key in value}) < len(value):
        raise ValueError("found a key in both its spellings, expected one of the two")
    return value


once = BeforeValidator(_once)
"""Of a mapping whose keys may be in camelCase: each of them once."""

Snake = BeforeValidator(lambda value: to_snake(value) if isinstance(value, str) else value)
"""Of one of several words: they may stand there in camelCase."""


def _flags(value: Any) -> Flags:
    if not isinstance(value, Mapping):
        raise ValueError("expected a mapping of flags, each true, false or null")
    return Flags.from_mapping(value)


FlagValues = Annotated[Flags, PlainValidator(_flags)]
"""The five flags of a tool, by name."""

A_SCHEMA = "a JSON Schema (2020-12) whose type is object"


def wrong_schema(schema: dict[str, Any]) -> str:
    """Return what is wrong with the JSON Schema of a tool's arguments; "" where nothing is."""
    try:
        compile_schema(schema)
    except (ToolDefinitionError, ValueError, TypeError, RecursionError) as error:
        why = str(error).removeprefix("tool '': ")
        return f"a schema that cannot be used: {why}"
    return ""


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    if wrong := wrong_schema(schema):
        raise ValueError(f"found {wrong}, expected {A_SCHEMA}")
    return schema


ArgumentsSchema = Annotated[dict[str, Any], AfterValidator(_schema)]
"""The JSON Schema of a tool's arguments."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

# Controls, line breaks, blanks other than a space, and what turns the direction of a text.
_ODD = (
    r"\x00-\x1f\x7f-\xa0\xad\u1680\u2000-\u200b\u200e\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff"
)
KEYWORD = re.compile(rf"(?=.{{0,59}}\w)[^ {_ODD}](?:[^{_ODD}]{{0,58}}[^ {_ODD}])?")

Name = Annotated[str, matching(NAME, "a name of letters, digits, `.`, `_` and `-`, at most 64")]
Id = Annotated[
    str,
    matching(
        r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}",
        "an id of letters, digits and `._:/@-`, at most 128",
    ),
]
Label = Annotated[
    str,
    matching(
        r"\w(?:[\w &+./-]{0,38}\w)?",
        "words of letters and digits on one line, at most 40 characters",
    ),
]
Secret = Annotated[
    str,
    matching(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", "the name of a secret, such as OPENAI_API_KEY"),
]
ToolName = Annotated[
    str,
    matching(
        r"(?:tool:)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", "the name of a tool, such as http_get"
    ),
    AfterValidator(lambda name: name.removeprefix("tool:")),
]
ToolGlob = Annotated[
    str,
    matching(
        r"(?:tool:)?[A-Za-z0-9_*?.-]{1,128}",
        "the name of a tool or a glob of names, such as http_*",
    ),
    AfterValidator(lambda name: name.removeprefix("tool:")),
]
Keyword = Annotated[str, matching(KEYWORD, "a word or a few on one line, at most 60 characters")]
ToolNames = Annotated[tuple[ToolName, ...], many]
Secrets = Annotated[tuple[Secret, ...], many]
DisplayName = Annotated[str, prose(80)]
Description = Annotated[str, prose(1024)]
"""As long as the agentskills format allows."""
Labels = Annotated[tuple[Label, ...], many]


def _examples(value: Any) -> tuple[str, ...]:
    try:
        return checked_examples(value)
    except ExamplesError as error:
        at = "" if error.number is None else f"[{error.number}] is "
        raise ValueError(f"{at}{error.found}, expected {error.expected}") from None


Examples = Annotated[tuple[str, ...], PlainValidator(_examples)]
"""Messages that ask for something, as people would write them."""
