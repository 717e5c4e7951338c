"""``hookgate prices``: what models cost, and whether that is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.kit.commands import CommandGroup, JsonOption, state_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

prices_app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="What models cost: show the prices, check that they are known.",
)

INPUT, OUTPUT = "input_tokens", "output_tokens"
SHOWN = (INPUT, "cache_read_tokens", "cache_write_tokens", "cache_write_hour_tokens", OUTPUT)


@prices_app.command()
def show(
    ctx: typer.Context,
    model: Annotated[
        str, typer.Argument(help="A model, as provider/model; without it, those of the agents.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Show prices in US dollars for each million tokens.

    Example:
        hookgate prices show openai/gpt-4o
    """
    del as_json  # Read by the state.
    state = state_of(ctx)
    found = state.ask("prices.show", {"model": model})
    state.show(found, lambda console: _render(console, found["models"]))


@prices_app.command()
def check(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Say whether it is known what the models of all agents cost.

    Exit code 1 where it is not: budgets in money then take that model at its worst.
    """
    del as_json  # Read by the state.
    state = state_of(ctx)
    found = state.ask("prices.check")

    def render(console: Console) -> None:
        from rich.text import Text

        from hookgate.kit.rendering import clean

        if not found["models"]:
            console.print("no agent of the settings asks a model")
        for one in found["models"]:
            agents = ", ".join(one["agents"])
            line = Text.assemble(_state(one["state"]), f" {clean(one['model'])} ({clean(agents)})")
            line.append(f"\n    {clean(one['action'] or one['source'])}", style="dim")
            console.print(line)

    state.show(found, render)
    if not found["ok"]:
        raise typer.Exit(1)


def _render(console: Console, models: Sequence[Mapping[str, Any]]) -> None:
    from rich.text import Text

    from hookgate.kit.rendering import clean, table

    rows = []
    for one in models:
        prices = one["prices"]
        row = {"model": one["model"], "state": _state(one["state"])}
        row |= {kind.removesuffix("_tokens"): _price(prices[kind]) for kind in SHOWN}
        others = {kind: price for kind, price in prices.items() if kind not in SHOWN}
        said = [f"{one['fee']} a call"] if one["fee"] != "0" else []
        said += [
            f"{kind.removesuffix('_tokens').replace('_', ' ')} {_price(price)}"
            for kind, price in others.items()
            if price not in (prices[INPUT], prices[OUTPUT])
        ]
        row["others"] = ", ".join(said)
        row["from"] = f"{one['source']}\n{one['version']}"
        rows.append(row)
    if not rows:
        console.print("no agent of the settings asks a model; `prices show MODEL` shows any")
        return
    console.print(table(rows))
    for one in models:
        if one["action"]:
            console.print(Text(clean(f"{one['model']}: {one['action']}"), style="yellow"))


def _price(price: Mapping[str, Any]) -> str:
    steps = "".join(f"\n{step['usd']} above {step['above']:,}" for step in price["steps"])
    return f"{price['usd']}{steps}"


def _state(state: str) -> Text:
    from rich.text import Text

    return Text(state, style={"known": "green", "free": "green"}.get(state, "bold red"))
