"""What commands show of the results of these operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from hookgate import counted
from hookgate.kit.commands import View
from hookgate.kit.rendering import cell, clean, plain_table

LEAST_ID = 6
"""Characters of an id that are shown at least: its end."""


def listed(found: Mapping[str, Any]) -> Iterator[str | Text | Table]:
    """Show rows, and whether there are more."""
    if not found["rows"]:
        yield "nothing is remembered yet: it is learned from what people say, or noted by the model"
    else:
        yield _table(found["rows"])
    if found["next"]:
        yield Text(f"there are older ones: --before {found['next']}", style="dim")
    if not found["durable"]:
        yield Text("it is lost when the gateway stops", style="yellow")


def whole(found: Mapping[str, Any]) -> Iterator[str]:
    """Show all of a row, and what it rests on."""
    for row in found["rows"]:
        for name, value in row.items():
            shown = ", ".join(value) if isinstance(value, list) else str(value)
            if shown:
                yield f"{name:<11} {shown}"
    for one in found["sources"]:
        yield f"said in     {one['said']} ({one['at'][:16]}, {one['speaker']})"


def history(found: Mapping[str, Any]) -> Table:
    """Show what was known when."""
    return _table(found["rows"])


def lines(found: Mapping[str, Any]) -> Iterator[str | Text]:
    """Show lines that were found, each with what it is worth, whose it is, and its reasons."""
    if not found["lines"] and not found.get("reason"):
        yield "nothing is found"
    names = _short([line["id"] for line in found["lines"]])
    for line in found["lines"]:
        mark = "+" if line["shown"] else "-"
        yield f"{mark} {line['at'][:16]} {line['text']}"
        left = f"; not shown: {line['reason']}" if line["reason"] else ""
        said = f"{line['kind']} {names[line['id']]} of {_whose(line)}, worth {line['worth']:.2f}"
        yield Text(clean(f"  {said}: {'; '.join(line['why'])}{left}"), style="dim")


def explained(found: Mapping[str, Any]) -> Iterator[str | Text]:
    """Show what a message would recall, or why nothing."""
    if found["session"]:
        head = f"in {found['session']}: {found['tokens']} of {found['budget']} tokens"
        yield Text(clean(head), style="dim")
    if found["reason"]:
        yield f"nothing would be recalled: {found['reason']}"
    yield from lines(found)


def forgotten(found: Mapping[str, Any]) -> str:
    """Say what is gone, or would be."""
    done = "would forget" if found.get("check") else "forgot"
    return f"{done} {counted(found['facts'], 'fact')} and {counted(found['pieces'], 'message')}"


def imported(done: Mapping[str, Any]) -> str:
    """Say what became of the rows of an export."""
    return f"{counted(done['new'], 'row')} added, {done['known']} known already"


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Show rows: what ends their ids, whose they are, since when, and what they say."""
    table = plain_table("id", "whose", "learned", "what", "sure", right=("sure",))
    names = _short([row["id"] for row in rows])
    for row in rows:
        times = "".join(
            f" {word} {row[name][:10]}"
            for word, name in (("from", "valid_from"), ("until", "valid_to"))
            if row[name]
        )
        over = f" [{row['ending']} {row['superseded'][:10]}]" if row["superseded"] else ""
        who = f"{row['speaker']}: " if row["kind"] == "turn" else ""
        taint = f" (taint: {', '.join(row['taint'])})" if row["taint"] else ""
        text = " ".join(f"{who}{row['text']}".split())
        sure = f"{row['confidence']:.2f}" if row["kind"] == "fact" else ""
        at = row["at"][:16].replace("T", " ")
        values = (names[row["id"]], _whose(row), at, f"{text}{times}{over}{taint}", sure)
        table.add_row(*map(cell, values))
    return table


def _short(ids: Sequence[str]) -> dict[str, str]:
    """Return for each id the end of it that can be typed, as far as those that are shown go."""
    length, names = LEAST_ID, dict[str, str]()
    while len(set(names.values())) < len(set(ids)):
        names = {one: _end(one, length) for one in ids}
        length += 2
    return names


def _end(one: str, length: int) -> str:
    whole, mark, part = one.partition("#")
    return f"{whole[-length:]}{mark}{part}"


def _whose(row: Mapping[str, Any]) -> str:
    """Return whose a row is: its session, or the scope that it is kept in for several."""
    if row["scope"] == f"session:{row['session']}":
        return str(row["session"])
    return f"{row['scope']} ({row['session']})" if row["session"] else str(row["scope"])


VIEWS = {
    "memory.audit": history,
    "memory.explain": explained,
    "memory.export": View(export="rows"),
    "memory.forget": forgotten,
    "memory.import": View(
        imports="rows", wanted=lambda row: row.get("kind") != "turn", shown=imported
    ),
    "memory.list": listed,
    "memory.search": lines,
    "memory.show": whole,
}
