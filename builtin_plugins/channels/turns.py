"""Turns of messages: one for each event, those of one conversation in their order."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from hookgate import (
    CONVERSATIONS,
    LANES,
    HookgateError,
    Host,
    LaneFullError,
    LaneLostError,
    Message,
    ReceivedMessage,
    SessionKey,
    StoreError,
    StoreUnavailableError,
    Turn,
    TurnCancelledError,
    TurnError,
    TurnHandle,
)
from hookgate.builtin_plugins.channels.book.deliveries import Deliveries
from hookgate.builtin_plugins.channels.book.events import (
    Begun,
    EventKey,
    Events,
    Left,
    event_key,
)
from hookgate.builtin_plugins.channels.intake import (
    INTERRUPTED,
    Live,
    Typing,
    deliveries_of,
    kept_answer,
    said_of,
)
from hookgate.builtin_plugins.channels.peers import BEGUN, HELP, Beginnings, command_of
from hookgate.builtin_plugins.channels.roster import Hosted
from hookgate.builtin_plugins.channels.settings import ChannelsSettings
from hookgate.tasks import stop

AGAIN_SECONDS = 1.0
"""From one attempt to the next to start a turn that cannot be started now."""

HISTORY = 200
"""Turns of a session in which a turn is looked for that a stop has cut."""

STOP_SECONDS = 5.0

WAITS = (
    "This needs an approval first ({}): somebody is asked, and I go on once they have answered. "
    "/stop breaks it off."
)

STALE_AGAIN = 3
"""So often a message begins anew whose turn has lost its lane before it ran a tool."""

FIRST_PAUSE = 0.02
"""Seconds from one look for the turn of a message to the next, at first."""

Key = tuple[str, str, str]


class _TakenError(Exception):
    """Another gateway has taken a message over, or had, before a turn of it here had its lane."""


class _StaleError(Exception):
    """A turn has lost its lane to another gateway, and no tool ran in it.

    Attributes:
        turn: The turn.
        live: The id of the message that shows what it has said; "" for none.
        again: How many times the message begins anew with that.
    """

    def __init__(self, turn: Turn, live: str, again: int) -> None:
        super().__init__(turn.id)
        self.turn, self.live, self.again = turn, live, again


class Turning:
    """Starts the turns of all channels, and hands over what is to be said.

    Args:
        host: The gateway.
        settings: The settings of channels.
        events: The events.
        deliveries: What is to be said.
        wake: Called with a channel's name when it has something to say.
        beginnings: The conversations that began anew.
    """

    def __init__(
        self,
        host: Host,
        settings: ChannelsSettings,
        events: Events,
        deliveries: Deliveries,
        wake: Callable[[str], None],
        beginnings: Beginnings,
    ) -> None:
        self._host = host
        self._beginnings = beginnings
        self._settings = settings
        self._events = events
        self._deliveries = deliveries
        self._wake = wake
        self._queues: dict[Key, deque[tuple[Hosted, ReceivedMessage]]] = {}
        self._waiting: dict[str, int] = {}
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._done: dict[EventKey, asyncio.Event] = {}
        self._left: dict[EventKey, Left] = {}

    # -- taking ------------------------------------------------------------

    def is_full(self, channel: str) -> bool:
        """Whether as many messages of a channel wait as may."""
        return self._waiting.get(channel, 0) >= self._settings.waiting

    def waiting(self, channel: str) -> int:
        """Return how many messages of a channel have their turn, or wait for it, here."""
        return self._waiting.get(channel, 0)

    def put(self, hosted: Hosted, message: ReceivedMessage, left: Left | None = None) -> None:
        """Let a committed message have its turn; never waits."""
        key = (hosted.name, message.account, message.peer)
        queue = self._queues.get(key)
        self._waiting[hosted.name] = self._waiting.get(hosted.name, 0) + 1
        if queue is None:
            queue = self._queues[key] = deque()
            self._spawn(self._answer_all(key, queue))
        queue.append((hosted, message))
        if left is not None:
            self._left[event_key(hosted.name, message)] = left

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Return once what has ended is written; what waits is taken up at the next start."""
        await stop(*self._tasks, grace=STOP_SECONDS)

    # -- answers that are waited for ---------------------------------------

    async def answer(self, channel: str, message: ReceivedMessage, seconds: float) -> str | None:
        """Return the answer to a message as JSON, once it is there; None where it takes longer.

        Raises:
            ForeignEventError: An event of this id came from another peer before.
        """
        loop, event = asyncio.get_running_loop(), event_key(channel, message)
        until = loop.time() + seconds
        done = self._done.setdefault(event, asyncio.Event())
        try:
            while (found := await self._events.answer(event, message.peer)) is None:
                if (left := until - loop.time()) <= 0:
                    return None
                # Another gateway may have the turn: then nothing here tells of its end.
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, 1.0)):
                        await done.wait()
            return found
        finally:
            self._done.pop(event, None)

    # -- one conversation --------------------------------------------------

    async def _answer_all(self, key: Key, queue: deque[tuple[Hosted, ReceivedMessage]]) -> None:
        slots = self._slots.setdefault(key[0], asyncio.Semaphore(self._settings.turns))
        try:
            while queue:
                # Before a slot is taken: what this waits for may want one at another gateway.
                if (found := await self._next(queue)) is None:
                    return
                hosted, message, ours = found
                try:
                    if ours:
                        async with slots:
                            ended = await self._whole(hosted, message)
                    else:
                        self._left.pop(event_key(hosted.name, message), None)
                        ended = True
                except Exception as error:
                    self._host.log.error(
                        "a message of a channel failed", channel=hosted.name, exc_info=error
                    )
                    ended = True
                finally:
                    self._waiting[hosted.name] -= 1
                if not ended:
                    # The gateway stops: this one and those behind it stay where they are.
                    return
        finally:
            del self._queues[key]

    async def _next(
        self, queue: deque[tuple[Hosted, ReceivedMessage]]
    ) -> tuple[Hosted, ReceivedMessage, bool] | None:
        """Take the message whose turn it is, once it is; None where we stop.

        Returns:
            The message, and whether it is still for this gateway to answer.
        """
        pause = FIRST_PAUSE
        while self._host.ready:
            name = queue[0][0].name
            try:
                message, ours = await self._events.turn_of(name, [one for _, one in queue])
            except StoreError as error:
                self._tell_of_waiting(name, error)
                message, pause = None, AGAIN_SECONDS
            if message is not None:
                place = next(at for at, (_, one) in enumerate(queue) if one is message)
                hosted, _ = queue[place]
                del queue[place]
                return hosted, message, ours
            await asyncio.sleep(pause)
            pause = min(pause * 2, AGAIN_SECONDS / 2)
        return None

    def _tell_of_waiting(self, name: str, error: StoreError) -> None:
        self._host.log.warning(
            "a message of a channel waits, since the store fails", channel=name, error=str(error)
        )

    async def _whole(self, hosted: Hosted, message: ReceivedMessage) -> bool:
        """See a message to its end, however often the store fails; False where we stop."""
        event = event_key(hosted.name, message)
        left = self._left.pop(event, None)
        begun: Begun | None = () if left is None else left.turns
        over = set[str]()
        stale: _StaleError | None = None
        while self._host.ready:
            try:
                if begun is None and (begun := await self._events.ours(event)) is None:
                    return True
                if stale is not None and not await self._forget(event, stale.turn):
                    return True
                if await self._taken_up(hosted, message, begun, over):
                    return True
                return await self._turned(hosted, message, stale, over)
            except _StaleError as error:
                stale = error
            except _TakenError:
                if event in self._left:
                    return True  # it was taken over here as well, and waits in this queue again
                begun = None
            except LaneFullError:
                await asyncio.sleep(AGAIN_SECONDS)
            except StoreError as error:
                self._tell_of_waiting(hosted.name, error)
                await asyncio.sleep(AGAIN_SECONDS)
        return False

    async def _forget(self, event: EventKey, turn: Turn) -> bool:
        """Take back what a turn has said that begins anew: nothing but its message was kept.

        Returns:
            False where its event is another gateway's by now: so is what was kept of it.
        """
        async with self._host[LANES].hold(turn.session):
            if await self._events.ours(event) is None:
                return False
            await self._host[CONVERSATIONS].forget(turn.session, turns={turn.id})
        return True

    async def _check(self, event: EventKey, over: set[str]) -> None:
        """Make sure, in the lane, that an event is ours, and that no turn but `over` was begun.

        Whoever takes it over from here on takes the lane before anything else, and nothing more
        is committed by a turn that had it before.

        Raises:
            _TakenError: It is not, or another gateway has begun a turn.
            StoreError: That cannot be read.
        """
        begun = await self._events.ours(event)
        if begun is None or event in self._left or not {turn for turn, *_ in begun} <= over:
            raise _TakenError

    async def _turned(
        self,
        hosted: Hosted,
        message: ReceivedMessage,
        stale: _StaleError | None,
        over: set[str],
    ) -> bool:
        """Have a turn of a message, and say what came of it; False where we stop.

        Args:
            hosted: The channel.
            message: The message.
            stale: The turn that this one takes the place of; None for the first.
            over: The turns of the event that commit nothing more; this one's is added.
        """
        if word := command_of(hosted, message):
            if word == "new":
                await self._beginnings.begin(hosted, message)
            told = BEGUN if word == "new" else hosted.settings.help or HELP
            await self._finish(hosted, message, told)
            return True
        principal, origin, request = hosted.asked(message)
        event = event_key(hosted.name, message)
        if self._events.shared:
            request = replace(request, once_held=lambda _: self._check(event, over))
        try:
            handle = self._host.start_turn(principal, origin, request)
        except TurnError as error:
            if not self._host.ready:
                return False
            await self._finish(hosted, message, self._failure(error))
            return True
        # Handed over before the turn goes on: nothing of it is committed without this.
        turn = handle.turn
        self._events.begun(event, turn.id, str(turn.session))
        over.add(turn.id)
        handle.detach()
        again = 0 if stale is None else stale.again
        live = self._live(hosted, message, handle, "" if stale is None else stale.live)
        typing = Typing(self._host, hosted, hosted.address(message))
        try:
            await self._show(hosted, message, handle, live, typing)
            await handle.wait()
        except (LaneFullError, StoreError, _TakenError):
            raise
        except TurnCancelledError:
            # Before it had begun: by the end of the gateway, or by an operator.
            if not self._host.ready:
                return False
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises, the peer is told
            await self._finish(hosted, message, self._failure(error))
            return True
        finally:
            typing.close()
            if live is not None:
                await live.close()
            await self._beginnings.went_on(str(turn.session))
        shown = {} if live is None else {"live": live.message_id, "shown": live.shown}
        if isinstance(turn.error, LaneLostError) and not turn.calls and again < STALE_AGAIN:
            raise _StaleError(turn, shown.get("live", ""), again + 1)
        await self._finish(hosted, message, said_of(turn), **shown)
        return True

    async def _show(
        self,
        hosted: Hosted,
        message: ReceivedMessage,
        handle: TurnHandle,
        live: Live | None,
        typing: Typing,
    ) -> None:
        """Show what a turn says while it runs, and that a call of it waits for an approval."""
        asked = False
        async for event in handle.events:
            if event.type == "text":
                if live is not None:
                    typing.close()
                    live.feed(event.data["text"])
            elif event.type == "approval" and event.data.get("state") == "pending":
                typing.close()
                if not asked:
                    asked = True
                    await self._tell_of_waiting_call(hosted, message, event.data, live)

    async def _tell_of_waiting_call(
        self,
        hosted: Hosted,
        message: ReceivedMessage,
        question: Mapping[str, Any],
        live: Live | None,
    ) -> None:
        """Say that somebody has to approve a call first; of the call itself nothing is said here.

        A service that waits in the response is told nothing, nor an approver who is asked here.
        """
        approver = hosted.approver(message)
        asked_here = "" if approver is None else approver.peer or approver.sender
        if message.wait or asked_here == message.peer:
            return
        text = WAITS.format(str(question.get("tool", ""))[:64])
        if live is not None:
            live.note(text)
            return
        said = deliveries_of(
            hosted,
            hosted.address(message),
            text,
            batch=f"{message.id}.asked",
            thread=message.thread,
        )
        await self._deliveries.add(said)
        self._wake(hosted.name)

    def _failure(self, error: Exception) -> str:
        return self._host.secrets.redact(f"This message could not be answered: {error}")

    def _live(
        self, hosted: Hosted, message: ReceivedMessage, handle: TurnHandle, message_id: str
    ) -> Live | None:
        if not hosted.grows(message):
            return None
        return Live(
            hosted,
            hosted.address(message),
            message.thread,
            handle.turn.id,
            seconds=self._edit_seconds(hosted),
            events=self._events,
            deliveries=self._deliveries,
            message_id=message_id,
        )

    def _edit_seconds(self, hosted: Hosted) -> float:
        settings = self._settings
        own = hosted.channel.features.edit_seconds
        is_set = "edit_seconds" in settings.model_fields_set
        return settings.edit_seconds if is_set else max(settings.edit_seconds, own)

    async def _finish(
        self,
        hosted: Hosted,
        message: ReceivedMessage,
        content: str,
        *,
        live: str = "",
        shown: str = "",
    ) -> None:
        """Commit what is to be said, and that the event is done, in one transaction."""
        answer, said = "", []
        if message.wait:
            answer = json.dumps(content)
        else:
            said = deliveries_of(
                hosted,
                hosted.address(message),
                content,
                batch=message.id,
                thread=message.thread,
                live=live,
                shown=shown,
            )
        add, event = self._deliveries.adding(said), event_key(hosted.name, message)
        while True:
            try:
                await self._events.finish(event, answer=answer, also=add)
                break
            except StoreError as error:
                if not self._host.ready:
                    raise
                self._host.log.warning(
                    "what is to be said waits, since the store fails",
                    channel=hosted.name,
                    error=str(error),
                )
                await asyncio.sleep(AGAIN_SECONDS)
        if done := self._done.pop(event, None):
            done.set()
        self._wake(hosted.name)

    # -- after a stop ------------------------------------------------------

    async def _taken_up(
        self, hosted: Hosted, message: ReceivedMessage, begun: Begun, over: set[str]
    ) -> bool:
        """Go on with a message whose turn another run of a gateway had begun.

        What is committed decides: its answer is delivered; without one the peer is told; and
        where not even the message is there, the turn is started anew.

        Args:
            hosted: The channel.
            message: The message.
            begun: The turns.
            over: Those of them that are passed over, and get to be.
        """
        for turn, session, live in begun:
            if turn in over:
                continue
            history: Sequence[Message] = ()
            try:
                history = await self._committed(session)
            except (LaneFullError, StoreUnavailableError):
                raise
            except HookgateError as error:
                self._host.log.warning(
                    "a message is answered anew, since its session cannot be read",
                    channel=hosted.name,
                    error=str(error),
                )
            own = [one for one in history if one.turn == turn]
            if own:
                answer = kept_answer(own)
                await self._finish(
                    hosted, message, INTERRUPTED if answer is None else answer, live=live
                )
                return True
            over.add(turn)
        return False

    async def _committed(self, session: str) -> Sequence[Message]:
        """Return what was said in a session, behind which no turn that was begun says more."""
        key = SessionKey.parse(session)
        # The gateway that has begun it may run, and not have been heard of for a while.
        async with self._host[LANES].hold(key):
            return await self._host[CONVERSATIONS].history(key, turns=HISTORY)
