"""Programs whose words are a language of their own: find, sed, awk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from hookgate.builtin_plugins.packs.shell import UNKNOWN, Command, ShellGroup, Word

if TYPE_CHECKING:
    from hookgate.builtin_plugins.packs.command_lines import CommandLines, Folders

MAX_FILES = 200
"""Files of one patch."""

_PATCHED = re.compile(r"\*\*\* (?:Add|Update|Delete) File: (.+)|\*\*\* Move to: (.+)")
_FIND = re.compile(
    r"-(name|iname|path|ipath|wholename|regex|type|maxdepth|mindepth|newer|mtime|mmin|atime|ctime|size|"
    r"empty|not|o|or|a|and|print|print0|prune|depth|ls|perm|user|group|readable|executable|writable|"
    r"links|samefile|xdev|follow|L|H|P|E|regextype|quit|newermt|daystart|iregex|inum|true|false|printf)"
)
_VALUED = re.compile(
    r"-(i?name|i?path|wholename|i?regex|type|maxdepth|mindepth|[mac]time|mmin|size|perm|user|group|"
    r"links|regextype|newermt|printf|inum)"
)
_SET = r"\[\^?\]?(?:\[[:.=]\w+[:.=]\]|\\[A-Za-z.]|[^\]\[\\\n{mark}])*\]"
"""What brackets of a pattern hold: a mark within them ends no pattern, which is read nowhere."""
_ADDRESS = rf"(?:\d+|\$|/(?:{_SET.format(mark='/')}|[^/\[\\\n]|\\.)*/[I]?)"
_SED = re.compile(
    rf"\s*(?:{_ADDRESS}(?:\s*,\s*(?:{_ADDRESS}|\+\d+))?)?\s*!?\s*"
    r"(?:[pdqDPgGhHxnN=]|q\d*|s(?P<mark>[/|#,:@!])"
    rf"(?:{_SET.format(mark='/|#,:@!')}|(?!(?P=mark))[^\[\\\n]|\\.)*(?P=mark)"
    r"(?:(?!(?P=mark))[^\\\n]|\\.)*(?P=mark)[gipI0-9]*)\s*"
)
_AWK = re.compile(
    r"system|getline|\||>|ENVIRON|@|\bclose\b|\bprintf?\s+.*>|-f|load|include|extension|PROCINFO|ARGV|ARGC"
)


def fed_by(feeding: Command | ShellGroup | None) -> Word:
    """Return the word that stands for the names that a program prints for another one.

    Programs that list what a search has found name files in their folder. With ``find -name`` the
    names are like its pattern; those of `rg` and of git are no hidden ones, or on record anyhow.
    """
    unknown = Word(text=UNKNOWN, split=True)
    if not isinstance(feeding, Command) or not feeding.words:
        return unknown
    texts = [word.text for word in feeding.words]
    if texts[0] == "find":
        return _like(texts[1:]) or unknown
    lists = {"-l", "--files-with-matches", "--files", "-rl", "-rln", "-lr"} & {*texts}
    if texts[0] == "rg" and lists:
        return Word(text="./listed", glob=True)
    if texts[:2] in (["git", "ls-files"], ["git", "grep"]) and (lists or texts[1] == "ls-files"):
        return Word(text="./listed", glob=True)
    return unknown


def _like(texts: Sequence[str]) -> Word | None:
    """Return what all that ``find`` comes to is named like, by the words in front; None if unsure.

    What is printed or run in front of ``-name`` is not held to it, nor is what an alternative or a
    negation brings.
    """
    found = None
    for option, following in pairwise((*texts, "")):
        if option in ("!", "-not") and following not in ("-path", "-ipath", "-wholename"):
            return None
        if option in ("-o", "-or", ",", "-exec", "-execdir", "-ok", "-okdir", "-printf", "-ls"):
            return None
        if option in ("-print", "-print0") and found is None:
            return None
        if option == "-name" and re.fullmatch(r"\*?[\w*-]*\.\w+", following):
            found = found or Word(text=f"./{following}", glob=True)
    return found


def find(lines: CommandLines, words: Sequence[Word], folders: Folders) -> None:
    """Look at ``find``: where it looks, and what it does with what it finds."""
    rest = list(words)
    starts: list[Word] = []
    while rest and not re.match(r"[-(!]", rest[0].text):
        starts.append(rest.pop(0))
    lines.read_from(starts, folders)
    tests = [word.text for word in rest]
    while rest:
        word = rest.pop(0)
        if word.text in ("-exec", "-execdir"):
            before = tests[: len(tests) - len(rest) - 1]
            rest = _exec(lines, rest, _like(before), folders)
        elif _VALUED.fullmatch(word.text) and rest:
            rest.pop(0)
        elif word.text in ("-newer", "-samefile") and rest:
            lines.read_from((rest.pop(0),), folders)
        elif word.text in ("(", ")", "!"):
            continue
        elif not word.known or not _FIND.fullmatch(word.text):
            lines.findings.ask(f"find {word.text[:60]}")
            return
    lines.findings.read("lists with find")


def _exec(lines: CommandLines, rest: list[Word], like: Word | None, folders: Folders) -> list[Word]:
    end = next((n for n, one in enumerate(rest) if one.text in (";", "+")), None)
    if not end:
        lines.findings.ask("find runs a program without an end")
        return []
    program, left = rest[:end], rest[end + 1 :]
    if any("{}" in one.text and one.text != "{}" for one in program) or program[0].text == "{}":
        lines.findings.ask("find puts names of files into a word")
        return left
    if program[0].text == "rm":
        lines.findings.ask("find deletes whatever it finds")
    found = like or Word(text=UNKNOWN)
    lines.program([found if one.text == "{}" else one for one in program], folders)
    return left


def sed(lines: CommandLines, words: Sequence[Word], folders: Folders) -> None:
    """Look at ``sed``: scripts of a few harmless commands, and the files behind them."""
    texts: list[Word] = []
    files: list[Word] = []
    inplace, given = False, any(word.text in ("-e", "--expression") for word in words)
    rest = list(words)
    if any(word.text == "--" for word in rest):
        lines.findings.ask("sed with words that are no options, whatever they look like")
    while rest:
        word = rest.pop(0)
        if word.text in ("-e", "--expression") and rest:
            texts.append(rest.pop(0))
        elif word.text in (
            "-n",
            "-E",
            "-r",
            "-u",
            "-s",
            "--quiet",
            "-nE",
            "-nr",
            "-En",
            "-z",
        ):
            continue
        elif word.text in ("-i", "-i.bak", "-i.orig", "--in-place", "-Ei", "-i.tmp"):
            inplace = True
            if rest and rest[0].text == "" and word.text == "-i":
                rest.pop(0)  # as on a Mac
            elif word.text == "-i" and not given and any(map(_may_be_sed, rest[1:])):
                lines.findings.ask("a Mac takes the script for a suffix, and what follows for it")
        elif word.text.startswith("-"):
            lines.findings.ask(f"sed {word.text[:60]}")
            return
        elif not given and not texts:
            texts.append(word)
        else:
            files.append(word)
    for script in texts:
        if not script.known or not all(_SED.fullmatch(one) for one in _commands(script.text)):
            lines.findings.ask("no pack reads this script of sed")
    lines.read_from(files, folders)
    if inplace:
        lines.write_to(files, folders, "sed -i")
    else:
        lines.findings.read("reads with sed")


def _may_be_sed(word: Word) -> bool:
    """Whether a word may be a script that writes, where it was meant for a file."""
    return re.search(r"[\s,|#:@!$;{}]|^\d*[a-z]?/|^\d*w", word.text) is not None


def _commands(script: str) -> list[str]:
    """Return the commands of a script: those between ``;`` where no command has one within it."""
    if _SED.fullmatch(script):
        return [script]
    return script.split(";")


def awk(lines: CommandLines, words: Sequence[Word], folders: Folders) -> None:
    """Look at ``awk``: a program that only computes and prints, and the files behind it."""
    rest = list(words)
    while rest and rest[0].text.startswith("-"):
        option = rest.pop(0).text
        if option in ("-F", "-v") and rest:
            rest.pop(0)
        elif not re.fullmatch(r"-F.{1,4}|-v\w+=[\w.]*", option):
            lines.findings.ask(f"awk {option[:60]}")
            return
    if not rest or not rest[0].known or _AWK.search(rest[0].text):
        lines.findings.ask("no pack reads this program of awk")
        return
    lines.read_from(rest[1:], folders)
    lines.findings.read("reads with awk")


def patched(text: str) -> list[str]:
    """Return the files that a patch changes; none where it cannot be read, or has too many.

    Whatever begins as the name of a file does has to be one, wherever it stands.
    """
    lines = text.strip("\n").split("\n")
    if lines[0].strip() != "*** Begin Patch" or lines[-1].strip() != "*** End Patch":
        return []
    files = []
    for line in lines[1:-1]:
        if found := _PATCHED.fullmatch(line.strip()):
            files.append((found.group(1) or found.group(2)).strip())
        elif line.lstrip().startswith("***") and line.strip() != "*** End of File":
            return []
    return files if len(files) <= MAX_FILES else []
