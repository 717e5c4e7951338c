"""Reading events that differ from a parsed one in a single text, without parsing them.

Nearly all events of an answer do. What stands before and behind the text of one event is
kept; another one that has the same around a text without quotes, backslashes and control
characters is the same JSON with another string in it. Measured on the wire, a parser that
was not at work just before costs more than all the rest of the relay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re

TRIES = 32
"""Shapes that are learnt in one answer. A server that changes more than the text from event
to event, padding for example, is given up on."""


class _Between:
    """Takes out what stands between a head and a tail."""

    __slots__ = ("_head", "_room", "_tail")

    def __init__(self, head: bytes, tail: bytes) -> None:
        self._head = head
        self._tail = tail
        self._room = len(head) + len(tail)

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
        return text if text.isprintable() else None

    def framed(self, before: bytes, behind: bytes) -> _Between:
        """Return what looks between `before` and the head, and the tail and `behind`."""
        return _Between(before + self._head, self._tail + behind)


class TextTemplate:
    """The shape of an answer's events, and of the chunks that hold one of them each.

    Args:
        opening: Finds the name that the text stands under, and the quote that opens it.
    """

    __slots__ = ("_chunk", "_event", "_opening", "_tries")

    def __init__(self, opening: re.Pattern[bytes]) -> None:
        self._opening = opening
        self._event: _Between | None = None
        self._chunk: _Between | None = None
        self._tries = TRIES

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
        self._event = _Between(data[: places[0]], data[end:])
        self._chunk = None

    def text_of_event(self, data: bytes) -> str | None:
        """Return the text of an event of the known shape, None for any other one."""
        return None if self._event is None else self._event.text(data)

    def learn_chunk(self, chunk: bytes, data: bytes) -> None:
        """Take the shape of a chunk that held one event, whole, and nothing else."""
        event = self._event
        if self._chunk is not None or event is None or event.text(data) is None:
            return
        before, found, behind = chunk.partition(data)
        # Carriage returns can belong to a line feed in the next chunk.
        if found and before.endswith(b"data: ") and behind == b"\n\n" and b"\r" not in before:
            self._chunk = event.framed(before, behind)

    def text_of_chunk(self, chunk: bytes) -> str | None:
        """Return the text of a chunk of the known shape, None for any other one.

        It is for chunks that begin where an event begins.
        """
        return None if self._chunk is None else self._chunk.text(chunk)
