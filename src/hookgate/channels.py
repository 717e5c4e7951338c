"""What channels are made of."""

# ruff: noqa: I001

from hookgate.core.domain.channels.channel import (
    Channel as Channel,
    ChannelFeatures as ChannelFeatures,
    Choice as Choice,
    GUESTS as GUESTS,
    guest_channel as guest_channel,
    is_guest_channel as is_guest_channel,
)
from hookgate.core.domain.channels.hosted import (
    AnsweringChannel as AnsweringChannel,
    Connection as Connection,
    Handshake as Handshake,
    HostedChannel as HostedChannel,
    Parsed as Parsed,
    PolledChannel as PolledChannel,
    Polling as Polling,
    RawMessage as RawMessage,
    ReceivedMessage as ReceivedMessage,
    Webhook as Webhook,
    WebhookReply as WebhookReply,
)
