"""What the sanitizer has against a text, told to an operator, or to who writes a card."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hookgate import Card, HookgateError
from hookgate.builtin_plugins.sanitizer.detector import inspect, inspect_both, verdict
from hookgate.builtin_plugins.sanitizer.sanitizer import NestedError, clean, digest_of
from hookgate.kit.content.frontmatter import body_of
from hookgate.kit.content.problems import Problem

if TYPE_CHECKING:
    from rich.console import Console

    from hookgate.builtin_plugins.sanitizer.settings import SanitizerSettings

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
