"""The sockets that a gateway listens on: its own, or those that a service manager hands it."""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hookgate.core.domain.errors import StartError

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
