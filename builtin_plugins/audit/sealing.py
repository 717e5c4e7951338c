"""The chain: each row carries a seal over itself and over the seal of the row before it.

A seal is an HMAC-SHA256. Without the key, nobody can change a row, take one out, put one in or
swap two so that the seals still fit. With the key somebody can rebuild everything behind a row:
against that, a head that was exported before and is kept elsewhere stands.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hookgate import StartError
from hookgate.kit.content.files import write_whole
from hookgate.wire import canonical

KEY_BYTES = 32
"""The length of a key that is made here; that of the digest, as RFC 2104 recommends."""

SEALED = (
    "chain",
    "seq",
    "at",
    "kind",
    "turn",
    "session",
    "call",
    "tool",
    "category",
    "outcome",
    "data",
    "previous",
    "key",
)
"""The columns that a seal covers, in the order in which they go into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The last row of a chain.

    Attributes:
        chain: The chain.
        seq: The row's number in it.
        seal: Its seal, in hex; "" for a row from before there were seals.
    """

    chain: str
    seq: int
    seal: str

    def __str__(self) -> str:
        return f"{self.chain}/{self.seq}/{self.seal}"


def parse_head(text: str) -> Head | None:
    """Read what ``str(head)`` wrote; None where it is none."""
    chain, _, rest = text.partition("/")
    number, _, seal = rest.partition("/")
    if not chain or not number.isascii() or not number.isdigit():
        return None
    return Head(chain=chain, seq=int(number), seal=seal)


class Sealer:
    """Seals rows with one key.

    Args:
        key: The key.
        since: Since when there is the key, as rows write times; "" where that is not known.

    Attributes:
        name: Names the key in rows without telling it: the beginning of its SHA-256.
        since: See above. No row that is newer can be from before there were seals.
    """

    def __init__(self, key: bytes, since: str = "") -> None:
        self._key = key
        self.since = since
        self.name = hashlib.sha256(b"hookgate audit key\n" + key).hexdigest()[:16]

    def seal(self, row: Mapping[str, Any], before: str) -> str:
        """Return the seal of `row`, in hex.

        Args:
            row: At least the columns of `SEALED`.
            before: The seal of the row before it in its chain; "" for the first one.
        """
        covered = canonical({"before": before, "row": [row[name] for name in SEALED]})
        return hmac.new(self._key, covered, hashlib.sha256).hexdigest()

    def fits(self, row: Mapping[str, Any], before: str) -> bool:
        """Whether the seal in `row` is the one that it has to have."""
        return hmac.compare_digest(str(row["seal"]), self.seal(row, before))

    def chained(self, row: Mapping[str, Any], head: Head | None) -> dict[str, Any]:
        """Return `row` with its number and its seal.

        Args:
            row: The row without them.
            head: The last row of its own chain; where there is none, the last row of all,
                which the first row of a chain names.
        """
        own = head if head is not None and head.chain == row["chain"] else None
        placed = {
            **row,
            "seq": own.seq + 1 if own else 1,
            "previous": "" if own or head is None else str(head),
            "key": self.name,
        }
        return {**placed, "seal": self.seal(placed, own.seal if own else "")}


def key_from_secret(value: str, name: str) -> bytes:
    """Return the key that a secret holds.

    Raises:
        StartError: It is too short to be one.
    """
    raw = value.strip().encode()
    if len(raw) < KEY_BYTES:
        raise StartError(
            f"the secret {name!r} has {len(raw)} bytes: expected at least {KEY_BYTES} for the key "
            "of the audit; `openssl rand -hex 32` makes one"
        )
    return raw


def key_from_file(path: Path) -> bytes:
    """Return the key in `path`; make one where there is no file. It blocks.

    Raises:
        StartError: The file cannot be read or made, or holds no key.
    """
    try:
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            raw = _made(path)
    except OSError as error:
        raise StartError(f"the key of the audit, {path}, cannot be read: {error}") from error
    key = raw.strip()
    if len(key) < KEY_BYTES:
        raise StartError(
            f"found {len(key)} bytes in {path}, expected a key of at least {KEY_BYTES}: put the "
            "right file back, or move this one away for a new key (older rows then cannot be "
            "verified)"
        )
    return key


def made_at(path: Path) -> str:
    """Return since when there is the key in `path`, as rows write times. It blocks.

    A copy that was made without its times counts as younger than it is, which believes more
    rows without a seal, and accuses none.
    """
    made = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return made.isoformat(timespec="microseconds")


def _made(path: Path) -> bytes:
    key = os.urandom(KEY_BYTES).hex().encode() + b"\n"
    try:
        write_whole(path, key, durable=True, replace=False)
    except FileExistsError:
        return path.read_bytes()  # another process was faster
    return key
