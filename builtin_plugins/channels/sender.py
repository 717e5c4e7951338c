"""The queue of one channel: sends what stands first for each peer, and tries again later."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from hookgate import ChannelError, Host, StoreError
from hookgate.builtin_plugins.channels.book.deliveries import Deliveries, Delivery
from hookgate.builtin_plugins.channels.book.events import milliseconds
from hookgate.builtin_plugins.channels.roster import Hosted
from hookgate.tasks import apart, stop

AT_ONCE = 8
"""Messages that are under way at one time."""

LIMIT = 60.0
"""Seconds that one attempt may take."""

LOOK_SECONDS = 0.5
"""How often it is looked whether something is due, while anything waits."""

IDLE_SECONDS = 30.0
LONGEST = 300.0
"""The longest pause between two attempts, unless the platform asks for a longer one."""

LONGEST_ASKED = 3600.0
"""The longest pause that a platform gets."""

STOP_SECONDS = 5.0


class Sender:
    """Sends what one channel has to say.

    Args:
        host: The gateway.
        hosted: The channel.
        deliveries: The queue.
        attempts: How often a message is tried.
        paused: Whether nothing is to be sent now.
        told: Takes the id of a delivery that is over, and the id that the platform gave the
            message, "" where it gave none or nothing was sent.
    """

    def __init__(
        self,
        host: Host,
        hosted: Hosted,
        deliveries: Deliveries,
        *,
        attempts: int,
        paused: Callable[[], bool],
        told: Callable[[str, str], Awaitable[None]],
    ) -> None:
        self._host = host
        self.hosted = hosted
        self._deliveries = deliveries
        self._attempts = attempts
        self._paused = paused
        self._told = told
        self._more = asyncio.Event()
        self._busy: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._hold = 0
        self._closed = False

    def wake(self) -> None:
        """Look at the queue now."""
        self._more.set()

    async def run(self) -> None:
        """Send what there is, until it is closed."""
        part = f"deliveries of {self.hosted.name}"
        while not self._closed:
            self._more.clear()
            try:
                pause = IDLE_SECONDS if self._paused() else await self._round()
                self._host.standing(part).good()
            except StoreError as error:
                self._host.standing(part).bad(f"what is to be said waits: {error}")
                pause = LOOK_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._more.wait()

    async def close(self) -> None:
        """Begin nothing more; return once what is under way is over, or takes too long."""
        self._closed = True
        self._more.set()
        await stop(*self._busy.values(), grace=STOP_SECONDS)

    async def _round(self) -> float:
        """Begin to send what is due; return the seconds until it is worth another look."""
        room = AT_ONCE - len(self._busy)
        if room <= 0:
            return IDLE_SECONDS
        heads = await self._deliveries.heads(self.hosted.name, busy=list(self._busy), limit=room)
        now = milliseconds(self._host.clock)
        for one in heads:
            if self._closed:
                break
            if one.expires and one.expires <= now:
                await self._deliveries.sent(one.id)
                await self._told(one.id, "")
                self._more.set()
            elif max(one.due, self._hold) <= now:
                task = asyncio.create_task(self._deliver(one))
                self._busy[one.peer] = task
                task.add_done_callback(lambda _, peer=one.peer: self._over(peer))  # type: ignore[misc]
        if heads or await self._deliveries.blocked(self.hosted.name):
            return LOOK_SECONDS
        return IDLE_SECONDS

    def _over(self, peer: tuple[str, str]) -> None:
        del self._busy[peer]
        self._more.set()

    # -- one message -------------------------------------------------------

    async def _deliver(self, one: Delivery) -> None:
        ended = await apart(partial(self._say, one), limit=LIMIT)
        if ended.late:
            error: BaseException | None = ChannelError(
                f"it took more than {LIMIT:g} s", transient=True
            )
        else:
            error = ended.error
        if error is None:
            await self._kept(partial(self._deliveries.sent, one.id))
            await self._kept(partial(self._told, one.id, ended.value or ""))
        else:
            await self._failed(one, error)

    async def _say(self, one: Delivery) -> str:
        channel = self.hosted.channel
        if one.edits:
            await channel.edit(one.address, one.edits, one.content, choices=one.choices)
            return one.edits
        return await channel.send(
            one.address, one.content, thread=one.thread, choices=one.choices, key=one.id
        )

    async def _failed(self, one: Delivery, error: BaseException) -> None:
        host, name = self._host, self.hosted.name
        why = host.secrets.redact(str(error) or type(error).__name__)[:500]
        now = milliseconds(host.clock)
        if isinstance(error, ChannelError) and error.transient:
            pause = min(2.0**one.attempts, LONGEST) * random.uniform(0.8, 1.2)
            if error.retry_after is not None:
                pause = min(error.retry_after, LONGEST_ASKED)
                # A platform that has had enough has had enough of all of it.
                self._hold = now + int(pause * 1000)
            if one.attempts + 1 < self._attempts:
                due = now + int(pause * 1000)
                await self._kept(partial(self._deliveries.again, one, due=due, error=why))
                return
        elif one.edits:
            # The message is gone, or too old to be changed: it is said anew.
            again = partial(self._deliveries.again, one, due=now, error=why, anew=True)
            await self._kept(again)
            return
        host.log.warning("a message was not delivered", channel=name, delivery=one.id, error=why)
        await self._kept(partial(self._deliveries.die, one, why))
        await self._kept(partial(self._told, one.id, ""))

    async def _kept(self, write: Callable[[], Awaitable[object]]) -> None:
        """Write what became of a message, however often the store fails: else it is sent twice."""
        while True:
            try:
                await write()
            except StoreError as error:
                self._host.log.warning(
                    "what was sent cannot be written down",
                    channel=self.hosted.name,
                    error=str(error),
                )
                await asyncio.sleep(LOOK_SECONDS)
            else:
                return
