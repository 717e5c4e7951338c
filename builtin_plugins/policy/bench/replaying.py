"""Replaying: decisions of the audit, judged again under other rules or another profile.

The rows are gone through in the order in which they were written, one by one, and what was
allowed is remembered as a gateway would, so that rules about what came before are judged, too.
Each start of a gateway begins with nothing to remember.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from hookgate import ClientCallFlags, Flags, Provenance
from hookgate.builtin_plugins.policy.bench.bench import Bench, BenchDecision, session_of
from hookgate.builtin_plugins.policy.bench.cases import Coverage
from hookgate.builtin_plugins.policy.judge.engine import Engine
from hookgate.builtin_plugins.policy.judge.facts import LONGEST, Facts, History
from hookgate.builtin_plugins.policy.rules.linting import arguments_of
from hookgate.builtin_plugins.policy.rules.model import Condition, Rule
from hookgate.builtin_plugins.policy.settings import RuleEffect
from hookgate.settings import MASK as SECRET

Standing: TypeAlias = Literal["same", "flip", "undecidable", "passed_over"]

EVERYTHING = "*"
"""Stands for the path of each argument, where it is not known which one was masked."""

DECIDED = "tool_decided"
"""The kind of the rows that can be judged again."""
FINISHED = "tool_finished"
"""The kind of those that say what became of a call, which rules with `unless` ask for."""

MOST_REASONS = 20
"""So many reasons for which something cannot be judged again are counted each by itself."""
OTHERS = "other reasons"

_FIELDS = ("plugin", "sandbox", "owner", "agent", "channel", "account", "peer", "principal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One decision of the audit.

    Attributes:
        place: ``CHAIN/SEQ``.
        chain: The start of the gateway that wrote it.
        at: When, in seconds since 1970.
        when: The same, as it was written.
        facts: The call, as far as it is on record.
        effect: What policy said of it; "" where it had no say.
        rule: What decided that.
        allowed: Whether the call ran.
        call: The call's id.
        silent: Why policy had no say.
        by_policy: Whether policy, or a person whom it asked, was who denied it.
        rewritten: Whether its arguments are others than the model's.
        blind: Whether more than arguments is masked.
        broken: Why it cannot be read.
    """

    place: str
    chain: str
    at: float
    when: str
    facts: Facts
    effect: RuleEffect | Literal[""]
    rule: str
    allowed: bool
    call: str = ""
    silent: str = ""
    by_policy: bool = True
    rewritten: bool = False
    blind: bool = False
    broken: str = ""


class CallEnded(NamedTuple):
    """What became of a call that ran.

    Attributes:
        turn: The turn's id.
        call: The call's id.
        done: Whether it did what it was to do.
    """

    turn: str
    call: str
    done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A decision that was judged again.

    Attributes:
        recorded: The decision.
        standing: Whether it stays, flips, cannot be said, or was not policy's.
        old: What it was: on record, or by the rules that others are held against.
        old_rule: What decided that.
        found: What follows now, as far as it can be said.
        why: Why it cannot be said, or why it follows.
    """

    recorded: Recorded
    standing: Standing
    old: str
    old_rule: str
    found: BenchDecision
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        one, known = self.recorded, self.standing in ("same", "flip")
        return {
            "row": one.place,
            "at": one.when,
            "tool": one.facts.tool,
            "session": one.facts.session,
            "turn": one.facts.turn,
            "call": one.call,
            "standing": self.standing,
            "old": self.old,
            "old_rule": self.old_rule,
            "new": self.found.effect if known else "",
            "new_rule": self.found.rule if known else "",
            "why": self.why,
        }


@dataclass(slots=True)
class Tally:
    """How many decisions stand, flip, or cannot be judged again.

    Attributes:
        standings: How many stand how.
        flips: Those that flip, by what they were and what they become: ``allow -> deny``.
        reasons: Why nothing could be said, or policy had no say, and how often.
    """

    standings: Counter[str] = field(default_factory=Counter)
    flips: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def take(self, one: Replayed) -> None:
        """Count one more."""
        self.standings[one.standing] += 1
        if one.standing == "flip":
            self.flips[f"{one.old} -> {one.found.effect}"] += 1
        elif one.standing != "same":
            self.because(one.why)

    def because(self, why: str) -> None:
        """Count a reason for which something cannot be judged again."""
        known = why in self.reasons or len(self.reasons) < MOST_REASONS
        self.reasons[why if known else OTHERS] += 1

    def to_json(self) -> dict[str, Any]:
        """Return the counts for programs."""
        return {
            "rows": self.standings.total() - self.standings["passed_over"],
            "same": self.standings["same"],
            "flips": dict(self.flips),
            "undecidable": self.standings["undecidable"],
            "passed_over": self.standings["passed_over"],
            "reasons": dict(self.reasons),
        }


# -- reading ---------------------------------------------------------------------------


def asked_since(since: datetime | None) -> str:
    """Return from when on rows are needed: rules look back at what came before."""
    if since is None:
        return ""
    return datetime.fromtimestamp(max(since.timestamp() - LONGEST, 0), UTC).isoformat()


def kind_asked(rules: Iterable[Rule]) -> str:
    """Return of which kind rows are needed; "" for all, where a rule asks what became of calls."""
    return "" if any(rule.unless for rule in rules) else DECIDED


def rows_of_export(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a file that ``hookgate audit export`` wrote.

    Raises:
        ValueError: A line is no row; it names the line.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise ValueError(f"line {number} is no row of an export: expected a JSON object")
        if "heads" not in row:
            yield row


def read_rows(rows: Iterable[Mapping[str, Any]]) -> list[Recorded | CallEnded]:
    """Return decisions and outcomes among rows of the audit, in the order in which they came.

    Raises:
        ValueError: A row is not what the audit writes; it names the row.
    """
    wanted = [(read_row(row), row) for row in rows if row.get("kind") in (DECIDED, FINISHED)]
    return [one for one, _ in sorted(wanted, key=lambda two: (two[1]["chain"], two[1]["seq"]))]


def read_row(row: Mapping[str, Any]) -> Recorded | CallEnded:
    """Return the decision or the outcome of a row of the audit.

    Raises:
        ValueError: It is not what the audit writes; it names the row.
    """
    try:
        if row["kind"] == FINISHED:
            return CallEnded(row["turn"], row["call"], row["outcome"] == "done")
        return _recorded(row)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        place = f"{row.get('chain', '?')}/{row.get('seq', '?')}"
        raise ValueError(
            f"the row {place} is no decision that can be judged again ({error}): expected "
            "what `hookgate audit export` writes"
        ) from error


def unreadable(row: Mapping[str, Any], error: ValueError) -> Recorded:
    """Return what stands for a decision that `read_row` does not take."""
    place, at = f"{row.get('chain', '?')}/{row.get('seq', '?')}", str(row.get("at", ""))
    tool, session, turn = (str(row.get(name, "")) for name in ("tool", "session", "turn"))
    try:
        seconds = datetime.fromisoformat(at).timestamp()
    except ValueError:
        seconds = 0.0
    return Recorded(
        place=place,
        chain=str(row.get("chain", "")),
        at=seconds,
        when=at,
        facts=Facts(tool=tool, session=session, turn=turn),
        effect="",
        rule="",
        allowed=False,
        call=str(row.get("call", "")),
        # The place is told beside it, and rows that are broken in one way are counted together.
        broken=str(error).replace(place, "", 1).replace("  ", " "),
    )


def _recorded(row: Mapping[str, Any]) -> Recorded:
    data = row["data"]
    if isinstance(data, str):
        data = json.loads(data)
    verdict = next((one for one in data["verdicts"] if one["plugin"] == "policy"), None)
    masked = bool(data.get("redacted"))
    arguments = data["arguments"]
    redacted = tuple(data.get("redacted_arguments", ()))
    if masked and SECRET in json.dumps(arguments):
        redacted = (*redacted, EVERYTHING)
    facts = Facts(
        tool=row["tool"],
        arguments=arguments,
        flags=_flags(data),
        session=str(session_of(row["session"])),
        turn=row["turn"],
        provenance=Provenance(data["provenance"]).value,
        taint=frozenset(data["taint"]),
        depth=data["depth"],
        index=data["index"],
        redacted=redacted,
        at=datetime.fromisoformat(row["at"]),
        said=_said(data),
        **{key: data[key] for key in _FIELDS},
    )
    allowed = row["outcome"] == "allow"
    silent = "policy had no say" if verdict is None else ""
    if verdict is not None and verdict["rule"] == "quarantine":
        silent = "the tool was in quarantine"
    judged = not silent
    others = [one for one in data["verdicts"] if one["plugin"] != "policy"]
    return Recorded(
        place=f"{row['chain']}/{row['seq']}",
        chain=row["chain"],
        at=datetime.fromisoformat(row["at"]).timestamp(),
        when=row["at"],
        facts=facts,
        effect=verdict["effect"] if verdict is not None and judged else "",
        silent=silent,
        call=row.get("call", ""),
        rule=verdict["rule"] if verdict is not None else "",
        allowed=allowed,
        by_policy=judged
        and (allowed or (verdict is not None and verdict["effect"] != "allow"))
        and all(one["effect"] == "allow" for one in others),
        rewritten=bool(data["rewritten_by"]),
        blind=masked and any(SECRET in str(value) for value in _circumstances(facts)),
    )


def _circumstances(facts: Facts) -> Iterator[str]:
    yield from (facts.tool, facts.session, *facts.taint)
    yield from (getattr(facts, key) for key in _FIELDS)


def _flags(data: Mapping[str, Any]) -> Flags:
    flags = Flags.from_mapping(data["flags"])
    return replace(flags, proven=frozenset(data.get("proven", ())))


def _said(data: Mapping[str, Any]) -> ClientCallFlags | None:
    """Return what plugins knew of a client's call; the row's flags are those that counted."""
    said = data.get("client_call")
    return None if said is None else ClientCallFlags(flags=_flags(data), **said)


# -- judging ---------------------------------------------------------------------------


class Replay:
    """Judges decisions again, one after the other, in the order in which they were made.

    Attributes:
        coverage: Which rules had a say, and when they had it last.
    """

    def __init__(
        self,
        bench: Bench,
        *,
        old: Bench | None = None,
        since: float | None = None,
        until: float | None = None,
        turn: str = "",
    ) -> None:
        """Judge by `bench`.

        Args:
            bench: What decisions are judged by.
            old: What that is held against; None for what is on record.
            since: Decisions before this time, in seconds since 1970, are remembered alone.
            until: So are those from this time on.
            turn: So are those of other turns than this one; "" judges all.
        """
        self.coverage = Coverage.of(bench.engine.rules)
        self._new = _Course(bench)
        self._old = None if old is None else _Course(old)
        self._since = float("-inf") if since is None else since
        self._until = float("inf") if until is None else until
        self._turn = turn

    def take(self, one: Recorded | CallEnded) -> Replayed | None:
        """Return what becomes of a decision; None for what is remembered alone."""
        if isinstance(one, CallEnded):
            for course in (self._new, self._old):
                if course is not None:
                    course.history.finished(one.turn, one.call, done=one.done)
            return None
        found, doubt = self._new.judge(one)
        old, old_rule, old_doubt = str(one.effect), one.rule, ""
        if self._old is not None:
            before, old_doubt = self._old.judge(one)
            old, old_rule = before.effect, before.rule
        if not self._since <= one.at < self._until or self._turn not in ("", one.facts.turn):
            return None
        standing: Standing
        if one.broken:
            standing, why = "undecidable", one.broken
        elif not one.effect:
            standing, why = "passed_over", one.silent
        elif doubt or old_doubt:
            standing, why = "undecidable", doubt or old_doubt
        else:
            self.coverage.take(found, one.when)
            same = found.effect == old or (
                # What it was before it was rewritten is not on record: nothing is left to rewrite.
                self._old is None and one.rewritten and {found.effect, old} <= {"allow", "rewrite"}
            )
            standing, why = "same" if same else "flip", found.why
        return Replayed(
            recorded=one, standing=standing, old=old, old_rule=old_rule, found=found, why=why
        )

    def each(self, rows: Iterable[Recorded | CallEnded]) -> Iterator[Replayed]:
        """Yield what becomes of the decisions that are judged."""
        return (found for one in rows if (found := self.take(one)) is not None)


class _Course:
    """One set of rules on its way through the record.

    Attributes:
        history: What it would have let run.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._doubts = _Doubts(bench)
        self.history, self._chain = History(), ""

    def judge(self, one: Recorded) -> tuple[BenchDecision, str]:
        """Return what follows, and why that cannot be said, if so."""
        if one.chain != self._chain:
            self.history, self._chain = History(), one.chain
        found = self._bench.decide(one.facts, self.history, one.at)
        doubt = self._doubts.about(one, found, self.history)
        if one.allowed if doubt else _runs(one, found):
            # What runs now alone has no outcome on record: it counts as done.
            self.history.add(one.at, one.facts, call=one.call if one.allowed else "")
        return found, doubt


def _runs(one: Recorded, found: BenchDecision) -> bool:
    """Whether a call runs, as far as that can be said.

    What is asked is answered as it was. What policy alone denied runs where it is allowed now.
    """
    if not one.effect:
        return one.allowed
    if found.effect == "deny":
        return False
    if found.effect == "ask" or not one.by_policy:
        return one.allowed
    return True


class _Doubts:
    """Says where masks leave open what follows.

    A rule that looks at what is masked may hold, or not, or be undecided. Where, with all the
    others as they are, one of that changes what follows, nothing can be said. The strictest rule
    counts, so that it is enough to look at each of them alone.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._by_name = {rule.name: rule for rule in bench.engine.rules if rule.mode == "enforce"}
        # Made once for each set of rules and each effect: there are few, and many rows.
        self._benches: dict[tuple[tuple[str, ...], str], Bench] = {}
        self._engines: dict[str, Engine] = {}

    def about(self, one: Recorded, found: BenchDecision, history: History) -> str:
        """Return why it cannot be said what follows, or ""."""
        if one.blind:
            return "circumstances were masked, because they held a secret"
        facts = one.facts
        if not (facts.redacted or self._bench.engine.budgets):
            return ""
        looking = [
            rule
            for rule in self._bench.engine.rules_of(facts)
            if rule.name in self._by_name
            and (rule.budgets or (facts.redacted and _looks_at(rule, facts.redacted)))
        ]
        names = tuple(rule.name for rule in looking)
        names = tuple(name for name in names if self._effects(name, facts, history, one.at))
        if not names:
            return ""
        sure = self._without(names).decide(facts, history, one.at)
        open_ones = [
            name
            for name in names
            if found.rewritten
            or sure.rewritten
            or self._could_change(names, name, sure, facts, history, one.at)
        ]
        if not open_ones:
            return ""
        what = (
            "what was left of a budget"
            if any(rule.budgets for rule in looking if rule.name in open_ones)
            else "masked arguments"
        )
        return f"{what}, at which a rule looks: {', '.join(open_ones)}"

    def _effects(self, name: str, facts: Facts, history: History, now: float) -> set[str]:
        """Return what a rule may come to, whatever stands behind the masks."""
        rule = self._by_name[name]
        if name not in self._engines:
            self._engines[name] = Engine([replace(rule, when=None, rewrite=None, effect="deny")])
        looked = self._engines[name].judge(facts, history, now)
        if looked.decisive is None:
            return set()
        if looked.decisive.state == "unknown":
            return {rule.undecided} if rule.undecided else set()
        if rule.effect == "rewrite":
            return {"rewrite", "deny"}  # deny, where its values cannot be made
        return {rule.effect, rule.undecided or rule.effect}

    def _could_change(
        self, names: tuple[str, ...], name: str, sure: BenchDecision, facts: Facts,
        history: History, now: float,
    ) -> bool:  # fmt: skip
        for effect in self._effects(name, facts, history, now):
            if effect == "rewrite" and sure.effect in ("allow", "rewrite"):
                return True
            # What is rewritten runs, as what is allowed.
            bench = self._without(names, "allow" if effect == "rewrite" else effect)
            if bench.decide(facts, history, now).effect != sure.effect:
                return True
        return False

    def _without(self, names: tuple[str, ...], effect: str = "") -> Bench:
        """Return a bench without the rules `names`, and with one of `effect` about everything."""
        key = (names, effect)
        if key not in self._benches:
            rules = [one for one in self._bench.engine.rules if one.name not in names]
            if effect:
                rules.append(Rule(name="what is masked", effect=cast("RuleEffect", effect)))
            self._benches[key] = Bench(self._bench.settings, rules)
        return self._benches[key]


def _looks_at(rule: Rule, redacted: Sequence[str]) -> bool:
    return any(_sees(condition, redacted) for condition in rule.conditions)


def _sees(condition: Condition, redacted: Sequence[str]) -> bool:
    """Whether a condition may look at one of the arguments of `redacted`."""
    names = arguments_of(condition, texts=True)
    if names is None:
        return True
    return any(
        path in (EVERYTHING, name) or path.startswith((f"{name}.", f"{name}["))
        for path in redacted
        for name in names
    )
