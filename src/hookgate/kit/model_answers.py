"""Asking a model for JSON beside the turn: metered and guarded like any other call."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from hookgate.core.domain.errors import TurnError
from hookgate.core.domain.messages import Message, Taint
from hookgate.core.domain.models import ModelRef, ModelRequest, SystemText, TextDelta, source_of
from hookgate.core.domain.parts import Text

if TYPE_CHECKING:
    from hookgate.core.domain.turn import Turn
    from hookgate.core.host import Host

__all__ = ["JsonQuestion", "ask_json"]

_ARRAY = re.compile(r"\[[^\[\]]*\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonQuestion:
    """What a model is asked for, whatever the data.

    Attributes:
        cause: What metering knows these calls by: the plugin, a dot, and what for.
        purpose: What the model does, for messages: `finds facts`.
        instructions: What it is told. They ask for a JSON array, and for nothing else.
        expected: What an answer is to be, for the message about one that is not.
        code: Of the error where there is no answer that can be read.
        max_output_tokens: How long an answer may be.
    """

    cause: str
    purpose: str
    instructions: str
    expected: str
    code: str
    max_output_tokens: int


async def ask_json(
    host: Host,
    turn: Turn,
    question: JsonQuestion,
    data: str,
    *,
    model: str,
    taint: Taint,
    seconds: float,
) -> list[Any]:
    """Return the JSON array that a model answers with; what is in it is anybody's guess.

    Args:
        host: The gateway; the call goes through every hook that guards and meters.
        turn: The turn that it is asked for, and paid in.
        question: What is asked for.
        data: What the model gets to read, as the message of a user.
        model: ``provider/model``; the turn's own first model where it is empty.
        taint: Where untrusted text in the data came from.
        seconds: So long the answer may take.

    Raises:
        HookgateError: The model could not be asked, or its answer holds no JSON array.
    """
    who = f"the model that {question.purpose}"
    if not (model or turn.plan.models):
        raise TurnError(f"there is no model that {question.purpose}", code="no_model")
    source = source_of(question.cause.partition(".")[0], "instructions")
    request = ModelRequest(
        model=ModelRef.parse(model) if model else turn.plan.models[0],
        system=(SystemText(text=question.instructions, source=source),),
        messages=(
            Message(
                role="user",
                parts=(Text(data),),
                provenance=turn.origin.provenance,
                taint=taint,
                turn=turn.id,
            ),
        ),
        max_output_tokens=question.max_output_tokens,
        temperature=0.0,
        input_tokens=host.tokens.count(question.instructions) + host.tokens.count(data),
        cause=question.cause,
    )
    events = host.call_model(turn, request)
    try:
        async with asyncio.timeout(seconds):
            said = [event.text async for event in events if isinstance(event, TextDelta)]
    except TimeoutError:
        raise TurnError(f"{who} took longer than {seconds:g} s", code=question.code) from None
    answer = "".join(said)
    # The whole of it; or the last array in it, of a model that says more than it was asked for.
    for text in (answer, *reversed(_ARRAY.findall(answer))):
        try:
            found = orjson.loads(text)
        except orjson.JSONDecodeError:
            continue
        if isinstance(found, list):
            return found
    raise TurnError(
        f"{who} answered {answer[:80]!r}: expected {question.expected}", code=question.code
    )
