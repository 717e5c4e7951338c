"""Which plugins there are, and which of them count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from hookgate import HookgateError
from hookgate.builtin_plugins.wasm.packages.accepted import Copies, GuestAcceptance, changes
from hookgate.builtin_plugins.wasm.packages.folders import Package, found_below, read_package

FoundState: TypeAlias = Literal["accepted", "new", "changed", "hidden", "broken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
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
) -> Iterator[Found]:
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
            found = Found(name=found.name, folder=folder, state="hidden", why=why)
        elif found.package is not None:
            seen[found.name] = folder, found.package.digest
        yield found
    for problem in problems:
        place = Path(problem.partition(": ")[0])
        yield Found(name=place.name, folder=place, state="broken", why=problem)


def _found(
    folder: Path, accepted: Mapping[str, GuestAcceptance], max_bytes: int, *, installed: bool
) -> Found:
    try:
        package = read_package(folder, max_bytes=max_bytes)
    except HookgateError as error:
        # Of a copy, the folder above carries the name.
        name = folder.parent.name if installed else folder.name
        return Found(name=name, folder=folder, state="broken", why=str(error))
    name, known = package.name, accepted.get(package.name)
    if known is None:
        why = f"nobody has accepted it: {_how(name)}"
        return Found(name=name, folder=folder, state="new", why=why, package=package)
    if known.digest == package.digest:
        return Found(name=name, folder=folder, state="accepted", package=package, accepted=known)
    told = ", ".join(changes(known, package))
    why = f"it is not what was accepted: {told}; {_how(name)}"
    return Found(
        name=name, folder=folder, state="changed", why=why, package=package, accepted=known
    )


def _how(name: str) -> str:
    return (
        f"`hookgate accept give guest {name} --digest DIGEST` accepts it, with the digest that "
        f"`hookgate wasm inspect {name}` shows"
    )
