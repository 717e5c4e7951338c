"""What commands show of the results of these operations."""

from __future__ import annotations

from hookgate.kit.rendering import listing

VIEWS = {
    "channels.dead": listing(
        "letters",
        "nothing was given up: every message could be delivered, or still waits",
        *("id", "channel", "account", "peer", "attempts", "error"),
    ),
    "channels.list": listing(
        "channels",
        "no channel is hosted: `[plugin.channels.NAME]` with a `kind` (slack, discord, json) hosts "
        "one (docs/plugins/channels.md), and `hookgate wasm install` brings others",
        *("name", "connection", "path", "paused", "asking", "waiting", "unsent", "dead", "why"),
    ),
    "channels.people": listing(
        "people",
        "nobody asks to be let in, and nobody was let in by a code: who writes to a channel that "
        "is closed is given one",
        *("channel", "account", "sender", "code", "since"),
    ),
}
