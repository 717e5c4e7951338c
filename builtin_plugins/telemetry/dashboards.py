"""A dashboard for Grafana and rules for alerts, made of the instruments that were declared.

So a figure that is new has its panel, and an alert cannot ask for one that is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from hookgate import HookgateError, Instrument

WIDTH, HEIGHT, ACROSS = 8, 7, 3
_UNITS = {"s": "s", "By": "bytes", "USD": "currencyUSD", "{USD}": "currencyUSD", "1": "short"}
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_SELECTED = '{job=~"$job"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """One rule.

    Attributes:
        name: Its name.
        expr: The expression; ``<NAME>`` stands for the series of an instrument that adds up, or
            is kept as it is.
        after: How long it has to hold.
        summary: What is so.
        todo: What to do about it.
        severity: Whether somebody is to be woken.
    """

    name: str
    expr: str
    after: str
    summary: str
    todo: str
    severity: Literal["page", "ticket"] = "ticket"


def _burning(short: str, long: str, times: float) -> str:
    """Return that 1 % of failed turns is used up so many times too fast, over both windows."""
    failed, all_ = '<hookgate_turns>{ending="failed"}', "<hookgate_turns>"
    over = " and ".join(
        f"sum(rate({failed}[{window}])) / sum(rate({all_}[{window}])) > {times:g} * 0.01"
        for window in (short, long)
    )
    return f"({over})"


ALERTS = (
    AlertRule(
        name="HookgateTurnsFailFast",
        expr=_burning("5m", "1h", 14.4),
        after="2m",
        summary="Turns fail so fast that a month's 1 % is gone in two days",
        todo="`hookgate outcomes` says which and why; see the runbook of an incident",
        severity="page",
    ),
    AlertRule(
        name="HookgateTurnsFail",
        expr=_burning("30m", "6h", 6),
        after="15m",
        summary="Turns fail faster than 1 % in a month allows",
        todo="`hookgate outcomes` says which and why",
    ),
    AlertRule(
        name="HookgateDown",
        expr='absent(<hookgate_turns_running>) or up{job=~"hookgate.*"} == 0',
        after="2m",
        summary="No gateway gives figures",
        todo="`systemctl status hookgate`, and the last lines of its log",
        severity="page",
    ),
    AlertRule(
        name="HookgateAuditNotSound",
        expr='max by (instance, part) (<hookgate_degraded>{part=~"audit.*"}) > 0',
        after="1m",
        summary="The record of decisions cannot be kept, or is not as it was written",
        todo="`hookgate audit verify` names the first bad row",
        severity="page",
    ),
    AlertRule(
        name="HookgateStoreNotWritten",
        expr='max by (instance, part) (<hookgate_degraded>{part=~"storage.*"}) > 0',
        after="1m",
        summary="The store cannot be written",
        todo="`hookgate status`, and the runbooks of a lost database and a full disk",
        severity="page",
    ),
    AlertRule(
        name="HookgateBudgetLate",
        expr='max by (instance, part) (<hookgate_degraded>{part=~"metering.*"}) > 0',
        after="2m",
        summary="Budgets are not counted in time, so calls are refused or held",
        todo="`hookgate budgets show`, and `hookgate status` for the reason",
    ),
    AlertRule(
        name="HookgateDegraded",
        expr=(
            'max by (instance, part) (<hookgate_degraded>{part!~"(audit|storage|metering).*"}) > 0'
        ),
        after="15m",
        summary="A part does not work as it should",
        todo="`hookgate status` says why",
    ),
    AlertRule(
        name="HookgateQuestionsWait",
        expr="max by (instance) (<hookgate_questions_waiting>) > 0",
        after="15m",
        summary="Somebody's question has waited for a quarter of an hour",
        todo="`hookgate approvals list`",
    ),
    AlertRule(
        name="HookgateModelFails",
        expr=(
            'sum by (model) (rate(<hookgate_model_calls>{ending=~"failed|cut"}[10m]))'
            " / sum by (model) (rate(<hookgate_model_calls>[10m])) > 0.2"
        ),
        after="10m",
        summary="A fifth of the calls of a model fail",
        todo="`hookgate providers test`; turns go on to the agent's next model",
    ),
    AlertRule(
        name="HookgateHookFails",
        expr="sum by (plugin, hook) (rate(<hookgate_hook_failures>[15m])) > 0",
        after="15m",
        summary="A plugin's hook fails again and again",
        todo="`hookgate plugins doctor`, and the log",
    ),
    AlertRule(
        name="HookgateBudgetUsed",
        expr="max by (budget) (<hookgate_metering_budget_used_ratio>) > 0.9",
        after="5m",
        summary="A budget is used up to nine tenths",
        todo="`hookgate budgets show --share 0.9`",
    ),
)
"""The rules."""


def series_of(instrument: Instrument) -> str:
    """Return the name under which Prometheus has a counter or a gauge."""
    return f"{instrument.name}_total" if instrument.kind == "counter" else instrument.name


def alerts(instruments: Iterable[Instrument]) -> dict[str, Any]:
    """Return the rules as a file of Prometheus holds them.

    Raises:
        HookgateError: One asks for an instrument that is not there.
    """
    named = {f"<{one.name}>": series_of(one) for one in instruments}
    return {"groups": [{"name": "hookgate", "rules": [_rule(one, named) for one in ALERTS]}]}


def _rule(alert: AlertRule, named: dict[str, str]) -> dict[str, Any]:
    expr = alert.expr
    for name, series in named.items():
        expr = expr.replace(name, series)
    if "<hookgate" in expr:
        raise HookgateError(
            f"the alert {alert.name} asks for an instrument that no plugin has declared: {expr}"
        )
    return {
        "alert": alert.name,
        "expr": expr,
        "for": alert.after,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "description": alert.todo},
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
