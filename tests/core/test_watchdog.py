from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from hookgate.core.host import Host
from hookgate.core.secrets import SecretStore
from hookgate.core.settings import Settings
from hookgate.core.watchdog import Watchdog


class Lines:
    """A log that keeps level and event of each line."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, str]] = []

    def __getattr__(self, level: str) -> Any:
        return lambda event, **_: self.kept.append((level, event))


@pytest.mark.parametrize(("settling", "level"), [(3600.0, "debug"), (0.0, "warning")])
async def test_whoever_holds_the_loop_is_a_warning_once_the_gateway_has_settled(
    settling: float, level: str
) -> None:
    host = Host(Settings(), SecretStore(Settings()))
    lines = Lines()
    host.log = lines
    with Watchdog(host, limit=0.02, settling=settling) as watchdog:
        deadline = time.monotonic() + 20
        while not watchdog.reports:
            assert time.monotonic() < deadline
            time.sleep(0.1)  # noqa: ASYNC251 - this is what it is to notice
            await asyncio.sleep(0)
    assert set(lines.kept) == {(level, "the event loop is held")}
