"""Putting a model's answer together while it streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookgate.core.events import Event
from hookgate.core.host import redact_json
from hookgate.core.messages import Message, Text, ToolUse
from hookgate.core.models import OpaqueDelta, ReasoningDelta, TextDelta, ToolUseEvent
from hookgate.core.soundness import sound_use
from hookgate.core.strict_json import well_formed

if TYPE_CHECKING:
    from hookgate.core.messages import Part, Taint
    from hookgate.core.models import ModelEvent
    from hookgate.core.ports import Secrets
    from hookgate.core.turn import Turn

__all__ = ["Reply"]


class Reply:
    """One answer of a model, as far as it has come."""

    def __init__(self, turn: Turn, secrets: Secrets) -> None:
        self._turn = turn
        self._secrets = secrets
        self._parts: list[Part] = []
        self._text: list[str] = []

    def take(self, event: ModelEvent) -> None:
        """Add `event` to the answer, and pass it on to the client at once."""
        turn = self._turn
        match event:
            case TextDelta(text):
                self._text.append(text)
                turn.emit(Event("text", {"text": text}, scope="chat"))
            case ReasoningDelta(text):
                turn.emit(Event("reasoning", {"text": text}, scope="chat"))
            case ToolUseEvent():
                self._flush()
                use = sound_use(event, self._ids())
                self._parts.append(use)
                tool = turn.offered.get(use.name)
                # A client's own call is held back until it has been judged.
                if tool is None or tool.owner == "host":
                    data = {"id": use.id, "name": use.name, "input": use.input}
                    turn.emit(Event("tool_use", redact_json(self._secrets, data), scope="chat"))
            case OpaqueDelta(part):
                self._flush()
                self._parts.append(part)
            case _:
                return

    def message(self, taint: Taint, *, whole: bool) -> Message | None:
        """Return the answer as a message; None where there is nothing of it.

        Args:
            taint: What the model had read.
            whole: False for an answer that was cut short: its tool calls are left out, since
                nobody will run them, and so is a provider's own data, which may be torn.
        """
        self._flush()
        parts = self._parts if whole else [part for part in self._parts if isinstance(part, Text)]
        if not parts and not whole:
            return None
        return Message(role="assistant", parts=tuple(parts), taint=taint, turn=self._turn.id)

    def _ids(self) -> set[str]:
        """Return the ids of all calls that this answer's model has read or made."""
        messages = (*self._turn.history, *self._turn.messages)
        ids = {use.id for message in messages for use in message.tool_uses}
        return ids | {part.id for part in self._parts if isinstance(part, ToolUse)}

    def _flush(self) -> None:
        if self._text:
            self._parts.append(Text(well_formed("".join(self._text))))
            self._text.clear()
