"""``hookgate tools``: what models can call, and what that does to the world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.cli.group import CommandGroup
from hookgate.cli.state import JsonOption, state_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

app = typer.Typer(cls=CommandGroup, no_args_is_help=True, help="Tools: what models can call.")

# (standing, value) -> how it is shown. What is unknown counts as yes for policy.
_MARKS = {
    ("proven", False): ("no, proven", "bold green"),
    ("proven", True): ("yes, proven", "bold red"),
    ("declared", False): ("no", "green"),
    ("declared", True): ("yes", "red"),
    ("unknown", None): ("unknown", "yellow"),
}
_HEADS = {
    "reads_external_data": "reads",
    "writes_persistent_state": "writes",
    "sends_externally": "sends",
    "executes_privileged": "privileged",
    "creates_autonomous_actions": "autonomous",
}


@app.command("list")
def list_tools(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="A tool's name, or a glob such as 'http_*'.")] = "*",
    capabilities: Annotated[
        bool,
        typer.Option("--capabilities", help="Show the five flags of each, and their standing."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the tools.

    With --capabilities also what each does to the world, and on what that rests: `proven` by
    the sandbox, declared by its author (plain yes or no), or unknown, which policy takes for
    yes; what that is in particular, such as a grant of the sandbox; and whether it waits in
    quarantine, because it is not the tool that was accepted.

    Example:
        hookgate tools list --capabilities
    """
    state = state_of(ctx)
    data = state.ask("tool.list", {"name": name})

    def render(console: Console) -> None:
        rows = data["tools"]
        if not rows:
            console.print(f"no tool is called {name}", style="dim", markup=False)
            return
        console.print(_flags(rows) if capabilities else _plain(rows))
        if capabilities:
            _print_grounds(console, rows)
        _print_quarantine(console, {row["name"]: row["quarantine"] for row in rows})

    state.show(data, render)


@app.command()
def changes(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Show the tools in quarantine: what was accepted, and what they are now.

    Example:
        hookgate tools changes
    """
    del as_json  # Read by the state.
    state = state_of(ctx)
    data = state.ask("tools.changes")

    def render(console: Console) -> None:
        for row in data["tools"]:
            _print_change(console, row)
        if not data["tools"]:
            console.print("no tool is in quarantine", style="dim")

    state.show(data, render)


@app.command()
def accept(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The tool's name.")] = "",
    every: Annotated[bool, typer.Option("--all", help="All tools that wait.")] = False,
    digest: Annotated[
        str, typer.Option(help="Accept it only if this is its digest, as `tools changes` shows.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Accept tools in quarantine; they may run again.

    What is accepted is shown, and accepted by its digest: what changes meanwhile waits on.

    Example:
        hookgate tools accept weather
    """
    del as_json  # Read by the state.
    state = state_of(ctx)
    rows = [] if digest or bool(name) == every else state.ask("tools.changes")["tools"]
    rows = [row for row in rows if every or row["tool"] == name]
    data: dict[str, Any] = {"tools": []}
    for row in rows:
        one = {"name": row["tool"], "digest": row["digest"]}
        data["tools"] += state.ask("tools.accept", one)["tools"]
    if not rows and (not every or name):
        data = state.ask("tools.accept", {"name": name, "all": every, "digest": digest})

    def render(console: Console) -> None:
        for row in rows:
            _print_change(console, row)
        names = ", ".join(data["tools"])
        console.print(
            f"accepted: {names}" if names else "nothing waited: all were accepted before",
            markup=False,
        )

    state.show(data, render)


def _print_grounds(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Say what flags rest on in particular, such as a grant, where their plugin says so."""
    from rich.text import Text

    from hookgate.kit.rendering import one_line

    for row in rows:
        told = [(name, flag) for name, flag in row["flags"].items() if flag.get("ground")]
        if not told:
            continue
        console.print(Text.assemble("\n", (row["name"], "bold"), ":"))
        for name, flag in told:
            ground = f": {one_line(flag['ground'])}"
            line = Text.assemble(f"  {_HEADS[name]}: ", _mark(flag), ground)
            console.print(line, soft_wrap=True)


def _print_quarantine(console: Console, reasons: Mapping[str, str]) -> None:
    from rich.text import Text

    from hookgate.kit.rendering import one_line

    for name, why in reasons.items():
        if why:
            console.print(Text(f"{name} is in quarantine: {one_line(why)}", style="bold red"))
    if any(reasons.values()):
        console.print(
            "`hookgate tools changes` shows more, `hookgate tools accept NAME` accepts one.",
            markup=False,
        )


def _print_change(console: Console, row: Mapping[str, Any]) -> None:
    from rich.text import Text

    from hookgate.kit.rendering import clean, one_line

    head = Text.assemble((row["tool"], "bold"), f" of {row['plugin']}: {one_line(row['why'])}")
    console.print(head)
    console.print(Text(f"  digest {row['digest']}", style="dim"), soft_wrap=True)
    for change in row["changes"]:
        console.print(Text(f"  {change['part']}"))
        for sign, text, style in (("-", "before", "red"), ("+", "after", "green")):
            for line in clean(change[text]).splitlines() or [""]:
                console.print(Text(f"    {sign} {line}", style=style), soft_wrap=True)


def _plain(rows: Sequence[Mapping[str, Any]]) -> Table:
    from rich.text import Text

    from hookgate.kit.rendering import table

    return table(
        [
            {
                "tool": Text(row["name"], style="bold"),
                "source": _source(row),
                "category": row["category"],
                "description": " ".join(row["description"].split()),
            }
            for row in rows
        ]
    )


def _flags(rows: Sequence[Mapping[str, Any]]) -> Table:
    from rich.text import Text

    from hookgate.kit.rendering import table

    return table(
        [
            {
                "tool": Text(row["name"], style="bold"),
                "source": _source(row),
                **{_HEADS[name]: _mark(flag) for name, flag in row["flags"].items()},
                "state": _state(row),
            }
            for row in rows
        ]
    )


def _source(row: Mapping[str, Any]) -> str:
    """Return who brings a tool, and where it runs if that is not in the gateway's process."""
    plugin, sandbox = row["plugin"], row["sandbox"]
    return str(plugin) if sandbox == "python" else f"{plugin} ({sandbox})"


def _state(row: Mapping[str, Any]) -> Text:
    from rich.text import Text

    waits = bool(row["quarantine"])
    return Text("quarantine" if waits else "ready", style="bold red" if waits else "green")


def _mark(flag: Mapping[str, Any]) -> Text:
    from rich.text import Text

    words, style = _MARKS[flag["standing"], flag["value"]]
    return Text(words, style=style)
