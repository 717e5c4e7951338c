from __future__ import annotations

from hookgate.builtin_plugins.telemetry.core_instruments import TOOL_CALLS, TURN_SECONDS
from hookgate.builtin_plugins.telemetry.records import EVENTS, LABEL_CHARS, LabelLimits
from hookgate.metrics import Reading


def within(limits: LabelLimits, *labels: str) -> tuple[str, ...]:
    return limits.within(Reading(TOOL_CALLS, 1, labels)).labels


def test_values_beyond_the_limit_become_other_and_known_ones_stay() -> None:
    limits = LabelLimits(2)
    assert within(limits, "a", "done") == ("a", "done")
    assert within(limits, "b", "done") == ("b", "done")
    assert within(limits, "c", "failed") == ("other", "failed")
    assert within(limits, "a", "done") == ("a", "done")
    # A known tool with another status is one more series as well.
    assert within(limits, "a", "failed") == ("other", "failed")


def test_each_instrument_has_its_own_limit() -> None:
    limits = LabelLimits(1)
    within(limits, "a", "done")
    assert limits.within(Reading(EVENTS, 1, ("acme",))).labels == ("acme",)


def test_thousands_of_names_stay_within_the_limit() -> None:
    limits = LabelLimits()
    statuses = ("done", "failed", "x")
    made = {within(limits, f"tool-{n}", statuses[n % 3]) for n in range(5000)}
    assert len(made) == 1000 + 3
    assert ("other", "other") in made


def test_value_that_is_not_of_the_known_ones_becomes_other() -> None:
    assert within(LabelLimits(), "mail", "exploded") == ("mail", "other")


def test_names_are_cut_and_made_well_formed() -> None:
    name, _ = within(LabelLimits(), "\ud800" + "x" * 500, "done")
    assert name == "\ufffd" + "x" * (LABEL_CHARS - 1)


def test_reading_without_labels_is_left_alone() -> None:
    reading = Reading(TURN_SECONDS, 0.5)
    assert LabelLimits(1).within(reading) is reading
