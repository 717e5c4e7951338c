"""Windows of outcomes: what they come to, when plans change, and when somebody is told."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.turns import make_turn

from hookgate import Address, OutcomeEntry
from hookgate.builtin_plugins.planning.kpi import OutcomeWindow, alert_of, scope_key
from hookgate.builtin_plugins.planning.planner import Recovery, WeightedRate
from hookgate.builtin_plugins.planning.settings import (
    AdaptiveSettings,
    OutcomeSettings,
    PlanningSettings,
)

STATUS = {0.95: "success", 0.85: "success", 0.6: "partial", 0.5: "partial"}


def entry(score: float, number: int = 0, *, steers: bool = True) -> OutcomeEntry:
    status: Any = STATUS.get(score, "failed")
    return OutcomeEntry(
        turn=f"t{number}", at=number, status=status, score=score, steers=steers, fault="tools"
    )


def window(*scores: float, **outcomes: Any) -> OutcomeWindow:
    settings = PlanningSettings(outcomes=OutcomeSettings(**outcomes))
    return OutcomeWindow(settings, [entry(score, number) for number, score in enumerate(scores)])


@pytest.mark.parametrize(
    ("scope", "key"),
    [
        ("global", "global"),
        ("agent", "agent:main"),
        ("organization", "agent:main"),
        ("agent_channel", "agent:main/channel:web"),
        ("organization_persona", "agent:main/channel:web"),
    ],
)
def test_a_turn_belongs_to_the_window_of_its_scope(scope: str, key: str) -> None:
    settings = OutcomeSettings.model_validate({"scope": scope})
    turn = make_turn(agent="main", address=Address("web", "acme", "ann"))

    assert scope_key(turn, settings.scope) == key


def test_by_default_a_window_is_of_an_agent_in_a_channel_and_has_100_turns() -> None:
    settings = OutcomeSettings()

    assert (settings.scope, settings.rolling_window_size) == ("agent_channel", 100)
    assert (settings.alert_below_weighted_success_rate, settings.alert_min_samples) == (0.55, 8)
    assert settings.alert_cooldown_ms == 60_000


def test_a_window_says_what_is_in_it() -> None:
    told = window(0.0, 0.6, 0.95, 0.95, half_life=1).kpi("global").to_json()

    # Half as much for each turn ago: (0.95 + 0.475 + 0.15 + 0) / (1 + 1/2 + 1/4 + 1/8).
    assert told == {
        "scopeKey": "global",
        "sampleCount": 4,
        "successCount": 2,
        "partialCount": 1,
        "failedCount": 1,
        "successRate": 0.5,
        "averageScore": 0.625,
        "weightedSuccessRate": 0.84,
        "degraded": False,
    }
    assert window().kpi("global").to_json()["weightedSuccessRate"] == 0


def test_the_weighted_rate_weighs_what_was_last() -> None:
    worse, better = window(0.95, 0.95, 0.0, 0.0), window(0.0, 0.0, 0.95, 0.95)

    assert worse.kpi("").average == better.kpi("").average
    assert worse.kpi("").weighted < worse.kpi("").average < better.kpi("").weighted


@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.6, 0.85, 0.95, 1.0]), max_size=60),
    st.integers(5, 20),
    st.floats(1, 40),
)
def test_a_window_is_that_of_its_last_turns_alone(
    scores: list[float], size: int, half_life: float
) -> None:
    outcomes = {"rolling_window_size": size, "half_life": half_life, "alert_min_samples": 1}
    rolled, fresh = window(*scores, **outcomes), window(*scores[-size:], **outcomes)
    one, other = rolled.kpi(""), fresh.kpi("")

    assert (one.samples, one.success, one.partial, one.failed) == (
        other.samples,
        other.success,
        other.partial,
        other.failed,
    )
    assert one.samples == one.success + one.partial + one.failed == min(len(scores), size)
    assert one.average == pytest.approx(other.average)
    assert one.weighted == pytest.approx(other.weighted)
    assert len(rolled.entries) == one.samples


# -- when plans change -----------------------------------------------------------------


def after(*scores: float, **settings: Any) -> Recovery:
    recovery = Recovery(AdaptiveSettings(**settings), 20)
    for score in scores:
        recovery.add(score)
    return recovery


@pytest.mark.parametrize(
    ("scores", "degraded"),
    [
        ([0.6] * 4, False),
        ([0.6] * 5, True),
        ([0.7] * 5, False),
        ([0.95] * 5, False),
        ([0.95] * 4 + [0.0] * 4, True),
        # Back at 0.8 over five turns, and not a turn sooner.
        ([0.6] * 5 + [0.95] * 4, True),
        ([0.6] * 5 + [0.95] * 5, False),
        ([0.6] * 5 + [0.8] * 5, False),
        ([0.6] * 5 + [0.79] * 20, True),
        ([0.6] * 5 + [0.0] * 9 + [0.85] * 4, True),
        ([0.6] * 5 + [0.0] * 9 + [0.85] * 5, False),
        # What was before the way back counts no more.
        ([0.0] * 50 + [0.95] * 5 + [0.75] * 10, False),
        ([0.0] * 50 + [0.95] * 5 + [0.0] * 4, False),
        ([0.0] * 50 + [0.95] * 5 + [0.0] * 5, True),
    ],
)
def test_plans_change_below_one_threshold_and_back_at_another(
    scores: list[float], degraded: bool
) -> None:
    assert after(*scores).degraded is degraded


@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.6, 0.85, 0.95]), max_size=120),
    st.integers(1, 9),
    st.integers(1, 9),
)
def test_between_two_changes_there_are_as_many_turns_as_are_asked_for(
    scores: list[float], samples: int, recover: int
) -> None:
    recovery = Recovery(AdaptiveSettings(min_samples=samples, recover_samples=recover), 20)
    changes = [0]
    for number, score in enumerate(scores, 1):
        before = recovery.degraded
        recovery.add(score)
        if recovery.degraded != before:
            changes.append(number)
    gaps = [later - sooner for sooner, later in pairwise(changes)]

    assert all(gap >= samples for gap in gaps[::2])
    assert all(gap >= recover for gap in gaps[1::2])


@given(st.floats(0.7, 0.79), st.integers(0, 100))
def test_outcomes_between_the_thresholds_change_nothing(score: float, turns: int) -> None:
    assert not after(*[score] * turns).degraded
    assert after(*[0.0] * 5, *[score] * turns).degraded


def test_what_a_client_says_of_itself_counts_and_steers_nothing() -> None:
    claimed = window()
    for number in range(20):
        claimed.add(entry(0.0, number, steers=False))

    assert claimed.kpi("").failed == 20
    assert not claimed.degraded
    bad = window(*[0.0] * 5)
    for number in range(20):
        bad.add(entry(0.95, 10 + number, steers=False))
    assert bad.degraded


def test_nothing_changes_where_that_is_switched_off() -> None:
    off = PlanningSettings(adaptive=AdaptiveSettings(enabled=False))

    assert not OutcomeWindow(off, [entry(0.0, number) for number in range(20)]).degraded


def test_a_rate_of_nothing_is_zero() -> None:
    rate = WeightedRate(20)
    assert rate.rate == 0
    rate.add(0.95)
    rate.drop(0.95, 0)
    assert rate.rate == 0


# -- alerts ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "severity"),
    [
        ([0.0] * 7, None),
        ([0.0] * 8, "critical"),
        ([0.55] * 8, None),
        ([0.5] * 8, "warning"),
        ([0.33] * 8, "warning"),
        ([0.32] * 8, "critical"),
        ([0.95] * 8, None),
    ],
)
def test_an_alert_is_due_below_the_threshold(scores: list[float], severity: str | None) -> None:
    bad = window(*scores)
    alert = alert_of(bad, bad.kpi("agent:main"), OutcomeSettings(), 0.0)

    assert (alert and alert.severity) == severity
    if alert is not None:
        said = alert.to_json()
        assert (said["threshold"], said["value"]) == (0.55, round(scores[0], 4))
        assert said["reason"] == (
            f"the weighted success rate of the last 8 turns of agent:main is {scores[0]:.2f}, "
            "below 0.55"
        )


def test_the_next_alert_of_a_scope_waits_for_its_cooldown() -> None:
    bad, settings = window(*[0.0] * 8), OutcomeSettings(alert_cooldown_ms=60_000)
    given_at = [
        now
        for now in (0.0, 1.0, 59.9, 60.0, 60.1, 119.9, 120.0)
        if alert_of(bad, bad.kpi(""), settings, now) is not None
    ]

    assert given_at == [0.0, 60.0, 120.0]
