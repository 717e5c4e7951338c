"""Listening, and ending well: signals, the drain, the exit."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
from contextlib import ExitStack, asynccontextmanager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from hookgate.core.domain.errors import HookgateError, StartError
from hookgate.core.gateway.access.auth import check_listener
from hookgate.core.gateway.app import build_app
from hookgate.core.gateway.server import SERVER
from hookgate.core.gateway.wire.rpc import notification

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

    from structlog.typing import FilteringBoundLogger

    from hookgate.core.gateway.server import Server
    from hookgate.core.runtime import Runtime
    from hookgate.core.settings.schema import GatewaySettings

KEEP_ALIVE_SECONDS = 75.0
"""Seconds that a connection may be idle between two requests, or before its first is whole."""

LINGER_SECONDS = 2.0
"""Seconds that what still comes of a refused body is passed over, so that its answer is read."""

LAST_WORDS = 1.0
"""Seconds that answers of requests get to go out once their turns are over."""

BACKLOG = 4096
"""Connections that may wait to be accepted."""

LAST_CALL = 0.25
"""Seconds that connections get for their request which were made before it listened no more."""


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
        host: The address that it is bound to.
        port: The port, the real one where the settings say 0.
    """

    def __init__(self, app: web.Application, runner: web.AppRunner, host: str) -> None:
        self.app = app
        self.host = host
        self.port = 0
        self._runner = runner
        self._sockets: list[socket.socket] = []

    async def open(self, sockets: Iterable[socket.socket]) -> None:
        """Listen on `sockets`, which are bound."""
        for one in sockets:
            # The event loop closes its own as soon as it is to accept nothing more.
            self._sockets.append(one.dup())
            self.port = self.port or one.getsockname()[1]
            await web.SockSite(self._runner, one, backlog=BACKLOG).start()

    @property
    def key(self) -> str:
        """What the gateway proves itself by to clients that have it from the home folder."""
        return self.app[SERVER].key

    @property
    def url(self) -> str:
        """Where it is found."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def stop_accepting(self) -> None:
        """Take no new connections; those that are there stay.

        Whoever has connected by now is accepted, so that a connection is either refused, which
        every balancer and client takes for "ask another one", or answered.
        """
        for site in self._runner.sites:
            await site.stop()
        for one in self._sockets:
            with one:
                await self._accept_all(one)
        self._sockets.clear()

    async def _accept_all(self, one: socket.socket) -> None:
        loop, server = asyncio.get_running_loop(), self._runner.server
        assert server is not None, "it is there while it listens"
        one.setblocking(False)
        with suppress(OSError):
            while True:
                accepted, _ = one.accept()
                await loop.connect_accepted_socket(server, accepted)


def check_port(settings: GatewaySettings) -> None:
    """Refuse a port on which something listens, before anything is loaded in vain.

    It is free again when this returns: who takes it meanwhile is met when the gateway listens.

    Raises:
        StartError: It is taken, or this user may not listen on it.
    """
    if not settings.port:
        return
    try:
        for one in bind(settings):
            one.close()
    except OSError as error:
        # Of an address that this machine lacks, listening itself says more.
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise _cannot_listen(settings, error) from error


def bind(settings: GatewaySettings) -> Sequence[socket.socket]:
    """Return sockets for all addresses of the settings' host, bound to one port.

    Raises:
        OSError: An address cannot be used; none stays bound.
    """
    found = socket.getaddrinfo(
        settings.host or None, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    with ExitStack() as stack:
        bound: list[socket.socket] = []
        # Some resolvers name an address twice.
        for family, kind, protocol, _, place in dict.fromkeys(found):
            one = stack.enter_context(socket.socket(family, kind, protocol))
            if os.name == "posix":
                # A port that was just left is free.
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            # Where any port will do, all addresses get the one that the first has got.
            port = bound[0].getsockname()[1] if bound else place[1]
            one.bind((place[0], port, *place[2:]))
            bound.append(one)
        stack.pop_all()
    return bound


def _cannot_listen(settings: GatewaySettings, error: OSError) -> StartError:
    return StartError(
        f"cannot listen on {settings.host}:{settings.port}: "
        f"{os.strerror(error.errno) if error.errno else error}; "
        "set `gateway.host` and `gateway.port`, or stop what listens there"
    )


@asynccontextmanager
async def listen(gateway: Runtime) -> AsyncIterator[Listener]:
    """Listen for the length of an ``async with`` block.

    Args:
        gateway: The gateway, started.

    Raises:
        StartError: The settings would let strangers in, or the address cannot be used.
    """
    settings = gateway.settings.gateway
    check_listener(gateway.settings)
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
    listener = Listener(app, runner, settings.host)
    try:
        try:
            await listener.open(bind(settings))
        except OSError as error:
            raise _cannot_listen(settings, error) from error
        yield listener
    finally:
        await listener.stop_accepting()
        await runner.cleanup()


async def serve(
    gateway: Runtime,
    *,
    started: Callable[[Listener], None] = lambda _: None,
    signals: bool = True,
    stop: asyncio.Event | None = None,
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

    Returns:
        The exit code, 0.

    Raises:
        StartError: It cannot listen.
    """
    told = _Told(stop or asyncio.Event())
    async with listen(gateway) as listener:
        with _handle_signals(gateway, told) if signals else nullcontext():
            gateway.host.log.info("listening", url=listener.url)
            started(listener)
            await told.stop.wait()
            await _leave(gateway, listener, told.leave)
            await drain(gateway, listener, told.hurry)
    return 0


class _Told:
    """What a gateway that serves has been told.

    Attributes:
        stop: To stop.
        leave: Not to wait for balancers.
        hurry: Not to wait for turns.
    """

    def __init__(self, stop: asyncio.Event) -> None:
        self.stop = stop
        self.leave = asyncio.Event()
        self.hurry = asyncio.Event()

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
def _handle_signals(gateway: Runtime, told: _Told) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def reload() -> None:
        gateway.host.spawn(_reload(gateway), name="reload")

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


async def _reload(gateway: Runtime) -> None:
    log = gateway.host.log
    try:
        log.info("reloaded", **await gateway.host.reload())
    except HookgateError as error:
        log.error("the reload failed; what was there stays", why=str(error))


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


async def _leave(gateway: Runtime, listener: Listener, leave: asyncio.Event) -> None:
    """Say by ``/ready`` that others are to be asked, serve on until they are, then listen no more.

    Args:
        gateway: The gateway.
        listener: Where it listens.
        leave: Once set, it is over.
    """
    server = listener.app[SERVER]
    server.leaving = True
    seconds = server.settings.limits.drain_wait_seconds
    if not seconds or leave.is_set():
        return
    gateway.host.log.info("no longer ready", seconds=seconds)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await leave.wait()
    await listener.stop_accepting()
    with suppress(TimeoutError):
        async with asyncio.timeout(LAST_CALL):
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
