"""Channels without a platform: tests post to them, and look at what they were told to say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from hookgate import (
    Address,
    Channel,
    ChannelError,
    ChannelFeatures,
    Choice,
    Content,
    Host,
    Parsed,
    RawMessage,
    ReceivedMessage,
    Webhook,
    hookimpl,
)

KEY = "the-key-of-the-bell"


def event(number: int | str, text: str = "hello", **more: Any) -> bytes:
    return json.dumps({"id": f"event-{number}", "content": text, "peer": "ada", **more}).encode()


AROUND = ("control", "storage", "egress", "policy", "metering", "audit", "channels", "wasm")
"""The builtin plugins that channels are tested with."""


class Bell:
    """A channel whose posts are the JSON of a `ReceivedMessage`, and the plugin that brings it.

    Attributes:
        said: What was said: peer and text, in order.
        keys: The keys that came along.
        failing: What the next attempts fail with.
    """

    sandboxed = False

    def __init__(self, webhook: Webhook, name: str = "bell", **features: Any) -> None:
        self.name = name
        self.connection = webhook
        self.features = ChannelFeatures(**features)
        self.said: list[tuple[str, str]] = []
        self.keys: list[str] = []
        self.failing: list[BaseException] = []
        self.read = 0
        self._changed = asyncio.Condition()

    async def until(self, holds: Callable[[], Any]) -> None:
        """Wait until something holds of what was said."""
        async with self._changed:
            await self._changed.wait_for(holds)

    @hookimpl
    def list_channels(self, host: Host) -> Sequence[Channel]:
        return [self]

    async def parse_incoming(self, raw: RawMessage) -> Parsed:
        self.read += 1
        try:
            found = json.loads(raw.body)
            messages = found if isinstance(found, list) else [found]
            return Parsed(messages=[ReceivedMessage(**one) for one in messages])
        except (ValueError, TypeError) as error:
            raise ChannelError("expected messages") from error

    async def send(
        self,
        address: Address,
        content: Content,
        *,
        thread: str = "",
        choices: Sequence[Choice] = (),
        key: str = "",
    ) -> str:
        async with self._changed:
            self.keys.append(key)
            self._changed.notify_all()
            if self.failing:
                raise self.failing.pop(0)
            assert isinstance(content, str)
            self.said.append((address.peer, content))
        return f"said-{len(self.said)}"

    async def edit(
        self, address: Address, message_id: str, content: Content, *, choices: Sequence[Choice] = ()
    ) -> None:
        raise ChannelError("what is said is said")
