"""Replaying: decisions of the audit, judged again under other rules or another profile.

The rows are gone through in the order in which they were written, and what was allowed is
remembered as a gateway would, so that rules about what came before are judged, too. Each start
of a gateway begins with nothing to remember.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from hookgate import Flags, Provenance
from hookgate.builtin_plugins.policy.bench.bench import Bench, Found, session_of
from hookgate.builtin_plugins.policy.judge.engine import Engine
from hookgate.builtin_plugins.policy.judge.facts import Facts, History
from hookgate.builtin_plugins.policy.rules.linting import arguments_of
from hookgate.builtin_plugins.policy.rules.model import Rule
from hookgate.builtin_plugins.policy.settings import RuleEffect
from hookgate.settings import MASK as SECRET

if TYPE_CHECKING:
    from hookgate.builtin_plugins.policy.rules.conditions import Condition

Standing: TypeAlias = Literal["same", "flip", "undecidable"]

EVERYTHING = "*"
"""Stands for the path of each argument, where it is not known which one was masked."""

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
        effect: What policy said of it; "" where policy was not asked, or a tool was quarantined.
        rule: What decided that.
        allowed: Whether the call ran.
        by_policy: Whether policy, or a person whom it asked, was who denied it.
        rewritten: Whether its arguments are others than the model's.
        blind: Whether more than arguments is masked.
    """

    place: str
    chain: str
    at: float
    when: str
    facts: Facts
    effect: RuleEffect | Literal[""]
    rule: str
    allowed: bool
    by_policy: bool = True
    rewritten: bool = False
    blind: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A decision that was judged again.

    Attributes:
        recorded: The decision.
        standing: Whether it stays, flips, or cannot be said.
        found: What follows now, as far as it can be said.
        why: Why it cannot be said, or why it follows.
    """

    recorded: Recorded
    standing: Standing
    found: Found
    why: str = ""


@dataclass(slots=True)
class Replay:
    """What came of a replay.

    Attributes:
        rows: The decisions that were judged again.
        passed_over: Decisions in which policy had no say.
        flips: How many flip, by what they were and what they become.
    """

    rows: list[Replayed] = field(default_factory=list)
    passed_over: int = 0

    @property
    def flips(self) -> dict[str, int]:
        """How many flip: ``allow -> deny`` and so on."""
        return dict(
            Counter(
                f"{one.recorded.effect} -> {one.found.effect}"
                for one in self.rows
                if one.standing == "flip"
            )
        )

    def count(self, standing: Standing) -> int:
        """Return how many decisions stand so."""
        return sum(one.standing == standing for one in self.rows)


# -- reading ---------------------------------------------------------------------------


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


def read_rows(rows: Iterable[Mapping[str, Any]]) -> list[Recorded]:
    """Return the decisions among rows of the audit, in the order in which they were made.

    Raises:
        ValueError: A row is not what the audit writes; it names the row.
    """
    decided = [row for row in rows if row.get("kind") == "tool_decided"]
    found = []
    for row in decided:
        try:
            found.append(_recorded(row))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            place = f"{row.get('chain', '?')}/{row.get('seq', '?')}"
            raise ValueError(
                f"the row {place} is no decision that can be judged again ({error}): expected "
                "what `hookgate audit export` writes"
            ) from error
    order = {id(one): (row["chain"], row["seq"]) for one, row in zip(found, decided, strict=True)}
    return sorted(found, key=lambda one: order[id(one)])


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
        **{key: data[key] for key in _FIELDS},
    )
    allowed = row["outcome"] == "allow"
    judged = verdict is not None and verdict["rule"] != "quarantine"
    others = [one for one in data["verdicts"] if one["plugin"] != "policy"]
    return Recorded(
        place=f"{row['chain']}/{row['seq']}",
        chain=row["chain"],
        at=datetime.fromisoformat(row["at"]).timestamp(),
        when=row["at"],
        facts=facts,
        effect=verdict["effect"] if verdict is not None and judged else "",
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


# -- judging ---------------------------------------------------------------------------


def replay(
    bench: Bench,
    rows: Sequence[Recorded],
    *,
    since: float | None = None,
    limit: int | None = None,
    every: bool = False,
) -> Replay:
    """Judge decisions again.

    Args:
        bench: What they are judged by.
        rows: The decisions, in the order in which they were made.
        since: Decisions before this time, in seconds since 1970, are remembered and not judged.
        limit: So many decisions are judged at most, the newest ones.
        every: Whether the outcomes of all rules are wanted, of those that fail too.
    """
    judged = [one for one in rows if since is None or one.at >= since]
    judged = judged[max(len(judged) - limit, 0) :] if limit is not None else judged
    wanted = {id(one) for one in judged}
    done, doubts = Replay(), _Doubts(bench)
    history, chain = History(), ""
    for one in rows:
        if one.chain != chain:
            history, chain = History(), one.chain
        found = bench.decide(one.facts, history, one.at, every=every)
        doubt = doubts.about(one, found, history)
        if id(one) not in wanted:
            pass
        elif one.effect:
            done.rows.append(_judged(one, found, doubt))
        else:
            done.passed_over += 1
        if one.allowed if doubt else _runs(one, found):
            history.add(one.at, one.facts)
    return done


def _runs(one: Recorded, found: Found) -> bool:
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


def _judged(one: Recorded, found: Found, doubt: str) -> Replayed:
    if doubt:
        return Replayed(recorded=one, standing="undecidable", found=found, why=doubt)
    same = found.effect == one.effect or (
        # What it was before it was rewritten is not on record: now nothing is left to rewrite.
        one.rewritten and {found.effect, one.effect} <= {"allow", "rewrite"}
    )
    standing: Standing = "same" if same else "flip"
    return Replayed(recorded=one, standing=standing, found=found, why=found.why)


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

    def about(self, one: Recorded, found: Found, history: History) -> str:
        """Return why it cannot be said what follows, or ""."""
        if one.blind:
            return "circumstances were masked, because they held a secret"
        facts = one.facts
        if not facts.redacted:
            return ""
        names = tuple(
            rule.name
            for rule in self._bench.engine.rules_of(facts)
            if rule.name in self._by_name and _looks_at(rule, facts.redacted)
        )
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
        return f"masked arguments, at which a rule looks: {', '.join(open_ones)}" * bool(open_ones)

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
        self, names: tuple[str, ...], name: str, sure: Found, facts: Facts, history: History,
        now: float,
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
    conditions = [rule.when] if rule.when else []
    conditions += rule.rewrite.set.values() if rule.rewrite else ()
    return any(_sees(condition, redacted) for condition in conditions)


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
