"""What of a sandbox lives in one process."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hookgate.builtin_plugins.wasm.engine import machine as machines
from hookgate.builtin_plugins.wasm.engine.limits import Limits
from hookgate.builtin_plugins.wasm.engine.machine import Machine


async def test_guests_that_load_at_the_same_time_share_one_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make, begun, both = machines._engine, threading.Semaphore(0), threading.Event()

    def made(*given: Any) -> Any:
        begun.release()
        both.wait(5)
        return make(*given)

    monkeypatch.setattr(machines, "_engine", made)
    machine = Machine(1, 1 << 20)

    with ThreadPoolExecutor(2) as threads:
        loads = [threads.submit(machine.engine, Limits()) for _ in range(2)]
        assert begun.acquire(timeout=120)
        # The other one is begun at once where it does not wait for the first.
        begun.acquire(timeout=0.2)
        both.set()
        one, other = [load.result() for load in loads]

    assert one is other
