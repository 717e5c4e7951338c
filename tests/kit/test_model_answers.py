from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.builtin_plugins.turns import make_turn

from hookgate import TextDelta, TurnError
from hookgate.kit.model_answers import JsonQuestion, ask_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hookgate import ModelRequest, Turn

QUESTION = JsonQuestion(
    cause="acme.colours",
    purpose="names colours",
    instructions="Name colours.",
    expected="a JSON array of colours",
    code="no_colours",
    max_output_tokens=20,
)


class Host:
    """Calls a model that answers in two pieces."""

    def __init__(self, answer: str, seconds: float = 0) -> None:
        self.answer, self.seconds = answer, seconds
        self.tokens = self
        self.asked: list[ModelRequest] = []

    def count(self, text: str) -> int:
        return len(text.split())

    async def call_model(self, turn: Turn, request: ModelRequest) -> AsyncIterator[TextDelta]:
        del turn
        self.asked.append(request)
        await asyncio.sleep(self.seconds)
        yield TextDelta(self.answer[:3])
        yield TextDelta(self.answer[3:])


async def asked(host: Host, model: str = "demo/small") -> Any:
    turn = make_turn()
    turn.plan = replace(turn.plan, models=())
    return await ask_json(
        host,  # type: ignore[arg-type]
        turn,
        QUESTION,
        "a rainbow",
        model=model,
        taint=frozenset({"tool:x"}),
        seconds=0.05,
    )


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ('["red", {"shade": [1]}]', ["red", {"shade": [1]}]),
        ("[]", []),
        ('Of [these] I take\n```json\n["red"]\n```', ["red"]),
        ('{"colours": ["red"]}', ["red"]),
    ],
)
async def test_the_array_of_an_answer_is_returned(answer: str, found: list[Any]) -> None:
    assert await asked(Host(answer)) == found


async def test_the_call_says_what_it_is_for_and_carries_the_taint_of_its_data() -> None:
    host = Host("[]")
    await asked(host)
    (request,) = host.asked
    assert (str(request.model), request.cause) == ("demo/small", "acme.colours")
    assert (request.max_output_tokens, request.input_tokens) == (20, 4)
    assert [(one.text, one.taint) for one in request.messages] == [
        ("a rainbow", frozenset({"tool:x"}))
    ]


async def test_an_answer_without_an_array_is_named_with_what_was_expected() -> None:
    with pytest.raises(TurnError, match=r"names colours answered 'Red!': expected a JSON array"):
        await asked(Host("Red!"))


async def test_a_model_that_takes_too_long_is_not_waited_for() -> None:
    with pytest.raises(TurnError, match=r"took longer than 0\.05 s") as raised:
        await asked(Host("[]", seconds=60))
    assert raised.value.code == "no_colours"


async def test_without_a_model_of_its_own_and_of_the_turn_that_is_said() -> None:
    with pytest.raises(TurnError, match="there is no model that names colours"):
        await asked(Host("[]"), model="")
