"""Loading: each plugin for itself, and what was refused only when something has changed."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.wasm.conftest import Started
from tests.builtin_plugins.wasm.folders import constant, relay, tool, write_plugin
from tests.support.script import until

from hookgate.builtin_plugins.wasm import service
from hookgate.builtin_plugins.wasm.engine import sandbox as engine
from hookgate.builtin_plugins.wasm.packages.folders import read_package

HELLO = constant(handle_tool_call={"content": "hello"})
SLOW = constant(handle_tool_call={"content": "at last"})
JUNK = b"\0asm\1\0\0\0\xff"
CHANNEL: dict[str, Any] = {
    "kind": "channel",
    "grants": ["http:api.example.com"],
    "channel": {"webhook": {"verification": "header", "secret": "s", "header": "h"}},
}


class Compiler:
    """The compiler, which takes its time with those that a test names.

    Attributes:
        compiled: How often each was compiled.
        held: Those that wait until they are let go.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.compiled: Counter[str] = Counter()
        self.held: set[str] = set()
        self._let_go = asyncio.Event()
        self._real = engine.compiled
        monkeypatch.setattr(engine, "compiled", self)

    async def __call__(self, *args: Any, name: str, **more: Any) -> Any:
        self.compiled[name] += 1
        if name in self.held:
            await self._let_go.wait()
        return await self._real(*args, name=name, **more)

    def let_go(self) -> None:
        self._let_go.set()


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    return Compiler(monkeypatch)


async def test_one_that_compiles_slowly_withholds_no_other_one(
    compiler: Compiler, started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler.held = {"a_slow"}
    write_plugin(tmp_path / "plugins" / "a_slow", SLOW, tools=[tool("slow")])
    write_plugin(tmp_path / "plugins" / "quick", HELLO, tools=[tool("quick")])
    listening = constant(parse_incoming={}, format_outgoing={})
    write_plugin(tmp_path / "plugins" / "listening", listening, **CHANNEL)
    monkeypatch.setattr(service, "LOAD_SECONDS", 0.0)
    async with started() as sandboxed:
        host = sandboxed.gateway.host
        await until(lambda: "quick" in sandboxed.gateway._catalogue.snapshot().tools)
        await until(lambda: "wasm.listening" in host.channels)
        assert (await sandboxed.call("quick", {})).content == "hello"
        row = (await sandboxed.rows())["a_slow"]
        assert (row["state"], "being compiled" in row["why"]) == ("loading", True)
        assert "a_slow" in host.notices["wasm plugins"]
        assert not any("a_slow" in part for part in host.degraded)
        assert "slow" not in host.tools.view()
        compiler.let_go()
        await until(lambda: "slow" in sandboxed.gateway._catalogue.snapshot().tools)
        assert (await sandboxed.call("slow", {})).content == "at last"
        assert (await sandboxed.rows())["a_slow"]["state"] == "running"
        assert "wasm plugins" not in host.notices


async def test_a_reload_goes_on_with_what_is_being_compiled(
    compiler: Compiler, started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler.held = {"slow"}
    write_plugin(tmp_path / "plugins" / "slow", SLOW)
    with monkeypatch.context() as at_start:
        at_start.setattr(service, "LOAD_SECONDS", 0.0)
        opened = started()
        sandboxed = await opened.__aenter__()
    try:
        await until(lambda: compiler.compiled["slow"] == 1)
        # It was slow before: nobody waits for it again, and what is new comes at once.
        write_plugin(tmp_path / "plugins" / "quick", HELLO, tools=[tool("quick")])
        async with asyncio.timeout(service.LOAD_SECONDS / 2):
            await sandboxed.gateway.reload()
            await sandboxed.gateway.reload()
        assert (await sandboxed.call("quick", {})).content == "hello"
        compiler.let_go()
        await until(lambda: "ask" in sandboxed.gateway._catalogue.snapshot().tools)
        assert compiler.compiled["slow"] == 1
    finally:
        await opened.__aexit__(None, None, None)


async def test_one_that_is_taken_away_while_it_is_compiled_does_not_come(
    compiler: Compiler, started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler.held = {"slow"}
    folder = write_plugin(tmp_path / "plugins" / "slow", SLOW)
    write_plugin(tmp_path / "plugins" / "quick", HELLO, tools=[tool("quick")])
    monkeypatch.setattr(service, "LOAD_SECONDS", 0.0)
    async with started() as sandboxed:
        await until(lambda: compiler.compiled["slow"] == 1)
        (folder / "hookgate-plugin.toml").unlink()
        monkeypatch.setattr(service, "LOAD_SECONDS", 20.0)
        await sandboxed.gateway.reload()
        assert list(await sandboxed.rows()) == ["quick"]
        compiler.let_go()
        await until(lambda: "quick" in sandboxed.gateway.host.tools.view())
        await sandboxed.gateway.reload()
        assert set(sandboxed.gateway.host.tools.view()) == {"quick"}


async def test_what_was_refused_is_compiled_again_once_it_has_changed(
    compiler: Compiler, started: Started, tmp_path: Path
) -> None:
    folder = write_plugin(tmp_path / "plugins" / "bad", JUNK)
    async with started() as sandboxed:
        why = (await sandboxed.rows())["bad"]["why"]
        assert "no module that can be used" in why
        await sandboxed.gateway.reload()
        await sandboxed.gateway.reload()
        assert compiler.compiled == {"bad": 1}
        row = (await sandboxed.rows())["bad"]
        assert (row["state"], row["why"]) == ("broken", why)
    async with started() as sandboxed:
        row = (await sandboxed.rows())["bad"]
        assert (row["state"], row["why"], compiler.compiled["bad"]) == ("broken", why, 1)
        # By an operator's word it is tried again, whatever became of it before.
        accepted = await sandboxed.accept("bad", row["digest"])
        assert (accepted["state"], compiler.compiled["bad"]) == ("broken", 2)
        (folder / "guest.wasm").write_bytes(HELLO)
        digest = read_package(folder, max_bytes=1 << 20).digest
        accepted = await sandboxed.accept("bad", digest)
        assert (accepted["state"], compiler.compiled["bad"]) == ("running", 3)


async def test_what_was_refused_is_tried_again_under_other_limits(
    compiler: Compiler, started: Started, tmp_path: Path
) -> None:
    write_plugin(tmp_path / "plugins" / "bad", JUNK)
    async with started():
        pass
    async with started(wasm={"limits": {"compile_seconds": 77}}):
        assert compiler.compiled["bad"] == 2


async def test_what_was_refused_for_what_is_around_it_is_tried_again_at_each_look(
    started: Started, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    write_plugin(tmp_path / "plugins" / "reader", HELLO, grants=[f"fs-read:{data}"])
    async with started() as sandboxed:
        assert "found no folder" in (await sandboxed.rows())["reader"]["why"]
        data.mkdir()
        await sandboxed.gateway.reload()
        assert (await sandboxed.rows())["reader"]["state"] == "running"


async def test_a_record_of_refusals_that_cannot_be_read_costs_a_compilation_alone(
    compiler: Compiler, started: Started, tmp_path: Path
) -> None:
    write_plugin(tmp_path / "plugins" / "bad", JUNK)
    async with started():
        pass
    for junk in ("{", "[]", '{"format": 1}', '{"format": "hookgate-wasm-refused-1"}'):
        (tmp_path / "home" / "wasm" / "refused.json").write_text(junk)
        async with started() as sandboxed:
            assert (await sandboxed.rows())["bad"]["state"] == "broken"
    assert compiler.compiled["bad"] == 5


async def test_a_channel_that_comes_with_a_reload_is_there_and_goes_with_its_plugin(
    started: Started, tmp_path: Path
) -> None:
    async with started() as sandboxed:
        channels = sandboxed.gateway.host.channels
        data = constant(parse_incoming={}, format_outgoing={})
        folder = write_plugin(tmp_path / "plugins" / "hooked", data, **CHANNEL)
        await sandboxed.gateway.reload()
        before = channels["wasm.hooked"]
        await sandboxed.gateway.reload()
        assert channels["wasm.hooked"] is before
        # One that waits to be accepted keeps its place: what is to be said by it waits.
        (folder / "guest.wasm").write_bytes(relay("http"))
        await sandboxed.gateway.reload()
        assert channels["wasm.hooked"] is before
        (folder / "hookgate-plugin.toml").unlink()
        await sandboxed.gateway.reload()
        assert "wasm.hooked" not in channels


async def test_a_channel_whose_connection_has_changed_takes_the_place_of_the_one_before(
    started: Started, tmp_path: Path
) -> None:
    data = constant(parse_incoming={}, format_outgoing={})
    folder = write_plugin(tmp_path / "plugins" / "hooked", data, **CHANNEL)
    async with started() as sandboxed:
        channels = sandboxed.gateway.host.channels
        other = {"verification": "header", "secret": "other", "header": "h"}
        write_plugin(folder, data, **{**CHANNEL, "channel": {"webhook": other}})
        digest = read_package(folder, max_bytes=1 << 20).digest
        await sandboxed.accept("hooked", digest)
        connection: Any = channels["wasm.hooked"].connection  # type: ignore[attr-defined]
        assert connection.secret == "other"
