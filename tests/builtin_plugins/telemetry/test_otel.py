from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import metrics
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from tests.builtin_plugins.telemetry.collecting import take

from hookgate.builtin_plugins.telemetry import core_instruments as conventions
from hookgate.builtin_plugins.telemetry.core_instruments import (
    MODEL_CALLS,
    MODEL_SECONDS,
    MODEL_TOKENS,
    TOOL_CALLS,
    TURNS,
)
from hookgate.builtin_plugins.telemetry.otel import OtelFigures, attributes_of, rejected
from hookgate.metrics import Instrument, Reading

ON = Instrument(name="acme_on", help="Whether it is on.", kind="gauge")


def sent(*readings: Reading) -> dict[str, Any]:
    """Return the metrics of an export by name, and the attributes of the resource."""
    figures = OtelFigures("my gateway")
    figures.declare(reading.instrument for reading in readings)
    for reading in readings:
        take(figures, reading)
    (resource,) = ExportMetricsServiceRequest.FromString(figures.payload()).resource_metrics
    figures.close()
    assert {one.scope.name for one in resource.scope_metrics} <= {"hookgate"}
    found = {metric.name: metric for one in resource.scope_metrics for metric in one.metrics}
    return {**found, "resource": texts(resource.resource.attributes)}


def texts(attributes: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in attributes}


def test_counter_is_a_monotonic_sum_since_the_start() -> None:
    metric = sent(*[Reading(TURNS, 1, ("done",))] * 3)["hookgate.turns"]
    assert (metric.unit, metric.sum.is_monotonic) == ("{turn}", True)
    assert metric.sum.aggregation_temporality == 2  # cumulative
    (point,) = metric.sum.data_points
    assert (point.as_int, texts(point.attributes)) == (3, {"hookgate.ending": "done"})


def test_tokens_are_a_histogram_under_the_conventions_names() -> None:
    metric = sent(Reading(MODEL_TOKENS, 300.0, ("acme/big", "input")))["gen_ai.client.token.usage"]
    (point,) = metric.histogram.data_points
    assert (metric.unit, point.count, point.sum) == ("{token}", 1, 300)
    assert tuple(point.explicit_bounds) == conventions.TOKEN_BOUNDARIES
    assert texts(point.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "acme",
        "gen_ai.request.model": "big",
        "gen_ai.token.type": "input",
    }


def test_gauge_has_its_last_value() -> None:
    readings = [Reading(ON, 1), Reading(ON, 0)]
    (point,) = sent(*readings)["acme.on"].gauge.data_points
    assert point.as_int == 0


def test_seconds_of_a_model_call_have_the_recommended_boundaries() -> None:
    reading = Reading(MODEL_SECONDS, 0.5, ("acme/big", "done"))
    metric = sent(reading)["gen_ai.client.operation.duration"]
    (point,) = metric.histogram.data_points
    assert (metric.unit, point.sum) == ("s", 0.5)
    assert (point.explicit_bounds[0], point.explicit_bounds[-1]) == (0.01, 81.92)


def test_only_what_went_wrong_has_a_type_of_error() -> None:
    failed = attributes_of(Reading(MODEL_CALLS, 1, ("acme/big", "cut")))
    assert failed["error.type"] == "cut"
    assert "error.type" not in attributes_of(Reading(MODEL_CALLS, 1, ("acme/big", "done")))


def test_model_without_a_provider_keeps_its_name() -> None:
    found = attributes_of(Reading(MODEL_CALLS, 1, ("other", "done")))
    assert found == {"gen_ai.request.model": "other", "gen_ai.operation.name": "chat"}


def test_tool_has_the_conventions_name() -> None:
    found = attributes_of(Reading(TOOL_CALLS, 1, ("mail", "done")))
    assert found == {"gen_ai.tool.name": "mail", "hookgate.status": "done"}


def test_gateway_is_named_and_nothing_of_the_environment_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "secret=canary")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "canary")
    found = sent(Reading(TURNS, 1, ("done",)))["resource"]
    assert found["service.name"] == "my gateway"
    assert found.keys() == {"service.name", "service.version", "service.instance.id"}


def test_switch_of_opentelemetry_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    figures = OtelFigures("test")
    figures.declare([TURNS])
    take(figures, Reading(TURNS, 1, ("done",)))
    assert figures.payload() == b""
    figures.close()


def test_nothing_is_registered_for_the_process() -> None:
    before = metrics.get_meter_provider()
    sent(Reading(TURNS, 1, ("done",)))
    assert metrics.get_meter_provider() is before


def test_two_gateways_keep_their_figures_apart() -> None:
    one, two = OtelFigures("one"), OtelFigures("two")
    one.declare([TURNS])
    take(one, Reading(TURNS, 1, ("done",)))
    assert b"hookgate.turns" in one.payload()
    assert b"hookgate.turns" not in two.payload()
    one.close()
    two.close()


def test_the_conventions_are_those_of_the_installed_package() -> None:
    # They stand where whoever wants them stable is not to look, and are to move elsewhere.
    place = "opentelemetry.semconv._incubating"
    figures = pytest.importorskip(f"{place}.metrics.gen_ai_metrics")
    attributes = pytest.importorskip(f"{place}.attributes.gen_ai_attributes")
    assert figures.GEN_AI_CLIENT_TOKEN_USAGE == conventions.TOKEN_USAGE
    assert figures.GEN_AI_CLIENT_OPERATION_DURATION == conventions.OPERATION_DURATION
    assert attributes.GEN_AI_OPERATION_NAME == conventions.OPERATION_NAME
    assert attributes.GEN_AI_REQUEST_MODEL == conventions.REQUEST_MODEL
    assert attributes.GEN_AI_TOKEN_TYPE == conventions.TOKEN_TYPE
    assert attributes.GEN_AI_TOOL_NAME == conventions.TOOL_NAME


def test_what_a_collector_rejects_is_told() -> None:
    partial = ExportMetricsPartialSuccess(rejected_data_points=3, error_message="too old")
    body = ExportMetricsServiceResponse(partial_success=partial).SerializeToString()
    assert rejected(body) == "it rejected 3 points: too old"
    assert rejected(b"") == ""


@pytest.mark.parametrize("body", [b"<html>not found</html>", b"\xff\xff\xff"])
def test_answer_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="no answer"):
        rejected(body)
