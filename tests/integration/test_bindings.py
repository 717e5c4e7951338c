"""Two principals who are bound to one peer each: no operation and no page shows the other's.

Every operation that such a principal may call is called, by every face, also one that is
added later: it has to be entered below, or this fails.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.wire import Socket, bearer, tokens

from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.tools import Ask, Tool, ToolCall, Verdict
from hookgate.core.domain.turn import Turn
from hookgate.core.gateway.app import ROUTES
from hookgate.core.gateway.serve import listen
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway
from hookgate.hookspecs import hookimpl
from hookgate.kit.tooling import tool

SCOPES = ["chat", "read", "approve"]
WORD = "quokka{}word"
"""What only NAME has said: no request of the other one holds it."""


@dataclass(frozen=True)
class Called:
    """How an operation is called here.

    Attributes:
        params: Its parameters; ``{other}`` stands for the other one's session.
        shows: Whether it shows one's own words to oneself, so that there is something to hide.
        why: Why it is not called, where it is not.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    shows: bool = False
    why: str = ""


EVERYBODYS = Called()
OPERATIONS: dict[str, Called] = {
    "accept.list": EVERYBODYS,
    "approvals.grants": Called(shows=True),
    "approvals.list": Called(shows=True),
    "approvals.resolve": Called({"id": "{question}", "decision": "deny"}),
    "approvals.revoke": Called({"id": "{grant}"}),
    "audit.export": Called(shows=True),
    "audit.list": Called(shows=True),
    "audit.verify": EVERYBODYS,
    "awareness.pointer": EVERYBODYS,
    "awareness.report": Called({"trial": False}),
    "awareness.status": EVERYBODYS,
    "budgets.explain": Called({"session": "{session}"}),
    "budgets.show": EVERYBODYS,
    "calls.list": Called({"session": "{session}"}),
    "capabilities.list": EVERYBODYS,
    "capabilities.show": Called({"id": "tool:hold"}),
    "cards.explain": Called({"message": "what can you do?"}),
    "cards.list": EVERYBODYS,
    "chat.cancel": Called({"turn": "{turn}"}),
    "chat.send": Called({"content": "/context", "peer": "{me}"}),
    "db.status": EVERYBODYS,
    "discover": Called({"query": "remember something"}),
    "capabilities.graph": EVERYBODYS,
    "capabilities.stats": EVERYBODYS,
    "embedding.status": EVERYBODYS,
    "events.subscribe": Called(why="it has no end, and a test of its own"),
    "inventory.list": EVERYBODYS,
    "inventory.show": Called({"id": "native:native:global:global:tool:hold"}),
    "memory.audit": Called({"about": "word"}),
    "memory.explain": Called({"message": "what is my word?", "session": "{session}"}, shows=True),
    "memory.export": Called(shows=True),
    "memory.forget": Called({"session": "{session}"}),
    "memory.list": Called(shows=True),
    "outcomes": EVERYBODYS,
    "memory.search": Called({"query": "what is my word?"}, shows=True),
    "memory.show": Called({"id": "{note}"}, shows=True),
    "models.list": EVERYBODYS,
    "operations.list": EVERYBODYS,
    "ping": EVERYBODYS,
    "plugins.list": EVERYBODYS,
    "plugins.why": Called({"name": "policy"}),
    "policy.check": Called({"rules": "rules: []"}),
    "policy.diff": Called({"rules": "rules: []"}),
    "policy.explain": Called({"tool": "hold"}),
    "policy.replay": EVERYBODYS,
    "policy.rules": EVERYBODYS,
    "policy.table": EVERYBODYS,
    "policy.test": Called({"rules": "rules: []", "cases": "cases: []"}),
    "prices.check": EVERYBODYS,
    "request.cancel": Called({"request": 1}),
    "prices.show": EVERYBODYS,
    "route.explain": Called({"peer": "somebody"}),
    "schedules.list": EVERYBODYS,
    "sessions.export": Called({"session": "{session}"}, shows=True),
    "sessions.show": Called({"session": "{session}"}, shows=True),
    "sessions.list": EVERYBODYS,
    "status": EVERYBODYS,
    "tools.call": Called({"name": "recall", "arguments": {"query": "my word is"}, "peer": "{me}"}),
    "tools.list": EVERYBODYS,
    "tools.changes": EVERYBODYS,
    "turn.sums": EVERYBODYS,
    "turn.list": EVERYBODYS,
    "turn.show": Called({"id": "{turn}"}),
    "usage": Called({"by": "session"}),
    "wasm.inspect": Called({"name": "nobody"}),
    "wasm.list": EVERYBODYS,
    "wasm.verify": EVERYBODYS,
}
PAGES = {
    *("/", "/health", "/ready", "/metrics", "/ws", "/v1/operations/{name}", "/v1/session"),
    *("/webhook/{channel}", "/ui", "/ui/", "/ui/{digest}/{file}"),
    *("/v1/chat/completions", "/openai/v1/chat/completions"),
    *(f"{at}/v1/{end}" for at in ("", "/openai") for end in ("responses", "embeddings")),
    *(f"{at}/v1/responses/{{response}}" for at in ("", "/openai")),
    *(f"{at}/v1/responses/{{response}}/cancel" for at in ("", "/openai")),
    *(f"{at}/v1/responses/{{response}}/input_items" for at in ("", "/openai")),
    *(f"{at}/v1/messages{end}" for at in ("", "/anthropic") for end in ("", "/count_tokens")),
    *(f"{at}/v1/models{end}" for at in ("", "/openai", "/anthropic") for end in ("", "/{model}")),
}
"""Routes that no operation declares. `/ws` and operations by name are walked as operations."""


class Holding:
    """Brings a tool that keeps what it is told, and asks about one of them."""

    name = "holding"

    @hookimpl
    def list_tools(self, host: Any) -> list[Tool]:
        async def hold(word: str) -> str:
            """Hold a word."""
            host.metric("held", word=len(word))
            return f"held {word}"

        async def ask(word: str) -> str:
            """Hold a word if somebody says so."""
            return f"held {word}"

        return [tool(hold, flags=Flags.none()), tool(ask, flags=Flags.none())]

    @hookimpl
    def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict | None:
        if call.name != "ask":
            return None
        choices = ("allow-once", "allow-always", "deny")
        return Verdict.ask(Ask(title="May I?", timeout=60, choices=choices))  # type: ignore[arg-type]


@dataclass
class Person:
    """One of the two, at a socket of their own."""

    name: str
    token: str
    socket: Socket
    base: str
    http: aiohttp.ClientSession
    ids: dict[str, str] = field(default_factory=dict)

    @property
    def word(self) -> str:
        return WORD.format(self.name)

    async def say(self, text: str) -> None:
        await self.socket.send("chat.send", content=text, peer=self.name)
        await self.socket.until("done")

    async def leave_something(self) -> None:
        """Leave the word in what the gateway keeps."""
        arguments = json.dumps({"word": self.word})
        await self.say(f"/call hold {arguments}")
        await self.say("/call remember " + json.dumps({"text": f"my word is {self.word}"}))
        await self.say(f"what can you do with {self.word}? list your tools")
        await self.socket.send("chat.send", content=f"/call ask {arguments}", peer=self.name)
        question = await self.socket.until("approval")
        allowed = {"id": question["id"], "decision": "allow-always"}
        self.ids["grant"] = (await self.socket.result("approvals.resolve", **allowed))["grant"]
        self.ids["session"] = (await self.socket.until("done"))["session"]
        kept = await self.socket.result("memory.list", kind="note")
        self.ids["note"] = kept["rows"][0]["id"]

    async def leave_a_question(self) -> None:
        """Leave the word in a question that waits, and in a turn that waits for it."""
        other = json.dumps({"word": f"{self.word} again"})
        sent = await self.socket.send("chat.send", content=f"/call ask {other}", peer=self.name)
        self.ids["turn"] = (await self.socket.answer(sent))["result"]["turn"]
        self.ids["question"] = (await self.socket.until("approval"))["id"]

    async def call(self, name: str, params: Mapping[str, Any]) -> list[str]:
        """Call an operation by every face; return all that came back, as text."""
        number = await self.socket.send(name, **params)
        seen, ended = [], name != "chat.send"
        while True:
            frame = await self.socket.next()
            seen.append(json.dumps(frame, ensure_ascii=False))
            ended = ended or frame.get("method") == "done"
            if (frame.get("id") == number and ended) or (ended and name == "chat.send"):
                break
        url = f"{self.base}/v1/operations/{name}"
        for headers in ({}, {"Accept": "text/event-stream"}):
            sent = {**bearer(self.token)["headers"], **headers}
            async with self.http.post(url, json=params, headers=sent) as answer:
                seen.append(f"{answer.headers} {await answer.text()}")
        return seen


@dataclass
class Two:
    """The two, and the gateway that both talk to."""

    gate: Gateway
    bob: Person
    alice: Person
    routes: set[tuple[str, str]]

    def params(self, called: Called, me: Person, them: Person) -> dict[str, Any]:
        places = {**{f"{{{key}}}": value for key, value in them.ids.items()}, "{me}": me.name}
        return {key: places.get(str(value), value) for key, value in called.params.items()}


@asynccontextmanager
async def two(home: Path) -> AsyncIterator[Two]:
    section, made = tokens(
        bob={"scopes": SCOPES, "peers": ["bob"]}, alice={"scopes": SCOPES, "peers": ["alice"]}
    )
    config = {
        "home": home,
        "gateway": {"port": 0, **section},
        "plugins": {"entry_points": False},
        "plugin": {"embedding": {"embedder": "none"},
                   "policy": {"approvals": {"self_approval": True}}},
    }  # fmt: skip
    gate = Gateway(Settings.model_validate(config), plugins=[Holding()])
    async with gate, listen(gate) as listener, aiohttp.ClientSession() as http:
        routes = {
            (route.method, route.resource.canonical)
            for route in listener.app[ROUTES]
            if route.resource is not None
        }
        url = f"{listener.url}/ws"
        async with (
            http.ws_connect(url, **bearer(made["bob"])) as one,
            http.ws_connect(url, **bearer(made["alice"])) as other,
        ):
            bob = Person("bob", made["bob"], Socket(one), listener.url, http)
            alice = Person("alice", made["alice"], Socket(other), listener.url, http)
            await bob.leave_something()
            await alice.leave_something()
            await alice.leave_a_question()
            yield Two(gate, bob, alice, routes)


async def test_no_operation_shows_what_is_anothers(tmp_path: Path) -> None:
    leaked, unshown, unknown = [], [], []
    async with asyncio.timeout(55), two(tmp_path) as both:
        mine = {
            name: operation
            for name, operation in both.gate.host.operations.items()
            if name == operation.name and (operation.scope is None or operation.scope in SCOPES)
        }
        for name in sorted(mine):
            called = OPERATIONS.get(name)
            if called is None:
                unknown.append(name)
                continue
            if called.why:
                continue
            # What is another's is asked for by its very id.
            params = both.params(called, both.bob, both.alice)
            said = "\n".join(await both.bob.call(name, params))
            if both.alice.word in said:
                leaked.append(name)
            if called.shows:
                params = both.params(called, both.alice, both.alice)
                if both.alice.word not in "\n".join(await both.alice.call(name, params)):
                    unshown.append(name)
        waiting = await both.alice.socket.result("approvals.list")
        standing = await both.alice.socket.result("approvals.grants")
    assert leaked == []
    assert unshown == []
    assert unknown == [], "enter them in OPERATIONS, once they show nobody what is another's"
    # Nobody else has answered the question, taken the grant back or cancelled the turn.
    assert (len(waiting["approvals"]), len(standing["grants"])) == (1, 1)


async def test_no_page_shows_what_is_anothers(tmp_path: Path) -> None:
    async with asyncio.timeout(55), two(tmp_path) as both:
        declared = {
            route
            for operation in both.gate.host.operations.values()
            for route in (operation.rest, ("POST", operation.path))
        }
        pages = {route for route in both.routes if route not in declared}
        assert {path for _, path in pages} == PAGES, "look at a new page, then enter it in PAGES"
        seen = []
        for method, path in sorted(both.routes - {("POST", "/v1/operations/{name}")}):
            request = both.bob.http.request(
                method,
                both.bob.base + path,
                json={} if method == "POST" else None,
                **bearer(both.bob.token),
            )
            if path in ("/v1/events", "/ws"):
                request.close()
                continue
            async with request as answer:
                seen.append((path, answer.status, f"{answer.headers} {await answer.text()}"))
    assert [path for path, _, text in seen if both.alice.word in text] == []
    assert {status for path, status, _ in seen if path in ("/v1/audit", "/metrics")} == {200}


@pytest.mark.parametrize("limit", [1, pytest.param(50, marks=pytest.mark.slow)])
async def test_own_rows_are_found_among_others(tmp_path: Path, limit: int) -> None:
    async with asyncio.timeout(55), two(tmp_path) as both:
        bob, shown, place = both.bob, [], ""
        while True:
            page = await bob.socket.result("audit.list", limit=limit, before=place)
            assert len(page["entries"]) <= limit
            shown += page["entries"]
            place = page["next"]
            if not place:
                break
        sessions = (await bob.socket.result("sessions.list", limit=1))["sessions"]
    assert {row["session"] for row in shown} == {bob.ids["session"]}
    assert {row["tool"] for row in shown} >= {"hold", "remember", "ask"}
    assert [row["session"] for row in sessions] == [bob.ids["session"]]
