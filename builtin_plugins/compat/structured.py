"""Answers in the form that a client has asked an agent for: checked, and asked for once more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hookgate import ToolDefinitionError, Turn, TurnRequest, WireError
from hookgate.builtin_plugins.compat.fields import Asked, bad, kind_of
from hookgate.builtin_plugins.compat.settings import MISFIT
from hookgate.builtin_plugins.compat.wires import chat_reader, messages_reader, responses_reader
from hookgate.wire import StrictJSONError, compile_schema, loads

AGAIN = (
    "Your answer does not have the form that was asked for: {why}. Answer again, with the JSON "
    "alone: no other text, and no fence around it."
)
MOST_PROBLEMS = 5
FIELDS = {
    chat_reader.WIRE: "response_format",
    responses_reader.WIRE: "text.format",
    messages_reader.WIRE: "output_config.format",
}
"""The field of each wire that has the form."""


def schema_of(asked: Asked) -> Mapping[str, Any] | None:
    """Return the schema that a request's answer is to fit; None where it is free."""
    form = asked.parameters.response_format
    if form == "json_object":
        return {"type": "object"}
    return None if form is None or isinstance(form, str) else {"type": "object", **form}


def check_schema(asked: Asked) -> None:
    """Refuse a schema by which nothing can be checked.

    Raises:
        WireError: It is none.
    """
    if (schema := schema_of(asked)) is None:
        return
    if schema["type"] != "object":
        raise bad(FIELDS[asked.wire], f"found a schema of {schema['type']!r}, expected an object's")
    try:
        compile_schema(schema)
    except ToolDefinitionError as error:
        raise bad(FIELDS[asked.wire], str(error)) from None


def misfit(schema: Mapping[str, Any], answer: str) -> str:
    """Return what of an answer does not fit; "" where all of it does."""
    try:
        value = loads(answer)
    except StrictJSONError as error:
        return f"it is no JSON ({error})"
    if not isinstance(value, dict):
        return f"it is {kind_of(value)}, and no object"
    return "; ".join(compile_schema(schema)(value)[:MOST_PROBLEMS])


def asked_again(wanted: TurnRequest, turn: Turn, why: str) -> TurnRequest:
    """Return what is asked where an answer does not fit.

    Args:
        wanted: What was asked.
        turn: What came of it.
        why: What does not fit.
    """
    history = wanted.client_history
    if history is not None:
        history = (*history, *turn.messages)
    return replace(
        wanted,
        content=AGAIN.format(why=why),
        images=(),
        tool_results=(),
        client_history=history,
    )


def check_again(schema: Mapping[str, Any], turn: Turn) -> None:
    """Refuse an answer that does not fit either.

    Raises:
        WireError: It does not.
    """
    if turn.ending == "done" and (why := misfit(schema, turn.answer)):
        raise WireError.named(
            MISFIT,
            f"the model has answered twice, and not in the form that was asked for: {why}",
            action="ask again, or in a simpler form",
        )
