"""Rule files: YAML, checked against what rules may say. A problem names file, line and rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field

from hookgate.builtin_plugins.policy.rules.model import Rule, checked
from hookgate.kit.content.documents import DocumentModel, DocumentReading, read_text_as
from hookgate.kit.content.files import MANIFEST_BYTES, read_text
from hookgate.kit.content.problems import ContentError, Problem

T = TypeVar("T")

SUFFIXES = (".yaml", ".yml")
TEST_SUFFIX = ".test.yaml"
"""Cases stand beside the rules that they test, in files of this ending."""

MAX_RULES = 2000


class RuleFile(DocumentModel):
    """What a file of rules says."""

    version: Literal[1] = 1
    description: Any = None
    rules: tuple[Annotated[Rule, AfterValidator(checked)], ...] = Field(max_length=MAX_RULES)


def files_of(paths: Iterable[Path], *, tests: bool = False) -> list[Path]:
    """Return the files of rules, or of their cases, that `paths` name.

    It blocks. Of a folder, what lies in it itself counts. A path that is not there is returned
    as it is, so that reading it says so.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(one for one in path.iterdir() if one.suffix in SUFFIXES)
            found += [one for one in inside if one.name.endswith(TEST_SUFFIX) is tests]
        elif path.name.endswith(TEST_SUFFIX) is tests:
            found.append(path)
    return list(dict.fromkeys(found))


def read_files(
    paths: Iterable[Path], read: Callable[[str, str], DocumentReading[T]]
) -> DocumentReading[T]:
    """Read files, each by `read`, which takes its text and its name. It blocks, never raises."""
    found: list[T] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            text, _ = read_text(path.resolve(), max_bytes=MANIFEST_BYTES)
        except ContentError as error:
            problems.append(replace(error.problem, file=str(path)))
            continue
        reading = read(text, str(path))
        found += reading.found
        problems += reading.problems
    return DocumentReading(found=tuple(found), problems=tuple(problems))


def read_rules(paths: Iterable[Path]) -> DocumentReading[Rule]:
    """Read the rules of files and folders. It blocks, and never raises.

    Two rules of one name are an error: a verdict that names a rule must name one.
    """
    paths = tuple(paths)
    reading = named_once(read_files(files_of(paths), read_text_of_rules))
    return replace(reading, problems=(*reading.problems, *_unread(paths)))


def _unread(paths: Sequence[Path]) -> Iterator[Problem]:
    """Yield a warning, without a line, for each folder without rules, or with some beside them."""
    expected = "files NAME.yaml or NAME.yml in the folder itself, or its path in `rules` as well"
    for folder in filter(Path.is_dir, paths):
        # Hidden ones are how Kubernetes mounts a folder, and what editors leave.
        inside = sorted(one for one in folder.iterdir() if not one.name.startswith("."))
        found = {
            one: "rules that are not read" for one in inside if one not in paths and _is_unread(one)
        }
        if not found and not files_of([folder]):
            found = {folder: "a folder without rules"}
        for path, what in found.items():
            yield Problem(file=str(path), found=what, expected=expected, severity="warning")


def _is_unread(path: Path) -> bool:
    if not path.is_dir():
        return path.suffix not in SUFFIXES and path.suffix.lower() in SUFFIXES
    return any(read_files(path.glob("*.y*ml"), _has_rules).found)


def _has_rules(text: str, file: str) -> DocumentReading[bool]:
    return DocumentReading(found=(re.search(r"^rules:", text, re.MULTILINE) is not None,))


def named_once(reading: DocumentReading[Rule]) -> DocumentReading[Rule]:
    """Return what was read, with a problem for each rule whose name another one has."""
    first: dict[str, Rule] = {}
    pairs = [(rule, first.setdefault(rule.name, rule)) for rule in reading.found]
    doubles = [
        Problem(
            file=rule.file,
            line=rule.line,
            found=f"a second rule called {rule.name!r}",
            expected=f"another name; {other.place} has this one",
        )
        for rule, other in pairs
        if rule is not other
    ]
    return replace(reading, problems=(*reading.problems, *doubles))


def read_text_of_rules(text: str, file: str) -> DocumentReading[Rule]:
    """Read the rules in `text`. It never raises."""
    reading = read_text_as(RuleFile, text, file)
    problems = tuple(told_of(reading, "rule", reading.problems))
    if reading.document is None or not reading.found:
        return DocumentReading(problems=problems)
    empty = [
        reading.document.problem(place, "nothing", "a value, or no such key: without it all fit")
        for number, rule in enumerate(reading.document.value["rules"])
        for place in _left_empty(rule, "rules", number)
    ]
    if empty:
        return DocumentReading(problems=(*problems, *told_of(reading, "rule", empty)))
    rules, silent = [], []
    for number, rule in enumerate(reading.found[0].rules):
        place = ("rules", number)
        line = reading.document.position(place).line
        rules.append(replace(rule, file=file, line=line))
        if rule.tightens and not rule.reason:
            expected = "a sentence that the model, or whoever is asked, can do something with"
            silent.append(
                reading.document.problem(
                    (*place, "reason"), "nothing", expected, severity="warning"
                )
            )
    problems += tuple(told_of(reading, "rule", silent))
    return DocumentReading(found=tuple(rules), problems=problems)


def _left_empty(value: Any, *place: str | int) -> Iterator[tuple[str | int, ...]]:
    """Yield where a key has no value, or an empty list.

    Read as if the key were not there, a rule that allows something to nobody would allow it to all.
    """
    if value is None or value == []:
        yield place
    inner = value.items() if isinstance(value, dict) else ()
    for key, one in enumerate(value) if isinstance(value, list) else inner:
        yield from _left_empty(one, *place, key)


def told_of(
    reading: DocumentReading[Any], kind: str, problems: Iterable[Problem]
) -> Iterator[Problem]:
    """Yield problems that say of which entry of ``rules`` or ``cases`` they are, by its name."""
    for problem in problems:
        at = re.match(rf"{kind}s\[(\d+)\]", problem.key)
        if at is None or reading.document is None:
            yield problem
            continue
        entry = reading.document.value[f"{kind}s"][int(at[1])]
        name = entry.get("name") if isinstance(entry, dict) else None
        called = repr(name)[:80] if isinstance(name, str) else int(at[1]) + 1
        yield replace(problem, found=f"in {kind} {called}: {problem.found}")
