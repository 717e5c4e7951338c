"""Twelve secrets, every failure that could show one, and every place where text leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from aiohttp import web

from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.errors import ConfigError
from hookgate.core.domain.events import Event
from hookgate.core.domain.tools import Tool, ToolCall
from hookgate.core.domain.turn import SessionKey, Turn
from hookgate.core.gateway.serve import listen
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway
from hookgate.hookspecs import hookimpl
from hookgate.kit.tooling import tool

NAMES = (
    "environment", "key-file", "settings", "provider-key", "provider-file", "provider-env",
    "access-token", "registered", "guess", "peer-token", "argument", "other-file",
)  # fmt: skip
CANARIES = {name: f"canary-{name}-0123456789" for name in NAMES}


class Leaky:
    """A plugin whose every part says a secret aloud."""

    name = "leaky"

    @hookimpl
    def list_tools(self, host: Any) -> list[Tool]:
        host.secrets.register(CANARIES["registered"])
        for name in ("environment", "key_file", "other_file", "settings"):
            assert host.secrets.get(name)

        async def tell(what: str) -> str:
            """Say it."""
            host.log.warning("told", secret=CANARIES["registered"], nested={"a": [what]})
            host.metric("leak", **{CANARIES["settings"]: CANARIES["key-file"]})
            host.standing("leaky").bad(f"cannot use {CANARIES['environment']}")
            return " ".join(CANARIES.values())

        async def fail(what: str) -> str:
            """Fail with it."""
            try:
                raise ValueError(CANARIES["key-file"])
            except ValueError as error:
                raise RuntimeError(" ".join(CANARIES.values())) from error

        return [tool(tell, flags=Flags.none()), tool(fail, flags=Flags.none())]

    @hookimpl
    def tag_turn(self, turn: Turn) -> None:
        raise RuntimeError(" ".join(CANARIES.values()))

    @hookimpl
    def before_tool_call(self, turn: Turn, call: ToolCall) -> None:
        if call.arguments.get("what") == "hook":
            raise RuntimeError(" ".join(CANARIES.values()))


@asynccontextmanager
async def upstream() -> AsyncIterator[str]:
    """A model server that answers every request with its key, as an error."""

    async def answer(request: web.Request) -> web.Response:
        said = {"error": {"message": f"bad key {dict(request.headers)} {' '.join(SHOWN)}"}}
        return web.json_response(said, status=401)

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


# What the gateway knows as secrets. A guess and an argument are no secrets of its own.
SHOWN = [value for name, value in CANARIES.items() if name not in ("guess", "argument")]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return path


def settings(home: Path, base_url: str) -> Settings:
    write(home / "keys" / "key_file", CANARIES["key-file"])
    write(home / "keys" / "other_file", CANARIES["other-file"])
    files = {
        name: str(write(home / name, CANARIES[name]))
        for name in ("provider-file", "access-token", "peer-token")
    }
    common = {"kind": "openai", "base_url": base_url}
    return Settings.model_validate(
        {
            "home": home,
            "gateway": {
                "port": 0,
                "tokens": {
                    "one": {"file": files["access-token"],
                            "scopes": ["chat", "read", "operate", "approve"]},
                    "two": {"file": files["peer-token"]},
                },
            },
            "secrets": {"settings": CANARIES["settings"]},
            "plugins": {"entry_points": False},
            "agents": {
                "demo": {"model": "demo/demo"},
                "a": {"model": "a/m"}, "b": {"model": "b/m"}, "c": {"model": "c/m"},
            },
            "default_agent": "demo",
            "bindings": [{"agent": name, "peer": name} for name in "abc"],
            "plugin": {
                "providers": {
                    "a": {**common, "api_key": CANARIES["provider-key"]},
                    "b": {**common, "api_key_file": files["provider-file"]},
                    "c": {**common, "api_key_env": "CANARY_PROVIDER"},
                }
            },
        }
    )  # fmt: skip


class Client:
    """Everything that one client of the gateway has seen."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.seen: list[str] = []
        self.last = 0

    async def call(self, method: str, **params: Any) -> None:
        """Call a method and wait for its answer, and for `done` where it is a chat."""
        self.last += 1
        frame = {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}
        await self.socket.send_str(json.dumps(frame))
        waiting = {"answer", "done"} if method == "chat.send" else {"answer"}
        while waiting:
            message = await self.socket.receive(timeout=120)
            assert message.type is aiohttp.WSMsgType.TEXT, message
            self.seen.append(message.data)
            data = json.loads(message.data)
            if data.get("id") == self.last:
                waiting.discard("answer")
                if "error" in data:
                    return
            elif data.get("method") == "done" and data["params"].get("request") == self.last:
                waiting.discard("done")


async def provoke(base: str, client: Client, session: aiohttp.ClientSession) -> list[str]:
    """Make everything fail that could show a secret; return what came back over HTTP."""
    await client.call("events.subscribe", types=["*"])
    for peer in "abc":
        await client.call("chat.send", content="hello", peer=peer)
    for what in ("tell", "fail"):
        text = f"/call {what} " + json.dumps({"what": CANARIES["registered"]})
        await client.call("chat.send", content=text)
    await client.call("chat.send", content='/call tell {"what": "hook"}')
    url = f"https://example.invalid/?key={CANARIES['settings']}"
    await client.call("chat.send", content="/call http_get " + json.dumps({"url": url}))
    for method in ("status", "plugin.list", "token.list", "audit.list", "session.list", "reload"):
        await client.call(method)
    await client.call(CANARIES["settings"])
    await client.call("status", **{CANARIES["settings"]: CANARIES["key-file"]})
    bodies = []
    for token in (CANARIES["guess"], CANARIES["access-token"] + "x"):
        headers = {"Authorization": f"Bearer {token}"}
        async with session.get(f"{base}/v1/status", headers=headers) as response:
            assert response.status == 401
            bodies.append(f"{response.headers} {await response.text()}")
    async with session.get(f"{base}/health") as response:
        bodies.append(await response.text())
    headers = {"Authorization": f"Bearer {CANARIES['access-token']}"}
    body: Mapping[str, Any] = {"content": "hello", "peer": "a"}
    async with session.post(f"{base}/v1/turns", json=body, headers=headers) as response:
        bodies.append(await response.text())
    async with session.post(
        f"{base}/v1/turns", data=f'{{"x": {CANARIES["settings"]}', headers=headers
    ) as response:
        bodies.append(await response.text())
    return bodies


async def test_no_secret_shows_anywhere_whatever_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENVIRONMENT", CANARIES["environment"])
    monkeypatch.setenv("CANARY_PROVIDER", CANARIES["provider-env"])
    async with upstream() as base_url:
        gate = Gateway(settings(tmp_path, base_url), plugins=[Leaky()])
        async with gate, listen(gate) as listener, aiohttp.ClientSession() as session:
            headers = {"Authorization": f"Bearer {CANARIES['access-token']}"}
            async with session.ws_connect(f"{listener.url}/ws", headers=headers) as socket:
                client = Client(socket)
                async with asyncio.timeout(50):
                    bodies = await provoke(listener.url, client, session)
            status = json.dumps(gate.host.status())
    out, err = capfd.readouterr()
    metrics = (tmp_path / "metrics.jsonl").read_text()
    places = {
        "socket": "\n".join(client.seen),
        "http": "\n".join(bodies),
        "status": status,
        "log": out + err,
        "metrics": metrics,
    }
    assert "told" in places["log"]
    assert "leak" in places["metrics"]
    assert "bad key" in places["socket"]
    hits = [
        (place, name)
        for place, text in places.items()
        for name, secret in CANARIES.items()
        if secret in text
    ]
    # What a client says itself comes back to it: the tool's result quotes what is no secret.
    assert {(place, name) for place, name in hits if name in ("guess", "argument")} <= {
        ("socket", "guess"),
        ("socket", "argument"),
        ("log", "guess"),
        ("log", "argument"),
    }
    assert [hit for hit in hits if hit[1] not in ("guess", "argument")] == []


# -- one secret through every sink ----------------------------------------------------

SECRET = 'sk-quokka "1/2" ünïcode:0123456789'
"""It is written in another way by JSON, by URLs and by session keys."""

WRITTEN = (
    SECRET,
    json.dumps(SECRET)[1:-1],
    json.dumps(SECRET, ensure_ascii=False)[1:-1],
    quote(SECRET),
    quote(SECRET, safe=""),
    str(SessionKey("", "", "", SECRET)).lstrip(":"),
    "quokka",
)
KEPT = ("hookgate.db", "config.toml")
"""What is the gateway's own: the store, which holds what was said for the model to read, and the
settings, which the secret stands in."""


class Telling:
    """A plugin that hands on whatever it is told."""

    name = "telling"

    @hookimpl
    def list_tools(self, host: Any) -> list[Tool]:
        async def tell(what: str) -> str:
            """Say it everywhere."""
            host.log.warning("told", what=what)
            host.metric("told", **{what: what})
            host.standing(f"part {what}").bad(f"cannot use {what}")
            host.standing("telling").note(what)
            host.events.publish(Event("told", {"what": what, what: [what]}, scope="read"))
            return f"told {what}"

        async def fail(what: str) -> str:
            """Fail with it."""
            raise RuntimeError(what)

        return [tool(tell, flags=Flags.none()), tool(fail, flags=Flags.none())]

    @hookimpl
    def before_turn(self, turn: Turn) -> None:
        turn.emit(Event("note", {"said": turn.message.text, "deep": [turn.message.text]}))


@asynccontextmanager
async def said_aloud(home: Path) -> AsyncIterator[tuple[str, aiohttp.ClientSession, list[str]]]:
    """A gateway with a secret that was said, streamed in pieces, and used as a name."""
    config = {
        "home": home,
        "gateway": {"port": 0},
        "secrets": {"key": SECRET},
        "plugins": {"entry_points": False},
        "plugin": {"awareness": {"agents": {"demo": {"force_include": ["memory"]}}},
                   "embedding": {"embedder": "none"}},
    }  # fmt: skip
    gate = Gateway(Settings.model_validate(config), plugins=[Telling()])
    async with gate, listen(gate) as listener, aiohttp.ClientSession() as session:
        async with session.ws_connect(f"{listener.url}/ws") as socket:
            client = Client(socket)
            await client.call("events.subscribe", types=["*"])
            text = json.dumps({"text": f"my key is {SECRET}"})
            for content in (
                f"/say the key is {SECRET}, I think",
                f"/call remember {text}",
                f"/call tell {json.dumps({'what': SECRET})}",
                f"/call fail {json.dumps({'what': SECRET})}",
                "what do you remember? list your cards",
            ):
                for peer in ("main", SECRET):
                    await client.call("chat.send", content=content, peer=peer)
            for method in sorted(gate.host.operations):
                if method.startswith(("chat.", "events.", "reload", "awareness.disable")):
                    continue
                await client.call(method)
            await client.call("session.history", session="demo:cli:local:main")
            await client.call("audit.list", session=str(SessionKey("demo", "cli", "local", SECRET)))
            await client.call("awareness.disable", reason=f"because of {SECRET}")
            await client.call("awareness.status")
            await client.call("no.such", key=SECRET)
            await client.call("audit.list", before=SECRET)
        yield listener.url, session, client.seen


async def test_a_secret_leaves_by_no_sink(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    places: dict[str, str] = {}
    async with asyncio.timeout(55), said_aloud(tmp_path) as (base, session, seen):
        places["socket"] = "\n".join(seen)
        body = {"content": f"/say it is {SECRET} again", "peer": "http"}
        for kind in ("text/event-stream", "application/json"):
            headers = {"Accept": kind}
            async with session.post(f"{base}/v1/turns", json=body, headers=headers) as answer:
                places[kind] = f"{answer.headers} {await answer.text()}"
        for path in ("/health", "/metrics", "/v1/status", "/v1/sessions", "/v1/audit",
                     "/v1/sessions/history?session=demo:cli:local:http",
                     f"/v1/audit?session={quote(SECRET)}", f"/v1/{quote(SECRET)}"):  # fmt: skip
            async with session.get(base + path) as answer:
                places[path] = f"{answer.headers} {await answer.text()}"
    out, err = capfd.readouterr()
    places["log"] = out + err
    places |= _written(tmp_path)
    assert {Path(place).name for place in places} >= {"turns.jsonl", "metrics.jsonl"}
    assert any(place.endswith("CAPABILITIES.md") for place in places)
    for place in ("socket", "text/event-stream", "application/json", "/v1/audit"):
        assert "[redacted]" in places[place], place
    hits = [(place, form) for place, text in places.items() for form in WRITTEN if form in text]
    assert hits == []
    # What was streamed in pieces, put together again.
    assert [form for form in WRITTEN if form in _streamed(seen)] == []
    assert "the key is [redacted], I think" in _streamed(seen)
    assert '"text":"it is [redacted] again"' in places["application/json"]


def _written(home: Path) -> dict[str, str]:
    """Return the files of a home folder that are not the gateway's own."""
    files = (path for path in home.rglob("*") if path.is_file())
    return {
        str(path.relative_to(home)): path.read_text("utf-8", "replace")
        for path in files
        if not path.name.startswith(KEPT)
    }


def _streamed(seen: list[str]) -> str:
    frames = [json.loads(text) for text in seen]
    texts = [frame["params"]["text"] for frame in frames if frame.get("method") == "text"]
    return "".join(texts)


@pytest.mark.slow
async def test_the_model_still_reads_what_was_said(tmp_path: Path) -> None:
    async with asyncio.timeout(55), said_aloud(tmp_path):
        pass
    gate = Gateway(Settings.model_validate({"home": tmp_path, "plugins": {"entry_points": False}}))
    async with gate:
        turn = await gate.chat("/context")
    texts = [message.text for message in turn.history]
    assert f"the key is {SECRET}, I think" in texts


def test_a_wrong_setting_does_not_show_the_secret_beside_it(tmp_path: Path) -> None:
    from hookgate.core.settings.file import load_settings

    path = tmp_path / "config.toml"
    path.write_text(
        f'[secrets]\nopenai = {{ value = "{CANARIES["settings"]}" }}\n'
        f'[plugin.providers.a]\nkind = "openai"\napi_key = ["{CANARIES["provider-key"]}"]\n'
    )
    with pytest.raises(ConfigError) as caught:
        Gateway(load_settings(path, environ={}))
    assert not [secret for secret in CANARIES.values() if secret in str(caught.value)]
