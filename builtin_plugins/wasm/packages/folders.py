"""Plugin folders: found, read and told apart by their digests."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hookgate import ConfigError, HookgateError, Host, Problem
from hookgate.builtin_plugins.wasm.packages.manifest import MANIFEST, Manifest, parse_manifest
from hookgate.kit.content.files import MANIFEST_BYTES, inside, read_bytes, read_text

MOST_FOLDERS: Final = 256
"""Plugin folders below one folder of the settings; the others are left out, and that is told."""


class PackageError(HookgateError):
    """A plugin's folder cannot be used; the text says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A plugin's folder as it was read at one moment.

    Attributes:
        folder: Where it lies.
        manifest: What it says.
        text: The manifest as it was written.
        module: The module's bytes.
        manifest_digest: SHA-256 of the manifest's file, in hex.
        module_digest: SHA-256 of the module, in hex.
    """

    folder: Path
    manifest: Manifest
    text: str
    module: bytes
    manifest_digest: str
    module_digest: str

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.manifest.name

    @property
    def digest(self) -> str:
        """SHA-256 over both: what somebody accepts."""
        both = f"hookgate-plugin\n{self.manifest_digest}\n{self.module_digest}\n"
        return hashlib.sha256(both.encode()).hexdigest()


def read_package(folder: Path, *, max_bytes: int) -> Package:
    """Read a plugin's folder. It blocks.

    Args:
        folder: The folder.
        max_bytes: The largest module.

    Raises:
        ContentError: A file is missing, no regular file, too large, or leads out of the folder.
        PackageError: The manifest is wrong (all that is, with lines), or the module is not the one
            whose digest it names.
    """
    place = folder / MANIFEST
    text, _ = read_text(inside(folder, MANIFEST, file=place), max_bytes=MANIFEST_BYTES)
    try:
        manifest = parse_manifest(text, str(place))
    except ConfigError as error:
        # No settings of the gateway: who reads them would look in the wrong file.
        raise PackageError(str(error)) from error
    path = inside(folder, manifest.module, file=place, key="module")
    module = read_bytes(path, max_bytes=max_bytes)
    digest = hashlib.sha256(module).hexdigest()
    if manifest.digest not in (None, digest):
        raise PackageError(
            f"{path}: found the digest {digest}, expected {manifest.digest}, as `digest` in "
            f"{place} says: the module is another one; build it again, or set the digest"
        )
    return Package(
        folder=folder,
        manifest=manifest,
        text=text,
        module=module,
        manifest_digest=hashlib.sha256(text.encode()).hexdigest(),
        module_digest=digest,
    )


def found_below(folders: Iterable[Path]) -> tuple[list[Path], list[str]]:
    """Return the plugin folders that `folders` are or hold, in order, and what is wrong.

    It blocks.

    Args:
        folders: Plugin folders themselves, or folders that hold some.
    """
    found: list[Path] = []
    problems: list[str] = []
    for folder in folders:
        if (folder / MANIFEST).is_file():
            found.append(folder)
            continue
        try:
            with os.scandir(folder) as entries:
                names = sorted(one.name for one in entries if not one.name.startswith("."))
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            problems.append(
                f"{folder}: found {why}, expected a folder of plugins, or one with {MANIFEST}; "
                "it stands in `[plugin.wasm] folders`"
            )
            continue
        inner = [folder / name for name in names if (folder / name / MANIFEST).is_file()]
        if len(inner) > MOST_FOLDERS:
            problems.append(
                f"{folder}: found {len(inner)} plugins, expected at most {MOST_FOLDERS}: those "
                "behind them are left out"
            )
        found += inner[:MOST_FOLDERS]
    return list(dict.fromkeys(found)), problems


def lacking(folders: Iterable[Path], host: Host) -> list[Problem]:
    """Return the secrets that guests are granted and that are nowhere. It blocks.

    Args:
        folders: Those of the settings; the copies of installed plugins are looked at, too.
        host: The gateway.
    """
    copies = host.settings.home.expanduser() / "wasm" / "plugins"
    installed = sorted(copies.glob(f"*/*/{MANIFEST}"))
    named = [folder / MANIFEST for folder in found_below(folders)[0]]
    found: dict[tuple[str, str], Problem] = {}
    for place in (*named, *installed):
        try:
            text, _ = read_text(place, max_bytes=MANIFEST_BYTES)
            manifest = parse_manifest(text, str(place))
        except HookgateError:
            continue  # what is wrong with a folder is told where it is loaded
        for grant in manifest.granted.secrets:
            if not (host.secrets.get(grant.name) or "").strip():
                found[manifest.name, grant.name] = Problem(
                    key="plugin.wasm.folders" if place in named else "plugin.wasm",
                    found=f"no secret {grant.name!r}: the guest {manifest.name!r} is granted it "
                    f"(`{grant.text}`)",
                    expected=", or ".join(host.secrets.how_to_set(grant.name)),
                )
    return list(found.values())
