"""A hookgate plugin: calls that could send data out are denied during quiet hours."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import time
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from hookgate import CLOCK, Section, Verdict, hookimpl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hookgate import Clock, Host, ToolCall, Turn


class QuietHours(Section):
    """``[plugin.quiet_hours]``."""

    start: time = time(22)
    """When the quiet begins."""
    end: time = time(7)
    """When it is over, on the same day or on the next."""
    zone: ZoneInfo = ZoneInfo("UTC")
    """The time zone of both."""


class Plugin:
    """Judges tool calls by the clock."""

    Settings = QuietHours
    requires = (CLOCK,)

    def __init__(self, settings: QuietHours) -> None:
        self.settings = settings
        self.clock: Clock

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Take the gateway's clock, which tests can turn."""
        self.clock = host[CLOCK]
        yield

    @hookimpl
    def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict | None:
        """Deny what could send something out, and abstain from everything else."""
        # `is not False`: a tool that does not say whether it sends may well do so.
        if call.flags.sends_externally is not False and self.is_quiet():
            start, end = self.settings.start, self.settings.end
            reason = f"nothing is sent between {start:%H:%M} and {end:%H:%M} ({self.settings.zone})"
            return Verdict.deny(reason, rule="quiet-hours")
        return None

    def is_quiet(self) -> bool:
        """Whether it is between `start` and `end` now."""
        start, end = self.settings.start, self.settings.end
        now = self.clock.now().astimezone(self.settings.zone).time()
        return start <= now < end if start <= end else now >= start or now < end
