"""The counts of a call: disjoint, added one by one, and never less in an estimate."""

from __future__ import annotations

from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from hookgate import Usage
from hookgate.core.turn.tools.sound import MAX_TOKENS, at_least, sound_usage

COUNTS = Usage.COUNTS
USAGES = st.builds(
    Usage,
    **{name: st.integers(0, MAX_TOKENS) for name in COUNTS},
    reported=st.booleans(),
)
COUNTED = st.builds(
    Usage,
    **{
        name: st.integers(0, 10_000)
        for name in ("input_tokens", "output_tokens", "reasoning_tokens")
    },
    reported=st.just(False),
)


def test_every_count_is_either_input_or_output() -> None:
    assert {field.name for field in fields(Usage)} == {*COUNTS, "reported"}
    assert len(set(COUNTS)) == len(COUNTS)


@given(first=USAGES, second=USAGES)
def test_adding_loses_nothing_and_counts_nothing_twice(first: Usage, second: Usage) -> None:
    added = first + second
    for name in COUNTS:
        assert getattr(added, name) == getattr(first, name) + getattr(second, name)
    assert added.total_input == sum(getattr(added, name) for name in Usage.INPUTS)
    assert added.total_output == sum(getattr(added, name) for name in Usage.OUTPUTS)
    assert added.total == first.total + second.total == added.total_input + added.total_output
    assert added.reported is (first.reported and second.reported)


def test_the_wire_has_totals_and_their_parts() -> None:
    usage = Usage(**{name: 10**place for place, name in enumerate(COUNTS)})
    assert usage.to_json() == {
        "input_tokens": 111_111,
        "output_tokens": 1_111_000_000,
        "cache_read_tokens": 10,
        "cache_write_tokens": 1_100,
        "cache_write_hour_tokens": 1_000,
        "audio_input_tokens": 10_000,
        "image_input_tokens": 100_000,
        "reasoning_tokens": 10_000_000,
        "audio_output_tokens": 100_000_000,
        "image_output_tokens": 1_000_000_000,
        "reported": True,
    }


@given(usage=USAGES, name=st.sampled_from(COUNTS))
def test_one_impossible_count_makes_all_of_them_unsound(usage: Usage, name: str) -> None:
    assert sound_usage(usage) is usage
    kept = {field.name: getattr(usage, field.name) for field in fields(Usage)}
    for wrong in (-1, MAX_TOKENS + 1, 1.5, float("nan"), True, "12", None):
        assert sound_usage(Usage(**{**kept, name: wrong})) is None


@given(counted=COUNTED, told=st.none() | USAGES)
def test_an_estimate_is_never_below_what_was_told_or_counted(
    counted: Usage, told: Usage | None
) -> None:
    estimate = at_least(counted, told)
    assert sound_usage(estimate) is estimate or estimate.total_output > MAX_TOKENS
    assert not estimate.reported
    assert estimate.total_output >= counted.total_output
    if told is not None:
        assert estimate.total_output >= told.total_output
        assert all(getattr(estimate, name) == getattr(told, name) for name in Usage.INPUTS)
        assert estimate.audio_output_tokens == told.audio_output_tokens
        assert estimate.image_output_tokens == told.image_output_tokens
