"""What the product weighs and what a turn costs: counted, so that any machine finds the same.

Run: ``python -m benchmarks.weight [--write] [--grown | --functions CASE]`` (``make weigh``).
``benchmarks/weights.toml`` holds what each figure was; one that has risen by more than 3 % since
fails the run. ``--write`` records the figures as they are: a rise is a commit that says why.

``--grown`` counts what takes some minutes instead: turns among 32 and 1,500 people who speak with
the gateway, and turns in front of the ledger of a year. ``--functions CASE`` shows which
functions make the calls of a turn, and nothing else.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from rich.console import Console
from rich.table import Table

from benchmarks.report import Figure, report
from benchmarks.weight import imports, source, turns
from benchmarks.weight.quiet import CAN_TELL
from benchmarks.weight.turns import Counted

WEIGHTS = Path(__file__).parents[1] / "weights.toml"
MAY_RISE = 1.03
PLAIN = "8 characters"
"""The case whose calls are held package by package."""
Weight: TypeAlias = tuple[str, float, str, float]
"""A figure: its name, its value, its unit, and what may come and go beside the share."""
PYTHON = ".".join(platform.python_version_tuple()[:2])


def slack_of(name: str) -> float:
    """Return what may come and go beside the share: which jobs meet in a commit is chance."""
    return 15.0 if "calls" in name else 2.0 if name == "statements" else 1.0


def of_turns(found: dict[str, Counted]) -> Iterator[Weight]:
    """Yield what turns cost: name, value, unit and slack."""
    for case, one in found.items():
        rows = [
            ("calls", sum(one.calls.values())),
            ("calls behind the answer", one.behind),
            ("C calls", one.counts["C calls"]),
            *((name, one.counts[name]) for name in turns.COUNTS),
        ]
        if case == PLAIN:
            rows += ((f"calls of {room}", count) for room, count in sorted(one.calls.items()))
        for name, value in rows:
            yield f"turn, {case}: {name}", value, "a turn", slack_of(name)


def show_rooms(found: dict[str, Counted]) -> None:
    """Print the calls of each case by package."""
    table = Table(title="Python calls a turn, libraries charged to who calls them")
    table.add_column("package")
    for case in found:
        table.add_column(case, justify="right")
    rooms = sorted({room for one in found.values() for room in one.calls})
    for room in rooms:
        table.add_row(room, *(f"{one.calls[room]:,.0f}" for one in found.values()))
    table.add_section()
    table.add_row("all", *(f"{sum(one.calls.values()):,.0f}" for one in found.values()))
    Console(width=120).print(table)


def show_functions(case: str) -> None:
    """Print which functions make the calls of a turn.

    Raises:
        SystemExit: There is no such case.
    """
    known = (*turns.CASES, *turns.GROWN)
    cases = [each for each in known if each.name == case]
    if not cases:
        names = ", ".join(repr(each.name) for each in known)
        raise SystemExit(f"found {case!r}, expected one of {names}")
    (found,) = turns.weigh(cases).values()
    for (room, function), count in found.functions.most_common(100):
        print(f"{count:9.1f}  {room}: {function}")


def held(figures: list[Weight], recorded: dict[str, float | str]) -> Iterator[Figure]:
    """Yield the figures with the most that each may be."""
    for name, value, unit, slack in figures:
        was = recorded.get(name)
        # Each version of Python makes other calls of the same code.
        if name.startswith(("turn", "modules of")) and recorded.get("python") != PYTHON:
            was = None
        goal = None if was is None else float(was) * MAY_RISE + slack
        yield Figure(name=name, value=value, unit=unit, goal=goal)


def weighed(*, grown: bool) -> list[Weight]:
    """Return what is counted; what is `grown` by itself."""
    found: list[Weight] = []
    if not grown:
        for name, (value, unit) in source.figures().items():
            found.append((name, value, unit, 0.0))
        for name, count in imports.figures():
            found.append((f"modules of {name}", count, "modules loaded", 0.0))
    if CAN_TELL:
        counted = turns.weigh_grown() if grown else turns.weigh()
        show_rooms(counted)
        found += of_turns(counted)
    else:
        print("turns are not counted here: it needs Linux's /proc")
    return found


def record(found: list[Weight], *, grown: bool) -> None:
    """Write the figures down; those that were not counted this time stay."""
    recorded = read()
    cases = (*turns.GROWN, turns.YEAR)
    others = [f"turn, {case.name}: " for case in cases]
    kept = {
        name: value
        for name, value in recorded.items()
        if name != "python" and name.startswith(tuple(others)) != grown
    }
    figures = kept | {name: value for name, value, _, _ in found}
    rows = (f'"{name}" = {round(float(value), 2):g}\n' for name, value in figures.items())
    WEIGHTS.write_text(f'python = "{PYTHON}"\n' + "".join(rows), "utf-8")


def read() -> dict[str, float | str]:
    """Return what is recorded."""
    return tomllib.loads(WEIGHTS.read_text("utf-8")) if WEIGHTS.exists() else {}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.weight")
    parser.add_argument("--write", action="store_true", help="record the figures as they are")
    parser.add_argument("--grown", action="store_true", help="with many people, and after a year")
    parser.add_argument("--functions", metavar="CASE", help="who makes the calls of a turn")
    options = parser.parse_args()
    if options.functions:
        show_functions(options.functions)
        return 0
    weights = weighed(grown=options.grown)
    if options.write:
        record(weights, grown=options.grown)
    found = list(held(weights, read()))
    report("what the product weighs", found)
    risen = [one.name for one in found if one.met is False]
    if risen:
        print(
            f"risen by more than 3 %: {'; '.join(risen)}. Make it less, or record it "
            "(`make weigh WEIGH_ARGS=--write`) in a commit that says why.",
            file=sys.stderr,
        )
    return bool(risen)


if __name__ == "__main__":
    sys.exit(main())
