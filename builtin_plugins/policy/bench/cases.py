"""Cases: calls that somebody wrote down, with what should become of them.

They stand beside the rules, in ``NAME.test.yaml``, and are judged as a gateway would judge them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookgate import FLAG_NAMES, Flags
from hookgate.builtin_plugins.policy.bench.bench import WORDS, Bench, Found, Word, imagined
from hookgate.builtin_plugins.policy.judge.facts import LONGEST, Facts, Happened, History, facts_of
from hookgate.builtin_plugins.policy.rules.reading import (
    NO_LONGER_AGO,
    PROVENANCES,
    SANDBOXES,
    SUFFIXES,
    TEST_SUFFIX,
    entries,
    files_of,
    opened,
    seconds_at,
)
from hookgate.kit.content.fields import Fields
from hookgate.kit.content.files import MANIFEST_BYTES, read_text
from hookgate.kit.content.problems import ContentError, Problem, shortened

if TYPE_CHECKING:
    from hookgate.builtin_plugins.policy.settings import ProfileName
    from hookgate.kit.content.yaml_reader import KeyPath, SourceDocument

CASE_KEYS = ("name", "description", "profile", "call", "turn", "before", "expect")
TOOL_KEYS = ("flags", "plugin", "sandbox", "owner")
CALL_KEYS = ("tool", "arguments", *TOOL_KEYS)
TURN_KEYS = (
    "provenance",
    "tainted",
    "taint",
    "agent",
    "channel",
    "account",
    "peer",
    "principal",
    "nested",
)
PROFILE_NAMES = ("open", "balanced", "strict")
MAX_CASES = 2000

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
WORD = re.compile(r"[\x21-\x7e]{1,128}")
RULE = re.compile(r"[\x21-\x7e]{1,200}")

NOW = 1_000_000.0
"""The time at which cases are judged, in seconds of the history's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A call, what came before it, and what should follow.

    Attributes:
        name: What it shows.
        facts: The call.
        before: The calls that were allowed before, the oldest first.
        profile: The profile under which it is judged; None for the settings'.
        effect: What should follow.
        rule: What should decide; "" where that does not matter.
        arguments: What the call should run with; None where that does not matter.
        file: Where it stands.
        line: The line on which it begins.
    """

    name: str
    facts: Facts
    effect: Word
    before: tuple[Happened, ...] = ()
    profile: ProfileName | None = None
    rule: str = ""
    arguments: Mapping[str, Any] | None = None
    file: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        """``FILE:LINE``."""
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseReading:
    """What came of reading cases: of a file with an error, none."""

    cases: tuple[Case, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether something is wrong that must not be passed over."""
        return any(problem.severity == "error" for problem in self.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What became of a case.

    Attributes:
        case: The case.
        found: What followed.
        wrong: What is other than expected; empty where it passed.
    """

    case: Case
    found: Found
    wrong: tuple[str, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether all is as it should be."""
        return not self.wrong


# -- judging ---------------------------------------------------------------------------


def run_case(bench: Bench, case: Case, *, every: bool = False) -> Tried:
    """Judge a case and hold what follows against what should."""
    history = History()
    for happened in sorted(case.before, key=lambda one: one.at):
        history.add(happened.at, recorded(happened.facts))
    found = bench.under(case.profile).decide(case.facts, history, NOW, every=every)
    wrong = []
    if found.effect != case.effect:
        wrong.append(f"expected {case.effect}, found {found.effect}")
    if case.rule and found.rule not in (case.rule, f"rule:{case.rule}"):
        wrong.append(f"expected the rule {case.rule}, found {found.rule}")
    if case.arguments is not None and dict(found.arguments) != dict(case.arguments):
        wrong.append(f"expected the arguments {dict(case.arguments)}, found {found.arguments}")
    return Tried(case=case, found=found, wrong=tuple(wrong))


def recorded(facts: Facts) -> Facts:
    """Return facts as the gateway would remember them."""
    return facts_of(*imagined(facts))


# -- files -----------------------------------------------------------------------------


def files_of_cases(paths: Iterable[Path]) -> list[Path]:
    """Return the files of cases that stand beside the rules of `paths`. It blocks."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir() or path.name.endswith(TEST_SUFFIX):
            found += files_of([path], tests=True)
        else:
            beside = path.with_name(f"{path.stem}{TEST_SUFFIX}")
            found += [beside] if beside.is_file() else []
    return list(dict.fromkeys(found))


def rule_paths(paths: Iterable[Path]) -> list[Path]:
    """Return `paths`, with the rules that a file of cases is about in its place. It blocks."""
    found: list[Path] = []
    for path in paths:
        if not path.name.endswith(TEST_SUFFIX) or path.is_dir():
            found.append(path)
            continue
        stem = path.name.removesuffix(TEST_SUFFIX)
        names = [path.with_name(f"{stem}{suffix}") for suffix in SUFFIXES]
        found.append(next((one for one in names if one.is_file()), path.parent))
    return list(dict.fromkeys(found))


def read_cases(files: Iterable[Path]) -> CaseReading:
    """Read files of cases. It blocks, and never raises."""
    cases: list[Case] = []
    problems: list[Problem] = []
    for path in files:
        try:
            text, _ = read_text(path.resolve(), max_bytes=MANIFEST_BYTES)
        except ContentError as error:
            problems.append(replace(error.problem, file=str(path)))
            continue
        reading = read_text_of_cases(text, str(path))
        cases += reading.cases
        problems += reading.problems
    return CaseReading(cases=tuple(cases), problems=tuple(problems))


def read_text_of_cases(text: str, file: str) -> CaseReading:
    """Read the cases in `text`. It never raises."""
    try:
        document, top = opened(text, file, ("version", "description", "tools", "cases"))
    except ContentError as error:
        return CaseReading(problems=(error.problem,))
    tools = _tools(top)
    listed = entries(top, "cases", MAX_CASES)
    if listed is None:
        return CaseReading(problems=tuple(top.problems))
    cases, problems = [], list(top.problems)
    for number, one in enumerate(listed):
        if not isinstance(one, dict):
            place = ("cases", number)
            problems.append(document.problem(place, shortened(one), "a mapping: one case"))
            continue
        case, found = _case(document, number, tools)
        problems += found
        cases += [case] if case is not None else []
    reading = CaseReading(cases=tuple(cases), problems=tuple(problems))
    return replace(reading, cases=()) if reading.failed else reading


def _tools(top: Fields) -> dict[str, Facts]:
    """Return what is declared of tools once for all cases of a file, by name."""
    inner = top.inner("tools")
    tools: dict[str, Facts] = {}
    for name in top.value("tools") if inner is not None else ():
        if not TOOL_NAME.fullmatch(name):
            top.problem("tools", f"the tool {shortened(name)}", "the name of a tool")
        elif inner is not None and (said := inner.inner(name)) is not None:
            said.only(TOOL_KEYS, strict=True)
            tools[name] = _declared(said, Facts(tool=name))
    return tools


def _case(
    document: SourceDocument, number: int, tools: Mapping[str, Facts]
) -> tuple[Case | None, list[Problem]]:
    fields = Fields(document, ("cases", number))
    fields.only(CASE_KEYS, strict=True)
    for key in ("name", "call", "expect"):
        fields.required(key)
    name = fields.prose("name", 200)
    fields.prose("description", 1000)
    profile: Any = fields.choice("profile", PROFILE_NAMES) or None
    circumstances = _turn(fields.inner("turn"), Facts(tool="", session="a:b:c:d", turn="turn"))
    facts = _call(fields.inner("call"), circumstances, tools)
    before = _before(document, fields, ("cases", number), circumstances, tools)
    effect, rule, arguments = _expect(fields)
    line = document.places.get(("cases", number))
    found = [
        replace(one, found=f"in case {shortened(name or number + 1)}: {one.found}")
        for one in fields.problems
    ]
    if fields.failed or facts is None:
        return None, found
    return Case(
        name=name,
        facts=replace(facts, index=len([one for one in before if one.facts.turn == facts.turn])),
        effect=effect,
        before=before,
        profile=profile,
        rule=rule,
        arguments=arguments,
        file=document.file,
        line=line.line if line else 0,
    ), found


def _expect(fields: Fields) -> tuple[Any, str, Mapping[str, Any] | None]:
    if isinstance(fields.value("expect"), str):
        return fields.choice("expect", WORDS), "", None
    inner = fields.inner("expect")
    if inner is None:
        return "", "", None
    inner.only(("effect", "rule", "arguments"), strict=True)
    inner.required("effect")
    arguments = inner.value("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        inner.problem("arguments", shortened(arguments), "a mapping of arguments")
    return inner.choice("effect", WORDS), inner.text("rule", RULE), arguments


def _call(fields: Fields | None, turn: Facts, tools: Mapping[str, Facts]) -> Facts | None:
    """Return the facts of a call in the circumstances of `turn`."""
    if fields is None:
        return None
    fields.only(CALL_KEYS, strict=True)
    return _called(fields, turn, tools)


def _called(fields: Fields, turn: Facts, tools: Mapping[str, Facts]) -> Facts:
    fields.required("tool")
    name = fields.text("tool", TOOL_NAME)
    known = tools.get(name, Facts(tool=name))
    arguments = fields.value("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        fields.problem("arguments", shortened(arguments), "a mapping of arguments")
        arguments = None
    declared = _declared(fields, known)
    return replace(
        turn,
        tool=name,
        arguments=arguments or {},
        flags=declared.flags,
        plugin=declared.plugin,
        sandbox=declared.sandbox,
        owner=declared.owner,
    )


def _declared(fields: Fields, known: Facts) -> Facts:
    """Return `known` with what `fields` say of the tool itself."""
    said: dict[str, Any] = {"flags": _flags(fields.inner("flags"), known.flags)}
    if "plugin" in fields:
        said["plugin"] = fields.text("plugin", WORD)
    if "sandbox" in fields:
        said["sandbox"] = fields.choice("sandbox", SANDBOXES)
    if "owner" in fields:
        said["owner"] = fields.choice("owner", ("host", "client"))
    return replace(known, **said)


def _flags(fields: Fields | None, known: Flags) -> Flags:
    """Return flags: those that are named, and of the others what ``others`` or `known` says."""
    if fields is None:
        return known
    fields.only((*FLAG_NAMES, "others"), strict=True)
    values: dict[str, bool | None] = known.to_json()
    if "others" in fields:
        values = dict.fromkeys(FLAG_NAMES, _flag(fields, "others"))
    values |= {name: _flag(fields, name) for name in FLAG_NAMES if name in fields}
    return Flags.from_mapping(values)


def _flag(fields: Fields, name: str) -> bool | None:
    value = fields.value(name)
    if isinstance(value, bool):
        return value
    if value != "unknown":
        fields.problem(name, shortened(value), "true, false or unknown")
    return None


def _turn(fields: Fields | None, turn: Facts) -> Facts:
    """Return `turn` with the circumstances that `fields` name."""
    if fields is None:
        return turn
    fields.only(TURN_KEYS, strict=True)
    said: dict[str, Any] = {
        key: fields.text(key, WORD)
        for key in ("agent", "channel", "account", "peer", "principal")
        if key in fields
    }
    if "provenance" in fields:
        said["provenance"] = fields.choice("provenance", PROVENANCES) or turn.provenance
    taint = frozenset(fields.texts("taint", WORD))
    tainted = fields.truth("tainted")
    if tainted is False and taint:
        fields.problem("tainted", "false beside `taint`", "one of the two")
    if tainted is not None or "taint" in fields:
        said["taint"] = taint or (frozenset({"somebody else"}) if tainted else taint)
    if "nested" in fields:
        said["depth"] = 1 if fields.truth("nested") else 0
    return replace(turn, **said)


def _before(
    document: SourceDocument, fields: Fields, path: KeyPath, turn: Facts, tools: Mapping[str, Facts]
) -> tuple[Happened, ...]:
    listed = fields.value("before")
    if listed is None:
        return ()
    if not isinstance(listed, list):
        fields.problem("before", shortened(listed), "a list of calls")
        return ()
    found: list[Happened] = []
    for number, one in enumerate(listed):
        if not isinstance(one, dict):
            fields.problem("before", shortened(one), "a mapping: one call")
            continue
        inner = Fields(document, (*path, "before", number))
        found += _happened(inner, turn, tools, number, len(listed))
        fields.problems += inner.problems
    return tuple(found)


def _happened(
    fields: Fields, turn: Facts, tools: Mapping[str, Facts], number: int, count: int
) -> Sequence[Happened]:
    fields.only((*CALL_KEYS, "turn", "seconds_ago", "same_turn", "same_session"), strict=True)
    circumstances = _turn(fields.inner("turn"), turn)
    same_session = fields.truth("same_session") is not False
    if fields.truth("same_turn") is False or not same_session:
        circumstances = replace(circumstances, turn=f"turn {number}")
    if not same_session:
        circumstances = replace(circumstances, session=f"another:{number}:x:x")
    ago = seconds_at(fields, "seconds_ago", LONGEST, NO_LONGER_AGO, least=0)
    facts = _called(fields, circumstances, tools)
    # Without a time, the calls of a list lie a second apart.
    at = NOW - (float(count - number) if ago is None else ago)
    return () if fields.failed else (Happened(at=at, facts=facts),)
