"""Taking messages in: checked, known once, committed; then a turn, or the answer to a question."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hookgate import (
    RETRYABLE_KINDS,
    Address,
    AnsweringChannel,
    ChannelError,
    Choice,
    Content,
    Host,
    Message,
    Parsed,
    ReceivedMessage,
    StoreError,
    Turn,
)
from hookgate.builtin_plugins.channels.book.deliveries import Deliveries, Delivery
from hookgate.builtin_plugins.channels.book.events import Events, event_key
from hookgate.builtin_plugins.channels.peers import (
    NOTHING_RUNS,
    People,
    command_of,
    is_addressed,
    pairing_text,
    stop,
)
from hookgate.builtin_plugins.channels.roster import Hosted
from hookgate.channels import messages_of
from hookgate.tasks import apart, finish

if TYPE_CHECKING:
    from hookgate.builtin_plugins.channels.approvals import Answers
    from hookgate.builtin_plugins.channels.turns import Turning

MOST = 1000
"""Messages of one post or poll."""

IDS = {"id": 256, "account": 256, "peer": 256, "sender": 256, "thread": 1024, "choice": 256}
"""The longest of each, in characters."""


class Intake:
    """Takes in what channels have read."""

    def __init__(
        self,
        host: Host,
        events: Events,
        turning: Turning,
        answers: Answers,
        *,
        people: People,
        deliveries: Deliveries,
        wake: Callable[[str], None],
    ) -> None:
        self._host = host
        self._events = events
        self._turning = turning
        self._answers = answers
        self._people = people
        self._deliveries = deliveries
        self._wake = wake

    async def take(
        self, hosted: Hosted, parsed: Parsed, *, polled: bool = False, lease: str = ""
    ) -> list[ReceivedMessage]:
        """Commit the messages of a post or a poll; return those that wait for the answer.

        What came before is left out. Once this has returned, nothing is lost by a restart.

        Args:
            hosted: The channel.
            parsed: What it has read.
            polled: Whether the cursor is to be kept as well.
            lease: The lease that must be held for that.

        Raises:
            ChannelError: A post has what is no message. Of a poll, such a one is set aside and
                said: it would come again with every poll, and hold up all behind it.
            StoreError: Nothing was committed.
            LostLeaseError: Nothing was committed, since another gateway polls.
        """
        answering = isinstance(hosted.channel, AnsweringChannel)
        good, wrong = _checked(parsed.messages)
        if wrong and not polled:
            raise ChannelError(wrong[0])
        for why in wrong:
            self._host.log.warning("a polled message was set aside", channel=hosted.name, why=why)
        messages = [one if answering else replace(one, wait=False) for one in good]
        for one in messages:
            if not hosted.listens_to(one) and hosted.pairs:
                await self._pair(hosted, one)
        listened = (one for one in messages if hosted.listens_to(one))
        heard = [one for one in listened if is_addressed(hosted, one)]
        keys = [event_key(hosted.name, one) for one in heard]
        named = list(zip(keys, heard, strict=True))
        answers = {key for key, one in named if self._answers.is_one(hosted, one)}
        stops = {key for key, one in named if command_of(hosted, one) == "stop"}
        said = {key for key, one in named if one.content.strip() or one.images} - stops
        fresh = await self._events.take(
            hosted.name,
            heard,
            done=answers | (set(keys) - said),
            cursor=parsed.cursor if polled else None,
            lease=lease,
        )
        for message in fresh:
            key = event_key(hosted.name, message)
            if key in answers:
                await self._answers.take(hosted, message)
            elif key in stops:
                await self._stop(hosted, message)
            elif key in said:
                self._turning.put(hosted, message)
        return [one for key, one in named if one.wait and key in said and key not in answers]

    async def _stop(self, hosted: Hosted, message: ReceivedMessage) -> None:
        """Break off what runs in a conversation, which says so itself; it needs no lane."""
        if not stop(self._host, hosted, message):
            await self._tell(hosted, message, NOTHING_RUNS)

    async def _pair(self, hosted: Hosted, message: ReceivedMessage) -> None:
        """Give a stranger in a private chat a code, once; in a group nobody is spoken to."""
        if message.guild is not None or message.addressed is False or not message.sender:
            return
        if code := await self._people.ask(hosted.person(message)):
            self._host.log.info("somebody asks to be let in", channel=hosted.name, code=code)
            await self._tell(hosted, message, pairing_text(code))

    async def _tell(self, hosted: Hosted, message: ReceivedMessage, text: str) -> None:
        if message.wait:
            return  # It can be told nothing but its answer, and this would be a dead letter.
        said = deliveries_of(
            hosted, hosted.address(message), text, batch=message.id, thread=message.thread
        )
        await self._deliveries.add(said)
        self._wake(hosted.name)


def _checked(messages: Sequence[ReceivedMessage]) -> tuple[list[ReceivedMessage], list[str]]:
    """Return the messages whose ids are texts of a length that can be kept, and why others are not.

    Raises:
        ChannelError: There are too many.
    """
    if len(messages) > MOST:
        raise ChannelError(f"found {len(messages)} messages at once, expected {MOST} at most")
    good, wrong = [], []
    for message in messages:
        try:
            good.append(_read(message))
        except ChannelError as error:
            wrong.append(str(error))
    return good, wrong


def _read(message: ReceivedMessage) -> ReceivedMessage:
    # Platforms number what they have, and a channel may pass the numbers on.
    texts = {key: _text(getattr(message, key)) for key in IDS}
    for key, most in IDS.items():
        if len(texts[key]) > most:
            raise ChannelError(f"found a {key} of {len(texts[key])} characters, expected {most}")
    for key in ("id", "account", "peer"):
        if not texts[key]:
            raise ChannelError(f"found a message without {key}")
    if not isinstance(message.content, str):
        raise ChannelError(f"found content of type {type(message.content).__name__}")
    content = _kept(message.content)
    return replace(message, content=content, **texts)  # type: ignore[arg-type]  # texts


def _text(value: object) -> str:
    if isinstance(value, str | int) and not isinstance(value, bool):
        text = str(value)
        kept = _kept(text)
        if kept == text:
            return text
        # No two ids become one: an event would be lost, or a stranger be taken for an approver.
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{kept}~{digest[:16]}"
    raise ChannelError(f"found an id of type {type(value).__name__}, expected text")


def _kept(text: str) -> str:
    """Return `text` without what no store keeps; no platform sends it on purpose."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


# -- saying ----------------------------------------------------------------------

# What is said at the end of a turn, and what a message becomes that is still to be sent.

INTERRUPTED = (
    "The gateway was restarted while it was answering your message, and the answer is lost. What "
    "it had begun may have been done. Please send your message again if you still want an answer."
)

TELLING = frozenset(("refused", "budget_exceeded", "rate_limited", "stopping", "message_too_long"))
"""Codes of errors whose words are meant for whoever has asked."""


def said_of(turn: Turn) -> str:
    """Return what is said at the end of a turn: its answer, and why it is not whole."""
    if turn.ending == "done" or turn.error is None:
        return turn.answer
    code = turn.error.code
    told = str(turn.error) if turn.ending == "refused" or code in TELLING else f"code {code}"
    why = f"This message could not be answered: {told}"
    if turn.error.data.get("kind") in RETRYABLE_KINDS:
        why += ". Please send it again in a moment."
    if turn.ending == "cancelled":
        why = "The answer was broken off. Please send your message again if you still want one."
    return f"{turn.answer}\n\n{why}" if turn.answer.strip() else why


def kept_answer(messages: list[Message]) -> str | None:
    """Return the answer of a turn from its messages; None where it had none yet."""
    last = messages[-1] if messages else None
    if last is None or last.role != "assistant" or last.tool_uses:
        return None
    return last.text


def deliveries_of(
    hosted: Hosted,
    address: Address,
    content: Content,
    *,
    batch: str,
    thread: str = "",
    choices: tuple[Choice, ...] = (),
    live: str = "",
    shown: str = "",
    expires: int = 0,
) -> list[Delivery]:
    """Return the messages that say `content`, in order.

    Args:
        hosted: The channel.
        address: To whom.
        content: What is said.
        batch: What names them together.
        thread: What it answers.
        choices: What the last one offers.
        live: The id of a message that the first one changes; "" for none.
        shown: What that message shows already.
        expires: From when on they are of no use; 0 for never.
    """
    features = hosted.channel.features
    messages = messages_of(content, features)
    found = []
    for number, message in enumerate(messages):
        first, last = number == 0, number == len(messages) - 1
        if first and live and message == shown:
            continue
        edits = live if first and isinstance(message, str) else ""
        found.append(
            Delivery(
                address=address,
                content=message,
                thread=thread if features.threads else "",
                choices=choices if last and features.choices else (),
                edits=edits,
                batch=batch,
                expires=expires,
            )
        )
    return found


# -- live ------------------------------------------------------------------------

# An answer that is shown while it is written: one message, changed again and again.

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
        self._note = ""
        self._more = asyncio.Event()
        self._closed = asyncio.Event()
        self.message_id = message_id
        self.shown = ""
        self._task = asyncio.create_task(self._show())

    def feed(self, text: str) -> None:
        """Take more of the answer; never waits."""
        self._text.append(text)
        self._more.set()

    def note(self, text: str) -> None:
        """Show `text` in the place of the answer, until there is one; never waits."""
        self._note = text
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
        first = messages_of(text if text.strip() else self._note, self._hosted.channel.features)[:1]
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


TYPING_SECONDS = 4.0
"""How often it is shown that an answer is being written: platforms show it for five seconds."""


class Typing:
    """Shows that an answer is being written, until it is closed. What fails here is passed over.

    Args:
        host: The gateway.
        hosted: The channel.
        address: Who waits for the answer.
    """

    def __init__(self, host: Host, hosted: Hosted, address: Address) -> None:
        self._task: asyncio.Task[None] | None = None
        if hosted.channel.features.typing:
            work = self._show(hosted, address)
            self._task = host.spawn(work, name=f"typing in {hosted.name}")

    def close(self) -> None:
        """Show it no longer."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _show(self, hosted: Hosted, address: Address) -> None:
        typing: Callable[[Address], Awaitable[None]] = getattr(hosted.channel, "typing")  # noqa: B009 - not of all
        while True:
            ended = await apart(partial(typing, address), limit=LIMIT)
            if ended.error is not None or ended.late:
                return
            await asyncio.sleep(TYPING_SECONDS)
