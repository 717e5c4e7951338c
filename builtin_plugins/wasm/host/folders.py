"""``fs-read:``: which folders a guest may read, judged by what they are and not by their names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from hookgate import HookgateError, Settings
from hookgate.builtin_plugins.wasm.engine.wasi import opened_folder

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
