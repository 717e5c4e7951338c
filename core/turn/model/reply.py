"""Putting a model's answer together while it streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookgate.core.domain.events import Event
from hookgate.core.domain.messages import Message
from hookgate.core.domain.models import OpaqueDelta, ReasoningDelta, TextDelta, ToolUseEvent
from hookgate.core.domain.parts import Text
from hookgate.core.domain.strict_json import well_formed
from hookgate.core.settings.secret_store import redact_json
from hookgate.core.turn.tools.call import of_client
from hookgate.core.turn.tools.sound import sound_use

if TYPE_CHECKING:
    from hookgate.core.domain.messages import Part, Taint
    from hookgate.core.domain.models import ModelEvent
    from hookgate.core.domain.ports import Secrets
    from hookgate.core.domain.turn import Turn

MAX_CALLS = 1024
"""Calls of one message that are kept, each with a result; past all use, and bounded so that
nothing that handles the message later has more to handle."""


class Reply:
    """One answer of a model, as far as it has come.

    The message keeps what was said; what goes out has secrets masked, also one that comes in
    pieces. Held back is only what may be the beginning of one.

    Args:
        turn: Whose answer it is.
        secrets: Masks what the client is shown.
        most: Calls that are shown to the client, since they may run.

    Attributes:
        calls: How many tools the model has called.
    """

    def __init__(self, turn: Turn, secrets: Secrets, *, most: int) -> None:
        self._turn = turn
        self._secrets = secrets
        self._most = most
        self._parts: list[Part] = []
        self._text: list[str] = []
        self._ids: set[str] | None = None
        self.calls = 0
        self._held = {"text": "", "reasoning": ""}

    def take(self, event: ModelEvent) -> None:
        """Add `event` to the answer, and pass it on to the client at once."""
        match event:
            case TextDelta(text):
                self._text.append(text)
                self._say("text", text)
            case ReasoningDelta(text):
                self._say("reasoning", text)
            case ToolUseEvent():
                self.calls += 1
                if self.calls <= MAX_CALLS:
                    self._flush()
                    self._call(event)
            case OpaqueDelta(part):
                self._flush()
                self._parts.append(part)
                data = {"provider": part.provider, "data": dict(part.data)}
                self._turn.tell(Event("opaque", data, scope="chat", value=part))
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

    def _call(self, event: ToolUseEvent) -> None:
        """Add a call, with an id that no call has that this answer's model has read or made."""
        turn = self._turn
        if self._ids is None:
            messages = (*turn.history, *turn.messages)
            self._ids = {use.id for message in messages for use in message.tool_uses}
        use = sound_use(event, self._ids)
        self._ids.add(use.id)
        self._parts.append(use)
        tool = turn.offered.get(use.name) or of_client(turn, use.name)
        # A client's own call is held back until it has been judged.
        if self.calls <= self._most and (tool is None or tool.owner == "host"):
            data = {"id": use.id, "name": use.name, "input": use.input}
            turn.emit(Event("tool_use", redact_json(self._secrets, data), scope="chat"))

    def _say(self, kind: str, text: str) -> None:
        said, self._held[kind] = self._secrets.settle(self._held[kind] + text)
        if said or not self._held[kind]:
            self._tell(kind, said)

    def _tell(self, kind: str, text: str) -> None:
        self._turn.emit(Event(kind, {"text": text}, scope="chat"))

    def _flush(self) -> None:
        """End a part of the answer: nothing follows that what is held back could go on with."""
        for kind, held in self._held.items():
            if held:
                self._held[kind] = ""
                self._tell(kind, self._secrets.redact(held))
        if self._text:
            self._parts.append(Text(well_formed("".join(self._text))))
            self._text.clear()
