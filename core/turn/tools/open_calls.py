"""Calls that were released to clients in turns of which nothing is kept.

Elsewhere the conversation has them. Here the process does, for a day: after a restart, what calls
came to counts as never released, which is foreign text and on record.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from hookgate.core.domain.messages import ToolResultPart, ToolUse
from hookgate.core.domain.parts import content_to_json
from hookgate.core.domain.strict_json import canonical

if TYPE_CHECKING:
    from hookgate.core.domain.turn import SessionKey

KEPT_SECONDS = 86_400.0
MOST_CALLS = 20_000
MOST_BYTES = 64 * 1024 * 1024
"""Of so many calls, and of so many bytes of their arguments, it is known that they were released;
beyond that the oldest are forgotten."""


@dataclass(slots=True, eq=False)
class OpenCall:
    """A call that was released.

    Attributes:
        name: The tool.
        arguments: What it was released with, in canonical JSON.
        until: When it is forgotten, in seconds of the clock.
        answer: The digest of the result that came first; "" before one came.
        over: Whether it was said to be over.
    """

    name: str
    arguments: bytes
    until: float
    answer: str = ""
    over: bool = False

    def takes(self, part: ToolResultPart) -> bool:
        """Whether `part` is what it came to: the first result, or the same one again."""
        told = orjson.dumps([content_to_json(part.content), part.is_error])
        digest = hashlib.sha256(told).hexdigest()
        self.answer = self.answer or digest
        return self.answer == digest

    def use(self, use_id: str) -> ToolUse:
        """Return the call as it was released."""
        return ToolUse(id=use_id, name=self.name, input=orjson.loads(self.arguments))


class OpenCalls:
    """What is known of such calls, by session and id.

    Args:
        now: The clock's seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._calls: OrderedDict[tuple[SessionKey, str], OpenCall] = OrderedDict()
        self._bytes = 0

    def release(self, session: SessionKey, uses: Iterable[ToolUse]) -> None:
        """Keep calls that are about to be released, as they are."""
        until = self._now() + KEPT_SECONDS
        for use in uses:
            arguments = b"{}" if isinstance(use.input, str) else canonical(use.input)
            self._forget((session, use.id))
            self._calls[session, use.id] = OpenCall(use.name, arguments, until)
            self._bytes += len(arguments)
        while self._calls:
            oldest = next(iter(self._calls))
            fits = len(self._calls) <= MOST_CALLS and self._bytes <= MOST_BYTES
            if fits and self._calls[oldest].until > self._now():
                break
            self._forget(oldest)

    def find(self, session: SessionKey, use_id: str) -> OpenCall | None:
        """Return the call of `session` that was released under this id, if one was."""
        found = self._calls.get((session, use_id))
        return found if found is not None and found.until > self._now() else None

    def _forget(self, key: tuple[SessionKey, str]) -> None:
        gone = self._calls.pop(key, None)
        if gone is not None:
            self._bytes -= len(gone.arguments)
