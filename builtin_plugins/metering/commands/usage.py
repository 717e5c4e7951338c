"""``hookgate usage``: what model calls have used, and what that cost."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate import counted
from hookgate.kit.commands import JsonOption, state_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

BARS = "▁▂▃▄▅▆▇█"
NARROW = 100
"""Columns of a terminal below which numbers are shortened."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a text begins with that a spreadsheet would take for a formula, or pass over."""
NUMBERS = (
    "calls",
    "refused",
    "failed",
    "estimated",
    "unpriced",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_hour_tokens",
    "audio_input_tokens",
    "image_input_tokens",
    "reasoning_tokens",
    "audio_output_tokens",
    "image_output_tokens",
    "cost_usd",
    "saved_usd",
)
"""The columns of numbers of a CSV, in their order."""


class Format(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def _only(what: str) -> Any:
    return typer.Option(help=f"Only calls of this {what}.", show_default=False)


def usage(
    ctx: typer.Context,
    by: Annotated[
        str,
        typer.Option(
            help="What to tell calls apart by, up to three with commas: day, month, session, "
            "agent, channel, account, principal, key, cause, plugin, tool, provider, model."
        ),
    ] = "day",
    since: Annotated[
        str, typer.Option("--from", help="The first day or month, such as 2026-11-01 or 2026-11.")
    ] = "",
    until: Annotated[str, typer.Option("--to", help="The last day or month.")] = "",
    session: Annotated[str | None, _only("session")] = None,
    agent: Annotated[str | None, _only("agent")] = None,
    channel: Annotated[str | None, _only("channel")] = None,
    account: Annotated[str | None, _only("account")] = None,
    principal: Annotated[str | None, _only("principal")] = None,
    key: Annotated[str | None, _only("key")] = None,
    cause: Annotated[str | None, _only("cause, such as chat or memory.extract")] = None,
    plugin: Annotated[str | None, _only("plugin, made for a purpose of its own")] = None,
    tool: Annotated[str | None, _only("tool, in the turns that it has started")] = None,
    provider: Annotated[str | None, _only("provider")] = None,
    model: Annotated[str | None, _only("model, as provider/model")] = None,
    limit: Annotated[int, typer.Option(help="So many groups at most.")] = 100,
    form: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show what model calls have used and cost, and what caching saved.

    Example:
        hookgate usage --by model --from 2026-11
    """
    del as_json  # Read by the state.
    state = state_of(ctx)
    only = {
        "session": session,
        "agent": agent,
        "channel": channel,
        "account": account,
        "principal": principal,
        "key": key,
        "cause": cause,
        "plugin": plugin,
        "tool": tool,
        "provider": provider,
        "model": model,
    }
    wanted = {name: value for name, value in only.items() if value is not None}
    asked = {"by": by, "since": since, "until": until, "limit": limit, **wanted}
    found = state.ask("usage", asked)
    if form is Format.JSON:
        state.json = True
    if form is Format.CSV and not state.json:
        typer.echo(to_csv(found), nl=False)
        return
    state.show(found, lambda console: _render(console, found))


def to_csv(found: Mapping[str, Any]) -> str:
    """Return the groups as CSV. No text in it is a formula to a spreadsheet."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*found["by"], *NUMBERS])
    for group in found["groups"]:
        words = [_harmless(group["of"][name]) for name in found["by"]]
        writer.writerow([*words, *(group[name] for name in NUMBERS)])
    return out.getvalue()


def _harmless(text: str) -> str:
    # Spaces in front do not keep a spreadsheet from reading a formula.
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA) else text


# -- on a terminal -----------------------------------------------------------


def _render(console: Console, found: Mapping[str, Any]) -> None:
    from rich.text import Text

    if not found["whole"]["calls"]:
        console.print("no model calls are recorded that fit: nothing was used")
    else:
        console.print(_headline(found["days"], found["whole"], console.width))
        if found["by"]:
            console.print(_table(found, narrow=console.width < NARROW))
    for line in _notes(found):
        console.print(Text(line, style="yellow"))


def _headline(days: Sequence[Mapping[str, Any]], whole: Mapping[str, Any], width: int) -> Any:
    """Return a line for the sum of all, behind a bar for each day."""
    from rich.text import Text

    said = [
        money(whole["cost_usd"]),
        counted(whole["calls"], "call"),
        f"{short(whole['input_tokens'])} tokens in, {short(whole['output_tokens'])} out",
    ]
    if Decimal(whole["saved_usd"]):
        said.append(f"caching saved {money(whole['saved_usd'])}")
    first, last = days[0]["of"]["day"], days[-1]["of"]["day"]
    span = first if first == last else f"{first} to {last}"
    bars = sparkline(days, width - len(span) - 2)
    return Text.assemble((bars, "cyan"), "  ", (span, "dim"), "\n", "; ".join(said))


def sparkline(days: Sequence[Mapping[str, Any]], width: int) -> str:
    """Return a bar for each day from the first to the last one: of cost, or else of tokens.

    A day without a call is a blank. Of more days than fit, the last ones are shown.
    """
    priced = any(Decimal(day["cost_usd"]) for day in days)
    heights = {
        day["of"]["day"]: Decimal(day["cost_usd"])
        if priced
        else Decimal(day["input_tokens"] + day["output_tokens"])
        for day in days
    }
    last = date.fromisoformat(days[-1]["of"]["day"])
    span = (last - date.fromisoformat(days[0]["of"]["day"])).days + 1
    shown = [
        (last - timedelta(days=back)).isoformat()
        for back in reversed(range(min(span, max(width, 1))))
    ]
    most = max((heights.get(day, Decimal(0)) for day in shown), default=Decimal(0))
    return "".join(_bar(heights.get(day), most) for day in shown)


def _bar(height: Decimal | None, most: Decimal) -> str:
    if height is None:
        return " "
    if most <= 0 or height <= 0:
        return BARS[0]
    return BARS[min(int(height / most * len(BARS)), len(BARS) - 1)]


def _table(found: Mapping[str, Any], *, narrow: bool) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from hookgate.kit.rendering import cell

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in found["by"]:
        # The end of a session's key tells it apart from others.
        table.add_column(name, overflow="fold", ratio=1 if narrow else None)
    for title in ("calls", "in", "cached", "out", "cost", "saved"):
        table.add_column(title, justify="right", no_wrap=True)
    number = short if narrow else whole_number
    for group in found["groups"]:
        table.add_row(
            *(cell(group["of"][name]) for name in found["by"]),
            number(group["calls"]),
            number(group["input_tokens"]),
            _share(group["cache_read_tokens"], group["input_tokens"]),
            number(group["output_tokens"]),
            money(group["cost_usd"]) + ("*" if group["unpriced"] else ""),
            money(group["saved_usd"]) if Decimal(group["saved_usd"]) else "-",
        )
    return table


def _notes(found: Mapping[str, Any]) -> Iterable[str]:
    whole = found["whole"]
    if found["more"]:
        yield f"{counted(found['more'], 'group')} more: ask with a higher --limit"
    if whole["unpriced"]:
        yield (
            f"* {counted(whole['unpriced'], 'call')} of models without a known price, whose cost "
            "is in no sum: `hookgate prices check` names them"
        )
    if whole["estimated"]:
        yield (
            f"{counted(whole['estimated'], 'call')} with estimated tokens: the provider did not "
            "report them, or the answer was cut"
        )
    if whole["refused"]:
        yield f"{counted(whole['refused'], 'call')} refused, and never sent"
    if whole["failed"]:
        yield f"{counted(whole['failed'], 'call')} that did not end well"
    if found["waiting"]:
        yield (
            f"{counted(found['waiting'], 'call')} could not be recorded so far, and is missing "
            "here: see `hookgate status`"
        )
    if not found["durable"]:
        yield "no store: what is recorded is lost when the gateway stops"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if part else "-"


def whole_number(number: int) -> str:
    """Return a number with commas."""
    return f"{number:,}"


def short(number: int) -> str:
    """Return a number in at most five characters, such as ``12.3k``."""
    size = float(number)
    for unit in ("", "k", "M", "G"):
        if size < 999.5:
            return f"{size:.0f}{unit}" if not unit or size >= 99.95 else f"{size:.1f}{unit}"
        size /= 1000
    return f"{size:,.0f}T"


def money(text: str) -> str:
    """Return dollars for people: to the cent where there are many, never 0 where there are some."""
    amount = Decimal(text)
    sign, size = ("-", -amount) if amount < 0 else ("", amount)
    if not size:
        return "$0"
    if size < Decimal("0.0001"):
        return f"{sign}<$0.0001"
    return f"{sign}${size:,.2f}" if size >= 100 else f"{sign}${size:.4f}"
