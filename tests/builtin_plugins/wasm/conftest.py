from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hookgate.builtin_plugins.wasm.engine import Sandbox


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    made = Sandbox(tmp_path / "guests")
    yield made
    await made.close()
