"""A hookgate plugin: messages are masked, some are answered, and a tool calls other tools."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from hookgate import Flags, Section, Tool, ToolResult, TurnAnswer, hookimpl

if TYPE_CHECKING:
    from hookgate import Message, Refusal, Turn

CARD = re.compile(r"\b(?:\d[ -]?){12,18}\d\b")

ARRIVAL = {
    "type": "object",
    "properties": {"minutes": {"type": "integer", "description": "Minutes on the way."}},
    "required": ["minutes"],
    "additionalProperties": False,
}


class FrontDesk(Section):
    """``[plugin.front_desk]``."""

    answers: dict[str, str] = Field(default_factory=dict)
    """What is answered to messages that hold these words, whatever their case."""


class Plugin:
    """Masks, answers, and says when a guest will be there."""

    Settings = FrontDesk

    def __init__(self, settings: FrontDesk) -> None:
        self.settings = settings

    @hookimpl
    def receive_message(self, turn: Turn, message: Message) -> Message | Refusal | None:
        """Mask numbers of cards before anything of the message is kept."""
        if not CARD.search(message.text):
            return None
        return message.with_texts(lambda text: CARD.sub("[card number]", text))

    @hookimpl
    def before_turn(self, turn: Turn) -> Refusal | TurnAnswer | None:
        """Answer what is asked all day."""
        said = turn.message.text.casefold()
        for words, answer in self.settings.answers.items():
            if words.casefold() in said:
                return TurnAnswer(answer)
        return None

    @hookimpl
    def list_tools(self) -> Sequence[Tool]:
        """Bring the tool."""
        return [
            Tool(
                name="arrival",
                description="Say when a guest arrives who is so many minutes away.",
                schema=ARRIVAL,
                flags=Flags.none(),
                run=arrival,
            )
        ]


async def arrival(turn: Turn, arguments: Mapping[str, Any]) -> ToolResult | str:
    """Ask the clock and the calculator, in the turn that this is called in."""
    clock = await turn.call("clock", {})
    hours = await turn.call("calculate", {"expression": f"{arguments['minutes']} / 60"})
    for inner in (clock, hours):
        if inner.result.is_error:
            return inner.result
    return f"{hours.result.text} hours from {clock.result.text}"
