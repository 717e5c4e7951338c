"""What a git command does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hookgate.builtin_plugins.packs.places import PathPlace
from hookgate.builtin_plugins.packs.shell import Word

if TYPE_CHECKING:
    from hookgate.builtin_plugins.packs.command_lines import CommandLines, Folders

_REMOTE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,100}")
_BRANCHES = frozenset(
    [
        "-a",
        "-r",
        "-v",
        "-vv",
        "-av",
        "-avv",
        "-l",
        "-n",
        "--all",
        "--list",
        "--show-current",
        "--remotes",
        "--no-color",
        "--merged",
        "--no-merged",
        "--contains",
        "--sort",
        "--format",
        "--color",
    ]
)
_READS = {
    "branch": _BRANCHES,
    "tag": frozenset(("-l", "--list", "-n", "--sort", "--contains", "--points-at", "--merged")),
    "remote": frozenset(("-v", "--verbose")),
}
_WORDS = {
    "stash": ("list", "show"),
    "reflog": ("show",),
    "worktree": ("list",),
    "submodule": ("status",),
    "config": ("--get", "--list", "-l", "--get-all", "get", "list"),
    "notes": ("list", "show"),
    "bisect": ("log",),
}
_STASH = ("push", "pop", "apply", "save")


def look(lines: CommandLines, words: Sequence[Word], folders: Folders) -> None:
    """Look at the words behind ``git``."""
    known, findings = lines.tables.subcommands["git"], lines.findings
    rest = list(words)
    while rest and rest[0].text.startswith("-"):
        option = rest.pop(0)
        if option.text == "-C" and rest:
            if lines.place(rest[0], folders) is not PathPlace.WORKSPACE:
                findings.ask("git works in a folder outside of the workspace")
            folders = frozenset(lines.workspace.joined(folder, rest[0].text) for folder in folders)
            rest.pop(0)
        elif option.text not in known.globals:
            findings.ask(f"git {option.text}, which may run something")
    if not rest:
        findings.read("asks git about itself")
        return
    sub, operands = rest[0].text, rest[1:]
    if not rest[0].known or not re.fullmatch(r"[a-z][a-z-]*", sub):
        findings.ask("which command of git it is, is known only when it runs")
        return
    lines.options(f"git {sub}", operands, known.danger, known.safe.get(sub, ()))
    plain = _without_texts(operands, known.texts)
    _paths(lines, sub, plain, folders)
    texts = [word.text for word in operands]
    if sub in known.kinds:
        _known(lines, sub, texts, known.kinds[sub])
    elif sub in _READS:
        _branch(lines, sub, texts)
    elif sub in _WORDS and (
        (texts[:1] == [] and sub in ("reflog",)) or (texts[:1] and texts[0] in _WORDS[sub])
    ):
        findings.read(f"asks git {sub}")
    elif sub == "stash" and (not texts or texts[0] in _STASH or texts[0].startswith("-")):
        findings.write("git stash", lines.family("git stash"))
    elif sub in ("fetch", "pull"):
        _fetch(lines, sub, operands)
    elif sub == "push":
        _push(lines, operands)
    else:
        findings.ask(f"git {sub}")


def _without_texts(words: Sequence[Word], texts: frozenset[str]) -> list[Word]:
    """Return the words without those that are a text, such as that of a commit."""
    left: list[Word] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word.text in texts:
            skip = True
        elif word.text.split("=")[0] not in texts and not re.match(r"-m.|-[SGLe].", word.text):
            left.append(word)
    return left


def _paths(lines: CommandLines, sub: str, words: Sequence[Word], folders: Folders) -> None:
    """Look at whatever of a command may be a path, or a file of a revision."""
    writes = sub in ("mv", "rm", "restore", "checkout")
    for word in words:
        if not word.known:
            lines.findings.ask(f"what git {sub} works on is known only when it runs")
            continue
        text = word.text.partition("=")[2] if word.text.startswith("-") else word.text
        short = word.text[2:] if re.match(r"-[A-Za-z]", word.text) else ""
        for piece in {text, text.rpartition(":")[2], short}:
            place = PathPlace.NOTHING
            for folder in folders:
                place = max(
                    place,
                    lines.workspace.place(piece, folder=folder, home=word.home, glob=True),
                    key=list(PathPlace).index,
                )
            own = place is PathPlace.OWN and writes and not piece.startswith("-")
            if own or place not in (PathPlace.WORKSPACE, PathPlace.OWN, PathPlace.NOTHING):
                lines.findings.ask(f"git {sub} of {place.value} ({piece[:60]})")


def _known(lines: CommandLines, sub: str, texts: Sequence[str], kind: str) -> None:
    if kind == "read" and not (sub == "format-patch" and "--stdout" not in texts):
        lines.findings.read(f"asks git {sub}")
        return
    if sub == "rm" and any(re.match(r"-[a-z]*r", one) for one in texts):
        lines.findings.ask("git rm deletes whole folders")
    lines.findings.write(f"git {sub}", lines.family(f"git {sub}"))


def _branch(lines: CommandLines, sub: str, texts: Sequence[str]) -> None:
    options = [one.split("=")[0] for one in texts if one.startswith("-")]
    if not texts or (options and all(one in _READS[sub] for one in options)):
        lines.findings.read(f"asks git {sub}")
    elif sub == "remote":
        if texts[0] != "get-url":
            lines.findings.ask("git remote changes or asks where the repository is")
    elif options and not set(options) <= {"-a", "-m", "-am", "--track", "-t", "-u", "-q"}:
        lines.findings.ask(f"git {sub} {' '.join(options)[:60]}")
    else:
        lines.findings.write(f"git {sub}", lines.family(f"git {sub}"))


def _fetch(lines: CommandLines, sub: str, words: Sequence[Word]) -> None:
    allowed = (
        "--all",
        "--prune",
        "-p",
        "--tags",
        "-t",
        "--rebase",
        "--ff-only",
        "--no-rebase",
        "-q",
        "-r",
        "--autostash",
    )
    for word in words:
        option = word.text.startswith("-") and word.text in allowed
        name = _REMOTE.fullmatch(word.text) and ".." not in word.text
        if not word.known or not (option or name) or word.text.startswith("."):
            lines.findings.ask(f"git {sub} {word.text[:60]}")
    lines.findings.write(f"git {sub}", lines.family(f"git {sub}"))


def _push(lines: CommandLines, words: Sequence[Word]) -> None:
    texts = [word.text for word in words]
    operands = [one for one in texts if not one.startswith("-")]
    options = {one for one in texts if one.startswith("-")}
    usual = options <= {"-u", "--set-upstream", "-q", "--quiet"} and all(
        word.known for word in words
    )
    named = all(_REMOTE.fullmatch(one) and "//" not in one and ".." not in one for one in operands)
    remote = operands[0] if operands else "the usual one"
    bounded = usual and named and "/" not in remote and "." not in remote
    family = lines.family("git push", remote=remote) if bounded else None
    lines.findings.send(f"git push to {remote[:60]}", family)
