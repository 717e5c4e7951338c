"""The examples of deploy/proxy in front of gateways in processes of their own, on PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from tests.cli.test_serve import free_port
from tests.core.gateway.test_chat import Gate
from tests.support.script import Script, Scripted
from tests.support.wire import bearer, serving, tokens

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parent.parent.parent / "deploy" / "proxy"
LIMIT = 60.0
NAME = "hookgate.example"
"""By which clients know the proxy."""


# -- the proxies ---------------------------------------------------------------------


def example(name: str, front: int, gateways: tuple[int, int]) -> str:
    """Return an example with other ports; each of its own stands there."""
    text = (EXAMPLES / name).read_text()
    for old, new in (("7201", gateways[0]), ("7202", gateways[1])):
        assert f"127.0.0.1:{old}" in text
        text = text.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
    return text.replace(":8080", f":{front}").replace("listen 8080;", f"listen {front};")


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


PROXIES: dict[str, tuple[str, Callable[[Path, str], list[str]]]] = {
    "nginx": ("nginx.conf", nginx),
    "haproxy": ("haproxy.cfg", haproxy),
    "caddy": ("Caddyfile", caddy),
}


@pytest.fixture(params=PROXIES)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed: `apt-get install {name}`")
    return name


@asynccontextmanager
async def proxy(kind: str, folder: Path, gateways: tuple[int, int]) -> AsyncIterator[str]:
    """Run a proxy of this kind in front of gateways on these ports."""
    front = free_port()
    folder.mkdir()  # noqa: ASYNC240 - at once
    name, command = PROXIES[kind]
    words = command(folder, example(name, front, gateways))
    with (folder / "out").open("wb") as out:
        environ = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
        process = await asyncio.create_subprocess_exec(*words, stdout=out, stderr=out, env=environ)
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
    """Two gateways on one database, each in a process of its own."""

    def __init__(self, folder: Path, url: str) -> None:
        wire, made = tokens(ann={"scopes": ["chat", "read"]})
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
            [gateway]
            port = {port}
            allowed_hosts = [{json.dumps(NAME)}]
            trusted_proxies = ["127.0.0.1"]
            [gateway.tokens.ann]
            digest = "{wire["tokens"]["ann"]["digest"]}"
            scopes = ["chat", "read"]
            [plugin.storage]
            url = {json.dumps(url)}
            fallback = "refuse"
            [plugin.embedding]
            load_after_seconds = 3600
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

    async def end(self, number: int) -> None:
        """End one by SIGTERM, which it has to do well."""
        process = self.processes[number]
        process.terminate()
        async with asyncio.timeout(LIMIT):
            assert await process.wait() == 0, self.log(number)

    def log(self, number: int) -> str:
        return (self._folder / f"{number}.log").read_text()[-3000:]

    async def close(self) -> None:
        for process in self.processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()


class Users:
    """People who ask by messages, streams and sockets, and what went wrong with that."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.url = url
        self.headers = headers
        self.failed: list[Any] = []
        self.answered = {"message": 0, "stream": 0, "socket": 0}
        self.over = False

    @asynccontextmanager
    async def asking(self, number: int) -> AsyncIterator[None]:
        kinds = (self._message, self._stream, self._socket)
        limit = aiohttp.ClientTimeout(total=LIMIT)
        async with aiohttp.ClientSession(
            self.url, headers=self.headers, timeout=limit, connector=aiohttp.TCPConnector(limit=0)
        ) as http:
            tasks = [
                asyncio.create_task(self._keep(kinds[n % 3], http, f"p{n}")) for n in range(number)
            ]
            try:
                yield
            finally:
                self.over = True
                await asyncio.gather(*tasks)

    async def _keep(self, ask: Any, http: aiohttp.ClientSession, peer: str) -> None:
        body = {"content": "what is 2*3?", "peer": peer}
        while not self.over:
            try:
                await ask(http, body)
            except (aiohttp.ClientError, OSError, TimeoutError, AssertionError) as error:
                self.failed.append((ask.__name__, repr(error)))
            await asyncio.sleep(0.05)

    async def _message(self, http: aiohttp.ClientSession, body: dict[str, str]) -> None:
        async with http.post("/v1/turns", json=body) as answer:
            text = await answer.text()
            assert answer.status == 200, (answer.status, text)
            assert json.loads(text)["text"] == "2*3 = 6.", text
        self.answered["message"] += 1

    async def _stream(self, http: aiohttp.ClientSession, body: dict[str, str]) -> None:
        accept = {"Accept": "text/event-stream"}
        async with http.post("/v1/turns", json=body, headers=accept) as answer:
            text = await answer.text()
            assert answer.status == 200, (answer.status, text)
            assert "event: done" in text, text
        self.answered["stream"] += 1

    async def _socket(self, http: aiohttp.ClientSession, body: dict[str, str]) -> None:
        """Talk over one socket until the gateway says that it stops; then come to another one."""
        stopping = False
        async with http.ws_connect("/ws") as raw:
            number = 0
            while not (stopping or self.over):
                number += 1
                asked = {"jsonrpc": "2.0", "id": number, "method": "chat.send", "params": body}
                # What is sent to a socket that closes has not begun; what it told is read yet.
                with suppress(ConnectionResetError):
                    await raw.send_json(asked)
                while True:
                    message = await raw.receive(timeout=LIMIT)
                    if stopping and message.type is not aiohttp.WSMsgType.TEXT:
                        break  # It was told, and comes to another one.
                    assert message.type is aiohttp.WSMsgType.TEXT, (message, stopping)
                    frame = json.loads(message.data)
                    stopping = stopping or frame.get("method") == "stopping"
                    if "error" in frame:
                        # It has not begun, and is sent again elsewhere.
                        assert stopping, frame
                        assert frame["error"]["data"]["code"] == "stopping", frame
                        break
                    if frame.get("method") == "done":
                        assert frame["params"]["text"] == "2*3 = 6.", frame
                        self.answered["socket"] += 1
                        break
                await asyncio.sleep(0.05)


async def test_rolling_restarts_behind_a_proxy_fail_no_request(
    kind: str, url: str, tmp_path: Path, short: bool
) -> None:
    fleet = Fleet(tmp_path, url)
    try:
        await fleet.start(0)
        await fleet.start(1)
        async with proxy(kind, tmp_path / "proxy", fleet.ports) as front:
            fleet_users = Users(front, fleet.headers)
            async with fleet_users.asking(20):
                for turn in range(3 if short else 20):
                    before = dict(fleet_users.answered)
                    await fleet.end(turn % 2)
                    await fleet.start(turn % 2)
                    # What the proxy needs to see that it is back.
                    await asyncio.sleep(3)
                    answered = fleet_users.answered
                    assert all(answered[one] > before[one] for one in before), (before, answered)
    finally:
        await fleet.close()
    assert fleet_users.failed == []


# -- streams -------------------------------------------------------------------------


async def test_a_stream_goes_out_as_it_comes_and_a_socket_goes_through(
    kind: str, tmp_path: Path
) -> None:
    wire, made = tokens(ann={"scopes": ["chat", "read"]})
    wire |= {"trusted_proxies": ["127.0.0.1"], "allowed_hosts": [NAME]}
    gate = Gate()
    async with serving(Scripted(Script(gate.stops())), wire=wire) as served:
        port = served.listener.port
        headers = {**bearer(made["ann"])["headers"], "Host": NAME}
        async with (
            proxy(kind, tmp_path / "proxy", (port, port)) as front,
            aiohttp.ClientSession(front, headers=headers) as http,
        ):
            accept = {"Accept": "text/event-stream"}
            body = {"content": "x"}
            async with http.post("/v1/turns", json=body, headers=accept) as answer:
                assert answer.status == 200
                seen = b""
                async with asyncio.timeout(10):
                    while b"event: started" not in seen and b"event: accepted" not in seen:
                        seen += await answer.content.readany()
                        if gate.reached.is_set():
                            break
                assert not gate.open.is_set()
                assert seen, "something has come while the turn still runs"
                async with http.ws_connect("/ws") as raw:
                    hello = await raw.receive_json()
                    assert hello["params"]["principal"] == "token:ann"
                gate.open.set()
                assert b"event: done" in await answer.content.read()
            async with http.get("/v1/status", headers={"Host": "evil.example"}) as answer:
                assert answer.status == 421, "the name that clients use comes through"


def test_the_example_for_envoy_is_well_formed_and_names_what_the_others_do() -> None:
    told = yaml.safe_load((EXAMPLES / "envoy.yaml").read_text())
    (cluster,) = told["static_resources"]["clusters"]
    (check,) = cluster["health_checks"]
    assert check["http_health_check"]["path"] == "/ready"
    (listener,) = told["static_resources"]["listeners"]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    assert manager["upgrade_configs"] == [{"upgrade_type": "websocket"}]
    (route,) = manager["route_config"]["virtual_hosts"][0]["routes"]
    assert route["route"]["retry_policy"]["retry_on"] == "connect-failure"


def test_the_examples_pass_the_proxies_own_checks(kind: str, tmp_path: Path) -> None:
    name, command = PROXIES[kind]
    words = command(tmp_path, example(name, free_port(), (7201, 7202)))
    check = {
        "nginx": [*words, "-t"],
        "haproxy": [*words, "-c"],
        "caddy": ["caddy", "validate", *words[2:]],
    }[kind]
    environ = {**os.environ, "HOME": str(tmp_path)}
    ran = subprocess.run(check, capture_output=True, text=True, check=False, env=environ)
    assert ran.returncode == 0, ran.stdout + ran.stderr
