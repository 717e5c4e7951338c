"""Restarts on one machine that refuse nobody: ``serve --take-over``, and sockets of a manager."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.cli.conftest import CommandLine
from tests.cli.test_look import wait_until
from tests.cli.test_serve import free_port, listens, served

from hookgate.cli.client.note import running_gateway

LIMIT = 60.0


class Users:
    """People who ask all the time, over connections that they keep, and what they got."""

    def __init__(self, url: str, number: int) -> None:
        self.failed: list[Any] = []
        self.answered = 0
        self.longest = 0.0
        self.url = url
        self._number = number
        self._over = False

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[None]:
        limit = aiohttp.ClientTimeout(total=30)
        async with aiohttp.ClientSession(self.url, timeout=limit) as http:
            tasks = [asyncio.create_task(self._ask(http, n)) for n in range(self._number)]
            try:
                yield
            finally:
                self._over = True
                await asyncio.gather(*tasks)

    async def _ask(self, http: aiohttp.ClientSession, number: int) -> None:
        while not self._over:
            began = time.monotonic()
            body = {"content": "what is 2*3?", "peer": f"p{number}"}
            try:
                async with http.post("/v1/turns", json=body) as answer:
                    said = await answer.json()
                    if answer.status != 200 or said["text"] != "2*3 = 6.":
                        self.failed.append((answer.status, said))
            except (aiohttp.ClientError, TimeoutError) as error:
                self.failed.append(repr(error))
            self.answered += 1
            self.longest = max(self.longest, time.monotonic() - began)

    async def more(self, number: int) -> None:
        """Wait until so many more have been answered."""
        wanted = self.answered + number
        async with asyncio.timeout(LIMIT):
            while self.answered < wanted:  # noqa: ASYNC110 - others are asked
                await asyncio.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_a_gateway_that_is_taken_over_from_refuses_nobody(
    store: str, hookgate: CommandLine, short: bool, request: pytest.FixtureRequest
) -> None:
    port = free_port()
    users = Users(f"http://127.0.0.1:{port}", 8)
    environ = {"HOOKGATE_GATEWAY__LIMITS__DRAIN_WAIT_SECONDS": "0.5", **hookgate.environ}
    if store == "postgres":
        environ["HOOKGATE_PLUGIN__STORAGE__URL"] = request.getfixturevalue("url")
        environ["HOOKGATE_PLUGIN__STORAGE__FALLBACK"] = "refuse"
    waits: list[float] = []
    with served(hookgate, "--port", str(port), environ=environ) as (old, _):
        async with users.asking():
            await users.more(20)
            for _ in range(1 if short else 3):
                users.longest = 0.0
                new = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
                    [sys.executable, "-m", "hookgate", "serve", "--port", "1", "--take-over"],
                    env=environ,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                try:
                    assert await asyncio.to_thread(old.wait, LIMIT) == 0
                    await users.more(20)
                    note = running_gateway(hookgate.home / ".hookgate")
                    assert note is not None, "commands find the new one"
                    assert (note.pid, note.url) == (new.pid, users.url)
                except BaseException:
                    new.kill()
                    raise
                finally:
                    old.communicate()
                waits.append(round(users.longest, 2))
                old = new
            old.send_signal(signal.SIGTERM)
        old.communicate(timeout=LIMIT)
    print(f"\n{store}: {users.answered} answers, {len(users.failed)} failed, longest {waits} s")
    assert users.failed == []


ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.executable, [sys.executable, "-m", "hookgate", "serve"])
"""


def activated(hookgate: CommandLine, one: socket.socket, log: Path) -> subprocess.Popen[bytes]:
    """Start a gateway as systemd does where a socket is there for it."""
    with log.open("ab") as stderr:
        return subprocess.Popen(
            [sys.executable, "-c", ACTIVATE, str(one.fileno())],
            env={"HOOKGATE_GATEWAY__LIMITS__DRAIN_WAIT_SECONDS": "0", **hookgate.environ},
            pass_fds=[one.fileno()],
            stderr=stderr,
        )


@pytest.mark.slow
async def test_between_two_gateways_of_one_manager_requests_wait_and_none_is_refused(
    hookgate: CommandLine, short: bool, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with socket.create_server(("127.0.0.1", 0), backlog=100) as one:
        users = Users(f"http://127.0.0.1:{one.getsockname()[1]}", 4)
        process = activated(hookgate, one, log)
        try:
            async with users.asking():
                for _ in range(1 if short else 3):
                    await users.more(10)
                    process.send_signal(signal.SIGTERM)
                    assert await asyncio.to_thread(process.wait, LIMIT) == 0, log.read_text()
                    process = activated(hookgate, one, log)
                await users.more(10)
        finally:
            process.terminate()
            process.wait(LIMIT)
    # A message over a connection that was kept may come when the gateway stops: it has not begun.
    assert [one for one in users.failed if not is_stopping(one)] == []


def is_stopping(failure: Any) -> bool:
    return failure[0] == 503 and failure[1]["error"]["data"]["code"] == "stopping"


@pytest.mark.slow
def test_taking_over_from_nobody_is_a_start(hookgate: CommandLine) -> None:
    port = free_port()
    with served(hookgate, "--port", str(port), "--take-over") as (process, url):
        assert url == f"http://127.0.0.1:{port}"
        assert listens(port)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT)
        assert process.returncode == 0
    wait_until(lambda: not listens(port))
    assert not any(name.endswith("takeover.sock") for name in os.listdir(hookgate.home))
