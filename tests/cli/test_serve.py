from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine, Served
from tests.cli.terminal import Terminal

from hookgate.cli.found import running_gateway

LIMIT = 40.0


@contextmanager
def served(hookgate: CommandLine, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run ``hookgate serve`` in a process of its own until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hookgate", "serve", *words],
        env=hookgate.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + LIMIT
        pause = threading.Event()
        while (found := running_gateway(hookgate.home / ".hookgate")) is None:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            pause.wait(0.05)
        yield process, found.url
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_gateway_serves_until_sigterm_and_takes_its_note_away(hookgate: CommandLine) -> None:
    note = hookgate.home / ".hookgate" / "gateway.json"
    with served(hookgate, "--port", "0") as (process, url):
        assert stat.S_IMODE(note.stat().st_mode) == 0o600
        with urllib.request.urlopen(f"{url}/ready") as answer:
            assert json.load(answer) == {"ready": True}
        status = hookgate("status", "--json").json
        assert (status["running"], status["url"]) == (True, url)
        assert hookgate("chat", "what is 2*3?").out == "2*3 = 6.\n"
        assert "tools" in hookgate("reload").out
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 0
    assert not note.exists()
    assert out == ""
    lines = [json.loads(line) for line in err.splitlines()]
    assert "listening" in [line["event"] for line in lines]
    ran = hookgate("status")
    assert ran.code == 1
    assert "no gateway runs" in ran.out


def check_a_second_gateway_is_refused_in_one_line(hookgate: CommandLine, pid: int) -> None:
    ran = hookgate("--local", "tools", "list")
    assert ran.code == 1
    assert str(pid) in ran.err
    assert "Traceback" not in ran.err


def test_sighup_reads_the_settings_again_and_a_second_gateway_is_refused(
    hookgate: CommandLine,
) -> None:
    path = hookgate.config('[agents.one]\nmodel = "demo/demo"\n')
    with served(hookgate) as (process, _):
        assert hookgate("status", "--json").json["agents"] == ["one"]
        path.write_text('[agents.two]\nmodel = "demo/demo"\n[turn]\nmax_iterations = 3\n')
        reloaded = hookgate("reload", "--json").json
        assert reloaded["restart"] == ["turn"]
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


def test_a_note_of_a_process_that_is_gone_is_passed_over(hookgate: CommandLine) -> None:
    folder = hookgate.home / ".hookgate"
    folder.mkdir()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for text in (f'{{"pid": {gone.pid}, "url": "http://127.0.0.1:1"}}', "{", '{"pid": "x"}'):
        (folder / "gateway.json").write_text(text)
        assert running_gateway(folder) is None


def test_a_note_of_another_user_is_not_believed(
    hookgate: CommandLine, serve: Callable[[], Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve()
    folder = hookgate.home / ".hookgate"
    assert running_gateway(folder) is not None
    real = Path.stat

    def foreign(path: Path) -> os.stat_result:
        status = list(real(path))
        status[stat.ST_UID] = os.geteuid() + 1
        return os.stat_result(status)

    monkeypatch.setattr(Path, "stat", foreign)
    assert running_gateway(folder) is None


@pytest.mark.slow
def test_what_is_printed_on_a_terminal_names_the_address(hookgate: CommandLine) -> None:
    with Terminal(hookgate.environ, "serve") as terminal:
        came = terminal.expect("Ctrl-C stops it.")
        assert re.search(r"listens on http://127\.0\.0\.1:\d+", came)
        terminal.interrupt()
        assert terminal.exit_code() == 0
