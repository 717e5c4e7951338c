"""Texts of an answer that came together are one piece, with the frames of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hookgate import Frame, ModelEvent, ReasoningDelta, TextDelta
from hookgate.builtin_plugins.providers.frames import joined
from hookgate.wire import Raw, came_as

WIRE = "anthropic-messages"


class Said:
    """A reader of events that are one text each, by its name."""

    frames = None

    def __init__(self, *events: ModelEvent) -> None:
        self.events = {str(place).encode(): event for place, event in enumerate(events)}

    def read(self, data: bytes) -> Sequence[ModelEvent]:
        return (self.events[data],)


def came(event: ModelEvent, data: object) -> ModelEvent:
    return came_as(event, Raw(wire=WIRE, data=data))


def told(*events: ModelEvent) -> list[tuple[ModelEvent, object]]:
    reader: Any = Said(*events)
    return [(one, one.raw.data if one.raw else None) for one in joined(reader, list(reader.events))]


def test_text_behind_text_is_one_piece_with_the_frames_of_all() -> None:
    texts = [came(TextDelta(text), {"n": n}) for n, text in enumerate("abc")]
    assert told(*texts) == [(TextDelta("abc"), [{"n": 0}, {"n": 1}, {"n": 2}])]


def test_one_text_is_what_it_was() -> None:
    one = came(TextDelta("a"), {"n": 0})
    reader: Any = Said(one)
    (same,) = joined(reader, list(reader.events))
    assert same is one


@pytest.mark.parametrize(
    "between",
    [Frame(Raw(wire=WIRE, data={"n": "f"})), came(ReasoningDelta("t"), {"n": "r"}), TextDelta("x")],
)
def test_what_comes_between_stays_between(between: ModelEvent) -> None:
    first, last = came(TextDelta("a"), {"n": 0}), came(TextDelta("b"), {"n": 1})
    assert [one for one, _ in told(first, between, last)] == [first, between, last]
