"""What a whole chat request costs: HTTP in, a model over HTTP, the answer out.

Each server is a process of its own, and so is the model, a mocked OpenAI-compatible one. The
gateway has all builtin plugins, and checks a token. It is compared with the least that could do the
job: an aiohttp handler that checks a token, commits the message to SQLite, passes it on with what
was said before, reads the stream, and commits the answer, both durably. Beside it stands one that
passes the message on and does nothing else. With ``--litellm PYTHON`` (or $HOOKGATE_LITELLM), an
interpreter with ``litellm[proxy]`` installed, its proxy takes part, asked for whole answers and
streamed. All are asked in turns, and the CPU time of the serving process is read. No message
is asked twice, except where its vector is to be known, and no two answers are the same. What a
gateway goes on to do once all have been answered is counted by itself.

    python -m benchmarks.turn.chat [--quick] [--litellm PYTHON]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from benchmarks.report import Figure, report
from benchmarks.turn._servers import CALL, Running, litellm, running
from benchmarks.turn.answers import LAST
from hookgate.core.gateway.access.tokens import new_token

CLIENTS = 8
PEERS = 32
"""Requests take turns among so many conversations."""

AT_ONCE = 50
"""Sessions that all send at the same time, for the time that a turn waits for the processor."""

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

DURABLE = "the handler with two commits"
PROXY = "LiteLLM's proxy"

RATIOS: tuple[tuple[str, str, str, float | None], ...] = (
    ("none", "durable", DURABLE, 3.5),
    ("none, 1 client", "durable, 1 client", DURABLE, None),
    ("8", "durable", DURABLE, 7),
    ("8, known", "durable", DURABLE, 5),
    ("60", "durable", DURABLE, 9),
    ("250", "durable", DURABLE, 13),
    ("250, known", "durable", DURABLE, 7),
    ("8", "bare", "the handler that passes on", None),
    ("8", "litellm", PROXY, 0.22),
    ("8, streamed", "litellm, streamed", f"{PROXY}, streamed", 0.12),
    ("none", "litellm", PROXY, 0.11),
)
"""A form, what it is compared with, that in words, and the most that it may come to."""

MORE_FOR_A_CALL = 1.5
"""Milliseconds that a tool call may add, and with it another request to the model."""


BEHIND = 2.0
"""Milliseconds that a turn may cost behind its answer, beside one run of the embedder's model."""


@dataclass(frozen=True)
class Form:
    """One way to ask a server.

    Attributes:
        name: Names it in the table.
        server: Which of the servers.
        length: The characters of a message.
        known: Whether the same message is sent each time.
        stream: Whether the answer is asked for as server-sent events.
        call: Whether the model calls a tool first.
        clients: How many ask at the same time.
    """

    name: str
    server: str
    length: int = 8
    known: bool = False
    stream: bool = False
    call: bool = False
    clients: int = CLIENTS

    def body(self, number: int) -> dict[str, object]:
        """Return the request with the number `number`."""
        text = LENGTHS[self.length].format(0 if self.known else number % 100_000)
        if self.call:
            text = f"{CALL} {number:05d}"
        if self.server == "litellm":
            messages = [{"role": "user", "content": text}]
            return {"model": "m", "messages": messages, "stream": self.stream}
        return {"content": text, "peer": f"p{number % PEERS}"}


FORMS = (
    Form("bare", "bare"),
    Form("durable", "durable"),
    Form("durable, 1 client", "durable", clients=1),
    Form("none", "none"),
    Form("none, 1 client", "none", clients=1),
    Form("none, streamed", "none", stream=True),
    Form("none, a tool call", "none", call=True),
    Form("8", "gateway"),
    Form("8, streamed", "gateway", stream=True),
    Form("8, known", "gateway", known=True),
    Form("60", "gateway", length=60),
    Form("250", "gateway", length=250),
    Form("250, streamed", "gateway", length=250, stream=True),
    Form("250, known", "gateway", length=250, known=True),
    Form("a tool call", "gateway", call=True),
    Form("litellm", "litellm"),
    Form("litellm, streamed", "litellm", stream=True),
)
"""``none`` is the gateway without an embedder; ``known`` runs no model."""


class Asking:
    """Asks servers; every request has a number of its own."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._next = 0

    async def ask(self, form: Form, server: Running, count: int) -> list[float]:
        """Ask `count` times; return the wall seconds of each request."""
        numbers = iter(range(self._next, self._next + count))
        self._next += count
        times: list[float] = []

        async def client() -> None:
            for number in numbers:
                start = time.perf_counter()
                await self._one(form, server, number)
                times.append(time.perf_counter() - start)

        await asyncio.gather(*(client() for _ in range(form.clients)))
        return times

    async def _one(self, form: Form, server: Running, number: int) -> None:
        headers = dict(server.headers)
        if form.stream:
            headers["Accept"] = "text/event-stream"
        body = form.body(number)
        async with self._session.post(server.url, json=body, headers=headers) as response:
            answer = await response.read()
            # A stream that is passed on has its sentences in pieces, and its words whole.
            if response.status != 200 or LAST.split()[-1].encode() not in answer:
                raise SystemExit(f"{form.name} answered {response.status}: {answer[:500]!r}")

    async def at_once(self, server: Running, rounds: int) -> list[float]:
        """Send a message in `AT_ONCE` sessions at the same time; return the wall seconds."""
        times: list[float] = []

        async def one(peer: int) -> None:
            body = {"content": "hello", "peer": f"at-once-{peer}"}
            start = time.perf_counter()
            request = self._session.post(server.url, json=body, headers=server.headers)
            async with request as response:
                await response.read()
                response.raise_for_status()
            times.append(time.perf_counter() - start)

        for _ in range(rounds):
            await asyncio.gather(*map(one, range(AT_ONCE)))
        return times


async def measure(servers: dict[str, Running], *, rounds: int, count: int) -> list[Figure]:
    """Ask in all forms for which there is a server, in turns."""
    forms = [form for form in FORMS if form.server in servers]
    cpu: dict[str, list[float]] = {form.name: [] for form in forms}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        asking = Asking(session)
        for form in forms:
            await asking.ask(form, servers[form.server], count)
        for _ in range(rounds):
            for form in forms:
                server = servers[form.server]
                before = server.cpu()
                await asking.ask(form, server, count)
                cpu[form.name].append((server.cpu() - before) / count)
        behind = await behind_answers(asking, servers, count)
        threads = await by_thread(asking, servers["gateway"], count)
        waited = sorted(await asking.at_once(servers["none"], rounds))
    seconds = {name: statistics.median(values) for name, values in cpu.items()}
    place = min(int(0.99 * len(waited)), len(waited) - 1)
    return [
        *figures(seconds),
        *behind,
        *threads,
        Figure(name=f"p50 of {AT_ONCE} turns at once, none", unit="ms wall",
               value=statistics.median(waited) * 1e3),
        Figure(name=f"p99 of {AT_ONCE} turns at once, none", unit="ms wall",
               value=waited[place] * 1e3),
    ]  # fmt: skip


async def behind_answers(asking: Asking, servers: dict[str, Running], count: int) -> list[Figure]:
    """Return what a request of 60 characters still costs once it has been answered."""
    found = []
    for name in ("none", "gateway"):
        server = servers[name]
        server.rest()
        await asking.ask(Form("", name, length=60), server, count)
        spent = server.rest() / count
        goal = BEHIND if name == "none" else None
        found.append(
            Figure(name=f"behind the answer, {name}", value=spent * 1e3, unit="ms a request",
                   goal=goal)
        )  # fmt: skip
    return found


async def by_thread(asking: Asking, server: Running, count: int) -> Iterator[Figure]:
    """Return what each kind of thread has of a request of 250 characters."""
    before = server.threads()
    await asking.ask(Form("", "gateway", length=250), server, count)
    after = server.threads()
    spent = {name: (after[name] - before.get(name, 0.0)) / count for name in after}
    return (
        Figure(name=f"250, thread {name}", value=seconds * 1e3, unit="ms a request")
        for name, seconds in sorted(spent.items(), key=lambda pair: -pair[1])
        if seconds > 20e-6
    )


def figures(seconds: dict[str, float]) -> Iterator[Figure]:
    """Return a figure for each form, and the ratios to what could do the job."""
    for name, value in seconds.items():
        yield Figure(name=f"chat, {name}", value=value * 1e3, unit="ms a request")
    for ours, theirs, against, goal in RATIOS:
        if theirs in seconds:
            ratio = seconds[ours] / seconds[theirs]
            yield Figure(
                name=f"chat, {ours}", value=ratio, unit="ratio", against=against, goal=goal
            )
    for called, plain in (("none, a tool call", "none"), ("a tool call", "8")):
        yield Figure(
            name=f"chat, {called}",
            value=(seconds[called] - seconds[plain]) * 1e3,
            unit="ms a request",
            against=f"{plain}: more",
            goal=MORE_FOR_A_CALL,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    named = os.environ.get("HOOKGATE_LITELLM", "")
    parser.add_argument("--litellm", metavar="PYTHON", default=named)
    arguments = parser.parse_args()
    rounds, count = (1, 4) if arguments.quick else (9, 96)
    token, _ = new_token()
    with contextlib.ExitStack() as stack:
        homes = [stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(4)]
        above = stack.enter_context(running("upstream", path="/v1/chat/completions"))
        port = int(above.url.split(":")[2].split("/")[0])
        servers = {
            name: stack.enter_context(running(kind, upstream_port=port, **more))
            for name, kind, more in (
                ("bare", "bare", {}),
                ("durable", "bare", {"home": homes[0], "token": token}),
                ("none", "gateway", {"home": homes[1], "token": token, "vectors": False}),
                ("gateway", "gateway", {"home": homes[2], "token": token, "vectors": True}),
            )
        }
        if arguments.litellm:
            proxy = litellm(arguments.litellm, port, Path(homes[3]))
            servers["litellm"] = stack.enter_context(proxy)
        results = asyncio.run(measure(servers, rounds=rounds, count=count))
    report("a whole chat request", results)


if __name__ == "__main__":
    main()
