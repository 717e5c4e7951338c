"""Scanning a file of texts with the detector, one line of JSON a text.

A line of the file is an object with ``id`` and ``text``, and what else one likes; ``label``,
``kind`` and ``subset`` are counted by. What comes out has one line a text, in the same order.
"""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hookgate import HookgateError
from hookgate.builtin_plugins.sanitizer.detector import inspect, verdict

_GZIP = b"\x1f\x8b"


class ScanError(HookgateError):
    """The file of texts cannot be read, or a line of it is no text with an id."""


@dataclass(slots=True)
class Counted:
    """How many texts there are of one sort, and how many of them are flagged."""

    items: int = 0
    flagged: int = 0


@dataclass(slots=True)
class Summary:
    """What a scan came to.

    Attributes:
        items: How many texts were scanned.
        flagged: How many of them would be rejected as a stranger's card.
        by: The same for each label, kind and subset that lines name, as ``label=benign``.
        milliseconds: Of processor time a text: ``mean``, ``p99`` and ``max``.
    """

    items: int = 0
    flagged: int = 0
    by: dict[str, Counted] = field(default_factory=dict)
    milliseconds: dict[str, float] = field(default_factory=dict)


def scan_file(items: Path, out: Path) -> Summary:
    """Scan the texts of `items`, plain or gzip, and write what was found to `out`.

    `out` appears when all of it is written, and not at all where an error is raised.

    Raises:
        ScanError: `items` cannot be read, `out` cannot be written, or a line is wrong.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.parent)
    except OSError as error:
        raise ScanError(
            f"{out}: cannot write a file there ({error.strerror}), expected a folder that exists "
            "and may be written to"
        ) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as lines:
            summary = _scan(items, lines.write)
        Path(name).replace(out)
    except BaseException as error:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        if isinstance(error, OSError):
            raise ScanError(f"{out}: cannot write it ({error.strerror})") from None
        raise
    return summary


def _scan(items: Path, write: Any) -> Summary:
    summary, taken = Summary(), []
    counts: dict[str, Counted] = defaultdict(Counted)
    seen: set[str] = set()
    for number, item in _items(items):
        place = f"{items}:{number}"
        name, text = _text_of(item, place)
        if name in seen:
            raise ScanError(f"{place}: found the id {name!r} again, expected one line for each id")
        seen.add(name)
        begun = time.thread_time()
        found = inspect(text)
        taken.append(1000 * (time.thread_time() - begun))
        judged = verdict(found, trusted=False)
        flagged = judged == "reject"
        row = {
            "id": name,
            "flagged": flagged,
            "verdict": judged,
            "findings": [asdict(finding) for finding in found],
            "milliseconds": round(taken[-1], 3),
        }
        write(json.dumps(row, ensure_ascii=False) + "\n")
        summary.items += 1
        summary.flagged += flagged
        for key in ("label", "kind", "subset"):
            if isinstance(item.get(key), str):
                counted = counts[f"{key}={item[key]}"]
                counted.items += 1
                counted.flagged += flagged
    summary.by = dict(sorted(counts.items()))
    if taken:
        taken.sort()
        summary.milliseconds = {
            "mean": round(sum(taken) / len(taken), 2),
            "p99": round(taken[min(len(taken) - 1, int(0.99 * len(taken)))], 2),
            "max": round(taken[-1], 2),
        }
    return summary


def _text_of(item: dict[str, Any], place: str) -> tuple[str, str]:
    for key in ("id", "text"):
        if key not in item:
            raise ScanError(f"{place}: found no `{key}`, expected an object with `id` and `text`")
        if not isinstance(item[key], str):
            kind = type(item[key]).__name__
            raise ScanError(f"{place}: found `{key}` of the type {kind}, expected a string")
    return item["id"], item["text"]


def _items(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file with the numbers of their lines; empty lines are skipped."""
    number = 0
    try:
        with path.open("rb") as begin:
            packed = begin.read(2) == _GZIP
        with gzip.open(path, "rb") if packed else path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, _object(line, f"{path}:{number}")
    except FileNotFoundError:
        raise ScanError(f"{path}: found no such file, expected lines of JSON") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ScanError(f"{path}: broken gzip after line {number} ({error})") from None
    except OSError as error:
        raise ScanError(f"{path}: cannot read it ({error.strerror})") from None


def _object(line: bytes, place: str) -> dict[str, Any]:
    try:
        item = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ScanError(f"{place}: found a byte that is not UTF-8 ({error.reason})") from None
    except (json.JSONDecodeError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deep"
        raise ScanError(f"{place}: not JSON ({why}), expected one object a line") from None
    if not isinstance(item, dict):
        kind = type(item).__name__
        raise ScanError(f"{place}: found a {kind}, expected an object with `id` and `text`")
    return item
