"""A copy of a home folder in one file, made while the gateway runs, and putting it back.

The file is a tar archive, for its owner alone: the store as SQLite copies it, which is whole
whatever is written meanwhile, and the files that it is of no use without. It holds what it
holds by a digest each; what is put back is what was copied.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import stat
import tarfile
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from hookgate import HookgateError
from hookgate.builtin_plugins.storage.engine.lock import FileLock
from hookgate.kit.content.files import write_whole

FORMAT = 1
"""The version of the archive's form."""

CONTENTS = "contents.json"
STORE = "store.db"
KEYS = "keys/"
FORMER = "former-keys/"
"""Before the names of keys with which the audit was sealed once."""

MAX_CONTENTS = 1_000_000
"""Bytes of the longest list of contents that is read."""

OWNER_ALONE = 0o600


class BackupError(HookgateError):
    """A copy cannot be made or put back; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a copy is of, and where it goes back to.

    Attributes:
        store: The SQLite file.
        files: Other files by their name in the archive; one that is not there is left out.
        keys: The folder of key files; None where these are not copied.
        former: The folder of former keys of the audit that are none of `files`.
    """

    store: Path
    files: Mapping[str, Path] = field(default_factory=dict)
    keys: Path | None = None
    former: Path | None = None

    def place_of(self, name: str) -> Path | None:
        """Return where the member `name` of an archive belongs; None where nowhere."""
        if name == STORE:
            return self.store
        if name in self.files:
            return self.files[name]
        for start, folder in ((KEYS, self.keys), (FORMER, self.former)):
            plain = name.removeprefix(start)
            if name.startswith(start) and folder is not None and plain == Path(plain).name:
                place = folder / plain
                # One of another folder may have the name of a file of this one.
                taken = place == self.store or place in self.files.values()
                return folder / FORMER / plain if taken else place
        return None


# -- making one ------------------------------------------------------------------


def back_up(kept: Kept, target: Path, *, now: datetime, force: bool) -> tuple[Path, list[str]]:
    """Write a copy and return where it is, and what it holds. It blocks.

    Args:
        kept: What is copied.
        target: The file, or a folder, in which it gets a name with the time; a name without an
            ending, such as ``backups``, is a folder's.
        now: The time, in UTC.
        force: Whether a file that is there is replaced.

    Raises:
        BackupError: There is no store, or something is in the way, or it cannot be written.
            Nothing stands under the final name then, but what stood there before.
    """
    if not kept.store.is_file():
        raise BackupError(
            f"found no store at {kept.store}: expected one that a gateway has written; check "
            "`home` and `plugin.storage.path`"
        )
    place = target
    if target.is_dir() or not (target.suffix or target.exists()):
        place = target / f"hookgate-{now:%Y%m%dT%H%M%SZ}.tar"
    if place.exists() and not force:
        raise BackupError(f"{place} is there already: name another file, or say `--force`")
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # In the same folder, so that giving it its name is one step, before which it has none.
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".hookgate-") as folder:
            names = _write(kept, Path(folder), now)
            (Path(folder) / "archive").replace(place)
    except (OSError, sqlite3.Error) as error:
        raise BackupError(f"the copy cannot be made: {error}") from error
    return place, names


def _write(kept: Kept, folder: Path, now: datetime) -> list[str]:
    # These first: the last row that `audit.head` names has to be one of the store's.
    files = {name: path for name, path in kept.files.items() if path.is_file()}
    if kept.keys is not None and kept.keys.is_dir():
        files |= {
            f"{KEYS}{path.name}": path
            for path in sorted(kept.keys.iterdir())
            if path.is_file() and not path.is_symlink()
        }
    members = [_member(name, path.read_bytes(), path.stat()) for name, path in files.items()]
    copy = folder / STORE
    _copy_store(kept.store, copy)
    store = _described(STORE, copy.stat().st_size, copy.stat())
    digests = {info.name: hashlib.sha256(data).hexdigest() for info, data in members}
    digests[STORE] = _digest(copy)
    listed = [{"name": name, "sha256": digest} for name, digest in digests.items()]
    contents = {"hookgate": FORMAT, "made": now.isoformat(), "files": listed}
    head = json.dumps(contents, indent=1).encode()

    def fill(raw: IO[bytes]) -> None:
        with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
            archive.addfile(_described(CONTENTS, len(head), copy.stat()), BytesIO(head))
            for info, data in members:
                archive.addfile(info, BytesIO(data))
            with copy.open("rb") as file:
                archive.addfile(store, file)

    write_whole(folder / "archive", fill, durable=True)
    return list(digests)


def _member(name: str, data: bytes, status: os.stat_result) -> tuple[tarfile.TarInfo, bytes]:
    return _described(name, len(data), status), data


def _described(name: str, size: int, status: os.stat_result) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    # Nobody but the owner reads what is put back, whatever the file's mode was.
    info.mode = stat.S_IMODE(status.st_mode) & OWNER_ALONE
    # The age of the audit's key says which rows may be older than it.
    info.mtime = status.st_mtime  # PAX keeps the fraction
    return info


def _copy_store(source: Path, target: Path) -> None:
    """Copy a database as it is at one moment; writers go on meanwhile."""
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ALONE))
    with (
        closing(sqlite3.connect(f"file:{quote(str(source))}?mode=ro", uri=True)) as reading,
        closing(sqlite3.connect(target)) as writing,
    ):
        reading.backup(writing)
        # One file: a copy of a database with a log beside it would be half of one.
        writing.execute("PRAGMA journal_mode=DELETE")
        found = writing.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise BackupError(f"the store {source} is damaged ({found}): it was not copied")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- putting one back --------------------------------------------------------------


def put_back(kept: Kept, source: Path, *, force: bool) -> list[Path]:
    """Put the files of a copy back and return where they are. It blocks.

    What is replaced stays beside it, as ``NAME.replaced``, or ``NAME.2.replaced`` where a former
    restore has left such a one.

    Args:
        kept: Where everything belongs.
        source: The copy.
        force: Whether files that are there are replaced.

    Raises:
        BackupError: It is no copy, or is damaged, or something is in the way.
        DatabaseHeldError: A gateway holds the store.
    """
    try:
        kept.store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (
            _locked(kept.store),
            tempfile.TemporaryDirectory(dir=kept.store.parent, prefix=".hookgate-") as folder,
        ):
            found = _unpacked(kept, source, Path(folder))
            there = [place for place in found.values() if place.exists()]
            if there and not force:
                raise BackupError(
                    f"{', '.join(map(str, there))} would be replaced: say `--force`, and they "
                    "stay beside it as NAME.replaced; or name another `home`"
                )
            # The store last: while it is the former one, so is what goes with it, or can be.
            order = sorted(found, key=lambda path: found[path] == kept.store)
            number = _free_number(found.values())
            for fresh in order:
                _put(fresh, found[fresh], number)
    except (OSError, tarfile.TarError) as error:
        raise BackupError(f"{source} cannot be put back: {error}") from error
    return list(found.values())


@contextmanager
def _locked(store: Path) -> Iterator[None]:
    lock = FileLock(store)
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _unpacked(kept: Kept, source: Path, folder: Path) -> dict[Path, Path]:
    """Unpack a copy into `folder`; return for each file there where it belongs."""
    found: dict[Path, Path] = {}
    with _opened(source) as archive:
        digests = _contents(archive, source)
        for number, info in enumerate(archive):
            if info.name == CONTENTS:
                continue
            place = kept.place_of(info.name)
            data = archive.extractfile(info) if info.isreg() else None
            if place is None or data is None or info.name not in digests:
                raise BackupError(
                    f"found {info.name[:200]!r} in {source}, which belongs nowhere: expected a "
                    "file that `hookgate backup` wrote"
                )
            fresh = folder / str(number)
            write_whole(fresh, partial(shutil.copyfileobj, data), durable=True)
            if _digest(fresh) != digests.pop(info.name):
                raise BackupError(f"{info.name} in {source} is damaged: use another copy")
            os.utime(fresh, (info.mtime, info.mtime))
            found[fresh] = place
    if digests:
        raise BackupError(f"{source} is cut short: found no {', '.join(sorted(digests))} in it")
    return found


def _opened(source: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(source)
    except tarfile.ReadError:
        raise BackupError(
            f"found no archive in {source}: expected a file that `hookgate backup` wrote"
        ) from None


def _contents(archive: tarfile.TarFile, source: Path) -> dict[str, str]:
    first = archive.next()
    data = archive.extractfile(first) if first is not None and first.name == CONTENTS else None
    try:
        held: Any = json.loads(data.read(MAX_CONTENTS)) if data is not None else {}
        version = held["hookgate"]
        digests = {str(item["name"]): str(item["sha256"]) for item in held["files"]}
    except (ValueError, KeyError, TypeError):
        raise BackupError(
            f"found no list of contents in {source}: expected a file that `hookgate backup` wrote"
        ) from None
    if version != FORMAT:
        raise BackupError(
            f"{source} has the form {version!r}, expected {FORMAT}: use the version of hookgate "
            "that wrote it"
        )
    return digests


def _free_number(places: Collection[Path]) -> int:
    """Return the first number under which nothing that a former restore has replaced stays."""
    all_of = [one for place in places for one in (place, *_logs(place))]
    return next(n for n in count(1) if not any(_aside(one, n).exists() for one in all_of))


def _aside(place: Path, number: int) -> Path:
    """Return where what stood at `place` stays; all that one restore replaces has one number."""
    return place.with_name(f"{place.name}{f'.{number}' if number > 1 else ''}.replaced")


def _put(fresh: Path, place: Path, number: int) -> None:
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # What an earlier store had in its log is none of this one's.
    for former in (place, *_logs(place)):
        if former.exists():
            former.replace(_aside(former, number))
    # Over file systems, too: the settings file and the key may lie anywhere.
    shutil.copy2(fresh, part := place.with_name(f".{place.name}.part"))
    part.replace(place)


def _logs(place: Path) -> Sequence[Path]:
    return [place.with_name(f"{place.name}{end}") for end in ("-wal", "-shm")]
