"""OpenClaw, asked over its gateway's WebSocket: records, switches, and one connection for all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError
from tests.builtin_plugins.inventory import homes
from tests.builtin_plugins.inventory.acme import OWNER, running
from tests.builtin_plugins.inventory.claw import Claw, claw, served

from hookgate import (
    CapabilityChange,
    CapabilityRecord,
    RuntimeDisconnectedError,
    UnknownCapabilityError,
    UnsupportedCapabilityWriteError,
)
from hookgate.builtin_plugins.egress.service import CheckedEgress
from hookgate.builtin_plugins.inventory.record import affordance, problem_of
from hookgate.builtin_plugins.inventory.settings import InventorySettings
from hookgate.builtin_plugins.inventory.sources.openclaw import OpenClawSource
from hookgate.builtin_plugins.inventory.sources.openclaw_link import OpenClawError, OpenClawLink


def linked(url: str, token: str | None = "claw-token", **more: Any) -> OpenClawLink:
    return OpenClawLink(url, lambda: token, CheckedEgress, **more)


@asynccontextmanager
async def source(gate: Claw, token: str | None = "claw-token") -> AsyncIterator[OpenClawSource]:
    one = OpenClawSource(Path("nowhere"), linked(gate.url, token), always=True)
    try:
        yield one
    finally:
        await one.close()


async def found(one: OpenClawSource) -> dict[str, CapabilityRecord]:
    records = await one.read()
    assert [problem_of(record, "openclaw") for record in records] == [""] * len(records)
    return {record.source_key: record for record in records}


async def switched(one: OpenClawSource, action: Any, key: str) -> CapabilityRecord:
    record = (await found(one))[key]
    return await one.write(CapabilityChange(action=action, by=OWNER, record=record))


async def test_the_settings_are_records(tmp_path: Path) -> None:
    async with claw() as gate, source(gate) as one:
        records = await found(one)

    assert {key for key, record in records.items() if record.status == "disabled"} == {
        *("browser", "cron", "gateway"),
        *("far", "matrix"),
    }
    assert records["exec"].manageability == "runtime-of-record"
    assert affordance(records["exec"]).path == "runtime"
    # A group that is denied concerns others: there is no button that would not work.
    assert affordance(records["cron"]).buttons == ()
    assert "group:automation" in records["cron"].diagnostics[0]
    for key in ("docs", "far", "voice-call", "matrix"):
        assert (records[key].writable, affordance(records[key]).buttons) == (False, ())
    assert records["docs"].provenance == "/home/ada/.openclaw/openclaw.json"
    assert records["built-ins"].manageability == "observe-only"
    assert "secret" not in json.dumps([record.to_json() for record in records.values()])


async def test_without_its_gateway_the_files_are_read_and_nothing_is_switched(
    tmp_path: Path,
) -> None:
    root = homes.openclaw(tmp_path / ".openclaw")
    config = {"runtimes": ["openclaw"], "openclaw_home": str(root), "read_seconds": 10}
    async with running(home=tmp_path / "home", inventory=config) as gate:
        source = (await gate.statuses())["openclaw"]
        rows = {one.source_key: one for one in (await gate.listed(runtime="openclaw")).records}
        with pytest.raises(RuntimeDisconnectedError, match="start OpenClaw's gateway"):
            await gate.ask("disable", id=rows["exec"].id)
        degraded = gate.degraded()

    assert (source.ok, source.why, degraded) == (True, "", {})
    assert {key for key, one in rows.items() if one.status == "disabled"} == {
        *("browser", "lobster", "peekaboo")
    }
    assert rows["exec"].buttons == ()
    assert rows["linear"].description == "an MCP server at mcp.linear.app"
    assert rows[f"{tmp_path}/clawd:crypt"].agent_id == "main"
    assert rows[".agents/diagram"].description == "Draw diagrams."
    assert "its files are read instead" in rows["built-ins"].diagnostics[0]
    assert "ws://127.0.0.1:1 " in rows["built-ins"].diagnostics[0]
    told = json.dumps([one.to_json() for one in rows.values()])
    assert "secret" not in told
    assert "hush" not in told


async def test_its_gateway_is_asked_at_the_port_of_its_own_settings(tmp_path: Path) -> None:
    async with claw() as gate:
        root = homes.openclaw(tmp_path / ".openclaw", port=int(gate.url.rpartition(":")[2]))
        one = OpenClawSource(root, linked("ws://127.0.0.1:1"))
        try:
            records = await found(one)
        finally:
            await one.close()

    # What its gateway says counts; skills lie in folders all the same.
    assert gate.connections == 1
    assert {"docs", "matrix", "peekaboo"} <= set(records)
    assert "linear" not in records
    assert affordance(records["exec"]).path == "runtime"


async def test_settings_that_are_none_are_told(tmp_path: Path) -> None:
    root = homes.openclaw(tmp_path / ".openclaw")
    (root / "openclaw.json").write_text("{ gateway: { port: `1` } }")
    one = OpenClawSource(root, linked("ws://127.0.0.1:1"))

    assert "line 1: found '`1`" in (await found(one))["built-ins"].diagnostics[0]


async def test_one_connection_is_shared_and_made_again_when_it_ended() -> None:
    async with claw() as gate, source(gate) as one:
        await asyncio.gather(*(one.read() for _ in range(20)))
        await switched(one, "disable", "exec")
        shared = gate.connections
        await gate.cut()
        again = await found(one)

    assert (shared, gate.connections) == (1, 2)
    assert again["exec"].status == "disabled"


async def test_enabling_brings_back_what_disabling_took_away() -> None:
    async with claw() as gate, source(gate) as one:
        gate.config["tools"]["allow"] = ["exec", "read"]
        before = json.dumps(gate.config)
        off = await switched(one, "disable", "exec")
        policy = json.loads(json.dumps(gate.config["tools"]))
        patch = json.loads(gate.asked[-1][1]["raw"])
        on = await switched(one, "enable", "exec")

        assert json.dumps(gate.config) == before
    assert (off.status, on.status) == ("disabled", "ready")
    # The whole policy is said each time, and nothing else of the settings.
    assert patch == {
        "tools": {
            "allow": ["exec", "read"],
            "deny": ["browser", "group:automation", "exec"],
        }
    }
    assert policy["exec"] == {"ask": "always"}


async def test_what_the_allow_list_leaves_out_is_put_in() -> None:
    async with claw() as gate, source(gate) as one:
        gate.config["tools"]["allow"] = ["group:fs"]
        before = await found(one)
        on = await switched(one, "enable", "web_fetch")

    assert (before["read"].status, before["web_fetch"].status) == ("ready", "disabled")
    assert "tools.allow" in before["web_fetch"].diagnostics[0]
    assert on.status == "ready"
    assert gate.config["tools"]["allow"] == ["group:fs", "web_fetch"]


async def test_a_tool_that_stands_in_no_list_any_more_stays() -> None:
    async with claw() as gate, source(gate) as one:
        gate.config["tools"]["deny"] = ["Acme_Mail"]
        on = await switched(one, "enable", "acme_mail")
        records = await found(one)

    assert gate.config["tools"]["deny"] == []
    assert (on.status, records["acme_mail"].status) == ("ready", "ready")


async def test_a_newer_gateway_names_its_tools_and_wants_to_know_what_is_replaced() -> None:
    async with claw() as gate, source(gate) as one:
        gate.modern = True
        gate.config["tools"]["deny"] = ["exec", "group:core"][:1]
        records = await found(one)
        await switched(one, "enable", "exec")

    assert records["read"].description == "Read files"
    assert "canvas" not in records
    assert gate.config["tools"]["deny"] == []
    assert gate.asked[-1][1]["replacePaths"] == ["tools.deny"]


async def test_others_change_the_settings_meanwhile_and_lose_nothing() -> None:
    async with claw() as gate, source(gate) as one:
        gate.meddling = 2
        await switched(one, "disable", "exec")
        denied = list(gate.config["tools"]["deny"])
        gate.meddling = 99
        with pytest.raises(RuntimeDisconnectedError, match="all the time"):
            await switched(one, "disable", "read")

    assert denied == ["browser", "group:automation", "other1", "other0", "exec"]


async def test_what_cannot_be_switched_is_refused_without_a_patch() -> None:
    async with claw() as gate, source(gate) as one:
        records = await found(one)
        for key in ("docs", "matrix", "cron", "built-ins"):
            change = CapabilityChange(action="enable", by=OWNER, record=records[key])
            with pytest.raises((UnsupportedCapabilityWriteError, UnknownCapabilityError)):
                await one.write(change)
        with pytest.raises(UnsupportedCapabilityWriteError, match="install"):
            await one.write(CapabilityChange(action="install", by=OWNER))

    assert {method for method, _ in gate.asked} == {"config.get"}


async def test_a_gateway_that_cannot_be_asked_says_why() -> None:
    async with claw() as gate:
        async with source(gate, token=None) as one:
            with pytest.raises(OpenClawError, match="token mismatch"):
                await one.read()
        link = linked(gate.url)
        await link.ask("config.get")
        gate.silent = True
        asking = asyncio.create_task(link.ask("config.patch", {"raw": "{}"}))
        await gate.heard.wait()
        await gate.cut()
        # Whether the change was made is not known, so it is not asked for once more.
        with pytest.raises(RuntimeDisconnectedError, match="ended"):
            await asking
        await link.close()
    async with source(gate) as one:
        with pytest.raises(RuntimeDisconnectedError, match="cannot be asked"):
            await one.read()


async def test_the_token_follows_no_redirect() -> None:
    async def elsewhere(request: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect(gate.url.replace("ws:", "http:"))

    app = web.Application()
    app.router.add_get("/", elsewhere)
    async with claw() as gate, served(app) as port:
        link = linked(f"ws://127.0.0.1:{port}")
        with pytest.raises(RuntimeDisconnectedError, match="redirected"):
            await link.ask("config.get")
        assert gate.connections == 0


async def test_another_user_who_listens_there_hears_nothing() -> None:
    async with claw() as gate:
        link = linked(gate.url, trusted=lambda peer, ours: False)
        with pytest.raises(RuntimeDisconnectedError, match="another user"):
            await link.ask("config.get")
        assert gate.greetings == []
        link = linked(gate.url)
        await link.ask("config.get")
        assert gate.greetings == ["claw-token"]
        await link.close()


async def test_without_a_way_out_nobody_is_asked() -> None:
    async with claw() as gate:
        link = OpenClawLink(gate.url, lambda: "claw-token", lambda: None)
        with pytest.raises(RuntimeDisconnectedError, match="no plugin provides"):
            await link.ask("config.get")
        assert gate.connections == 0


async def test_a_gateway_that_is_away_is_served_from_what_was_read_last(tmp_path: Path) -> None:
    async with claw() as gate:
        settings = {"runtimes": ["openclaw"], "openclaw_url": gate.url, "read_seconds": 10}
        secrets = {"openclaw_token": "claw-token"}
        async with running(home=tmp_path, inventory=settings, secrets=secrets) as one:
            there = await one.ids(runtime="openclaw")
            await gate.cut()
            gate.token = "another"
            status = (await one.statuses())["openclaw"]
            away = await one.ids(runtime="openclaw")

    assert len(there) > 20
    assert not status.ok
    assert "token mismatch" in status.why
    assert away == there


async def test_where_openclaw_is_not_installed_nobody_is_asked(tmp_path: Path) -> None:
    async with claw() as gate:
        link = linked(gate.url)
        one = OpenClawSource(tmp_path / "nowhere", link)
        try:
            absent = await one.read()
            (tmp_path / "nowhere").mkdir()
            present = await one.read()
        finally:
            await one.close()

    assert list(absent) == []
    assert len(present) > 20
    assert gate.connections == 1


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "ws://example.com", "wss://ada:pw@example.com", "wss://x/?t=1"]
)
def test_the_address_is_this_machine_or_encrypted(url: str) -> None:
    with pytest.raises(ValidationError, match="expected"):
        InventorySettings(openclaw_url=url)
