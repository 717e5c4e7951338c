from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_plain
from tests.builtin_plugins.telemetry.collecting import take

from hookgate.builtin_plugins.telemetry.core_instruments import MODEL_TOKENS, TURN_SECONDS, TURNS
from hookgate.builtin_plugins.telemetry.prometheus import OPENMETRICS, PLAIN, PrometheusFigures
from hookgate.builtin_plugins.telemetry.records import HOOK_FAILURES
from hookgate.metrics import Instrument, Reading

ON = Instrument(name="acme_on", help="Whether it is on.", kind="gauge")
DECLARED = (TURNS, TURN_SECONDS, MODEL_TOKENS, HOOK_FAILURES, ON)

# What Prometheus 3 sends.
SCRAPER = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


def figures(*readings: Reading) -> PrometheusFigures:
    made = PrometheusFigures()
    made.declare(DECLARED)
    for reading in readings:
        take(made, reading)
    return made


def samples(page: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in read_plain(page.decode())
        for sample in family.samples
    }


def test_counters_are_added_up_and_gauges_keep_the_last() -> None:
    made = figures(
        Reading(TURNS, 1, ("done",)),
        Reading(TURNS, 1, ("done",)),
        Reading(MODEL_TOKENS, 40, ("acme/big", "input")),
        Reading(MODEL_TOKENS, 2, ("acme/big", "input")),
        Reading(ON, 1),
        Reading(ON, 0),
    )
    found = samples(made.page("")[0])
    assert found["hookgate_turns_total", (("ending", "done"),)] == 2
    tokens = (("direction", "input"), ("model", "acme/big"))
    assert found["hookgate_model_tokens_total", tokens] == 42
    assert found["acme_on", ()] == 0


def test_seconds_stand_in_buckets() -> None:
    made = figures(Reading(TURN_SECONDS, 0.2), Reading(TURN_SECONDS, 4000))
    found = samples(made.page("")[0])
    assert found["hookgate_turn_seconds_bucket", (("le", "0.1"),)] == 0
    assert found["hookgate_turn_seconds_bucket", (("le", "0.25"),)] == 1
    assert found["hookgate_turn_seconds_bucket", (("le", "+Inf"),)] == 2
    assert found["hookgate_turn_seconds_count", ()] == 2


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("text/plain;version=0.0.4", PLAIN),
        ("application/openmetrics-text;version=0.0.1", PLAIN),
        ("application/openmetrics-text; version=nonsense", PLAIN),
        ("application/openmetrics-text; version=2.0.0", PLAIN),
        (";,;;=,", PLAIN),
        ("application/openmetrics-text", OPENMETRICS),
        ("text/html, Application/OpenMetrics-Text; q=0.5; Version=1.0.0", OPENMETRICS),
        (SCRAPER, OPENMETRICS),
    ],
)
def test_the_format_is_the_one_that_was_asked_for(accept: str, content_type: str) -> None:
    page, found = figures(Reading(TURNS, 1, ("done",))).page(accept)
    assert found == content_type
    assert page.endswith(b"# EOF\n") == (content_type == OPENMETRICS)


def test_openmetrics_is_read_by_a_strict_reader() -> None:
    made = figures(Reading(TURNS, 1, ("done",)), Reading(TURN_SECONDS, 0.2))
    families = {family.name: family for family in read_openmetrics(made.page(SCRAPER)[0].decode())}
    assert families.keys() == {one.name for one in DECLARED}
    assert families["hookgate_turns"].type == "counter"
    assert families["hookgate_turns"].samples[0].name == "hookgate_turns_total"


def test_times_of_creation_are_left_out() -> None:
    made = figures(Reading(TURNS, 1, ("done",)), Reading(TURN_SECONDS, 0.2))
    assert b"_created" not in made.page("")[0]
    assert b"_created" not in made.page(SCRAPER)[0]


def test_odd_names_are_escaped() -> None:
    odd = 'a"b\\c\nd{e="f"} 1\nhookgate_turns_total 99'
    found = samples(figures(Reading(HOOK_FAILURES, 1, (odd, "tag_turn"))).page("")[0])
    labels = (("hook", "tag_turn"), ("plugin", odd))
    assert found["hookgate_hook_failures_total", labels] == 1
    assert ("hookgate_turns_total", ()) not in found


def test_two_gateways_keep_their_figures_apart() -> None:
    one, two = figures(Reading(TURNS, 1, ("done",))), figures()
    assert b'hookgate_turns_total{ending="done"} 1.0' in one.page("")[0]
    assert b'hookgate_turns_total{ending="done"}' not in two.page("")[0]


def test_figure_that_is_no_longer_declared_is_gone_and_the_others_stay() -> None:
    made = figures(Reading(TURNS, 1, ("done",)), Reading(ON, 1))
    other = Instrument(name="acme_on", help="How often it came on.")
    made.declare([TURNS, other])
    take(made, Reading(other, 2))
    found = samples(made.page("")[0])
    assert ("acme_on", ()) not in found
    assert found["acme_on_total", ()] == 2
    assert found["hookgate_turns_total", (("ending", "done"),)] == 1
