"""Who has accepted which plugin, the copies of those that were installed, and which count."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from hookgate import Acceptance, HookgateError, Subject
from hookgate.builtin_plugins.wasm.packages.folders import (
    MANIFEST,
    Package,
    PackageError,
    found_below,
    read_package,
)
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


# -- Which plugins there are, and which of them count ----------------------------

FoundState: TypeAlias = Literal["accepted", "new", "changed", "hidden", "broken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundGuest:
    """One plugin folder, and whether it counts.

    Attributes:
        name: The plugin's name; of a broken one, its folder's.
        folder: Where it lies.
        state: It is as it was ``accepted``; nobody has accepted it (``new``); it is not what was
            accepted (``changed``); another one of its name comes before it (``hidden``); it cannot
            be read (``broken``).
        why: Why it does not count; "" where it does.
        package: What was read of it, where something could be.
        accepted: What was accepted under its name.
    """

    name: str
    folder: Path
    state: FoundState
    why: str = ""
    package: Package | None = None
    accepted: GuestAcceptance | None = None


def look_through(
    folders: Sequence[Path], accepted: Mapping[str, GuestAcceptance], copies: Copies, max_bytes: int
) -> Iterator[FoundGuest]:
    """Yield every plugin, the installed ones first. It blocks, and holds one module at a time.

    Args:
        folders: The folders of the settings.
        accepted: What was accepted, by name.
        copies: Where installed plugins lie.
        max_bytes: The largest module.
    """
    seen: dict[str, tuple[Path, str]] = {}
    installed = [copies.of(one) for one in accepted.values() if one.installed]
    named, problems = found_below(folders)
    for folder in (*installed, *named):
        found = _found(folder, accepted, max_bytes, installed=folder in installed)
        if found.package is not None and found.name in seen:
            first, digest = seen[found.name]
            if digest == found.package.digest:
                # What an installed one was copied from, mostly.
                continue
            why = f"the plugin of this name in {first} comes before it: rename one of the two"
            found = FoundGuest(name=found.name, folder=folder, state="hidden", why=why)
        elif found.package is not None:
            seen[found.name] = folder, found.package.digest
        yield found
    for problem in problems:
        place = Path(problem.partition(": ")[0])
        yield FoundGuest(name=place.name, folder=place, state="broken", why=problem)


def _found(
    folder: Path, accepted: Mapping[str, GuestAcceptance], max_bytes: int, *, installed: bool
) -> FoundGuest:
    try:
        package = read_package(folder, max_bytes=max_bytes)
    except HookgateError as error:
        # Of a copy, the folder above carries the name.
        name = folder.parent.name if installed else folder.name
        return FoundGuest(name=name, folder=folder, state="broken", why=str(error))
    name, known = package.name, accepted.get(package.name)
    if known is None:
        why = f"nobody has accepted it: {_how(name)}"
        return FoundGuest(name=name, folder=folder, state="new", why=why, package=package)
    if known.digest == package.digest:
        return FoundGuest(
            name=name, folder=folder, state="accepted", package=package, accepted=known
        )
    told = ", ".join(changes(known, package))
    why = f"it is not what was accepted: {told}; {_how(name)}"
    return FoundGuest(
        name=name, folder=folder, state="changed", why=why, package=package, accepted=known
    )


def _how(name: str) -> str:
    return (
        f"`hookgate accept give guest {name} --digest DIGEST` accepts it, with the digest that "
        f"`hookgate wasm inspect {name}` shows"
    )
