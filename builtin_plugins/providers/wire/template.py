"""Reading the tags that small local models write into their text.

Some servers pass on what a model wrote as it is: its thoughts between ``<think>`` and
``</think>``, its calls as JSON between ``<tool_call>`` and ``</tool_call>``. Whether that is
read depends on the model's settings, since any other model may write about such tags.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import orjson

from hookgate import ModelEvent, ReasoningDelta, StopEvent, TextDelta, ToolUseEvent, new_id
from hookgate.builtin_plugins.providers.wire.protocol import arguments_of
from hookgate.wire import StrictJSONError, TextForm, TextFrames, came_as, loads

ThinkTags = Literal["off", "on", "open"]

THINK, CALL = "think", "tool_call"

MAX_CALL = 262_144
"""Characters of the longest call that is waited for; a longer one is text."""


class TagReader:
    """Turns the text of one answer into text, reasoning and tool calls.

    Args:
        think: Whether thoughts are read; ``open`` if the answer begins within them.
        calls: Whether calls are read.

    Attributes:
        called: Whether a call was read.
    """

    def __init__(self, think: ThinkTags, *, calls: bool) -> None:
        self._opening = tuple(
            f"<{name}>" for name, read in ((THINK, think != "off"), (CALL, calls)) if read
        )
        self._inside = THINK if think == "open" else ""
        self._held = ""
        self._call: list[str] = []
        self._size = 0
        self._drop_space = True
        self.called = False

    def feed(self, text: str) -> Iterator[ModelEvent]:
        """Yield what some more text says; the beginning of a tag is held back."""
        text, self._held = self._held + text, ""
        while text:
            tags = (f"</{self._inside}>",) if self._inside else self._opening
            places = [(place, tag) for tag in tags if (place := text.find(tag)) >= 0]
            if not places:
                keep = _beginning(text, tags)
                self._held = text[len(text) - keep :]
                yield from self._say(text[: len(text) - keep])
                return
            place, tag = min(places)
            yield from self._say(text[:place])
            text = text[place + len(tag) :]
            if not tag.startswith("</"):
                self._inside = tag[1:-1]
            elif self._inside:
                yield from self._close(closed=True)
            else:
                yield TextDelta(tag)  # Of a call that was too long, and is text by now.

    def end(self) -> Iterator[ModelEvent]:
        """Yield what is left at the end of the answer, where a tag may be missing."""
        held, self._held = self._held, ""
        yield from self._say(held)
        if self._inside == CALL:
            yield from self._close(closed=False)

    def _say(self, text: str) -> Iterator[ModelEvent]:
        if self._inside == CALL:
            self._call.append(text)
            self._size += len(text)
            if self._size > MAX_CALL:
                yield from self._as_text(closed=False)
        elif self._inside:
            if text:
                yield ReasoningDelta(text)
        else:
            if self._drop_space:
                text = text.lstrip()
            if text:
                self._drop_space = False
                yield TextDelta(text)

    def _close(self, *, closed: bool) -> Iterator[ModelEvent]:
        """End what one is inside of; white space behind it is part of the tag."""
        inside, self._inside, self._drop_space = self._inside, "", True
        if inside != CALL:
            return
        call = _call_of("".join(self._call))
        if call is None:
            yield from self._as_text(closed=closed)
            return
        self._call.clear()
        self._size = 0
        self.called = True
        yield call

    def _as_text(self, *, closed: bool) -> Iterator[ModelEvent]:
        """Pass on what is no call after all, as it was written."""
        text = f"<{CALL}>{''.join(self._call)}" + (f"</{CALL}>" if closed else "")
        self._call.clear()
        self._size = 0
        self._inside, self._drop_space = "", False
        yield TextDelta(text)


def _beginning(text: str, tags: tuple[str, ...]) -> int:
    """Return how many characters at the end of `text` can be the beginning of a tag."""
    for size in range(min(len(text), max(map(len, tags), default=1) - 1), 0, -1):
        if any(tag.startswith(text[-size:]) for tag in tags):
            return size
    return 0


def _call_of(text: str) -> ToolUseEvent | None:
    """Return the call that stands between the tags, None where it is none."""
    try:
        value = loads(text.strip())
    except StrictJSONError:
        return None
    if not isinstance(value, dict) or not isinstance(name := value.get("name"), str) or not name:
        return None
    given = value.get("arguments", value.get("parameters", {}))
    if isinstance(given, str):
        given = arguments_of(given)
    elif not isinstance(given, dict):
        return None
    return ToolUseEvent(id=new_id("call"), name=name, input=given)


async def read_tags(
    events: AsyncGenerator[ModelEvent, None], reader: TagReader
) -> AsyncGenerator[ModelEvent, None]:
    """Yield the events of an answer with the tags in its text read."""
    try:
        async for event in events:
            if isinstance(event, TextDelta):
                for said in reader.feed(event.text):
                    yield said
                continue
            if isinstance(event, StopEvent | ToolUseEvent):
                for said in reader.end():
                    yield said
                if isinstance(event, StopEvent) and event.reason in ("end", "other"):
                    event = replace(event, reason="tool_use") if reader.called else event
            yield event
    finally:
        await events.aclose()


# -- template --------------------------------------------------------------------

# Reading events that differ from a parsed one in a single text, without parsing them.
#
# Nearly all events of an answer do. What stands before and behind the text of one event is kept;
# another one that has the same around a text without quotes, backslashes and control characters
# is the same JSON with another string in it. Measured on the wire, a parser that was not at work
# just before costs more than all the rest of the relay.

TRIES = 32
"""Shapes that are learnt in one answer. A server that changes more than the text from event
to event, padding for example, is given up on."""


class _Between:
    """Takes out what stands between a head and a tail.

    Attributes:
        length: Characters that it has taken out.
    """

    __slots__ = ("_head", "_room", "_tail", "length")

    def __init__(self, head: bytes, tail: bytes) -> None:
        self._head = head
        self._tail = tail
        self._room = len(head) + len(tail)
        self.length = 0

    def text(self, data: bytes) -> str | None:
        """Return the text, None where it is not certain to stand there as it is."""
        if (
            len(data) < self._room
            or not data.startswith(self._head)
            or not data.endswith(self._tail)
        ):
            return None
        raw = data[len(self._head) : len(data) - len(self._tail)]
        if b'"' in raw or b"\\" in raw:
            return None
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return None
        if not text.isprintable():
            return None
        self.length += len(text)
        return text

    def framed(self, before: bytes, behind: bytes) -> _Between:
        """Return what looks between `before` and the head, and the tail and `behind`."""
        return _Between(before + self._head, self._tail + behind)


def _unknown(_: bytes) -> None:
    return None


class TextTemplate:
    """The shape of an answer's events, and of the chunks that hold one of them each.

    Args:
        opening: Finds the name that the text stands under, and the quote that opens it.
        tries: Shapes that are learnt; with 0 each event is read whole.

    Attributes:
        text_of_event: Returns the text of an event of the known shape, None for any other one.
        text_of_chunk: The same of a chunk that begins where an event begins.
    """

    __slots__ = (
        "_before",
        "_chunk",
        "_event",
        "_opening",
        "_tries",
        "text_of_chunk",
        "text_of_event",
    )

    def __init__(self, opening: re.Pattern[bytes], tries: int = TRIES) -> None:
        self._opening = opening
        self._event: _Between | None = None
        self._chunk: _Between | None = None
        self._before = 0
        self._tries = tries
        self.text_of_event: Callable[[bytes], str | None] = _unknown
        self.text_of_chunk: Callable[[bytes], str | None] = _unknown

    @property
    def length(self) -> int:
        """The characters of all texts that were taken out."""
        shapes = (self._event, self._chunk)
        return self._before + sum(shape.length for shape in shapes if shape is not None)

    def learn(self, data: bytes) -> None:
        """Take the shape of an event that was parsed, and whose only effect was its text."""
        if self._tries == 0:
            return
        self._tries -= 1
        places = [match.end() for match in self._opening.finditer(data)]
        if len(places) != 1:
            return
        end = data.find(b'"', places[0])
        if b"\\" in data[places[0] : end]:
            return
        self._before = self.length
        self._event = _Between(data[: places[0]], data[end:])
        self._chunk = None
        self.text_of_event, self.text_of_chunk = self._event.text, _unknown

    def learn_chunk(self, chunk: bytes, events: Sequence[bytes]) -> None:
        """Take the shape of a chunk of whole events, if it held one event and nothing else."""
        event, data = self._event, events[0]
        if self._chunk is not None or event is None or len(events) > 1:
            return
        taken = event.length
        known, event.length = event.text(data), taken
        if known is None:
            return
        before, found, behind = chunk.partition(data)
        # Carriage returns can belong to a line feed in the next chunk.
        if found and before.endswith(b"data: ") and behind == b"\n\n" and b"\r" not in before:
            self._chunk = event.framed(before, behind)
            self.text_of_chunk = self._chunk.text


class FrameTemplate:
    """The shape of the events that are passed on, and hold some text and nothing else.

    Unlike `TextTemplate`, it keeps what a text came in, and takes texts with escapes in them.

    Args:
        wire: The name of the wire.
        opening: Finds the name that the text stands under, and the quote that opens it.
        field: That name.
    """

    __slots__ = (
        "_behind",
        "_between",
        "_field",
        "_form",
        "_head",
        "_opening",
        "_start",
        "_tail",
        "_tries",
        "_wire",
    )

    def __init__(self, wire: str, opening: re.Pattern[bytes], field: str) -> None:
        self._wire = wire
        self._opening = opening
        self._field = field
        self._tries = TRIES
        self._form: TextForm | None = None
        self._head = self._tail = b""
        self._start = self._between = self._behind = b""
        """What begins a chunk, stands between two texts in it, and ends it."""

    def learn(self, data: bytes, frame: Mapping[str, Any], text: str) -> None:
        """Take the shape of an event that was parsed, and whose only effect was its text."""
        if self._tries == 0:
            return
        self._tries -= 1
        places = [match.end() for match in self._opening.finditer(data)]
        if len(places) != 1:
            return
        head = data[: places[0]]
        written, _, _ = data[places[0] :].partition(b'"')
        # With escapes in it, or behind another name that means the same, it is left alone.
        form = TextForm.of(frame, self._field, text) if written == text.encode() else None
        if form is not None:
            self._form, self._head, self._tail = form, head, data[len(head) + len(written) :]
            self._start = b""

    def learn_chunk(self, chunk: bytes, events: Sequence[bytes]) -> None:
        """Take the shape of a chunk of whole events."""
        data = events[-1]
        if self._start or not self.run(events, len(events) - 1) or b"\r" in chunk:
            return
        before, _, behind = chunk.rpartition(data)
        before = before[before.rfind(b"\n\n") + 2 :] if b"\n\n" in before else before
        if behind == b"\n\n" and before.endswith(b"data: "):
            self._start, self._behind = before + self._head, self._tail + behind
            self._between = self._behind + self._start

    def run(self, events: Sequence[bytes], place: int) -> list[bytes]:
        """Return the texts of the events from one on that have the known shape, as written."""
        head, tail = self._head, self._tail
        texts: list[bytes] = []
        if not head:
            return texts
        for at in range(place, len(events)):
            data = events[at]
            if not data.startswith(head) or not data.endswith(tail):
                break
            written = data[len(head) : len(data) - len(tail)]
            try:
                if not orjson.loads(b'"%b"' % written):
                    break
            except orjson.JSONDecodeError:
                break
            texts.append(written)
        return texts

    def said(self, texts: Sequence[bytes]) -> TextDelta:
        """Return what events say whose texts are written so."""
        assert self._form is not None, "they are of its shape"
        text = orjson.loads(b'"%b"' % b"".join(texts))
        return came_as(TextDelta(text), TextFrames(self._wire, self._form, texts))

    def said_by(self, chunk: bytes) -> TextDelta | None:
        """Return what a chunk says that begins where an event begins.

        None of a chunk that holds anything else than whole events of the known shape.
        """
        start, behind, form = self._start, self._behind, self._form
        if not start or not chunk.startswith(start) or not chunk.endswith(behind):
            return None
        # No text has a line feed in it, so it is parted where events end alone.
        texts = chunk[len(start) : len(chunk) - len(behind)].split(self._between)
        try:
            said = [orjson.loads(b'"%b"' % written) for written in texts]
        except orjson.JSONDecodeError:
            return None
        if form is None or not all(said):
            return None
        return came_as(TextDelta("".join(said)), TextFrames(self._wire, form, texts))
