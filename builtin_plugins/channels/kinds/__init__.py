"""Channels that come with hookgate, in Python: a module for each kind."""

from __future__ import annotations

from hookgate import Egress, Host, HostedChannel
from hookgate.builtin_plugins.channels.settings import ChannelSettings


def channel_of(host: Host, egress: Egress, name: str, settings: ChannelSettings) -> HostedChannel:
    """Return the channel of a section that has a kind."""
    # Who has no such channel loads none.
    from hookgate.builtin_plugins.channels.kinds.discord import DiscordChannel
    from hookgate.builtin_plugins.channels.kinds.json_webhook import JsonChannel
    from hookgate.builtin_plugins.channels.kinds.slack import SlackChannel

    kinds: dict[str | None, type[JsonChannel | SlackChannel | DiscordChannel]] = {
        "json": JsonChannel,
        "slack": SlackChannel,
        "discord": DiscordChannel,
    }
    return kinds[settings.kind](host, egress, name, settings)
