"""``hookgate init``: a first settings file, with the policy that suits the installed tools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.kit.commands import JsonOption, state_of

if TYPE_CHECKING:
    from rich.console import Console

HEADS = {
    "reads_external_data": "reads",
    "writes_persistent_state": "writes",
    "sends_externally": "sends",
    "executes_privileged": "privileged",
    "creates_autonomous_actions": "autonomous",
}


def init(
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(help="The file; config.toml in the home folder where it is left out."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a first settings file, with the policy profile that suits the installed tools.

    Nothing is overwritten.

    Example:
        hookgate init
    """
    del as_json  # Read by the state.
    from hookgate import StartError
    from hookgate.builtin_plugins.policy.rules.suggesting import suggest
    from hookgate.kit.content.scaffold import filled, scaffold

    state = state_of(ctx)
    path = file or state.source.path or state.settings.home / "config.toml"
    if path.exists():
        raise StartError(
            f"{path} is there already, and nothing is overwritten: name another file, or change "
            "that one (`hookgate policy table` shows what each profile does)"
        )
    rows = state.ask("tools.list", {"name": "*"})["tools"]
    tools = {row["name"]: _flags(row) for row in rows}
    suggestion = suggest(tools)
    why = (f"Suggested: {suggestion.profile}.", *suggestion.reasons)
    words = {
        "file": path.name,
        "why": "\n".join(f"# {one}" for one in why),
        "profile": suggestion.profile,
        "table": "\n".join(_table(tools)),
    }
    templates = files("hookgate.builtin_plugins.policy") / "commands" / "templates"
    scaffold(path.parent, filled(templates, words), fresh=False, private=True)
    data = {
        "file": str(path),
        "profile": suggestion.profile,
        "reasons": list(suggestion.reasons),
        "tools": len(tools),
    }

    def render(console: Console) -> None:
        console.print(f"wrote {path}", style="bold green", markup=False, soft_wrap=True)
        console.print(f"policy profile: {suggestion.profile}")
        for reason in suggestion.reasons:
            console.print(f"  {reason}", style="dim", markup=False)
        console.print("next: `hookgate config check`, then `hookgate chat`", markup=False)

    state.show(data, render)


def _flags(row: Mapping[str, Any]) -> dict[str, bool | None]:
    return {name: flag["value"] for name, flag in row["flags"].items()}


def _table(tools: Mapping[str, Mapping[str, bool | None]]) -> Sequence[str]:
    """Return the flags of every tool, as comments."""
    width = max((len(name) for name in tools), default=4)
    heads = "  ".join(f"{head:<10}" for head in HEADS.values())
    lines = [f"# {'tool':<{width}}  {heads}".rstrip()]
    words = {True: "yes", False: "-", None: "unknown"}
    for name, flags in sorted(tools.items()):
        values = "  ".join(f"{words[flags.get(flag)]:<10}" for flag in HEADS)
        # A name is quoted as JSON: it must not end the comment.
        shown = json.dumps(name)[1:-1]
        lines.append(f"# {shown:<{width}}  {values}".rstrip())
    return lines
