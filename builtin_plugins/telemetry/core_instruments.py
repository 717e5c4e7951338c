"""What the core measures, and the names that OpenTelemetry's conventions give to it."""

from __future__ import annotations

from hookgate import Instrument, Label, RecordSource
from hookgate.metrics import OTHER

TOKEN_USAGE = "gen_ai.client.token.usage"
"""A histogram of tokens, one measurement for each model call and direction."""
OPERATION_DURATION = "gen_ai.client.operation.duration"
"""A histogram of seconds, one measurement for each model call."""

OPERATION_NAME = "gen_ai.operation.name"
PROVIDER_NAME = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
TOKEN_TYPE = "gen_ai.token.type"
TOOL_NAME = "gen_ai.tool.name"
ERROR_TYPE = "error.type"

CHAT = "chat"
"""The value of `OPERATION_NAME` for every model call of a turn."""
INPUT = "input"
OUTPUT = "output"
"""The values of `TOKEN_TYPE`."""

DURATION_BOUNDARIES = tuple(0.01 * 2**step for step in range(14))
"""Seconds, 0.01 to 81.92: the boundaries that the conventions recommend."""
TOKEN_BOUNDARIES = tuple(float(4**step) for step in range(14))
"""Tokens, 1 to 67,108,864: the boundaries that the conventions recommend."""


# -- What the core measures: turns, and calls of models and tools ----------------

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
    attribute=ERROR_TYPE,
)
_MODEL = Label(name="model", attribute=REQUEST_MODEL)
_TOOL = Label(name="tool", attribute=TOOL_NAME)

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
    boundaries=DURATION_BOUNDARIES,
    otel=OPERATION_DURATION,
    unit="s",
)
MODEL_TOKENS = Instrument(
    name="hookgate_model_tokens",
    help="Tokens of model calls, cached and reasoning ones included.",
    sources=tuple(
        RecordSource(record="model.call", value=value, labels={"direction": direction})
        for value, direction in (
            ("input_tokens", INPUT),
            ("output_tokens", OUTPUT),
        )
    ),
    labels=(
        _MODEL,
        _one_of(
            "direction",
            *(INPUT, OUTPUT),
            attribute=TOKEN_TYPE,
        ),
    ),
    boundaries=TOKEN_BOUNDARIES,
    otel=TOKEN_USAGE,
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
