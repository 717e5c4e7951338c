"""Taking messages in: checked, known once, committed; then a turn, or the answer to a question."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hookgate import AnsweringChannel, ChannelError, Host, Parsed, ReceivedMessage
from hookgate.builtin_plugins.channels.book.events import Events, event_key

if TYPE_CHECKING:
    from hookgate.builtin_plugins.channels.approvals.answers import Answers
    from hookgate.builtin_plugins.channels.hosting import Hosted
    from hookgate.builtin_plugins.channels.inbox.turning import Turning

MOST = 1000
"""Messages of one post or poll."""

IDS = {"id": 256, "account": 256, "peer": 256, "sender": 256, "thread": 1024, "choice": 256}
"""The longest of each, in characters."""


class Intake:
    """Takes in what channels have read."""

    def __init__(self, host: Host, events: Events, turning: Turning, answers: Answers) -> None:
        self._host = host
        self._events = events
        self._turning = turning
        self._answers = answers

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
        heard = [one for one in messages if hosted.listens_to(one)]
        keys = [event_key(hosted.name, one) for one in heard]
        named = list(zip(keys, heard, strict=True))
        answers = {key for key, one in named if self._answers.is_one(hosted, one)}
        said = {key for key, one in named if one.content.strip() or one.images}
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
            elif key in said:
                self._turning.put(hosted, message)
        return [one for key, one in named if one.wait and key in said and key not in answers]


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
