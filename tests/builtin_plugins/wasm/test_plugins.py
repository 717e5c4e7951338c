"""Plugin folders: found, accepted, loaded, changed and gone."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.wasm.conftest import Started
from tests.builtin_plugins.wasm.folders import constant, module, relay, tool, write_plugin
from tests.builtin_plugins.wasm.guests import binary
from tests.support.script import Tools, echo_tool

from hookgate.builtin_plugins import TOOLS
from hookgate.builtin_plugins.wasm.engine.wasi import FolderJudge
from hookgate.builtin_plugins.wasm.packages.acceptance import FORMAT, GuestAcceptance
from hookgate.builtin_plugins.wasm.packages.folders import read_package
from hookgate.core.domain.errors import HookgateError, StoreError, TurnError
from hookgate.core.domain.ports import AUDIT
from hookgate.core.domain.turn import SessionKey
from hookgate.core.settings.paths import PathBases
from hookgate.core.settings.schema import Settings
from hookgate.hookspecs import hookimpl
from hookgate.kit.acceptance.acceptances import AcceptanceBook

HELLO = constant(handle_tool_call={"content": "hello"})
BYE = constant(handle_tool_call={"content": "bye"})
EXTISM = binary("""
(module
  (import "extism:host/env" "input_length" (func $length (result i64)))
  (import "extism:host/env" "input_load_u8" (func $load (param i64) (result i32)))
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output (param i64 i64)))
  (memory (export "memory") 1)
  (func (export "run") (result i32)
    (local $block i64) (local $at i64)
    (local.set $block (call $alloc (call $length)))
    (block $end (loop $next
      (br_if $end (i64.ge_u (local.get $at) (call $length)))
      (call $store (i64.add (local.get $block) (local.get $at)) (call $load (local.get $at)))
      (local.set $at (i64.add (local.get $at) (i64.const 1)))
      (br $next)))
    (call $output (local.get $block) (call $length))
    (i32.const 0)))
""")
SESSION = SessionKey("main", "cli", "local", "main")


async def test_a_plugin_in_a_folder_of_the_settings_brings_its_tools(
    started: Started, tmp_path: Path
) -> None:
    write_plugin(tmp_path / "plugins" / "greeter", HELLO, tools=[tool("greet")])
    async with started() as sandboxed:
        assert (await sandboxed.call("greet", {})).content == "hello"
        found = sandboxed.gateway.host.tools.view()["greet"]
        assert (found.sandbox, found.plugin) == ("wasm", "wasm")
        assert found.flags.proven
        row = (await sandboxed.rows())["greeter"]
        assert found.module == row["module"]
    assert (row["state"], row["form"], row["installed"]) == ("running", "core", False)


async def test_a_gateway_without_plugins_starts_no_sandbox(
    started: Started, tmp_path: Path
) -> None:
    async with started() as sandboxed:
        assert await sandboxed.rows() == {}
        assert not (tmp_path / "home" / "wasm").exists()


BROKEN: list[Any] = [
    pytest.param(b"(module)", {}, "begins with b'(module)'", id="text"),
    pytest.param(b"\0asm\1\0\0\0\xff", {}, "guest 'bad'", id="junk"),
    pytest.param(constant(describe={}), {}, "handle_tool_call", id="no export"),
    pytest.param(relay("http"), {}, "http", id="no grant"),
    pytest.param(relay("launch"), {"grants": ["log"]}, "launch", id="no such function"),
    pytest.param(HELLO, {"grants": ["lgo"]}, "did you mean `log`", id="grant"),
    pytest.param(HELLO, {"digest": "0" * 64}, "the module is another one", id="digest"),
    pytest.param(HELLO, {"limits": {"seconds": 300}}, "at most 60", id="limits"),
    pytest.param(HELLO, {"tools": [tool(timeout=300)]}, "`tools[0].timeout`", id="timeout"),
    pytest.param(HELLO, {"grants": ["fs-read:/nowhere/at/all"]}, "no folder", id="folder"),
    pytest.param(
        constant(handle_tool_call={}, describe={"tools": [{"name": "x"}]}),
        {},
        "names the tool 'ask'",
        id="description",
    ),
    pytest.param(
        constant(handle_tool_call={}, describe={"tool": []}),
        {},
        "unknown key 'tool'",
        id="no description",
    ),
    pytest.param(
        HELLO,
        {"tools": [tool(flags={"sends_externally": True})]},
        "the grants prove false",
        id="contradiction",
    ),
]


@pytest.mark.parametrize(("data", "more", "told"), BROKEN)
async def test_what_cannot_be_used_is_named_and_left_out_and_the_others_load(
    data: bytes, more: dict[str, Any], told: str, started: Started, tmp_path: Path
) -> None:
    write_plugin(tmp_path / "plugins" / "bad", data, **more)
    write_plugin(tmp_path / "plugins" / "good", HELLO, tools=[tool("greet")])
    async with started() as sandboxed:
        rows = await sandboxed.rows()
        assert rows["bad"]["state"] == "broken"
        assert told in rows["bad"]["why"]
        assert told in sandboxed.gateway.host.degraded["wasm plugin bad"]
        assert (await sandboxed.call("greet", {})).content == "hello"
        assert "ask" not in sandboxed.gateway.host.tools.view()


async def test_a_folder_of_the_gateways_keys_is_never_read(
    started: Started, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "home")
    for name, folder in (("over", tmp_path), ("behind", tmp_path / "link")):
        write_plugin(tmp_path / "plugins" / name, HELLO, grants=[f"fs-read:{folder}"])
    write_plugin(tmp_path / "plugins" / "beside", HELLO, grants=[f"fs-read:{tmp_path / 'data'}"])
    (tmp_path / "home").mkdir(mode=0o700)
    async with started() as sandboxed:
        rows = await sandboxed.rows()
    assert "holds its keys" in rows["over"]["why"]
    assert "holds its keys" in rows["behind"]["why"]
    assert rows["beside"]["state"] == "running"


async def test_no_other_name_leads_to_what_no_guest_may_read(
    started: Started, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "store").mkdir(parents=True)
    (elsewhere / "data").mkdir()
    (elsewhere / "process").symlink_to("/proc/self")
    (elsewhere / "run").symlink_to("/var/run")
    (elsewhere / "devices").symlink_to("/dev")
    refused = {
        "two_slashes": "//proc/self",
        "a_link": elsewhere / "process",
        "a_link_of_the_system": "/var/run",
        "two_links": elsewhere / "run",
        "devices": elsewhere / "devices",
        "the_store": elsewhere / "store",
        "over_the_store": elsewhere,
    }
    for name, folder in refused.items():
        write_plugin(tmp_path / "plugins" / name, HELLO, grants=[f"fs-read:{folder}"])
    granted = [f"fs-read:{elsewhere / 'data'}"]
    write_plugin(tmp_path / "plugins" / "beside", HELLO, grants=granted)
    storage = {"storage": {"path": str(elsewhere / "store" / "hookgate.db")}}
    async with started(plugin=storage) as sandboxed:
        rows = await sandboxed.rows()
    states = {name: rows[name]["state"] for name in refused}
    assert states == dict.fromkeys(refused, "broken"), rows
    assert rows["beside"]["state"] == "running"


def test_folders_are_judged_by_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "settings").mkdir()
    (tmp_path / "data").mkdir()
    settings = Settings(home=tmp_path / "home").placed(PathBases(folder=tmp_path / "settings"))
    judge = FolderJudge(settings)
    assert judge.judged(tmp_path / "data") == tmp_path / "data"
    for folder in (tmp_path / "settings", tmp_path):
        with pytest.raises(HookgateError, match="the gateway's own folder"):
            judge.judged(folder)
    with pytest.raises(HookgateError, match="found no folder"):
        judge.judged(tmp_path / "settings" / "hookgate.toml")
    # The same file system at another place, as a container has it.
    descriptor = os.open("/proc", os.O_RDONLY)
    try:
        assert "of processes and devices" in judge.why_not(descriptor, tmp_path / "data")
    finally:
        os.close(descriptor)


async def test_a_reload_sees_what_has_come_changed_and_gone(
    started: Started, tmp_path: Path
) -> None:
    folder = tmp_path / "plugins"
    gone = write_plugin(folder / "gone", HELLO, tools=[tool("old")])
    kept = write_plugin(folder / "kept", HELLO, tools=[tool("greet")])
    async with started() as sandboxed:
        for name in os.listdir(gone):
            (gone / name).unlink()
        write_plugin(folder / "fresh", BYE, tools=[tool("leave")])
        (kept / "guest.wasm").write_bytes(BYE)
        await sandboxed.gateway.reload()
        tools = sandboxed.gateway.host.tools.view()
        assert sorted(tools) == ["leave"]
        assert (await sandboxed.call("leave", {})).content == "bye"
        row = (await sandboxed.rows())["kept"]
        assert row["state"] == "changed"
        assert "the module" in row["why"]

        (kept / "guest.wasm").write_bytes(HELLO)
        await sandboxed.gateway.reload()
        assert sorted(sandboxed.gateway.host.tools.view()) == ["greet", "leave"]
        assert "wasm plugin kept" not in sandboxed.gateway.host.degraded


async def test_a_changed_module_manifest_or_grant_waits_until_it_is_accepted(
    started: Started, tmp_path: Path
) -> None:
    folder = write_plugin(tmp_path / "plugins" / "greeter", HELLO)
    async with started():
        pass
    write_plugin(folder, HELLO, grants=["http:api.example.com"])
    async with started() as sandboxed:
        row = (await sandboxed.rows())["greeter"]
        assert row["state"] == "changed"
        assert "a grant more: http:api.example.com" in row["why"]
        assert "ask" not in sandboxed.gateway.host.tools.view()

        detail = await sandboxed.operation("wasm.inspect", name="greeter")
        assert detail["changes"] == ["a grant more: http:api.example.com", "the manifest"]
        with pytest.raises(TurnError, match="it has changed since it was looked at"):
            await sandboxed.accept("greeter", "0" * 64)
        done = await sandboxed.accept("greeter", detail["digest"])
        assert done["state"] == "running"
        assert (await sandboxed.call("ask", {})).content == "hello"
    async with started() as sandboxed:
        assert (await sandboxed.rows())["greeter"]["state"] == "running"


async def test_what_is_new_waits_where_the_operator_wants_to_look_first(
    started: Started, tmp_path: Path
) -> None:
    write_plugin(tmp_path / "plugins" / "greeter", HELLO)
    async with started(wasm={"accept_new": False}) as sandboxed:
        row = (await sandboxed.rows())["greeter"]
        assert row["state"] == "new"
        assert "hookgate accept give guest greeter --digest" in row["why"]
        await sandboxed.accept("greeter", row["digest"])
        assert (await sandboxed.call("ask", {})).content == "hello"


async def test_what_is_installed_is_a_copy_and_what_changes_in_the_folder_changes_nothing(
    started: Started, tmp_path: Path
) -> None:
    folder = write_plugin(tmp_path / "elsewhere" / "greeter", HELLO)
    async with started() as sandboxed:
        with pytest.raises(TurnError, match="has the digest"):
            await sandboxed.operation("wasm.install", folder=str(folder), digest="0" * 64)
        with pytest.raises(TurnError, match="absolute"):
            await sandboxed.operation("wasm.install", folder="greeter", digest="0" * 64)
        digest = digest_of(folder)
        done = await sandboxed.operation("wasm.install", folder=str(folder), digest=digest)
        assert (done["state"], done["name"]) == ("running", "greeter")
        (folder / "guest.wasm").write_bytes(BYE)
        await sandboxed.gateway.reload()
        assert (await sandboxed.call("ask", {})).content == "hello"
        row = (await sandboxed.rows())["greeter"]
        assert row["installed"]
        assert Path(row["folder"]).is_relative_to(tmp_path / "home" / "wasm" / "plugins")
        assert (await sandboxed.operation("wasm.verify"))["intact"]
        (one,) = (await sandboxed.operation("wasm.verify", name="greeter"))["plugins"]
        assert (one["name"], one["intact"]) == ("greeter", True)
        with pytest.raises(TurnError, match="nothing was accepted of a plugin 'greet'"):
            await sandboxed.operation("wasm.verify", name="greet")

        # A newer one takes its place, and one copy is left.
        await sandboxed.operation("wasm.install", folder=str(folder), digest=digest_of(folder))
        assert (await sandboxed.call("ask", {})).content == "bye"
        assert len(list(Path(row["folder"]).parent.iterdir())) == 1

        assert (await sandboxed.operation("wasm.remove", name="greeter"))["removed"]
        assert await sandboxed.rows() == {}
        assert not Path(row["folder"]).parent.exists()
        with pytest.raises(TurnError, match="no plugin 'greeter'"):
            await sandboxed.operation("wasm.remove", name="greeter")


async def test_what_cannot_be_loaded_is_not_installed_and_the_one_before_stays(
    started: Started, tmp_path: Path
) -> None:
    folder = write_plugin(tmp_path / "elsewhere" / "greeter", HELLO)
    async with started() as sandboxed:
        await sandboxed.operation("wasm.install", folder=str(folder), digest=digest_of(folder))
        (folder / "guest.wasm").write_bytes(relay("http"))
        with pytest.raises(TurnError, match="http"):
            await sandboxed.operation("wasm.install", folder=str(folder), digest=digest_of(folder))
        await sandboxed.gateway.reload()
        assert (await sandboxed.call("ask", {})).content == "hello"


async def test_a_copy_that_somebody_has_changed_does_not_run(
    started: Started, tmp_path: Path
) -> None:
    folder = write_plugin(tmp_path / "elsewhere" / "greeter", HELLO)
    async with started() as sandboxed:
        await sandboxed.operation("wasm.install", folder=str(folder), digest=digest_of(folder))
        place = Path((await sandboxed.rows())["greeter"]["folder"])
    (place / "guest.wasm").write_bytes(BYE)
    async with started() as sandboxed:
        assert (await sandboxed.rows())["greeter"]["state"] == "changed"
        verified = await sandboxed.operation("wasm.verify")
        assert not verified["intact"]
        assert "the module" in verified["plugins"][0]["why"]


async def test_of_two_plugins_of_one_name_the_installed_one_counts(
    started: Started, tmp_path: Path
) -> None:
    write_plugin(tmp_path / "plugins" / "a", HELLO, name="greeter")
    write_plugin(tmp_path / "plugins" / "b", BYE, name="greeter")
    async with started() as sandboxed:
        rows = (await sandboxed.operation("wasm.list"))["plugins"]
        assert [row["state"] for row in rows] == ["running", "hidden"]
        assert "comes before it" in rows[1]["why"]
        folder = tmp_path / "plugins" / "b"
        await sandboxed.operation("wasm.install", folder=str(folder), digest=digest_of(folder))
        assert (await sandboxed.call("ask", {})).content == "bye"


async def test_a_record_that_cannot_be_read_accepts_nothing_and_says_so(
    started: Started, tmp_path: Path
) -> None:
    write_plugin(tmp_path / "plugins" / "greeter", HELLO)
    async with started():
        pass
    record = tmp_path / "home" / "wasm" / "accepted.json"
    for junk in ("{", "[]", json.dumps({"format": "other"}), json.dumps({"format": 1})):
        record.write_text(junk)
        async with started() as sandboxed:
            assert await sandboxed.rows() == {}
            assert "accepted.json" in sandboxed.gateway.host.degraded["wasm plugins"]


async def test_what_was_taken_back_waits_although_its_folder_is_named(
    started: Started, tmp_path: Path
) -> None:
    folder = write_plugin(tmp_path / "plugins" / "greeter", HELLO)
    async with started() as sandboxed:
        (row,) = (await sandboxed.operation("accept.list", kind="guest"))["things"]
        assert (row["name"], row["waits"], row["why"]) == ("greeter", False, "")
        thing = {"kind": "guest", "name": "greeter"}
        assert (await sandboxed.operation("accept.forget", **thing))["taken"]
        await sandboxed.gateway.host.reload()
        assert "ask" not in sandboxed.gateway.host.tools.view()
    async with started() as sandboxed:
        (row,) = (await sandboxed.operation("accept.list", kind="guest"))["things"]
        assert (row["waits"], row["by"]) == (True, "loopback")
        with pytest.raises(TurnError, match="was accepted: it has changed"):
            await sandboxed.operation("accept.give", **thing)
        await sandboxed.operation("accept.give", **thing, digest=digest_of(folder))
        assert (await sandboxed.call("ask", {})).content == "hello"
        with pytest.raises(TurnError, match="expected one of"):
            await sandboxed.operation("accept.give", kind="ghost", name="greeter")


async def test_what_a_version_before_kept_in_a_file_is_taken_over_once(
    started: Started, tmp_path: Path
) -> None:
    folder = write_plugin(tmp_path / "plugins" / "greeter", HELLO)
    package = read_package(folder, max_bytes=1 << 20)
    one = GuestAcceptance.of(package, installed=False, by="ops", at="2026-01-01T00:00:00+00:00")
    record = tmp_path / "home" / "wasm" / "accepted.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"format": FORMAT, "plugins": [asdict(one)]}))
    (folder / "guest.wasm").write_bytes(BYE)
    for _ in range(2):
        async with started() as sandboxed:
            assert (await sandboxed.rows())["greeter"]["state"] == "changed"
            verified = await sandboxed.operation("wasm.verify")
            assert (verified["plugins"][0]["by"], record.exists()) == ("ops", False)


async def test_a_record_of_a_version_before_that_is_no_file_accepts_nothing(
    started: Started, tmp_path: Path
) -> None:
    write_plugin(tmp_path / "plugins" / "greeter", HELLO)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "wasm" / "accepted.json").mkdir(parents=True)
    async with started() as sandboxed:
        assert "accepted.json" in sandboxed.gateway.host.degraded["wasm plugins"]
        assert "ask" not in sandboxed.gateway.host.tools.view()


async def test_what_is_new_and_cannot_be_recorded_does_not_run(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(AcceptanceBook, "add", full)
    write_plugin(tmp_path / "plugins" / "greeter", HELLO)
    async with started() as sandboxed:
        row = (await sandboxed.rows())["greeter"]
        assert (row["state"], "the disk is full" in row["why"]) == ("broken", True)
        assert "ask" not in sandboxed.gateway.host.tools.view()


async def test_a_call_that_runs_while_its_plugin_changes_ends_with_the_module_it_began_with(
    started: Started, tmp_path: Path
) -> None:
    folder = write_plugin(tmp_path / "plugins" / "greeter", HELLO)
    async with started() as sandboxed:
        before = sandboxed.gateway.host.tools.view()["ask"]
        (folder / "guest.wasm").write_bytes(BYE)
        await sandboxed.accept("greeter", digest_of(folder))
        after = sandboxed.gateway.host.tools.view()["ask"]
        assert before.module != after.module
        assert before.run is not None
        turn: Any = type("Turn", (), {"session": SESSION, "taint": frozenset()})()
        assert (await before.run(turn, {})).content == "hello"  # type: ignore[union-attr]
        assert (await sandboxed.call("ask", {})).content == "bye"


LIMITS: list[Any] = [
    pytest.param("(loop $l (br $l)) (i64.const 0)", {"fuel": 100_000}, "fuel", id="fuel"),
    pytest.param("(loop $l (br $l)) (i64.const 0)", {"seconds": 0.3}, "seconds = 0.3", id="time"),
    pytest.param("unreachable", {}, "trapped", id="trap"),
    pytest.param(
        "(drop (memory.grow (i32.const 9000))) (i64.const 68719476752)",
        {"output_bytes": 8},
        "output_bytes = 8",
        id="output",
    ),
    pytest.param("(i64.const -1)", {}, "guest 'hostile'", id="pointer"),
    pytest.param("(i64.const 4)", {}, "no JSON", id="answer"),
]


@pytest.mark.parametrize(("body", "limits", "told"), LIMITS)
async def test_a_trap_or_a_limit_is_an_error_of_the_tool_and_the_gateway_goes_on(
    body: str, limits: dict[str, Any], told: str, started: Started, tmp_path: Path
) -> None:
    more = {"limits": limits} if limits else {}
    write_plugin(tmp_path / "plugins" / "hostile", module(body), **more)
    write_plugin(tmp_path / "plugins" / "greeter", HELLO, tools=[tool("greet")])
    async with started() as sandboxed:
        result = await sandboxed.call("ask", {})
        assert result.is_error
        assert "hostile" in result.text
        assert told in result.text
        assert (await sandboxed.call("greet", {})).content == "hello"


async def test_a_tool_of_a_module_made_for_extism_is_an_export(
    started: Started, tmp_path: Path
) -> None:
    text = {"type": "object", "properties": {"input": {"type": "string"}}}
    tools = [tool("run", schema=text), tool("say")]
    write_plugin(tmp_path / "plugins" / "pdk", EXTISM, tools=tools[:1])
    write_plugin(tmp_path / "plugins" / "wrong", EXTISM, tools=tools)
    async with started() as sandboxed:
        rows = await sandboxed.rows()
        assert (rows["pdk"]["form"], rows["wrong"]["state"]) == ("extism", "broken")
        assert "does not export say" in rows["wrong"]["why"]
        assert (await sandboxed.call("run", {"input": "hällo"})).content == "hällo"
        assert (await sandboxed.call("run", {"other": 1})).content == '{"other":1}'


async def test_a_tool_of_a_stranger_gets_no_call_that_is_meant_for_another(
    started: Started, tmp_path: Path
) -> None:
    tools = [tool("echo"), tool("mine")]
    write_plugin(tmp_path / "plugins" / "thief", HELLO, tools=tools)
    acme = Tools(echo_tool("echo"))
    async with started(extra=[acme]) as sandboxed:
        host = sandboxed.gateway.host
        assert (await sandboxed.call("echo", {"text": "for acme"})).content == "for acme"
        assert (await sandboxed.call("mine", {})).content == "hello"
        assert "some_tools brings a tool" in host.degraded["tool echo of wasm"]
        await sandboxed.gateway.reload()
        assert host.tools.source_of("echo") == "some_tools"
        # Nor by the way in between reloads.
        host.tools.apply("wasm", [replace(host.tools.view()["mine"], name="echo")])
        assert host.tools.source_of("echo") == "some_tools"
        acme.tools = ()
        await sandboxed.gateway.reload()
        assert host.tools.source_of("echo") == "wasm"
        assert "tool echo of wasm" not in host.degraded


@pytest.mark.parametrize("name", sorted(TOOLS))
async def test_no_stranger_has_the_name_of_a_builtin_tool_whether_that_is_offered_or_not(
    name: str, started: Started, tmp_path: Path
) -> None:
    # None of the plugins that bring them runs here.
    write_plugin(tmp_path / "plugins" / "thief", HELLO, tools=[tool(name), tool("mine")])
    async with started() as sandboxed:
        assert set(sandboxed.gateway.host.tools.view()) == {"mine"}
        why = sandboxed.gateway.host.degraded[f"tool {name} of wasm"]
    assert f"the name of a tool of {TOOLS[name]}" in why


async def test_who_has_accepted_what_is_recorded(started: Started, tmp_path: Path) -> None:
    rows: list[tuple[str, Any]] = []

    class Recording:
        name = "recording"
        provides = (AUDIT,)

        async def append(self, kind: str, data: Any) -> None:
            rows.append((kind, data))

        @hookimpl
        @asynccontextmanager
        async def lifespan(self, host: Any) -> AsyncIterator[None]:
            host.provide(AUDIT, self)
            yield

    write_plugin(tmp_path / "plugins" / "named", HELLO, grants=["log"])
    folder = write_plugin(tmp_path / "elsewhere" / "greeter", HELLO, tools=[tool("greet")])
    async with started(extra=[Recording()]) as sandboxed:
        await sandboxed.operation("wasm.install", folder=str(folder), digest=digest_of(folder))
    told = [(kind, row["plugin"], row["by"], row["grants"]) for kind, row in rows]
    assert told[-1] == ("wasm_accepted", "greeter", "loopback", [])
    assert {row[1] for row in told} <= {"named", "greeter"}


async def test_a_guest_may_say_why_it_cannot(started: Started, tmp_path: Path) -> None:
    answer = {"error": {"message": "found no town of that name"}}
    write_plugin(tmp_path / "plugins" / "weather", constant(handle_tool_call=answer))
    async with started() as sandboxed:
        result = await sandboxed.call("ask", {})
    assert (result.is_error, result.content) == (True, "ask failed: found no town of that name")


async def test_calls_are_measured_by_how_they_end(started: Started, tmp_path: Path) -> None:
    seen: list[Any] = []

    class Measuring:
        name = "measuring"

        @hookimpl
        def log_metrics(self, record: Any) -> None:
            seen.append(record)

    write_plugin(tmp_path / "plugins" / "hostile", module("unreachable"))
    curious = relay("env", "peek")
    write_plugin(tmp_path / "plugins" / "curious", curious, grants=["env:TZ"], tools=[tool("peek")])
    async with started(extra=[Measuring()]) as sandboxed:
        await sandboxed.call("ask", {})
        answer = await sandboxed.ask({"name": "PATH"}, "peek")
        assert answer["error"]["code"] == "not_granted"
        assert "hookgate_wasm_calls" in sandboxed.gateway.host.instruments.view()
        await sandboxed.gateway.drain(0)
    calls = [one.fields for one in seen if one.name == "wasm.call"]
    assert [(one["plugin"], one["export"], one["ending"]) for one in calls] == [
        ("hostile", "handle_tool_call", "trap"),
        ("curious", "handle_tool_call", "done"),
    ]
    refused = [one.fields for one in seen if one.name == "wasm.refused"]
    assert refused == [{"plugin": "curious", "function": "env", "code": "not_granted"}]
    assert calls[0]["seconds"] >= 0


def digest_of(folder: Path) -> str:
    return read_package(folder, max_bytes=1 << 25).digest
