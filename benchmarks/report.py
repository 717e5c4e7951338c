"""How every benchmark reports: a table for people, then one JSON line a figure.

Figures are ratios inside one run wherever that is possible, since absolute times are
not stable from machine to machine.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure.

    Attributes:
        name: What was measured.
        value: The figure.
        unit: Its unit, for example ``us`` or ``ratio``.
        against: What it is compared with, in words; "" for nothing.
        goal: The most that it may be; None for a figure without a goal.
        at_least: Whether `goal` is the least that it may be instead.
    """

    name: str
    value: float
    unit: str
    against: str = ""
    goal: float | None = None
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None where there is none."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.at_least else self.value <= self.goal


def report(title: str, figures: Sequence[Figure]) -> None:
    """Print the table and the JSON lines."""
    console = Console(width=120)
    table = Table(title=f"{title} (Python {platform.python_version()}, {platform.machine()})")
    for heading, justify in (
        ("figure", "left"),
        ("value", "right"),
        ("unit", "left"),
        ("against", "left"),
        ("goal", "right"),
        ("met", "left"),
    ):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for figure in figures:
        sign = ">=" if figure.at_least else "<="
        goal = "" if figure.goal is None else f"{sign} {figure.goal:g}"
        met = {None: "", True: "yes", False: "NO"}[figure.met]
        table.add_row(figure.name, f"{figure.value:,.3f}", figure.unit, figure.against, goal, met)
    console.print(table)
    for figure in figures:
        print(
            json.dumps(
                {
                    "name": figure.name,
                    "value": round(figure.value, 6),
                    "unit": figure.unit,
                    "against": figure.against,
                    "goal": figure.goal,
                    "at_least": figure.at_least,
                    "met": figure.met,
                }
            )
        )


def interleaved(runs: Sequence[Callable[[], float]], *, rounds: int) -> list[float]:
    """Call each of `runs` in turn, `rounds` times, and return the median of each.

    Taking turns keeps a drift of the machine's speed out of the ratios.
    """
    results: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for number, run in enumerate(runs):
            results[number].append(run())
    return [statistics.median(values) for values in results]


def timed(work: Callable[[], object], *, number: int) -> float:
    """Return the CPU seconds that one of `number` calls of `work` takes."""
    start = time.process_time()
    for _ in range(number):
        work()
    return (time.process_time() - start) / number
