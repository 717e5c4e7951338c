from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.awareness.settings import KillSwitchSettings
from hookgate.builtin_plugins.awareness.switch import (
    CardWindow,
    KillSwitch,
    SwitchState,
)

HOUR = 3_600_000
NOW = 1_700_000_000_000


def counted(turns: int, triggered: int, switch: KillSwitch | None = None) -> KillSwitch:
    """A switch after so many turns, those with a card first."""
    switch = switch or KillSwitch(KillSwitchSettings())
    for number in range(turns):
        switch.add(NOW + number, triggered=number < triggered)
    return switch


def test_51_turns_of_which_31_percent_had_a_card_trip_it() -> None:
    assert 0.31 < 16 / 51 < 0.32
    assert not counted(51, 16).state.on


def test_the_fifty_first_turn_can_be_the_one_that_trips_it() -> None:
    switch = KillSwitch(KillSwitchSettings())
    for number in range(50):
        assert switch.add(NOW + number, triggered=number < 15) is None
    window = switch.add(NOW + 50, triggered=True)
    assert window is not None
    assert (window.turns, window.triggered) == (51, 16)
    assert switch.state.reason.startswith("16 of 51 turns had a card in 24 hours: 31.4%")


def test_50_turns_of_which_30_percent_had_a_card_do_not_trip_it() -> None:
    assert counted(50, 15).state.on


def test_49_turns_say_nothing_even_where_all_had_a_card() -> None:
    assert counted(49, 49).state.on


def test_turns_before_the_window_do_not_count() -> None:
    switch = KillSwitch(KillSwitchSettings())
    switch.replay([(NOW - 25 * HOUR, True)] * 60)
    assert switch.add(NOW, triggered=False) is None
    assert switch.window(NOW).turns == 1


def test_turning_it_on_begins_a_window_afresh_and_earlier_turns_are_not_replayed() -> None:
    switch = counted(60, 60)
    switch.turn_on(NOW + 1000)
    assert switch.state == SwitchState(on=True, at=NOW + 1000, since=NOW + 1000)
    assert switch.window(NOW + 1000).turns == 0
    switch.replay([(NOW + 999, True), (NOW + 1001, True)])
    assert switch.window(NOW + 1001).turns == 1


def test_turns_that_follow_while_it_is_off_do_not_change_the_reason() -> None:
    switch = KillSwitch(KillSwitchSettings())
    switch.turn_off(NOW, "said so")
    counted(60, 60, switch)
    assert switch.state.reason == "said so"


@pytest.mark.parametrize(
    ("settings", "trips"),
    [
        (KillSwitchSettings(enabled=False), False),
        (KillSwitchSettings(threshold=0.9), False),
        (KillSwitchSettings(threshold=0.5), True),
        (KillSwitchSettings(samples=61), False),
        (KillSwitchSettings(threshold=0.0, samples=1), True),
    ],
)
def test_threshold_samples_and_whether_at_all_are_settings(
    settings: KillSwitchSettings, trips: bool
) -> None:
    assert counted(60, 40, KillSwitch(settings)).state.on is not trips


@given(st.lists(st.tuples(st.integers(0, 48 * HOUR), st.booleans()), max_size=80))
def test_the_window_is_what_a_plain_count_says(turns: list[tuple[int, bool]]) -> None:
    turns.sort()
    switch = KillSwitch(KillSwitchSettings(enabled=False))
    for at, triggered in turns:
        switch.add(at, triggered=triggered)
        start = at - 24 * HOUR
        inside = [had for when, had in turns if start <= when <= at]
        window = switch.window(at)
        assert window.turns <= len(inside)  # turns of the same millisecond may still come
    end = turns[-1][0] if turns else 0
    inside = [had for when, had in turns if when >= end - 24 * HOUR]
    window = switch.window(end)
    assert (window.turns, window.triggered) == (len(inside), sum(inside))


def test_the_state_is_read_as_it_was_written() -> None:
    assert SwitchState.from_json(None) == SwitchState()
    state = SwitchState(on=False, reason="too many", at=5, since=3)
    assert SwitchState.from_json(state.to_json()) == state


@pytest.mark.parametrize(
    "held",
    ["", [], {}, {"on": 1}, {"on": True, "reason": 3}, {"on": False, "at": "x"}],
)
def test_a_state_that_makes_no_sense_is_an_error(held: object) -> None:
    with pytest.raises(ValueError, match="found"):
        SwitchState.from_json(held)


def test_what_another_gateway_turned_on_begins_a_window_afresh_here_too() -> None:
    switch = counted(60, 60)
    switch.take(SwitchState(on=True, at=NOW + 55, since=NOW + 55))
    assert switch.state.on
    assert switch.window(NOW + 60) == CardWindow(turns=5, triggered=5)


def test_turns_of_a_clock_that_was_ahead_leave_the_window_with_the_others() -> None:
    switch = KillSwitch(KillSwitchSettings(samples=1000, window_hours=1))
    for minute in range(10):
        switch.add(10_000 * HOUR + minute, triggered=True)
    assert switch.add(HOUR, triggered=False) is None
    assert switch.window(HOUR) == CardWindow(turns=11, triggered=10)
    assert switch.window(2 * HOUR + 1) == CardWindow(turns=0, triggered=0)
