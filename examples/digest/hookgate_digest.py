"""A hookgate plugin that publishes a hook of its own: a daily digest to which others add lines."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import asynccontextmanager
from datetime import date
from typing import TYPE_CHECKING

from hookgate import Flags, hookimpl, hookspec, tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hookgate import Host, Tool


@hookspec("each", limit=5.0)
def digest_lines(day: date) -> Sequence[str] | None:
    """Add lines to the digest of a day.

    Called each time that somebody asks for the digest. One that fails costs its own lines.

    Args:
        day: The day, in UTC.

    Returns:
        Lines, or None for none.
    """


class Plugin:
    """Brings the tool ``digest``, and asks all other plugins what belongs in it."""

    name = "digest"
    publishes = (digest_lines,)

    def __init__(self) -> None:
        self.host: Host | None = None

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Keep the gateway at hand."""
        self.host = host
        yield

    @hookimpl
    def list_tools(self) -> Sequence[Tool]:
        """Return the one tool. What others write may come from anywhere."""
        flags = Flags(
            reads_external_data=True,
            writes_persistent_state=False,
            sends_externally=False,
            executes_privileged=False,
            creates_autonomous_actions=False,
        )
        asked = ("what's up today", "my digest, please", "anything I should know this morning?")
        return [tool(self.digest, flags=flags, examples=asked)]

    async def digest(self) -> str:
        """Say what there is today."""
        assert self.host is not None, "a tool runs while the gateway does"
        day = self.host.clock.now().date()
        added = await self.host.hooks.each(digest_lines, day)
        lines = [f"- {line}" for more in added for line in more]
        return "\n".join([f"{day:%A, %d %B %Y}", *(lines or ["Nothing today."])])
