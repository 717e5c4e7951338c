"""A small gateway that speaks OpenClaw's frames, as the real one does."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import WSMsgType, web

CONFIG: dict[str, Any] = {
    "gateway": {"port": 18789, "auth": {"token": "__OPENCLAW_REDACTED__"}},
    "agents": {"list": [{"id": "main"}]},
    "tools": {"deny": ["browser", "group:automation"], "exec": {"ask": "always"}},
    "mcp": {
        "servers": {
            "docs": {"command": "npx", "args": ["-y", "docs"], "env": {"KEY": "secret"}},
            "far": {"url": "https://mcp.example.com/mcp", "enabled": False},
        }
    },
    "plugins": {"entries": {"voice-call": {"enabled": True}, "matrix": {"enabled": False}}},
}


class Claw:
    """The gateway.

    Attributes:
        config: Its settings.
        token: What a client has to bring.
        connections: How often somebody has connected.
        greetings: The tokens that were brought.
        asked: What it was asked: method and params.
        modern: Whether it wants `replacePaths`, and has a catalogue of tools.
        meddling: So often somebody else changes the settings before a patch.
        silent: Whether it answers nothing but the greeting; `heard` says that it was asked.
    """

    def __init__(self) -> None:
        self.config = json.loads(json.dumps(CONFIG))
        self.token = "claw-token"
        self.connections = 0
        self.greetings: list[Any] = []
        self.asked: list[tuple[str, Any]] = []
        self.modern = False
        self.meddling = 0
        self.silent = False
        self.heard = asyncio.Event()
        self.url = ""
        self.sockets: set[web.WebSocketResponse] = set()

    def hash(self) -> str:
        return hashlib.sha256(json.dumps(self.config).encode()).hexdigest()

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.connections += 1
        self.sockets.add(socket)
        challenge = {"nonce": "n", "ts": 1737264000000}
        await socket.send_json(
            {"type": "event", "event": "connect.challenge", "payload": challenge}
        )
        greeted = False
        async for message in socket:
            assert message.type is WSMsgType.TEXT
            frame = json.loads(message.data)
            assert set(frame) == {"type", "id", "method", "params"}
            assert frame["type"] == "req"
            answer = {"type": "res", "id": frame["id"]}
            if not greeted:
                error = self.greeting(frame["method"], frame["params"])
                greeted = not error
                payload = {
                    "type": "hello-ok",
                    "protocol": 4,
                    "server": {"version": "2026.6.1", "connId": "c"},
                    "features": {"methods": ["config.get"] + ["tools.catalog"] * self.modern},
                    "policy": {"maxPayload": 1, "maxBufferedBytes": 1, "tickIntervalMs": 1},
                }
            elif self.silent:
                self.heard.set()
                continue
            else:
                self.asked.append((frame["method"], frame["params"]))
                payload, error = self.answer(frame["method"], frame["params"])
            await socket.send_json({"type": "event", "event": "tick", "payload": {"ts": 1}})
            if error:
                shape = {"code": "INVALID_REQUEST", "message": error}
                await socket.send_json({**answer, "ok": False, "error": shape})
            else:
                await socket.send_json({**answer, "ok": True, "payload": payload})
        return socket

    def greeting(self, method: str, params: Any) -> str:
        if method != "connect":
            return "first request must be connect"
        self.greetings.append(params.get("auth", {}).get("token"))
        known = {
            *("minProtocol", "maxProtocol", "client", "role", "scopes", "caps", "auth"),
            *("commands", "permissions", "locale", "userAgent", "device"),
        }
        if set(params) - known or not params["minProtocol"] <= 4 <= params["maxProtocol"]:
            return "invalid connect params"
        client = params["client"]
        if (client["id"], client["mode"]) != ("gateway-client", "backend"):
            return "device identity required"
        if "operator.admin" not in params["scopes"]:
            return "missing scope: operator.admin"
        if params.get("auth", {}).get("token") != self.token:
            return "unauthorized: gateway token mismatch"
        return ""

    def answer(self, method: str, params: Any) -> tuple[Any, str]:
        if method == "config.get":
            assert params == {}
            return {
                "path": "/home/ada/.openclaw/openclaw.json",
                "exists": True,
                "valid": True,
                "hash": self.hash(),
                "config": self.config,
            }, ""
        if method == "config.patch":
            return self.patched(params)
        if method == "tools.catalog" and self.modern:
            tools = [
                {"id": "read", "label": "Read", "description": "Read files", "source": "core"},
                {"id": "exec", "label": "Exec", "description": "Run commands", "source": "core"},
            ]
            groups = [{"id": "core", "label": "Core", "source": "core", "tools": tools}]
            return {"agentId": "main", "profiles": [], "groups": groups}, ""
        return None, f"unknown method: {method}"

    def patched(self, params: Any) -> tuple[Any, str]:
        assert set(params) <= {"raw", "baseHash", "replacePaths"}
        if self.meddling:
            self.meddling -= 1
            self.config["tools"]["deny"].append(f"other{self.meddling}")
        if params.get("baseHash") != self.hash():
            return None, "config changed since last load; re-run config.get and retry"
        patch = json.loads(params["raw"])
        for name, entries in patch["tools"].items():
            shorter = set(self.config["tools"].get(name, ())) - set(entries)
            if self.modern and shorter and f"tools.{name}" not in params.get("replacePaths", ()):
                return None, f"tools.{name} would lose entries; list it in replacePaths"
        self.config["tools"] |= patch["tools"]
        return {"ok": True, "config": self.config}, ""

    async def cut(self) -> None:
        """End the connections, as a gateway does that starts again."""
        for socket in list(self.sockets):
            await socket.close(code=1012)


@asynccontextmanager
async def claw() -> AsyncIterator[Claw]:
    """Run a gateway."""
    gate, app = Claw(), web.Application()
    app.router.add_get("/", gate.serve)
    async with served(app) as port:
        gate.url = f"ws://127.0.0.1:{port}"
        try:
            yield gate
        finally:
            await gate.cut()


@asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[int]:
    """Serve an application at a port of its own."""
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
