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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from benchmarks.turn import passed
from benchmarks.turn.answers import LAST, reply
from benchmarks.weight import tabs, year
from benchmarks.weight.gateway import ROOT
from benchmarks.weight.quiet import naps, wait_for_quiet

COUNTS = ("statements", "commits", "read transactions", "hand-overs")
"""What is counted beside calls."""
TURN_SECONDS = 0.125
"""As much time passes with each turn."""
MINUTES = 5
"""As many pass once all conversations have begun: what is done once a minute is done by then, and
what 1,500 calls leave that ended in one moment, 500 of which are settled at a time."""
BEFORE_SECONDS = 3
"""As many pass before the first turn that is counted, so that timers of each run fall alike."""
AFTER_SECONDS = 2
"""As many seconds pass after the last turn, one at a time, for what is done behind them."""
MANY = 100
"""So many conversations begin as fast as they can, and not one after the other at rest."""
TOKEN = "hg_" + "a" * 43
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
        tabs: How many tabs of browsers show the dashboard.
        guarded: Whether a coding agent asks, by its vendor's wire, with all of its tools.
    """

    name: str
    text: str
    stream: bool = False
    calls: bool = False
    peers: int = 4
    tabs: int = 0
    guarded: bool = False

    def asked(self, number: int, place: int) -> tuple[str, bytes, Mapping[str, str]]:
        """Return the path, the body and the headers of a request."""
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        peer = f"{self.name.replace(' ', '-')}-{place % self.peers}"
        if self.guarded:
            headers["X-Claude-Code-Session-Id"] = peer
            return "/v1/messages", passed.request(number, "vendor/big"), headers
        if self.stream:
            headers["Accept"] = "text/event-stream"
        said = {"content": self.text.format(number), "peer": peer}
        return "/v1/turns", json.dumps(said).encode(), headers

    @property
    def last(self) -> str:
        """What ends a whole answer."""
        return "message_stop" if self.guarded else LAST


CASES = (
    *(Case(f"{length} characters", text) for length, text in LENGTHS.items()),
    Case("streamed", LENGTHS[8], stream=True),
    Case("with a tool call", CALL, calls=True),
    Case("ten tabs", LENGTHS[8], tabs=tabs.TABS),
    Case("guarded request", "", guarded=True),
)

GROWN = (
    Case("32 peers alive", LENGTHS[8], peers=32),
    Case("1,500 peers alive", LENGTHS[8], peers=1_500),
)
YEAR = Case("the ledger of a year", LENGTHS[8])


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


# -- the model -------------------------------------------------------------------------


class Model(ThreadingHTTPServer):
    """A mocked model that answers as OpenAI's and Anthropic's do.

    Attributes:
        pid: The process that asks it.
        paced: Whether that has to come to rest between two pieces.
    """

    daemon_threads = True
    pid = 0
    paced = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def say(self, file: BufferedIOBase, *pieces: bytes) -> None:
        """Write pieces of an answer, each once the one before has been done with."""
        for piece in pieces:
            before = naps(self.pid)
            file.write(piece)
            if self.paced:
                wait_for_quiet(self.pid, after=before)

    @property
    def url(self) -> str:
        """Where it is asked."""
        return f"http://127.0.0.1:{self.server_port}"


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    server: Model

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_messages = self.path == "/v1/messages"
        *events, last = passed.answer() if is_messages else reply(asked, CALL[:24])
        self.server.say(self.wfile, HEAD)
        self.server.say(self.wfile, *map(framed, events))
        self.wfile.write(framed(last) + framed(b""))

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def framed(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


# -- the gateway -----------------------------------------------------------------------


class Weighed:
    """A gateway that runs in a process of its own, and counts."""

    def __init__(self, process: subprocess.Popen[str], port: int, model: Model) -> None:
        self._process, self._model, self._port = process, model, port
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

    def ask(self, case: Case, turns: int, *, paced: bool = True) -> None:
        """Have it run so many turns.

        Args:
            case: How it is asked.
            turns: How many.
            paced: Whether it comes to rest after each piece that it is told, and each turn.

        Raises:
            SystemExit: One went wrong.
        """
        self._model.paced = paced
        for place in range(turns):
            self._number += 1
            self.tell("begin")
            self._connection.request("POST", *case.asked(self._number, place))
            response = self._connection.getresponse()
            text = response.read().decode()
            if response.status != 200 or case.last not in text.replace('"}\n', ""):
                raise SystemExit(f"a turn went wrong: {response.status} {text[:600]}")
            if paced:
                self.rest()
                self._pass(TURN_SECONDS)
        self._model.paced = True

    def count(self, case: Case, turns: int) -> Counted:
        """Return what a turn of `case` costs, the mean of so many."""
        self.ask(case, case.peers, paced=case.peers < MANY)
        self._pass(*[60] * MINUTES)
        # Connections that were idle for so long are closed.
        self._connection.close()
        with tabs.opened(self._port, TOKEN, case.tabs):
            self.ask(case, 1)
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
        found.counts = {name: told["counts"].get(name, 0) / turns for name in ("C calls", *COUNTS)}
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
            "providers": {
                "mock": {"kind": "openai", "base_url": f"{model.url}/v1"},
                "vendor": {"kind": "anthropic", "base_url": model.url, "api_key": "upstream"},
            },
            "embedding": {"embedder": "none"},
        },
    }
    command = [sys.executable, "-m", "benchmarks.weight.gateway", json.dumps(settings)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            found = Weighed(process, port, model)
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


def weigh_grown(turns: int = 8) -> dict[str, Counted]:
    """Return what a turn costs with few and many peers alive, and with the ledger of a year."""
    model = Model()
    found = weigh(GROWN, turns)
    with tempfile.TemporaryDirectory() as home:
        with weighed(model, Path(home)) as gateway:
            gateway.ask(YEAR, 1)
        year.fill(Path(home) / "hookgate.db")
        with weighed(model, Path(home)) as gateway:
            found[YEAR.name] = gateway.count(YEAR, turns)
    return found
