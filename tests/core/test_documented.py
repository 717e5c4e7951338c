from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hookgate.builtin_plugins.control import operations as control
from hookgate.builtin_plugins.memory import operations as memory
from hookgate.core.settings import documented


@pytest.fixture
def interrupted() -> Iterator[None]:
    """Have threads take turns while trees are made: there Python runs when garbage is collected."""

    def look(phase: str, info: Any) -> None:
        for _ in range(50):
            continue

    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(50, 2, 2)
    sys.setswitchinterval(1e-6)
    gc.callbacks.append(look)
    yield
    gc.callbacks.remove(look)
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("interrupted")
def test_threads_read_the_texts_of_models_at_once() -> None:
    read = documented._texts_in.__wrapped__
    names = [control.__name__, memory.__name__] * 6
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(read, names))

    assert all(found)
    assert found == found[:2] * 6
