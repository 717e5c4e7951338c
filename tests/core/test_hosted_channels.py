"""What a channel says of its connection: checked when it is said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hookgate import (
    Address,
    AnsweringChannel,
    ChannelError,
    ChannelFeatures,
    Choice,
    Content,
    HostedChannel,
    Parsed,
    PolledChannel,
    Polling,
    RawMessage,
    ReceivedMessage,
    Webhook,
)
from hookgate.kit.testing.channel import MemoryChannel


class Bell:
    """A third party's channel: a bell that rings, and can be rung."""

    name = "bell"
    sandboxed = False
    features = ChannelFeatures(max_length=100)
    connection: Webhook | Polling = Polling()

    async def parse_incoming(self, raw: RawMessage) -> Parsed:
        if not raw.body:
            raise ChannelError("expected a ring")
        ring = ReceivedMessage(id="1", content=raw.body.decode(), peer="door")
        return Parsed(messages=[ring], cursor="1")

    async def send(
        self,
        address: Address,
        content: Content,
        *,
        thread: str = "",
        choices: Sequence[Choice] = (),
        key: str = "",
    ) -> str:
        return ""

    async def edit(
        self,
        address: Address,
        message_id: str,
        content: Content,
        *,
        choices: Sequence[Choice] = (),
    ) -> None:
        raise ChannelError("a bell that has rung has rung")


class PolledBell(Bell):
    async def poll(self, cursor: str) -> RawMessage:
        return RawMessage(kind="poll", body=b"ding", status=200)


def test_channel_is_hosted_where_it_can_read_what_comes_in() -> None:
    bell: HostedChannel = Bell()
    polled: PolledChannel = PolledBell()
    assert isinstance(bell, HostedChannel)
    assert isinstance(polled, PolledChannel)
    assert not isinstance(bell, PolledChannel | AnsweringChannel)
    assert not isinstance(MemoryChannel(), HostedChannel)


SIGNED: dict[str, Any] = {"verification": "hmac-sha256", "secret": "s", "header": "X-Signature"}


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"secret": ""}, "found no secret"),
        ({"header": ""}, "found no header"),
        ({"verification": "md5"}, "expected 'header', 'hmac-sha256' or 'ed25519'"),
        ({"signed": "{timestamp}", "timestamp": "X-Time"}, "what is not signed"),
        ({"timestamp": "X-Time"}, "a time that is not signed"),
        ({"signed": "{timestamp}{body}"}, "a time that is not signed"),
        ({"max_body": 0}, "1 or more"),
    ],
)
def test_webhook_that_proves_nothing_is_refused(said: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Webhook(**{**SIGNED, **said})


def test_poll_neither_spins_nor_sleeps_for_ever() -> None:
    with pytest.raises(ValueError, match="found seconds=0 and pause=0"):
        Polling(seconds=0, pause=0)
    with pytest.raises(ValueError, match="seconds=1000"):
        Polling(seconds=1000)
