"""What was compiled, kept in a folder of this user alone, and having it compiled elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import platform
import re
import secrets
import signal
import stat
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hookgate.builtin_plugins.wasm.engine.compiled import child
from hookgate.builtin_plugins.wasm.engine.compiled.child import UNSUPPORTED
from hookgate.builtin_plugins.wasm.engine.limits import GuestRefusedError, Limits
from hookgate.kit.content.files import open_file

SETTINGS = "1"
"""Counts the settings that artefacts depend on."""
KEY_BYTES = 32
LEFT_SECONDS = 3600.0


class FolderError(Exception):
    """The folder of artefacts cannot be trusted; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Artefact:
    """A compiled guest: where it lies, and what it says of itself."""

    path: Path
    said: dict[str, Any]


class Artefacts:
    """The folder of compiled guests, at most `most_bytes` large: what was used least goes first."""

    def __init__(self, folder: Path, *, most_bytes: int) -> None:
        self.folder = folder
        self.most_bytes = most_bytes

    def find(self, digest: str) -> Artefact | None:
        """Return what was compiled from the module of this digest, if it lies here unchanged."""
        folder = self._checked()
        path, label = self._paths(folder, digest)
        try:
            said, code = json.loads(_read_own(label))
            if not isinstance(said, dict) or not hmac.compare_digest(
                code, self._code(digest, path, said)
            ):
                raise ValueError("it was changed")
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, RecursionError):
            _remove(label, path)
            return None
        os.utime(label)
        return Artefact(path, said)

    def keep(self, digest: str, compiled: Path, said: dict[str, Any]) -> Artefact:
        """Take the artefact in the file `compiled`, which lies in the folder, for this module."""
        folder = self._checked()
        path, label = self._paths(folder, digest)
        code = self._code(digest, compiled, said)
        compiled.replace(path)
        new = _new_name(label)
        with open(new, "x", opener=_private, encoding="utf-8") as out:
            json.dump([said, code], out)
        new.replace(label)
        self._shrink(folder, keep=path)
        return Artefact(path, said)

    def open_new(self) -> tuple[Path, int]:
        """Open a new file in the folder, to be written by whoever compiles."""
        path = _new_name(self._checked() / "new")
        return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)

    def _paths(self, folder: Path, digest: str) -> tuple[Path, Path]:
        name = f"{digest}-{self._engine}"
        return folder / f"{name}.cwasm", folder / f"{name}.json"

    @cached_property
    def _engine(self) -> str:
        """What an artefact depends on beside its module, as part of its name."""
        parts = ("wasmtime", version("wasmtime"), SETTINGS, *UNSUPPORTED, platform.machine())
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    @cached_property
    def _key(self) -> bytes:
        """The key, in a file beside the folder: who copies the folder alone has none."""
        path = self.folder.with_name(f"{self.folder.name}.key")
        if not path.exists():
            new = _new_name(path)
            with open(new, "xb", opener=_private) as out:
                out.write(secrets.token_bytes(KEY_BYTES))
            # Of two gateways that begin here, one brings the key, and both read it.
            with contextlib.suppress(FileExistsError):
                os.link(new, path)
            new.unlink()
        try:
            key = _read_own(path)
        except ValueError as error:
            raise FolderError(f"the key of compiled guests: {error}: remove it") from error
        if len(key) != KEY_BYTES:
            text = f"the key {str(path)!r} has {len(key)} bytes, expected {KEY_BYTES}: remove it"
            raise FolderError(text)
        return key

    def _code(self, digest: str, path: Path, said: dict[str, Any]) -> str:
        """Return the code of an artefact: of what it was made of and for, and not of its name."""
        labelled = json.dumps([digest, self._engine, said], sort_keys=True).encode()
        code = hmac.new(self._key, b"%d\n%s" % (len(labelled), labelled), hashlib.sha256)
        descriptor = _open_own(path)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            while chunk := file.read(1 << 20):
                code.update(chunk)
        return code.hexdigest()

    def _checked(self) -> Path:
        """Return the folder, made where it is missing. One that others may write is refused."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = self.folder.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise FolderError(f"{str(self.folder)!r} is a link or a file, expected a folder")
        if hasattr(os, "geteuid") and (
            found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077
        ):
            raise FolderError(
                f"the folder of compiled guests {str(self.folder)!r} belongs to user "
                f"{found.st_uid} with mode {stat.S_IMODE(found.st_mode):04o}, expected user "
                f"{os.geteuid()} with mode 0700: whoever can write there can run code here. "
                f"Remove it, and it is made anew"
            )
        return self.folder

    def _shrink(self, folder: Path, *, keep: Path) -> None:
        for left in folder.glob(".*"):  # by a compilation that was killed with its gateway
            if time.time() - _used(left) > LEFT_SECONDS:
                _remove(left)
        sizes = {path: path.stat() for path in folder.glob("*.cwasm")}
        total = sum(one.st_size for one in sizes.values())
        for path in sorted(sizes.keys() - {keep}, key=lambda one: _used(one.with_suffix(".json"))):
            if total <= self.most_bytes:
                return
            total -= sizes[path].st_size
            _remove(path.with_suffix(".json"), path)


def _used(label: Path) -> float:
    try:
        return label.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _new_name(path: Path) -> Path:
    return path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _remove(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _open_own(path: Path) -> int:
    """Open a plain file that belongs to this user and that nobody else may write."""
    descriptor = open_file(path)
    found = os.fstat(descriptor)
    owned = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    if stat.S_ISREG(found.st_mode) and owned and not stat.S_IMODE(found.st_mode) & 0o022:
        return descriptor
    os.close(descriptor)
    raise ValueError(f"{path.name} is not a file of this user that nobody else may write")


def _read_own(path: Path) -> bytes:
    with os.fdopen(_open_own(path), "rb") as file:
        return file.read()


# -- compiling -------------------------------------------------------------------

# Has a guest compiled in a process of its own, which is killed when it takes too much.

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
