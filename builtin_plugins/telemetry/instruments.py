"""Every figure that is kept: its name on either side, its kind and its labels.

No label names a session, a turn, a person or a message: those have no end, and each of their
values would be one more series for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from hookgate.builtin_plugins.telemetry import conventions

__all__ = [
    "AWARENESS_SELECTION",
    "AWARENESS_TOKENS",
    "AWARENESS_TRIPPED",
    "AWARENESS_TURNS",
    "CAPABILITIES_INJECTED",
    "EVENTS",
    "HOOK_FAILURES",
    "INSTRUMENTS",
    "MODEL_CALLS",
    "MODEL_SECONDS",
    "MODEL_TOKENS",
    "TOOL_CALLS",
    "TOOL_SECONDS",
    "TURNS",
    "TURN_SECONDS",
    "Instrument",
    "Kind",
    "Label",
    "Reading",
]

Kind: TypeAlias = Literal["counter", "histogram", "gauge"]

TURN_BOUNDARIES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
TOOL_BOUNDARIES = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)
# Awareness is to take less than 10 ms.
SELECTION_BOUNDARIES = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a figure is told apart by.

    Attributes:
        name: The label's name for Prometheus.
        attribute: The attribute's name for OpenTelemetry.
        values: All that it can be; None where that comes from outside.
    """

    name: str
    attribute: str
    values: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """One figure.

    Attributes:
        name: The name for Prometheus, without the ``_total`` of a counter.
        help: What it counts, in a sentence.
        kind: What is done with readings: added up, put into buckets, or kept as the last one.
        labels: What it is told apart by.
        boundaries: The upper ends of a histogram's buckets.
        otel: The name for OpenTelemetry.
        otel_kind: The kind for OpenTelemetry, where it is another one.
        unit: The unit in UCUM, as OpenTelemetry writes it.
    """

    name: str
    help: str
    kind: Kind = "counter"
    labels: tuple[Label, ...] = ()
    boundaries: tuple[float, ...] = ()
    otel: str
    otel_kind: Kind | None = None
    unit: str


class Reading(NamedTuple):
    """One value for one instrument.

    Attributes:
        instrument: The figure.
        value: What is added, put into a bucket, or kept.
        labels: One value for each of the instrument's labels, in their order.
    """

    instrument: Instrument
    value: float = 1
    labels: tuple[str, ...] = ()


def _one_of(name: str, *values: str, attribute: str = "") -> Label:
    return Label(
        name=name, attribute=attribute or f"hookgate.{name}", values=frozenset((*values, "other"))
    )


def _open(name: str, *, attribute: str = "") -> Label:
    return Label(name=name, attribute=attribute or f"hookgate.{name}")


_TURN_ENDING = _one_of("ending", "done", "awaiting_client", "refused", "failed", "cancelled")
_CALL_ENDING = _one_of(
    "ending",
    *("done", "refused", "failed", "cut", "cancelled"),
    attribute=conventions.ERROR_TYPE,
)
_MODEL = _open("model", attribute=conventions.REQUEST_MODEL)
_TOOL = _open("tool", attribute=conventions.TOOL_NAME)

TURNS = Instrument(
    name="hookgate_turns",
    help="Turns that have ended.",
    labels=(_TURN_ENDING,),
    otel="hookgate.turns",
    unit="{turn}",
)
TURN_SECONDS = Instrument(
    name="hookgate_turn_seconds",
    help="Seconds from a message to the end of its turn.",
    kind="histogram",
    boundaries=TURN_BOUNDARIES,
    otel="hookgate.turn.duration",
    unit="s",
)
MODEL_CALLS = Instrument(
    name="hookgate_model_calls",
    help="Attempts at a model, refused ones too.",
    labels=(_MODEL, _CALL_ENDING),
    otel="hookgate.model.calls",
    unit="{call}",
)
MODEL_SECONDS = Instrument(
    name="hookgate_model_seconds",
    help="Seconds of an attempt at a model, to the end of its answer.",
    kind="histogram",
    labels=(_MODEL, _CALL_ENDING),
    boundaries=conventions.DURATION_BOUNDARIES,
    otel=conventions.OPERATION_DURATION,
    unit="s",
)
MODEL_TOKENS = Instrument(
    name="hookgate_model_tokens",
    help="Tokens of model calls, cached and reasoning ones included.",
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
    labels=(_TOOL, _one_of("status", "done", "failed", "denied", "cancelled", "timeout")),
    otel="hookgate.tool.calls",
    unit="{call}",
)
TOOL_SECONDS = Instrument(
    name="hookgate_tool_seconds",
    help="Seconds of a tool call that ran here.",
    kind="histogram",
    labels=(_TOOL,),
    boundaries=TOOL_BOUNDARIES,
    otel="hookgate.tool.duration",
    unit="s",
)
AWARENESS_TURNS = Instrument(
    name="hookgate_awareness_turns",
    help="Turns that awareness has looked at, with or without a card injected.",
    labels=(
        _one_of("session_type", "main", "isolated"),
        _one_of("injected", "true", "false"),
    ),
    otel="hookgate.awareness.turns",
    unit="{turn}",
)
AWARENESS_TOKENS = Instrument(
    name="hookgate_awareness_tokens",
    help="Tokens of injected cards.",
    otel="hookgate.awareness.tokens",
    unit="{token}",
)
CAPABILITIES_INJECTED = Instrument(
    name="hookgate_capabilities_injected",
    help="Injections of a capability's card.",
    labels=(_open("capability"),),
    otel="hookgate.capabilities.injected",
    unit="{card}",
)
AWARENESS_SELECTION = Instrument(
    name="hookgate_awareness_selection_seconds",
    help="Seconds in which awareness chose the cards of a turn.",
    kind="histogram",
    boundaries=SELECTION_BOUNDARIES,
    otel="hookgate.awareness.selection.duration",
    unit="s",
)
AWARENESS_TRIPPED = Instrument(
    name="hookgate_awareness_tripped",
    help="1 once awareness has turned itself off in this process, 0 when it is on again.",
    kind="gauge",
    otel="hookgate.awareness.tripped",
    unit="1",
)
HOOK_FAILURES = Instrument(
    name="hookgate_hook_failures",
    help="Implementations of a hook that failed.",
    labels=(_open("plugin"), _open("hook")),
    otel="hookgate.hook.failures",
    unit="{failure}",
)
EVENTS = Instrument(
    name="hookgate_events",
    help="Records of figures that stand in no metric of their own.",
    labels=(_open("name", attribute="hookgate.event.name"),),
    otel="hookgate.events",
    unit="{event}",
)

INSTRUMENTS = (
    TURNS,
    TURN_SECONDS,
    MODEL_CALLS,
    MODEL_SECONDS,
    MODEL_TOKENS,
    TOOL_CALLS,
    TOOL_SECONDS,
    AWARENESS_TURNS,
    AWARENESS_TOKENS,
    CAPABILITIES_INJECTED,
    AWARENESS_SELECTION,
    AWARENESS_TRIPPED,
    HOOK_FAILURES,
    EVENTS,
)
