from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.cli.conftest import CommandLine, Served
from tests.cli.terminal import Terminal


def test_one_message_is_answered_on_standard_output_alone(hookgate: CommandLine) -> None:
    ran = hookgate("chat", "what is 17*23?")
    assert ran.code == 0
    assert ran.out == "17*23 = 391.\n"
    assert "▸ calculate" in ran.err


def test_a_message_can_be_piped_in(hookgate: CommandLine) -> None:
    assert hookgate("chat", stdin="what is 2*3?").out == "2*3 = 6.\n"
    assert hookgate("chat", "-", stdin="what is 2*4?").out == "2*4 = 8.\n"
    assert hookgate("chat", "-", stdin="  \n").code == 2


def test_one_message_as_json(hookgate: CommandLine) -> None:
    said = hookgate("chat", "what is 2*3?", "--peer", "ada", "--json").json
    assert said["text"] == "2*3 = 6."
    assert said["session"] == "demo:cli:local:ada"
    assert said["ending"] == "done"


def test_a_failed_answer_ends_with_1(hookgate: CommandLine) -> None:
    ran = hookgate("chat", "/fail rejected")
    assert ran.code == 1
    assert "error: " in ran.err


def test_the_conversation_goes_on_in_the_running_gateway(
    hookgate: CommandLine, serve: Callable[[], Served]
) -> None:
    serve()
    assert "0 earlier turns" in hookgate("chat", "hello").out
    assert "1 earlier turns" in hookgate("chat", "hello").out.replace("turn,", "turns,")
    shown = hookgate("sessions", "show").out
    assert shown.count("hello") >= 2
    assert "demo:cli:local:main" in shown


@contextmanager
def talk(hookgate: CommandLine, *words: str, deaf: bool = False) -> Iterator[Terminal]:
    with Terminal(hookgate.environ, "chat", *words, deaf=deaf) as terminal:
        terminal.expect("> ")
        yield terminal


@pytest.mark.slow
def test_a_conversation_on_the_terminal(hookgate: CommandLine, serve: Callable[[], Served]) -> None:
    serve()
    with talk(hookgate) as terminal:
        terminal.type("what is 17*23?")
        assert "▸ calculate" in terminal.expect("17*23 = 391.")
        terminal.type("/help")
        terminal.expect("/quit")
        terminal.type("/status")
        terminal.expect("providers")
        terminal.type("/sttaus now")
        told = terminal.expect("//sttaus now")
        assert "/sttaus is no command" in told
        assert "/help, /peer, /history, /status, /cancel, /quit" in told
        terminal.type("/peer ada")
        terminal.expect("speaking as ada")
        terminal.type("/history")
        terminal.expect("nothing was said")
        terminal.type("/peer main")
        terminal.type("/history")
        terminal.expect("17*23 = 391.")
        terminal.expect("> ")
        terminal.interrupt_until("Ctrl-C again")
        # One that comes when Python is ending already ends it as the signal does by itself.
        assert terminal.exit_code(pressing=True) in (130, -signal.SIGINT)
    history = hookgate.home / ".hookgate" / "chat_history"
    assert "what is 17*23?" in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def check_cancelled(terminal: Terminal) -> None:
    terminal.type("//slow 0.2 " + "word " * 60 + "word")
    terminal.expect("word\n")  # what was typed
    terminal.expect("word word")
    terminal.interrupt()
    terminal.expect("cancelled")
    terminal.expect("> ")
    terminal.type("what is 2*3?")
    terminal.expect("2*3 = 6.")
    terminal.expect("> ")
    terminal.end()
    assert terminal.exit_code() == 0


@pytest.mark.slow
def test_ctrl_c_cancels_an_answer_of_this_process_and_the_conversation_goes_on(
    hookgate: CommandLine,
) -> None:
    with talk(hookgate) as terminal:
        check_cancelled(terminal)
    rows = hookgate("sessions", "show", "--json").json["messages"]
    assert "word word" in json.dumps(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    "deaf",
    [
        pytest.param(False, id="usual"),
        pytest.param(True, id="SIGINT ignored at first", marks=pytest.mark.slow),
    ],
)
def test_ctrl_c_cancels_an_answer_of_the_running_gateway(
    hookgate: CommandLine, serve: Callable[[], Served], deaf: bool
) -> None:
    served = serve()
    with talk(hookgate, deaf=deaf) as terminal:
        check_cancelled(terminal)
    # The turn that went on has said all, and may still be at its end.
    deadline = time.monotonic() + 20
    while served.gateway.host.running() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert served.gateway.host.running() == ()


def test_without_a_terminal_an_ignored_ctrl_c_stays_ignored() -> None:
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "from hookgate.cli import hear_interrupts; hear_interrupts(); "
        "print(signal.getsignal(signal.SIGINT).name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "SIG_IGN\n"


def asking(hookgate: CommandLine) -> str:
    notes = hookgate.home / "notes"
    notes.mkdir()
    (notes / "notes.txt").write_text("hello")
    hookgate.config(
        f"[plugin.tools]\nread_roots = [{json.dumps(str(notes))}]\n"
        'http_get = ["http://127.0.0.1:1/*"]\n'
    )
    arguments = json.dumps({"url": "http://127.0.0.1:1/?x=1"})
    lines = ['//call read_file {"path": "notes.txt"}', "/then", f"/call http_get {arguments}"]
    return "\\\n".join(lines)


@pytest.mark.slow
def test_a_question_is_asked_and_answered_on_the_terminal(
    hookgate: CommandLine, serve: Callable[[], Served]
) -> None:
    text = asking(hookgate)
    serve()
    with talk(hookgate) as terminal:
        answers = (
            ("n", "http_get: denied"),
            ("y", "http_get: allowed"),
            ("a", "http_get: allowed"),
        )
        for answer, becomes in answers:
            terminal.type(text)
            question = terminal.expect("allow it once? [y/N]")
            assert '"url": "http://127.0.0.1:1/?x=1"' in question
            terminal.type(answer)
            terminal.expect(becomes)
            terminal.expect("> ")
        terminal.type(text)
        assert "allow it once?" not in terminal.expect("http_get: granted")
        terminal.expect("> ")
        terminal.type("/quit")
        assert terminal.exit_code() == 0


DEAD = "[plugin.storage]\npath = 'a-folder'\n"


@pytest.mark.parametrize("words", [("chat", "what is 2*3?"), ("turn", "what is 2*3?"), ("chat",)])
def test_where_nothing_would_be_kept_nothing_is_said_unless_that_is_meant(
    hookgate: CommandLine, words: tuple[str, ...]
) -> None:
    hookgate.config(DEAD)
    (hookgate.home / ".hookgate" / "a-folder").mkdir()
    ran = hookgate(*words, stdin="what is 2*3?")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.count("Is a directory") == 1
    assert "nothing of this conversation would be kept" in ran.err
    assert "--ephemeral" in ran.err
    assert hookgate(*words, "--ephemeral", stdin="what is 2*3?").out == "2*3 = 6.\n"
    error = hookgate(*words, "--json", stdin="what is 2*3?").json["error"]
    assert (error["code"], "Is a directory" in error["message"]) == ("store_failed", True)


def test_a_gateway_that_runs_without_its_store_is_not_talked_to_either(
    hookgate: CommandLine, serve: Callable[[], Served]
) -> None:
    hookgate.config(DEAD)
    (hookgate.home / ".hookgate" / "a-folder").mkdir()
    serve()
    assert hookgate("chat", "what is 2*3?").code == 1
    assert hookgate("chat", "what is 2*3?", "--ephemeral").code == 0


def test_who_switches_the_store_off_means_it(hookgate: CommandLine) -> None:
    assert hookgate("-p", "no:storage", "chat", "what is 2*3?").out == "2*3 = 6.\n"


NO_KEY = "[agents.main]\nmodel = 'anthropic/claude-x'\nfallback = ['anthropic/claude-y']\n"
DOWN = (
    "[agents.main]\nmodel = 'own/x'\nfallback = ['own/y']\n"
    "[plugin.providers.own]\nkind = 'openai'\nbase_url = 'http://127.0.0.1:9/v1'\n"
)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [(NO_KEY, "no key for anthropic: set ANTHROPIC_API_KEY"), (DOWN, "own cannot be reached")],
)
def test_the_sentence_of_one_error_is_said_once(
    hookgate: CommandLine, monkeypatch: pytest.MonkeyPatch, settings: str, sentence: str
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    hookgate.config(settings)
    for words in (("chat", "hi"), ("turn", "hi")):
        ran = hookgate(*words)
        assert ran.code == 1
        assert ran.err.count(sentence) == 1
        assert "failed, as said above" in ran.err
        assert "error: no model answered, as said above" in ran.err
