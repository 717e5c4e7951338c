"""What happened in a turn, and when: its waterfall; following hooks, and measuring them."""

from __future__ import annotations

import asyncio
import fnmatch
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from hookgate.core.domain.errors import HookgateError, StartError
from hookgate.kit.rendering import clean, one_line, short
from hookgate.metrics import WATERFALL_EVENTS, TraceRow, waterfall

if TYPE_CHECKING:
    from rich.console import Console

    from hookgate.cli.client.local import Client, Stream
    from hookgate.cli.state import State
    from hookgate.core.domain.events import Event
    from hookgate.core.settings.schema import Settings
    from hookgate.gateway import Gateway

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


# -- the trace of a turn ---------------------------------------------------------

QUIET_SECONDS = 0.25
"""Silence after ``done`` that means that the hooks behind a turn have run, too."""
LAST_SECONDS = 5.0


@dataclass(slots=True)
class Trace:
    """The record of one turn.

    Attributes:
        turn: Its id.
        session: Its session's key.
        ending: How it ended.
        text: The answer.
        usage: The tokens of all model calls.
        error: What went wrong, where something did.
        contexts: What was packed for the model, call by call.
        calls: The tokens of each model call.
    """

    turn: str = ""
    session: str = ""
    ending: str = ""
    text: str = ""
    usage: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None
    contexts: list[Mapping[str, Any]] = field(default_factory=list)
    calls: list[Mapping[str, Any]] = field(default_factory=list)
    _began: float = field(default_factory=time.perf_counter)
    _took: float = 0.0
    _heard: list[Mapping[str, Any]] = field(default_factory=list)

    # -- taking ------------------------------------------------------------

    def take(self, kind: str, data: Mapping[str, Any]) -> None:
        """Take an event that the turn's client gets."""
        match kind:
            case "context":
                self.contexts.append(data)
            case "usage":
                self.calls.append(data)
            case "error":
                self.error = dict(data)
            case "done":
                self._took = time.perf_counter() - self._began
                self.turn, self.session = data["turn"], data["session"]
                self.ending, self.text, self.usage = data["ending"], data["text"], data["usage"]

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take an event of the gateway's bus: hook spans, and the turn's own, in one order."""
        self._heard.append(event)

    @property
    def heard(self) -> int:
        """How many events of the bus have come."""
        return len(self._heard)

    # -- telling -----------------------------------------------------------

    @property
    def milliseconds(self) -> float:
        """How long the turn took, from sending the message to ``done``."""
        return self._took * 1000

    def rows(self) -> list[TraceRow]:
        """Return everything in the order in which it began."""
        heard = [event for event in self._heard if event["turn"] == self.turn]
        return waterfall(heard)

    def to_json(self) -> dict[str, Any]:
        """Return the whole record for programs."""
        return {
            "turn": self.turn,
            "session": self.session,
            "ending": self.ending,
            "text": self.text,
            "error": self.error,
            "milliseconds": round(self.milliseconds, 3),
            "usage": dict(self.usage),
            "context": self.contexts,
            "model_calls": self.calls,
            "rows": [row.to_json() for row in self.rows()],
        }


async def traced(
    client: Client,
    params: Mapping[str, Any],
    *,
    spans: bool,
    hear: Callable[[str, Mapping[str, Any]], Awaitable[None]],
) -> Trace:
    """Send a message and return what became of it.

    Args:
        client: The gateway.
        params: What ``chat.send`` takes.
        spans: Whether to record hooks.
        hear: Called with each event of the turn.

    Raises:
        HookgateError: The message did not become a turn.
    """
    trace = Trace()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(failing_hooks(client, hear))
        if spans:
            wanted = {"types": list(WATERFALL_EVENTS), "spans": True}
            watched = await stack.enter_async_context(client.stream("events.subscribe", wanted))
            await watched.result()
            task = asyncio.create_task(_watch(watched, trace))
            stack.callback(task.cancel)
        async with client.stream("chat.send", params) as stream:
            async for kind, data in stream:
                trace.take(kind, data)
                await hear(kind, data)
            await stream.result()
        if spans:
            await _until_quiet(trace)
    return trace


@asynccontextmanager
async def failing_hooks(
    client: Client, hear: Callable[[str, Mapping[str, Any]], Awaitable[None]]
) -> AsyncIterator[None]:
    """Hear which hooks fail meanwhile and are skipped, each once.

    What a turn goes without is worth a line to whoever runs the gateway; a client that may not
    know hears of nothing.
    """
    async with AsyncExitStack() as stack:
        wanted = client.stream("events.subscribe", {"types": ["hook_failed"]})
        try:
            watched = await stack.enter_async_context(wanted)
            await watched.result()
        except HookgateError:
            yield
            return
        task = asyncio.create_task(_hear_failures(watched, hear))
        stack.callback(task.cancel)
        yield
        # What was told before the turn's end is there by now, and waits to be read.
        await asyncio.sleep(0)


async def _hear_failures(
    stream: Stream, hear: Callable[[str, Mapping[str, Any]], Awaitable[None]]
) -> None:
    told: set[tuple[str, ...]] = set()
    with suppress(HookgateError):
        async for kind, event in stream:
            data = event.get("data", {})
            known = tuple(str(data.get(part)) for part in ("plugin", "hook", "message"))
            if kind == "event" and data.get("skipped") and known not in told:
                told.add(known)
                await hear("hook_failed", data)


async def _watch(stream: Stream, trace: Trace) -> None:
    async for kind, event in stream:
        if kind == "event":
            trace.hear(event)


async def _until_quiet(trace: Trace) -> None:
    """Wait until no spans come any more: what follows a turn runs behind ``done``."""
    end = time.monotonic() + LAST_SECONDS
    heard = -1
    while heard != trace.heard and time.monotonic() < end:
        heard = trace.heard
        await asyncio.sleep(QUIET_SECONDS)


# -- Following hooks, and measuring them -----------------------------------------


async def follow(state: State, hook: str, plugin: str, *, quiet: bool) -> None:
    """Print spans of the running gateway until it ends or the user interrupts."""
    if await state.running() is None:
        raise StartError(
            "no gateway runs with these settings, so there is nothing to follow: start one with "
            "`hookgate serve`, or look at a single turn with `hookgate turn TEXT --explain`"
        )
    client = await state.client()
    params = {"types": ["hook"], "spans": True}
    async with client.stream("events.subscribe", params) as stream:
        if not state.json:
            state.err.print(f"Following the hooks of {client.where}; Ctrl-C ends it.", style="dim")
        async for kind, event in stream:
            if kind == "event" and _wanted(event["data"], hook, plugin, quiet=quiet):
                _print_span(state, event)


def _wanted(span: Mapping[str, Any], hook: str, plugin: str, *, quiet: bool) -> bool:
    return (
        fnmatch.fnmatchcase(span["hook"], hook)
        and fnmatch.fnmatchcase(span["plugin"], plugin)
        and not (quiet and span["outcome"] == "nothing")
    )


def _print_span(state: State, event: Mapping[str, Any]) -> None:
    from rich.text import Text

    from hookgate.kit.rendering import short

    span = event["data"]
    if state.json:
        import orjson

        print(orjson.dumps({"turn": event["turn"], **span}).decode(), flush=True)
        return
    line = Text(time.strftime("%H:%M:%S "), style="dim")
    line.append(f"{event['turn'][-6:]:<6} ", style="dim")
    line.append(f"{span['milliseconds']:9.3f} ms  ")
    line.append(f"{span['hook']:<22} ", style="bold")
    line.append(f"{span['plugin']:<12} ", style="cyan")
    line.append(short(span["outcome"]), style="red" if span["failed"] else "")
    state.out.print(line, soft_wrap=True)


def isolated(settings: Settings, home: str, *, demo: bool = False) -> Settings:
    """Return `settings` with an empty home, for a gateway that leaves the user's alone.

    The plugins' sections stay as they are: a store that is elsewhere by them stays there.

    Args:
        settings: The user's.
        home: The folder in place of theirs.
        demo: Whether the demo agent takes the place of theirs.
    """
    log = settings.log.model_copy(update={"level": "error"})
    others: dict[str, Any] = {"agents": {}, "bindings": (), "default_agent": None} if demo else {}
    return settings.model_copy(update={"home": Path(home), "log": log, **others})


async def measure(state: State, turns: int, text: str) -> dict[str, Any]:
    """Run turns and return what each hook of each plugin took of them."""
    with tempfile.TemporaryDirectory(prefix="hookgate-bench-") as home:
        async with state.gateway(isolated(state.settings, home, demo=True)) as gateway:
            await _turn(gateway, text, 0)
            spans: dict[tuple[str, str], list[float]] = {}

            def count(event: Event) -> bool:
                # Taken where it is published: a queue could overflow.
                if event.type == "hook":
                    key = (event.data["hook"], event.data["plugin"])
                    spans.setdefault(key, []).append(event.data["milliseconds"])
                return False

            whole = [await _turn(gateway, text, number) for number in range(1, turns // 2 + 2)]
            with gateway.host.events.subscribe(
                scopes=frozenset({"operate"}), capacity=1, where=count, spans=True
            ):
                watched = [
                    await _turn(gateway, text, number) for number in range(1000, 1000 + turns)
                ]
            return _summary(spans, turns, whole, watched)


async def _turn(gateway: Gateway, text: str, number: int) -> float:
    """Run a turn in a session of its own; return its milliseconds."""
    from hookgate.core.domain.turn import Address

    start = time.perf_counter()
    turn = await gateway.chat(text, address=Address("bench", "local", f"turn-{number}"))
    taken = (time.perf_counter() - start) * 1000
    if turn.error is not None:
        raise HookgateError(f"a turn of the measurement failed: {turn.error}")
    return taken


def _summary(
    spans: Mapping[tuple[str, str], list[float]],
    turns: int,
    whole: list[float],
    watched: list[float],
) -> dict[str, Any]:
    rows = [
        {
            "hook": hook,
            "plugin": plugin,
            "calls_per_turn": round(len(times) / turns, 2),
            "median_us": round(statistics.median(times) * 1000, 1),
            "p95_us": round(_percentile(times, 0.95) * 1000, 1),
            "us_per_turn": round(sum(times) * 1000 / turns, 1),
        }
        for (hook, plugin), times in spans.items()
    ]
    rows.sort(key=lambda row: -float(str(row["us_per_turn"])))
    return {
        "hooks": rows,
        "turns": turns,
        "turn_median_ms": round(statistics.median(whole), 3),
        "turn_p95_ms": round(_percentile(whole, 0.95), 3),
        "turn_median_ms_while_traced": round(statistics.median(watched), 3),
        "hooks_ms_per_turn": round(sum(map(sum, spans.values())) / turns, 3),
    }


def _percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
