"""What the core measures: turns, and calls of models and tools."""

from __future__ import annotations

from hookgate import Instrument, Label, RecordSource
from hookgate.builtin_plugins.telemetry import conventions
from hookgate.metrics import OTHER

TURN_BOUNDARIES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
TOOL_BOUNDARIES = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)


def _one_of(name: str, *values: str, attribute: str = "") -> Label:
    return Label(name=name, attribute=attribute, values=frozenset((*values, OTHER)))


def _count(record: str) -> tuple[RecordSource, ...]:
    return (RecordSource(record=record),)


def _seconds(record: str) -> tuple[RecordSource, ...]:
    return (RecordSource(record=record, value="milliseconds", scale=0.001),)


_TURN_ENDING = _one_of("ending", "done", "awaiting_client", "refused", "failed", "cancelled")
_CALL_ENDING = _one_of(
    "ending",
    *("done", "refused", "failed", "cut", "cancelled"),
    attribute=conventions.ERROR_TYPE,
)
_MODEL = Label(name="model", attribute=conventions.REQUEST_MODEL)
_TOOL = Label(name="tool", attribute=conventions.TOOL_NAME)

TURNS = Instrument(
    name="hookgate_turns",
    help="Turns that have ended.",
    sources=_count("turn"),
    labels=(_TURN_ENDING,),
    unit="{turn}",
)
TURN_SECONDS = Instrument(
    name="hookgate_turn_seconds",
    help="Seconds from a message to the end of its turn.",
    kind="histogram",
    sources=_seconds("turn"),
    boundaries=TURN_BOUNDARIES,
    otel="hookgate.turn.duration",
    unit="s",
)
MODEL_CALLS = Instrument(
    name="hookgate_model_calls",
    help="Attempts at a model, refused ones too.",
    sources=_count("model.call"),
    labels=(_MODEL, _CALL_ENDING),
    unit="{call}",
)
MODEL_SECONDS = Instrument(
    name="hookgate_model_seconds",
    help="Seconds of an attempt at a model, to the end of its answer.",
    kind="histogram",
    sources=_seconds("model.call"),
    labels=(_MODEL, _CALL_ENDING),
    boundaries=conventions.DURATION_BOUNDARIES,
    otel=conventions.OPERATION_DURATION,
    unit="s",
)
MODEL_TOKENS = Instrument(
    name="hookgate_model_tokens",
    help="Tokens of model calls, cached and reasoning ones included.",
    sources=tuple(
        RecordSource(record="model.call", value=value, labels={"direction": direction})
        for value, direction in (
            ("input_tokens", conventions.INPUT),
            ("output_tokens", conventions.OUTPUT),
        )
    ),
    labels=(
        _MODEL,
        _one_of(
            "direction",
            *(conventions.INPUT, conventions.OUTPUT),
            attribute=conventions.TOKEN_TYPE,
        ),
    ),
    boundaries=conventions.TOKEN_BOUNDARIES,
    otel=conventions.TOKEN_USAGE,
    otel_kind="histogram",
    unit="{token}",
)
TOOL_CALLS = Instrument(
    name="hookgate_tool_calls",
    help="Tool calls that were judged, denied ones too.",
    sources=_count("tool.call"),
    labels=(_TOOL, _one_of("status", "done", "failed", "denied", "cancelled", "timeout")),
    unit="{call}",
)
TOOL_SECONDS = Instrument(
    name="hookgate_tool_seconds",
    help="Seconds of a tool call that ran here.",
    kind="histogram",
    sources=_seconds("tool.call"),
    labels=(_TOOL,),
    boundaries=TOOL_BOUNDARIES,
    otel="hookgate.tool.duration",
    unit="s",
)

CORE_INSTRUMENTS = (
    TURNS,
    TURN_SECONDS,
    MODEL_CALLS,
    MODEL_SECONDS,
    MODEL_TOKENS,
    TOOL_CALLS,
    TOOL_SECONDS,
)
