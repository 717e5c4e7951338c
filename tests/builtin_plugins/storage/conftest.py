from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.settings import StorageSettings
from hookgate.builtin_plugins.storage.store import SqlStore

OpenStore: TypeAlias = Callable[..., Awaitable[SqlStore]]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[OpenStore]:
    """Open stores under `tmp_path`, and close them at the end."""
    async with AsyncExitStack() as stack:

        async def open_one(home: Path = tmp_path, tell: Any = None, **settings: Any) -> SqlStore:
            extra = {} if tell is None else {"tell": tell}
            store = await open_store(StorageSettings(**settings), home, **extra)
            stack.push_async_callback(store.close)
            return store

        yield open_one


@pytest.fixture
async def store(opened: OpenStore) -> SqlStore:
    return await opened()
