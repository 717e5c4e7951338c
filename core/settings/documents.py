"""Documents: files that people write, read into models, with the place of all that is wrong.

A document is a tree of JSON values in which it is known where each of them stands. `read` makes
a value of a model of it, or says all that is wrong at once: file, line, key, what was found, what
the key takes, and the known key nearest to one that is not known. TOML is parsed here; YAML is
parsed by `hookgate.kit.content.yaml_reader`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from hookgate.core.domain.errors import ContentError, Problem
from hookgate.core.settings.secret_store import looks_secret
from hookgate.core.settings.toml_lines import KeyPath, locate
from hookgate.core.settings.words import UNKNOWN, Fault, dotted, faults_of, shown

if TYPE_CHECKING:
    from pydantic import BaseModel

T = TypeVar("T")
M = TypeVar("M", bound="BaseModel")

MOST_PROBLEMS = 100
"""So many problems of one document are told; the others are counted."""

STEP_CHARS = 80
"""So much of a key is repeated in a message."""

_TOML_WORDS = (
    ("Expected '=' after a key", "a key without `=`", "`key = value`"),
    (
        "Invalid value",
        "no TOML value",
        'text in quotes, a number, true, false, ["array"] or {table}',
    ),
    ("Illegal character '\\n'", "text whose closing quote is missing", "a closing quote"),
    ("Unterminated string", "text whose closing quote is missing", "a closing quote"),
    ("Unescaped '\\'", "a single backslash", "`\\\\`, or text in 'single quotes'"),
    ("Expected newline", "something behind the value", "one `key = value` a line"),
    ("Invalid statement", "no key and no table", "`key = value` or `[table]`"),
    ("Cannot overwrite", "a key for the second time", "each key once"),
    ("Cannot declare", "a table for the second time", "each table once"),
    ("Cannot mutate", "a key for the second time", "each key once"),
    ("Duplicate inline", "a key for the second time", "each key once"),
    ("Unclosed array", "an array without its end", "`]`"),
    ("Unclosed inline table", "an inline table without its end", "`}`"),
)


_YAML_WORDS = (
    ("a table", "a mapping"),
    ("an empty table", "an empty mapping"),
    ("an array", "a list"),
    ("an empty array", "an empty list"),
    ("text in quotes", "text"),
    (", in quotes", ""),
)


class Position(NamedTuple):
    """Where something stands, both counted from 1; TOML has no columns here."""

    line: int
    column: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDocument:
    """What a file says, and where.

    Attributes:
        file: The file that it was read from.
        value: What it says: dicts, lists, strings, numbers, booleans, None.
        places: Where the value of each path stands; for what is in a mapping, where its key does.
        texts: Plain scalars of YAML as they were written, by path: ``1.10`` for the number 1.1.
        is_toml: Whether it is TOML, and otherwise YAML.
    """

    file: str
    value: Any
    places: Mapping[KeyPath, Position] = field(default_factory=dict)
    texts: Mapping[KeyPath, str] = field(default_factory=dict)
    is_toml: bool = False

    def position(self, path: KeyPath) -> Position:
        """Return where the value of `path` stands, or what is known around it."""
        while path not in self.places and path:
            path = path[:-1]
        return self.places.get(path, Position(1, None if self.is_toml else 1))

    def problem(self, path: KeyPath, found: str, expected: str, **more: Any) -> Problem:
        """Return a problem with the value of `path`, placed as near to it as is known."""
        line, column = self.position(path)
        key = dotted(tuple(one if isinstance(one, int) else one[:STEP_CHARS] for one in path))
        return Problem(
            file=self.file,
            line=line,
            column=column,
            key=key,
            found=found,
            expected=expected,
            **more,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentReading(Generic[T]):
    """What came of reading.

    Attributes:
        found: What was read; of a document with an error, nothing.
        problems: What is wrong, warnings included, in the order of lines.
        document: What was read from; None where it is no document, or are several.
        line: The line on which what was found begins.
    """

    found: tuple[T, ...] = ()
    problems: tuple[Problem, ...] = ()
    document: SourceDocument | None = None
    line: int = 1

    @property
    def one(self) -> T | None:
        """What was read, where it is one thing; None where something is wrong."""
        return self.found[0] if self.found else None

    @property
    def failed(self) -> bool:
        """Whether something is wrong that must not be passed over."""
        return any(problem.severity == "error" for problem in self.problems)

    def and_problems(self, more: Iterable[Problem]) -> DocumentReading[T]:
        """Return this with more problems; one that is an error costs what was found."""
        problems = tuple(sorted((*self.problems, *more), key=lambda one: one.line or 0))
        made = replace(self, problems=problems)
        return replace(made, found=()) if made.failed else made


def read(
    model: type[M], document: SourceDocument, at: KeyPath = (), *, lenient: bool = False
) -> DocumentReading[M]:
    """Read a document into a model, whose validators find the document as their context.

    A key whose value is null, where the model takes none, reads as if it were not there.

    Args:
        model: The model.
        document: The document.
        at: The part of it that is read.
        lenient: Whether unknown keys are passed over, with a warning.
    """
    from pydantic import ValidationError
    from pydantic_core import to_json

    value, warnings = document.value, list[Problem]()
    for step in at:
        value = value[step]
    if not isinstance(value, dict):
        needed = [f"`{key}`" for key, one in model.model_fields.items() if one.is_required()]
        expected = f"keys and values, with {', '.join(needed) or 'any of its keys'}"
        fault = Fault(path=(), kind="", value=value, found=shown((), value), expected=expected)
        return DocumentReading(problems=tuple(_told(document, at, [fault], "error")))
    while True:
        try:
            raw = to_json(value, inf_nan_mode="constants")
            found = model.model_validate_json(raw, strict=True, context=document)
        except ValidationError as error:
            faults = faults_of(error, model, value, hides=_is_a_secret)
        except ValueError as error:
            # What TOML can hold and JSON cannot.
            problem = document.problem(at, str(error)[:200], "values as JSON has them")
            return DocumentReading(problems=(problem,))
        else:
            made = DocumentReading(
                found=(found,), document=document, line=document.position(at).line
            )
            return made.and_problems(warnings)
        passed = [one for one in faults if lenient and one.kind in UNKNOWN]
        empty = [one for one in faults if _is_null_key(one)]
        if not passed and not empty:
            problems = [*warnings, *_told(document, at, faults, "error")]
            failed: DocumentReading[M] = DocumentReading(document=document)
            return failed.and_problems(problems)
        warnings += _told(document, at, passed, "warning")
        value = _without(value, [one.path for one in (*passed, *empty)])


def _is_null_key(fault: Fault) -> bool:
    last = fault.path[-1] if fault.path else None
    return fault.value is None and fault.kind not in UNKNOWN and isinstance(last, str)


def _is_a_secret(_: KeyPath, value: Any) -> bool:
    # A document names secrets, so that a key called `secret` hides nothing.
    return isinstance(value, str) and looks_secret("", value)


def _told(
    document: SourceDocument, at: KeyPath, faults: Sequence[Fault], severity: str
) -> Iterator[Problem]:
    for fault in faults[:MOST_PROBLEMS]:
        near, found, expected = fault.nearest, fault.found, fault.expected
        if near is not None:
            near = near[-1:] if near[:-1] == fault.path[:-1] else near
        if severity == "warning":
            found += ", which is passed over"
        if not document.is_toml:
            found = found if isinstance(fault.value, str) else _of_yaml(found)
            expected = _of_yaml(expected)
        yield document.problem(
            (*at, *fault.path),
            found,
            expected,
            nearest=None if near is None else dotted(near),
            severity=severity,
        )
    if len(faults) > MOST_PROBLEMS:
        left = faults[MOST_PROBLEMS:]
        found = f"{len(left)} more that are wrong"
        yield document.problem((*at, *left[0].path[:-1]), found, "all as above", severity=severity)


def _of_yaml(words: str) -> str:
    """Return words of TOML as one says them of YAML."""
    for toml, yaml in _YAML_WORDS:
        words = words.replace(toml, yaml)
    return words


def _without(value: dict[str, Any], paths: Iterable[KeyPath]) -> dict[str, Any]:
    """Return `value` without what stands at `paths`, which lead to keys of mappings."""
    made = deepcopy(value)
    for path in paths:
        inner: Any = made
        for step in path[:-1]:
            inner = inner[step]
        del inner[path[-1]]
    return made


# -- TOML ------------------------------------------------------------------


def parse_toml(text: str, file: str) -> SourceDocument:
    """Parse TOML.

    Args:
        text: The TOML text.
        file: The file that it comes from, for messages.

    Raises:
        ContentError: It is no TOML; says where, and shows no value: it may be a secret.
    """
    try:
        value = tomllib.loads(text)
        lines = locate(text)
    except tomllib.TOMLDecodeError as error:
        raise ContentError(_wrong_syntax(file, text, str(error))) from None
    except RecursionError:
        found, expected = "brackets nested too deep", "TOML with less of them"
        raise ContentError(Problem(file=file, found=found, expected=expected)) from None
    except ValueError as error:
        # A number of thousands of digits, for one.
        problem = Problem(file=file, found=f"no TOML value ({error})", expected="TOML")
        raise ContentError(problem) from None
    places = {path: Position(line) for path, line in lines.items()}
    return SourceDocument(file=file, value=value, places=places, is_toml=True)


def _wrong_syntax(file: str, text: str, message: str) -> Problem:
    lines = text.split("\n")
    at = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    line = int(at[1]) if at and at[1] else len(lines)
    told = message if at is None else message[: at.start()]
    column = f" at column {at[2]}" if at and at[2] else ""
    found, expected = f"{told[:1].lower()}{told[1:]}{column}", "valid TOML"
    if told.startswith("Expected "):
        found, expected = f"something else{column}", told.removeprefix("Expected ")
    for start, *words in _TOML_WORDS:
        if told.startswith(start):
            found, expected = words
            break
    # Of the line only its key is shown: the value, or a line that is none, may be a secret.
    key = re.match(r"""\s*([\w.\-"']+)\s*=""", lines[min(line, len(lines)) - 1])
    return Problem(file=file, line=line, key=key[1] if key else "", found=found, expected=expected)
