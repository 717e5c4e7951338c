"""Channels that are served: by webhooks, and by polling."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hookgate import (
    SWITCHES,
    ChannelError,
    Host,
    HostedChannel,
    PolledChannel,
    Polling,
    Store,
    StoreError,
    Switch,
    new_id,
    set_switch,
    wait_of,
)
from hookgate.builtin_plugins.channels.approvals import Answers, ApproverQuestions
from hookgate.builtin_plugins.channels.book.deliveries import Deliveries
from hookgate.builtin_plugins.channels.book.events import (
    LEASE_SECONDS,
    Events,
    Leases,
    LostLeaseError,
)
from hookgate.builtin_plugins.channels.intake import Intake
from hookgate.builtin_plugins.channels.peers import Beginnings
from hookgate.builtin_plugins.channels.roster import Hosted, Hosting
from hookgate.builtin_plugins.channels.sender import LONGEST_ASKED, Sender
from hookgate.builtin_plugins.channels.settings import ChannelsSettings
from hookgate.builtin_plugins.channels.turns import Turning
from hookgate.tasks import apart, contained_task, finish, stop

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

    Attributes:
        why: Why the last poll failed; "" where it did not.
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
        self.why = ""

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
        self.why = ""
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
        self.why = f"it cannot be polled, and is tried again: {error}"
        if self._failures >= TOLD_AFTER:
            self._host.standing(self._part).bad(self.why)
        pause = min(2.0 ** min(self._failures, 10), LONGEST) * random.uniform(0.5, 1.0)
        # A channel may raise whatever it likes, and sets on it what it likes.
        asked = wait_of(getattr(error, "retry_after", None))
        return pause if asked is None else min(max(asked, SHORTEST), LONGEST_ASKED)

    @property
    def _part(self) -> str:
        return f"polling of {self._hosted.name}"


# -- serving ---------------------------------------------------------------------

# All that serves the hosted channels of a gateway, opened and closed together.

PAUSED = "channels.paused"
"""The switch with the names of the channels that rest."""

PART = "channels"
READY_SECONDS = 0.02
WHY_CHARS = 500
TIDY_BEATS = 30
LEFT_AT_ONCE = 500
MICROSECONDS_OF_DAY = 86_400_000_000


@dataclass(slots=True, eq=False)
class _Served:
    """What works for one channel.

    Attributes:
        channel: The channel.
        sender: Its queue.
        poller: What polls for it; None where its platform posts.
        tasks: All of it.
    """

    channel: HostedChannel
    sender: Sender
    poller: Poller | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Let something work until the channel is closed."""
        self.tasks.append(contained_task(work, name=f"channels: {name}"))

    async def close(self) -> None:
        """End cleanly: what is being sent is sent, then all stops."""
        await self.sender.close()
        await stop(*self.tasks)


class Service:
    """Serves hosted channels.

    Attributes:
        host: The gateway.
        settings: The settings of channels.
        hosting: The channels.
        events: What came in.
        deliveries: What is to be said.
        turning: The turns.
        intake: Takes messages in.
        beginnings: The conversations that began anew.
    """

    def __init__(
        self, host: Host, settings: ChannelsSettings, hosting: Hosting, store: Store
    ) -> None:
        self.host = host
        self.settings = settings
        self.hosting = hosting
        self._shared = store.shared
        self._leases = Leases(store, host.clock, new_id("gateway"))
        self.events = Events(store, self._leases)
        self.deliveries = Deliveries(store, self._leases)
        self.beginnings = Beginnings(host)
        self.turning = Turning(
            host, settings, self.events, self.deliveries, self.wake, self.beginnings
        )
        answers = Answers(host, self.deliveries, self.wake)
        self.intake = Intake(
            host,
            self.events,
            self.turning,
            answers,
            people=hosting.people,
            deliveries=self.deliveries,
            wake=self.wake,
        )
        self._paused: frozenset[str] = frozenset()
        self._served: dict[str, _Served] = {}
        self._behind: set[str] = set()
        self._took_up = asyncio.Event()
        self._again = asyncio.Event()
        self._follows: list[Callable[[], None]] = []

    # -- pausing -----------------------------------------------------------

    def paused(self, name: str) -> bool:
        """Whether a channel rests by an operator's word."""
        return name in self._paused

    def rests(self, name: str) -> bool:
        """Whether nothing is to be taken in by a channel now."""
        return name not in self._behind or not self.host.ready or self.paused(name)

    async def taken_up(self, seconds: float) -> None:
        """Wait until what was left over is taken up, which comes before what is new."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._took_up.wait()

    async def pause(self, name: str, *, resume: bool) -> list[str]:
        """Let a channel rest, or go on; return the names of those that rest.

        Raises:
            StoreError: It cannot be kept.
        """

        def made(switch: Switch) -> list[str]:
            others = {one for one in switch.value or () if one != name}
            return sorted(others if resume else {*others, name})

        put = await set_switch(self.host[SWITCHES], PAUSED, made)
        self._switched(put)
        return list(put.value)

    async def read_switch(self) -> None:
        """Read which channels rest: another gateway may have been told."""
        self._switched(await self.host[SWITCHES].get(PAUSED))

    def _switched(self, switch: Switch) -> None:
        self._paused = frozenset(switch.value or ())
        for served in self._served.values():
            served.sender.wake()

    # -- working -----------------------------------------------------------

    def wake(self, name: str) -> None:
        """Say that there is something to be said by a channel."""
        if (served := self._served.get(name)) is not None:
            served.sender.wake()

    def why(self, name: str) -> str:
        """Return why nothing comes in by a channel that is served; "" where it does."""
        served = self._served.get(name)
        poller = None if served is None else served.poller
        return "" if poller is None else self.host.secrets.redact(poller.why)[:WHY_CHARS]

    def look_again(self) -> None:
        """Say that channels have come, changed or gone."""
        self._again.set()

    async def run(self) -> None:
        """Serve until it is cancelled: `close` ends what has begun by then."""
        while not self.host.ready:  # noqa: ASYNC110 - there is nothing that tells of it
            await asyncio.sleep(READY_SECONDS)
        unwatch = self.host[SWITCHES].watch(PAUSED, self._switched)
        try:
            beats = 0
            while True:
                self._again.clear()
                await self._serve_those_there()
                await self._beat(tidy=beats % TIDY_BEATS == 0)
                beats += 1
                with suppress(TimeoutError):
                    async with asyncio.timeout(
                        LEASE_SECONDS / 3 if self._took_up.is_set() else 1.0
                    ):
                        await self._again.wait()
        finally:
            for undo in (unwatch, *self._follows):
                undo()

    async def _serve_those_there(self) -> None:
        """Serve each channel that is hosted now, and no other one."""
        for name, served in tuple(self._served.items()):
            hosted = self.hosting.get(name)
            if hosted is None or hosted.channel is not served.channel:
                del self._served[name]
                self._behind.discard(name)
                await served.close()
        for hosted in self.hosting:
            if hosted.name not in self._served:
                self._serve(hosted)

    def _serve(self, hosted: Hosted) -> None:
        name = hosted.name
        asking = ApproverQuestions(self.host, hosted, self.deliveries, lambda: self.wake(name))
        sender = Sender(
            self.host,
            hosted,
            self.deliveries,
            attempts=self.settings.attempts,
            paused=lambda: self.paused(name),
            told=asking.sent,
        )
        served = self._served[name] = _Served(hosted.channel, sender)
        served.begin(sender.run(), f"deliveries of {name}")
        if hosted.approvers:
            served.begin(asking.run(), f"approvals of {name}")
        if hosted.webhook is None:
            poller = served.poller = Poller(
                self.host,
                hosted,
                events=self.events,
                leases=self._leases,
                intake=self.intake,
                rests=lambda: self.rests(name) or self.turning.is_full(name),
            )
            served.begin(poller.run(), f"polling of {name}")

    async def _beat(self, *, tidy: bool) -> None:
        """Be heard of, and take over what gateways that have stopped have left."""
        names = [hosted.name for hosted in self.hosting]
        try:
            if not self._took_up.is_set():
                await self.read_switch()
                if not self._follows:
                    self._follows = [await self.hosting.people.open(), await self.beginnings.open()]
            if self._shared:
                await self._leases.beat()
            if self._shared or not self._behind.issuperset(names):
                await self._take_over(names)
                if await self.deliveries.take_over(names):
                    for name in names:
                        self.wake(name)
            if tidy:
                days = self.settings.keep_days * MICROSECONDS_OF_DAY
                before = int(self.host.clock.now().timestamp() * 1_000_000) - days
                await self.events.prune(before=before, most=self.settings.keep_events)
                await self.deliveries.prune(self.settings.keep_events)
        except StoreError as error:
            self.host.standing(PART).bad(
                f"what was left over waits, since the store fails: {error}"
            )
            return
        self.host.standing(PART).good()
        self._behind.update(names)
        self._took_up.set()

    async def _take_over(self, names: Sequence[str]) -> None:
        found = LEFT_AT_ONCE
        while found == LEFT_AT_ONCE:
            behind = await self.events.take_over(names, LEFT_AT_ONCE)
            found = len(behind)
            for left in behind:
                if (hosted := self.hosting.get(left.channel)) is not None:
                    self.turning.put(hosted, left.message, left)

    async def close(self) -> None:
        """End cleanly: what has ended is written, what is being sent is sent, then all stops."""
        await self.turning.close()
        await asyncio.gather(*(served.close() for served in self._served.values()))
        with suppress(StoreError):
            if self._shared:
                await self._leases.release()
