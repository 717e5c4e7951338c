"""The sockets of a gateway, and its place: what a service manager hands it, and it to the next."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hookgate.core.domain.errors import StartError
from hookgate.core.hooks.tasks import stop

if TYPE_CHECKING:
    from hookgate.core.settings.schema import GatewaySettings, Settings

FIRST_INHERITED = 3
"""The first descriptor that systemd hands over (sd_listen_fds(3))."""

LONGEST = 100
"""Bytes of a path that is the address of a Unix socket as it is: 104 to 108, by the system."""

_PEER = struct.Struct("=iII")  # process, user, group: struct ucred of unix(7)


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
            raise cannot_listen(settings, error) from error


def cannot_listen(settings: GatewaySettings, error: OSError) -> StartError:
    """Return the error of an address that cannot be used."""
    return StartError(
        f"cannot listen on {settings.host}:{settings.port}: "
        f"{os.strerror(error.errno) if error.errno else error}; "
        "set `gateway.host` and `gateway.port`, or stop what listens there"
    )


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


def own_sockets(settings: Settings) -> Sequence[socket.socket]:
    """Return the sockets that the settings name, bound.

    Raises:
        StartError: One cannot be used; none stays bound.
    """
    gateway = settings.gateway
    try:
        bound = list(bind(gateway))
    except OSError as error:
        raise cannot_listen(gateway, error) from error
    if gateway.socket is not None:
        try:
            bound.append(bind_unix(settings.home / gateway.socket, int(gateway.socket_mode, 8)))
        except BaseException:
            for one in bound:
                one.close()
            raise
    return bound


# -- Unix sockets ----------------------------------------------------------------


def bind_unix(path: Path, mode: int) -> socket.socket:
    """Return a Unix socket bound to `path`, in the place of one on which nobody listens any more.

    Args:
        path: Where it is; its folder is there.
        mode: Who may connect: those who may write.

    Raises:
        StartError: Something else is there, somebody listens there, or it cannot be made.
    """
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _check_free(path)
        path.unlink(missing_ok=True)
        # Nobody but this user meets it before it has its mode.
        before = os.umask(0o177)
        try:
            with unix_address(path) as address:
                one.bind(address)
        finally:
            os.umask(before)
        path.chmod(mode)
    except OSError as error:
        one.close()
        why = os.strerror(error.errno) if error.errno else error
        raise StartError(
            f"cannot listen on the Unix socket {path}: {why}; set `gateway.socket` to a path in a "
            "folder that is there and that this user may write to"
        ) from error
    except BaseException:
        one.close()
        raise
    return one


def _check_free(path: Path) -> None:
    """Refuse a path on which somebody listens, or where something else is.

    Raises:
        StartError: So it is.
    """
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise StartError(
            f"{path} is there, and is no socket: move it away, or set `gateway.socket`"
        )
    with (
        closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe,
        unix_address(path) as address,
        suppress(ConnectionRefusedError, FileNotFoundError),
    ):
        probe.settimeout(1.0)
        probe.connect(address)
        raise StartError(
            f"something listens on the Unix socket {path}: stop it, or set `gateway.socket`"
        )


@contextmanager
def unix_address(path: Path) -> Iterator[str]:
    """Give a path as the address of a Unix socket, also one that is longer than those may be."""
    if len(os.fsencode(path)) < LONGEST or not hasattr(os, "O_PATH"):
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def peer_is_ours(connection: socket.socket) -> bool:
    """Whether the other end of a Unix socket is this process's user or root.

    Where the system cannot be asked, the mode of the socket alone says who may connect.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return _PEER.unpack(told)[1] in (0, os.geteuid())


# -- sockets of a service manager --------------------------------------------------


def inherited_sockets(environ: MutableMapping[str, str]) -> Sequence[socket.socket]:
    """Return the sockets that a service manager has opened for this process (sd_listen_fds(3)).

    What names them is taken out of `environ`, so that no program that is started here takes them
    for its own.

    Raises:
        StartError: One of them is none that connections come to.
    """
    number = environ.pop("LISTEN_FDS", "")
    process = environ.pop("LISTEN_PID", "")
    environ.pop("LISTEN_FDNAMES", None)
    if process != str(os.getpid()) or not number.isdigit():
        return []
    return [
        taken_socket(descriptor)
        for descriptor in range(FIRST_INHERITED, FIRST_INHERITED + int(number))
    ]


def taken_socket(descriptor: int) -> socket.socket:
    """Return the listening socket that a descriptor stands for.

    Raises:
        StartError: It stands for something else.
    """
    try:
        one = socket.socket(fileno=descriptor)
        if one.type != socket.SOCK_STREAM or not _listens(one):
            one.close()
            raise OSError(errno.EINVAL, "it is no stream that connections come to")
    except OSError as error:
        raise StartError(
            f"the descriptor {descriptor} that was handed to this process cannot be listened on: "
            f"{error.strerror}; a unit of systemd needs `ListenStream=` and `Accept=no`"
        ) from error
    one.set_inheritable(False)
    return one


def _listens(one: socket.socket) -> bool:
    # macOS cannot be asked.
    return not hasattr(socket, "SO_ACCEPTCONN") or bool(
        one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    )


# -- A gateway's place, handed to the process that takes over from it ------------

# The old one listens on a socket in the home folder. The new one comes when it has loaded what it
# can, and gets the listening sockets themselves: both hold the same queue of connections, so none
# is refused or lost between them, whichever of the two accepts it. Then the new one says how far
# it got:
#
# - ``listening``: it serves. The old one accepts nothing more, and ends.
# - ``waiting``: the old one holds the store. It ends first, and who comes meanwhile waits in line.
#
# The old one closes the connection once it has given back all that it held.

PLACE = "takeover.sock"
"""The socket in the home folder."""

LISTENING = b"listening\n"
WAITING = b"waiting\n"

SOCKETS = 16
"""Sockets at most that are handed over."""

ANSWER_SECONDS = 10.0
"""Seconds that the old gateway has to hand over its sockets."""


class Handover:
    """The old gateway's side.

    Args:
        home: The home folder.
        sockets: Returns the sockets that it listens on.
        taken: Called once somebody takes over, with whether they serve already.
    """

    def __init__(
        self,
        home: Path,
        sockets: Callable[[], Sequence[socket.socket]],
        taken: Callable[[bool], None],
    ) -> None:
        self._path = home / PLACE
        self._sockets = sockets
        self._taken = taken
        self._listener: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None
        self._taker: socket.socket | None = None

    def open(self) -> None:
        """Wait for who takes over.

        Raises:
            StartError: The socket cannot be made.
        """
        # The one of a gateway that is being taken over is there, and is replaced.
        with suppress(FileNotFoundError):
            self._path.unlink()
        self._listener = bind_unix(self._path, 0o600)
        self._listener.listen(1)
        self._listener.setblocking(False)
        self._inode = self._path.stat().st_ino
        self._task = asyncio.create_task(self._wait(self._listener), name="take over")

    async def close(self) -> None:
        """Wait for nobody any more; whoever takes over is told by `release`."""
        await stop(self._task)
        if self._listener is not None:
            self._listener.close()
            with suppress(OSError):
                if self._path.stat().st_ino == self._inode:
                    self._path.unlink()

    def release(self) -> None:
        """Tell who takes over that all is given back."""
        if self._taker is not None:
            self._taker.close()

    async def _wait(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            taker, _ = await loop.sock_accept(listener)
            taker.setblocking(False)
            # From here on: one that still loads when this gateway ends hears of that, too.
            self._taker = taker
            with suppress(OSError):
                if peer_is_ours(taker) and (said := await self._hand(taker)):
                    self._taken(said == LISTENING)
                    return
            # It has gone, or is nobody to whom anything is handed: all goes on as before.
            self.release()

    async def _hand(self, taker: socket.socket) -> bytes:
        """Hand the sockets over; return what was said to that, b"" where nothing of use was."""
        descriptors = [one.fileno() for one in self._sockets()]
        socket.send_fds(taker, [b"sockets\n"], descriptors)
        said = await asyncio.get_running_loop().sock_recv(taker, 64)
        return said if said in (LISTENING, WAITING) else b""


class Taken:
    """The new gateway's side: what was taken from the old one.

    Attributes:
        sockets: The sockets to listen on.
    """

    def __init__(self, connection: socket.socket, sockets: Sequence[socket.socket]) -> None:
        self.sockets = sockets
        self._connection = connection

    async def wait_for_the_store(self) -> None:
        """Have the old gateway end, and return when it has given back what it held."""
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            await loop.sock_sendall(self._connection, WAITING)
            await loop.sock_recv(self._connection, 1)

    def listening(self) -> None:
        """Tell the old gateway that this one serves; one that has ended hears nothing of it."""
        with suppress(OSError):
            self._connection.send(LISTENING)

    def close(self) -> None:
        """Close what connects the two, and the sockets, which by then nobody listens on here."""
        self._connection.close()
        for one in self.sockets:
            one.close()


def take_over(home: Path) -> Taken | None:
    """Return what the gateway of a home folder hands over; None where none is there to do so.

    Raises:
        StartError: It does not answer, or is another user's.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(ANSWER_SECONDS)
    try:
        with unix_address(home / PLACE) as address:
            connection.connect(address)
        if not peer_is_ours(connection):
            raise StartError(f"{home / PLACE} is held by another user: nothing is taken from it")
        said, descriptors, _, _ = socket.recv_fds(connection, 64, SOCKETS)
        if not said or not descriptors:
            raise StartError(
                f"the gateway of {home} hands over no sockets: it may be ending; try again"
            )
        sockets = [taken_socket(descriptor) for descriptor in descriptors]
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except OSError as error:
        connection.close()
        raise StartError(f"the gateway of {home} hands nothing over: {error}") from error
    except BaseException:
        connection.close()
        raise
    connection.setblocking(False)
    return Taken(connection, sockets)


# -- manager ---------------------------------------------------------------------

# What the service manager is told of how the gateway stands: systemd's sd_notify(3).


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
