from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from hookgate.core.gateway.access.credentials import WINDOW, Attempts


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_an_address_may_fail_so_often_in_a_minute_and_then_waits() -> None:
    clock = Clock()
    attempts = Attempts(3, clock)
    for _ in range(3):
        assert attempts.wait("a") == 0
        attempts.failed("a")
        clock.now += 10
    assert attempts.wait("a") == 30
    assert attempts.wait("b") == 0
    clock.now += 30
    assert attempts.wait("a") == 0
    attempts.failed("a")
    assert attempts.wait("a") == 10


def test_another_limit_counts_for_those_who_have_failed_before() -> None:
    clock = Clock()
    attempts = Attempts(2, clock)
    for _ in range(2):
        attempts.failed("a")
        clock.now += 10
    attempts.take(4)
    for _ in range(2):
        assert attempts.wait("a") == 0
        attempts.failed("a")
    assert attempts.wait("a") == WINDOW - 20
    attempts.take(1)
    assert attempts.wait("a") == WINDOW


def test_no_more_addresses_are_remembered_than_there_is_room_for() -> None:
    attempts = Attempts(1, Clock(), capacity=10)
    for number in range(1000):
        attempts.failed(str(number))
    assert len(attempts) == 10
    assert attempts.wait("999") > 0
    assert attempts.wait("0") == 0


def test_who_keeps_failing_is_not_forgotten_first() -> None:
    attempts = Attempts(2, Clock(), capacity=2)
    attempts.failed("old")
    attempts.failed("other")
    attempts.failed("old")
    attempts.failed("new")
    assert attempts.wait("old") > 0


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 30)), max_size=200))
def test_never_more_failures_in_any_minute_than_the_limit(steps: list[tuple[str, float]]) -> None:
    clock, limit = Clock(), 5
    attempts = Attempts(limit, clock)
    evaluated = defaultdict(list)
    for address, seconds in steps:
        clock.now += seconds
        if attempts.wait(address) == 0:
            attempts.failed(address)
            evaluated[address].append(clock.now)
    for times in evaluated.values():
        for first, last in zip(times, times[limit:], strict=False):
            assert last - first >= WINDOW - 1e-6
