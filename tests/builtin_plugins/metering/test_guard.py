from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.metering.limits import SESSIONS, SessionGuard, percentile
from hookgate.builtin_plugins.metering.settings import GuardSettings

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def used(guard: SessionGuard, turns: int, tokens: int = 10_000, at: datetime = NOW) -> None:
    for number in range(turns):
        guard.add("s", f"turn_{number}", tokens, at)
    guard.add("s", "now", 0, at)


def test_turn_that_burns_far_more_than_its_session_ever_has_is_strange() -> None:
    guard = SessionGuard(GuardSettings())
    used(guard, 20)
    guard.add("s", "now", 50_000, NOW)
    assert guard.strange("s", "now", NOW) == ""
    guard.add("s", "now", 1, NOW)
    assert "50,001 tokens, 5 times more than" in guard.strange("s", "now", NOW)
    # Another turn of it has not burnt anything.
    assert guard.strange("s", "next", NOW) == ""


def test_nothing_is_said_of_a_session_with_few_turns_or_old_ones() -> None:
    few, old = SessionGuard(GuardSettings()), SessionGuard(GuardSettings())
    used(few, 19)
    used(old, 40, at=NOW - timedelta(days=8))
    for guard in (few, old):
        guard.add("s", "now", 10**6, NOW)
        assert guard.strange("s", "now", NOW) == ""


def test_history_of_the_ledger_counts_like_what_was_seen() -> None:
    guard = SessionGuard(GuardSettings())
    assert not guard.knows("s")
    assert guard.knows("s")
    guard.recall("s", [(f"turn_{number}", NOW, 10_000) for number in range(20)])
    guard.add("s", "now", 60_000, NOW)
    assert guard.strange("s", "now", NOW)


def test_turns_side_by_side_do_not_hide_each_other() -> None:
    guard = SessionGuard(GuardSettings())
    used(guard, 20)
    for _ in range(6):
        guard.add("s", "now", 10_000, NOW)
        guard.add("s", "turn_19", 10, NOW)
    assert guard.strange("s", "now", NOW)


def test_guard_keeps_so_many_sessions_and_no_more() -> None:
    guard = SessionGuard(GuardSettings())
    for number in range(SESSIONS + 10):
        assert not guard.knows(f"session {number}")
    assert not guard.knows("session 0")
    assert guard.knows(f"session {SESSIONS + 9}")


@given(st.lists(st.integers(0, 10**9), min_size=1))
def test_percentile_is_a_value_that_so_many_do_not_exceed(values: list[int]) -> None:
    found = percentile(values, 0.95)
    assert found in values
    assert sum(value <= found for value in values) >= 0.95 * len(values)
