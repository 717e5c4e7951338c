"""Conversations that are had with a real gateway over a socket, for ``benchmarks.memory --socket``.

A turn of a conversation is a message of one peer, ``speaker: text``, at its time: the gateway's
clock is turned. The model is mocked and says one word. Questions are asked of the operation
`memory.explain`, which leaves no trace, and then as messages, as people ask them: each of those is
remembered like all that is said. Evidence counts where its text stands in what is shown.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
from aiohttp import web

from benchmarks.report import Figure
from benchmarks.turn.answers import DONE, chunk, sse, used
from benchmarks.weight.gateway import plugin_of
from hookgate import EMBEDDER, STORE, Gateway, Settings
from hookgate.builtin_plugins.memory.domain import Utterance
from hookgate.builtin_plugins.memory.recall.lines import HEADER, MORE
from hookgate.builtin_plugins.memory.recall.turns import without_vector
from hookgate.core.gateway.serve import listen

Row: TypeAlias = dict[str, Any]

TOKEN = "hg_" + "a" * 43
ANSWER = "Noted."
PATIENCE = 3600
"""Seconds in which all that was said gets its vector."""
SOON = 20.0
"""Seconds between the last turn and the first question."""


class TurnedClock:
    """The gateway's clock, turned to when something was said."""

    def __init__(self) -> None:
        self.time = datetime.now(UTC)

    def now(self) -> datetime:
        """Return that time."""
        return self.time

    def monotonic(self) -> float:
        """Return seconds that pass as they do."""
        return time.monotonic()


class Model:
    """A mocked model that says one word, and knows what it was asked last."""

    def __init__(self) -> None:
        self.asked: Row = {}

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        self.asked = await request.json()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        end = [chunk({}, "stop"), sse(choices=[], usage=used(self.asked, ANSWER)), DONE]
        await response.write(b"".join([chunk({"content": ANSWER}), *end]))
        return response

    @property
    def recalled(self) -> Sequence[str]:
        """What it was given of what is remembered, by message: what stands is not said again."""
        return [
            "\n\n".join(
                block
                for block in str(one["content"]).split("\n\n")
                if block.startswith((HEADER, MORE))
            )
            for one in self.asked["messages"]
            if one["role"] == "user"
        ]

    @property
    def read(self) -> str:
        """All that it was given to read of what was said."""
        return "\n".join(str(one.get("content") or "") for one in self.asked["messages"])


@dataclass
class Shares:
    """Shares of evidence, one for each question, and tokens of what was shown."""

    soon: list[float] = field(default_factory=list)
    later: list[float] = field(default_factory=list)
    asked: list[float] = field(default_factory=list)
    read: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    talked: float = 0.0
    waiting: int = 0


async def talk(said: Sequence[Utterance], questions: Sequence[Row], shares: Shares) -> None:
    """Have one conversation with a gateway of its own, and ask its questions."""
    model, clock = Model(), TurnedClock()
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", model.complete)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "token").touch(mode=0o600)
        (Path(home) / "token").write_text(TOKEN)
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        settings = Settings.model_validate(
            {
                "home": home,
                "gateway": {
                    "port": 0,
                    "tokens": {
                        "bench": {
                            "file": str(Path(home) / "token"),
                            "scopes": ["chat", "read", "operate"],
                        }
                    },
                },
                "agents": {"main": {"model": "mock/m"}},
                "plugins": {"entry_points": False},
                "log": {"level": "error"},
                "plugin": {"providers": {"mock": {"kind": "openai", "base_url": url}}},
            }
        )
        gateway = Gateway(settings, plugins=[plugin_of(clock)])
        async with gateway, listen(gateway) as listener, aiohttp.ClientSession() as http:
            ask = Ask(http, listener.port)
            begun = time.monotonic()
            for one in said:
                clock.time = one.at
                await ask.say(f"{one.speaker}: {one.text}")
            shares.talked += time.monotonic() - begun
            await asyncio.sleep(SOON)
            shares.waiting += await waiting(gateway)
            texts = {one.turn: flat(one.text) for one in said}
            for question in questions:
                shares.soon.append(share(question, texts, await ask.explained(question)))
            for _ in range(PATIENCE):
                if not await waiting(gateway):
                    break
                await asyncio.sleep(1)
            for question in questions:
                shares.later.append(share(question, texts, await ask.explained(question)))
            for question in questions:
                await ask.say(question["question"])
                recalled = model.recalled
                shares.asked.append(share(question, texts, "\n\n".join(recalled)))
                shares.read.append(share(question, texts, model.read))
                shares.tokens.append(-(-len(recalled[-1]) // 4))
    await runner.cleanup()


async def waiting(gateway: Gateway) -> int:
    """Return how many pieces wait for their vectors, of a hundred at most."""
    embedder, store = gateway.host[EMBEDDER], gateway.host[STORE]
    rows = await store.read(
        lambda connection: without_vector(connection, embedder.fingerprint, 100)
    )
    return len(rows)


class Ask:
    """Asks a gateway over HTTP."""

    def __init__(self, http: aiohttp.ClientSession, port: int) -> None:
        self._http, self._url = http, f"http://127.0.0.1:{port}/v1"
        self._session = ""

    async def say(self, text: str) -> None:
        """Run a turn."""
        told = await self._post("turns", {"content": text, "peer": "ada"})
        self._session = told.get("session", self._session)

    async def explained(self, question: Row) -> str:
        """Return what a question would show."""
        asked = {"message": question["question"]}
        told = await self._post("memory/explain", asked)
        return "\n".join(row["text"] for row in told["lines"] if row["shown"])

    async def _post(self, path: str, body: Mapping[str, Any]) -> Row:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with self._http.post(f"{self._url}/{path}", json=body, headers=headers) as response:
            text = await response.text()
            if response.status != 200:
                raise SystemExit(f"{path}: {response.status} {text[:600]}")
        told: Row = json.loads(text)
        return told


def flat(text: str) -> str:
    return " ".join(text.split())


def share(question: Row, texts: Mapping[str, str], shown: str) -> float:
    """Return the share of a question's evidence that is shown."""
    evidence = set(question["evidence"])
    return sum(texts[one] in flat(shown) for one in evidence) / len(evidence)


def figures(shares: Shares, many: int) -> list[Figure]:
    """Return what came of it."""
    how = f"{len(shares.soon)} questions of {many} conversations"
    mean = statistics.mean
    return [
        Figure(name="memory.socket.later", value=mean(shares.later), unit="share",
               against=f"{how}, explained, all vectors there"),
        Figure(name="memory.socket.soon", value=mean(shares.soon), unit="share",
               against="the same 20 s after the talk", goal=mean(shares.later) - 0.02,
               at_least=True),
        Figure(name="memory.socket.asked", value=mean(shares.asked), unit="share",
               against="asked as messages, one after the other"),
        Figure(name="memory.socket.read", value=mean(shares.read), unit="share",
               against="with the history beside it"),
        Figure(name="memory.socket.tokens", value=statistics.median(shares.tokens),
               unit="tokens", against="median of what is recalled"),
        Figure(name="memory.socket.talked", value=shares.talked, unit="s", against="the talk"),
        Figure(name="memory.socket.waiting", value=shares.waiting, unit="pieces",
               against="without a vector at the first question, of 100 a conversation"),
    ]  # fmt: skip
