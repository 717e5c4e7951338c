"""What was compiled, kept in a folder that only this user can write.

A changed artefact is run as it stands: wasmtime takes what it is handed for its own code. So each
one carries a code made with a key that lies outside the folder, and what does not match it is
compiled anew: also an artefact of another module, or of another engine, under this one's name.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import platform
import secrets
import stat
import time
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hookgate.builtin_plugins.wasm.engine.compiled.child import UNSUPPORTED
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
