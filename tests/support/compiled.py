"""A guest is compiled once in a process of tests.

Each compilation is a process of its own, which takes longer than most tests of a guest. What came
out of one is kept by the module and the limits; what was refused is refused anew each time. What
is small and has the limits of every guest is compiled in the process of the tests.
Tests of compiling itself use the fixture `compiled_anew`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hookgate.builtin_plugins.wasm.engine.compiled import artefacts as compiling
from hookgate.builtin_plugins.wasm.engine.compiled import child
from hookgate.builtin_plugins.wasm.engine.compiled.artefacts import Artefacts
from hookgate.builtin_plugins.wasm.engine.limits import Limits

RUN = compiling._run
MOST = 1024 * 1024
SMALL = 64 * 1024
EVERY = Limits().compile_seconds, Limits().compile_memory_bytes


@contextmanager
def compiled_once() -> Iterator[None]:
    known: dict[tuple[bytes, float, int], tuple[dict[str, Any], bytes]] = {}
    open_new = Artefacts.open_new

    def readable(artefacts: Artefacts) -> tuple[Path, int]:
        path, descriptor = open_new(artefacts)
        os.close(descriptor)
        return path, os.open(path, os.O_RDWR)

    async def once(data: bytes, artefact: int, *, name: str, limits: Limits) -> dict[str, Any]:
        key = data, limits.compile_seconds, limits.compile_memory_bytes
        if key in known:
            said, made = known[key]
            os.write(artefact, made)
        elif key[1:] == EVERY and len(data) < SMALL:
            try:
                said, made = await asyncio.to_thread(child._compile, data)
            except child._Refused:
                return await RUN(data, artefact, name=name, limits=limits)
            known[key] = said, bytes(made)
            os.write(artefact, made)
        else:
            said = await RUN(data, artefact, name=name, limits=limits)
            if (size := os.fstat(artefact).st_size) < MOST:
                known[key] = said, os.pread(artefact, size, 0)
        return {**said}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Artefacts, "open_new", readable)
        patch.setattr(compiling, "_run", once)
        yield


@pytest.fixture
def compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_run", RUN)
