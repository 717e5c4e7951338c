"""What a command line does: its programs, files and hosts, held against the packs' tables.

Whatever is not known for sure is asked about: a program that no table has, an option that may run
something, a word that is known only when the line runs, a path that leads out of the workspace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hookgate.builtin_plugins.packs import git, scripts, shell_builtins
from hookgate.builtin_plugins.packs.places import PathPlace, Workspace
from hookgate.builtin_plugins.packs.shell import (
    UNKNOWN,
    Command,
    CommandList,
    Pipeline,
    ShellGroup,
    UnreadableError,
    Word,
    read,
)
from hookgate.builtin_plugins.packs.tables import Subcommands, Tables

if TYPE_CHECKING:
    from hookgate.builtin_plugins.packs.calls import CallFindings

Folders = frozenset[str]
"""Where a command may run, relative to the workspace: several where a `cd` may have failed."""

MAX_FOLDERS = 8
MAX_DEPTH = 8
READABLE = (PathPlace.WORKSPACE, PathPlace.OWN, PathPlace.SYSTEM, PathPlace.NOTHING)
WRITABLE = (PathPlace.WORKSPACE, PathPlace.NOTHING)
BINARIES = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/opt/homebrew/bin/")
_POWERFUL = (2375, 2376, 6443, 10250)
"""Ports of servers that hand out the machine, on whichever host."""
LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
_OUT = re.compile(
    r"deploy|publish|upload|destroy|\b(release|push|ship|apply|provision|rollout|prod|production|submit)\b",
    re.IGNORECASE,
)
"""Names of targets and scripts that reach out of the machine."""
_BROUGHT = ("turbo", "nx", "tsx", "ts-node", "c8", "nyc")
"""What `npx` may run, beside the programs that build and check."""
_CODE = (
    "tinker",
    "shell",
    "shell_plus",
    "dbshell",
    "console",
    "repl",
    "runner",
    "eval",
    "exec",
    "sh",
)
_GLOBS = ("-g", "--glob", "--iglob", "--include", "--exclude")
_WRAPPERS = {
    "timeout": (r"-k|-s|--signal|--kill-after", r"--foreground|--preserve-status|-[ks]\w+|-v"),
    "nice": (r"-n", r"-\d+|-n\d+"),
    "time": (r"(?!)", r"-p"),
    "stdbuf": (r"(?!)", r"-[oei][L0]"),
    "command": (r"(?!)", r"-p"),
}
"""Of programs that run another one: options with a value, and those without."""
_LOOPBACK_6 = re.compile(r"^(https?://)?\[::1\](?=[:/]|$)")
_ROUTE = re.compile(r"[A-Za-z0-9@_][A-Za-z0-9@_:.-]*")
_CURL_FLAGS = re.compile(r"-[sSfiIvkgL]+")
_CURL = {
    "--silent": 0, "--show-error": 0, "--fail": 0, "--include": 0, "--head": 0, "--location": 0,
    "--verbose": 0, "--max-time": 1, "-m": 1, "--connect-timeout": 1, "-X": 1, "--request": 1,
    "-H": 1, "--header": 1, "-d": 1, "--data": 1, "--data-raw": 1, "--json": 1, "-w": 1,
    "--write-out": 1, "--retry": 1, "-A": 1, "--user-agent": 1, "--compressed": 0, "-o": 1,
}  # fmt: skip


class CommandLines:
    """Reads command lines of one call.

    Args:
        tables: What is known of programs.
        workspace: Where the client works.
        findings: Takes what is found.
        runs: Whether the workspace's own code may run without being asked about.
    """

    def __init__(
        self, tables: Tables, workspace: Workspace, findings: CallFindings, *, runs: bool = True
    ) -> None:
        self.tables = tables
        self.workspace = workspace
        self.findings = findings
        self._runs = runs
        self._depth = 0
        self._special: Mapping[str, Callable[[Sequence[Word], Folders], None]] = {
            "git": lambda words, folders: git.look(self, words, folders),
            "find": lambda words, folders: scripts.find(self, words, folders),
            "sed": lambda words, folders: scripts.sed(self, words, folders),
            "awk": lambda words, folders: scripts.awk(self, words, folders),
            "gawk": lambda words, folders: scripts.awk(self, words, folders),
            "mawk": lambda words, folders: scripts.awk(self, words, folders),
            "apply_patch": self._apply_patch,
            "rm": self._rm,
            "uniq": self._uniq,
            "xxd": self._uniq,
            "tee": self._tee,
            "chmod": self._chmod,
            "tar": self._tar,
            "curl": self._curl,
            "kill": self._kill,
            "ps": self._ps,
            "export": self._export,
            "set": self._set,
            "source": self._source,
            ".": self._source,
            "env": self._env,
            **{name: partial(self._wrapped, name) for name in _WRAPPERS},
            "npx": self._npx,
            "bunx": self._npx,
            "sh": self._shell,
            "bash": self._shell,
            "zsh": self._shell,
            "dash": self._shell,
        }

    # -- lines ---------------------------------------------------------------

    def text(self, line: str, folders: Folders = frozenset((".",))) -> None:
        """Look at a command line."""
        try:
            script = read(line)
        except UnreadableError as error:
            self.findings.ask(f"the command line cannot be read for sure: {error}")
            return
        self.script(script, folders)

    def script(self, script: CommandList, folders: Folders) -> Folders:
        """Look at pipelines one after the other; return where the next one may run."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.findings.ask("it is nested too deep")
            return folders
        before = after = folders
        for step in script.steps:
            start = after if step.joined == "&&" else before | after
            if len(start) > MAX_FOLDERS:
                self.findings.ask("it changes folders too often")
                break
            before, after = start, self._step(step, start)
        self._depth -= 1
        return before | after

    def _step(self, step: Pipeline, folders: Folders) -> Folders:
        if step.background:
            self.findings.act_later("it leaves something running in the background")
        members = step.commands
        for number, member in enumerate(members):
            feeding = members[number - 1] if number else None
            if isinstance(member, ShellGroup):
                self._redirects(member, folders)
                self.words(member.words, folders)
                inside = self.script(member.script, folders)
                folders = folders | inside if len(members) == 1 else folders
            elif self._is_cd(member) and len(members) == 1:
                self._redirects(member, folders)
                return self._cd(member.words, folders)
            else:
                self._member(member, folders, feeding)
        return folders

    @staticmethod
    def _is_cd(command: Command) -> bool:
        return bool(command.words) and command.words[0].text == "cd" and not command.assigned

    def _member(
        self, command: Command, folders: Folders, feeding: Command | ShellGroup | None
    ) -> None:
        self._redirects(command, folders)
        for name, value in command.assigned:
            self.words((value,), folders)
            if name == "PYTHONPATH" and self._are_within(value, folders):
                continue
            if name not in self.tables.settable or not value.known or "(" in value.text:
                self.findings.ask(f"it sets {name}")
        if not command.words:
            return
        self.words(command.words, folders)
        if command.words[0].text == "xargs":
            self._xargs(command.words[1:], folders, feeding)
            return
        documents = [one for one in command.redirects if one.operator in ("<<", "<<-")]
        words = command.words
        if [one.text for one in words] == ["apply_patch"] and len(documents) == 1:
            words = (*words, Word(text="\n".join(documents[0].lines)))
        self.program(words, folders)

    def _are_within(self, value: Word, folders: Folders) -> bool:
        """Whether a value names folders of the workspace alone, whose code may run anyhow."""
        parts = [replace(value, text=one) for one in value.text.split(":")]
        return all(one.text and self.place(one, folders) is PathPlace.WORKSPACE for one in parts)

    def words(self, words: Iterable[Word], folders: Folders) -> None:
        """Look at what words take from variables and from other commands."""
        for word in words:
            for name in word.variables:
                if name not in self.tables.shown:
                    self.findings.ask(f"it takes the variable {name}")
            for inner in word.inner:
                self.script(inner, folders)

    def _redirects(self, item: Command | ShellGroup, folders: Folders) -> None:
        for redirect in item.redirects:
            self.words((redirect.target,), folders)
            if redirect.writes:
                self.write_to((redirect.target,), folders)
            elif redirect.reads:
                self.read_from((redirect.target,), folders)

    # -- places --------------------------------------------------------------

    def place(self, word: Word, folders: Folders) -> PathPlace:
        """Return where a word leads, the worst of the folders in which it may be looked at."""
        if not word.known:
            return PathPlace.UNKNOWN
        places = {
            self.workspace.place(word.text, folder=folder, home=word.home, glob=word.glob)
            for folder in folders
        }
        return max(places, key=list(PathPlace).index)

    def read_from(self, words: Iterable[Word], folders: Folders) -> None:
        """Look at paths that are shown."""
        for word in words:
            place = self.place(word, folders)
            if place not in READABLE:
                self.findings.ask(f"it reads {place.value} ({_shown(word)})")

    def write_to(self, words: Iterable[Word], folders: Folders, program: str = "") -> None:
        """Look at paths that are written."""
        for word in words:
            place = self.place(word, folders)
            if place is PathPlace.NOTHING:
                continue
            if place not in WRITABLE:
                self.findings.ask(f"it writes to {place.value} ({_shown(word)})")
            elif word.glob and word.text.split("/")[-1] in ("*", "**"):
                self.findings.ask(f"it writes to all that {_shown(word)} may stand for")
            else:
                family = self.family(program) if program else None
                self.findings.write(f"writes {_shown(word)}", family)

    def family(self, program: str, **more: str) -> Mapping[str, str]:
        """Return what calls of a program in this workspace have in common."""
        return {"program": program, **more, "folder": self.workspace.root or "the client's"}

    # -- programs ------------------------------------------------------------

    def program(self, words: Sequence[Word], folders: Folders) -> None:
        """Look at a program with its words, which `words` has looked at."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.findings.ask("it is nested too deep")
        else:
            self._program(words, folders)
        self._depth -= 1

    def _program(self, words: Sequence[Word], folders: Folders) -> None:
        first, rest = words[0], words[1:]
        if not first.known or first.home or (first.glob and first.text != "["):
            self.findings.ask("which program it runs is known only when it runs")
            return
        name, own = self._named(first, folders)
        if not name:
            return
        python = re.fullmatch(r"(python|pypy)[0-9.]*|py", name)
        plain = "python" if python else "pip" if re.fullmatch(r"pip[0-9.]*", name) else name
        if len(rest) == 1 and rest[0].text in ("--version", "-V") and rest[0].plain and not own:
            self.findings.read(f"asks {name} for its version")
        elif own and not self._parsed(plain):
            self.run(_shown(first), rest, folders)
        elif plain in self._special:
            self._special[plain](rest, folders)
        elif plain in self.tables.interpreters:
            self.interpreter(plain, rest, folders)
        elif plain == "pip" and self._pip(rest, folders):
            return
        elif plain in ("c8", "nyc"):
            self._wrapped_tool(plain, rest, folders)
        elif plain == "uv" and rest and rest[0].text == "run":
            self._wrapped_tool("uv run", rest[1:], folders)
        elif (
            plain in ("poetry", "pipenv", "hatch", "pdm", "rye")
            and rest[:1]
            and (rest[0].text == "run")
        ):
            self._wrapped_tool(f"{plain} run", rest[1:], folders)
        elif plain in self.tables.subcommands:
            self._subcommand(plain, self.tables.subcommands[plain], rest, folders)
        elif plain in self.tables.kinds:
            self._kind(plain, rest, folders)
        else:
            self.findings.ask(f"no pack knows the program {name}")

    def _parsed(self, name: str) -> bool:
        """Whether a file of the workspace is taken for the program whose name it has."""
        known = (*self.tables.interpreters, *self.tables.subcommands, "sh", "bash", "npx")
        return name in known or self.tables.kinds.get(name) == "run"

    def _named(self, word: Word, folders: Folders) -> tuple[str, bool]:
        """Return a program's name, and whether it is a file of the workspace; "" where asked."""
        if "/" not in word.text:
            return word.text, False
        folder, _, name = word.text.rpartition("/")
        if f"{folder}/" in BINARIES:
            return name, False
        if self.place(word, folders) is not PathPlace.WORKSPACE:
            self.findings.ask(f"it runs {_shown(word)}, which is not in the workspace")
            return "", False
        return name, True

    def _kind(self, name: str, words: Sequence[Word], folders: Folders) -> None:
        self.options(name, words, self.tables.danger.get(name, ()))
        shell_builtins.look(name, words, self.findings)
        match self.tables.kinds[name]:
            case "pure":
                self.findings.read(f"runs {name}")
            case "names":
                is_test = name in ("test", "[")
                # What a word is held against is no path, and a test shows none.
                self.read_from([w for w in _operands(words) if w.known or not is_test], folders)
                self.findings.read(f"lists with {name}")
            case "read":
                if name in ("less", "more") and any(one.text[:1] == "+" for one in words):
                    self.findings.ask(f"{name} begins with a command")
                self.read_from(_paths(words), folders)
                self.findings.read(f"reads with {name}")
            case "search":
                self._search(name, words, folders)
            case "write":
                self._write(name, words, folders)
            case "run":
                self.run(name, words, folders)
            case "send":
                self.findings.send(f"{name} reaches out of the machine")

    def options(
        self, name: str, words: Sequence[Word], danger: Sequence[str], safe: Sequence[str] = ()
    ) -> None:
        """Ask about options that run, write or reach what the arguments do not show."""
        clusters = name.split()[0] not in self.tables.danger["unclustered"]
        for word in words:
            if danger and (
                (word.glob and word.text[:1] in "*?[")
                or (word.split and not word.known and not _is_count(word))
            ):
                self.findings.ask(f"a word of {name} may become an option")
            if not word.text.startswith("-") or len(word.text) < 2:
                continue
            for option in danger:
                if option not in safe and _may_be(word.text, option, clusters=clusters):
                    self.findings.ask(f"{name} {option}")

    def _search(self, name: str, words: Sequence[Word], folders: Folders) -> None:
        operands = list(_operands(words))
        named = any(re.match(r"-[A-Za-z]*[ef]|--r|--f", one.text) for one in words)
        if name == "jq" and any(
            re.search(r"\benv\b|\bENV\b|input_filename|import|include", one.text) for one in words
        ):
            self.findings.ask("jq reads more than its files")
        if name == "jq":
            named = any(re.match(r"-[A-Za-z]*f|--from", one.text) for one in words)
        self.read_from(_values(words, skip=(*_GLOBS, "-e", "--regexp")), folders)
        for word, following in pairwise((*words, Word(text=""))):
            option, sign, value = word.text.partition("=")
            short = word.text[2:] if re.match(r"-g.", word.text) and name == "rg" else ""
            glob = short or (value if sign else following.text)
            if (option in _GLOBS or short) and self.workspace.names.may_select_secrets(glob):
                self.findings.ask(f"{name} reads keys or secrets ({glob[:60]})")
        self.read_from(operands if named else operands[1:], folders)
        self.findings.read(f"searches with {name}")

    def _write(self, name: str, words: Sequence[Word], folders: Folders) -> None:
        operands = list(_operands(words))
        if name in ("cp", "mv"):
            for source in operands[:-1]:
                if self.place(source, folders) is PathPlace.OWN:
                    # It keeps its name where it goes.
                    self.findings.ask(f"it copies {_shown(source)}")
            self.read_from(operands[:-1], folders)
            operands = operands if name == "mv" else operands[-1:]
        self.write_to(operands, folders, name)

    def run(self, name: str, words: Sequence[Word], folders: Folders) -> None:
        """Look at what runs the workspace's own code, or builds or checks it."""
        if not self._runs:
            self.findings.ask(f"{name} runs the workspace's own code")
        for word in words:
            text = word.text
            if _is_count(word):
                continue
            if not word.known:
                self.findings.ask(f"what {name} runs is known only when it runs")
            elif re.search(r"://|^git\+|^[\w.-]+@[\w.-]+:|@latest\b", text):
                self.findings.ask(f"{name} fetches {_shown(word)}")
            elif (why := _brings(name, text)) is not None:
                self.findings.ask(f"{name} {why} ({_shown(word)})")
            elif text.startswith("-") and text != "-":
                for value in _value(word):
                    self._inside(name, value, folders)
            elif name in ("make", "gmake", "ninja") and ("=" in text or text.startswith("install")):
                self.findings.ask(f"{name} {_shown(word)}")
            elif _OUT.search(text) and not re.search(r"[/.]", text):
                self.findings.send(f"{name} {_shown(word)} reaches out of the machine")
            elif text in _CODE:
                self.findings.ask(f"{name} {text} runs what it is given")
            elif name == "mvn" and ":" in text:
                self.findings.ask(f"{name} brings the plugin {_shown(word)}")
            else:
                self._inside(name, word, folders)
        self.findings.write(f"runs {name}", self.family(name))

    def _inside(self, name: str, word: Word, folders: Folders) -> None:
        place = self.place(word, folders)
        for piece in _pieces(word):
            # `xml:/x`, `log_file=~/x`, `@/x`, `{"setup": "/x"}`: a path within a word.
            if self.place(piece, folders) in (PathPlace.OUTSIDE, PathPlace.SECRET):
                place = PathPlace.OUTSIDE
        if place is PathPlace.NOTHING and word.text != "/dev/null":
            self.findings.ask(f"{name} takes what it reads for its own")
        if place is PathPlace.SYSTEM and "/include" in word.text:
            return
        if place not in WRITABLE:
            self.findings.ask(f"{name} uses {place.value} ({_shown(word)})")

    def _subcommand(
        self, name: str, known: Subcommands, words: Sequence[Word], folders: Folders
    ) -> None:
        rest = list(words)
        while rest and rest[0].text.startswith("-") and rest[0].known:
            valued = rest[0].text in known.valued and len(rest) > 1
            if valued:
                self._inside(name, rest[1], folders)
            del rest[: 1 + valued]
        self.options(name, words, known.danger)
        if not rest:
            if "install" in known.bare and name in ("yarn", "pnpm"):
                self.run(name, words, folders)
            elif words and all(one.text in ("--help", "-h", "-v", "--info") for one in words):
                self.findings.read(f"asks {name} about itself")
            else:
                self.findings.ask(f"{name} without a subcommand")
            return
        sub, operands = rest[0], rest[1:]
        label = f"{name} {sub.text}"
        plain = sub.known and _ROUTE.fullmatch(sub.text) is not None
        reached = operands[:1] if name == "bun" and sub.text == "run" else rest[:1]
        if name in ("pnpm", "bun") and not self._is_script(name, sub.text, reached):
            self.findings.ask(f"{name} runs a program of the machine where no script has the name")
        if plain and sub.text in known.exec:
            self._wrapped_tool(label, operands, folders)
        elif plain and sub.text in known.bare:
            if any(_operands(operands)):
                self.findings.ask(f"{label} brings code of others")
            self.run(label, operands, folders)
        elif plain and (sub.text in known.kinds or (known.default and sub.text not in known.ask)):
            self._sub_kind(label, known.kinds.get(sub.text, known.default), operands, folders)
        else:
            self.findings.ask(f"no pack knows what {_shown(sub)} of {name} does")

    def _sub_kind(
        self, label: str, kind: str | None, operands: Sequence[Word], folders: Folders
    ) -> None:
        if kind == "read":
            self.read_from(_paths(operands), folders)
            self.findings.read(f"asks {label}")
            return
        texts = [one.text for one in operands]
        first = next((one for one in texts if not one.startswith("-")), "")
        if label == "go run" and not (first.startswith(".") or first.endswith(".go")):
            self.findings.ask(f"{label} {first[:60]} may bring code of others")
        if label == "go mod" and texts[:1] not in (
            ["tidy"],
            ["verify"],
            ["download"],
            ["graph"],
            ["why"],
            ["vendor"],
        ):
            self.findings.ask(f"{label} changes what is built")
        if label == "swift package" and texts[:1] not in (
            ["describe"],
            ["dump-package"],
            ["show-dependencies"],
            ["resolve"],
        ):
            self.findings.ask(f"{label} may run a plugin")
        self.run(label, operands, folders)

    def _is_script(self, name: str, sub: str, reached: Sequence[Word]) -> bool:
        """Whether a word is one of a package manager's own, a usual script or a checker."""
        known = self.tables.subcommands[name]
        own = sub != "run" if name == "bun" else sub in (*known.ask, *known.bare, *known.exec)
        if own or (name == "pnpm" and sub in ("run", "run-script", "test", "t", "tst")):
            return True
        text = reached[0].text if reached else ""
        return (
            ":" in text
            or text in self.tables.scripts
            or text in _BROUGHT
            or self.tables.kinds.get(text) == "run"
            or (name == "bun" and re.search(r"[./]", text) is not None)
        )

    # -- wrappers ------------------------------------------------------------

    def _wrapped(self, name: str, words: Sequence[Word], folders: Folders) -> None:
        """Look at a program behind `timeout`, `time` and their like."""
        rest = list(words)
        if name == "command" and rest and rest[0].text in ("-v", "-V"):
            self.findings.read("asks where a program is")
            return
        valued, alone = _WRAPPERS[name]
        while rest and rest[0].text.startswith("-"):
            option = rest.pop(0).text
            if re.fullmatch(valued, option) and rest:
                rest.pop(0)
            elif not re.fullmatch(alone, option):
                self.findings.ask(f"{name} {option[:60]}")
        if name == "timeout":
            del rest[:1]
        if not rest:
            self.findings.ask("a program that runs another one names none")
            return
        self.program(rest, folders)

    def _wrapped_tool(self, label: str, words: Sequence[Word], folders: Folders) -> None:
        """Look at a tool that a package manager runs, which is one of the workspace's own."""
        rest = list(words)
        while rest and rest[0].text in (
            "--",
            "-q",
            "--quiet",
            "--frozen",
            "--locked",
            "--no-sync",
            "-s",
            "--silent",
        ):
            rest.pop(0)
        if not rest or rest[0].text.startswith("-"):
            self.findings.ask(f"{label} with options of its own")
            return
        self.program(rest, folders)

    def _npx(self, words: Sequence[Word], folders: Folders) -> None:
        rest = list(words)
        while rest and rest[0].text in ("--no-install", "--no", "--"):
            rest.pop(0)
        name = rest[0].text if rest else ""
        if self.tables.kinds.get(name) != "run" and name not in _BROUGHT:
            self.findings.ask(f"npx brings and runs {name or 'a program'}")
            return
        self.program(rest, folders)

    def _env(self, words: Sequence[Word], folders: Folders) -> None:
        rest = list(words)
        while rest and (found := re.match(r"([A-Za-z_]\w*)=", rest[0].text)):
            if found.group(1) not in self.tables.settable:
                self.findings.ask(f"it sets {found.group(1)}")
            rest.pop(0)
        if not rest or rest[0].text.startswith("-"):
            self.findings.ask("env shows or changes the environment, where keys are")
            return
        self.program(rest, folders)

    def _xargs(
        self, words: Sequence[Word], folders: Folders, feeding: Command | ShellGroup | None
    ) -> None:
        """Look at a program that gets what another one prints as its words."""
        rest = list(words)
        place = ""
        while rest and rest[0].text.startswith("-"):
            option = rest.pop(0).text
            if re.fullmatch(r"-0|-r|-t|-[nPL]\d+|--null|--no-run-if-empty", option):
                continue
            if option in ("-n", "-P", "-L", "-I") and rest:
                value = rest.pop(0).text
                place = value if option == "-I" else place
            elif option == "-I{}":
                place = "{}"
            else:
                self.findings.ask(f"xargs {option}")
        if not rest:
            rest = [Word(text="echo")]
        fed = scripts.fed_by(feeding)
        if rest[0].text == "rm" or self.tables.kinds.get(rest[0].text) == "write":
            self.findings.ask(f"xargs {rest[0].text} works on whatever it reads")
        if place:
            odd = any(place in one.text and one.text != place for one in rest)
            if odd or not any(one.text == place for one in rest[1:]):
                self.findings.ask("xargs puts what it reads into a word")
            rest = [fed if one.text == place else one for one in rest]
        else:
            rest = [*rest, fed]
        self.program(rest, folders)

    def _shell(self, words: Sequence[Word], folders: Folders) -> None:
        """Look at a shell within the shell."""
        if words and re.fullmatch(r"-[leux]*c", words[0].text) and len(words) == 2:
            if words[1].known:
                self.text(words[1].text, folders)
            else:
                self.findings.ask("what the shell runs is known only when it runs")
            return
        self.interpreter("bash", words, folders)

    def interpreter(self, name: str, words: Sequence[Word], folders: Folders) -> None:
        """Look at an interpreter: a file of the workspace may run, text in a word may not."""
        known, rest = self.tables.interpreters[name], list(words)
        while rest and rest[0].text.startswith("-") and rest[0].text != "-m":
            option = rest.pop(0)
            if option.text in known.valued and rest:
                self._inside(name, rest.pop(0), folders)
            elif option.text not in known.flags:
                self.findings.ask(f"{name} {_shown(option)}")
                return
            elif option.text == "--test" and not rest:
                self.run(f"{name} --test", (), folders)
                return
        if not rest:
            self.findings.ask(f"{name} runs what it reads")
        elif rest[0].text == "-m" and name == "python":
            self._module(rest[1:], folders)
        elif self.place(rest[0], folders) is not PathPlace.WORKSPACE or rest[0].glob:
            self.findings.ask(f"{name} runs {_shown(rest[0])}")
        else:
            self.run(f"{name} {_shown(rest[0])}", rest[1:], folders)

    def _module(self, words: Sequence[Word], folders: Folders) -> None:
        name = words[0].text if words else ""
        inner = next((n for n, one in enumerate(words[1:], 1) if one.text == "-m"), 0)
        if name == "coverage" and inner:
            self._module(words[inner + 1 :], folders)
            words = words[:inner]
        if name == "pip" and self._pip(words[1:], folders):
            return
        if name not in self.tables.interpreters["python"].modules or name == "pip":
            self.findings.ask(f"python runs the module {name or 'of no name'}")
            return
        self.options(name, words[1:], self.tables.danger.get(name, ()))
        self.run(f"python -m {name}", words[1:], folders)

    def _pip(self, words: Sequence[Word], folders: Folders) -> bool:
        """Look at pip where it installs what the workspace lists; return whether it does."""
        texts = [one.text for one in words]
        if texts[:1] != ["install"]:
            self._subcommand("pip", self.tables.subcommands["pip"], words, folders)
            return True
        rest = [one for one in texts[1:] if one not in ("-q", "-U", "--upgrade", "--no-deps")]
        listed = len(rest) == 2 and rest[0] in ("-r", "--requirement", "-e", "--editable")
        if not listed and rest not in (["."], ["-e."], ["-e", ".[dev]"], [".[dev]"], [".[test]"]):
            self.findings.ask("pip install brings code of others")
        self.run("pip install", words[1:], folders)
        return True

    # -- programs of their own -----------------------------------------------

    def _cd(self, words: Sequence[Word], folders: Folders) -> Folders:
        operands = words[1:]
        self.words(words, folders)
        if len(operands) != 1 or operands[0].text.startswith("-") or operands[0].glob:
            self.findings.ask("it changes to a folder that is not known")
            return folders
        place = self.place(operands[0], folders)
        if place is not PathPlace.WORKSPACE:
            self.findings.ask(f"it changes to {place.value} ({_shown(operands[0])})")
            return folders
        self.findings.read(f"changes to {_shown(operands[0])}")
        return frozenset(self.workspace.joined(one, operands[0].text) for one in folders)

    def _rm(self, words: Sequence[Word], folders: Folders) -> None:
        for word in words:
            if word.text.startswith("--") and word.text not in ("--", "--force", "--verbose"):
                self.findings.ask(f"rm {word.text}")
            elif re.match(r"-[a-zA-Z]*[rRdi]", word.text):
                self.findings.ask("rm deletes whole folders")
        self.write_to(_operands(words), folders, "rm")

    def _apply_patch(self, words: Sequence[Word], folders: Folders) -> None:
        if len(words) != 1 or not words[0].known or words[0].variables:
            self.findings.ask("it is no patch that the pack can read")
            return
        self.patch(words[0].text, folders)

    def patch(self, text: str, folders: Folders) -> None:
        """Look at a patch in Codex's form: the files that it names are those that it changes."""
        files = scripts.patched(text)
        if not files:
            self.findings.ask("it is no patch that the pack can read")
        words = [Word(text=one, home=one.startswith("~")) for one in files]
        self.write_to(words, folders, "edits of files")

    def _uniq(self, words: Sequence[Word], folders: Folders) -> None:
        operands: list[Word] = []
        for before, word in pairwise((Word(text=""), *words)):
            if word in _operands((word,)) and not (
                word.text.isdigit() and re.fullmatch(r"-[fswclgo]", before.text)
            ):
                operands.append(word)
        self.read_from(_paths(words), folders)
        self.write_to(operands[1:], folders)
        self.findings.read("reads lines")

    def _tee(self, words: Sequence[Word], folders: Folders) -> None:
        self.write_to(_operands(words), folders, "tee")

    def _chmod(self, words: Sequence[Word], folders: Folders) -> None:
        operands = list(_operands(words))
        mode = operands[0].text if operands else ""
        if any(one.text.startswith("-") and one.text != mode for one in words) or not re.fullmatch(
            r"[ugoa]*[+-][rwx]+|[0-7]{3}", mode
        ):
            self.findings.ask(f"chmod {mode}")
        self.write_to(operands[1:], folders, "chmod")

    def _tar(self, words: Sequence[Word], folders: Folders) -> None:
        if not words or not re.fullmatch(r"-?t[zjJv]*f?|-tf", words[0].text):
            self.findings.ask("tar packs or unpacks")
        if any(one.text.startswith("-") or re.search(r"[:@]", one.text) for one in words[1:]):
            self.findings.ask("tar with options, or of another machine")
        self.read_from(_paths(words[1:]), folders)

    def _kill(self, words: Sequence[Word], folders: Folders) -> None:
        del folders
        if not words or not all(
            re.fullmatch(r"%\d+|-(9|15|TERM|INT|KILL)", one.text) for one in words
        ):
            self.findings.ask("kill ends programs that this shell may not have started")

    def _ps(self, words: Sequence[Word], folders: Folders) -> None:
        del folders
        if not all(
            re.fullmatch(r"aux|-ef|-e|-f|-A|aux?w*|-p|\d+|-o|[a-z,]+", one.text) for one in words
        ) or any(
            not one.text.startswith("-")
            and "e" in one.text
            and ("," not in one.text or "env" in one.text)
            for one in words
        ):
            self.findings.ask("ps may show environments, where keys are")
        self.findings.read("lists programs")

    def _export(self, words: Sequence[Word], folders: Folders) -> None:
        del folders
        for word in words:
            name, sign, _ = word.text.partition("=")
            if not sign or not word.known or name not in self.tables.settable:
                self.findings.ask(f"it sets or shows {name or 'the environment'}")
        if not words:
            self.findings.ask("export shows the environment, where keys are")

    def _set(self, words: Sequence[Word], folders: Folders) -> None:
        del folders
        texts = [one.text for one in words]
        if not texts or not all(re.fullmatch(r"[-+][eux]+o?|pipefail", one) for one in texts):
            self.findings.ask("set changes the shell, or shows its variables")

    def _source(self, words: Sequence[Word], folders: Folders) -> None:
        if len(words) != 1:
            self.findings.ask("source with words")
            return
        self.interpreter("bash", words, folders)

    def _curl(self, words: Sequence[Word], folders: Folders) -> None:
        rest, hosts, plain = list(words), [], True
        while rest:
            word = rest.pop(0)
            if not word.text.startswith("-"):
                hosts.append(host_of(word.text) if word.known else "")
                continue
            if _CURL_FLAGS.fullmatch(word.text):
                continue
            values = _CURL.get(word.text)
            if values is None or (values and not rest):
                self.findings.ask(f"curl {word.text}")
                return
            if not values:
                continue
            value = rest.pop(0)
            plain = plain and word.text in (
                "-m",
                "--max-time",
                "--connect-timeout",
                "-w",
                "--write-out",
                "-A",
            )
            if word.text == "-o":
                self.write_to((value,), folders)
            elif value.text.startswith("@") or "%output" in value.text or not value.known:
                self.findings.ask(f"curl sends {_shown(value)}")
        if hosts and all(one in LOOPBACK for one in hosts):
            self.findings.read("asks a server on this machine")
            return
        one = hosts[0] if len(set(hosts)) == 1 and plain else ""
        shown = ", ".join(sorted({each or "an unknown host" for each in hosts})) or "nobody"
        family = (
            self.family("curl", host=one)
            if one and "?" not in "".join(w.text for w in words)
            else None
        )
        self.findings.send(f"curl reaches {shown}", family)


def host_of(address: str) -> str:
    """Return the host that an address leads to; "" where it is none for sure."""
    if not re.fullmatch(r"[A-Za-z0-9._~:/?&=%+,;-]+", _LOOPBACK_6.sub("", address, 1) or "/"):
        return ""
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or port in _POWERFUL:
        return ""
    return (parts.hostname or "").lower()


def _may_be(word: str, option: str, *, clusters: bool) -> bool:
    """Whether a word is an option, one cut short, one with a value, or a cluster with it."""
    name = word.split("=", 1)[0]
    if option.startswith("--"):
        return option == name or (
            len(name) > 2 and name.startswith("--") and option.startswith(name)
        )
    if len(option) > 2 or not clusters:
        return word.startswith(option)
    return not word.startswith("--") and option[1] in re.split(r"[^A-Za-z0-9.]", word[1:])[0]


def _pieces(word: Word) -> Iterator[Word]:
    """Yield what may be a path within a word."""
    pieces = re.split(r"[=:,;@\"'\s]+", word.text)
    if len(pieces) > 1:
        for piece in pieces:
            bare = piece.lstrip("{[(").rstrip("}])")
            yield Word(text=bare, glob=word.glob, home=bare.startswith("~"))


def _brings(name: str, text: str) -> str | None:
    """Return what a word has a builder or checker do beyond that; None where nothing."""
    manager = name.split()[0] in ("npm", "yarn", "pnpm", "bun")
    if manager and text == "env":
        return "shows the environment, where keys are"
    if manager and text in ("node", "python", "sh", "bash", "deno"):
        return "may run what it is given"
    if name == "cmake" and text in ("--install", "install"):
        return "installs"
    if name == "cmake" and re.match(r"-D\w*(LAUNCHER|LAUNCH_|_COMMAND|EMULATOR)", text):
        return "may run what it is given"
    if name == "tox" and text in ("e", "exec", "devenv", "d"):
        return "may run what it is given"
    if name == "astro" and text == "add":
        return "brings code of others"
    if name.startswith("dotnet") and re.match(r"--?p(roperty)?:\w*(Event|Command|Custom)", text):
        return "may run what it is given"
    if name.startswith("sbt") and not re.fullmatch(r"[\w./:*-]+", text):
        return "may run what it is given"
    if name.startswith("go ") and "-extld=" in text:
        return "may run what it is given"
    return None


def _is_count(word: Word) -> bool:
    """Whether a word is ``-j$(nproc)``: so many at once as there are processors."""
    if word.text != f"-j{UNKNOWN}" or len(word.inner) != 1:
        return False
    steps = word.inner[0].steps
    return len(steps) == 1 and steps[0].commands == read("nproc").steps[0].commands


def _operands(words: Iterable[Word]) -> Iterable[Word]:
    """Yield the words that are no options."""
    only = False
    for word in words:
        if word.text == "--" and not only:
            only = True
        elif only or not word.text.startswith("-") or word.text == "-":
            yield word


def _value(word: Word) -> Iterator[Word]:
    """Yield what an option may have within itself: behind ``=``, and behind its letter."""
    name, sign, value = word.text.partition("=")
    values = [value] if sign else []
    if not name.startswith("--"):
        values.append(word.text[2:])
    for one in values:
        if one:
            yield Word(text=one, glob=word.glob, home=one.startswith("~"))


def _values(words: Iterable[Word], skip: Sequence[str] = ()) -> Iterator[Word]:
    for word in words:
        if word.text == "--":
            return
        if word.text.startswith("-") and word.text.split("=")[0] not in skip:
            yield from _value(word)


def _paths(words: Sequence[Word]) -> Iterable[Word]:
    """Yield whatever of some words may be a path."""
    yield from _operands(words)
    yield from _values(words)


def _shown(word: Word) -> str:
    text = word.text.replace("\0", "…")
    return text if len(text) <= 60 else f"{text[:59]}…"
