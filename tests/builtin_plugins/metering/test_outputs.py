from __future__ import annotations

from typing import Any

import pytest

from hookgate.builtin_plugins.metering.calls import (
    ENOUGH,
    LEAST,
    MOST_KEPT,
    SAMPLES,
    Outputs,
)
from hookgate.core.domain.models import ModelRef, ModelRequest


def asked(most: int = 4096, **more: Any) -> ModelRequest:
    return ModelRequest(model=ModelRef("acme", "large"), max_output_tokens=most, **more)


def noted(*tokens: int) -> Outputs:
    outputs = Outputs()
    for each in tokens:
        outputs.note("main", "turn", each)
    return outputs


@pytest.mark.parametrize(
    ("seen", "most", "least"),
    [
        ([], 4096, LEAST),
        ([], 100, 100),
        ([9000] * (ENOUGH - 1), 4096, LEAST),
        ([700] * ENOUGH, 4096, 700),
        ([700] * ENOUGH, 300, 300),
        ([10] * ENOUGH, 4096, LEAST),
    ],
)
def test_what_half_of_the_answers_need_is_the_least(seen: list[int], most: int, least: int) -> None:
    assert noted(*seen).least("main", asked(most)) == least


def test_twice_the_longest_answers_are_ample() -> None:
    outputs = noted(*[100] * (ENOUGH - 1), 800, *[100] * ENOUGH)
    assert outputs.ample("main", asked()) == LEAST
    outputs = noted(*[600] * ENOUGH)
    assert outputs.ample("main", asked()) == 1200
    assert outputs.ample("main", asked(1000)) == 1000
    assert Outputs().ample("main", asked()) == 4096


def test_agents_and_causes_are_told_apart() -> None:
    outputs = noted(*[900] * ENOUGH)
    assert outputs.least("other", asked()) == LEAST
    assert outputs.least("main", asked(cause="memory.extract")) == LEAST
    assert outputs.least("main", asked()) == 900


def test_thoughts_have_their_room_besides() -> None:
    """Anthropic takes no `max_tokens` that is not above the budget of the thoughts."""
    options = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    assert Outputs().least("main", asked(options=options)) == 2000 + LEAST
    for odd in ({"thinking": "on"}, {"thinking": {"budget_tokens": "many"}}):
        assert Outputs().least("main", asked(options=odd)) == LEAST


def test_old_answers_and_old_agents_are_forgotten() -> None:
    outputs = noted(*[3000] * ENOUGH, *[300] * SAMPLES)
    assert outputs.least("main", asked()) == 300
    for number in range(MOST_KEPT):
        outputs.note(f"agent{number}", "turn", 1)
    assert outputs.least("main", asked()) == LEAST
