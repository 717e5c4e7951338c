"""What a record of figures says, as readings of instruments.

Records come from any plugin, so nothing in them is taken for granted: a field that is missing or
is something else costs the reading that it would have been, and no other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hookgate.builtin_plugins.telemetry import conventions
from hookgate.builtin_plugins.telemetry.instruments import (
    AWARENESS_SELECTION,
    AWARENESS_TOKENS,
    AWARENESS_TRIPPED,
    AWARENESS_TURNS,
    CAPABILITIES_INJECTED,
    EVENTS,
    HOOK_FAILURES,
    MODEL_CALLS,
    MODEL_SECONDS,
    MODEL_TOKENS,
    TOOL_CALLS,
    TOOL_SECONDS,
    TURN_SECONDS,
    TURNS,
    Reading,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hookgate.builtin_plugins.telemetry.instruments import Instrument
    from hookgate.core.domain.metrics import MetricRecord
    from hookgate.core.hooks.caller import HookFailure

__all__ = ["OTHER", "readings_of", "readings_of_failure"]

OTHER = "other"
"""Stands for a label's value that is missing, or one too many."""

Fields = Mapping[str, Any]


def readings_of(record: MetricRecord) -> list[Reading]:
    """Return what `record` says. Raises nothing, whatever is in its fields."""
    read = _READERS.get(record.name)
    if read is None:
        return [Reading(EVENTS, labels=(_text(record.name),))]
    return list(read(record.fields))


def readings_of_failure(failure: HookFailure) -> list[Reading]:
    """Return the reading of one failed implementation of a hook."""
    return [Reading(HOOK_FAILURES, labels=(_text(failure.plugin), _text(failure.hook)))]


# -- one record ------------------------------------------------------------


def _turn(fields: Fields) -> Iterator[Reading]:
    yield Reading(TURNS, labels=(_text(fields.get("ending")),))
    yield from _seconds(TURN_SECONDS, fields.get("milliseconds"))


def _model_call(fields: Fields) -> Iterator[Reading]:
    model, ending = _text(fields.get("model")), _text(fields.get("ending"))
    yield Reading(MODEL_CALLS, labels=(model, ending))
    yield from _seconds(MODEL_SECONDS, fields.get("milliseconds"), model, ending)
    directions = (("input_tokens", conventions.INPUT), ("output_tokens", conventions.OUTPUT))
    for field, direction in directions:
        yield from _amount(MODEL_TOKENS, fields.get(field), model, direction)


def _tool_call(fields: Fields) -> Iterator[Reading]:
    tool = _text(fields.get("tool"))
    yield Reading(TOOL_CALLS, labels=(tool, _text(fields.get("status"))))
    yield from _seconds(TOOL_SECONDS, fields.get("milliseconds"), tool)


def _awareness_turn(fields: Fields) -> Iterator[Reading]:
    found = fields.get("injected")
    injected = found if isinstance(found, list | tuple) else ()
    session_type = _text(fields.get("sessionType"))
    yield Reading(AWARENESS_TURNS, labels=(session_type, "true" if injected else "false"))
    for one in injected:
        if isinstance(one, Mapping):
            yield Reading(CAPABILITIES_INJECTED, labels=(_text(one.get("id")),))
    yield from _amount(AWARENESS_TOKENS, fields.get("totalTokens"))
    yield from _seconds(AWARENESS_SELECTION, fields.get("selectionTimeMs"))


def _awareness_tripped(_: Fields) -> Iterator[Reading]:
    yield Reading(AWARENESS_TRIPPED, 1)


def _awareness_enabled(_: Fields) -> Iterator[Reading]:
    yield Reading(AWARENESS_TRIPPED, 0)


_READERS: Mapping[str, Callable[[Fields], Iterator[Reading]]] = {
    "turn": _turn,
    "model.call": _model_call,
    "tool.call": _tool_call,
    "awareness.turn": _awareness_turn,
    "awareness.tripped": _awareness_tripped,
    "awareness.enabled": _awareness_enabled,
}


# -- one field -------------------------------------------------------------


def _text(value: object) -> str:
    return value if isinstance(value, str) and value else OTHER


def _number(value: object) -> float | None:
    """Return `value` where it is a figure: finite, and not less than zero."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _amount(instrument: Instrument, value: object, *labels: str) -> Iterator[Reading]:
    number = _number(value)
    if number is not None:
        yield Reading(instrument, number, labels)


def _seconds(instrument: Instrument, milliseconds: object, *labels: str) -> Iterator[Reading]:
    number = _number(milliseconds)
    if number is not None:
        yield Reading(instrument, number / 1000, labels)
