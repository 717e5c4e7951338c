"""``hookgate tools accept``: let tools run again that are not as they were accepted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from hookgate.kit.commands import JsonOption, state_of


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
    state = state_of(ctx)
    rows = [] if digest or bool(name) == every else state.ask("tools.changes")["tools"]
    rows = [row for row in rows if every or row["tool"] == name]
    data: dict[str, Any] = {"tools": []}
    for row in rows:
        one = {"name": row["tool"], "digest": row["digest"]}
        data["tools"] += state.ask("tools.accept", one)["tools"]
    if not rows and (not every or name):
        data = state.ask("tools.accept", {"name": name, "all": every, "digest": digest})

    def shown() -> Iterator[Any]:
        from hookgate.builtin_plugins.policy.views import change

        for row in rows:
            yield from change(row)
        names = ", ".join(data["tools"])
        yield f"accepted: {names}" if names else "nothing waited: all were accepted before"

    state.show(data, shown())
