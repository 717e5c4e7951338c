"""An answer that is shown while it is written: one message, changed again and again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from hookgate import Address, ChannelError, StoreError
from hookgate.channels import messages_of
from hookgate.tasks import apart, finish

if TYPE_CHECKING:
    from hookgate.builtin_plugins.channels.book.deliveries import Deliveries
    from hookgate.builtin_plugins.channels.book.events import Events
    from hookgate.builtin_plugins.channels.hosting import Hosted

LIMIT = 30.0
"""Seconds that one change may take."""


class Live:
    """Shows the beginning of an answer, as far as it has come and fits one message.

    It is a courtesy: what fails here is passed over, and the answer is delivered all the same.

    Args:
        hosted: The channel.
        address: Who gets the answer.
        thread: What it answers.
        turn: The turn.
        seconds: From one change to the next.
        events: Keeps the id of the message, so that a restart changes it, and adds none.
        deliveries: Says whether something else is still to be said before it.
        message_id: The message to change, where there is one already; "" for none.
    """

    def __init__(
        self,
        hosted: Hosted,
        address: Address,
        thread: str,
        turn: str,
        *,
        seconds: float,
        events: Events,
        deliveries: Deliveries,
        message_id: str = "",
    ) -> None:
        self._hosted = hosted
        self._address = address
        self._thread = thread if hosted.channel.features.threads else ""
        self._turn = turn
        self._seconds = seconds
        self._events = events
        self._deliveries = deliveries
        self._text: list[str] = []
        self._more = asyncio.Event()
        self._closed = asyncio.Event()
        self.message_id = message_id
        self.shown = ""
        self._task = asyncio.create_task(self._show())

    def feed(self, text: str) -> None:
        """Take more of the answer; never waits."""
        self._text.append(text)
        self._more.set()

    async def close(self) -> None:
        """Show nothing more; return once what is under way is over."""
        self._closed.set()
        self._more.set()
        await finish(asyncio.wait([self._task]))

    async def _show(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            if self._closed.is_set():
                return
            pause = self._seconds
            if (head := self._head()) not in ("", self.shown):
                ended = await apart(partial(self._change, head), limit=LIMIT)
                error = ended.error
                if ended.late or (error is not None and not self._may_try_again(error)):
                    return
                if isinstance(error, ChannelError):
                    pause = max(pause, error.retry_after or 0.0)
                    self._more.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._closed.wait()

    def _may_try_again(self, error: BaseException) -> bool:
        """Whether a change that failed can be made again, and no second message comes of it."""
        if not isinstance(error, ChannelError) or not error.transient:
            return False
        return bool(self.message_id) or error.retry_after is not None

    def _head(self) -> str:
        text = "".join(self._text)
        self._text = [text]
        first = messages_of(text, self._hosted.channel.features)[:1]
        return first[0] if first and isinstance(first[0], str) else ""

    async def _change(self, text: str) -> None:
        channel = self._hosted.channel
        if self.message_id:
            await channel.edit(self._address, self.message_id, text)
            self.shown = text
            return
        if await self._deliveries.waits(self._address):
            # What was to be said before has not been said yet: this waits behind it.
            raise ChannelError(
                "something else is said first", transient=True, retry_after=self._seconds
            )
        key = f"{self._turn}.live"
        self.message_id = await channel.send(self._address, text, thread=self._thread, key=key)
        self.shown = text
        if not self.message_id:
            raise ChannelError("the message has no id, so that it cannot be changed")
        try:
            await self._events.shown(self._turn, self.message_id)
        except StoreError as error:
            raise ChannelError("the message could not be kept") from error
