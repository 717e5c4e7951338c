"""The parts of WASI: which of its functions each grant opens, and what they are given."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final

from hookgate import HookgateError, Settings
from hookgate.builtin_plugins.wasm.engine.limits import WasiGrants
from hookgate.builtin_plugins.wasm.engine.native import Failure, failure, native
from hookgate.kit.content.files import open_folder, open_step

MODULE = "wasi_snapshot_preview1"

FOLDERS = 10_000
"""How many folders are looked through for what is no plain file."""
PLAIN = {stat.S_IFREG, stat.S_IFLNK, stat.S_IFSOCK}
"""What opens at once. A link is followed within the folder alone; a socket does not open."""

# What every C library of WASI imports. None of it reaches out: there are no arguments, the
# environment has the granted values alone, and what is written to the outputs goes nowhere.
ALWAYS = {
    *("args_get", "args_sizes_get", "environ_get", "environ_sizes_get", "proc_exit"),
    *("fd_close", "fd_fdstat_get", "fd_seek", "fd_write", "sched_yield"),
}
CLOCK = {"clock_res_get", "clock_time_get"}
RANDOM = {"random_get"}
READ = {
    *("fd_advise", "fd_fdstat_set_flags", "fd_filestat_get", "fd_pread", "fd_prestat_dir_name"),
    *("fd_prestat_get", "fd_read", "fd_readdir", "fd_tell", "path_filestat_get", "path_open"),
    "path_readlink",
}
# `poll_oneoff` sleeps in the host, where no clock of ours ends it: nobody gets it. Neither are
# there sockets, nor anything that writes.


def names(grants: WasiGrants | None) -> frozenset[str]:
    """Return the functions that these grants open."""
    if grants is None:
        return frozenset()
    found = set(ALWAYS)
    if grants.clock:
        found |= CLOCK
    if grants.random:
        found |= RANDOM
    if grants.read_only:
        found |= READ
    return frozenset(found)


def problems(grants: WasiGrants | None) -> list[str]:
    """Name what in the granted folders would take a thread: to open a pipe waits for a writer."""
    found = []
    for folder in grants.read_only.values() if grants is not None else ():
        if not folder.is_dir():
            found.append(f"the folder {str(folder)!r} that it may read is not there")
        for place, _, files in islice(os.walk(folder), FOLDERS):
            for name in files:
                path = Path(place, name)
                with suppress(OSError):  # it has gone meanwhile
                    if stat.S_IFMT(path.lstat().st_mode) not in PLAIN:
                        found.append(f"{str(path)!r}, which it may read, is no plain file")
    return found


@contextmanager
def opened_folder(folder: Path, *, follow: bool = False) -> Iterator[tuple[int, Path]]:
    """Open a folder; give its descriptor, and where that leads, without links.

    Args:
        folder: The folder.
        follow: Whether its name may be a link.

    Raises:
        OSError: There is none, or it cannot be opened.
    """
    descriptor = open_folder(folder) if follow else open_step(folder)
    try:
        if sys.platform == "linux":
            place = os.readlink(f"/proc/self/fd/{descriptor}")
        else:
            import fcntl

            found = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024))
            place = os.fsdecode(found.rstrip(b"\0"))
        yield descriptor, Path(place)
    finally:
        os.close(descriptor)


def give(grants: WasiGrants, context: int) -> None:
    """Give the granted parts to a store.

    Raises:
        Failure: A granted folder cannot be opened.
    """
    from wasmtime import WasiConfig, WasmtimeError

    config = WasiConfig()
    config.env = list(grants.env.items())
    for guest, folder in grants.read_only.items():
        try:
            with opened_folder(folder) as (descriptor, place):
                if place != folder or (why := grants.why_not(descriptor, place)):
                    why = "is another one by now" if place != folder else why
                    raise Failure("", f"the folder {str(folder)!r} that it may read {why}")
                # What was judged is what is opened, whatever has its name meanwhile.
                same = f"/proc/self/fd/{descriptor}" if sys.platform == "linux" else str(folder)
                config.preopen_dir(same, guest, fs_mutable=False)
        except (OSError, WasmtimeError):
            text = f"the folder {str(folder)!r} that it may read cannot be opened"
            raise Failure("", text) from None
    n = native()
    error = n.context_set_wasi(context, n.address(config))
    config._consume()  # it is the store's now
    if error is not None:
        raise failure(error, None)


# -- folders ---------------------------------------------------------------------

# ``fs-read:``: which folders a guest may read, judged by what they are and not by their names.

SYSTEM: Final = tuple(map(Path, ("/proc", "/sys", "/dev", "/run")))
"""What shows processes, devices and sockets: ``/proc/self`` has the gateway's environment."""


class FolderJudge:
    """Judges the folders of one gateway's guests.

    Args:
        settings: Say where the gateway keeps what is its own.
    """

    def __init__(self, settings: Settings) -> None:
        home = settings.home.expanduser().absolute()
        store = settings.plugin.get("storage", {}).get("path")
        own = {home, settings.folder}
        if isinstance(store, str | Path):
            own.add((home / Path(store).expanduser()).parent)
        self._own = sorted(own)

    def why_not(self, descriptor: int, place: Path) -> str:
        """Return why no guest may read a folder; "" where one may. It blocks, for a moment.

        Args:
            descriptor: The folder, open.
            place: Where the descriptor leads, without links.
        """
        device = os.fstat(descriptor).st_dev
        for one in SYSTEM:
            # By the device as well: the same file system can be mounted at another place.
            mounted = os.path.ismount(one) and os.stat(one).st_dev == device
            if mounted or _overlap(place, one.resolve()):
                return f"would show what {one} shows of processes and devices"
        for folder in self._own:
            real = folder.resolve()
            if _overlap(place, real):
                return f"would show the gateway's own folder {real}, which holds its keys"
        return ""

    def judged(self, folder: Path) -> Path:
        """Return where a granted folder is, without links. It blocks, for a moment.

        Raises:
            HookgateError: There is none, or no guest may read it.
        """
        try:
            with opened_folder(folder, follow=True) as (descriptor, place):
                why = self.why_not(descriptor, place)
        except OSError as error:
            found = (error.strerror or str(error)).lower()
            raise HookgateError(
                f"found no folder {folder} ({found}), expected the one that fs-read: grants"
            ) from None
        if why:
            raise HookgateError(f"fs-read:{folder} {why}: expected another folder")
        return place


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)
