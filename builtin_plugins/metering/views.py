"""What commands show of usage, budgets and prices."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hookgate import counted
from hookgate.kit.rendering import cell, clean, listing, plain_table, table

BAR = 12
"""Characters of a bar."""
BARS = "▁▂▃▄▅▆▇█"
NARROW = 100
"""Columns of a terminal below which numbers are shortened."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a text begins with that a spreadsheet would take for a formula, or pass over."""
INPUT, OUTPUT = "input_tokens", "output_tokens"
SHOWN = (INPUT, "cache_read_tokens", "cache_write_tokens", "cache_write_hour_tokens", OUTPUT)

Form = Annotated[Literal["table", "csv"], typer.Option("--format", help="How to print it.")]

# -- usage -----------------------------------------------------------------


def usage(found: Mapping[str, Any], *, width: int, form: Form = "table") -> Iterator[Any]:
    """Show sums of calls, or the groups as CSV."""
    if form == "csv":
        yield lambda _: typer.echo(to_csv(found), nl=False)
        return
    if not found["whole"]["calls"]:
        yield "no model calls are recorded that fit: nothing was used"
    else:
        yield Padding(_headline(found["days"], found["whole"], width), 0, expand=False)
        if found["by"]:
            yield _table(found, narrow=width < NARROW)
    for line in _notes(found):
        yield Padding(Text(line, style="yellow"), 0, expand=False)


def to_csv(found: Mapping[str, Any]) -> str:
    """Return the groups as CSV. No text in it is a formula to a spreadsheet."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    numbers = list(found["whole"])
    writer.writerow([*found["by"], *numbers])
    for group in found["groups"]:
        words = [_harmless(group["of"][name]) for name in found["by"]]
        writer.writerow([*words, *(group[name] for name in numbers)])
    return out.getvalue()


def _harmless(text: str) -> str:
    # Spaces in front do not keep a spreadsheet from reading a formula.
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA) else text


def _headline(days: Sequence[Mapping[str, Any]], whole: Mapping[str, Any], width: int) -> Any:
    """Return a line for the sum of all, behind a bar for each day."""
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
    return "".join(_tick(heights.get(day), most) for day in shown)


def _tick(height: Decimal | None, most: Decimal) -> str:
    if height is None:
        return " "
    if most <= 0 or height <= 0:
        return BARS[0]
    return BARS[min(int(height / most * len(BARS)), len(BARS) - 1)]


def _table(found: Mapping[str, Any], *, narrow: bool) -> Table:
    figures = ("calls", "in", "cached", "out", "cost", "saved")
    # The end of a session's key tells it apart from others: it is folded, not cut.
    table = plain_table(*found["by"], *figures, right=figures)
    number = short if narrow else "{:,}".format
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


_NOTES = {
    "unpriced": "* {} of models without a known price, whose cost is in no sum: "
    "`hookgate prices check` names them",
    "estimated": "{} with estimated tokens: the provider did not report them, or the answer was "
    "cut",
    "refused": "{} refused, and never sent",
    "failed": "{} that did not end well",
    "waiting": "{} could not be recorded so far, and is missing here: see `hookgate status`",
}
"""What is told of calls, by the count of them."""


def _notes(found: Mapping[str, Any]) -> Iterable[str]:
    if found["more"]:
        yield f"{counted(found['more'], 'group')} more: ask with a higher --limit"
    counts = {**found["whole"], "waiting": found["waiting"]}
    for name, text in _NOTES.items():
        if counts[name]:
            yield text.format(counted(counts[name], "call"))
    if not found["durable"]:
        yield "no store: what is recorded is lost when the gateway stops"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if part else "-"


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


# -- budgets ---------------------------------------------------------------


def budgets(found: Mapping[str, Any]) -> Iterator[Any]:
    """Show what is limited, and how far it is used."""
    if found["budgets"]:
        yield _counters(found["budgets"])
    else:
        yield (
            "no budgets: `hookgate budgets set NAME --tokens 100000` makes one, or a section "
            "`[plugin.metering.budgets.NAME]` of the settings"
        )
    if any(one["used"] > len(one["counters"]) for one in found["budgets"]):
        yield Text("`--limit`, `--subject` and `--share` choose others", style="dim")
    for session, why in found["paused"].items():
        yield Text(clean(f"paused: {session}: {why}"), style="yellow")


def _counters(budgets: list[Mapping[str, Any]]) -> Table:
    right = ("used", "held", "limit")
    table = plain_table("budget", "for each", "of", *right, "", right=right)
    for one in budgets:
        whose = one["scope"] if one["of"] == "*" else f"{one['scope']} {one['of']}"
        table.add_row(one["name"], whose, one["window"], "", "", one["limit"], one["over"])
        for counter in one["counters"]:
            _, subject, window = counter["key"].split("/", 2)
            table.add_row(
                "", subject, window, counter["used"], counter["held"], "", _bar(counter["share"])
            )
        if (more := one["used"] - len(one["counters"])) > 0:
            full = f", {one['full']} full in all" if one["full"] else ""
            table.add_row("", Text(f"and {more} more{full}", style="dim"), "", "", "", "", "")
    return table


def _bar(share: float) -> Text:
    style = "red" if share >= 1 else "yellow" if share >= 0.8 else "green"
    full = min(round(share * BAR), BAR)
    return Text.assemble(("█" * full, style), ("░" * (BAR - full), "dim"), f" {share:.0%}")


# -- prices ----------------------------------------------------------------


def prices(found: Mapping[str, Any]) -> Iterator[Any]:
    """Show what models cost."""
    if not found["models"]:
        yield "no agent of the settings asks a model; `prices show MODEL` shows any"
        return
    yield table([_priced(one) for one in found["models"]])
    for one in found["models"]:
        if one["action"]:
            yield Text(clean(f"{one['model']}: {one['action']}"), style="yellow")


def checked(found: Mapping[str, Any]) -> Iterator[str | Text]:
    """Show whether it is known what models cost."""
    if not found["models"]:
        yield "no agent of the settings asks a model"
    for one in found["models"]:
        agents = ", ".join(one["agents"])
        line = Text.assemble(_state(one["state"]), f" {clean(one['model'])} ({clean(agents)})")
        yield line.append(f"\n    {clean(one['action'] or one['source'])}", style="dim")


def _priced(one: Mapping[str, Any]) -> Mapping[str, Any]:
    known = one["prices"]
    said = [f"{one['fee']} a call"] if one["fee"] != "0" else []
    said += [
        f"{kind.removesuffix('_tokens').replace('_', ' ')} {_price(price)}"
        for kind, price in known.items()
        if kind not in SHOWN and price not in (known[INPUT], known[OUTPUT])
    ]
    return {
        "model": one["model"],
        "state": _state(one["state"]),
        **{kind.removesuffix("_tokens"): _price(known[kind]) for kind in SHOWN},
        "others": ", ".join(said),
        "from": f"{one['source']}\n{one['version']}",
    }


def _price(price: Mapping[str, Any]) -> str:
    steps = "".join(f"\n{step['usd']} above {step['above']:,}" for step in price["steps"])
    return f"{price['usd']}{steps}"


def _state(state: str) -> Text:
    return Text(state, style={"known": "green", "free": "green"}.get(state, "bold red"))


VIEWS = {
    "budgets.show": budgets,
    "calls.list": listing(
        "calls",
        "no model was called in this session: `hookgate sessions list` names those there are",
        *("at", "model", "cause", "status", "input_tokens", "output_tokens", "cost_usd"),
    ),
    "prices.check": checked,
    "prices.show": prices,
    "usage": usage,
}
