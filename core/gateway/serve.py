"""Listening, and ending well: signals, the drain, the exit."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from structlog.typing import FilteringBoundLogger

from hookgate.core.domain.errors import HookgateError, StartError
from hookgate.core.gateway.access.auth import check_listener
from hookgate.core.gateway.app import build_app
from hookgate.core.gateway.proxy_protocol import ProxyHeaders
from hookgate.core.gateway.server import SERVER, Server
from hookgate.core.gateway.sockets import Handover, ServiceManager, cannot_listen, own_sockets
from hookgate.core.gateway.wire.rpc import notification

if TYPE_CHECKING:
    from hookgate.core.runtime import Runtime

KEEP_ALIVE_SECONDS = 75.0
"""Seconds that a connection may be idle between two requests, or before its first is whole."""

LINGER_SECONDS = 2.0
"""Seconds that what still comes of a refused body is passed over, so that its answer is read."""

LAST_WORDS = 1.0
"""Seconds that answers of requests get to go out once their turns are over."""

BACKLOG = 4096
"""Connections that may wait to be accepted."""

SETTLE_SECONDS = 30.0
"""Seconds at most that a stop takes beyond what it waits for balancers and for turns."""

LAST_CALL = 1.0
"""Seconds that connections get for their request which were made before it listened no more: a
proxy on a busy machine may take so long to send it."""

SHARED_CALL = 0.25
"""The same where another process holds the sockets, for whose start people may wait."""


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes event loops: uvloop's where it is installed, else None (asyncio's)."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class Listener:
    """A gateway that listens.

    Attributes:
        app: The application.
        host: The address that it is bound to; "" where it listens on Unix sockets alone.
        port: The port, the real one where the settings say 0; 0 where there is none.
        sockets: What it listens on.
        shared: Whether another process holds these sockets, too: a service manager, or who takes
            over. What waits in their queue is then served by that one.
    """

    def __init__(self, app: web.Application, runner: web.AppRunner, *, shared: bool) -> None:
        self.app = app
        self.host = ""
        self.port = 0
        self.sockets: list[socket.socket] = []
        self.shared = shared
        self._runner = runner
        self._servers: list[asyncio.Server] = []
        self._headers: ProxyHeaders | None = None

    async def open(self, sockets: Iterable[socket.socket]) -> None:
        """Listen on `sockets`, which are bound."""
        loop, server = asyncio.get_running_loop(), self._protocols()
        for one in sockets:
            # The event loop closes its own as soon as it is to accept nothing more.
            self.sockets.append(one.dup())
            if one.family == socket.AF_UNIX:
                made = await loop.create_unix_server(server, sock=one, backlog=BACKLOG)
            else:
                if not self.port:
                    self.host, self.port = one.getsockname()[:2]
                made = await loop.create_server(server, sock=one, backlog=BACKLOG)
            self._servers.append(made)

    def _protocols(self) -> Callable[[], asyncio.Protocol]:
        """Return what makes the protocol of each new connection."""
        server, served = self._runner.server, self.app[SERVER]
        assert server is not None, "it is there once the runner is set up"
        if not served.settings.proxy_protocol:
            return server
        if self._headers is None:
            gate, log = served.gate, served.host.log
            self._headers = ProxyHeaders(server, gate.is_proxy, gate.announced.__setitem__, log)
        return self._headers

    @property
    def key(self) -> str:
        """What the gateway proves itself by to clients that have it from the home folder."""
        return self.app[SERVER].key

    @property
    def url(self) -> str:
        """Where it is found; "" where it listens on Unix sockets alone."""
        if not self.port:
            return ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def stop_accepting(self) -> None:
        """Take no new connections; those that are there stay.

        Whoever has connected by now is accepted, so that a connection is either refused, which
        every balancer and client takes for "ask another one", or answered.
        """
        for server in self._servers:
            server.close()
        for one in self.sockets:
            with one:
                if not self.shared:
                    await self._accept_all(one)
        self._servers.clear()
        self.sockets.clear()

    def close(self) -> None:
        """End what has connected and said nothing yet."""
        if self._headers is not None:
            self._headers.close()

    async def _accept_all(self, one: socket.socket) -> None:
        loop, server = asyncio.get_running_loop(), self._protocols()
        one.setblocking(False)
        with suppress(OSError):
            while True:
                accepted, _ = one.accept()
                await loop.connect_accepted_socket(server, accepted)


@asynccontextmanager
async def listen(
    gateway: Runtime, sockets: Sequence[socket.socket] = (), *, shared: bool = False
) -> AsyncIterator[Listener]:
    """Listen for the length of an ``async with`` block.

    Args:
        gateway: The gateway, started.
        sockets: Sockets that others have bound, in place of those that the settings name.
        shared: See `Listener`.

    Raises:
        StartError: The settings would let strangers in, or the address cannot be used.
    """
    check_listener(gateway.settings, sockets)
    app = build_app(gateway)
    # Request lines may hold what somebody took for a secret's place: there is no access log.
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_server_logger(gateway.host.log),
        auto_decompress=False,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        lingering_time=LINGER_SECONDS,
        shutdown_timeout=LAST_WORDS,
    )
    await runner.setup()
    listener = Listener(app, runner, shared=shared)
    try:
        try:
            await listener.open(sockets or own_sockets(gateway.settings))
        except OSError as error:
            raise cannot_listen(gateway.settings.gateway, error) from error
        yield listener
    finally:
        await listener.stop_accepting()
        listener.close()
        await runner.cleanup()


async def serve(
    gateway: Runtime,
    *,
    started: Callable[[Listener], None] = lambda _: None,
    signals: bool = True,
    stop: asyncio.Event | None = None,
    sockets: Sequence[socket.socket] = (),
    shared: bool = False,
    manager: ServiceManager | None = None,
    handed_over: AsyncExitStack | None = None,
) -> int:
    """Listen until SIGTERM or SIGINT, then end well. SIGHUP reads content again.

    Ending well: after SIGTERM say by ``/ready`` that others are to be asked and by each answer
    that its connection ends, and go on for ``limits.drain_wait_seconds``, since balancers do not
    hear of it before they ask again. Then accept nothing more, answer who is connected already,
    tell clients, refuse new turns, let running ones finish or cancel them after
    ``limits.drain_seconds``, close. SIGINT, from a terminal, does not wait for balancers. A
    second signal cancels turns at once.

    Args:
        gateway: The gateway, started; its own closing is left to whoever started it.
        started: Called once it listens.
        signals: Whether to listen to signals; only the main thread can.
        stop: Ends it as SIGTERM does, for programs.
        sockets: See `listen`.
        shared: See `Listener`.
        manager: What is told how the gateway stands.
        handed_over: Where another process may take over (`Handover`), with what that one waits for:
            it is told once this stack is closed.

    Returns:
        The exit code, 0.

    Raises:
        StartError: It cannot listen.
    """
    told = _Told(stop or asyncio.Event())
    manager = manager or ServiceManager({})
    async with AsyncExitStack() as stack:
        listener = await stack.enter_async_context(listen(gateway, sockets, shared=shared))
        stack.callback(manager.close)
        if signals:
            stack.enter_context(_handle_signals(gateway, told, manager))
        gateway.host.log.info("listening", url=listener.url, sockets=_unix_paths(listener))
        if handed_over is not None:
            await _offer_handover(gateway, listener, told, stack, handed_over)
        started(listener)
        manager.ready(f"listening on {listener.url or ', '.join(_unix_paths(listener))}")
        gateway.host.say_started()
        await told.stop.wait()
        limits = listener.app[SERVER].settings.limits
        manager.stopping(limits.drain_wait_seconds + limits.drain_seconds + SETTLE_SECONDS)
        await _leave(gateway, listener, told)
        await drain(gateway, listener, told.hurry)
    return 0


def _unix_paths(listener: Listener) -> list[str]:
    unix = (one for one in listener.sockets if one.family == socket.AF_UNIX)
    return [os.fsdecode(one.getsockname()) for one in unix]


async def _offer_handover(
    gateway: Runtime,
    listener: Listener,
    told: _Told,
    stack: AsyncExitStack,
    handed_over: AsyncExitStack,
) -> None:
    """Let another process take over while `stack` is open; tell it when `handed_over` closes."""

    def taken(serves: bool) -> None:
        gateway.host.log.info("another process takes over", serves=serves)
        listener.shared, told.replaced = True, serves
        told.stop.set()

    handover = Handover(gateway.settings.home, lambda: listener.sockets, taken)
    try:
        handover.open()
    except (StartError, OSError) as error:
        gateway.host.log.warning("no other process can take over from this one", why=str(error))
        return
    stack.push_async_callback(handover.close)
    handed_over.callback(handover.release)


class _Told:
    """What a gateway that serves has been told.

    Attributes:
        stop: To stop.
        leave: Not to wait for balancers.
        hurry: Not to wait for turns.
        replaced: That another process serves in its place.
    """

    def __init__(self, stop: asyncio.Event) -> None:
        self.stop = stop
        self.leave = asyncio.Event()
        self.hurry = asyncio.Event()
        self.replaced = False

    def end(self) -> None:
        """Take SIGTERM."""
        if self.stop.is_set():
            self.leave.set()
            self.hurry.set()
        self.stop.set()

    def interrupt(self) -> None:
        """Take SIGINT: somebody sits there and waits."""
        self.end()
        self.leave.set()


@contextmanager
def _handle_signals(gateway: Runtime, told: _Told, manager: ServiceManager) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def reload() -> None:
        gateway.host.spawn(_reload(gateway, manager), name="reload")

    handlers = {signal.SIGTERM: told.end, signal.SIGINT: told.interrupt}
    if hasattr(signal, "SIGHUP"):
        handlers[signal.SIGHUP] = reload
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


async def _reload(gateway: Runtime, manager: ServiceManager) -> None:
    log, status = gateway.host.log, "reloaded"
    manager.reloading()
    try:
        log.info("reloaded", **await gateway.host.reload())
    except HookgateError as error:
        log.error("the reload failed; what was there stays", why=str(error))
        status = "the reload failed; what was there stays"
    finally:
        manager.ready(status)


class _ServerLog(logging.Handler):
    """Takes what aiohttp's server says to the gateway's log.

    Of a request that is malformed aiohttp shows the line at fault, which may hold a token that
    the gateway knows by its digest alone. So that is told without its text.
    """

    def __init__(self, log: FilteringBoundLogger) -> None:
        super().__init__()
        self._sink = log

    def emit(self, record: logging.LogRecord) -> None:
        """Take one record."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            self._sink.debug("malformed request", kind=type(error).__name__)
        elif record.levelno >= logging.WARNING:
            self._sink.warning("the HTTP server reports", what=record.getMessage(), exc_info=error)


def _server_logger(log: FilteringBoundLogger) -> logging.Logger:
    logger = logging.Logger("hookgate.http")
    logger.addHandler(_ServerLog(log))
    return logger


async def _leave(gateway: Runtime, listener: Listener, told: _Told) -> None:
    """Say by ``/ready`` that others are to be asked, serve on until they are, then listen no more.

    Args:
        gateway: The gateway.
        listener: Where it listens.
        told: Once it says to leave, it is over.
    """
    server = listener.app[SERVER]
    server.leaving = True
    seconds, leave = server.settings.limits.drain_wait_seconds, told.leave
    if told.replaced:
        # Who is connected already is served on; who comes is served by the other one.
        await listener.stop_accepting()
    if not seconds or leave.is_set():
        return
    gateway.host.log.info("no longer ready", seconds=seconds)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await leave.wait()
    await listener.stop_accepting()
    with suppress(TimeoutError):
        async with asyncio.timeout(SHARED_CALL if listener.shared else LAST_CALL):
            await leave.wait()


async def drain(gateway: Runtime, listener: Listener, hurry: asyncio.Event | None = None) -> None:
    """Accept nothing more; let what runs end within ``limits.drain_seconds``.

    Args:
        gateway: The gateway.
        listener: Where it listens.
        hurry: Once set, turns are cancelled at once.
    """
    server = listener.app[SERVER]
    seconds = server.settings.limits.drain_seconds
    server.stopping = True
    await listener.stop_accepting()
    turns = len(gateway.host.running())
    gateway.host.log.info("stopping", turns=turns, seconds=seconds)
    _tell(server, seconds)
    draining = asyncio.ensure_future(gateway.drain(seconds))
    hurrying = asyncio.ensure_future((hurry or asyncio.Event()).wait())
    await asyncio.wait([draining, hurrying], return_when=asyncio.FIRST_COMPLETED)
    if not draining.done():
        for turn in gateway.host.running():
            gateway.host.cancel(turn.id, "the gateway was told to stop at once")
    hurrying.cancel()
    await draining


def _tell(server: Server, seconds: float) -> None:
    frame = notification("stopping", {"seconds": seconds})
    for client in server.clients:
        client.tell(frame)
