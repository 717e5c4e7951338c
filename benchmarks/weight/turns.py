"""What turns cost, counted: calls, statements, commits, hand-overs between threads.

A gateway with all builtin plugins and without an embedder is asked over HTTP, a turn at a time,
and asks a mocked model over HTTP, which says the next piece of its answer once the gateway has
done with the one before. So each piece costs what it costs, and a busy machine changes nothing.
Nothing is counted before a first round, in which each conversation has begun.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.answers import LAST, answer, pieces
from benchmarks.weight.gateway import ROOT

CAN_COUNT = Path("/proc/self/task").exists()
"""Whether this system tells which threads sleep."""
COUNTS = ("statements", "commits", "read transactions", "hand-overs")
"""What is counted beside calls."""
TURN_SECONDS = 0.125
"""As much time passes with each turn."""
BEFORE_SECONDS = 5
"""As many pass before the first that is counted, so that timers of each run fall alike."""
AFTER_SECONDS = 2
"""As many seconds pass after the last turn, one at a time, for what is done behind them."""
PIECES = 20
"""An answer comes in so many pieces."""
TOKEN = "hg_" + "a" * 43
TOOL = "clock"
CALL = "What is the time in Oslo now, day {:05d}?"

LENGTHS = {
    8: "hi {:05d}",
    60: "Please tell me what the weather in Oslo is like, day {:05d}.",
    250: (
        "I am planning a trip with the family for week {:05d}. First look up trains to Bergen on "
        "Friday, then find a hotel near the harbour with breakfast. Write the costs into my table, "
        "and send a short summary of it all to Anna, who comes along with us."
    ),
}
"""Messages of so many characters, the number that makes each a new one included."""


@dataclass(frozen=True)
class Case:
    """A way to ask.

    Attributes:
        name: Names it in the table.
        text: What is said, with a place for a number.
        stream: Whether the answer is asked for as server-sent events.
        calls: Whether the model calls a tool first.
        peers: How many people take turns.
    """

    name: str
    text: str
    stream: bool = False
    calls: bool = False
    peers: int = 4


CASES = (
    *(Case(f"{length} characters", text) for length, text in LENGTHS.items()),
    Case("streamed", LENGTHS[8], stream=True),
    Case("with a tool call", CALL, calls=True),
)


@dataclass
class Counted:
    """What was counted of a case, for one turn.

    Attributes:
        calls: Python calls by room.
        behind: Those of them that were made once the answer had gone out.
        counts: Everything else.
        functions: Calls by room and function.
    """

    calls: Counter[str] = field(default_factory=Counter)
    behind: float = 0.0
    counts: dict[str, float] = field(default_factory=dict)
    functions: Counter[tuple[str, str]] = field(default_factory=Counter)


# -- quiet -----------------------------------------------------------------------------


def wait_for_quiet(pid: int, *, patience: float = 60.0) -> None:
    """Wait until no thread of a process runs, or waits for a processor or a disk.

    Raises:
        SystemExit: One did for all of `patience`.
    """
    until = time.monotonic() + patience
    quiet = 0
    while quiet < 2:
        quiet = quiet + 1 if _sleeps(pid) else 0
        if time.monotonic() > until:
            raise SystemExit("the gateway that is weighed does not come to rest")
        time.sleep(0.0003)


def _sleeps(pid: int) -> bool:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if (thread / "stat").read_text().rpartition(")")[2].split()[0] != "S":
                return False
    return True


# -- the model -------------------------------------------------------------------------


class Model(ThreadingHTTPServer):
    """A mocked model that answers as OpenAI's does.

    Attributes:
        pid: The process that is asked to come to rest between two pieces.
    """

    daemon_threads = True
    pid = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it is asked."""
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    server: Model

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = asked["messages"]
        told = str(next(each["content"] for each in reversed(said) if each["role"] == "user"))
        ran = said[-1]["role"] == "tool" and "Europe/Oslo" in str(said[-1]["content"])
        calls = CALL[:24] in told and not ran
        if calls and said[-1]["role"] == "tool":
            print(f"the tool said {said[-1]['content']}", file=sys.stderr)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        *events, last = called() if calls else spoken(told)
        for event in events:
            wait_for_quiet(self.server.pid)
            self.wfile.write(chunk(event))
        wait_for_quiet(self.server.pid)
        self.wfile.write(chunk(last) + chunk(b""))

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    data = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def end() -> bytes:
    used = {"prompt_tokens": 20, "completion_tokens": 60, "total_tokens": 80}
    data = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": []}
    return b"data: " + json.dumps({**data, "usage": used}).encode() + b"\n\ndata: [DONE]\n\n"


def spoken(told: str) -> Iterator[bytes]:
    for piece in pieces(answer(told), PIECES):
        yield event({"content": piece})
    yield event({}, "stop") + end()


def called() -> Iterator[bytes]:
    function = {"name": TOOL, "arguments": '{"timezone": "Europe/Oslo"}'}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    yield event({"tool_calls": [call]})
    yield event({}, "tool_calls") + end()


# -- the gateway -----------------------------------------------------------------------


class Weighed:
    """A gateway that runs in a process of its own, and counts."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process, self._port = process, port
        self._connection = HTTPConnection("127.0.0.1", port, timeout=120)
        self._number = 0

    def tell(self, command: str) -> Any:
        """Give it a command; return what it says."""
        given = self._process.stdin
        assert given is not None
        given.write(command + "\n")
        given.flush()
        return self.heard()

    def heard(self) -> Any:
        """Return the next that it says."""
        says = self._process.stdout
        assert says is not None
        return json.loads(says.readline())

    def rest(self) -> None:
        """Wait until it does nothing."""
        wait_for_quiet(self._process.pid)

    def ask(self, case: Case, turns: int) -> None:
        """Have it run so many turns.

        Raises:
            SystemExit: One went wrong.
        """
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        if case.stream:
            headers["Accept"] = "text/event-stream"
        for place in range(turns):
            self._number += 1
            peer = f"{case.name.replace(' ', '-')}-{place % case.peers}"
            body = json.dumps({"content": case.text.format(self._number), "peer": peer})
            self.tell("begin")
            self._connection.request("POST", "/v1/turns", body, headers)
            response = self._connection.getresponse()
            text = response.read().decode()
            if response.status != 200 or LAST not in text.replace('"}\n', ""):
                raise SystemExit(f"a turn went wrong: {response.status} {text[:600]}")
            self.rest()
            self._pass(TURN_SECONDS)

    def count(self, case: Case, turns: int) -> Counted:
        """Return what a turn of `case` costs, the mean of so many."""
        self.ask(case, case.peers)
        self._pass(*[1] * BEFORE_SECONDS)
        self.tell("count")
        self.ask(case, turns)
        self._pass(*[1] * AFTER_SECONDS)
        told = self.tell("told")
        found = Counted()
        for room, behind, function, count in told["calls"]:
            found.calls[room] += count / turns
            found.functions[room, function] += count / turns
            found.behind += behind * count / turns
        found.counts = {name: count / turns for name, count in told["counts"].items()}
        return found

    def _pass(self, *seconds: float) -> None:
        for each in seconds:
            self.tell(f"pass {each}")
            self.rest()


@contextlib.contextmanager
def weighed(model: Model, home: Path) -> Iterator[Weighed]:
    """Run a gateway with all builtin plugins and no embedder."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    token = home / "token"
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    settings = {
        "home": str(home),
        "gateway": {"port": port, "tokens": {"bench": {"file": str(token)}}},
        "agents": {"main": {"model": "mock/m"}},
        "plugins": {"entry_points": False},
        "log": {"level": "error"},
        "plugin": {
            "providers": {"mock": {"kind": "openai", "base_url": model.url}},
            "embedding": {"embedder": "none"},
        },
    }
    command = [sys.executable, "-m", "benchmarks.weight.gateway", json.dumps(settings)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            found = Weighed(process, port)
            if found.heard() != "ready":
                raise SystemExit("the gateway that is weighed did not start")
            model.pid = process.pid
            found.rest()
            found.tell("stop")
            yield found
        finally:
            process.terminate()


def weigh(cases: Sequence[Case] = CASES, turns: int = 8) -> dict[str, Counted]:
    """Return what a turn of each case costs."""
    model = Model()
    with tempfile.TemporaryDirectory() as home, weighed(model, Path(home)) as gateway:
        return {case.name: gateway.count(case, turns) for case in cases}
