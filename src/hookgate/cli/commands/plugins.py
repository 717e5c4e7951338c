"""``hookgate plugins``: which run and why, what they do, what they cost, what ails them."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.builtin_plugins import BUILTIN
from hookgate.cli.group import CommandGroup
from hookgate.cli.plugin_commands import PLUGINS
from hookgate.cli.state import JsonOption, State, state_of
from hookgate.core.domain.descriptors import ExamplesError, checked_examples
from hookgate.core.domain.errors import StartError
from hookgate.kit.content.scaffold import filled, scaffold

if TYPE_CHECKING:
    from rich.console import Console

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}[a-z0-9]")


class PluginKind(StrEnum):
    """What the plugin begins as."""

    RULE = "rule"
    TOOL = "tool"
    PROVIDER = "provider"
    CARDS = "cards"


TITLES = {
    PluginKind.RULE: "a rule for tool calls",
    PluginKind.TOOL: "a tool for models",
    PluginKind.PROVIDER: "a provider of models",
    PluginKind.CARDS: "cards that models read",
}


COUNTING = (
    "how many words are in this paragraph",
    "count the words of my abstract",
    "is this text longer than 500 words?",
)
"""Messages that ask for the tool of the template."""


def new(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(help="The plugin's name, such as acme_rules.", show_default=False)
    ],
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Where to write it; a folder called after it where that is left out.",
            show_default=False,
        ),
    ] = None,
    tool: Annotated[bool, typer.Option("--tool", help="Begin with a tool.")] = False,
    provider: Annotated[
        bool, typer.Option("--provider", help="Begin with a provider of models.")
    ] = False,
    cards: Annotated[bool, typer.Option("--cards", help="Begin with cards.")] = False,
    example: Annotated[
        list[str] | None,
        typer.Option(
            help="With --tool, a message that asks for it, as people would write it: it is found "
            "by it. Repeat it for others; five that differ do much."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Begin a plugin: a package with a test, which passes, and a file for CI.

    Without an option it is a rule for tool calls. Nothing is overwritten.

    Example:
        hookgate plugins new acme_rules
    """
    asked = {PluginKind.TOOL: tool, PluginKind.PROVIDER: provider, PluginKind.CARDS: cards}
    chosen = [kind for kind, wanted in asked.items() if wanted]
    if len(chosen) > 1:
        raise typer.BadParameter("found more than one of --tool, --provider and --cards: use one")
    if example and not tool:
        raise typer.BadParameter("found --example without --tool: messages ask for tools")
    target = folder or Path(f"hookgate-{name.replace('_', '-')}")
    kind = chosen[0] if chosen else PluginKind.RULE
    written = package(name, target, kind, example or COUNTING)

    data = {"plugin": name, "folder": str(target), "files": [str(path) for path in written]}
    then = f"next: pip install -e '{target}[test]', then pytest {target}"
    state_of(ctx).show(data, [*(f"wrote {path}" for path in written), then])


def package(
    name: str, target: Path, kind: PluginKind, examples: Sequence[str] = COUNTING
) -> list[Path]:
    """Write the package of a plugin.

    Args:
        name: The name that the plugin will run under.
        target: A folder that is not there yet, or is empty.
        kind: What it begins as.
        examples: Messages that ask for its tool, where it has one.

    Returns:
        The files that were written.

    Raises:
        StartError: The name cannot be a plugin's, or a message is no example.
        ContentError: The folder cannot be written, or is not empty.
    """
    _check_name(name)
    try:
        asked = checked_examples(examples)
    except ExamplesError as error:
        raise StartError(f"--example: {error}") from error
    module = f"hookgate_{name}"
    words = {
        "name": name,
        "module": module,
        "fixtures": "conftest",
        "check": f"test_{name}",
        "distribution": module.replace("_", "-"),
        "settings": "".join(part.capitalize() for part in name.split("_")) + "Settings",
        "title": TITLES[kind],
        "examples": "\n".join(f"    {json.dumps(one, ensure_ascii=False)}," for one in asked),
    }
    templates = files("hookgate") / "kit" / "templates"
    common, own = templates / "common", templates / kind.value
    return scaffold(target, filled(common, words) | filled(own, words))


def _check_name(name: str) -> None:
    if NAME.fullmatch(name) is None or keyword.iskeyword(name):
        raise StartError(
            f"found the name {name!r}, expected 2 to 41 small letters, digits and underscores "
            "that begin with a letter and end with no underscore, such as acme_rules"
        )
    if name in BUILTIN:
        raise StartError(
            f"{name!r} is a plugin that comes with hookgate: choose another name; "
            f'`[plugins] replace = {{ {name} = "acme_{name}" }}` puts a plugin in its place'
        )


# -- the plugins that there are --------------------------------------------------

app = typer.Typer(
    cls=CommandGroup, no_args_is_help=True, help="Plugins: list, explain, trace and measure them."
)

app.command()(new)

_COLORS = {
    "running": "green",
    "disabled": "dim",
    "replaced": "yellow",
    "broken": "bold red",
    "waiting": "cyan",
}


def _known(state: State, name: str | None = None) -> Mapping[str, Any]:
    """Return all plugins, and why the one called `name` runs or not, whatever is wrong.

    Where no gateway can be asked, since none starts, the plugins are looked at one by one.
    """
    from hookgate.core.domain.errors import HookgateError

    try:
        data = dict(state.ask("plugins.list"))
        if name is not None:
            data["why"] = state.ask("plugins.why", {"name": name})["why"]
        fresh = _installed_since(state, data["plugins"])
        data["plugins"] = [*data["plugins"], *fresh]
        for row in fresh:
            if row["name"] == name:
                data["why"] = f"{name!r} of {row['origin']} does not run: it was {row['reason']}"
    except HookgateError as error:
        plugins, wrong = state.survey()
        said = "\n".join(dict.fromkeys([str(error), *wrong]))
        state.err.print(f"no gateway could be asked: {said}", style="red", markup=False)
        data = {"plugins": [asdict(info) for info in plugins.infos()], "error": said}
        if name is not None:
            data["why"] = plugins.why(name)
    return data


def _installed_since(state: State, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what is installed and unknown to the gateway that runs, which was started before."""
    if not state.run(state.running()) or not state.settings.plugins.entry_points:
        return []
    known = {row["name"] for row in rows}
    return [
        {
            "name": one.name,
            "origin": f"{one.dist.name} {one.dist.version}" if one.dist else "",
            "version": one.dist.version if one.dist else "",
            "state": "waiting",
            "reason": "installed since the gateway started; restart it",
            **{key: [] for key in ("hooks", "publishes", "requires", "provides")},
        }
        for one in state.installed.select(group=PLUGINS)
        if one.name not in known
    ]


@app.command("list")
def list_plugins(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """List every plugin that is known, those that do not run included."""
    from rich.text import Text

    from hookgate.kit.rendering import table

    state = state_of(ctx)
    data = _known(state)

    rows = [
        {
            "plugin": Text(row["name"], style="bold"),
            "state": Text(row["state"], style=_COLORS[row["state"]]),
            "origin": row["origin"],
            "hooks": len(row["hooks"]),
            "requires": row["requires"],
            "provides": row["provides"],
            "": row["reason"] or Text(""),
        }
        for row in data["plugins"]
    ]
    state.show(data, table(rows))


@app.command()
def why(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The plugin's name.")],
    as_json: JsonOption = False,
) -> None:
    """Say why a plugin runs, or why it does not, and which hooks it implements.

    Example:
        hookgate plugins why memory
    """
    from hookgate.kit.rendering import fields, one_line

    state = state_of(ctx)
    data = _known(state, name)
    said = {"why": data["why"]}
    row = {row["name"]: row for row in data["plugins"]}.get(name)

    told: list[Any] = [one_line(said["why"])]
    if row is not None and row["state"] == "running":
        told.append(fields({key: row[key] for key in ("hooks", "requires", "provides")}))
    state.show({**said, "plugin": row}, told, failed=row is None)


@app.command()
def trace(
    ctx: typer.Context,
    hook: Annotated[str, typer.Option(help="Only hooks that match this glob.")] = "*",
    plugin: Annotated[str, typer.Option(help="Only plugins that match this glob.")] = "*",
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Leave out what had nothing to say.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Follow the running gateway's hooks as they are called, until Ctrl-C.

    While nobody follows them, hooks are not measured. With `--json`, one object a line.

    Examples:
        hookgate plugins trace --hook 'before_*'
        hookgate plugins trace --plugin policy --json
    """
    from hookgate.cli.trace import follow

    state = state_of(ctx)
    state.run(follow(state, hook, plugin, quiet=quiet))


@app.command()
def bench(
    ctx: typer.Context,
    turns: Annotated[int, typer.Option(help="How many turns to run.", min=1, max=10_000)] = 50,
    text: Annotated[
        str, typer.Option(help="What is said in each of them.")
    ] = "what is 17*23, and what time is it?",
    as_json: JsonOption = False,
) -> None:
    """Measure what each hook of each plugin costs in a turn.

    The turns run in this process, with your plugins, the demo model and an empty home
    folder that is thrown away. A running gateway is left alone.
    """
    from hookgate.cli.trace import measure
    from hookgate.kit.rendering import fields, table

    state = state_of(ctx)
    data = state.run(measure(state, turns, text))

    rest = {key: value for key, value in data.items() if key != "hooks"}
    state.show(data, [table(data["hooks"]), fields(rest)])


@app.command()
def doctor(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Start everything, run a turn, and say what ails which plugin; exit code 1 if any does.

    It runs in this process, with the demo model and an empty home folder that is thrown away.
    """
    from hookgate.cli.commands.doctor import examine

    state = state_of(ctx)
    findings = state.run(examine(state))

    failed = any(finding["level"] == "problem" for finding in findings)
    state.show(
        {"findings": findings},
        lambda console: _print_findings(console, findings),
        failed=failed,
    )


def _print_findings(console: Console, findings: Sequence[Mapping[str, Any]]) -> None:
    from rich.text import Text

    from hookgate.kit.rendering import one_line

    marks = {
        "ok": Text("ok      ", style="green"),
        "note": Text("note    ", style="yellow"),
        "problem": Text("problem ", style="bold red"),
    }
    for finding in findings:
        line = Text.assemble(marks[finding["level"]], (f"{finding['about']}: ", "bold"))
        line.append(one_line(finding["text"]))
        console.print(line, soft_wrap=True)
