"""What was refused for what it is: to compile it again would cost the same, and say the same."""

from __future__ import annotations

import hashlib
import json
import platform
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

from hookgate.kit.content.files import write_whole

FORMAT: Final = "hookgate-wasm-refused-1"

MOST: Final = 1024
"""Refusals that are kept; the oldest goes first."""

WHY_CHARS: Final = 2_000


class Refusals:
    """Reasons by the digest over manifest and module, in the home folder. All of it blocks.

    They hold for one engine, one version of hookgate and one set of limits: with another one each
    plugin is tried again. What cannot be read or written costs a compilation, and nothing else.

    Args:
        home: The gateway's home folder.
        limits: What plugins may ask for at most, as text.

    Attributes:
        known: Why each one was refused.
    """

    def __init__(self, home: Path, limits: str) -> None:
        self._file = home / "wasm" / "refused.json"
        parts = (
            *map(version, ("hookgate", "wasmtime")),
            platform.system(),
            platform.machine(),
            limits,
        )
        self._engine = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        self.known: dict[str, str] = {}
        # ValueError: no JSON, or no text.
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            data = json.loads(self._file.read_bytes())
            if (data["format"], data["engine"]) == (FORMAT, self._engine):
                self.known = {str(one): str(why) for one, why in data["refused"].items()}

    def put(self, digest: str, why: str) -> None:
        """Remember why a plugin was refused."""
        self.known[digest] = why[:WHY_CHARS]
        while len(self.known) > MOST:
            del self.known[next(iter(self.known))]
        self._write()

    def drop(self, digest: str) -> None:
        """Forget that a plugin was refused."""
        if self.known.pop(digest, None) is not None:
            self._write()

    def _write(self) -> None:
        data = {"format": FORMAT, "engine": self._engine, "refused": dict(self.known)}
        with suppress(OSError):
            write_whole(self._file, json.dumps(data, indent=2).encode() + b"\n", durable=False)
