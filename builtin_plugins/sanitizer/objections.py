"""What the sanitizer has against a card, place by place: for the one who writes it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from hookgate.builtin_plugins.sanitizer.detector import inspect, verdict
from hookgate.builtin_plugins.sanitizer.sanitizer import NestedError, clean
from hookgate.kit.content.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hookgate.core.domain.descriptors import Card

__all__ = ["objections"]


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
