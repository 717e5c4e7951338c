"""The plugin in a real gateway, with a clock that the tests turn."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import pytest

from hookgate import CLOCK, Flags, Gateway, Settings, ToolResult, hookimpl, tool


class FixedClock:
    def __init__(self, hour: int) -> None:
        self.hour = hour

    def now(self) -> datetime:
        return datetime(2026, 3, 1, self.hour, tzinfo=UTC)

    def monotonic(self) -> float:
        return monotonic()


async def post(text: str) -> str:
    """Send a message to everybody."""
    return f"sent: {text}"


async def shout(text: str) -> str:
    """Write in capitals."""
    return text.upper()


class House:
    """What the tests need around the plugin: a clock, and two tools."""

    provides = (CLOCK,)

    def __init__(self, hour: int) -> None:
        self.hour = hour

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host):
        host.provide(CLOCK, FixedClock(self.hour))
        yield

    @hookimpl
    def list_tools(self):
        sends = Flags(sends_externally=True, reads_external_data=False)
        return [tool(post, flags=sends), tool(shout, flags=Flags.none())]


async def call(home: Path, hour: int, name: str, **settings: str) -> ToolResult:
    """Let the demo model call a tool, and return what came of it."""
    config = Settings.model_validate(
        {
            "home": home,
            "turn": {"default_verdict": "allow"},
            "plugin": {"quiet_hours": settings},
        }
    )
    builtin = ("egress", "providers")
    async with Gateway(config, builtin=builtin, plugins=[House(hour)]) as gateway:
        turn = await gateway.chat(f'/call {name} {{"text": "hello"}}')
    return turn.calls[0].result


@pytest.mark.parametrize(("hour", "status"), [(21, "done"), (22, "denied"), (6, "denied")])
async def test_nothing_is_sent_at_night(tmp_path: Path, hour: int, status: str) -> None:
    result = await call(tmp_path, hour, "post")

    assert result.status == status


async def test_the_model_is_told_why(tmp_path: Path) -> None:
    result = await call(tmp_path, 23, "post")

    assert "nothing is sent between 22:00 and 07:00 (UTC)" in result.content


async def test_what_sends_nothing_is_left_alone(tmp_path: Path) -> None:
    result = await call(tmp_path, 23, "shout")

    assert result.content == "HELLO"


async def test_hours_and_zone_come_from_the_settings(tmp_path: Path) -> None:
    result = await call(tmp_path, 23, "post", start="01:00", end="02:00", zone="Asia/Tokyo")

    assert result.status == "done"
