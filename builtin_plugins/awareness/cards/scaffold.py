"""New cards from a template, and checking card files without a gateway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from hookgate.builtin_plugins.awareness.cards.folders import (
    NO_CARD,
    SUFFIX,
    CardFolder,
    CardScan,
    scan,
)
from hookgate.kit.content.documents import NAME
from hookgate.kit.content.problems import ContentError, Problem, shortened
from hookgate.kit.content.scaffold import filled, quoted, scaffold


def create(card_id: str, folder: Path) -> Path:
    """Write a new card into `folder`, which is made where it is missing.

    Returns:
        The file, ``folder / CARD_ID.md``.

    Raises:
        ContentError: The id cannot be used, there is such a file already, or the folder cannot
            be written to.
    """
    path = folder / f"{card_id}{SUFFIX}"
    if not NAME.fullmatch(card_id) or path.name.casefold() == NO_CARD:
        found = f"the id {shortened(card_id)}"
        expected = "letters, digits, `.`, `_` and `-`, at most 64, and not README"
        raise ContentError(Problem(file=str(folder), found=found, expected=expected))
    words = {"card_id": card_id, "quoted": quoted(card_id), "word": quoted(_words(card_id))}
    templates = files("hookgate.builtin_plugins.awareness") / "cards" / "templates"
    return scaffold(folder, filled(templates, words), fresh=False)[0]


def _words(card_id: str) -> str:
    """Return an id as somebody would write it in a message."""
    words = card_id.replace("_", " ").replace("-", " ").replace(".", " ").split()
    return " ".join(words)[:60].strip()


def check_path(path: Path, folders: Sequence[CardFolder] = ()) -> CardScan:
    """Return what a card or a folder of cards holds.

    It blocks, and never raises. A folder without any card is a problem.

    Args:
        path: The file or folder.
        folders: The folders that a gateway may read: a card in one of them is judged as the
            gateway would judge it, and any other as a stranger's.
    """
    place = path if path.is_dir() else path.parent
    usual = CardFolder(path=place, origin="workspace", expected=True)
    folder = next((one for one in folders if is_same(one.path, place)), usual)
    folder = replace(folder, path=place, within=None, expected=True)
    if not path.is_dir():
        if path.name.startswith(".") or path.suffix != SUFFIX or path.name.casefold() == NO_CARD:
            expected = f"a card, NAME{SUFFIX}, or a folder"
            called = f"a file called {shortened(path.name)[1:-1]}"
            return CardScan(problems=(Problem(file=str(path), found=called, expected=expected),))
        return scan([folder], only=path.name)
    found = scan([folder])
    if found.cards or found.problems:
        return found
    problem = Problem(file=str(path), found="no card", expected=f"a card, NAME{SUFFIX}, in it")
    return CardScan(problems=(problem,))


def is_same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one folder, which is there."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False
