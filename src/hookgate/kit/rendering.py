"""Results on a terminal: tables, figures, and texts that cannot move the cursor."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson
from rich import box
from rich.table import Table
from rich.text import Text

from hookgate.kit.content.problems import Problem

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "cell",
    "checked",
    "clean",
    "fields",
    "listing",
    "message",
    "one_line",
    "plain_table",
    "print_json",
    "print_result",
    "print_shown",
    "problem_line",
    "short",
    "table",
    "verdict",
]

MAX_WHOLE = 40
"""Characters of a table's first column that are not wrapped."""

# Of what models, tools and peers write, only line breaks and tabs may reach the terminal: no
# control characters, nothing that turns the direction of writing, nothing that takes no room, no
# half characters, which no terminal can be sent.
_HIDDEN = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    r"\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
_CONTROL = re.compile(f"[{_HIDDEN}]")
# Where a line is all that there is to go by, nor what joins characters without being seen.
_NOT_A_LINE = re.compile(f"[{_HIDDEN}\\t\\n\u200c\u200d]")


# Times are stored to the microsecond; people read seconds.
_TIME = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(?:\+00:00|Z)$")


def clean(text: str) -> str:
    """Return `text` with control characters written out, so that it only shows itself."""
    return _CONTROL.sub(lambda match: ascii(match.group())[1:-1], text)


def one_line(text: str) -> str:
    """Return what a stranger wrote as one line in which every character shows.

    A line break, like all else that could make it look like several, or like what it is not, is
    written out: so no text stands for a line that somebody else has printed.
    """
    return _NOT_A_LINE.sub(lambda match: ascii(match.group())[1:-1], text)


def short(value: Any, limit: int = 100) -> str:
    """Return `value` on one line of at most `limit` characters."""
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    text = one_line(" ".join(text.split()))
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def cell(value: Any) -> Text:
    """Return one value as it stands in a table."""
    match value:
        case Text():
            return value
        case None | "":
            return Text("-", style="dim")
        case True:
            return Text("yes", style="green")
        case False:
            return Text("no", style="dim")
        case str():
            return Text(one_line(_TIME.sub(r"\1 \2", value)))
        case int():
            return Text(f"{value:,}")
        case float():
            return Text(f"{value:,.3f}".rstrip("0").rstrip("."))
        case list() | tuple() if all(isinstance(item, str) for item in value):
            return Text(one_line(", ".join(value))) if value else Text("-", style="dim")
        case _:
            return Text(short(value, 400))


def table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None, title: str = ""
) -> Table:
    """Return a table of `rows`; a column for each key, in the order in which they come."""
    if columns is None:
        columns = list(dict.fromkeys(key for row in rows for key in row))
    made = Table(
        box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False,
        header_style="bold", title_style="bold",
    )  # fmt: skip
    for number, name in enumerate(columns):
        figures = all(_is_figure(row.get(name)) for row in rows)
        # What a row is about stays in one piece, where that leaves room for the rest.
        whole = number == 0 and all(len(cell(row.get(name))) <= MAX_WHOLE for row in rows)
        made.add_column(
            _label(name),
            justify="right" if figures and rows else "left",
            overflow="fold",
            no_wrap=whole,
        )
    for row in rows:
        made.add_row(*(cell(row.get(name)) for name in columns))
    return made


def _label(name: str) -> Text:
    return Text(one_line(name.replace("_", " ")))


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def plain_table(*titles: str, right: Collection[str] = ()) -> Table:
    """Return an empty table; columns of `right` are figures and stay in one piece."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in titles:
        if title in right:
            made.add_column(title, justify="right", no_wrap=True)
        else:
            made.add_column(title, overflow="fold")
    return made


def fields(data: Mapping[str, Any]) -> Table:
    """Return a grid of names and values."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in data.items():
        grid.add_row(_label(name), cell(value))
    return grid


def print_result(console: Console, data: Any) -> None:
    """Print any operation's result: its values, then a table for each array of objects."""
    if not isinstance(data, Mapping):
        console.print(cell(data))
        return
    arrays = {name: value for name, value in data.items() if _is_array_of_objects(value)}
    plain = {name: value for name, value in data.items() if name not in arrays}
    if plain:
        console.print(fields(plain))
    for name, rows in arrays.items():
        _print_rows(console, rows, name.replace("_", " ") if len(data) > 1 else "")
    if not data:
        console.print("done", style="green")


def listing(
    member: str, empty: str, *columns: str, more: str = "after"
) -> Callable[[Mapping[str, Any]], Iterator[Any]]:
    """Return a view of a list: a table of some columns, or how it comes to hold something.

    Args:
        member: The member of the result that holds the rows.
        empty: What is said where there are none.
        columns: What is shown of each row, in this order; JSON has all of it.
        more: The option that goes on behind a page, where the result has a `next`.
    """

    def shown(found: Mapping[str, Any]) -> Iterator[Any]:
        rows = found[member]
        if not rows:
            yield empty
            return
        yield table(rows, columns)
        if found.get("next"):
            yield Text(f"and more: --{more} '{one_line(str(found['next']))}'", style="dim")

    return shown


def print_shown(console: Console, shown: Any) -> None:
    """Print what a view shows: texts as they are, whatever `rich` prints, or several of them.

    A function is called with the console.
    """
    if callable(shown):
        shown(console)
    elif isinstance(shown, str):
        console.print(clean(shown), markup=False, emoji=False, soft_wrap=True)
    elif isinstance(shown, Text):
        console.print(shown, soft_wrap=True)
    elif isinstance(shown, Iterable) and not hasattr(shown, "__rich_console__"):
        for one in shown:
            print_shown(console, one)
    else:
        console.print(shown)


def _print_rows(console: Console, rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print a table, or one block for each row where a table would not fit."""
    names = dict.fromkeys(key for row in rows for key in row)
    columns = [
        name for name in names if any(row.get(name) not in (None, "", [], {}) for row in rows)
    ]
    widths = [
        max(len(name), *(min(len(cell(row.get(name))), 40) for row in rows)) for name in columns
    ]
    if sum(widths) + 3 * len(columns) <= console.width:
        console.print(table(rows, columns, title))
        return
    if title:
        console.print(Text(title, style="bold"))
    for row in rows:
        console.print()
        console.print(fields({name: row[name] for name in columns if name in row}))


def _is_array_of_objects(value: Any) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and len(value) > 0
        and all(isinstance(item, Mapping) for item in value)
    )


def problem_line(problem: Problem) -> Text:
    """Return what is wrong with a file of content, on a line and two or three below it."""
    kind = ("warning ", "yellow") if problem.severity == "warning" else ("error ", "bold red")
    line = Text.assemble(kind, (one_line(problem.place), "cyan"))
    if problem.key:
        line.append(f"  {one_line(problem.key)}", style="bold")
    line.append(f"\n    found {one_line(problem.found)}\n    expected {one_line(problem.expected)}")
    if problem.nearest:
        line.append(f"\n    did you mean {one_line(problem.nearest)}?")
    return line


def checked(problems: Sequence[Problem], said: str) -> Iterator[Text]:
    """Yield what is wrong with files, and whether all is well with what was looked at."""
    yield from map(problem_line, problems)
    yield verdict(all(one.severity == "warning" for one in problems), said)


def verdict(good: bool, said: str, *, bad: str = "wrong") -> Text:
    """Return ``ok`` or `bad`, and what was looked at."""
    return Text.assemble(("ok ", "bold green") if good else (f"{bad} ", "bold red"), said)


def print_json(data: Any) -> None:
    """Print JSON on standard output, indented."""
    option = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
    sys.stdout.write(orjson.dumps(data, option=option, default=str).decode() + "\n")
    sys.stdout.flush()


def message(stored: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what is shown of a stored message: who said it and when, and its parts."""
    from rich.padding import Padding

    heads = {"user": ("you", "bold blue"), "assistant": ("answer", "bold green")}
    name, style = heads.get(stored["role"], ("tools", "bold"))
    head = Text.assemble((name, style), (f"  {stored['created']}", "dim"))
    if stored["taint"]:
        head.append(f"  tainted by {', '.join(stored['taint'])}", style="yellow")
    yield head
    for part in stored["parts"]:
        yield Padding(_part(part), (0, 0, 0, 2))


def _part(part: Mapping[str, Any]) -> Text:
    match part["type"]:
        case "text":
            return Text(clean(part["text"]))
        case "tool_use":
            return Text.assemble(
                ("▸ ", "green"), (one_line(part["name"]), "bold"), f" {short(part['input'], 400)}"
            )
        case "tool_result":
            from hookgate.core.domain.parts import content_from_json, plain_text

            style = "red" if part["is_error"] else ""
            return Text(short(plain_text(content_from_json(part["content"])), 400), style=style)
        case "image":
            return Text(f"[picture, {part['media_type']}]", style="dim")
        case "link":
            return Text(clean(f"{part.get('name', '')} {part['uri']}".strip()))
        case kind:
            return Text(f"[{kind}]", style="dim")
