from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.metering.calls import UNBILLED, charged
from hookgate.core.domain.models import Ending, ModelRef, ModelRequest, Usage

REQUEST = ModelRequest(model=ModelRef("script", "test"), max_output_tokens=1000, input_tokens=50)
TOLD = Usage(input_tokens=400, cache_read_tokens=100, output_tokens=20)
RESERVED = Usage(input_tokens=500, output_tokens=1000, reported=False)
ESTIMATED = Usage(input_tokens=50, output_tokens=20, reported=False)
KEPT = Usage(input_tokens=400, cache_read_tokens=100, output_tokens=1000, reported=False)


def bound() -> int:
    return 500


@pytest.mark.parametrize(
    ("ending", "usage", "expected"),
    [
        (Ending(status="refused"), None, Usage()),
        (Ending(status="cancelled"), None, Usage()),
        (Ending(status="done", stop="end", started=True, sent=True), TOLD, TOLD),
        # A cancel that comes behind the provider's last word changes nothing.
        (Ending(status="cancelled", stop="end", started=True, sent=True), TOLD, TOLD),
        # A cut between the stop and the usage: nobody has said what was used.
        (Ending(status="cut", stop="end", started=True, sent=True), ESTIMATED, RESERVED),
        (Ending(status="done", stop="end", started=True, sent=True), ESTIMATED, ESTIMATED),
        (Ending(status="failed", kind="rate_limited", sent=True), None, Usage()),
        (Ending(status="failed", kind="timeout", sent=True), None, RESERVED),
        (Ending(status="failed", kind="malformed", sent=True), None, RESERVED),
        (Ending(status="cut", kind="cut", started=True, sent=True), None, RESERVED),
        # What was told on the way is less than what was used, and keeps its kinds.
        (Ending(status="cut", kind="cut", started=True, sent=True), TOLD, KEPT),
        (Ending(status="cancelled", started=True, sent=True), TOLD, KEPT),
        # An error behind a first piece is no answer that was never begun.
        (Ending(status="cut", kind="server", started=True, sent=True), None, RESERVED),
    ],
)
def test_every_way_out_of_a_call_has_its_charge(
    ending: Ending, usage: Usage | None, expected: Usage
) -> None:
    assert charged(REQUEST, ending, usage, bound) == expected


NAMES = Usage.COUNTS


@given(
    told=st.builds(Usage, **{name: st.integers(0, 10**9) for name in NAMES}),
    status=st.sampled_from(["cut", "cancelled", "failed"]),
    started=st.booleans(),
)
def test_lost_call_is_never_charged_less_than_was_told_or_reserved(
    told: Usage, status: str, started: bool
) -> None:
    ending = Ending(status=status, started=started, sent=True)  # type: ignore[arg-type]
    found = charged(REQUEST, ending, told, bound)
    assert found.total_input == max(told.total_input, bound())
    assert found.total_output == max(told.total_output, REQUEST.max_output_tokens)
    # Of each kind as well: some cost more than plain input and output do.
    assert all(getattr(found, name) >= getattr(told, name) for name in NAMES)
    assert not found.reported


def test_errors_that_cost_nothing_are_those_of_a_provider_that_has_not_begun() -> None:
    assert "timeout" not in UNBILLED
    assert "cut" not in UNBILLED
    assert "malformed" not in UNBILLED
