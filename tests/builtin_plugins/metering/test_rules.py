from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.builtin_plugins.turns import make_turn

from hookgate.builtin_plugins.metering.limits import (
    PICO,
    LimitRule,
    counter_key,
    own_rules,
    rules_of,
    subjects,
    until,
    window_id,
)
from hookgate.builtin_plugins.metering.settings import (
    BudgetSettings,
    MeteringSettings,
    RateSettings,
)
from hookgate.core.domain.models import ModelRef, ModelRequest
from hookgate.core.domain.turn import Address, Principal

if TYPE_CHECKING:
    from hookgate.builtin_plugins.metering.limits import Span

MOMENTS = st.datetimes(
    min_value=datetime(2020, 1, 1),
    max_value=datetime(2100, 1, 1),
    timezones=st.sampled_from(
        [UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-11, minutes=-30))]
    ),
)
SPANS = st.sampled_from(["minute", "day", "month"])


@given(MOMENTS, SPANS)
def test_window_lasts_until_its_end_and_the_next_one_begins_there(
    now: datetime, span: Span
) -> None:
    left = until(span, now)
    assert left is not None
    assert left > 0
    end = now.astimezone(UTC) + timedelta(seconds=left)
    own = window_id(span, now, "")
    assert window_id(span, end - timedelta(microseconds=1), "") == own
    assert window_id(span, end, "") != own


@given(MOMENTS, SPANS)
def test_window_is_that_of_utc_wherever_the_clock_stands(now: datetime, span: Span) -> None:
    assert window_id(span, now, "") == window_id(span, now.astimezone(UTC), "")


def test_windows_have_the_names_that_refusals_show() -> None:
    now = datetime(2026, 11, 21, 23, 59, 30, tzinfo=UTC)
    spans: tuple[Span, ...] = ("turn", "minute", "day", "month", "now")
    assert [window_id(span, now, "turn_1") for span in spans] == [
        "turn:turn_1",
        "minute:2026-11-21T23:59",
        "day:2026-11-21",
        "month:2026-11",
        "now",
    ]
    assert (until("minute", now), until("day", now), until("turn", now)) == (30.0, 30.0, None)


@given(st.text(max_size=40), st.text(max_size=40))
def test_two_subjects_never_share_a_counter(one: str, other: str) -> None:
    rule = LimitRule(name="small", scope="session", of="*", unit="tokens", window="day", limit=1)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    keys = [counter_key(rule, subject, now, "t") for subject in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)
    assert all(key.count("/") == 2 for key in keys)


def test_key_of_a_long_subject_fits_every_index_and_is_nobody_elses() -> None:
    rule = LimitRule(name="small", scope="session", of="*", unit="tokens", window="day", limit=1)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    long = "é/" * 5_000
    keys = {counter_key(rule, subject, now, "t") for subject in (long, long + "x", long[:400])}
    assert len(keys) == 3
    assert all(len(key) < 600 and key.count("/") == 2 for key in keys)


def test_budget_of_tokens_and_money_is_two_rules() -> None:
    rules = list(rules_of("both", BudgetSettings(tokens=5, usd=Decimal("0.25"))))
    assert [(rule.unit, rule.limit) for rule in rules] == [("tokens", 5), ("usd", PICO // 4)]


def test_limit_is_a_rule_for_each_unit() -> None:
    rules = list(rules_of("calm", RateSettings(requests=1, tokens=2, parallel=3)))
    assert [(rule.unit, rule.window, rule.limit) for rule in rules] == [
        ("requests", "minute", 1),
        ("tokens", "minute", 2),
        ("parallel", "now", 3),
    ]
    assert all(rule.is_rate for rule in rules)


def test_nested_turn_spends_what_belongs_to_the_turn_that_started_it() -> None:
    parent = make_turn()
    nested = make_turn()
    nested.parent = parent
    request = ModelRequest(model=ModelRef("script", "test"), cause="memory.extract")
    found = subjects(nested, request)
    assert found["session"] == str(parent.session)
    assert found["plugin"] == "memory"
    assert "heartbeat" not in found


NAMES = st.text(st.sampled_from("ab:%/."), min_size=1, max_size=4)


@given(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES))
@example(("a", "b:c"), ("a:b", "c"))
def test_no_two_accounts_spend_from_one_counter(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    request = ModelRequest(model=ModelRef("script", "test"), cause="answer")
    rule = LimitRule(name="a", scope="account", of="*", unit="tokens", window="day", limit=1)
    now = datetime(2026, 3, 1, tzinfo=UTC)

    def counter(channel: str, account: str) -> str:
        turn = make_turn(address=Address(channel, account, "ann"))
        return counter_key(rule, subjects(turn, request)["account"], now, turn.id)

    assert (counter(*one) == counter(*other)) is (one == other)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"budgets": {"a": {"scope": "agent"}}}, "neither `tokens` nor `usd`"),
        ({"limits": {"a": {}}}, "neither `requests`, `tokens` nor `parallel`"),
        ({"budgets": {"A b": {"tokens": 1}}}, "found the name 'A b' in `budgets`"),
        ({"budgets": {"a": {"tokens": -1}}}, "greater than or equal to 0"),
        ({"budgets": {"a": {"usd": 10**7}}}, "less than or equal to 9000000"),
        ({"budgets": {"a": {"tokens": 1, "window": "week"}}}, "'turn', 'day' or 'month'"),
    ],
)
def test_settings_that_limit_nothing_or_cannot_be_are_refused(
    section: dict[str, object], said: str
) -> None:
    with pytest.raises(ValidationError, match=said):
        MeteringSettings.model_validate(section)


def test_a_key_brings_each_limit_once_and_of_two_the_lesser() -> None:
    claims = {
        "budgets": [
            {"window": "day", "tokens": 500},
            {"window": "day", "tokens": 300, "usd": "1.5"},
            {"window": "month", "tokens": 900, "scope": "global", "of": "others"},
        ],
        "limits": {"requests": 60, "tokens": 1000},
    }
    rules = own_rules(Principal(id="key:ci", key="ci", claims=claims))
    assert sorted((rule.unit, rule.window, rule.limit) for rule in rules) == [
        ("requests", "minute", 60),
        ("tokens", "day", 300),
        ("tokens", "minute", 1000),
        ("tokens", "month", 900),
        ("usd", "day", int(Decimal("1.5") * PICO)),
    ]
    # Whatever the claims say, they are for this key alone.
    assert {(rule.scope, rule.of) for rule in rules} == {("key", "*")}
    # No name of the settings is theirs, so no counter is shared.
    with pytest.raises(ValidationError):
        MeteringSettings(budgets={rules[0].name: BudgetSettings(tokens=1)})
    assert own_rules(Principal(id="key:ci", claims={"modes": ["guard"]})) == ()


@pytest.mark.parametrize(
    "claims",
    [
        {"budgets": 5},
        {"budgets": {"tokens": 1}},
        {"budgets": [{}]},
        {"budgets": [{"tokens": -1}]},
        {"budgets": ["tokens"]},
        {"limits": [1]},
        {"limits": {"requests": "many"}},
        {"limits": {"speed": 1}},
        {"limits": {"requests": object()}},
    ],
)
def test_limits_of_a_key_that_cannot_be_read_raise(claims: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        own_rules(Principal(id="key:ci", key="ci", claims=claims))
