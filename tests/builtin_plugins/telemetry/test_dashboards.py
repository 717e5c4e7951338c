"""The dashboard and the alerts: of all figures that there are, and of no others."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.builtin_plugins.telemetry.test_plugin import client, gateway

from hookgate import Gateway, HookgateError, Instrument, Settings
from hookgate.builtin_plugins.telemetry.dashboards import alerts, dashboard, series_of

ROOT = Path(__file__).parents[3]
NAME = re.compile(r"\bhookgate_\w+")


@pytest.fixture(scope="module")
def instruments(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Instrument]:
    """What all builtin plugins measure."""
    config = {
        "home": tmp_path_factory.mktemp("home"),
        "plugins": {"entry_points": False},
        "plugin": {"embedding": {"embedder": "none"}},
    }

    async def declared() -> Sequence[Instrument]:
        async with Gateway(Settings.model_validate(config)) as running:
            return tuple(running.host.instruments.view().values())

    return asyncio.run(declared())


def names(instruments: Sequence[Instrument]) -> set[str]:
    """Every name under which Prometheus has one of them."""
    found = {series_of(one) for one in instruments}
    for one in instruments:
        if one.kind == "histogram":
            found |= {f"{one.name}_{end}" for end in ("bucket", "sum", "count")}
    return found


def balanced(expr: str) -> bool:
    return all(
        expr.count(opening) == expr.count(closing) for opening, closing in ("()", "{}", "[]")
    )


def test_every_figure_has_one_panel_that_asks_for_it(instruments: Sequence[Instrument]) -> None:
    made = dashboard(instruments)
    panels = [panel for panel in made["panels"] if panel["type"] != "row"]
    assert sorted(panel["title"] for panel in panels) == sorted(one.name for one in instruments)
    assert len({panel["id"] for panel in made["panels"]}) == len(made["panels"])
    for panel in panels:
        for target in panel["targets"]:
            assert balanced(target["expr"])
            (asked,) = set(NAME.findall(target["expr"]))
            assert asked in names(instruments)
            assert asked.startswith(panel["title"])
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)


def test_an_alert_asks_for_figures_that_are_there_with_labels_that_they_have(
    instruments: Sequence[Instrument],
) -> None:
    labels = {series_of(one): {label.name for label in one.labels} for one in instruments}
    (group,) = alerts(instruments)["groups"]
    assert len({rule["alert"] for rule in group["rules"]}) == len(group["rules"])
    for rule in group["rules"]:
        assert balanced(rule["expr"])
        asked = NAME.findall(rule["expr"])
        assert asked
        for name, selected in re.findall(r"(hookgate_\w+)\{(\w+)", rule["expr"]):
            assert selected in labels[name]
        assert set(asked) <= names(instruments), rule["alert"]
        assert rule["annotations"]["summary"]


def test_an_alert_on_a_figure_that_is_gone_is_an_error(instruments: Sequence[Instrument]) -> None:
    fewer = [one for one in instruments if one.name != "hookgate_turns"]
    with pytest.raises(HookgateError, match="HookgateTurnsFailFast asks for an instrument"):
        alerts(fewer)


def test_the_files_of_deploy_are_those_that_the_command_writes(
    instruments: Sequence[Instrument],
) -> None:
    written: Any = json.loads((ROOT / "deploy/grafana/hookgate.json").read_text("utf-8"))
    assert written == dashboard(instruments), "run `make docs`"
    written = yaml.safe_load((ROOT / "deploy/prometheus/hookgate.yaml").read_text("utf-8"))
    assert written == alerts(instruments), "run `make docs`"


async def test_what_is_so_now_is_looked_at_when_the_figures_are_asked_for(tmp_path: Path) -> None:
    async with gateway(tmp_path) as gate, client(gate) as http:

        async def figures() -> list[str]:
            async with http.get("/metrics") as answer:
                return [line for line in (await answer.text()).splitlines() if line[0] != "#"]

        first = await figures()
        assert "hookgate_turns_running 0.0" in first
        assert "hookgate_questions_waiting 0.0" in first
        assert not [line for line in first if line.startswith("hookgate_degraded")]
        gate.host.standing("audit").bad("it cannot be written")
        assert 'hookgate_degraded{part="audit"} 1.0' in await figures()
        gate.host.standing("audit").good()
        assert 'hookgate_degraded{part="audit"} 0.0' in await figures()
