from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pluggy
import pytest
from tests.support.script import Script, Scripted, gateway, say

from hookgate import hookspecs
from hookgate.builtin_plugins.control import watchdog as module
from hookgate.builtin_plugins.control.operations import Control
from hookgate.builtin_plugins.control.watchdog import Watchdog
from hookgate.core.hooks.caller import Hooks
from hookgate.core.host import Host
from hookgate.core.settings.schema import Settings
from hookgate.core.settings.secret_store import SecretStore
from hookgate.hookspecs import PROJECT, hookimpl


class Lines:
    """A log that keeps level and event of each line."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, str]] = []

    def __getattr__(self, level: str) -> Any:
        return lambda event, **_: self.kept.append((level, event))


def bare_host() -> Host:
    """Return the host of a gateway without plugins."""
    settings = Settings()
    host = Host(settings, SecretStore(settings))
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    host.attach(hooks=Hooks(manager))
    return host


def deep(frame: FrameType | None) -> Iterator[list[str]]:
    """Walk a stack, and keep what is made of it."""
    while frame is not None:
        yield list(frame.f_locals)
        frame = frame.f_back


@pytest.mark.parametrize("collects", [True, False])
def test_nothing_is_collected_while_the_frames_of_a_thread_are_walked(collects: bool) -> None:
    # What a collection runs lets that thread go on, and its frame is freed under whoever walks.
    seen: list[str] = []
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    thresholds, enabled = gc.get_threshold(), gc.isenabled()
    gc.callbacks.append(lambda phase, info: seen.append(phase))
    gc.set_threshold(1, 1, 1)
    (gc.enable if collects else gc.disable)()
    try:
        with module.innermost(thread.ident or 0) as frame:
            before = len(seen)
            within = [list(deep(frame)) for _ in range(100)]
            during = len(seen)
        after = gc.isenabled()
    finally:
        over.set()
        thread.join()
        gc.callbacks.pop()
        gc.set_threshold(*thresholds)
        (gc.enable if enabled else gc.disable)()
    assert len(within[0]) > 3
    assert during == before
    assert after is collects


@pytest.mark.parametrize(("settling", "level"), [(3600.0, "debug"), (0.0, "warning")])
async def test_whoever_holds_the_loop_is_a_warning_once_the_gateway_has_settled(
    settling: float, level: str
) -> None:
    host = bare_host()
    lines = Lines()
    host.log = lines
    with Watchdog(host, limit=0.02, settling=settling) as watchdog:
        deadline = time.monotonic() + 20
        while not watchdog.reports:
            assert time.monotonic() < deadline
            time.sleep(0.1)  # noqa: ASYNC251 - this is what it is to notice
            await asyncio.sleep(0)
    assert set(lines.kept) == {(level, "the event loop is held")}


class Door:
    """A lock at which somebody waits for as long as a loop with nothing to do is left alone."""

    def __init__(self, waits: Callable[[], Any]) -> None:
        self._lock, self._waits = threading.Lock(), waits
        self._lock.acquire()
        self.release, self.locked = self._lock.release, self._lock.locked

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if timeout == module.IDLE:
            self._waits()
        return self._lock.acquire(blocking, timeout)


async def test_a_loop_with_nothing_to_do_is_asked_seldom_until_a_turn_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, seldom, again = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    call = loop.call_soon_threadsafe
    monkeypatch.setattr(module, "IDLE", 3600.0)

    def heard(callback: Any, *args: Any, **more: Any) -> Any:
        if seldom.is_set():
            call(again.set)
        return call(callback, *args, **more)

    monkeypatch.setattr(loop, "call_soon_threadsafe", heard)
    watchdog = Watchdog(bare_host(), limit=0.01)
    monkeypatch.setattr(watchdog, "_begins", Door(lambda: call(seldom.set)))
    with watchdog:
        await seldom.wait()
        assert not again.is_set()
        # It would come in an hour.
        watchdog.begins()
        await again.wait()


async def test_a_loop_that_is_late_is_not_ready_until_it_has_been_on_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LATE", 0.2)
    host = bare_host()
    with Watchdog(host, limit=0.01) as watchdog:
        deadline = time.monotonic() + 30
        while not host.standing.unready:
            assert time.monotonic() < deadline
            watchdog.begins()
            time.sleep(0.3)  # noqa: ASYNC251 - this is what it is to notice
            await asyncio.sleep(0.02)
        assert host.standing.unready == {"event loop": "the event loop is late by 0.2 s or more"}
        while host.standing.unready:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_hook_that_holds_the_event_loop_is_named_with_its_plugin(kind: str) -> None:
    def watchdog() -> Watchdog:
        control: Any = gate.plugins.get("control")
        return control._watchdog  # type: ignore[no-any-return]

    def hold() -> None:
        deadline = time.monotonic() + 30
        while watchdog().reports == 0:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    class Plain:
        name = "acme"

        @hookimpl
        def before_turn(self, turn: Any) -> None:
            hold()

    class Async:
        name = "acme"

        @hookimpl
        async def before_turn(self, turn: Any) -> None:
            await asyncio.sleep(0)
            hold()

    plugin = Plain() if kind == "plain" else Async()
    async with gateway(Scripted(Script(say("ok"))), plugin) as gate:
        # A start holds the loop too, now and then; that is not what is looked at.
        watchdog()._settled = watchdog().reports = 0
        gate.host.notices.clear()
        await gate.chat("hi")
        while "plugin acme" not in gate.host.notices:  # noqa: ASYNC110 - a thread says it
            await asyncio.sleep(0.01)
        told = gate.host.notices["plugin acme"]
    assert "its hook before_turn has held the event loop for more than 50 ms" in told
    assert "@blocking" in told


async def asked(gate: Any) -> Any:
    """Return what `status` says."""
    control = gate.plugins.get("control")
    told = await Control(gate.host, control._watchdog).status(Any)  # type: ignore[arg-type]
    return told.model_dump(mode="json")


@pytest.mark.parametrize("where", ["hook", "task"])
async def test_status_says_for_how_long_each_plugin_has_held_the_event_loop(where: str) -> None:
    def hold() -> None:
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline:
            pass

    class Holds:
        name = "acme"

        @hookimpl
        async def before_turn(self, turn: Any) -> None:
            if where == "hook":
                hold()
            else:
                gate.host.spawn(self.work(), name="acme")

        async def work(self) -> None:
            hold()

    async with gateway(Scripted(Script(say("ok"))), Holds()) as gate:
        assert "acme" not in (await asked(gate))["blocked_seconds"]
        await gate.chat("hi")
        while not (found := (await asked(gate))["blocked_seconds"].get("acme")):  # noqa: ASYNC110 - a thread measures it
            await asyncio.sleep(0.01)
    assert 0.1 <= found < 5


async def test_status_says_by_how_much_memory_grows_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = 100_000_000
    monkeypatch.setattr(module, "resident", lambda: held)
    with Watchdog(bare_host(), limit=0.005) as watchdog:

        async def turns(count: int) -> None:
            for _ in range(count):
                watchdog.begins()
            while not watchdog._memory or watchdog._memory[-1][0] != watchdog.turns:  # noqa: ASYNC110 - a thread notes it
                await asyncio.sleep(0.005)

        assert watchdog.growth() is None
        await turns(50)
        assert watchdog.growth() is None
        held += 640_000
        await turns(50)
        held += 360_000
        await turns(50)
        assert watchdog.growth() == (10_000, 100)
        for _ in range(25):
            await turns(50)
        growth = watchdog.growth()
    assert growth == (0, 950)


async def test_status_says_nothing_of_memory_where_the_system_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(module, "STATM", tmp_path / "none")
    async with gateway(Scripted(Script(say("ok")))) as gate:
        found = (await asked(gate))["memory"]
    assert found == {"bytes": None, "bytes_a_turn": None, "turns": 0}
