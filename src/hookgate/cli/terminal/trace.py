"""What happened in a turn, and when; following hooks, and measuring them."""

from __future__ import annotations

import asyncio
import fnmatch
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hookgate.core.domain.errors import HookgateError, StartError

if TYPE_CHECKING:
    from hookgate.cli.client.local import Client, Stream
    from hookgate.cli.state import State
    from hookgate.core.domain.events import Event
    from hookgate.core.settings.schema import Settings
    from hookgate.gateway import Gateway

QUIET_SECONDS = 0.25
"""Silence after ``done`` that means that the hooks behind a turn have run, too."""
LAST_SECONDS = 5.0

_TOLD = ("hook", "context", "usage", "tool_use", "tool_result")
_BEFORE_MODEL = frozenset(("before_context_build", "prepare_model_call", "before_model_call"))
_BEFORE_TOOL = frozenset(("before_tool_call", "resolve_ask", "tool_decided"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRow:
    """One line of the waterfall.

    Attributes:
        kind: A hook's implementation, a model call, a tool call, or what was packed.
        name: The hook or the tool.
        plugin: Whose it is.
        at: Milliseconds since the turn's first sign.
        milliseconds: How long it took.
        said: What it decided, or what came of it.
        failed: Whether it failed.
    """

    kind: Literal["hook", "model", "tool", "context"]
    name: str
    plugin: str = ""
    at: float = 0.0
    milliseconds: float = 0.0
    said: str = ""
    failed: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the row for programs."""
        return {
            "kind": self.kind,
            "name": self.name,
            "plugin": self.plugin,
            "at_ms": round(self.at, 3),
            "ms": round(self.milliseconds, 3),
            "said": self.said,
            "failed": self.failed,
        }


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
        if not heard:
            return []
        spans = [event["data"] for event in heard if event["type"] == "hook"]
        events = [event for event in heard if event["type"] != "hook"]
        zero = min([span["at"] for span in spans] + [event["at"] for event in events])
        rows = [_span_row(span, zero) for span in spans] + _event_rows(events, spans, zero)
        return sorted(rows, key=lambda row: row.at)

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


def _end(span: Mapping[str, Any]) -> float:
    return float(span["at"]) + float(span["milliseconds"]) / 1000


def _span_row(span: Mapping[str, Any], zero: float) -> TraceRow:
    return TraceRow(
        kind="hook",
        name=span["hook"],
        plugin=span["plugin"],
        at=(span["at"] - zero) * 1000,
        milliseconds=span["milliseconds"],
        said=span["outcome"],
        failed=span["failed"],
    )


def _event_rows(
    events: list[Mapping[str, Any]], spans: list[Mapping[str, Any]], zero: float
) -> list[TraceRow]:
    """Return rows for what lies between the hooks: contexts, model calls, tool calls."""
    rows: list[TraceRow] = []
    uses: dict[str, Mapping[str, Any]] = {}
    since = zero
    for event in events:
        data, at = event["data"], event["at"]
        match event["type"]:
            case "tool_use":
                uses[data["id"]] = event
                continue
            case "context":
                said = f"{data['tokens']:,} of {data['budget']:,} tokens"
                rows.append(_row("context", "context packed", at, at, zero, said))
            case "usage":
                begin = _last_end(spans, _BEFORE_MODEL, since, at)
                said = f"{data['input_tokens']:,} tokens in, {data['output_tokens']:,} out"
                rows.append(_row("model", "model", begin, at, zero, said))
            case "tool_result":
                use = uses.get(data["tool_use_id"])
                name = str(use["data"]["name"]) if use else "tool"
                begin = _last_end(spans, _BEFORE_TOOL, use["at"] if use else since, at)
                row = _row("tool", name, begin, at, zero, str(data["content"]))
                rows.append(replace(row, failed=bool(data["is_error"])))
        since = at
    return rows


def _row(
    kind: Literal["hook", "model", "tool", "context"],
    name: str,
    begin: float,
    end: float,
    zero: float,
    said: str,
) -> TraceRow:
    return TraceRow(
        kind=kind,
        name=name,
        at=(begin - zero) * 1000,
        milliseconds=max(end - begin, 0.0) * 1000,
        said=said,
    )


def _last_end(
    spans: list[Mapping[str, Any]], hooks: frozenset[str], since: float, until: float
) -> float:
    """Return when the last of these hooks ended between two times; `since` if none did."""
    ends = (_end(span) for span in spans if span["hook"] in hooks)
    return max((end for end in ends if since <= end <= until), default=since)


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
        if spans:
            wanted = {"types": list(_TOLD), "spans": True}
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
            if kind == "events.missed":
                state.err.print(f"{event['events']} events were missed", style="yellow")
            elif kind == "event" and _wanted(event["data"], hook, plugin, quiet=quiet):
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
