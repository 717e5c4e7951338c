from __future__ import annotations

import gc
import json
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine, Served
from tests.cli.terminal import Terminal
from tests.cli.test_look import wait_until

from hookgate.cli import state
from hookgate.cli.client.note import NOTE, RunningGateway, running_gateway, write_note
from hookgate.cli.state import settle_memory

LIMIT = 40.0


@contextmanager
def served(
    hookgate: CommandLine,
    *words: str,
    found: Callable[[], str] | None = None,
    environ: dict[str, str] | None = None,
    **more: Any,
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run ``hookgate serve`` in a process of its own until the block ends.

    `found` says where it is, or "" while it is not there yet; else its note is looked for.
    """

    def noted() -> str:
        running = running_gateway(hookgate.home / ".hookgate")
        return running.url if running is not None else ""

    process = subprocess.Popen(
        [sys.executable, "-m", "hookgate", "serve", *words],
        env=environ or {"HOOKGATE_GATEWAY__LIMITS__DRAIN_WAIT_SECONDS": "0", **hookgate.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )
    try:
        wait_until(lambda: process.poll() is not None or (found or noted)())
        assert process.poll() is None, process.communicate()[1]
        yield process, (found or noted)()
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def listens(port: int) -> str:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return ""
    return f"http://127.0.0.1:{port}"


def health(port: int) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as answer:
        return json.load(answer)


@pytest.mark.slow
def test_a_gateway_serves_until_sigterm_and_takes_its_note_away(hookgate: CommandLine) -> None:
    note = hookgate.home / ".hookgate" / "gateway.json"
    with served(hookgate, "--port", "0") as (process, url):
        assert stat.S_IMODE(note.stat().st_mode) == 0o600
        with urllib.request.urlopen(f"{url}/ready") as answer:
            assert json.load(answer) == {"ready": True}
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 0
    assert not note.exists()
    assert out == ""
    lines = [json.loads(line) for line in err.splitlines()]
    assert "listening" in [line["event"] for line in lines]


@pytest.mark.slow
def test_commands_find_a_gateway_that_serves_and_say_when_it_is_gone(hookgate: CommandLine) -> None:
    with served(hookgate, "--port", "0") as (process, url):
        status = hookgate("status", "--json").json
        assert (status["running"], status["url"]) == (True, url)
        assert hookgate("chat", "what is 2*3?").out == "2*3 = 6.\n"
        assert "tools" in hookgate("reload").out
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT)
        assert process.returncode == 0
    ran = hookgate("status")
    assert ran.code == 1
    assert "no gateway runs" in ran.out


def check_a_second_gateway_is_refused_in_one_line(hookgate: CommandLine, pid: int) -> None:
    ran = hookgate("--local", "tools", "list")
    assert ran.code == 1
    assert str(pid) in ran.err
    assert "Traceback" not in ran.err
    again = hookgate("serve", "--port", "0")
    assert again.code == 1
    assert again.err.count("is held by") == 1, "it is told once"
    assert "another `home`)" in again.err, "and whole"


@pytest.mark.slow
def test_sighup_reads_the_settings_again_and_a_second_gateway_is_refused(
    hookgate: CommandLine,
) -> None:
    path = hookgate.config('[agents.one]\nmodel = "demo/demo"\n')
    with served(hookgate) as (process, _):
        assert hookgate("status", "--json").json["agents"] == ["one"]
        path.write_text('[agents.two]\nmodel = "demo/demo"\n[turn]\nlane_queue = 3\n')
        reloaded = hookgate("reload", "--json").json
        assert reloaded["restart"] == ["turn.lane_queue"]
        assert hookgate("status", "--json").json["agents"] == ["two"]
        check_a_second_gateway_is_refused_in_one_line(hookgate, process.pid)
        path.write_text("[agents.three]\nmodl = 1\n")
        process.send_signal(signal.SIGHUP)
        ran = hookgate("call", "ping")
        assert ran.code == 2, "the command line reads the same file"
        assert process.poll() is None
        path.write_text('[agents.two]\nmodel = "demo/demo"\n')
        assert hookgate("status", "--json").json["agents"] == ["two"]


def test_a_gateway_that_strangers_could_reach_needs_a_token(hookgate: CommandLine) -> None:
    ran = hookgate("serve", "--host", "0.0.0.0")
    assert ran.code == 1
    assert "hookgate token new" in ran.err
    assert not (hookgate.home / ".hookgate" / "hookgate.db").exists()


def test_a_port_that_is_taken_is_said_to_be(
    hookgate: CommandLine, serve: Callable[[], Served], tmp_path: Path
) -> None:
    port = serve().url.rpartition(":")[2]
    other = CommandLine(tmp_path / "other")
    other.home.mkdir()
    ran = other("serve", "--port", port)
    assert ran.code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in ran.err
    assert not (other.home / ".hookgate").exists(), "nothing was opened in vain"


def test_a_note_of_a_process_that_is_gone_is_passed_over(hookgate: CommandLine) -> None:
    folder = hookgate.home / ".hookgate"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    write_note(folder, RunningGateway(gone.pid, "http://127.0.0.1:1", "0" * 64))
    assert running_gateway(folder) is None


@pytest.mark.slow
def test_a_gateway_that_cannot_leave_its_note_starts_says_so_and_tries_again(
    hookgate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "HELD_SECONDS", 0.2)
    note = hookgate.home / ".hookgate" / NOTE
    note.mkdir(parents=True, mode=0o700)
    port = free_port()
    with served(hookgate, "--port", str(port), found=lambda: listens(port)) as (process, _):
        assert health(port)["degraded"] == ["command line"]
        ran = hookgate("chat", "what is 2*3?")
        assert ran.code == 1
        assert str(process.pid) in ran.err
        assert f"{note}: " in ran.err
        note.rmdir()
        wait_until(lambda: health(port)["status"] == "ok")
        assert hookgate("chat", "what is 2*3?").out == "2*3 = 6.\n"
        process.terminate()
        _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0
    lines = [json.loads(line) for line in err.splitlines()]
    told = [line for line in lines if line.get("part") == "command line"]
    assert [line["event"] for line in told] == ["degraded", "recovered"]
    assert "gateway.json cannot be written" in told[0]["why"]
    assert not note.exists()


@pytest.mark.slow
def test_a_restart_on_a_full_disk_starts_and_says_so(hookgate: CommandLine) -> None:
    assert hookgate("chat", "what is 2*3?").code == 0

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    port = free_port()
    with served(hookgate, "--port", str(port), found=lambda: listens(port), preexec_fn=full) as (
        process,
        _,
    ):
        assert health(port)["degraded"] == ["command line", "storage"]
        process.terminate()
        _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0
    assert "Traceback" not in err


@pytest.mark.slow
def test_what_is_printed_on_a_terminal_names_the_address(hookgate: CommandLine) -> None:
    with Terminal(hookgate.environ, "serve") as terminal:
        came = terminal.expect("Ctrl-C stops it.")
        assert re.search(r"listens on http://127\.0\.0\.1:\d+", came)
        terminal.interrupt()
        assert terminal.exit_code() == 0


def test_the_collector_rests_at_the_start_and_then_passes_over_what_stays() -> None:
    before, threshold = gc.get_freeze_count(), gc.get_threshold()
    gc.disable()
    gc.set_threshold(700)
    try:
        settle_memory()

        assert gc.isenabled()
        assert gc.get_freeze_count() > before
        assert gc.get_threshold()[0] > 700
    finally:
        gc.unfreeze()
        gc.set_threshold(*threshold)
        gc.enable()


def test_a_collector_that_works_is_left_alone() -> None:
    before = gc.get_freeze_count()

    settle_memory()

    assert gc.get_freeze_count() == before
