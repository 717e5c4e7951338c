"""Who has accepted which plugin: digests, and the copies of those that were installed.

A plugin counts as it was when somebody accepted it. That is kept in one file of the home folder,
``wasm/accepted.json``; an installed plugin is a copy below ``wasm/plugins``, in a folder that
carries its digest, so that the file alone decides which copy counts.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from hookgate.builtin_plugins.wasm.packages.folders import Package, PackageError
from hookgate.builtin_plugins.wasm.packages.manifest import MANIFEST
from hookgate.kit.content.files import write_whole

FORMAT: Final = "hookgate-wasm-accepted-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """One plugin as somebody accepted it.

    Attributes:
        name: The plugin.
        version: Its version.
        digest: SHA-256 over manifest and module.
        manifest: SHA-256 of the manifest.
        module: SHA-256 of the module.
        grants: What it was granted.
        folder: Where it lay; of an installed one, where it was copied from.
        installed: Whether a copy in the home folder counts.
        by: Who accepted it; "" where it was the first of its name in a folder of the settings.
        at: When, ISO 8601 in UTC.
    """

    name: str
    version: str
    digest: str
    manifest: str
    module: str
    grants: tuple[str, ...]
    folder: str
    installed: bool
    by: str
    at: str

    @classmethod
    def of(cls, package: Package, *, installed: bool, by: str, at: str) -> Acceptance:
        """Return what accepting `package` comes to."""
        return cls(
            name=package.name,
            version=package.manifest.version,
            digest=package.digest,
            manifest=package.manifest_digest,
            module=package.module_digest,
            grants=package.manifest.granted.texts,
            folder=str(package.folder),
            installed=installed,
            by=by,
            at=at,
        )


def changes(accepted: Acceptance, package: Package) -> list[str]:
    """Return what of `package` is not as it was accepted, in words; nothing: []."""
    told = []
    if accepted.module != package.module_digest:
        told.append(f"the module ({accepted.module[:12]} -> {package.module_digest[:12]})")
    before, now = accepted.grants, package.manifest.granted.texts
    told += [f"a grant more: {one}" for one in now if one not in before]
    told += [f"a grant less: {one}" for one in before if one not in now]
    if accepted.manifest != package.manifest_digest:
        told.append("the manifest")
    return told


class Accepted:
    """What was accepted, in the home folder. All of its methods block.

    Args:
        home: The gateway's home folder.
    """

    def __init__(self, home: Path) -> None:
        self._file = home / "wasm" / "accepted.json"
        self._copies = home / "wasm" / "plugins"

    def load(self) -> dict[str, Acceptance]:
        """Return what was accepted, by name.

        Raises:
            PackageError: The file cannot be read.
        """
        try:
            data = json.loads(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise PackageError(self._broken(str(error))) from error
        try:
            if data["format"] != FORMAT:
                raise PackageError(self._broken(f"the format {data['format']!r}"))
            rows = [{**row, "grants": tuple(row["grants"])} for row in data["plugins"]]
            return {row["name"]: Acceptance(**row) for row in rows}
        except (KeyError, TypeError, AttributeError) as error:
            raise PackageError(self._broken(f"no rows ({error})")) from error

    def _broken(self, found: str) -> str:
        return (
            f"{self._file}: found {found[:200]}, expected what `hookgate wasm install` wrote: "
            "move the file away and accept the plugins again"
        )

    def copy_of(self, accepted: Acceptance) -> Path:
        """Return where the copy of an installed plugin lies."""
        return self._copies / accepted.name / accepted.digest[:16]

    def put(self, *accepted: Acceptance) -> None:
        """Keep what was accepted, in place of what was accepted of the same names.

        Raises:
            PackageError: It cannot be kept; everything is as it was.
        """
        kept = {**self.load(), **{one.name: one for one in accepted}}
        self._write(kept)

    def install(self, package: Package, accepted: Acceptance) -> None:
        """Copy a plugin into the home folder and keep that it was accepted: both, or nothing.

        Raises:
            PackageError: It cannot be kept; what was installed before still is.
        """
        copy = self.copy_of(accepted)
        try:
            write_whole(copy / MANIFEST, package.text.encode(), durable=True)
            write_whole(copy / package.manifest.module, package.module, durable=True)
        except OSError as error:
            raise PackageError(f"{copy}: it cannot be written: {error.strerror}") from error
        # The copy counts from here on.
        self.put(accepted)
        self._clear(copy.parent, keep=copy.name)

    def remove(self, name: str) -> bool:
        """Forget a plugin, and delete its copy; whether there was one.

        Raises:
            PackageError: It cannot be kept; everything is as it was.
        """
        kept = self.load()
        if kept.pop(name, None) is None:
            return False
        self._write(kept)
        shutil.rmtree(self._copies / name, ignore_errors=True)
        return True

    @staticmethod
    def _clear(folder: Path, *, keep: str) -> None:
        for old in folder.iterdir():
            if old.name != keep:
                shutil.rmtree(old, ignore_errors=True)

    def _write(self, kept: Mapping[str, Acceptance]) -> None:
        rows: list[dict[str, Any]] = [asdict(kept[name]) for name in sorted(kept)]
        content = json.dumps({"format": FORMAT, "plugins": rows}, indent=2).encode()
        try:
            write_whole(self._file, content + b"\n", durable=True)
        except OSError as error:
            raise PackageError(f"{self._file}: it cannot be written: {error.strerror}") from error
