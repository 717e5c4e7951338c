"""What one call of a client's tool does: a pack's entry, and the parser of its arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hookgate import ClientCallFlags, Flags, Tool
from hookgate.builtin_plugins.packs.command_lines import CommandLines, host_of
from hookgate.builtin_plugins.packs.places import PathPlace, Workspace
from hookgate.builtin_plugins.packs.shell import Word
from hookgate.builtin_plugins.packs.tables import ToolEntry, pack, programs

MAX_REASONS = 6
MAX_TEXT = 300


class CallFindings:
    """What a call does: what was found so far. It only ever becomes stricter."""

    def __init__(self) -> None:
        self.raised: list[str] = []
        """Why it acts with raised rights, or why it cannot be told what it does."""
        self.sent: list[str] = []
        self.later: list[str] = []
        self.done: list[str] = []
        self.writes = False
        self.families: list[Mapping[str, str]] = []

    @property
    def harmless(self) -> bool:
        """Whether nobody needs to be asked, as far as was found."""
        return not (self.raised or self.sent or self.later)

    def ask(self, why: str) -> None:
        """Note that it must be asked about."""
        _added(self.raised, why)

    def send(self, why: str, family: Mapping[str, str] | None = None) -> None:
        """Note that it reaches out of the machine."""
        _added(self.sent, why)
        self.families.append(family or {})

    def act_later(self, why: str) -> None:
        """Note that it makes something that acts by itself."""
        _added(self.later, why)
        self.families.append({})

    def write(self, what: str, family: Mapping[str, str] | None = None) -> None:
        """Note that it changes something in the workspace."""
        self.writes = True
        _added(self.done, what)
        self.families.append(family or {})

    def read(self, what: str) -> None:
        """Note that it shows something."""
        _added(self.done, what)

    def flags(self) -> ClientCallFlags:
        """Return what was found, as policy takes it."""
        first = self.families[0] if self.families else {}
        alike = not self.raised and all(one == first for one in self.families)
        reasons = [*self.raised, *self.sent, *self.later] or self.done
        return ClientCallFlags(
            flags=Flags(
                # What it shows was written by somebody, whoever that was.
                reads_external_data=True,
                writes_persistent_state=self.writes or bool(self.raised or self.later),
                sends_externally=bool(self.sent) or (None if self.raised else False),
                executes_privileged=bool(self.raised),
                creates_autonomous_actions=bool(self.later) or (None if self.raised else False),
            ),
            why="; ".join(reasons)[:400],
            confined=not (self.raised or self.later),
            family=first if alike and _fits(first) else {},
        )


def _added(reasons: list[str], why: str) -> None:
    if len(reasons) < MAX_REASONS and why not in reasons:
        reasons.append("".join(char if char.isprintable() else "?" for char in why)[:MAX_TEXT])


def _fits(family: Mapping[str, str]) -> bool:
    texts = [text for pair in family.items() for text in pair]
    return len(family) <= 8 and all(len(text) <= MAX_TEXT and text.isprintable() for text in texts)


# -- reading calls -----------------------------------------------------------------

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}
_SCHEMA_TYPES = {"number": ("number", "integer")}
_ADDRESS = re.compile(r"https://[A-Za-z0-9./_~%#-]{1,300}")
_SHELLS = re.compile(r"((/usr(/local)?)?/bin/)?(ba|z|da)?sh")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackReader:
    """Says what calls do, by the packs that are enabled.

    Attributes:
        packs: Their names.
        runs: Whether the workspace's own code may run without being asked about.
        reference: Hosts beside those of the tables that may be read from.
    """

    packs: Sequence[str]
    runs: bool = True
    reference: frozenset[str] = frozenset()
    _parsers: Mapping[str, Callable[[_ReadCall], None]] = field(
        default_factory=lambda: _PARSERS, repr=False
    )

    def entries(self, tool: Tool) -> Iterator[tuple[str, ToolEntry]]:
        """Yield what the packs know of a tool of such a name and schema."""
        for name in self.packs:
            entry = pack(name).get(tool.name)
            if entry is not None and _declares(tool.schema, entry):
                yield name, entry

    def look(self, tool: Tool, arguments: Mapping[str, Any], root: str) -> ClientCallFlags | None:
        """Return what a call does in the folder `root`; None where no pack knows the tool."""
        found = [
            self._by(name, entry, arguments, root)
            for name, entry in self.entries(tool)
            if _listed(tool) or all(one in arguments for one in entry.needs)
        ]
        return ClientCallFlags.joined(found)

    def _by(
        self, name: str, entry: ToolEntry, arguments: Mapping[str, Any], root: str
    ) -> ClientCallFlags:
        findings, tables = CallFindings(), programs()
        for key, value in arguments.items():
            kind = entry.arguments.get(key)
            if kind is None or not isinstance(value, _TYPES[kind]):
                findings.ask(f"the pack {name} does not know its argument {key[:60]}")
        missing = [one for one in entry.needs if one not in arguments]
        if missing or findings.raised:
            findings.ask("its arguments are not those that the pack knows")
            return findings.flags()
        workspace = Workspace(root, tables.names)
        lines = CommandLines(tables, workspace, findings, runs=self.runs)
        self._parsers[entry.does](
            _ReadCall(
                lines=lines,
                findings=findings,
                uses=entry.uses,
                arguments=arguments,
                hosts=tables.reference | self.reference,
            )
        )
        return findings.flags()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadCall:
    """One call, while it is looked at."""

    lines: CommandLines
    findings: CallFindings
    uses: Mapping[str, str]
    arguments: Mapping[str, Any]
    hosts: frozenset[str]

    def part(self, name: str) -> Any:
        """Return the argument that has a part; None where there is none."""
        return self.arguments.get(self.uses.get(name, ""))

    def folders(self) -> frozenset[str]:
        """Return where a command runs: the workspace, or a folder of it that is named."""
        named = [one for one in (self.part("folder"), self.part("folder2")) if one]
        for one in named:
            if self.lines.workspace.place(one, home=True) is not PathPlace.WORKSPACE:
                self.findings.ask(f"it runs outside of the workspace ({one[:100]})")
                return frozenset((".",))
        return frozenset(self.lines.workspace.joined(".", one) for one in named or (".",))


def _listed(tool: Tool) -> bool:
    return bool(tool.schema.get("properties"))


def _declares(schema: Mapping[str, Any], entry: ToolEntry) -> bool:
    """Whether a schema has the arguments that the entry needs; one that says nothing has them."""
    properties = schema.get("properties")
    if not properties:
        return True
    if not isinstance(properties, Mapping):
        return False
    for name in entry.needs:
        said = properties.get(name)
        kind = said.get("type") if isinstance(said, Mapping) else None
        expected = entry.arguments[name]
        if said is None or kind not in (None, *_SCHEMA_TYPES.get(expected, (expected,))):
            return False
    return True


# -- parsers -----------------------------------------------------------------


def _command(call: _ReadCall) -> None:
    folders = _circumstances(call)
    shell = call.part("shell")
    if shell and not _SHELLS.fullmatch(shell):
        call.findings.ask(f"its shell is {shell[:60]}")
    call.lines.text(call.part("command"), folders)


def _argv(call: _ReadCall) -> None:
    folders, words = _circumstances(call), call.part("command")
    if not words or not all(isinstance(one, str) for one in words) or len(words) > 1000:
        call.findings.ask("its command is no list of texts")
    elif len(words) == 3 and _SHELLS.fullmatch(words[0]) and words[1] in ("-c", "-lc"):
        call.lines.text(words[2], folders)
    else:
        if any("\0" in one or not one.isprintable() for one in words):
            call.findings.ask("its command has characters that nobody sees")
        call.lines.program([Word(text=one) for one in words], folders)


def _circumstances(call: _ReadCall) -> frozenset[str]:
    if call.part("raised"):
        call.findings.ask("it asks for raised rights")
    if call.part("permissions") not in (None, "", "use_default"):
        call.findings.ask("it asks for raised rights")
    return call.folders()


def _paths(call: _ReadCall) -> Iterator[Word]:
    for name in ("path", "path2", "paths", "paths2"):
        given = call.part(name)
        for one in given if isinstance(given, list) else [given] if given else []:
            text = one if isinstance(one, str) else "\0"
            yield Word(text=text, home=text.startswith("~"))


_HERE = frozenset((".",))


def _read(call: _ReadCall) -> None:
    paths = list(_paths(call))
    call.lines.read_from(paths, _HERE)
    glob = call.part("glob")
    if glob and call.lines.workspace.names.may_select_secrets(glob):
        call.findings.ask(f"it reads keys or secrets ({glob[:100]})")
    call.findings.read("reads files")


def _list(call: _ReadCall) -> None:
    call.lines.read_from(_paths(call), _HERE)
    pattern = call.part("pattern")
    if pattern and (pattern.startswith(("/", "~")) or ".." in pattern.split("/")):
        word = Word(text=pattern, glob=True, home=pattern.startswith("~"))
        call.lines.read_from((word,), _HERE)
    call.findings.read("lists files")


def _write(call: _ReadCall) -> None:
    paths = list(_paths(call))
    if not paths:
        call.findings.ask("which files it writes cannot be told")
    call.lines.write_to(paths, _HERE, "edits of files")


def _patch(call: _ReadCall) -> None:
    call.lines.patch(call.part("patch"), _HERE)


def _fetch(call: _ReadCall) -> None:
    address = call.part("url")
    host = host_of(address)
    if host in call.hosts and _ADDRESS.fullmatch(address) and ":" not in address[8:]:
        call.findings.read(f"reads from {host}")
        return
    family = call.lines.family("fetching", host=host) if host and "?" not in address else None
    call.findings.send(f"fetches from {host or 'an address that cannot be read'}", family)


def _send(call: _ReadCall) -> None:
    call.findings.send("what it is given leaves this machine", call.lines.family("searching"))


def _silent(call: _ReadCall) -> None:
    if call.part("text"):
        call.findings.ask("it writes to a program that runs, which may take it for a command")
    call.findings.read("asks what a program has printed")


def _note(call: _ReadCall) -> None:
    call.findings.read("keeps the client's own notes")


def _ask(call: _ReadCall) -> None:
    call.findings.ask("nothing reads what it does")


def _later(call: _ReadCall) -> None:
    call.findings.act_later("what it keeps instructs every later session")


_PARSERS: Mapping[str, Callable[[_ReadCall], None]] = {
    "command": _command,
    "argv": _argv,
    "read": _read,
    "list": _list,
    "write": _write,
    "patch": _patch,
    "fetch": _fetch,
    "send": _send,
    "silent": _silent,
    "note": _note,
    "later": _later,
    "ask": _ask,
}
