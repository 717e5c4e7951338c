"""``hookgate plugins new``: a package to begin a plugin with, its tests and its CI included."""

from __future__ import annotations

import json
import keyword
import re
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hookgate.builtin_plugins import BUILTIN
from hookgate.cli.state import JsonOption, state_of
from hookgate.core.domain.descriptors import ExamplesError, checked_examples
from hookgate.core.domain.errors import StartError
from hookgate.kit.content.scaffold import filled, scaffold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

NAME = re.compile(r"[a-z][a-z0-9_]{1,40}")


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
    del as_json  # Read by the state.
    asked = {PluginKind.TOOL: tool, PluginKind.PROVIDER: provider, PluginKind.CARDS: cards}
    chosen = [kind for kind, wanted in asked.items() if wanted]
    if len(chosen) > 1:
        raise typer.BadParameter("found more than one of --tool, --provider and --cards: use one")
    if example and not tool:
        raise typer.BadParameter("found --example without --tool: messages ask for tools")
    target = folder or Path(f"hookgate-{name.replace('_', '-')}")
    kind = chosen[0] if chosen else PluginKind.RULE
    written = package(name, target, kind, example or COUNTING)

    def render(console: Console) -> None:
        for path in written:
            console.print(f"wrote {path}", markup=False, soft_wrap=True)
        console.print(f"next: pip install -e '{target}[test]', then pytest {target}", markup=False)

    data = {"plugin": name, "folder": str(target), "files": [str(path) for path in written]}
    state_of(ctx).show(data, render)


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
            "that begin with a letter, such as acme_rules"
        )
    if name in BUILTIN:
        raise StartError(
            f"{name!r} is a plugin that comes with hookgate: choose another name; "
            f'`[plugins] replace = {{ {name} = "acme_{name}" }}` puts a plugin in its place'
        )
