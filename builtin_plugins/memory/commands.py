"""``hookgate memory``: what is remembered, shown, explained, forgotten and moved."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate import counted
from hookgate.kit.commands import CommandGroup, JsonOption, State, state_of

if TYPE_CHECKING:
    from rich.console import Console

BATCH = 500
"""Rows of an import that are sent at once."""

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="What is remembered: list, show, search, explain, audit, forget, export and import it.",
)

SessionOption = Annotated[str, typer.Option("--session", help="A session's key.")]
ScopeOption = Annotated[
    str, typer.Option("--scope", help="A scope, such as session:main:cli:local:me.")
]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="So many rows at most.")]


@app.command(name="list")
def list_(
    ctx: typer.Context,
    turns: Annotated[bool, typer.Option("--turns", help="What was said, instead.")] = False,
    past: Annotated[bool, typer.Option("--past", help="Also what is not known any more.")] = False,
    session: SessionOption = "",
    scope: ScopeOption = "",
    limit: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """Show facts and notes, the newest first."""
    del as_json  # Read by the state.
    state = state_of(ctx)
    params = {
        "kind": "turn" if turns else "",
        "past": past,
        "session": session,
        "scope": scope,
        "limit": limit,
    }
    found = state.ask("memory.list", params)

    def render(console: Console) -> None:
        _rows(console, found["rows"])
        if not found["rows"]:
            console.print("nothing is remembered")
        if found["next"]:
            console.print(f"there are older ones: --limit {limit * 2}", style="dim")
        if not found["durable"]:
            console.print("it is lost when the gateway stops", style="yellow")

    state.show(found, render)


@app.command()
def show(
    ctx: typer.Context,
    id_: Annotated[str, typer.Argument(metavar="ID", help="Of a fact, a note or a message.")],
    as_json: JsonOption = False,
) -> None:
    """Show one fact, note or message, and what it rests on."""
    del as_json
    state = state_of(ctx)
    found = state.ask("memory.show", {"id": id_})

    def render(console: Console) -> None:
        for row in found["rows"]:
            for name, value in row.items():
                shown = ", ".join(value) if isinstance(value, list) else str(value)
                if shown:
                    console.print(f"{name:<11} {shown}", markup=False, soft_wrap=True)
        for one in found["sources"]:
            text = f"said in     {one['said']} ({one['at'][:16]}, {one['speaker']})"
            console.print(text, markup=False, soft_wrap=True)

    state.show(found, render)


@app.command()
def search(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A question, or words.")],
    session: SessionOption = "",
    scope: ScopeOption = "",
    as_of: Annotated[
        str, typer.Option("--as-of", help="What held at this time, such as 2024-05-15.")
    ] = "",
    limit: LimitOption = 10,
    as_json: JsonOption = False,
) -> None:
    """Find what is remembered, the best first, with the reason for each line.

    Example:
        hookgate memory search "where do I live" --as-of 2023-01-01
    """
    del as_json
    state = state_of(ctx)
    params = {
        "query": query,
        "session": session,
        "scope": scope,
        "as_of": as_of,
        "limit": limit,
    }
    found = state.ask("memory.search", params)

    def render(console: Console) -> None:
        _lines(console, found["lines"])

    state.show(found, render)


@app.command()
def explain(
    ctx: typer.Context,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="A message.")],
    session: SessionOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show which lines a message would recall, and why each; without a session, in the latest one.

    Example:
        hookgate memory explain "what's my dog's name?"
    """
    del as_json
    state = state_of(ctx)
    found = state.ask("memory.explain", {"message": message, "session": session})

    def render(console: Console) -> None:
        head = f"in {found['session']}: {found['tokens']} of {found['budget']} tokens"
        console.print(head, markup=False, soft_wrap=True, style="dim")
        _lines(console, found["lines"])

    state.show(found, render)


@app.command()
def audit(
    ctx: typer.Context,
    about: Annotated[
        str, typer.Argument(metavar="ID|NAME", help="A fact's id, or whom it is about: user, luna.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Show what was known over time: what held when, and what took its place.

    Example:
        hookgate memory audit user
    """
    del as_json
    state = state_of(ctx)
    found = state.ask("memory.audit", {"about": about})

    def render(console: Console) -> None:
        _rows(console, found["rows"])

    state.show(found, render)


@app.command()
def forget(
    ctx: typer.Context,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Ids of facts, notes or messages."),
    ] = None,
    turn: Annotated[str, typer.Option("--turn", help="All that was said in a turn.")] = "",
    session: SessionOption = "",
    scope: ScopeOption = "",
    as_json: JsonOption = False,
) -> None:
    """Forget for good, with all that rests on it alone. What was said stays in its session.

    `hookgate sessions delete` deletes that, and what is remembered of it.

    Example:
        hookgate memory forget --session main:cli:local:me
    """
    del as_json
    state = state_of(ctx)
    params = {"ids": ids or [], "turn": turn, "session": session, "scope": scope}
    gone = state.ask("memory.forget", params)
    said = f"forgot {counted(gone['facts'], 'fact')} and {counted(gone['pieces'], 'message')}"
    state.show(gone, lambda console: console.print(said))


@app.command()
def export(
    ctx: typer.Context,
    out: Annotated[
        Path | None, typer.Option(help="The file; without it, it goes to standard output.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write facts and notes, one JSON object a line, for another store or for a look."""
    del as_json
    state = state_of(ctx)
    if out is None:
        for line in _exported(state):
            typer.echo(line)
        return
    fresh = out.with_name(f".{out.name}.part")
    count = 0
    try:
        with fresh.open("w", encoding="utf-8") as file:
            for line in _exported(state):
                file.write(f"{line}\n")
                count += 1
        fresh.replace(out)
    finally:
        fresh.unlink(missing_ok=True)
    data = {"file": str(out), "rows": count}
    state.show(data, lambda console: console.print(f"wrote {counted(count, 'row')} to {out}"))


@app.command(name="import")
def import_(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="An export.", exists=True, dir_okay=False),
    ],
    trusted: Annotated[
        bool,
        typer.Option(
            "--trusted",
            help="You know who wrote it: its rows are what they say, the user's own words too. "
            "Without it, all are tainted by the file's name.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Take in an export. All of it is checked first; what is there already is left as it is."""
    from hookgate.wire import well_formed

    del as_json
    state = state_of(ctx)
    rows = _read(file)
    done = {"new": 0, "known": 0}
    for check in (True, False):
        for begin in range(0, len(rows), BATCH):
            some = rows[begin : begin + BATCH]
            params = {
                "rows": some,
                "check": check,
                "first": begin + 1,
                "source": well_formed(file.name)[:200],
                "trusted": trusted,
            }
            answer = state.ask("memory.import", params)
            done = {name: count + answer[name] for name, count in done.items()}
    said = f"{counted(done['new'], 'row')} added, {done['known']} known already"
    state.show(done, lambda console: console.print(said))


def _exported(state: State) -> Iterator[str]:
    from hookgate.wire import canonical

    after = 0
    while True:
        page = state.ask("memory.export", {"after": after})
        for row in page["rows"]:
            yield canonical(row).decode()
        after = page["next"]
        if not after:
            return


def _read(path: Path) -> list[dict[str, Any]]:
    from hookgate import StartError

    rows = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"{path} cannot be read as UTF-8 text: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise StartError(
                f"line {number} of {path} is no JSON ({error}): expected a file that "
                "`hookgate memory export --out FILE` wrote"
            ) from error
        if not isinstance(row, dict):
            raise StartError(
                f"found {type(row).__name__} in line {number} of {path}, expected an object"
            )
        rows.append(row)
    return rows


def _rows(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
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
        console.print(
            f"{row['at'][:16]} {row['id']} {text}{times}{over}{taint}",
            markup=False,
            soft_wrap=True,
        )


def _lines(console: Console, lines: Sequence[Mapping[str, Any]]) -> None:
    if not lines:
        console.print("nothing is found")
    for line in lines:
        mark = "+" if line["shown"] else "-"
        console.print(f"{mark} {line['at'][:16]} {line['text']}", markup=False, soft_wrap=True)
        why = "; ".join(line["why"])
        left = f"; not shown: {line['reason']}" if line["reason"] else ""
        console.print(
            f"  {line['kind']} {line['id']}; {why}{left}",
            markup=False,
            soft_wrap=True,
            style="dim",
        )


COMMANDS = {"memory": app}
