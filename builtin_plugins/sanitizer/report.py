"""What the sanitizer has against a text, or the texts of a file, told to an operator."""

from __future__ import annotations

import gzip
import json
import os
import sys
import tempfile
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hookgate import Card, HookgateError
from hookgate.builtin_plugins.sanitizer.detector import inspect, inspect_both, verdict
from hookgate.builtin_plugins.sanitizer.sanitizer import (
    NestedError,
    SanitizerSettings,
    clean,
    digest_of,
)
from hookgate.kit.content.frontmatter import body_of
from hookgate.kit.content.problems import Problem

if TYPE_CHECKING:
    from rich.console import Console

STANDARD = Path("-")
"""Standard input."""

SHOWN = 160
"""Characters of a passage that are shown."""


class ExplainError(HookgateError):
    """The file cannot be read as text."""


def explained(
    file: Path, settings: SanitizerSettings, *, card: str = "", threshold: float | None = None
) -> dict[str, Any]:
    """Return what is found in the text of a file.

    Args:
        file: The file; ``-`` is standard input.
        settings: ``[plugin.sanitizer]``.
        card: The id that the text has as a card.
        threshold: Another one than that of the settings.

    Returns:
        ``verdict`` (clean, warn, reject, as a stranger's text), ``allowed``, ``sha256`` of the
        text below its frontmatter, which is what a model reads of a card or a skill, and
        ``findings``: ``rule``, ``severity``, ``start``, ``end``, ``note``, ``line``, ``passage``.

    Raises:
        ExplainError: It is not there, or no UTF-8.
    """
    try:
        octets = sys.stdin.buffer.read() if file == STANDARD else file.read_bytes()
        text = octets.decode()
    except OSError as error:
        raise ExplainError(
            f"{file}: cannot read it ({error.strerror}), expected a file of text, or - for "
            "standard input"
        ) from None
    except UnicodeDecodeError as error:
        raise ExplainError(
            f"{file}: found a byte that is not UTF-8 at {error.start:,} ({error.reason}), expected "
            "text; convert it, or leave the file out"
        ) from None
    digest = digest_of(body_of(text))
    known = {"sha256": digest, "allowed": digest in settings.allow}
    try:
        cleaned = clean(text)
    except NestedError as error:
        return {"verdict": "reject", **known, "findings": [], "why": str(error)}
    least = settings.threshold_of(card) if threshold is None else threshold
    found = inspect_both(text, cleaned, least)
    findings = [
        {
            **asdict(one),
            "line": text.count("\n", 0, one.start) + 1,
            "passage": text[one.start : min(one.end, one.start + SHOWN)],
        }
        for one in found
    ]
    judged = verdict(found, trusted=False)
    return {"verdict": judged, **known, "findings": findings}


def rendered(console: Console, file: Path, told: dict[str, Any]) -> None:
    """Print what `explained` has returned."""
    from hookgate.kit.rendering import clean as printable

    for one in told["findings"]:
        head = f"{file}:{one['line']}: {one['severity']}: {one['rule']}: {one['note']}"
        console.print(printable(head), markup=False, soft_wrap=True)
        console.print(f"    {printable(' '.join(one['passage'].split()))}", markup=False)
    said = {"clean": "passes", "warn": "passes", "reject": "is rejected as a stranger's text"}
    why = f": {told['why']}" if "why" in told else ""
    if told["verdict"] == "reject" and told["allowed"]:
        console.print(f"{file} passes: its SHA-256 is in `allow`", markup=False, soft_wrap=True)
        return
    console.print(f"{file} {said[told['verdict']]}{why}", markup=False, soft_wrap=True)
    if told["verdict"] == "reject":
        allow = f'allow = ["{told["sha256"]}"]'
        console.print("to let this very text through, after you have read it:", markup=False)
        console.print(f"    [plugin.sanitizer]\n    {allow}", markup=False, soft_wrap=True)


def objections(card: Card, first: int = 1) -> tuple[Problem, ...]:
    """Return what the sanitizer has against a card, with the lines of the card's file.

    A problem is an error where it rejects the card, and a warning where it does not; what it
    thinks nothing of is left out.

    Args:
        card: The card; its `source_ref` names the file.
        first: The line of the file on which the card's text begins.
    """
    problems: list[Problem] = []
    for start, told in _against(f"{card.name}\n{card.description}", card):
        key = "name" if start < len(card.name) else "description"
        problems.append(replace(told, key=key))
    for start, told in _against(card.text, card):
        problems.append(replace(told, line=first + card.text.count("\n", 0, start)))
    return tuple(_one_a_line(problems))


def _one_a_line(problems: Iterable[Problem]) -> list[Problem]:
    """Return of the problems of one line the gravest: rules overlap, and one has to be mended."""
    found: dict[tuple[str, int | None, str], Problem] = {}
    for problem in problems:
        place = (problem.file, problem.line, problem.key)
        known = found.setdefault(place, problem)
        if known.severity == "warning" and problem.severity == "error":
            found[place] = problem
    return list(found.values())


def _against(text: str, card: Card) -> Iterator[tuple[int, Problem]]:
    """Yield the places in `text`, and what is wrong there."""
    expected = "text that tells of something, and neither gives orders nor poses as a speaker"
    told = Problem(file=card.source_ref, found="", expected=expected)
    try:
        clean(text)
    except NestedError as error:
        yield 0, replace(told, found=str(error))
        return
    for finding in inspect(text):
        became = verdict([finding], card.trusted)
        if became != "clean":
            found = f"{finding.note} ({finding.rule}, {finding.severity})"
            severity: Literal["error", "warning"] = "error" if became == "reject" else "warning"
            yield finding.start, replace(told, found=found, severity=severity)


# -- Scanning a file of texts with the detector, one line of JSON a text ---------

# A line of the file is an object with ``id`` and ``text``, and what else one likes; ``label``,
# ``kind`` and ``subset`` are counted by. What comes out has one line a text, in the same order.

_GZIP = b"\x1f\x8b"


class ScanError(HookgateError):
    """The file of texts cannot be read, or a line of it is no text with an id."""


@dataclass(slots=True)
class CountedTexts:
    """How many texts there are of one sort, and how many of them are flagged."""

    items: int = 0
    flagged: int = 0


@dataclass(slots=True)
class Summary:
    """What a scan came to.

    Attributes:
        items: How many texts were scanned.
        flagged: How many of them would be rejected as a stranger's card.
        by: The same for each label, kind and subset that lines name, as ``label=benign``.
        milliseconds: Of processor time a text: ``mean``, ``p99`` and ``max``.
    """

    items: int = 0
    flagged: int = 0
    by: dict[str, CountedTexts] = field(default_factory=dict)
    milliseconds: dict[str, float] = field(default_factory=dict)


def scan_file(items: Path, out: Path) -> Summary:
    """Scan the texts of `items`, plain or gzip, and write what was found to `out`.

    `out` appears when all of it is written, and not at all where an error is raised.

    Raises:
        ScanError: `items` cannot be read, `out` cannot be written, or a line is wrong.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.parent)
    except OSError as error:
        raise ScanError(
            f"{out}: cannot write a file there ({error.strerror}), expected a folder that exists "
            "and may be written to"
        ) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as lines:
            summary = _scan(items, lines.write)
        Path(name).replace(out)
    except BaseException as error:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        if isinstance(error, OSError):
            raise ScanError(f"{out}: cannot write it ({error.strerror})") from None
        raise
    return summary


def _scan(items: Path, write: Any) -> Summary:
    summary, taken = Summary(), []
    counts: dict[str, CountedTexts] = defaultdict(CountedTexts)
    seen: set[str] = set()
    for number, item in _items(items):
        place = f"{items}:{number}"
        name, text = _text_of(item, place)
        if name in seen:
            raise ScanError(f"{place}: found the id {name!r} again, expected one line for each id")
        seen.add(name)
        begun = time.thread_time()
        found = inspect(text)
        taken.append(1000 * (time.thread_time() - begun))
        judged = verdict(found, trusted=False)
        flagged = judged == "reject"
        row = {
            "id": name,
            "flagged": flagged,
            "verdict": judged,
            "findings": [asdict(finding) for finding in found],
            "milliseconds": round(taken[-1], 3),
        }
        write(json.dumps(row, ensure_ascii=False) + "\n")
        summary.items += 1
        summary.flagged += flagged
        for key in ("label", "kind", "subset"):
            if isinstance(item.get(key), str):
                counted = counts[f"{key}={item[key]}"]
                counted.items += 1
                counted.flagged += flagged
    summary.by = dict(sorted(counts.items()))
    if taken:
        taken.sort()
        summary.milliseconds = {
            "mean": round(sum(taken) / len(taken), 2),
            "p99": round(taken[min(len(taken) - 1, int(0.99 * len(taken)))], 2),
            "max": round(taken[-1], 2),
        }
    return summary


def _text_of(item: dict[str, Any], place: str) -> tuple[str, str]:
    for key in ("id", "text"):
        if key not in item:
            raise ScanError(f"{place}: found no `{key}`, expected an object with `id` and `text`")
        if not isinstance(item[key], str):
            kind = type(item[key]).__name__
            raise ScanError(f"{place}: found `{key}` of the type {kind}, expected a string")
    return item["id"], item["text"]


def _items(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file with the numbers of their lines; empty lines are skipped."""
    number = 0
    try:
        with path.open("rb") as begin:
            packed = begin.read(2) == _GZIP
        with gzip.open(path, "rb") if packed else path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, _object(line, f"{path}:{number}")
    except FileNotFoundError:
        raise ScanError(f"{path}: found no such file, expected lines of JSON") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ScanError(f"{path}: broken gzip after line {number} ({error})") from None
    except OSError as error:
        raise ScanError(f"{path}: cannot read it ({error.strerror})") from None


def _object(line: bytes, place: str) -> dict[str, Any]:
    try:
        item = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ScanError(f"{place}: found a byte that is not UTF-8 ({error.reason})") from None
    except (json.JSONDecodeError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deep"
        raise ScanError(f"{place}: not JSON ({why}), expected one object a line") from None
    if not isinstance(item, dict):
        kind = type(item).__name__
        raise ScanError(f"{place}: found a {kind}, expected an object with `id` and `text`")
    return item
