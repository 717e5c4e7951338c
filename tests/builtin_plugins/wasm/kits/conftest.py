from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hookgate.builtin_plugins.wasm.engine.sandbox import Sandbox


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of compiled guests: what one test compiles, the next one takes."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture
async def sandbox(compiled: Path) -> AsyncIterator[Sandbox]:
    made = Sandbox(compiled, threads=4)
    yield made
    await made.close()
