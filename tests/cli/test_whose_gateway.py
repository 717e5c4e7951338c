"""Before a byte of a token or a message leaves, what listens proves to be the home's gateway."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine, Served
from tests.cli.test_client import guarded
from tests.core.gateway.test_peer import NOBODY, as_root, user

from hookgate.cli import state
from hookgate.cli.client.note import NOTE, NoteError, RunningGateway, running_gateway, write_note
from hookgate.core.gateway.access.peer import new_key, prove

TOKEN = "hgt_" + "5ecret" * 8
WORDS = "the launch code is tulip-seven"


@dataclass
class Fake:
    """A listener that is no gateway of this home, and what it was told."""

    port: int
    heard: bytearray = field(default_factory=bytearray)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def check_nothing_was_told(self) -> None:
        """See that neither the token nor a word of the message came, in any packet."""
        for secret in (TOKEN, "5ecret", "Bearer", "launch", "tulip"):
            assert secret.encode() not in self.heard


@contextmanager
def fake(
    answer: Callable[[socket.socket, Fake], None], *, uid: int | None = None
) -> Iterator[Fake]:
    """Listen, keep every byte that comes, and do `answer` with each connection."""
    threads: list[threading.Thread] = []
    with user(os.geteuid() if uid is None else uid):
        server = socket.create_server(("127.0.0.1", 0))
    made = Fake(server.getsockname()[1])

    def serve(peer: socket.socket) -> None:
        with peer, suppress(OSError):
            peer.settimeout(120)
            answer(peer, made)
            while data := peer.recv(65_536):
                made.heard += data

    def work() -> None:
        with suppress(OSError), user(os.geteuid() if uid is None else uid):
            while True:
                peer, _ = server.accept()
                threads.append(threading.Thread(target=serve, args=(peer,)))
                threads[-1].start()

    accepting = threading.Thread(target=work)
    accepting.start()
    try:
        yield made
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        accepting.join()
        for thread in threads:
            thread.join()


def upgrade(
    peer: socket.socket, made: Fake, prove: Callable[[str], str] = lambda _: "0" * 64
) -> None:
    """Answer as a gateway that wants a token; the proof is what `prove` makes of the nonce."""
    request = peer.recv(65_536)
    made.heard += request
    nonce = request.partition(b"Hookgate-Nonce: ")[2].partition(b"\r\n")[0].decode()
    key = request.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r\n")[0]
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    hello = json.dumps({"jsonrpc": "2.0", "method": "hello", "params": {"degraded": {}}}).encode()
    peer.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accept + b"\r\n"
        b"Hookgate-Proof: " + prove(nonce).encode() + b"\r\nWWW-Authenticate: Bearer\r\n\r\n"
        b"\x81" + bytes([126]) + len(hello).to_bytes(2, "big") + hello
    )


def reply(answer: bytes, peer: socket.socket, made: Fake) -> None:
    """Answer anybody so, and close."""
    made.heard += peer.recv(65_536)
    peer.sendall(answer)
    peer.shutdown(socket.SHUT_WR)


def test_a_listener_on_the_configured_port_hears_nothing(hookgate: CommandLine) -> None:
    with fake(upgrade) as other:
        environ = {"HOOKGATE_GATEWAY__PORT": str(other.port), "HOOKGATE_TOKEN": TOKEN}
        assert hookgate("chat", "what is 2*3?", **environ).out == "2*3 = 6.\n"
        assert hookgate("status", **environ).code == 1
        assert "no gateway runs" in hookgate("reload", **environ).err
        assert hookgate("plugins", "trace", **environ).code == 1
    assert other.heard == b""


def leave(hookgate: CommandLine, running: RunningGateway) -> Path:
    """Leave a note; return its path."""
    home = hookgate.home / ".hookgate"
    write_note(home, running)
    return home / NOTE


def proving(key: str, peer: socket.socket, made: Fake) -> None:
    """Answer as the gateway with this key does."""
    upgrade(peer, made, lambda nonce: prove(key, nonce, peer.getsockname()) or "")


ANSWERS: dict[str, Callable[[socket.socket, Fake], None]] = {
    "a gateway without the key": upgrade,
    "a gateway with another key": partial(proving, new_key()),
    "a web server": partial(reply, b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"),
    "a server that wants to know who asks": partial(
        reply, b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n"
    ),
    "something else": partial(reply, b"SSH-2.0-OpenSSH_9.6\r\n"),
    "nothing": partial(reply, b""),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_whatever_took_the_port_of_a_killed_gateway_hears_no_secret(
    hookgate: CommandLine, what: str
) -> None:
    with fake(ANSWERS[what]) as other:
        # Its process id was given away again, too: this test's is alive.
        leave(hookgate, RunningGateway(os.getpid(), other.url, new_key()))
        ran = hookgate("turn", WORDS, "--json", HOOKGATE_TOKEN=TOKEN)
    assert ran.json["ending"] == "done"
    assert f"127.0.0.1:{other.port}" in ran.err
    assert str(os.getpid()) in ran.err
    assert b"GET /ws" in other.heard
    other.check_nothing_was_told()


def test_a_relay_at_another_address_hears_no_secret(
    hookgate: CommandLine, serve: Callable[[], Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "HELD_SECONDS", 0.2)
    token = guarded(hookgate)
    served = serve()
    home = hookgate.home / ".hookgate"
    real = running_gateway(home)
    assert real is not None
    port = int(served.url.rpartition(":")[2])

    def relay(peer: socket.socket, made: Fake) -> None:
        with closing(socket.create_connection(("127.0.0.1", port))) as behind:
            behind.settimeout(120)
            request = peer.recv(65_536)
            made.heard += request
            # The gateway looks at the Host header: whoever relays rights that.
            behind.sendall(request.replace(str(made.port).encode(), str(port).encode()))
            answer = behind.recv(65_536)
            assert b"101 Switching" in answer
            assert b"Hookgate-Proof" in answer
            peer.sendall(answer)
            while data := peer.recv(65_536):
                made.heard += data

    with fake(relay) as other:
        write_note(home, RunningGateway(real.pid, other.url, real.key))
        ran = hookgate("chat", WORDS, HOOKGATE_TOKEN=token)
        write_note(home, real)
    assert ran.code == 1
    assert "does not prove" in ran.err
    assert b"GET /ws" in other.heard
    assert token.encode() not in other.heard
    other.check_nothing_was_told()
    assert hookgate("call", "ping", HOOKGATE_TOKEN=token).code == 0


@as_root
def test_another_users_process_hears_no_secret_even_if_it_had_the_key(
    hookgate: CommandLine,
) -> None:
    key = new_key()
    with fake(partial(proving, key), uid=NOBODY) as other:
        leave(hookgate, RunningGateway(os.getpid(), other.url, key))
        ran = hookgate("turn", WORDS, "--json", HOOKGATE_TOKEN=TOKEN)
    assert ran.json["ending"] == "done"
    assert "no process of this user's" in ran.err
    other.check_nothing_was_told()


def spoil_by_mode(note: Path) -> None:
    note.chmod(0o644)


def spoil_by_folder(note: Path) -> None:
    note.parent.chmod(0o777)


def spoil_by_link(note: Path) -> None:
    real = note.with_name("real.json")
    note.rename(real)
    note.symlink_to(real)


def spoil_by_copy(note: Path) -> None:
    other = note.parent.with_name("copied")
    note.parent.rename(other)
    note.parent.mkdir(mode=0o700)
    shutil.copy2(other / NOTE, note)


def spoil_by_words(note: Path) -> None:
    note.write_text('{"pid": 1, "url": "http://127.0.0.1:7200"}')


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (spoil_by_mode, "chmod 600"),
        (spoil_by_folder, "chmod 700"),
        (spoil_by_link, "a link"),
        (spoil_by_copy, "copied"),
        (spoil_by_words, "restart the gateway"),
    ],
)
def test_a_note_that_may_be_somebody_elses_is_named_and_not_followed(
    hookgate: CommandLine, spoil: Callable[[Path], None], told: str
) -> None:
    key = new_key()
    with fake(partial(proving, key)) as other:
        spoil(leave(hookgate, RunningGateway(os.getpid(), other.url, key)))
        ran = hookgate("status", HOOKGATE_TOKEN=TOKEN)
    assert ran.code == 1
    assert told in ran.err
    assert other.heard == b""


@as_root
def test_a_note_of_another_user_is_not_followed(hookgate: CommandLine) -> None:
    note = leave(hookgate, RunningGateway(os.getpid(), "http://127.0.0.1:1", new_key()))
    os.chown(note, NOBODY, NOBODY)
    with pytest.raises(NoteError, match=f"user {NOBODY}"):
        running_gateway(note.parent)


def test_two_homes_with_one_port_keep_to_themselves(
    hookgate: CommandLine, serve: Callable[[], Served], tmp_path: Path
) -> None:
    served = serve()
    other = CommandLine(tmp_path / "other")
    other.home.mkdir(mode=0o700)
    port = served.url.rpartition(":")[2]
    ran = other("chat", "what is 2*3?", "--peer", "b", HOOKGATE_GATEWAY__PORT=port)
    assert ran.out == "2*3 = 6.\n"
    assert hookgate("sessions", "list", "--json").json["sessions"] == []
    assert len(other("sessions", "list", "--json").json["sessions"]) == 1


def test_a_gateway_that_starts_while_a_command_looks_is_found(
    hookgate: CommandLine, serve: Callable[[], Served]
) -> None:
    serve()
    home = hookgate.home / ".hookgate"
    running = running_gateway(home)
    assert running is not None
    (home / NOTE).unlink()
    later = threading.Timer(1.5, write_note, (home, running))
    later.start()
    ran = hookgate("chat", "what is 2*3?")
    later.join()
    assert ran.out == "2*3 = 6.\n"
    assert "held" not in ran.err


def test_where_the_holder_of_the_store_left_no_note_the_way_out_is_told(
    hookgate: CommandLine, serve: Callable[[], Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "HELD_SECONDS", 0.2)
    serve()
    (hookgate.home / ".hookgate" / NOTE).unlink()
    ran = hookgate("chat", WORDS)
    assert ran.code == 1
    for words in (str(os.getpid()), NOTE, "/health", "full disk"):
        assert words in ran.err
    assert ran.err.count("is held by") == 1
