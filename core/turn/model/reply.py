"""Putting a model's answer together while it streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from hookgate.core.domain.events import Event
from hookgate.core.domain.messages import Message, Part, Taint
from hookgate.core.domain.models import (
    Citation,
    Embedded,
    Frame,
    ModelEvent,
    OpaqueDelta,
    ReasoningDelta,
    StopEvent,
    TextDelta,
    TokenCount,
    ToolUseEvent,
)
from hookgate.core.domain.parts import Raw, Text, TextForm, TextFrames, came_as, raws_together
from hookgate.core.domain.ports import Secrets
from hookgate.core.domain.strict_json import dumps, well_formed
from hookgate.core.domain.turn import Turn
from hookgate.core.settings.secret_store import redact_json
from hookgate.core.turn.tools.call import of_client
from hookgate.core.turn.tools.sound import sound_use

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
        now: Returns the time in UTC.
        most: Calls that are shown to the client, since they may run.

    Of a request that is passed on as it came, the client is told what the answer came as, too:
    with each event whose text nothing was masked in or held back of, and in frames beside them.

    Attributes:
        calls: How many tools the model has called.
        came: The calls as they came, by the id that they have kept.
    """

    def __init__(
        self, turn: Turn, secrets: Secrets, now: Callable[[], datetime], *, most: int
    ) -> None:
        self._turn = turn
        self._now = now
        self._secrets = secrets
        self._most = most
        self._parts: list[Part] = []
        self._text: list[str] = []
        self._ids: set[str] | None = None
        self.calls = 0
        self.came: dict[str, ToolUseEvent] = {}
        self._held = {"text": "", "reasoning": ""}
        self._waiting: dict[str, list[TextDelta | ReasoningDelta | None]] = {
            "text": [],
            "reasoning": [],
        }
        """The pieces that are held back; None for one of which some was told already."""
        self._as_it_comes = turn.raw is not None
        self._begun = False
        self._clean: TextForm | None = None
        """The form of frames that was last found to hold no secret."""
        self._frames: list[Frame] = []

    def take(self, event: ModelEvent) -> None:
        """Add `event` to the answer, and pass it on to the client at once."""
        match event:
            case TextDelta(text):
                self._text.append(text)
                self._say("text", text, event)
            case ReasoningDelta(text):
                self._say("reasoning", text, event)
            case ToolUseEvent():
                self.calls += 1
                if self.calls <= MAX_CALLS:
                    self._flush()
                    self._begin()
                    self._call(event)
            case OpaqueDelta(part):
                self._turn.extra_taint |= event.taint
                self._flush()
                self._begin()
                self._parts.append(part)
                data = {"provider": part.provider, "data": dict(part.data)}
                self._turn.tell(Event("opaque", data, scope="chat", value=event))
            case Citation():
                self._turn.extra_taint |= event.taint
                self._begin()
                names = ("url", "title", "cited", "start", "end")
                told = redact_json(self._secrets, {one: getattr(event, one) for one in names})
                self._turn.tell(Event("citation", told, scope="chat", value=event))
            case Frame():
                if event.ends:
                    self._flush()
                self._frames.append(event)
                if self._begun and not any(self._held.values()):
                    self._tell_frames()
            case Embedded():
                self._turn.tell(Event("embedded", {}, scope="chat", value=event))
            case TokenCount():
                self._turn.tell(Event("counted", {}, scope="chat", value=event))
            case StopEvent() if self._as_it_comes:
                self._flush()
                self._begin()
                stop = came_as(replace(event), self._safe(event.raw))
                self._turn.tell(Event("stop", {"reason": stop.reason}, scope="chat", value=stop))
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
        return Message(
            role="assistant",
            parts=tuple(parts),
            taint=taint,
            turn=self._turn.id,
            created=self._now(),
        )

    def _call(self, event: ToolUseEvent) -> None:
        """Add a call, with an id that no call has that this answer's model has read or made."""
        turn = self._turn
        if self._ids is None:
            messages = (*turn.history, *turn.messages)
            self._ids = {use.id for message in messages for use in message.tool_uses}
        use = sound_use(event, self._ids)
        self._ids.add(use.id)
        self._parts.append(use)
        if self._as_it_comes and (use.id, use.name) == (event.id, event.name):
            self.came[use.id] = event
        tool = turn.offered.get(use.name) or of_client(turn, use.name)
        # A client's own call is held back until it has been judged.
        if self.calls <= self._most and (tool is None or tool.owner == "host"):
            data = {"id": use.id, "name": use.name, "input": use.input}
            turn.emit(Event("tool_use", redact_json(self._secrets, data), scope="chat"))

    def _say(self, kind: str, text: str, event: TextDelta | ReasoningDelta) -> None:
        before = self._held[kind]
        whole = before + text
        said, held = self._secrets.settle(whole)
        self._held[kind] = held
        if not (before or held):
            self._tell(kind, said, event if said == text else None)
            return
        waiting = self._waiting[kind]
        waiting.append(event)
        if said or not held:
            self._tell(kind, said, _together(waiting) if said == whole else None)
            waiting[:] = [None] if held else []

    def _tell(self, kind: str, text: str, event: TextDelta | ReasoningDelta | None = None) -> None:
        if not self._as_it_comes:
            self._turn.say(kind, text)
            return
        if not self._begun:
            self._begin()
        if event is not None and event.raw is not None:
            raw = self._safe(event.raw)
            if raw is not event.raw:
                event = came_as(replace(event), raw)
        self._turn.say(kind, text, event)
        if self._frames:
            self._tell_frames()

    def _begin(self) -> None:
        """Tell what came before the answer: of one that has not begun the client hears nothing."""
        if self._as_it_comes and not self._begun:
            self._begun = True
            self._tell_frames()

    def _tell_frames(self) -> None:
        for frame in self._frames:
            raw = self._safe(frame.raw)
            if raw is not None:
                self._turn.tell(Event("frame", {}, scope="chat", value=Frame(raw)))
        self._frames.clear()

    def _safe(self, raw: Raw | None) -> Raw | None:
        """Return what something came as, with secrets masked."""
        if raw is None:
            return None
        # One look for all of it: nearly always it holds no secret.
        if type(raw) is TextFrames:
            # Their texts were looked at as the text that they are told with.
            form = raw.form
            if form is self._clean:
                return raw
            around = (form.head + form.tail).decode()
            if self._secrets.redact(around) == around:
                self._clean = form
                return raw
        else:
            with suppress(TypeError):  # a provider may have put what is no JSON there
                written = dumps(raw.data).decode()
                if self._secrets.redact(written) == written:
                    return raw
        return Raw(wire=raw.wire, data=redact_json(self._secrets, {"data": raw.data})["data"])

    def _flush(self) -> None:
        """End a part of the answer: nothing follows that what is held back could go on with."""
        for kind, held in self._held.items():
            if held:
                self._held[kind] = ""
                said, waiting = self._secrets.redact(held), self._waiting[kind]
                self._tell(kind, said, _together(waiting) if said == held else None)
                waiting.clear()
        if self._text:
            self._parts.append(Text(well_formed("".join(self._text))))
            self._text.clear()


def _together(
    pieces: Sequence[TextDelta | ReasoningDelta | None],
) -> TextDelta | ReasoningDelta | None:
    """Return pieces of text as one, with what all of them came as; None where one lacks that."""
    whole = [one for one in pieces if one is not None]
    raws = [one.raw for one in whole if one.raw is not None]
    if len(raws) < len(pieces):
        return None
    text, came = "".join([one.text for one in whole]), raws_together(raws)
    return came_as(
        TextDelta(text) if isinstance(whole[0], TextDelta) else ReasoningDelta(text), came
    )
