"""The examples of deploy/proxy: what goes through them, and their own proxies' judgement."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import aiohttp
import pytest
import yaml
from tests.cli.test_serve import free_port
from tests.core.gateway.test_chat import Gate
from tests.support.fleet import EXAMPLES, KINDS, LIMIT, NAME, PROXIES, connects, example, proxy
from tests.support.script import Script, Scripted
from tests.support.wire import bearer, serving, tokens

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", KINDS)
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


@pytest.mark.parametrize("kind", KINDS)
def test_the_examples_pass_the_proxies_own_checks(kind: str, tmp_path: Path) -> None:
    name, command = PROXIES[kind]
    words = command(tmp_path, example(name, free_port(), (free_port(), free_port())))
    check = {
        "nginx": [*words, "-t"],
        "haproxy": [*words, "-c"],
        "caddy": ["caddy", "validate", *words[2:]],
        "envoy": [*words, "--mode", "validate"],
    }[kind]
    environ = {**os.environ, "HOME": str(tmp_path)}
    ran = subprocess.run(check, capture_output=True, text=True, check=False, env=environ)
    assert ran.returncode == 0, ran.stdout + ran.stderr


BALANCER = """
defaults
    mode tcp
    timeout connect 2s
    timeout client 660s
    timeout server 660s
frontend front
    bind 127.0.0.1:{front}
    default_backend back
backend back
    option httpchk GET /ready
    server one 127.0.0.1:{port} check inter 1s send-proxy-v2 check-send-proxy
"""


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed")
async def test_a_balancer_of_the_fourth_layer_tells_who_the_client_is(tmp_path: Path) -> None:
    wire, made = tokens(ann={"scopes": ["chat", "read"]})
    front = free_port()
    wire |= {
        "trusted_proxies": ["127.0.0.1"],
        "proxy_protocol": True,
        "allowed_hosts": [f"127.0.0.1:{front}"],
    }
    async with serving(wire=wire) as served:
        config = tmp_path / "haproxy.cfg"
        config.write_text(BALANCER.format(front=front, port=served.listener.port))
        process = await asyncio.create_subprocess_exec("haproxy", "-db", "-f", str(config))
        try:
            async with asyncio.timeout(LIMIT):
                while not await connects(front):  # noqa: ASYNC110 - by another process
                    await asyncio.sleep(0.05)
            # From another address of this machine than the proxy's.
            connector = aiohttp.TCPConnector(local_addr=("127.0.0.9", 0))
            base = f"http://127.0.0.1:{front}"
            async with aiohttp.ClientSession(base, connector=connector) as http:
                async with http.post(
                    "/v1/turns", json={"content": "x"}, **bearer("wrong")
                ) as answer:
                    assert answer.status == 401
                async with http.post(
                    "/v1/turns", json={"content": "x"}, **bearer(made["ann"])
                ) as answer:
                    assert (answer.status, (await answer.json())["text"]) == (200, "well said")
                async with http.ws_connect("/ws", **bearer(made["ann"])) as raw:
                    assert (await raw.receive_json())["params"]["principal"] == "token:ann"
            assert set(served.server.gate.attempts._failures) == {"127.0.0.9"}
        finally:
            process.kill()
            await process.wait()
