"""The gateway's sockets, its service manager, and who takes over from it."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.script import Script, Scripted, gateway, say, until
from tests.support.script import settings as in_home
from tests.support.wire import bearer, serving, tokens

from hookgate.core.domain.errors import StartError
from hookgate.core.gateway import sockets as sockets_module
from hookgate.core.gateway.access import auth
from hookgate.core.gateway.access.auth import check_listener
from hookgate.core.gateway.serve import serve
from hookgate.core.gateway.sockets import (
    PLACE,
    Handover,
    ServiceManager,
    bind_unix,
    inherited_sockets,
    take_over,
)
from hookgate.core.settings.schema import Settings

# -- a Unix socket -------------------------------------------------------------------


@asynccontextmanager
async def by_unix(path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.UnixConnector(str(path))
    async with aiohttp.ClientSession("http://localhost", connector=connector) as http:
        yield http


async def test_a_unix_socket_serves_its_own_user_beside_the_port(tmp_path: Path) -> None:
    path = tmp_path / "gateway.sock"
    async with serving(wire={"socket": str(path)}) as served, by_unix(path) as http:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        async with http.post("/v1/turns", json={"content": "x"}) as answer:
            assert (answer.status, (await answer.json())["text"]) == (200, "well said")
        async with http.ws_connect("/ws") as raw:
            assert (await raw.receive_json())["params"]["principal"] == "loopback"
        async with http.get("/v1/status", headers={"Host": "evil.example"}) as answer:
            assert answer.status == 421
        async with http.get("/v1/status", headers={"X-Forwarded-For": "10.0.0.9"}) as answer:
            assert answer.status == 400, "a proxy needs tokens here, too"
        assert (await served.get("/v1/status"))[0] == 200


async def test_another_user_at_a_unix_socket_is_a_stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "peer_is_ours", lambda _: False)
    path = tmp_path / "gateway.sock"
    async with (
        serving(wire={"socket": str(path)}),
        by_unix(path) as http,
        http.get("/v1/status") as answer,
    ):
        assert answer.status == 401


async def test_a_proxy_at_a_unix_socket_is_believed_where_loopback_is(tmp_path: Path) -> None:
    wire, made = tokens(ann={"scopes": ["chat", "read"]})
    path = tmp_path / "gateway.sock"
    wire |= {"socket": str(path), "socket_mode": "0660", "trusted_proxies": ["127.0.0.1"]}
    async with serving(wire=wire), by_unix(path) as http:
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        headers = {"X-Forwarded-For": "10.0.0.9", **bearer(made["ann"])["headers"]}
        async with http.get("/v1/status", headers=headers) as answer:
            assert answer.status == 200
        async with http.get("/v1/status") as answer:
            assert answer.status == 401


def test_a_socket_that_nobody_listens_on_is_replaced_and_nothing_else_is(tmp_path: Path) -> None:
    path = tmp_path / "gateway.sock"
    bind_unix(path, 0o600).close()
    with bind_unix(path, 0o600) as again:
        again.listen()
        with pytest.raises(StartError, match="something listens on the Unix socket"):
            bind_unix(path, 0o600)
    path.unlink()
    path.write_text("a file")
    with pytest.raises(StartError, match="is no socket: move it away"):
        bind_unix(path, 0o600)
    assert path.read_text() == "a file"
    with pytest.raises(StartError, match="No such file or directory; set"):
        bind_unix(tmp_path / "nowhere" / "gateway.sock", 0o600)


def test_a_path_that_is_longer_than_an_address_is_one_all_the_same(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    with bind_unix(folder / "gateway.sock", 0o600) as one:
        one.listen()
        with pytest.raises(StartError, match="something listens"):
            bind_unix(folder / "gateway.sock", 0o600)


# -- sockets of a service manager ------------------------------------------------------


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A listening socket, where a service manager would put it."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        monkeypatch.setattr(sockets_module, "FIRST_INHERITED", os.dup(one.fileno()))
        yield one


def test_sockets_of_a_service_manager_are_taken_once_and_by_whom_they_are_for(
    handed: socket.socket,
) -> None:
    assert inherited_sockets({}) == []
    assert inherited_sockets({"LISTEN_PID": "1", "LISTEN_FDS": "1"}) == []
    environ = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "x", "A": "b"}
    (one,) = inherited_sockets(environ)
    assert one.getsockname() == handed.getsockname()
    assert not one.get_inheritable()
    assert environ == {"A": "b"}
    one.close()


def test_a_socket_that_no_connections_come_to_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
    with socket.socket(type=socket.SOCK_DGRAM) as wrong:
        monkeypatch.setattr(sockets_module, "FIRST_INHERITED", os.dup(wrong.fileno()))
        with pytest.raises(StartError, match=r"needs `ListenStream=` and `Accept=no`"):
            inherited_sockets(environ)


def test_a_socket_that_strangers_reach_needs_a_token_whoever_has_opened_it() -> None:
    with (
        socket.create_server(("0.0.0.0", 0)) as wide,
        pytest.raises(
            StartError, match=r"the socket on 0\.0\.0\.0 that was handed to this process"
        ),
    ):
        check_listener(Settings(), [wide])


# -- the service manager ---------------------------------------------------------------


@pytest.fixture
def told(tmp_path: Path) -> Iterator[tuple[Path, socket.socket]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.bind(str(tmp_path / "notify"))
        yield tmp_path / "notify", one


def next_of(one: socket.socket, *, after: str = "") -> str:
    """Return the next message that is no sign of life, or the next one that is `after`."""
    while True:
        said = one.recv(4096).decode()
        if (said == after) if after else (said != "WATCHDOG=1"):
            return said


async def test_the_service_manager_hears_of_start_life_reload_and_end(
    told: tuple[Path, socket.socket],
) -> None:
    place, one = told
    manager = ServiceManager({"NOTIFY_SOCKET": str(place), "WATCHDOG_USEC": "20000"})
    stop = asyncio.Event()
    settings = {"port": 0, "limits": {"drain_wait_seconds": 0, "drain_seconds": 1}}
    async with gateway(Scripted(Script(say("x"))), gateway=settings) as gate:
        serving_ = asyncio.ensure_future(serve(gate, signals=False, stop=stop, manager=manager))
        said = await asyncio.to_thread(next_of, one)
        assert said.startswith(f"READY=1\nMAINPID={os.getpid()}\nSTATUS=listening on http://")
        for _ in range(3):
            await asyncio.to_thread(next_of, one, after="WATCHDOG=1")
        stop.set()
        assert await asyncio.to_thread(next_of, one) == "STOPPING=1\nEXTEND_TIMEOUT_USEC=31000000"
        assert await serving_ == 0


def test_a_reload_is_told_and_a_manager_that_is_not_there_changes_nothing(
    told: tuple[Path, socket.socket],
) -> None:
    place, one = told
    ServiceManager({"NOTIFY_SOCKET": str(place)}).reloading()
    assert next_of(one).startswith("RELOADING=1\nMONOTONIC_USEC=")
    ServiceManager({}).reloading()
    ServiceManager({"NOTIFY_SOCKET": "@hookgate-nobody-listens"}).reloading()
    ServiceManager({"NOTIFY_SOCKET": str(place.with_name("gone"))}).reloading()


async def test_only_the_process_that_is_watched_says_that_it_lives(
    told: tuple[Path, socket.socket],
) -> None:
    place, one = told
    environ = {"NOTIFY_SOCKET": str(place), "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}
    manager = ServiceManager(environ)
    manager.ready("up")
    manager.stopping(1)
    assert next_of(one).startswith("READY=1")
    assert one.recv(4096).startswith(b"STOPPING=1")
    manager.close()


# -- who takes over --------------------------------------------------------------------


class Old:
    """A gateway's side of a handover, and what was said to it."""

    def __init__(self, home: Path) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.heard: asyncio.Queue[bool] = asyncio.Queue()
        self.side = Handover(home, lambda: [self.socket], self.heard.put_nowait)


@asynccontextmanager
async def old(home: Path) -> AsyncIterator[Old]:
    one = Old(home)
    one.side.open()
    try:
        yield one
    finally:
        await one.side.close()
        one.side.release()
        one.socket.close()


async def test_who_takes_over_gets_the_sockets_and_says_when_it_serves(tmp_path: Path) -> None:
    async with old(tmp_path) as one:
        assert stat.S_IMODE((tmp_path / PLACE).stat().st_mode) == 0o600
        taken = await asyncio.to_thread(take_over, tmp_path)
        assert taken is not None
        (mine,) = taken.sockets
        assert mine.getsockname() == one.socket.getsockname()
        assert one.heard.empty()
        taken.listening()
        assert await one.heard.get() is True
        taken.close()
    assert not (tmp_path / PLACE).exists()


async def test_who_waits_for_the_store_goes_on_once_it_is_given_back(tmp_path: Path) -> None:
    async with old(tmp_path) as one:
        taken = await asyncio.to_thread(take_over, tmp_path)
        assert taken is not None
        waiting = asyncio.ensure_future(taken.wait_for_the_store())
        assert await one.heard.get() is False
        assert not waiting.done()
        one.side.release()
        await waiting
        taken.close()


async def test_one_that_fails_before_it_serves_takes_nothing_over(tmp_path: Path) -> None:
    async with old(tmp_path) as one:
        for _ in range(3):
            failed = await asyncio.to_thread(take_over, tmp_path)
            assert failed is not None
            failed.close()
        taken = await asyncio.to_thread(take_over, tmp_path)
        assert taken is not None
        taken.listening()
        assert await one.heard.get() is True
        taken.close()


async def test_where_nobody_is_there_to_take_over_from_it_starts_as_usual(tmp_path: Path) -> None:
    assert take_over(tmp_path) is None
    bind_unix(tmp_path / PLACE, 0o600).close()
    assert take_over(tmp_path) is None, "one that was killed has left its socket"


async def test_another_users_gateway_is_taken_nothing_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hookgate.core.gateway import sockets as handover

    monkeypatch.setattr(handover, "peer_is_ours", lambda _: False)
    async with old(tmp_path) as one:
        with pytest.raises(StartError, match="is held by another user"):
            await asyncio.to_thread(take_over, tmp_path)
        await until(lambda: one.side._taker is not None)
        assert one.heard.empty()


async def test_a_gateway_that_cannot_offer_its_place_serves_all_the_same(tmp_path: Path) -> None:
    stop = asyncio.Event()
    (tmp_path / PLACE).mkdir()
    settings: dict[str, Any] = {"port": 0, "limits": {"drain_wait_seconds": 0}}
    urls: list[str] = []
    async with gateway(
        Scripted(Script(say("x"))), config=in_home(tmp_path, gateway=settings)
    ) as gate:
        serving_ = asyncio.ensure_future(
            serve(
                gate,
                signals=False,
                stop=stop,
                started=lambda one: urls.append(one.url),
                handed_over=AsyncExitStack(),
            )
        )
        while not urls:  # noqa: ASYNC110 - a server starts
            await asyncio.sleep(0.01)
        stop.set()
        assert await serving_ == 0
