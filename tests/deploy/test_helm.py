"""The chart by Helm's own engine, and every object by the schemas of Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import kubernetes_validate
import pytest
import yaml
from helm_python.chart import Chart, lint
from tests.test_deploy import CHART, WHOLE, Objects, base, chart

pytestmark = pytest.mark.deploy

VERSIONS = ("1.30", "1.37")
"""Of Kubernetes: both have all that is used."""


def by_helm(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what `helm template hookgate` renders."""
    with Chart.load(CHART) as loaded:
        texts = loaded.render(dict(values), name="hookgate")
    return [one for text in texts.values() for one in yaml.safe_load_all(text) if one]


@pytest.mark.parametrize("values", [{}, WHOLE], ids=["chart", "whole chart"])
def test_helm_lints_the_chart_and_renders_what_the_other_tests_judge(
    values: dict[str, Any],
) -> None:
    report = lint(CHART, values, strict=True)
    assert not report["errors"]
    worst = [one for one in report["messages"] if one["severity"] > 1]
    assert not worst

    def named(objects: Objects) -> dict[tuple[str, str], Mapping[str, Any]]:
        return {(one["kind"], one["metadata"]["name"]): one for one in objects}

    assert named(by_helm(values)) == named(chart(**values))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("which", ["chart", "whole chart", "kustomize"])
def test_kubernetes_knows_every_field(which: str, version: str) -> None:
    objects = base() if which == "kustomize" else by_helm(WHOLE if which == "whole chart" else {})
    judged = {
        one["kind"]: kubernetes_validate.validate(dict(one), version, strict=True)
        for one in objects
        # A kind of Prometheus' operator: Kubernetes has no schema of it.
        if one["kind"] != "ServiceMonitor"
    }
    assert set(judged.values()) == {version}
