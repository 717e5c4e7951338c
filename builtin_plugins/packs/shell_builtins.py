"""Programs that are a part of the shell: some of their words are read as variables or commands.

A subscript of a variable's name is arithmetic, in which a shell runs what stands in ``$(...)``:
``test -v 'x[$(id)]'`` runs `id`. Of zsh so are the numbers of `test`, `exit` and `printf`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hookgate.builtin_plugins.packs.calls import CallFindings
    from hookgate.builtin_plugins.packs.shell import Word

_SUBSTITUTION = re.compile(r"\$\(|`|\$\{")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def look(name: str, words: Sequence[Word], findings: CallFindings) -> None:
    """Look at the words of a program that says or computes something, where a shell has it."""
    if name not in _BUILTINS:
        return
    if not _BUILTINS[name](words):
        findings.ask(f"{name} may take a word for a variable or a command")
    elif any(word.known and _SUBSTITUTION.search(word.text) for word in words):
        findings.ask(f"{name} may run what a word of it has in brackets")


def _of_output(words: Sequence[Word]) -> bool:
    """Whether what another program prints may become several of some words."""
    return any(word.split and word.inner for word in words)


def _is_test(words: Sequence[Word]) -> bool:
    named = [two.text for one, two in pairwise(words) if one.text in ("-v", "-R")]
    return not _of_output(words) and all(_VARIABLE.fullmatch(one) for one in named)


def _is_printf(words: Sequence[Word]) -> bool:
    first = words[:1]
    return not _of_output(first) and not any(
        word.text.startswith("-v") or word.glob or not word.known for word in first
    )


def _is_jobs(words: Sequence[Word]) -> bool:
    return all(re.fullmatch(r"-[lnprs]+|%\d+", word.text) for word in words)


def _is_wait(words: Sequence[Word]) -> bool:
    return not _of_output(words) and all(
        not word.known or re.fullmatch(r"-[nf]|%?\d+", word.text) for word in words
    )


def _is_number(words: Sequence[Word]) -> bool:
    return not _of_output(words) and all(
        not word.known or re.fullmatch(r"\d+", word.text) for word in words
    )


_BUILTINS: Mapping[str, Callable[[Sequence[Word]], bool]] = {
    "test": _is_test,
    "[": _is_test,
    "printf": _is_printf,
    "jobs": _is_jobs,
    "wait": _is_wait,
    **dict.fromkeys(("exit", "return", "break", "continue"), _is_number),
}
