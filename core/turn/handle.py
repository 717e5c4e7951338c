"""A turn that was started: its events, its end, and how to end it early."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from hookgate.core.domain.errors import TurnCancelledError
from hookgate.core.hooks.tasks import until_over

if TYPE_CHECKING:
    from hookgate.core.domain.events import Event
    from hookgate.core.domain.turn import Turn

CAPACITY = 1024
"""Events of one turn that wait for a reader."""


class TurnEvents:
    """The events of one turn, for one reader; bounded, in order, numbered by `Event.seq`.

    A reader that falls behind costs the turn nothing. While `CAPACITY` events wait, text that
    follows text is joined to it, so that a slow reader gets the whole answer in fewer pieces; of
    anything else the oldest event is let go. The last one, ``done``, has the whole text.

    Attributes:
        missed: How many events were let go.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._waiting: deque[Event] = deque()
        self._capacity = capacity
        self._tail: list[str] = []
        """The text of the newest event that waits, where more has been joined to it."""
        self._ready = asyncio.Event()
        self._over = False
        self.missed = 0

    def put(self, event: Event) -> None:
        """Take an event; never waits."""
        waiting = self._waiting
        if len(waiting) >= self._capacity:
            if event.type in ("text", "reasoning") and waiting[-1].type == event.type:
                self._tail = self._tail or [waiting[-1].data["text"]]
                self._tail.append(event.data["text"])
                waiting[-1] = event
                return
            waiting.popleft()
            self.missed += 1
        self._join()
        waiting.append(event)
        self._ready.set()

    def end(self) -> None:
        """Nothing follows: the iteration ends with what waits."""
        self._over = True
        self._ready.set()

    def _join(self) -> None:
        if self._tail:
            self._waiting[-1] = replace(self._waiting[-1], data={"text": "".join(self._tail)})
            self._tail = []

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while not self._waiting:
            if self._over:
                raise StopAsyncIteration
            self._ready.clear()
            await self._ready.wait()
        if len(self._waiting) == 1:
            self._join()
        return self._waiting.popleft()


class TurnHandle:
    """A turn that was started. It runs in one task, whether anybody follows it or not.

    Attributes:
        turn: The turn; its `id` and `session` are known from the start.
        events: What it says, from the first event to ``done``. Empty where the events go to a
            sink. Ends without ``done`` where the message could not be taken: `wait` says why.
        task: The one task that it runs in.
    """

    def __init__(self, turn: Turn, task: asyncio.Task[None], events: TurnEvents) -> None:
        self.turn = turn
        self.events = events
        self.task = task
        self._detached = False
        self._reason = ""
        task.add_done_callback(lambda _: events.end())

    @property
    def over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.task.done()

    @property
    def reason(self) -> str:
        """Why it was cancelled; "" where nobody did."""
        return self._reason

    def cancel(self, reason: str) -> bool:
        """Cancel the turn, and the nested ones below it.

        What it has used is settled, and what was said so far is kept; `wait` returns once that
        is done.

        Args:
            reason: Why, for the client and the log. The first one counts.

        Returns:
            False where it has ended already.
        """
        if self.task.done():
            return False
        self._reason = self._reason or reason
        self.task.cancel()
        return True

    def detach(self) -> None:
        """Let the turn run on whatever becomes of those who wait for it."""
        self._detached = True

    async def wait(self) -> Turn:
        """Return the turn once it has ended; ``turn.ending`` and ``turn.error`` say how.

        Whoever waits is who the turn runs for: if the waiting is cancelled, so is the turn, and
        it has settled before the cancellation goes on. Not so after `detach`.

        Raises:
            LaneFullError: Too many messages wait for the session.
            TurnError: The request cannot be a turn.
            TurnCancelledError: It was cancelled while it waited for its lane.
            StoreError: The message could not be committed.
        """
        try:
            await until_over(self.task)
        except asyncio.CancelledError:
            if not self._detached:
                await self._settled()
            raise
        if not self.task.cancelled() and (failure := self.task.exception()) is not None:
            raise failure
        if self.turn.ending is None:
            raise TurnCancelledError(
                f"cancelled before it had begun: {self._reason or 'nobody has said why'}"
            )
        return self.turn

    async def _settled(self) -> None:
        """Cancel the turn and wait for its end, however often the waiting is cancelled."""
        while self.cancel("its caller was cancelled"):
            with suppress(asyncio.CancelledError):
                await until_over(self.task)
