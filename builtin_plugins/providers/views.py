"""What commands show of models and providers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from hookgate.kit.rendering import clean, table

STATES = {"ready": "green", "lacking": "yellow", "no provider": "red"}


def models(found: Mapping[str, Any]) -> Iterator[Any]:
    """Show models, the agents that ask them, and what each lacks."""
    if found["models"]:
        yield table(
            [
                {
                    "model": row["model"],
                    "agents": ", ".join(row["agents"]) or "-",
                    "state": Text(row["state"], style=STATES[row["state"]]),
                    "context": row["context_tokens"] or "-",
                }
                for row in found["models"]
            ]
        )
    else:
        yield (
            "no agent names a model, and the demo answers. `hookgate init` sets one up, or write "
            '`[agents.main]` with `model = "anthropic/claude-sonnet-4-5"` into the settings'
        )
    for row in found["models"]:
        if row["why"]:
            said = ": ".join(filter(None, (row["why"], row["action"])))
            yield Text(f"{row['model']}: {clean(said)}", style="yellow")
    if takes := ", ".join(found["providers"]):
        yield Text(
            f"any model of these can be named: {takes}; `hookgate models NAME` asks its server",
            style="dim",
        )


def tested(found: Mapping[str, Any]) -> Iterator[Any]:
    """Show what became of each question."""
    for row in found["tried"]:
        took = f"{row['seconds']:.1f} s"
        if not row["ok"]:
            yield Text.assemble(
                ("failed  ", "bold red"),
                row["model"],
                (f"  {took}", "dim"),
                f"\n  {clean(row['error'])}",
            )
            if row["action"] and row["action"] not in row["error"]:
                yield Text(f"  {clean(row['action'])}", style="dim")
            continue
        tokens = f"{row['input_tokens']} tokens in, {row['output_tokens']} out"
        said = clean(row["text"]) or "nothing: it was cut while it thought"
        yield Text.assemble(
            ("ok  ", "bold green"), row["model"], (f"  {took}, {tokens}", "dim"), f"\n  {said}"
        )


VIEWS = {"models.list": models, "providers.test": tested}
