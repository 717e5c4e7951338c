"""The keys of a mapping in a document, checked one by one; all that is wrong is kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

from hookgate.core.domain.descriptors import ExamplesError, Flags, checked_examples
from hookgate.core.domain.errors import counted
from hookgate.kit.content.problems import SHOWN_CHARS, Problem, shortened

if TYPE_CHECKING:
    from hookgate.kit.content.yaml_reader import KeyPath, SourceDocument

__all__ = [
    "DESCRIPTION_CHARS",
    "DISPLAY_CHARS",
    "ID",
    "KEYWORD",
    "LABEL",
    "NAME",
    "SECRET",
    "TOOL",
    "TOOL_GLOB",
    "Fields",
    "camel",
]

T = TypeVar("T")

DESCRIPTION_CHARS = 1024
"""The longest description; the same as the agentskills format allows."""

DISPLAY_CHARS = 80
"""The longest display name."""

MANY = 64
"""The most entries of a list."""

UNKNOWN = 20
"""The most unknown keys of one mapping that are named, each with the known one nearest to it."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}")
LABEL = re.compile(r"\w(?:[\w &+./-]{0,38}\w)?")
SECRET = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
TOOL = re.compile(r"(?:tool:)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
TOOL_GLOB = re.compile(r"(?:tool:)?[A-Za-z0-9_*?.-]{1,128}")

# Controls, line breaks, blanks other than a space, and what turns the direction of a text.
_ODD = (
    r"\x00-\x1f\x7f-\xa0\xad\u1680\u2000-\u200b\u200e\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff"
)
KEYWORD = re.compile(rf"(?=.{{0,59}}\w)[^ {_ODD}](?:[^{_ODD}]{{0,58}}[^ {_ODD}])?")

_NAMED = {
    NAME: "a name of letters, digits, `.`, `_` and `-`, at most 64",
    ID: "an id of letters, digits and `._:/@-`, at most 128",
    LABEL: "words of letters and digits on one line, at most 40 characters",
    SECRET: "the name of a secret, such as OPENAI_API_KEY",
    TOOL: "the name of a tool, such as http_get",
    TOOL_GLOB: "the name of a tool or a glob of names, such as http_*",
    KEYWORD: "a word or a few on one line, at most 60 characters",
}


def camel(name: str) -> str:
    """Return a snake_case name in camelCase."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


class Fields:
    """One mapping of a document.

    A value that is wrong is a problem, and reads as if it were not there.

    Attributes:
        problems: What is wrong, in the order in which it was asked for.
    """

    def __init__(self, document: SourceDocument, path: KeyPath = ()) -> None:
        """Look at the mapping that stands at `path`; the document has one there."""
        self.problems: list[Problem] = []
        self._document = document
        self._path = path
        values: Any = document.value
        for step in path:
            values = values[step]
        self._values: Mapping[str, Any] = values
        self._spelt = {key: key for key in values}

    def __contains__(self, key: object) -> bool:
        return key in self._spelt and self._values[self._spelt[str(key)]] is not None

    @property
    def failed(self) -> bool:
        """Whether there is a problem that is no mere warning."""
        return any(problem.severity == "error" for problem in self.problems)

    def problem(self, key: str, found: str, expected: str, **more: Any) -> None:
        """Note a problem with `key`."""
        path = (*self._path, self._spelt.get(key, key)) if key else self._path
        self.problems.append(self._document.problem(path, found, expected, **more))

    def line(self, key: str) -> int | None:
        """Return the line on which `key` stands."""
        place = self._document.places.get((*self._path, self._spelt.get(key, key)))
        return place.line if place else None

    # -- names -------------------------------------------------------------

    def only(self, known: Sequence[str], *, strict: bool = False) -> None:
        """Read camelCase as snake_case; name keys that are not among `known`.

        Args:
            known: The keys, in snake_case.
            strict: Whether another key is an error, and no mere warning.
        """
        spellings = {camel(name): name for name in known} | {name: name for name in known}
        self._spelt = {}
        unknown: list[str] = []
        for key in self._values:
            name = spellings.get(key)
            if name is None:
                unknown.append(key)
            elif name in self._spelt:
                other = self._spelt.pop(name)
                self._spelt[name] = key
                self.problem(name, f"the key beside {other}", "one of the two spellings")
            else:
                self._spelt[name] = key
        found = "an unknown key" if strict else "an unknown key, which is passed over"
        kind = "error" if strict else "warning"
        for key in unknown[:UNKNOWN]:
            near = next(iter(get_close_matches(key, spellings, n=1)), None)
            expected = "a known key" if near else f"one of {', '.join(known)}"
            self.problem(key, found, expected, nearest=near, severity=kind)
        if len(unknown) > UNKNOWN:
            more, expected = len(unknown) - UNKNOWN, f"one of {', '.join(known)}"
            self.problem(unknown[UNKNOWN], f"{more} more unknown keys", expected, severity=kind)

    def inner(self, key: str) -> Fields | None:
        """Return the mapping within this one, whose problems are kept here too; None for none."""
        if self._typed(key, dict, "a mapping of keys and values") is None:
            return None
        fields = Fields(self._document, (*self._path, self._spelt.get(key, key)))
        fields.problems = self.problems
        return fields

    # -- values ------------------------------------------------------------

    def value(self, key: str) -> Any:
        """Return what stands at `key`; None where nothing does."""
        return self._values.get(self._spelt.get(key, key))

    def required(self, key: str) -> None:
        """Note that `key` is missing, where it is."""
        if key not in self:
            self.problem(key, "nothing", f"the required key {key!r}")

    def text(self, key: str, pattern: re.Pattern[str]) -> str:
        """Return a string that matches `pattern`, or ""."""
        value = self._typed(key, str, "a string")
        if value is None:
            return ""
        if not pattern.fullmatch(value):
            self.problem(key, shortened(value), _NAMED.get(pattern, pattern.pattern))
            return ""
        return str(value)

    def prose(self, key: str, limit: int) -> str:
        """Return a text of at most `limit` characters with its white space as single spaces."""
        value = self._typed(key, str, "a text")
        if value is None:
            return ""
        text = " ".join(value.split())
        if not text or len(text) > limit:
            found = counted(len(text), "character") if text else "an empty text"
            self.problem(key, found, f"1 to {limit} characters")
            return ""
        if not text.isprintable():
            odd = next(char for char in text if not char.isprintable())
            self.problem(key, f"the character {ascii(odd)[1:-1]}", "text that can be printed")
            return ""
        return text

    def texts(self, key: str, pattern: re.Pattern[str]) -> tuple[str, ...]:
        """Return strings that match `pattern`, each once."""
        values = self._typed(key, list, "a list of strings")
        if values is None:
            return ()
        if len(values) > MANY:
            self.problem(key, f"{len(values)} entries", f"at most {MANY}")
            return ()
        for number, value in enumerate(values):
            if not (isinstance(value, str) and pattern.fullmatch(value)):
                expected = _NAMED.get(pattern, pattern.pattern)
                path = (*self._path, self._spelt.get(key, key), number)
                problem = self._document.problem(path, shortened(value), expected)
                self.problems.append(problem)
                return ()
        return tuple(dict.fromkeys(values))

    def examples(self, key: str) -> tuple[str, ...]:
        """Return example messages; see `checked_examples`."""
        values = self._typed(key, list, "a list of messages")
        try:
            return () if values is None else checked_examples(values)
        except ExamplesError as error:
            path = (*self._path, self._spelt.get(key, key))
            path = path if error.number is None else (*path, error.number)
            self.problems.append(self._document.problem(path, error.found, error.expected))
            return ()

    def choice(self, key: str, known: Sequence[str]) -> str:
        """Return one of the words in `known`, or ""."""
        if key not in self:
            return ""
        value = self.value(key)
        if not isinstance(value, str) or value not in known:
            self.problem(key, shortened(value), f"one of {', '.join(known)}")
            return ""
        return value

    def choices(self, key: str, known: Sequence[str], *, empty: bool = False) -> tuple[str, ...]:
        """Return strings that are among `known`, each once.

        Args:
            key: The key.
            known: The strings; those in snake_case may stand there in camelCase.
            empty: Whether the list may be empty.
        """
        values = self._typed(key, list, "a list of strings")
        if values is None:
            return ()
        spellings = {camel(name): name for name in known} | {name: name for name in known}
        expected = f"one or more of {', '.join(known)}"
        if not values and not empty:
            self.problem(key, "an empty list", expected)
        names = []
        for number, value in enumerate(values):
            name = spellings.get(value) if isinstance(value, str) else None
            if name is None:
                path = (*self._path, self._spelt.get(key, key), number)
                near = next(iter(get_close_matches(str(value)[:SHOWN_CHARS], spellings, n=1)), None)
                problem = self._document.problem(path, shortened(value), expected, nearest=near)
                self.problems.append(problem)
                return ()
            names.append(name)
        return tuple(dict.fromkeys(names))

    def integer(self, key: str, low: int, high: int) -> int | None:
        """Return a whole number from `low` to `high`; None where none stands there."""
        value = self.value(key)
        if value is None:
            return None
        if type(value) is not int or not low <= value <= high:  # True is no number here
            self.problem(key, shortened(value), f"a whole number from {low} to {high}")
            return None
        return value

    def number(self, key: str, low: float, high: float) -> float | None:
        """Return a number from `low` to `high`; None where none stands there."""
        value = self.value(key)
        if value is None:
            return None
        if type(value) not in (int, float) or not low <= value <= high:
            self.problem(key, shortened(value), f"a number from {low:g} to {high:g}")
            return None
        return float(value)

    def truth(self, key: str) -> bool | None:
        """Return true or false; None where neither stands there."""
        value: bool | None = self._typed(key, bool, "true or false")
        return value

    def flags(self, key: str) -> Flags:
        """Return the five flags of a mapping; undeclared where there is none."""
        values = self._typed(key, dict, "a mapping of flags")
        if values is None:
            return Flags()
        return self._tried(key, lambda: Flags.from_mapping(values), Flags())

    def _tried(self, key: str, work: Callable[[], T], otherwise: T) -> T:
        try:
            return work()
        except ValueError as error:
            self.problem(key, str(error), "the flags of a tool, each true, false or null")
            return otherwise

    def _typed(self, key: str, kind: type, expected: str) -> Any:
        value = self.value(key)
        if value is None:
            return None
        if not isinstance(value, kind):
            self.problem(key, shortened(value), expected)
            return None
        return value
