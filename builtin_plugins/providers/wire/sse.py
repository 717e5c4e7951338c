"""Splitting a stream of server-sent events, over bytes.

Text is never split: a chunk may end inside a character, and ``str.splitlines`` would cut
JSON at U+2028. Every byte is looked at once or twice however the stream is chunked.
"""

from __future__ import annotations

MAX_EVENT = 1024 * 1024
"""The longest line, and the longest data of one event, in bytes."""

_BOM = b"\xef\xbb\xbf"


class SSEError(ValueError):
    """The stream holds a line or an event that is longer than `MAX_EVENT`."""


class SSESplitter:
    """Takes chunks and gives the data of events (WHATWG HTML, section 9.2.6).

    Only the ``data`` field is kept: both protocols that are read here repeat the event's
    name in it. Comments, other fields and events without data are passed over.

    Attributes:
        between: Whether the next chunk begins where an event begins.
    """

    __slots__ = ("_data", "_fresh", "_line", "_line_size", "_size", "_skip_lf", "between")

    def __init__(self) -> None:
        self.between = False
        self._line: list[bytes] = []
        self._line_size = 0
        self._data: list[bytes] = []
        self._size = 0
        self._skip_lf = False
        self._fresh = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next chunk and return the data of the events that it completes.

        Raises:
            SSEError: A line or an event is too long.
        """
        if self._skip_lf and chunk:
            self._skip_lf = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            # A line feed that belongs to this carriage return may be in the next chunk.
            self._skip_lf = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines:
            if self._line:
                self._line.append(lines[0])
                lines[0] = b"".join(self._line)
                self._line.clear()
                self._line_size = 0
            if self._fresh:
                self._fresh = False
                lines[0] = lines[0].removeprefix(_BOM)
        if rest:
            self._line.append(rest)
            self._line_size += len(rest)
            if self._line_size > MAX_EVENT:
                raise SSEError(f"a line is longer than {MAX_EVENT} bytes")
        events = self._events(lines) if lines else []
        self.between = not (self._line or self._data or self._skip_lf)
        return events

    def close(self) -> bytes | None:
        """Return the data of an event whose blank line never came, or None.

        The standard drops it; some servers end their stream without that line.
        """
        if self._line:
            self._events([b"".join(self._line)])
            self._line.clear()
        return b"\n".join(self._data) if self._data else None

    def _events(self, lines: list[bytes]) -> list[bytes]:
        events: list[bytes] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                value = line[6:] if line.startswith(b"data: ") else line[5:]
                self._size += len(value) + 1
                if self._size > MAX_EVENT + 1:
                    raise SSEError(f"an event is longer than {MAX_EVENT} bytes")
                data.append(value)
            elif not line:
                if data:
                    events.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data.clear()
                    self._size = 0
            elif line == b"data":
                data.append(b"")
                self._size += 1
        return events
