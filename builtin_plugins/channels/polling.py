"""Polling a platform: one gateway at a time, from the cursor that was committed last."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from hookgate import ChannelError, Host, PolledChannel, Polling, StoreError, wait_of
from hookgate.builtin_plugins.channels.book.events import Events, LostLeaseError
from hookgate.builtin_plugins.channels.book.leases import LEASE_SECONDS, Leases
from hookgate.builtin_plugins.channels.outbox.sending import LONGEST_ASKED
from hookgate.tasks import apart, finish

if TYPE_CHECKING:
    from hookgate.builtin_plugins.channels.hosting import Hosted
    from hookgate.builtin_plugins.channels.inbox.intake import Intake

SPARE_SECONDS = 20.0
"""So much longer than it may wait a poll may take."""

LONGEST = 60.0
SHORTEST = 0.05
TOLD_AFTER = 3
"""Failures in a row after which operators are told."""

IDLE_SECONDS = 0.5
QUICK_SECONDS = 0.5
"""A poll that brings nothing so soon has not waited at the platform."""


class Poller:
    """Polls for one channel.

    Args:
        host: The gateway.
        hosted: The channel.
        events: Keep the cursor.
        leases: Say which gateway polls.
        intake: Takes what comes.
        rests: Whether nothing is to be taken in now.
    """

    def __init__(
        self,
        host: Host,
        hosted: Hosted,
        *,
        events: Events,
        leases: Leases,
        intake: Intake,
        rests: Callable[[], bool],
    ) -> None:
        self._host = host
        self._hosted = hosted
        self._events = events
        self._leases = leases
        self._intake = intake
        self._rests = rests
        self._failures = 0

    async def run(self) -> None:
        """Poll until it is cancelled. What is under way then comes again."""
        name = f"poll:{self._hosted.name}"
        try:
            while True:
                if self._rests():
                    await asyncio.sleep(IDLE_SECONDS)
                elif name in self._leases.held or await self._taken(name):
                    await asyncio.sleep(await self._poll(name))
                else:
                    await asyncio.sleep(LEASE_SECONDS / 3)
        finally:
            self._leases.held.discard(name)

    async def _taken(self, name: str) -> bool:
        try:
            taken = await self._leases.take(name)
        except StoreError as error:
            self._failed(error)
            return False
        if taken:
            self._leases.held.add(name)
        return taken

    async def _poll(self, lease: str) -> float:
        """Ask once, and take what has come; return the seconds until the next time."""
        channel = self._hosted.channel
        connection = channel.connection
        assert isinstance(channel, PolledChannel), "hosting has looked at that"
        assert isinstance(connection, Polling), "hosting has looked at that"
        began = asyncio.get_running_loop().time()
        try:
            cursor = await self._events.cursor(self._hosted.name)
            limit = connection.seconds + SPARE_SECONDS
            polled = await apart(partial(channel.poll, cursor), limit=limit)
            if polled.late or polled.value is None:
                raise polled.error or ChannelError(f"a poll took more than {limit:g} s")
            read = await apart(partial(channel.parse_incoming, polled.value), limit=limit)
            if read.late or read.value is None:
                raise read.error or ChannelError("what has come was not read in time")
            # Whole: a channel can go meanwhile, and what was committed has to have its turn.
            await finish(self._intake.take(self._hosted, read.value, polled=True, lease=lease))
        except LostLeaseError:
            self._leases.held.discard(lease)
            return 0.0
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - a channel may raise whatever it likes
            return self._failed(error)
        if self._failures:
            self._failures = 0
            self._host.standing(self._part).good()
        took = asyncio.get_running_loop().time() - began
        empty = not read.value.messages
        waits = connection.seconds == 0 or took < QUICK_SECONDS
        return connection.pause if empty and waits else 0.0

    def _failed(self, error: BaseException) -> float:
        """Count a failure; return the seconds until another attempt."""
        self._failures += 1
        if self._failures >= TOLD_AFTER:
            self._host.standing(self._part).bad(f"it cannot be polled, and is tried again: {error}")
        pause = min(2.0 ** min(self._failures, 10), LONGEST) * random.uniform(0.5, 1.0)
        # A channel may raise whatever it likes, and sets on it what it likes.
        asked = wait_of(getattr(error, "retry_after", None))
        return pause if asked is None else min(max(asked, SHORTEST), LONGEST_ASKED)

    @property
    def _part(self) -> str:
        return f"polling of {self._hosted.name}"
