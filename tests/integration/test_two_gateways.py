"""Two gateways on one PostgreSQL database, in one process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import sqlalchemy as sa
from tests.support.heartbeat import waited
from tests.support.script import Script, Scripted, Tools, call, echo_tool, say, settings
from tests.support.wire import Served, bearer, tokens

from hookgate import Gateway
from hookgate.builtin_plugins.storage import questions as asking_module
from hookgate.builtin_plugins.storage.tables import QUESTION_ROWS
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.errors import StoreUnavailableError
from hookgate.core.domain.models import ModelRequest
from hookgate.core.domain.ports import CONVERSATIONS
from hookgate.core.domain.turn import SessionKey, Turn
from hookgate.core.gateway.access import tokens as token_module
from hookgate.core.gateway.serve import listen
from hookgate.ports import QUESTIONS, STOPPED, STORE

pytestmark = pytest.mark.slow

WITHIN = 1.0
"""Seconds after which a gateway has heard of what another one did."""


@asynccontextmanager
async def served(
    url: str, home: Path, wire: dict[str, Any], *plugins: object, **sections: Any
) -> AsyncIterator[Served]:
    """A gateway on the database, with a home folder of its own."""
    more = sections.pop("plugin", {})
    config = settings(
        home,
        gateway={"port": 0, **wire},
        plugin={"storage": {"url": url, "fallback": "refuse"}, **more},
        **sections,
    )
    loaded = plugins or (Scripted(Script(say("well said"))),)
    builtin = ("control", "storage", "policy", "awareness")
    async with (
        Gateway(config, builtin=builtin, plugins=loaded) as gate,
        listen(gate) as listener,
        aiohttp.ClientSession() as http,
    ):
        yield Served(gate, listener, http)


async def soon(condition: Any, *, seconds: float = WITHIN) -> None:
    """Wait until `condition` returns something true, as long as others may take to hear of it."""
    over = time.monotonic() - waited("") + seconds
    while not await condition():
        # What the threads here had no processor for is the machine's doing.
        assert time.monotonic() - waited("") < over, f"nothing was heard of it within {seconds:g} s"


def step(request: ModelRequest) -> Any:
    """Send what the message says; say what came of it."""
    last = request.messages[-1]
    if last.tool_results:
        return say(last.tool_results[0].content.partition(":")[0])
    return call((f"call_{len(request.messages)}", "send", {"text": last.text}))


async def test_a_token_revoked_on_one_is_refused_on_both_within_a_second(
    url: str, tmp_path: Path
) -> None:
    wire, made = tokens(ops={"scopes": ["operate", "read"]}, ann={"scopes": ["chat", "read"]})
    ann = bearer(made["ann"])
    async with (
        served(url, tmp_path / "a", wire) as a,
        served(url, tmp_path / "b", wire) as b,
        b.socket(**ann) as socket,
    ):
        assert (await b.get("/v1/status", **ann))[0] == 200
        closed = asyncio.ensure_future(socket.closed())
        async with a.socket(**bearer(made["ops"])) as operator:
            assert await operator.result("token.revoke", name="ann") == {"name": "ann"}
        assert (await a.get("/v1/status", **ann))[0] == 401

        async def refused() -> bool:
            return (await b.get("/v1/status", **ann))[0] == 401

        await soon(refused)
        assert await closed == 1008
    # One that starts later, with a home of its own, has never heard of it.
    async with served(url, tmp_path / "c", wire) as c:
        assert (await c.get("/v1/status", **ann))[0] == 401


async def test_a_gateway_that_cannot_read_revocations_lets_nobody_new_in_by_a_token(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_module, "DEAF_SECONDS", 1.5)
    wire, made = tokens(ann={"scopes": ["chat", "read"]})
    ann = bearer(made["ann"])
    async with served(url, tmp_path / "a", wire) as a, a.socket(**ann) as socket:
        store = a.gate.host[STORE]

        async def says(status: int) -> bool:
            return (await a.get("/v1/status", **ann))[0] == status

        assert await says(200)
        await store.write(lambda c: c.execute(sa.text("ALTER TABLE storage_switches RENAME TO x")))
        await soon(partial(says, 503), seconds=100)
        assert await socket.result("ping") == {"pong": True}
        await store.write(lambda c: c.execute(sa.text("ALTER TABLE x RENAME TO storage_switches")))
        await soon(partial(says, 200), seconds=100)


async def test_cards_turned_off_on_one_are_off_on_both_within_a_second(
    url: str, tmp_path: Path
) -> None:
    wire, made = tokens(ops={"scopes": ["operate", "read"]})
    ops = bearer(made["ops"])
    async with served(url, tmp_path / "a", wire) as a, served(url, tmp_path / "b", wire) as b:
        async with a.socket(**ops) as operator:
            await operator.result("awareness.disable")

        async def off() -> bool:
            status, body = await b.get("/v1/status", **ops)
            assert status == 200
            return "awareness" in body["degraded"]

        await soon(off)


# -- sessions -----------------------------------------------------------------------------


def slowly(request: ModelRequest) -> Any:
    """Answer after a moment in which the other gateway has a message of the same session."""
    return [lambda: asyncio.sleep(0.02), *say(f"re: {request.messages[-1].text}")]


async def test_turns_of_one_session_on_both_wait_for_one_another_and_none_fails(
    url: str, tmp_path: Path
) -> None:
    def gateway(name: str) -> Any:
        return served(url, tmp_path / name, {}, Scripted(Script(slowly)))

    async with gateway("a") as a, gateway("b") as b:
        answers = await asyncio.gather(
            *((a, b)[n % 2].post("/v1/turns", {"content": f"m{n}"}) for n in range(24))
        )
        assert [status for status, _ in answers] == [200] * 24
        assert [body["text"] for _, body in answers] == [f"re: m{n}" for n in range(24)]
        (session,) = (await a.get("/v1/sessions"))[1]["sessions"]
        host = b.gate.host
        kept = await host[CONVERSATIONS].history(SessionKey.parse(session["session"]), turns=100)
    said = [message.text for message in kept]
    assert len(said) == 48
    # Each answer right behind its own message.
    pairs = zip(said[::2], said[1::2], strict=True)
    assert all(answer == f"re: {asked}" for asked, answer in pairs)


# -- questions ----------------------------------------------------------------------------

SENDS = replace(Flags.none(), sends_externally=True)


class Office:
    """What the gateways of one office have: a tool that people are asked about."""

    def __init__(self, url: str, home: Path) -> None:
        self.url = url
        self.home = home
        self.ran: list[str] = []

    @asynccontextmanager
    async def gateway(self, name: str, **approvals: Any) -> AsyncIterator[Served]:
        async def send(turn: Turn, arguments: Mapping[str, Any]) -> str:
            self.ran.append(f"{name}: {arguments['text']}")
            return "sent"

        policy = {"profile": "strict", "approvals": {"unattended": "wait", **approvals}}
        plugins = (Scripted(Script(step)), Tools(echo_tool("send", run=send, flags=SENDS)))
        home, plugin = self.home / name, {"policy": policy}
        async with served(self.url, home, {}, *plugins, plugin=plugin) as gate:
            yield gate


async def question(gate: Served) -> dict[str, Any]:
    """Return the only question that waits, as one gateway shows it."""
    rows: list[dict[str, Any]] = []
    while not rows:
        rows = (await gate.get("/v1/approvals"))[1]["approvals"]
    return rows[0]


def asking(gate: Served, text: str = "hello", **address: str) -> asyncio.Task[tuple[int, Any]]:
    return asyncio.create_task(gate.post("/v1/turns", {"content": text, **address}))


async def test_a_question_asked_on_one_is_answered_on_the_other_and_the_call_runs_once(
    url: str, tmp_path: Path
) -> None:
    office = Office(url, tmp_path)
    async with office.gateway("a") as a, office.gateway("b") as b:
        turn = asking(a)
        shown = await question(b)
        assert shown == await question(a)
        answer = {"id": shown["id"], "digest": shown["digest"], "decision": "allow-once"}
        status, _ = await b.post("/v1/approvals/resolve", answer)
        assert status == 200
        answered = asyncio.get_running_loop().time()
        assert (await turn)[1]["text"] == "sent"
        assert asyncio.get_running_loop().time() - answered < 5
        assert (await a.post("/v1/approvals/resolve", answer))[0] == 404
        assert (await b.get("/v1/approvals"))[1]["approvals"] == []
    assert office.ran == ["a: hello"]


async def test_of_answers_that_race_on_both_one_wins_and_the_call_runs_once(
    url: str, tmp_path: Path
) -> None:
    office = Office(url, tmp_path)
    async with office.gateway("a") as a, office.gateway("b") as b:
        turn = asking(a)
        shown = await question(b)

        async def answered(number: int) -> bool:
            choice = ("allow-always", "allow-once")[number // 2 % 2]
            body = {"id": shown["id"], "decision": choice}
            return (await (a, b)[number % 2].post("/v1/approvals/resolve", body))[0] == 200

        won = await asyncio.gather(*map(answered, range(20)))
        assert won.count(True) == 1
        assert (await turn)[1]["text"] == "sent"
        always = won.index(True) // 2 % 2 == 0
        for gate in (a, b):
            _, body = await gate.get("/v1/approvals/grants")
            assert [row["state"] for row in body["grants"]] == ["valid"] * always
    assert office.ran == ["a: hello"]


async def test_what_is_allowed_always_on_one_holds_on_the_other(url: str, tmp_path: Path) -> None:
    office = Office(url, tmp_path)
    async with office.gateway("a") as a, office.gateway("b") as b:
        turn = asking(a)
        body = {"id": (await question(b))["id"], "decision": "allow-always"}
        assert (await b.post("/v1/approvals/resolve", body))[0] == 200
        assert (await turn)[1]["text"] == "sent"
        assert (await asking(b))[1]["text"] == "sent"
    assert office.ran == ["a: hello", "b: hello"]


async def test_an_answer_to_what_has_changed_where_it_was_asked_runs_nothing_and_leaves_no_grant(
    url: str, tmp_path: Path
) -> None:
    office = Office(url, tmp_path)
    async with office.gateway("a") as a, office.gateway("b") as b:
        turn = asking(a)
        shown = await question(b)
        plugin = a.gate.plugins.get("policy")
        plugin._version = (plugin._judge.engine.version, "another")
        body = {"id": shown["id"], "decision": "allow-always"}
        await b.post("/v1/approvals/resolve", body)
        assert "sent" not in (await turn)[1]["text"]
        _, rows = await a.get("/v1/approvals/grants")
        assert rows["grants"] == []
    assert office.ran == []


async def test_who_may_not_answer_at_one_may_not_at_the_other(url: str, tmp_path: Path) -> None:
    office = Office(url, tmp_path)
    async with office.gateway("a") as a, office.gateway("b", approvers=["token:boss"]) as b:
        turn = asking(a)
        shown = await question(a)
        assert (await b.get("/v1/approvals"))[1]["approvals"] == []
        body = {"id": shown["id"], "decision": "allow-once"}
        assert (await b.post("/v1/approvals/resolve", body))[0] == 403
        assert (await a.post("/v1/approvals/resolve", {**body, "decision": "deny"}))[0] == 200
        await turn
    assert office.ran == []


async def test_a_restart_of_the_asker_expires_its_question_by_name_and_no_others(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking_module, "LEASE_SECONDS", 5.0)
    office = Office(url, tmp_path)
    async with office.gateway("b") as b:
        async with office.gateway("a") as a:
            mine, others = asking(a, "of a"), asking(b, "of b", peer="other")
            while len(shown := (await b.get("/v1/approvals"))[1]["approvals"]) < 2:
                assert not mine.done()
            ids = {row["arguments"]["text"]: row["id"] for row in shown}
            # As if it were killed: it says nothing any more, of its questions or of itself.
            store = a.gate.host[STORE]
            monkeypatch.setattr(store._writer, "work", killed)
        await asyncio.gather(mine, return_exceptions=True)
        async with office.gateway("a") as a:
            await soon(partial(expired, a, ids["of a"]), seconds=100)
            left = (await a.get("/v1/approvals"))[1]["approvals"]
            assert [row["id"] for row in left] == [ids["of b"]]
            body = {"id": ids["of a"], "decision": "allow-once"}
            assert (await b.post("/v1/approvals/resolve", body))[0] == 404
            body = {"id": ids["of b"], "decision": "allow-once"}
            assert (await a.post("/v1/approvals/resolve", body))[0] == 200
            assert (await others)[1]["text"] == "sent"
    assert office.ran == ["b: of b"]


@pytest.mark.parametrize("decision", ["allow-once", "allow-always", "deny"])
async def test_an_answer_to_a_gateway_that_has_died_says_so_and_leaves_no_grant(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decision: str
) -> None:
    monkeypatch.setattr(asking_module, "HEARD_SECONDS", 1.0)
    office = Office(url, tmp_path)
    async with office.gateway("b") as b, office.gateway("a") as a:
        turn = asking(a)
        shown = await question(b)
        # As if it were killed: it hears and says nothing any more, and its lease still stands.
        questions, store = a.gate.host[QUESTIONS], a.gate.host[STORE]
        questions._following.cancel()  # type: ignore[attr-defined]
        works = store._writer.work  # type: ignore[attr-defined]
        monkeypatch.setattr(store._writer, "work", killed)  # type: ignore[attr-defined]
        body = {"id": shown["id"], "digest": shown["digest"], "decision": decision}
        status, told = await b.post("/v1/approvals/resolve", body)
        assert status == 404
        assert STOPPED in told["error"]["message"]
        assert (await b.get("/v1/approvals"))[1]["approvals"] == []
        assert (await b.get("/v1/approvals/grants"))[1]["grants"] == []
        # It was cut off only: what it hears now is that nobody allowed anything.
        monkeypatch.setattr(store._writer, "work", works)  # type: ignore[attr-defined]
        a.gate.host.spawn(questions._follow(), name="follow")  # type: ignore[attr-defined]
        assert "sent" not in (await turn)[1]["text"]
    assert office.ran == []


async def killed(work: Any, *more: Any) -> Any:
    raise StoreUnavailableError("this gateway was killed")


async def expired(gate: Served, question_id: str) -> bool:
    """Whether the store says of a question that its asker has stopped."""
    query = sa.select(QUESTION_ROWS.c.state, QUESTION_ROWS.c.why).where(
        QUESTION_ROWS.c.id == question_id
    )
    row = await gate.gate.host[STORE].read(lambda connection: connection.execute(query).one())
    return tuple(row) == ("expired", STOPPED)
