"""New cards from a template, and checking card files without a gateway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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

_CARD = """\
---
# When a model gets to see this card. `hookgate cards validate` checks this file.

capability_id: {quoted}  # unique among cards
name: {quoted}  # for people
description: Say here in one line what the card tells of.

triggers:
  # Any of these tags on a turn is enough: config, integration, deployment, memory, security,
  # debug, tools, or tags of your own.
  router_tags: []
  # Words and phrases of a message. One of them is enough.
  keywords: [{word}]
  # confidence_threshold: 0.3  # the least score, 0 to 1, where one keyword is not enough
  # main: a person's session; isolated: a nested or scheduled one.
  session_types: [main, isolated]
  # Where in a conversation; post_tool: after the use of a tool.
  inject_at: [bootstrap, mid]
  # tools: [http_get]  # for post_tool: after one of these
  # flags: [sends_externally]  # for post_tool: after a tool that does this

priority: 5  # 0 to 20; higher goes first
# max_chars: 2400  # the default; a longer text is cut
# token_budget: 600  # the default
---

Say in the first sentence what there is that a model would not know of by itself.

- Say when to use it, by what a person would ask for.
- Say how: the name of the tool, its most important argument, an example of a call.
- Say what it does not do, or what goes wrong most often.

Write 200 to 800 characters of plain facts. This text alone reaches the model, and only in turns
that it fits; so leave out what the description of a tool says already.
"""

_WORDS = {"true", "false", "null"}


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
    text = _CARD.format(quoted=_quoted(card_id), word=_quoted(_words(card_id)))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        expected = "another id, or remove what is there: nothing is overwritten"
        file = str(path if folder.is_dir() else folder)
        problem = Problem(file=file, found="a file of this name already", expected=expected)
        raise ContentError(problem) from None
    except OSError as error:
        why = (error.strerror or "an error").lower()
        problem = Problem(file=str(path), found=why, expected="a folder to write to")
        raise ContentError(problem) from None
    return path


def _words(card_id: str) -> str:
    """Return an id as somebody would write it in a message."""
    words = card_id.replace("_", " ").replace("-", " ").replace(".", " ").split()
    return " ".join(words)[:60].strip()


def _quoted(text: str) -> str:
    """Return a text as YAML takes it for a string: 123 and true would be something else."""
    return text if text[:1].isalpha() and text.casefold() not in _WORDS else f'"{text}"'


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
