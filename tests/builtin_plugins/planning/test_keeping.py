"""Windows outlive the gateway, in the store or wherever a plugin keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.builtin_plugins.planning.planned import GOOD, LOST, Finds, asked, planning, shown
from tests.builtin_plugins.stores import BrokenStore, differences, opened_store
from tests.support.script import Script

from hookgate import OUTCOME_WINDOWS, Host, OutcomeEntry, OutcomeWindows, hookimpl
from hookgate.builtin_plugins.planning import tables
from hookgate.builtin_plugins.planning.kpi import KeptWindows
from hookgate.builtin_plugins.planning.settings import OutcomeSettings, PlanningSettings
from hookgate.builtin_plugins.planning.tables import METADATA, OUTCOMES, SCRIPTS, StoreWindows

SMALL = PlanningSettings(outcomes=OutcomeSettings(rolling_window_size=5, alert_min_samples=1))
STORED = ("control", "storage", "planning")


def entry(number: int, score: float = 0.95, *, by: str = "t") -> OutcomeEntry:
    status: Any = "success" if score > 0.7 else "failed"
    fault = "" if score > 0.7 else "tools"
    return OutcomeEntry(turn=f"{by}{number}", at=number, status=status, score=score, fault=fault)


@asynccontextmanager
async def stored(home: Path, size: int = 5) -> AsyncIterator[StoreWindows]:
    async with opened_store(home) as store:
        await store.migrate("planning", METADATA, SCRIPTS)
        yield StoreWindows(store, lambda: size)


async def test_migrations_make_the_table_that_the_code_knows(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as store:
        await store.migrate("planning", METADATA, SCRIPTS)
        assert await differences(store, METADATA) == []


async def test_a_window_is_kept_as_its_last_turns(tmp_path: Path) -> None:
    async with stored(tmp_path) as kept:
        for last in (3, 5, 9):
            await kept.save_window("a", [entry(n) for n in range(max(0, last - 5), last)])
        await kept.save_window("b", [entry(1, 0.0)])
        rows = await kept._store.read(
            lambda connection: connection.scalar(sa.select(sa.func.count()).select_from(OUTCOMES))
        )
        found = await kept.load_windows()
    async with stored(tmp_path) as again:
        after_restart = await again.load_windows()
        await again.save_window("b", [])
        rest = await again.load_windows()

    assert found == after_restart == {"a": [entry(n) for n in range(4, 9)], "b": [entry(1, 0.0)]}
    assert (rows, list(rest)) == (6, ["a"])


async def test_gateways_on_one_store_write_side_by_side(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as store:
        await store.migrate("planning", METADATA, SCRIPTS)
        one, other = (
            KeptWindows(SMALL, StoreWindows(store, lambda: 5), shared=True) for _ in range(2)
        )
        for number in range(0, 6, 2):
            one.add("a", entry(number, by="one"))
            other.add("a", entry(number + 1, 0.0, by="other"))
        await asyncio.gather(one.flush(), other.flush())
        await one.flush()
        await other.flush()

    seen = [[item.turn for item in windows.all()["a"].entries] for windows in (one, other)]
    assert seen[0] == seen[1] == ["other1", "one2", "other3", "one4", "other5"]
    assert one.all()["a"].kpi("a").to_json() == other.all()["a"].kpi("a").to_json()


async def test_what_cannot_be_written_is_said_and_tried_again() -> None:
    store, told = BrokenStore(), list[str]()
    windows = KeptWindows(SMALL, StoreWindows(store, lambda: 5), tell=told.append)  # type: ignore[arg-type]
    windows.add("a", entry(1))

    assert not await windows.flush()
    windows.add("a", entry(2))
    store.broken = False
    assert not await windows.flush(), "it could not be read so far"
    assert "the disk is gone" in told[0]
    assert [item.turn for item in windows.all()["a"].entries] == ["t1", "t2"]


async def test_clients_that_name_channels_do_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("hookgate.builtin_plugins.planning.kpi.MOST_SCOPES", 3)
    async with stored(tmp_path) as kept:
        windows = KeptWindows(SMALL, kept)
        for number in range(3):
            windows.add(f"s{number}", entry(number))
        await windows.flush()
        windows.add("s0", entry(9))
        windows.add("s3", entry(9))
        await windows.flush()
        found = await kept.load_windows()

    assert sorted(windows.all()) == sorted(found) == ["s0", "s2", "s3"]


# -- gateways ----------------------------------------------------------------------------


async def test_outcomes_and_changed_plans_are_there_after_a_restart(tmp_path: Path) -> None:
    script = Script(GOOD, *[LOST] * 6)
    closed = {"failure_mode": "fail_closed", "tool_selection": "discovered"}
    async with planning(script, home=tmp_path, builtin=STORED, turn=closed) as gate:
        for _ in range(7):
            await asked(gate)
        before = await shown(gate)
    async with planning(Script(GOOD), Finds(), home=tmp_path, builtin=STORED) as gate:
        after = await shown(gate)
        turn, _ = await asked(gate)

    row = before["scopes"][0]
    assert (row["scopeKey"], row["sampleCount"]) == ("agent:main/channel:cli", 7)
    assert (row["successCount"], row["failedCount"], row["degraded"]) == (1, 6, True)
    assert after == before
    assert after["durable"] is True
    assert turn.plan.widened, "the plan is still changed"


async def test_what_an_ephemeral_store_keeps_is_not_called_durable(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    storage = {"storage": {"path": str(tmp_path / "store")}}
    async with planning(Script(GOOD), home=tmp_path, builtin=STORED, plugin=storage) as gate:
        await asked(gate)
        found = await shown(gate)

    assert (found["durable"], found["scopes"][0]["sampleCount"]) == (False, 1)


async def test_without_a_store_windows_end_with_the_process_and_that_is_said() -> None:
    async with planning(Script(GOOD)) as gate:
        await asked(gate)
        found, notices = await shown(gate), dict(gate.host.notices)

    assert (found["durable"], found["scopes"][0]["sampleCount"]) == (False, 1)
    assert "enable the plugin `storage`" in notices["planning.outcomes"]


class Elsewhere:
    """A third party's plugin that keeps windows in a dictionary."""

    name = "elsewhere"
    provides = (OUTCOME_WINDOWS,)

    def __init__(self) -> None:
        self.windows: dict[str, Sequence[OutcomeEntry]] = {}
        self.broken = False

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        windows: OutcomeWindows = self
        host.provide(OUTCOME_WINDOWS, windows)
        yield

    async def load_windows(self) -> Mapping[str, Sequence[OutcomeEntry]]:
        return self.windows

    async def save_window(self, scope_key: str, entries: Sequence[OutcomeEntry]) -> None:
        if self.broken:
            raise OSError("the network is gone")
        self.windows = {**self.windows, scope_key: tuple(entries)}


async def test_a_plugin_may_keep_windows_elsewhere() -> None:
    elsewhere = Elsewhere()
    for turns in (2, 3):
        async with planning(Script(GOOD), elsewhere) as gate:
            for _ in range(turns):
                await asked(gate)
    async with planning(Script(GOOD), elsewhere) as gate:
        found = await shown(gate)
        elsewhere.broken = True
        await asked(gate)
        broken = await shown(gate)
        degraded = dict(gate.host.degraded)
        elsewhere.broken = False
        await shown(gate)
        mended = dict(gate.host.degraded)

    assert (found["durable"], found["scopes"][0]["sampleCount"]) == (True, 5)
    assert broken["scopes"][0]["sampleCount"] == 6
    assert "the network is gone" in degraded["planning.outcomes"]
    assert "planning.outcomes" not in mended


async def test_a_window_follows_changed_settings() -> None:
    windows = KeptWindows(PlanningSettings())
    for number in range(9):
        windows.add("a", entry(number, 0.0))
    assert windows.all()["a"].degraded
    windows.take(SMALL)

    assert windows.all()["a"].kpi("a").samples == 5


def test_the_port_is_what_the_store_has() -> None:
    port: OutcomeWindows = StoreWindows(BrokenStore(), lambda: 5)  # type: ignore[arg-type]
    assert port.load_windows and tables.METADATA.tables.keys() == {"planning_outcome"}
