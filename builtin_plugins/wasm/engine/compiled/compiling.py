"""Has a guest compiled in a process of its own, which is killed when it takes too much."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

from hookgate.builtin_plugins.wasm.engine.compiled import child
from hookgate.builtin_plugins.wasm.engine.compiled.artefacts import Artefact, Artefacts
from hookgate.builtin_plugins.wasm.engine.errors import GuestRefusedError
from hookgate.builtin_plugins.wasm.engine.limits import Limits

KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""What an interpreter may need of the environment to start. Nothing else of it is handed over."""
SAID_BYTES = 4 * 1024 * 1024
ARTEFACT_BYTES = 1024 * 1024 * 1024
NO_MEMORY = re.compile(
    r"memory allocation of \d+ bytes failed|MemoryError|(?i:cannot allocate memory)"
    r"|failed to map segment"
)
"""What Rust, Python, the system and its loader say of a process without memory."""
VECTORS = "support for v128"
"""What wasmtime's C interface says before it ends the process, asked for the type of a function."""

# The search path is handed over, since a packed program has one that no other process has. What
# is run is the file itself: it needs wasmtime, and nothing of this package.
START = (
    "import sys, os, runpy; "
    "os.dup2(int(sys.argv[1]), 3); "
    "path = sys.argv[2]; sys.path[:0] = sys.argv[7:]; sys.argv[1:] = sys.argv[3:7]; "
    "runpy.run_path(path, run_name='__main__')"
)


async def compiled(
    data: bytes, digest: str, artefacts: Artefacts, *, name: str, limits: Limits
) -> Artefact:
    """Compile `data` within the limits, and keep the artefact.

    Raises:
        GuestRefusedError: It is no valid module, or it met a limit of compiling.
    """
    if sys.platform == "win32":
        raise GuestRefusedError("guests are compiled on Linux and macOS alone", guest=name)
    path, descriptor = artefacts.open_new()
    try:
        try:
            said = await _run(data, descriptor, name=name, limits=limits)
        finally:
            os.close(descriptor)
        return await asyncio.to_thread(artefacts.keep, digest, path, said)
    finally:
        path.unlink(missing_ok=True)


async def _run(data: bytes, artefact: int, *, name: str, limits: Limits) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-c", START, str(artefact), str(Path(child.__file__))),
        *(
            str(os.getpid()),
            str(limits.compile_seconds),
            str(limits.compile_memory_bytes),
            str(ARTEFACT_BYTES),
        ),
        *(one for one in sys.path if one),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        pass_fds=(artefact,),
        start_new_session=True,
        cwd="/",
        env={name: os.environ[name] for name in KEPT if name in os.environ},
        limit=SAID_BYTES,
    )
    try:
        async with asyncio.timeout(limits.compile_seconds):
            said, errors = await _talk(process, data)
    except TimeoutError:
        raise GuestRefusedError(
            f"compiling it took longer than its limit, compile_seconds = "
            f"{limits.compile_seconds:g}",
            guest=name,
        ) from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return _outcome(process.returncode, said, errors, name=name, limits=limits)


async def _talk(process: asyncio.subprocess.Process, data: bytes) -> tuple[bytes, bytes]:
    """Hand the module over, and read what is said of it: at most `SAID_BYTES` of each."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None

    async def give(stdin: asyncio.StreamWriter) -> None:
        # A process that ends before it has read all says why in another place.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(data)
            await stdin.drain()
        stdin.close()

    async def take(stream: asyncio.StreamReader) -> bytes:
        parts = []
        left = SAID_BYTES
        while left > 0 and (part := await stream.read(left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    _, said, errors = await asyncio.gather(
        give(process.stdin), take(process.stdout), take(process.stderr)
    )
    await process.wait()
    return said, errors


def _outcome(
    code: int | None, said: bytes, errors: bytes, *, name: str, limits: Limits
) -> dict[str, Any]:
    text = errors.decode("utf-8", "replace").strip()
    if code == 0:
        found: dict[str, Any] = json.loads(said)
        return found
    if code == child.REFUSED:
        raise GuestRefusedError(f"it is no module that can be used: {_short(text)}", guest=name)
    if code is not None and -code == getattr(signal, "SIGXCPU", None):
        reason = f"compiling it met its limit, compile_seconds = {limits.compile_seconds:g}"
    elif code is not None and -code == getattr(signal, "SIGXFSZ", None):
        reason = f"compiled it is larger than {ARTEFACT_BYTES:,} bytes"
    elif VECTORS in text:
        reason = (
            "a function that it imports or exports takes or returns v128 (SIMD), which has no form "
            "here: expected vectors within functions alone"
        )
    elif NO_MEMORY.search(text):
        reason = (
            f"compiling it met its limit, compile_memory_bytes = {limits.compile_memory_bytes:,}"
        )
    else:
        reason = f"compiling it ended with {code}: {_short(text) or 'it said nothing'}"
    raise GuestRefusedError(reason, guest=name)


def _short(text: str) -> str:
    """Return what went wrong, without the trace of where."""
    lines = [line for line in text.splitlines() if line.strip()]
    return " ".join(line.strip() for line in lines)[:500]
