"""What the service manager is told of how the gateway stands: systemd's sd_notify(3)."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class ServiceManager:
    """The service manager, where one waits to hear of this process.

    Args:
        environ: The environment: ``NOTIFY_SOCKET`` names where it listens, ``WATCHDOG_USEC`` how
            often it wants a sign of life.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._place = environ.get("NOTIFY_SOCKET", "")
        self._watched = 0.0
        if environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
            with suppress(ValueError):
                self._watched = int(environ.get("WATCHDOG_USEC", "0")) / 1e6
        self._alive: asyncio.Task[None] | None = None

    def ready(self, status: str) -> None:
        """Say that the gateway serves, or does so again; from now on that it lives."""
        self._say("READY=1", f"MAINPID={os.getpid()}", f"STATUS={status}")
        if self._place and self._watched and self._alive is None:
            self._alive = asyncio.create_task(self._keep_saying(), name="service watchdog")

    def reloading(self) -> None:
        """Say that content is read again."""
        self._say("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, seconds: float) -> None:
        """Say that the gateway stops, and how long it takes at most."""
        self._say("STOPPING=1", f"EXTEND_TIMEOUT_USEC={seconds * 1e6:.0f}")

    def close(self) -> None:
        """Say nothing more."""
        if self._alive is not None:
            self._alive.cancel()

    async def _keep_saying(self) -> None:
        # From the event loop: a manager ends who no longer serves, and not who has no thread.
        while True:
            self._say("WATCHDOG=1")
            await asyncio.sleep(self._watched / 2)

    def _say(self, *lines: str) -> None:
        """Send a message; where nobody listens, that changes nothing for those who are served."""
        if not self._place:
            return
        place = "\0" + self._place[1:] if self._place.startswith("@") else self._place
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
            one.setblocking(False)
            one.connect(place)
            one.send("\n".join(lines).encode())
