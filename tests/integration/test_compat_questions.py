"""Questions that a client's stream is held for: nothing runs without somebody's yes."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.builtin_plugins.providers.raw import Wire, raw_server
from tests.clients.faults import frames
from tests.clients.upstream import Call, Say
from tests.support.script import Script, Scripted, Step, call, say, settings, until
from tests.support.wire import Served, bearer, tokens

from hookgate import Event, Gateway
from hookgate.builtin_plugins import BUILTIN
from hookgate.builtin_plugins.channels import plugin as channels
from hookgate.core.gateway.serve import listen

NAMES = [
    name
    for name in BUILTIN
    if name in ("control", "storage", "audit", "policy", "metering", "compat", "channels", "egress")
]
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
EACH = pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
RULE = """\
rules:
  - name: asks
    match: {owner: client}
    effect: ask
    reason: a person is to see it
"""
KEY = "hook-secret-canary-0123456789abcdef"
NEVER = "unrun"
WAITS = {"policy": {"approvals": {"unattended": "wait"}}}


def shell(command: str, number: int = 1) -> tuple[str, str, dict[str, str]]:
    return (f"c{number}", "Bash", {"command": command})


LIST = call(shell("list-it"))


def body(path: str, text: str = "go", **more: Any) -> dict[str, Any]:
    """A request of a wire, with a tool."""
    tool = {"name": "Bash", "description": "Runs.", "parameters": SCHEMA}
    made: dict[str, Any] = {"model": "one", "stream": True, **more}
    if path == RESPONSES:
        return {"input": text, "tools": [{"type": "function", "strict": False, **tool}], **made}
    made["messages"] = [{"role": "user", "content": text}]
    if path == CHAT:
        return {**made, "tools": [{"type": "function", "function": tool}]}
    named = {"name": "Bash", "description": "Runs.", "input_schema": SCHEMA}
    return {**made, "max_tokens": 50, "tools": [named]}


@asynccontextmanager
async def served(
    home: Path, *steps: Step, plugin: Mapping[str, Any] | None = None, **sections: Any
) -> AsyncIterator[tuple[Served, Script]]:
    """A gateway that asks about each call of a client."""
    (home / "rules.yaml").write_text(RULE)
    script = Script(*steps)
    own: dict[str, Any] = {
        "compat": {"openai": "script", "anthropic": "script"},
        "policy": {"rules": [str(home / "rules.yaml")]},
    }
    for name, values in (plugin or {}).items():
        own[name] = {**own.get(name, {}), **values}
    section = {"port": 0, **sections.pop("gateway", {})}
    config = settings(home, gateway=section, plugin=own, **sections)
    async with (
        Gateway(config, builtin=NAMES, plugins=[Scripted(script)]) as gate,
        listen(gate) as listener,
        aiohttp.ClientSession() as http,
    ):
        yield Served(gate, listener, http), script


class Held:
    """A client whose stream is held."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer
        self.before = ""

    async def question(self) -> str:
        """Return the id of the next question."""
        while True:
            line = (await self.answer.content.readline()).decode()
            assert line, self.before
            if line.startswith(": approval "):
                return line.removeprefix(": approval ").strip()
            self.before += line

    async def rest(self) -> str:
        """Return all that it is sent but for questions."""
        return self.before + (await self.answer.content.read()).decode()


@asynccontextmanager
async def held(one: Served, path: str, made: Any = None, **more: Any) -> AsyncIterator[Held]:
    async with one.http.post(one.url + path, json=made or body(path), **more) as answer:
        assert answer.status == 200, await answer.text()
        yield Held(answer)


async def resolve(one: Served, question: str, decision: str, **more: Any) -> tuple[int, Any]:
    """Answer a question; return what comes of it."""
    headers = {"headers": more.pop("headers")} if "headers" in more else {}
    asked = {"id": question, "decision": decision, **more}
    return await one.post("/v1/operations/approvals.resolve", asked, **headers)


async def decided(one: Served) -> list[str]:
    """Return what became of the calls, the oldest first."""
    _, found = await one.get("/v1/audit")
    rows = [row for row in found["entries"] if row["kind"] == "tool_decided"]
    return [row["outcome"] for row in sorted(rows, key=lambda row: row["seq"])]


async def waiting(one: Served, count: int) -> list[Any]:
    """Return the questions once there are so many."""
    while True:
        found: list[Any] = (await one.get("/v1/approvals"))[1]["approvals"]
        if len(found) == count:
            return found


# -- allowed, denied, expired -----------------------------------------------------------


@EACH
@pytest.mark.parametrize("decision", ["allow-once", "deny"])
async def test_a_call_comes_with_a_yes_alone(path: str, decision: str, tmp_path: Path) -> None:
    async with served(tmp_path, LIST, say(NEVER)) as (one, _), held(one, path) as client:
        question = await client.question()
        assert (await resolve(one, question, decision))[0] == 200
        rest = await client.rest()
        assert ("list-it" in rest, NEVER in rest) == (
            (True, False) if decision == "allow-once" else (False, True)
        )
        assert await decided(one) == ["allow" if decision == "allow-once" else "deny"]


@EACH
async def test_a_question_that_nobody_answers_is_a_no(path: str, tmp_path: Path) -> None:
    plugin = {"compat": {"hold_seconds": 0.05}}
    async with (
        served(tmp_path, LIST, say(NEVER), plugin=plugin) as (one, _),
        held(one, path) as client,
    ):
        question = await client.question()
        rest = await client.rest()
        assert ("list-it" in rest, NEVER in rest) == (False, True)
        status, late = await resolve(one, question, "allow-once")
        assert status >= 400, late
        assert await decided(one) == ["deny"]


@EACH
async def test_who_is_not_to_be_held_is_refused_at_once(path: str, tmp_path: Path) -> None:
    plugin = {"compat": {"on_ask": "refuse"}}
    async with (
        served(tmp_path, LIST, say(NEVER), plugin=plugin) as (one, _),
        held(one, path) as client,
    ):
        rest = await client.rest()
        assert ("list-it" in rest, NEVER in rest) == (False, True)
        assert await decided(one) == ["deny"]


# -- who has gone -----------------------------------------------------------------------


@EACH
async def test_a_client_that_goes_away_takes_its_question_along(path: str, tmp_path: Path) -> None:
    async with served(tmp_path, LIST, say(NEVER)) as (one, script):
        async with held(one, path) as client:
            question = await client.question()
            client.answer.close()
        await until(lambda: not one.gate.host.running())
        assert await waiting(one, 0) == []
        status, late = await resolve(one, question, "allow-once")
        assert status >= 400, late
        assert "allow" not in await decided(one)
    assert len(script.requests) == 1


CONFIG = """\
home = {home}
default_agent = "main"
[agents.main]
model = "up/big"
[plugins]
entry_points = false
[gateway]
port = 0
[plugin.policy]
rules = [{rules}]
[plugin.embedding]
load_after_seconds = 3600
[plugin.providers.up]
kind = "openai"
base_url = {url}
api_key = "sk-upstream-canary"
"""


@asynccontextmanager
async def process(folder: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A gateway in a process of its own, and where it is."""
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hookgate", "--config", str(folder / "gate.toml"), "serve"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    note = folder / "home" / "gateway.json"
    try:
        async with asyncio.timeout(120):
            while True:
                assert running.returncode is None
                if note.exists() and (found := json.loads(note.read_text())).get("pid") == (
                    running.pid
                ):
                    break
                await asyncio.sleep(0.05)
        yield running, found["url"]
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()


@pytest.mark.slow
async def test_a_killed_gateway_has_allowed_nothing_and_is_asked_anew(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(RULE)
    asked = Call("Bash", {"command": "list-it"})

    async def answers(wire: Wire) -> None:
        said = wire.asked["messages"][-1]
        denied = said["role"] == "tool"  # It comes in two halves.
        await wire.chunks(*frames("chat", Say(NEVER * 2) if denied else asked))

    async with raw_server() as upstream, aiohttp.ClientSession() as http:
        upstream.script = answers
        config = CONFIG.format(
            home=json.dumps(str(tmp_path / "home")),
            rules=json.dumps(str(tmp_path / "rules.yaml")),
            url=json.dumps(upstream.url),
        )
        (tmp_path / "gate.toml").write_text(config)
        made = {**body(CHAT), "model": "up/big"}

        async with process(tmp_path) as (first, url), http.post(url + CHAT, json=made) as answer:
            client = Held(answer)
            old = await client.question()
            first.kill()
            with pytest.raises(aiohttp.ClientError):
                await client.rest()
            assert "list-it" not in client.before
        async with process(tmp_path) as (_, url):
            resolving = f"{url}/v1/operations/approvals.resolve"
            late = {"id": old, "decision": "allow-once"}
            async with http.post(resolving, json=late) as told:
                assert told.status >= 400, await told.text()
            async with http.post(url + CHAT, json=made) as answer:
                client = Held(answer)
                new = await client.question()
                async with http.get(f"{url}/v1/approvals") as listed:
                    rows = (await listed.json())["approvals"]
                assert [row["id"] for row in rows] == [new] != [old]
                async with http.post(resolving, json={"id": new, "decision": "deny"}) as told:
                    assert told.status == 200
                rest = await client.rest()
                assert ("list-it" in rest, NEVER in rest) == (False, True), rest


# -- who answers ------------------------------------------------------------------------


@EACH
async def test_of_two_answers_at_once_one_counts(path: str, tmp_path: Path) -> None:
    async with served(tmp_path, LIST, say(NEVER)) as (one, _), held(one, path) as client:
        question = await client.question()
        said = ("deny", "allow-once", "deny", "allow-once")
        told = await asyncio.gather(*(resolve(one, question, decision) for decision in said))
        taken = [decision for decision, (status, _) in zip(said, told, strict=True) if status < 400]
        assert len(taken) == 1
        rest = await client.rest()
        assert ("list-it" in rest) == (taken == ["allow-once"])
        assert await decided(one) == ["allow" if taken == ["allow-once"] else "deny"]


def signed(form: bytes) -> dict[str, str]:
    stamp = str(int(time.time()))
    digest = hmac.new(KEY.encode(), f"v0:{stamp}:".encode() + form, hashlib.sha256).hexdigest()
    kind = "application/x-www-form-urlencoded"
    signature = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={digest}"}
    return {**signature, "Content-Type": kind}


@EACH
@pytest.mark.parametrize("button", [0, -1], ids=["allow", "deny"])
async def test_it_is_answered_by_a_button_in_slack(
    path: str, button: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Channels begin to listen a little after the gateway does.
    monkeypatch.setattr(channels, "LATE_SECONDS", 0.0)
    shown: asyncio.Queue[Any] = asyncio.Queue()

    async def slack(request: web.Request) -> web.Response:
        shown.put_nowait(await request.json())
        return web.json_response({"ok": True, "ts": "900.1"})

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", slack)
    async with TestServer(app) as platform:
        approver: Any = {"sender": "U9", "account": "A1", "principal": "ada", "peer": "D9"}
        approver |= {"channels": ["compat"]}
        api = f"http://127.0.0.1:{platform.port}/api"
        work: Any = {"kind": "slack", "api": api, "approvers": [approver], "streaming": False}
        plugin = {"channels": {"work": work}, "policy": {"approvals": {"approvers": ["ada"]}}}
        secrets = {"work_secret": KEY, "work_token": "xoxb-canary"}
        async with AsyncExitStack() as stack:
            one, _ = await stack.enter_async_context(
                served(tmp_path, LIST, say(NEVER), plugin=plugin, secrets=secrets)
            )
            asking = Event("approval", {}, scope="approve")
            await until(lambda: one.gate.host.events.reaches(asking))
            client = await stack.enter_async_context(held(one, path))
            await client.question()
            while "blocks" not in (sent := await shown.get()):
                pass
            assert "list-it" in sent["text"]
            pressed = {
                "type": "block_actions",
                "api_app_id": "A1",
                "channel": {"id": "D9"},
                "actions": [
                    {"value": sent["blocks"][-1]["elements"][button]["value"], "action_ts": "1.2"}
                ],
            }
            for who in ("U1", "U9"):
                told = json.dumps({**pressed, "user": {"id": who}})
                form = urlencode({"payload": told}).encode()
                url = f"{one.url}/webhook/work"
                async with one.http.post(url, data=form, headers=signed(form)) as taken:
                    assert taken.status == 200
                if who == "U1":
                    # Somebody else has pressed it: the question still waits.
                    await waiting_for(one, "ada")
            rest = await client.rest()
            assert ("list-it" in rest, NEVER in rest) == (
                (True, False) if button == 0 else (False, True)
            )


async def waiting_for(one: Served, who: str) -> None:
    """Look that a question waits for somebody."""
    _, found = await one.get("/v1/audit")
    assert "tool_decided" not in [row["kind"] for row in found["entries"]], who


@EACH
async def test_what_is_always_allowed_is_those_arguments_until_it_is_taken_back(
    path: str, tmp_path: Path
) -> None:
    steps = (LIST, LIST, call(shell("list-it --all")), say(NEVER), LIST, say(NEVER))
    more = {"headers": {"session-id": "s1"}}
    async with served(tmp_path, *steps) as (one, _):
        async with held(one, path, **more) as client:
            question = await client.question()
            _, told = await resolve(one, question, "allow-always")
            assert "list-it" in await client.rest()
        async with held(one, path, **more) as client:
            assert "list-it" in await client.rest(), "nobody is asked"
        async with held(one, path, **more) as client:
            await resolve(one, await client.question(), "deny")
            assert NEVER in await client.rest()
        assert (await one.post("/v1/operations/approvals.revoke", {"id": told["grant"]}))[0] == 200
        async with held(one, path, **more) as client:
            await resolve(one, await client.question(), "deny")
            rest = await client.rest()
            assert ("list-it" in rest, NEVER in rest) == (False, True)
        assert await decided(one) == ["allow", "allow", "deny", "deny"]


# -- what an answer is to ---------------------------------------------------------------


@EACH
async def test_an_answer_is_to_the_arguments_that_were_shown(path: str, tmp_path: Path) -> None:
    async with served(tmp_path, LIST, say(NEVER)) as (one, _), held(one, path) as client:
        question = await client.question()
        (row,) = await waiting(one, 1)
        status, told = await resolve(one, question, "allow-once", digest="0" * 64)
        assert status >= 400, told
        assert await waiting(one, 1) == [row]
        assert (await resolve(one, question, "allow-once", digest=row["digest"]))[0] == 200
        assert "list-it" in await client.rest()


async def test_no_item_of_a_request_answers_a_question_of_another_session(tmp_path: Path) -> None:
    async with (
        served(tmp_path, LIST, say("and what?"), say(NEVER)) as (one, _),
        held(one, RESPONSES, headers={"session-id": "s1"}) as client,
    ):
        question = await client.question()
        item = {
            "type": "mcp_approval_response",
            "approval_request_id": question,
            "approve": True,
        }
        for session in ("s1", "s2"):
            made = {**body(RESPONSES), "input": [{"role": "user", "content": "go"}, item]}
            async with one.http.post(
                one.url + RESPONSES, json=made, headers={"session-id": session}
            ) as answer:
                assert "list-it" not in await answer.text()
            assert len(await waiting(one, 1)) == 1
        await resolve(one, question, "deny")
        assert "list-it" not in await client.rest()
        assert await decided(one) == ["deny"]


@EACH
async def test_a_client_cannot_answer_what_it_is_asked_about(path: str, tmp_path: Path) -> None:
    section, made = tokens(
        client={"scopes": ["chat"]},
        # Of another channel.
        other={"scopes": ["approve"], "channels": ["telegram"]},
        boss={"scopes": ["approve", "read"]},
    )
    async with (
        served(tmp_path, LIST, say(NEVER), plugin=WAITS, gateway=section) as (one, _),
        held(one, path, **bearer(made["client"])) as client,
    ):
        question = await client.question()
        for who in ("client", "other"):
            status, told = await resolve(one, question, "allow-once", **bearer(made[who]))
            assert status >= 400, (who, told)
        assert (await resolve(one, question, "deny", **bearer(made["boss"])))[0] == 200
        rest = await client.rest()
        assert ("list-it" in rest, NEVER in rest) == (False, True)


# -- two at once ------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("second", ["allow-once", "deny"])
async def test_of_two_calls_none_comes_without_a_yes_to_both(
    path: str, second: str, tmp_path: Path
) -> None:
    both = call(shell("list-it"), shell("show-it", 2))
    async with served(tmp_path, both, say(NEVER)) as (one, _), held(one, path) as client:
        first = await client.question()
        assert (await resolve(one, first, "allow-once"))[0] == 200
        assert (await resolve(one, await client.question(), second))[0] == 200
        rest = await client.rest()
        come = ("list-it" in rest, "show-it" in rest, NEVER in rest)
        assert come == ((True, True, False) if second == "allow-once" else (False, False, True))


@EACH
async def test_answers_to_two_clients_of_one_session_do_not_cross(
    path: str, tmp_path: Path
) -> None:
    def step(request: Any) -> Any:
        text = request.messages[-1].text
        return call(shell(text)) if text.startswith("run ") else say(NEVER)

    more = {"headers": {"session-id": "s1"}}
    async with (
        served(tmp_path, step, step, step) as (one, _),
        held(one, path, body(path, "run this"), **more) as this,
        held(one, path, body(path, "run that"), **more) as that,
    ):
        first, second = await this.question(), await that.question()
        shown = {row["id"]: row["arguments"]["command"] for row in await waiting(one, 2)}
        assert shown == {first: "run this", second: "run that"}
        await resolve(one, second, "allow-once")
        assert "run that" in await that.rest()
        await resolve(one, first, "deny")
        rest = await this.rest()
        assert ("run this" in rest, NEVER in rest) == (False, True)
