"""A dashboard for Grafana and rules for alerts, made of the instruments that were declared.

So a figure that is new has its panel, and an alert cannot ask for one that is gone.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hookgate import HookgateError, Instrument

WIDTH, HEIGHT, ACROSS = 8, 7, 3
_UNITS = {"s": "s", "By": "bytes", "USD": "currencyUSD", "{USD}": "currencyUSD", "1": "short"}
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_SELECTED = '{job=~"$job"}'

ALERTS = Path(__file__).with_name("alerts.toml")
"""The rules, which ask for instruments by their names."""


def series_of(instrument: Instrument) -> str:
    """Return the name under which Prometheus has a counter or a gauge."""
    return f"{instrument.name}_total" if instrument.kind == "counter" else instrument.name


def alerts(instruments: Iterable[Instrument]) -> dict[str, Any]:
    """Return the rules as a file of Prometheus holds them.

    Raises:
        HookgateError: One asks for an instrument that is not there.
    """
    named = {f"<{one.name}>": series_of(one) for one in instruments}
    rules = tomllib.loads(ALERTS.read_text("utf-8"))["alert"]
    return {"groups": [{"name": "hookgate", "rules": [_rule(one, named) for one in rules]}]}


def _rule(alert: dict[str, str], named: dict[str, str]) -> dict[str, Any]:
    expr = alert["expr"]
    for name, series in named.items():
        expr = expr.replace(name, series)
    if "<hookgate" in expr:
        raise HookgateError(
            f"the alert {alert['name']} asks for an instrument that no plugin has declared: {expr}"
        )
    return {
        "alert": alert["name"],
        "expr": expr,
        "for": alert["after"],
        "labels": {"severity": alert["severity"]},
        "annotations": {"summary": alert["summary"], "description": alert["todo"]},
    }


def dashboard(instruments: Iterable[Instrument]) -> dict[str, Any]:
    """Return the dashboard as Grafana imports it: a panel for each figure, rows by prefix."""
    rows: dict[str, list[Instrument]] = {}
    for one in sorted(instruments, key=lambda one: one.name):
        rows.setdefault(_word_of(one).rstrip("s"), []).append(one)
    panels: list[dict[str, Any]] = []
    y = 0
    for members in rows.values():
        title = max(map(_word_of, members))
        row = {"h": 1, "w": 24, "x": 0, "y": y}
        panels.append({"id": len(panels) + 1, "type": "row", "title": title, "gridPos": row})
        y += 1
        for number, one in enumerate(members):
            down, right = divmod(number, ACROSS)
            place = {"h": HEIGHT, "w": WIDTH, "x": right * WIDTH, "y": y + down * HEIGHT}
            panels.append({"id": len(panels) + 1, "gridPos": place, **_panel(one)})
        y += HEIGHT * -(-len(members) // ACROSS)
    job = "label_values(hookgate_turns_running, job)"
    return {
        "uid": "hookgate",
        "title": "hookgate",
        "tags": ["hookgate"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus"},
                {
                    "name": "job",
                    "type": "query",
                    "datasource": _DATASOURCE,
                    "definition": job,
                    "query": {"query": job, "refId": "job"},
                    "includeAll": True,
                    "multi": True,
                    "refresh": 2,
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "panels": panels,
    }


def _word_of(instrument: Instrument) -> str:
    """Return what a figure is about: the first word behind ``hookgate_``."""
    return instrument.name.removeprefix("hookgate_").partition("_")[0]


def _panel(instrument: Instrument) -> dict[str, Any]:
    unit = _UNITS.get(instrument.unit, "short")
    labels = [label.name for label in instrument.labels]
    if instrument.kind == "histogram":
        queries = [
            (
                f"histogram_quantile({share:g}, sum by (le) "
                f"(rate({instrument.name}_bucket{_SELECTED}[$__rate_interval])))",
                f"p{share * 100:g}",
            )
            for share in (0.5, 0.95, 0.99)
        ]
    else:
        by = f" by ({', '.join(labels)})" if labels else ""
        series = f"{series_of(instrument)}{_SELECTED}"
        how = f"rate({series}[$__rate_interval])" if instrument.kind == "counter" else series
        legend = " ".join(f"{{{{{label}}}}}" for label in labels) or instrument.name
        queries = [(f"{'max' if instrument.kind == 'gauge' else 'sum'}{by} ({how})", legend)]
    return {
        "type": "timeseries",
        "title": instrument.name,
        "description": instrument.help,
        "datasource": _DATASOURCE,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "expr": expr, "legendFormat": legend}
            for number, (expr, legend) in enumerate(queries)
        ],
    }
