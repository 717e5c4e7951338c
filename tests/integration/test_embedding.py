"""A gateway as a value in somebody's program: the page that shows it, and what holds there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.support.script import Script, Scripted, gateway, say

from hookgate.core.domain.errors import StartError
from hookgate.core.gateway.access.tokens import new_token

PAGE = Path(__file__).parents[2] / "docs" / "embedding.md"


@asynccontextmanager
async def serving(app: web.Application) -> AsyncIterator[str]:
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{site.port}"
    finally:
        await runner.cleanup()


async def asked(url: str, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
    """Return status and answer of a turn."""
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{url}/v1/turns", json={"content": "hello"}, headers=headers) as answer,
    ):
        return answer.status, await answer.json()


def example(number: int) -> str:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[number]


async def test_the_application_of_the_page_serves_its_own_page_and_two_gateways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example(1), str(PAGE), "exec"), names)
    app = await names["make_app"](tmp_path)
    async with serving(app) as url, aiohttp.ClientSession() as http:
        async with http.get(url) as answer:
            assert await answer.text() == "a page of mine"
        for name in ("one", "two"):
            assert (await asked(f"{url}/{name}"))[0] == 200
            async with http.get(f"{url}/{name}/v1/sessions") as answer:
                assert len((await answer.json())["sessions"]) == 1
        assert (tmp_path / "one" / "hookgate.db").exists()
        assert (tmp_path / "two" / "hookgate.db").exists()
        socket = await http.ws_connect(f"{url}/one/ws")
        assert (await socket.receive_json())["method"] == "hello"
        await app.shutdown()
        while (frame := await socket.receive()).type is aiohttp.WSMsgType.TEXT:
            pass
        assert frame.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING)
        assert socket.close_code == 1001


async def test_the_script_of_the_page_prints_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    names: dict[str, Any] = {}
    source = example(0).replace("asyncio.run(main())", "")
    exec(compile(source, str(PAGE), "exec"), names)
    await names["main"]()
    assert "391" in capsys.readouterr().out


async def test_the_checks_hold_where_a_gateway_is_mounted(tmp_path: Path) -> None:
    token, digest = new_token()
    tokens = {"app": {"digest": digest}}
    bearer = {"Authorization": f"Bearer {token}"}
    script = Scripted(Script(say("ok")))
    async with gateway(script, home=tmp_path, gateway={"tokens": tokens}) as gate:
        parent = web.Application()
        parent.add_subapp("/ai", gate.app())
        async with serving(parent) as url:
            assert (await asked(f"{url}/ai"))[0] == 401
            assert (await asked(f"{url}/ai", bearer))[0] == 200
            for header, value, status in (
                ("Host", "evil.example", 421),
                ("Origin", "http://evil.example", 403),
            ):
                assert (await asked(f"{url}/ai", {**bearer, header: value}))[0] == status
            assert (await asked(f"{url}/ai/none", bearer))[0] == 404


async def test_a_proxy_before_a_mounted_gateway_without_tokens_is_refused() -> None:
    async with gateway(Scripted(Script(say("ok")))) as gate:
        parent = web.Application()
        parent.add_subapp("/ai", gate.app())
        async with serving(parent) as url:
            status, answer = await asked(f"{url}/ai", {"X-Forwarded-For": "203.0.113.9"})
    assert (status, answer["error"]["data"]["code"]) == (400, "forwarded")


async def test_a_gateway_that_does_not_run_cannot_be_mounted() -> None:
    gate = gateway(Scripted(Script(say("ok"))))
    with pytest.raises(StartError, match="async with Gateway"):
        gate.app()


async def test_a_turn_is_shown_in_one_line_without_what_was_said() -> None:
    running: list[str] = []
    async with gateway(Scripted(Script(say("the answer")))) as gate:
        turn = await gate.chat(
            "the secret", sink=lambda _: running.extend(map(repr, gate.host.running()))
        )
    shown = rf"<Turn {turn.id} agent=\w+ session={re.escape(str(turn.session))} "
    assert re.fullmatch(f"{shown}done>", repr(turn))
    assert any(re.fullmatch(f"{shown}running>", line) for line in running)


ALONE = """
import asyncio, sys
from hookgate import Gateway

async def main():
    async with Gateway() as gateway:
        print((await gateway.chat("what is 17*23?")).answer)
        print([name for name in sys.modules if name.split(".")[0] == "aiohttp"])
        gateway.app()
        print("aiohttp.web" in sys.modules)

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_gateway_that_nobody_serves_loads_no_server(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALONE],
        env={**os.environ, "HOOKGATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert [line for line in done.stdout.splitlines() if not line.startswith("{")] == [
        "17*23 = 391.",
        "[]",
        "True",
    ]
