"""Cases: calls that somebody wrote down, with what should become of them.

They stand beside the rules, in ``NAME.test.yaml``, and are judged as a gateway would judge them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, PlainValidator

from hookgate import FLAG_NAMES, Flags
from hookgate.builtin_plugins.policy.bench.bench import NOW, Bench, BenchDecision, recorded
from hookgate.builtin_plugins.policy.judge.facts import LONGEST, Facts, Happened, History
from hookgate.builtin_plugins.policy.rules.files import (
    SUFFIXES,
    TEST_SUFFIX,
    files_of,
    read_files,
    told_of,
)
from hookgate.builtin_plugins.policy.rules.model import NO_LONGER_AGO, Came, Sandbox, lasting
from hookgate.builtin_plugins.policy.settings import ProfileName, RuleEffect
from hookgate.kit.content.documents import (
    DocumentModel,
    DocumentReading,
    Snake,
    many,
    matching,
    once,
    prose,
    read_text_as,
)

MAX_CASES = 2000

BudgetUnit: TypeAlias = Literal["left", "usd", "tokens", "requests", "parallel"]


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
    effect: RuleEffect
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
class TriedCase:
    """What became of a case.

    Attributes:
        case: The case.
        found: What followed.
        wrong: What is other than expected; empty where it passed.
    """

    case: Case
    found: BenchDecision
    wrong: tuple[str, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether all is as it should be."""
        return not self.wrong


# -- judging ---------------------------------------------------------------------------


def run_case(bench: Bench, case: Case, *, every: bool = False) -> TriedCase:
    """Judge a case and hold what follows against what should."""
    history = History()
    for happened in sorted(case.before, key=lambda one: one.at):
        history.add(happened.at, recorded(happened.facts), done=happened.done)
    found = bench.under(case.profile).decide(case.facts, history, NOW, every=every)
    wrong = []
    if found.effect != case.effect:
        wrong.append(f"expected {case.effect}, found {found.effect}")
    if case.rule and found.rule not in (case.rule, f"rule:{case.rule}"):
        wrong.append(f"expected the rule {case.rule}, found {found.rule}")
    if case.arguments is not None and dict(found.arguments) != dict(case.arguments):
        wrong.append(f"expected the arguments {dict(case.arguments)}, found {found.arguments}")
    return TriedCase(case=case, found=found, wrong=tuple(wrong))


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


def read_cases(files: Iterable[Path]) -> DocumentReading[Case]:
    """Read files of cases. It blocks, and never raises."""
    return read_files(files, read_text_of_cases)


def read_text_of_cases(text: str, file: str) -> DocumentReading[Case]:
    """Read the cases in `text`. It never raises."""
    reading = read_text_as(CaseFile, text, file)
    cases: list[Case] = []
    if reading.document is not None and reading.found:
        whole = reading.found[0]
        for number, one in enumerate(whole.cases):
            line = reading.document.position(("cases", number)).line
            cases.append(replace(one.case(whole.tools), file=file, line=line))
    problems = tuple(told_of(reading, "case", reading.problems))
    return DocumentReading(found=tuple(cases), problems=problems)


# -- what they say ---------------------------------------------------------------------


def _flag(value: Any) -> bool | None:
    if not isinstance(value, bool) and value != "unknown":
        raise ValueError("expected true, false or unknown")
    return value if isinstance(value, bool) else None


WordText = Annotated[str, matching(r"[\x21-\x7e]{1,128}", "a word of at most 128 characters")]
ToolText = Annotated[str, matching(r"[A-Za-z0-9_-]{1,64}", "the name of a tool")]
CaseFlag = Annotated[Literal[(*FLAG_NAMES, "others")], Snake]  # type: ignore[valid-type]
FlagText = Annotated[bool | None, PlainValidator(_flag)]


class Declared(DocumentModel):
    """What is declared of a tool; what is not said is as it is known."""

    flags: Annotated[Mapping[CaseFlag, FlagText], once] = Field(default_factory=dict)
    plugin: WordText | None = None
    sandbox: Sandbox | None = None
    owner: Literal["host", "client"] | None = None

    def declared(self, known: Facts) -> Facts:
        """Return `known` with what is said of the tool itself."""
        flags: dict[str, bool | None] = known.flags.to_json()
        if "others" in self.flags:
            flags = dict.fromkeys(FLAG_NAMES, self.flags["others"])
        flags |= {name: value for name, value in self.flags.items() if name != "others"}
        said = self.model_dump(include={"plugin", "sandbox", "owner"}, exclude_none=True)
        return replace(known, flags=Flags.from_mapping(flags), **said)


class CaseCall(Declared):
    """A call."""

    tool: ToolText
    arguments: dict[str, Any] = Field(default_factory=dict)

    def facts(self, turn: Facts, tools: Mapping[str, Declared]) -> Facts:
        """Return the facts of the call in the circumstances of `turn`."""
        known = Facts(tool=self.tool)
        if self.tool in tools:
            known = tools[self.tool].declared(known)
        known = self.declared(known)
        return replace(
            turn,
            tool=self.tool,
            arguments=self.arguments,
            flags=known.flags,
            plugin=known.plugin,
            sandbox=known.sandbox,
            owner=known.owner,
        )


def _tainted(turn: CaseTurn) -> CaseTurn:
    if turn.tainted is False and turn.taint:
        raise ValueError("tainted is false beside `taint`, expected one of the two")
    return turn


class CaseTurn(DocumentModel):
    """The turn in which a call would run; what is not said is as usual."""

    provenance: Annotated[Came, Snake] | None = None
    tainted: bool | None = None
    taint: Annotated[tuple[WordText, ...], many] | None = None
    agent: WordText | None = None
    channel: WordText | None = None
    account: WordText | None = None
    peer: WordText | None = None
    principal: WordText | None = None
    nested: bool | None = None

    def of(self, turn: Facts) -> Facts:
        """Return `turn` in these circumstances."""
        said = self.model_dump(exclude={"tainted", "taint", "nested"}, exclude_none=True)
        if self.tainted is not None or self.taint is not None:
            somebody = frozenset({"somebody else"}) if self.tainted else frozenset()
            said["taint"] = frozenset(self.taint or ()) or somebody
        if self.nested is not None:
            said["depth"] = int(self.nested)
        return replace(turn, **said)


TurnText = Annotated[CaseTurn, AfterValidator(_tainted)]


class Earlier(CaseCall):
    """A call that was allowed before."""

    turn: TurnText = CaseTurn()
    seconds_ago: Annotated[float, lasting(LONGEST, NO_LONGER_AGO, 0)] | None = None
    failed: bool = False
    same_turn: bool = True
    same_session: bool = True

    def happened(
        self, turn: Facts, tools: Mapping[str, Declared], number: int, count: int
    ) -> Happened:
        """Return it as number `number` of `count`."""
        turn = self.turn.of(turn)
        if not (self.same_turn and self.same_session):
            turn = replace(turn, turn=f"turn {number}")
        if not self.same_session:
            turn = replace(turn, session=f"another:{number}:x:x")
        # Without a time, the calls of a list lie a second apart.
        ago = float(count - number) if self.seconds_ago is None else self.seconds_ago
        return Happened(at=NOW - ago, facts=self.facts(turn, tools), done=not self.failed)


class Expectation(DocumentModel):
    """What should follow."""

    effect: RuleEffect
    rule: Annotated[str, matching(r"[\x21-\x7e]{1,200}", "the name of a rule")] = ""
    arguments: dict[str, Any] | None = None


class CaseText(DocumentModel):
    """A case as it is written."""

    name: Annotated[str, prose(200)]
    description: Annotated[str, prose(1000)] = ""
    profile: ProfileName | None = None
    call: CaseCall
    turn: TurnText = CaseTurn()
    now: datetime | None = None
    budgets: Mapping[WordText, Mapping[BudgetUnit, Annotated[float, Field(ge=0)]]] = Field(
        default_factory=dict
    )
    before: tuple[Earlier, ...] = ()
    expect: Expectation | RuleEffect

    def case(self, tools: Mapping[str, Declared]) -> Case:
        """Return the case, of a file that declares these tools."""
        turn = self.turn.of(Facts(tool="", session="a:b:c:d", turn="turn", at=self.now))
        turn = replace(
            turn, budgets={one: dict(left.items()) for one, left in self.budgets.items()}
        )
        before = tuple(
            one.happened(turn, tools, number, len(self.before))
            for number, one in enumerate(self.before)
        )
        facts = self.call.facts(turn, tools)
        expect = self.expect
        if not isinstance(expect, Expectation):
            expect = Expectation(effect=expect)
        return Case(
            name=self.name,
            facts=replace(facts, index=sum(one.facts.turn == facts.turn for one in before)),
            effect=expect.effect,
            before=before,
            profile=self.profile,
            rule=expect.rule,
            arguments=expect.arguments,
        )


class CaseFile(DocumentModel):
    """What a file of cases says."""

    version: Literal[1] = 1
    description: Any = None
    tools: Mapping[ToolText, Declared] = Field(default_factory=dict)
    cases: tuple[CaseText, ...] = Field(max_length=MAX_CASES)
