from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.telemetry.collecting import take

from hookgate.builtin_plugins.awareness.switch import INSTRUMENTS as OF_AWARENESS
from hookgate.builtin_plugins.telemetry.core_instruments import CORE_INSTRUMENTS
from hookgate.builtin_plugins.telemetry.otel import OtelFigures
from hookgate.builtin_plugins.telemetry.plugin import GATHERED, Plugin, TelemetrySettings
from hookgate.builtin_plugins.telemetry.prometheus import PrometheusFigures
from hookgate.builtin_plugins.telemetry.records import (
    OWN,
    Instruments,
    LabelLimits,
    record_of_failure,
)
from hookgate.core.hooks.dispatch import HookFailure
from hookgate.metrics import Instrument, Label, MetricRecord, Reading, RecordSource

INSTRUMENTS = (*CORE_INSTRUMENTS, *OF_AWARENESS, *OWN)
DECLARED = Instruments(INSTRUMENTS)

KNOWN = ("turn", "model.call", "tool.call", "awareness.turn", "awareness.tripped")
FIELDS = (
    *("ending", "milliseconds", "model", "input_tokens", "output_tokens", "tool", "status"),
    *("sessionType", "injected", "totalTokens", "selectionTimeMs"),
)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def said(name: str, **fields: Any) -> list[tuple[str, float, tuple[str, ...]]]:
    record = MetricRecord(name=name, timestamp=1, fields=fields)
    return [(one.instrument.name, one.value, one.labels) for one in DECLARED.readings(record)]


def test_turn_is_counted_by_its_ending_and_timed() -> None:
    assert said("turn", turn="t", session="s", ending="done", milliseconds=1500.0) == [
        ("hookgate_turns", 1, ("done",)),
        ("hookgate_turn_seconds", 1.5, ()),
    ]


def test_model_call_is_counted_timed_and_its_tokens_added() -> None:
    fields = {"model": "acme/big", "ending": "done", "milliseconds": 20, "input_tokens": 7}
    assert said("model.call", **fields, output_tokens=0) == [
        ("hookgate_model_calls", 1, ("acme/big", "done")),
        ("hookgate_model_seconds", 0.02, ("acme/big", "done")),
        ("hookgate_model_tokens", 7.0, ("acme/big", "input")),
        ("hookgate_model_tokens", 0.0, ("acme/big", "output")),
    ]


def test_tool_call_that_did_not_run_is_counted_and_not_timed() -> None:
    assert said("tool.call", tool="mail", status="denied") == [
        ("hookgate_tool_calls", 1, ("mail", "denied"))
    ]


def test_awareness_counts_turns_with_and_without_cards() -> None:
    cards = [{"id": "a", "relevanceScore": 0.9, "tokensUsed": 100}, {"id": "b"}]
    more = {"sessionKey": "s", "sessionType": "main", "routerTags": ["x"]}
    assert said("awareness.turn", **more, injected=cards, totalTokens=130, selectionTimeMs=2) == [
        ("hookgate_awareness_turns", 1, ("main", "true")),
        ("hookgate_awareness_tokens", 130.0, ()),
        ("hookgate_capabilities_injected", 1, ("a",)),
        ("hookgate_capabilities_injected", 1, ("b",)),
        ("hookgate_awareness_selection_seconds", 0.002, ()),
    ]
    assert said("awareness.turn", sessionType="isolated", injected=[]) == [
        ("hookgate_awareness_turns", 1, ("isolated", "false"))
    ]


def test_kill_switch_is_a_gauge_that_goes_up_and_down() -> None:
    tripped = {"rate": 0.4, "turns": 60, "triggered": 24, "threshold": 0.3}
    assert said("awareness.tripped", **tripped) == [("hookgate_awareness_tripped", 1, ())]
    assert said("awareness.enabled") == [("hookgate_awareness_tripped", 0, ())]


def test_record_of_another_plugin_is_counted_by_its_name() -> None:
    assert said("acme.sync", rows=12) == [("hookgate_events", 1, ("acme.sync",))]


def test_failed_hook_is_counted_by_plugin_and_hook() -> None:
    failure = HookFailure(
        hook="tag_turn", plugin="acme", kind="raised", message="no", required=False
    )
    (reading,) = DECLARED.readings(record_of_failure(failure))
    assert (reading.instrument.name, reading.labels) == (
        "hookgate_hook_failures",
        ("acme", "tag_turn"),
    )


@pytest.mark.parametrize(
    "value", [None, True, "12", [], -1, -0.5, math.nan, math.inf, -math.inf, 10**400]
)
def test_figure_that_is_none_costs_its_own_reading_alone(value: Any) -> None:
    assert said("turn", ending="done", milliseconds=value) == [("hookgate_turns", 1, ("done",))]


@pytest.mark.parametrize("value", [None, 5, "", [], {}])
def test_missing_name_is_counted_as_other(value: Any) -> None:
    assert said("tool.call", tool=value, status=value) == [
        ("hookgate_tool_calls", 1, ("other", "other"))
    ]


@pytest.mark.parametrize("value", [5, "ab", {"id": "a"}, True, [1, "a"]])
def test_list_that_is_none_has_no_items(value: Any) -> None:
    assert said("awareness.turn", sessionType="main", injected=value) == [
        ("hookgate_awareness_turns", 1, ("main", "true"))
    ]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(KNOWN) | st.text(),
            st.dictionaries(st.sampled_from(FIELDS) | st.text(), values, max_size=6),
        ),
        max_size=8,
    )
)
def test_whatever_is_recorded_can_be_kept_and_written(records: list[tuple[str, Any]]) -> None:
    prometheus, otel, limits = PrometheusFigures(), OtelFigures("test"), LabelLimits(3)
    prometheus.declare(INSTRUMENTS)
    otel.declare(INSTRUMENTS)
    for name, fields in records:
        for reading in DECLARED.readings(MetricRecord(name=name, timestamp=1, fields=fields)):
            within: Reading = limits.within(reading)
            take(prometheus, within)
            take(otel, within)
    page, _ = prometheus.page("")
    assert page.decode().endswith("\n")
    assert otel.payload() or not records
    otel.close()


def test_every_name_is_given_once() -> None:
    named = [one.otel or one.name.replace("_", ".") for one in INSTRUMENTS]
    assert len(set(named)) == len(INSTRUMENTS)
    assert len({one.name for one in INSTRUMENTS}) == len(INSTRUMENTS)


def test_no_label_names_a_session_a_turn_or_a_person() -> None:
    names = {label.name for one in INSTRUMENTS for label in one.labels}
    assert names == {
        *("ending", "model", "direction", "tool", "status", "session_type", "injected"),
        *("capability", "plugin", "hook", "name", "part"),
    }


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": "acme_rows_total"}, "acme_rows_total"),
        ({"name": "acme.rows"}, r"acme\.rows"),
        ({"kind": "summary"}, "counter, histogram or gauge"),
        ({"kind": "histogram"}, "ascending ones for a histogram"),
        ({"kind": "histogram", "boundaries": (2.0, 1.0)}, "ascending"),
        ({"boundaries": (1.0,)}, "none for anything else"),
        ({"labels": (Label(name="a"), Label(name="a"))}, "one name"),
    ],
)
def test_instrument_that_cannot_be_kept_is_refused_where_it_is_made(
    wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        Instrument(**{"name": "acme_rows", "help": "Rows.", **wrong})


@pytest.mark.parametrize("name", ["le", "__name__", "a-b", ""])
def test_label_that_cannot_be_written_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected letters"):
        Label(name=name)


def test_figure_is_read_from_the_records_and_fields_that_it_names() -> None:
    rows = Instrument(
        name="acme_bytes",
        help="Bytes.",
        sources=(
            RecordSource(record="acme.sync", value="kilobytes", scale=1000),
            RecordSource(record="acme.push", each="files", value="size", labels={"way": "out"}),
        ),
        labels=(Label(name="way", field="direction"),),
    )
    declared = Instruments([rows])

    def read(name: str, **fields: Any) -> list[tuple[float, tuple[str, ...]]]:
        record = MetricRecord(name=name, timestamp=1, fields=fields)
        return [(one.value, one.labels) for one in declared.readings(record)]

    assert read("acme.sync", kilobytes=2, direction="in") == [(2000, ("in",))]
    assert read("acme.push", files=[{"size": 3}, {"size": "x"}, {"size": 4}]) == [
        (3, ("out",)),
        (4, ("out",)),
    ]


@pytest.mark.parametrize(
    "odd",
    [
        {"otel": "9 rows"},
        {"name": "_rows"},
        {"name": "a" * 300},
        {"unit": "x" * 64},
        {"unit": "\u00b5s"},
        {"help": "\ud800"},
        {"help": None},
        {"otel_kind": "sum"},
        {"kind": "histogram", "boundaries": (1.0, float("inf"))},
        {"kind": "histogram", "boundaries": (float("nan"),)},
    ],
)
def test_what_a_format_would_refuse_is_refused_where_it_is_written(odd: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="instrument"):
        Instrument(**{"name": "acme_rows", "help": "Rows.", **odd})


class Taken:
    """Figures that are kept as they come."""

    def __init__(self) -> None:
        self.made: list[Reading] = []
        self.values: list[tuple[str, float, tuple[str, ...]]] = []
        self.settled = 0

    def declare(self, instruments: Any) -> None:
        del instruments

    def add(self, reading: Reading) -> None:
        self.values.append((reading.instrument.name, reading.value, reading.labels))

    def taker(self, reading: Reading) -> Callable[[float], None]:
        self.made.append(reading)
        return lambda value: self.add(reading._replace(value=value))

    def settle(self) -> None:
        self.settled += 1


@given(
    st.lists(st.tuples(st.sampled_from(KNOWN), st.dictionaries(st.sampled_from(FIELDS), values)))
)
def test_records_of_a_series_say_the_same_one_by_one_and_from_what_is_kept_of_it(
    records: list[tuple[str, dict[str, Any]]],
) -> None:
    plugin, taken = Plugin(TelemetrySettings()), Taken()
    plugin._instruments, plugin._figures = DECLARED, (taken,)
    for name, fields in records:
        plugin.log_metrics(MetricRecord(name=name, timestamp=1, fields=fields))
    limits = LabelLimits()
    assert taken.values == [
        (one.instrument.name, one.value, one.labels)
        for name, fields in records
        for one in map(
            limits.within,
            DECLARED.readings(MetricRecord(name=name, timestamp=1, fields=fields)),
        )
    ]


def test_a_series_is_looked_up_once_and_counted_after_a_hundred_records() -> None:
    plugin, taken = Plugin(TelemetrySettings()), Taken()
    plugin._instruments, plugin._figures = DECLARED, (taken,)
    for milliseconds in range(GATHERED):
        fields = {"ending": "done", "milliseconds": milliseconds}
        plugin.log_metrics(MetricRecord(name="turn", timestamp=1, fields=fields))
    assert len(taken.made) == 2
    assert len(taken.values) == 2 * GATHERED
    assert taken.settled == 1
