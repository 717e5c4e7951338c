"""The waterfall of a turn: what ran, when, for how long, and what it decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from hookgate.kit.rendering import clean, one_line, short

if TYPE_CHECKING:
    from rich.console import Console

    from hookgate.cli.terminal.trace import Trace
    from hookgate.metrics import TraceRow

_STAGES = (
    ("receive_message", "before_turn", "tag_turn", "plan_turn"),
    ("withhold_capabilities", "select_capabilities", "sanitize_card"),
    ("before_context_build",),
    ("prepare_model_call", "before_model_call", "filter_stream", "after_model_call"),
    ("before_tool_call", "resolve_ask", "tool_decided", "after_tool_call", "tool_finished"),
    ("turn_ended", "judge_turn", "after_turn", "log_metrics", "hook_failed"),
)
_STAGE_OF = {hook: number for number, hooks in enumerate(_STAGES) for hook in hooks}
_STAGE_OF |= {"context": 2, "model": 3, "tool": 4}

_COLORS = {"hook": "cyan", "model": "magenta", "tool": "green", "context": "blue"}
_EIGHTHS = " ▏▎▍▌▋▊▉█"
NARROW = 100
"""Columns below which the table leaves out when something began."""

# The columns, in characters, and what rich puts between and around two of them.
_AT, _HOOK, _PLUGIN, _TOOK, _GAPS = 7, 22, 10, 7, 19


def print_waterfall(console: Console, trace: Trace, *, quiet: bool = False) -> None:
    """Print a turn's waterfall.

    Args:
        console: Where to.
        trace: The turn.
        quiet: Whether to leave out hooks that had nothing to say.
    """
    rows = [row for row in trace.rows() if not (quiet and row.said == "nothing")]
    console.print(_head(trace))
    if rows:
        console.print(_table(rows, console.width))
    _print_figures(console, trace)


def _head(trace: Trace) -> Text:
    style = {"done": "bold green", "awaiting_client": "bold green"}.get(trace.ending, "bold red")
    return Text.assemble(
        (trace.ending or "not begun", style),
        f" in {trace.milliseconds:,.1f} ms\n",
        (f"{trace.turn}, session {one_line(trace.session)}", "dim"),
    )


def _table(rows: Sequence[TraceRow], columns: int) -> Table:
    # On a narrow terminal the bars alone say when.
    timed = columns >= NARROW
    room = max(columns - _HOOK - _PLUGIN - _TOOK - _GAPS - (_AT if timed else -3), 20)
    width = min(room * 2 // 5, 32)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_footer=False)
    if timed:
        table.add_column("at ms", justify="right", style="dim", width=_AT)
    table.add_column("hook", no_wrap=True, width=_HOOK)
    table.add_column("plugin", style="cyan", no_wrap=True, width=_PLUGIN)
    table.add_column("", no_wrap=True, width=width)
    table.add_column("ms", justify="right", width=_TOOK)
    table.add_column("decided", no_wrap=True, width=room - width)
    whole = max((row.at + row.milliseconds for row in rows), default=0.0)
    stage = None
    for row in rows:
        fresh = _STAGE_OF.get(row.name if row.kind == "hook" else row.kind)
        if stage is not None and fresh != stage:
            table.add_section()
        stage = fresh
        table.add_row(
            *([f"{row.at:.1f}"] if timed else []),
            _name(row),
            one_line(row.plugin),
            _bar(row, whole, width),
            f"{row.milliseconds:.2f}",
            _said(row),
        )
    return table


def _name(row: TraceRow) -> Text:
    if row.kind == "hook":
        return Text(row.name)
    mark = {"model": "● ", "tool": "▸ ", "context": "▤ "}[row.kind]
    return Text("  " * row.depth + mark + one_line(row.name), style=f"bold {_COLORS[row.kind]}")


def _said(row: TraceRow) -> Text:
    if row.failed:
        return Text(short(row.said, 200), style="red")
    return Text(short(row.said, 200), style="dim" if row.said == "nothing" else "")


def _bar(row: TraceRow, whole: float, width: int) -> Text:
    """Return a bar at its place; its ends are eighths of a character."""
    if whole <= 0:
        return Text("▏", style="cyan")
    scale = width / whole
    begin = min(row.at * scale, width - 0.125)
    length = max(min(row.milliseconds * scale, width - begin), 0.125)
    left = int(begin)
    eighths = max(round((begin - left + length) * 8), 1)
    full, rest = divmod(min(eighths, (width - left) * 8), 8)
    style = "red" if row.failed else _COLORS[row.kind]
    bar = Text(" " * left)
    bar.append("█" * full + (_EIGHTHS[rest] if rest else ""), style=style)
    return bar


def _print_figures(console: Console, trace: Trace) -> None:
    figures = Table.grid(padding=(0, 2))
    figures.add_column(style="bold")
    figures.add_column(overflow="fold")
    for context in trace.contexts[:1]:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in context["by_kind"].items())
        left_out = sum(item["tokens"] for item in context["left_out"])
        told = f"{context['tokens']:,} of {context['budget']:,} tokens"
        told += f" ({kinds})" if kinds else ""
        told += f"; {left_out:,} tokens left out" if left_out else ""
        figures.add_row("context", told)
    usage = trace.usage
    if usage:
        counted = "" if usage.get("reported", True) else ", estimated"
        calls = len(trace.calls)
        figures.add_row(
            "model",
            f"{calls} call{'s' * (calls != 1)}, {usage['input_tokens']:,} tokens in, "
            f"{usage['output_tokens']:,} out{counted}",
        )
    hooks = [row for row in trace.rows() if row.kind == "hook"]
    if hooks:
        spent = sum(row.milliseconds for row in hooks)
        plugins = len({row.plugin for row in hooks})
        figures.add_row(
            "hooks", f"{len(hooks)} calls of {plugins} plugins, {spent:,.1f} ms together"
        )
    if trace.error:
        figures.add_row("error", Text(clean(str(trace.error.get("message", ""))), style="red"))
        if trace.error.get("action"):
            figures.add_row("", clean(str(trace.error["action"])))
    console.print(figures)
