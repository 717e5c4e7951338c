"""Tools of guests in a chat turn: over a socket, by all plugins, under the shipped policy."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.builtin_plugins.egress.upstream import Hit, Upstream, respond, upstream
from tests.builtin_plugins.wasm.folders import constant, module, tool, write_plugin
from tests.support.wire import Socket

from hookgate.builtin_plugins import BUILTIN
from hookgate.core.gateway.serve import listen
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway

GUESTS = Path(__file__).parents[2] / "examples" / "guests"


@pytest.fixture
async def web() -> AsyncIterator[Upstream]:
    async def document(hit: Hit, writer: Any) -> None:
        body = json.dumps({"version": {"major": 7}}).encode()
        await respond(writer, 200, body, content_type="application/json")

    async with upstream() as one:
        one.answers["/status"] = document
        yield one


@asynccontextmanager
async def talking(home: Path, folder: Path) -> AsyncIterator[tuple[Gateway, Socket]]:
    """A gateway with all that comes with hookgate, and a socket to it."""
    config: dict[str, Any] = {
        "home": home,
        "gateway": {"port": 0},
        "plugins": {"entry_points": False, "disable": ["embedding"]},
        "plugin": {"wasm": {"folders": [str(folder)]}},
    }
    gate = Gateway(Settings.model_validate(config), builtin=BUILTIN)
    async with (
        gate,
        listen(gate) as listener,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{listener.url}/ws") as raw,
    ):
        socket = Socket(raw)
        await socket.next()
        yield gate, socket


async def called(
    socket: Socket, name: str, *, peer: str = "main", **arguments: Any
) -> dict[str, Any]:
    """Have the demo model call a tool in a turn of its own; return the tool's result."""
    await socket.send("chat.send", content=f"/call {name} {json.dumps(arguments)}", peer=peer)
    result = await socket.until("tool_result")
    assert (await socket.until("done"))["ending"] == "done"
    return result


async def test_tools_in_three_languages_run_in_a_chat_turn(tmp_path: Path, web: Upstream) -> None:
    folder = tmp_path / "plugins"
    for name in ("echo-c", "text-rust", "http-assemblyscript"):
        shutil.copytree(GUESTS / name, folder / name)
    manifest = folder / "http-assemblyscript" / "hookgate-plugin.toml"
    url = f"http://127.0.0.1:{web.port}"
    manifest.write_text(manifest.read_text().replace("https://api.example.com", url))
    async with asyncio.timeout(50), talking(tmp_path / "home", folder) as (_, socket):
        echoed = await called(socket, "echo", text="to be")
        counted = await called(socket, "text_count", text="two words")
        fetched = await called(socket, "json_field", url=f"{url}/status", field="version.major")
        # What was fetched taints its session, in which sending is asked about from then on.
        elsewhere = {"url": f"{url}5/status", "field": "version"}
        refused = await called(socket, "json_field", peer="other", **elsewhere)
        flags = (await socket.result("tool.list", name="json_field"))["tools"][0]["flags"]
    assert (echoed["content"], echoed["status"]) == ("to be", "done")
    assert "9" in counted["content"]
    assert "2" in counted["content"]
    assert "7" in fetched["content"]
    assert refused["is_error"]
    assert [hit.path for hit in web.hits] == ["/status"]
    assert flags["sends_externally"] == {
        "value": True,
        "standing": "proven",
        "ground": f"http:GET {url}/*",
    }


async def test_a_guest_that_ends_badly_ends_no_turn(tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    loops = module("(loop $again (br $again)) (i64.const 0)")
    write_plugin(folder / "looping", loops, tools=[tool("loop")], limits={"seconds": 0.2})
    write_plugin(folder / "trapping", module("unreachable"), tools=[tool("trap")])
    async with asyncio.timeout(50), talking(tmp_path / "home", folder) as (_, socket):
        late = await called(socket, "loop")
        trapped = await called(socket, "trap")
    assert (late["is_error"], late["status"]) == (True, "timeout")
    assert "'looping'" in late["content"]
    assert "seconds = 0.2" in late["content"]
    assert "'trapping'" in trapped["content"]


async def test_a_module_that_was_accepted_anew_waits_in_quarantine_as_any_changed_tool(
    tmp_path: Path,
) -> None:
    folder = write_plugin(
        tmp_path / "plugins" / "greeter",
        constant(handle_tool_call={"content": "hello"}),
        tools=[tool("greet")],
    )
    async with asyncio.timeout(50), talking(tmp_path / "home", folder) as (_, socket):
        assert (await called(socket, "greet"))["content"] == "hello"
        (folder / "guest.wasm").write_bytes(constant(handle_tool_call={"content": "bye"}))
        await socket.result("reload")
        row = (await socket.result("wasm.list"))["plugins"][0]
        assert row["state"] == "changed"
        assert (await socket.result("tool.list", name="greet"))["tools"] == []
        await socket.result("accept.give", kind="guest", name="greeter", digest=row["digest"])
        (changed,) = (await socket.result("tools.changes"))["tools"]
        assert [one["part"] for one in changed["changes"]] == ["module"]
        assert "unknown tool 'greet'" in (await called(socket, "greet"))["content"]
        await socket.result("accept.give", kind="tool", name="greet", digest=changed["digest"])
        assert (await called(socket, "greet"))["content"] == "bye"
