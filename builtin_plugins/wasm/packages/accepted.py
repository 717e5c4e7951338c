"""Who has accepted which plugin, and the copies of those that were installed.

A plugin counts as it was when somebody accepted it, at every gateway on one store; see
`hookgate.kit.acceptance`. An installed plugin is a copy below ``wasm/plugins`` in the home folder,
in a folder that carries its digest, so that what was accepted alone decides which copy counts.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from hookgate import Acceptance, Subject
from hookgate.builtin_plugins.wasm.packages.folders import Package, PackageError
from hookgate.builtin_plugins.wasm.packages.manifest import MANIFEST
from hookgate.kit.content.files import write_whole

FORMAT: Final = "hookgate-wasm-accepted-1"
"""What the file says in which a version before kept it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestAcceptance:
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
    def of(cls, package: Package, *, installed: bool, by: str, at: str) -> GuestAcceptance:
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

    @classmethod
    def read(cls, row: Acceptance) -> GuestAcceptance:
        """Return what a row says."""
        detail = json.loads(row.detail)
        detail["grants"] = tuple(detail["grants"])
        return cls(name=row.name, digest=row.digest, by=row.accepted_by, at=row.changed, **detail)

    @property
    def subject(self) -> Subject:
        """What is kept."""
        detail = asdict(self)
        for key in ("name", "digest", "by", "at"):
            del detail[key]
        return Subject(name=self.name, digest=self.digest, detail=json.dumps(detail))


def changes(accepted: GuestAcceptance, package: Package) -> list[str]:
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


class Copies:
    """The copies of installed plugins, in the home folder. All of its methods block.

    Args:
        home: The gateway's home folder.
    """

    def __init__(self, home: Path) -> None:
        self._copies = home / "wasm" / "plugins"

    def of(self, accepted: GuestAcceptance) -> Path:
        """Return where the copy of an installed plugin lies."""
        return self._copies / accepted.name / accepted.digest[:16]

    def write(self, package: Package, accepted: GuestAcceptance) -> None:
        """Copy a plugin into the home folder; it counts once its acceptance is kept.

        Raises:
            PackageError: It cannot be written.
        """
        copy = self.of(accepted)
        try:
            write_whole(copy / MANIFEST, package.text.encode(), durable=True)
            write_whole(copy / package.manifest.module, package.module, durable=True)
        except OSError as error:
            raise PackageError(f"{copy}: it cannot be written: {error.strerror}") from error

    def keep_only(self, accepted: GuestAcceptance) -> None:
        """Delete the copies of a plugin that do not count any more."""
        copy = self.of(accepted)
        for old in copy.parent.iterdir():
            if old.name != copy.name:
                shutil.rmtree(old, ignore_errors=True)

    def remove(self, name: str) -> None:
        """Delete the copies of a plugin."""
        shutil.rmtree(self._copies / name, ignore_errors=True)


def recorded(file: Path) -> list[GuestAcceptance]:
    """Return what a version before kept in ``wasm/accepted.json``. It blocks.

    Raises:
        PackageError: The file cannot be read.
    """
    try:
        data = json.loads(file.read_bytes())
        if data["format"] != FORMAT:
            raise ValueError(f"the format {data['format']!r}")
        rows = [{**row, "grants": tuple(row["grants"])} for row in data["plugins"]]
        return [GuestAcceptance(**row) for row in rows]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PackageError(
            f"{file}: found {str(error)[:200]}, expected what `hookgate wasm install` wrote: "
            "move the file away and accept the plugins again"
        ) from error
