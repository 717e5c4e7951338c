"""The benchmark of guests: its figures can be had, and runaway guests leave turns alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.wasm import guests as wasm

from hookgate.builtin_plugins.wasm.engine.sandbox import Sandbox


@pytest.mark.slow
async def test_a_call_is_timed_against_its_peers(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path / "guests", threads=2 * wasm.RUNAWAYS)

    found = {
        (one.name, one.against): one.value for one in await wasm.calls(sandbox, None, quick=True)
    }

    assert found["fresh call", "wasmtime-py, plainly"] < 1
    assert found["fresh call from the event loop, wall time", ""] > 0
    await sandbox.close()


@pytest.mark.slow
async def test_runaway_guests_leave_turns_alone(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path / "guests", threads=2 * wasm.RUNAWAYS)

    figures = await wasm.beside(sandbox, tmp_path / "gateway", quick=True)

    [middle] = [one.value for one in figures if one.name.endswith("p50")]
    assert middle < 10, "on a machine with two cores, eight guests loop beside every turn"
    await sandbox.close()


def test_a_benchmark_without_extism_says_nothing_of_it() -> None:
    with wasm.peer(None, b"", 1) as run:
        assert run is None
