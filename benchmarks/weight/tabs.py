"""Tabs of a browser with the dashboard open: sockets that follow what the page asks for."""

from __future__ import annotations

import base64
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

TABS = 10
TYPES = ("approval", "degraded", "done", "notice", "recovered", "reloaded")
"""What a tab follows: `tests/builtin_plugins/dashboard/test_files.py` holds that it is all that
the page's frame, its Home and its list of turns ask for."""
SECONDS = 30.0


@contextmanager
def opened(port: int, token: str, count: int) -> Iterator[None]:
    """Have so many tabs follow the gateway at this port for as long as the block lasts."""
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(_tab(port, token))
        yield


@contextmanager
def _tab(port: int, token: str) -> Iterator[None]:
    with socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
        head = (
            f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n"
            f"Authorization: Bearer {token}\r\n\r\n"
        )
        connection.sendall(head.encode())
        call = {"jsonrpc": "2.0", "id": "p1", "method": "events.subscribe"}
        connection.sendall(_frame(json.dumps({**call, "params": {"types": TYPES}}).encode()))
        told = b""
        while b'"id":"p1","result"' not in told:
            told += connection.recv(65_536)
            if b'"error"' in told:
                raise SystemExit(f"a tab may not follow the gateway: {told!r}")
        reader = threading.Thread(target=_read, args=(connection,), daemon=True)
        reader.start()
        yield
        connection.shutdown(socket.SHUT_RDWR)
        reader.join(SECONDS)


def _frame(text: bytes) -> bytes:
    """Return a text frame of a client, whose mask is all zeros (RFC 6455, section 5.2)."""
    return b"\x81\xfe" + len(text).to_bytes(2, "big") + bytes(4) + text


def _read(connection: socket.socket) -> None:
    try:
        while connection.recv(65_536):
            pass
    except OSError:
        return
