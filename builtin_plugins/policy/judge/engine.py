"""Judging facts by rules: which ones hold, which cannot be decided, and what follows.

Of all rules that hold, the strictest counts, whatever their order. A rule that allows counts
where no other one denies or asks; it then stands above the profile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from hookgate import Flags, ToolCall
from hookgate.builtin_plugins.policy.judge.facts import EarlierCalls, Facts, History, same_scope
from hookgate.builtin_plugins.policy.rules.model import (
    After,
    Condition,
    ConditionError,
    MoreThan,
    Rule,
    Variables,
)
from hookgate.builtin_plugins.policy.rules.profiles import said
from hookgate.builtin_plugins.policy.settings import RuleEffect
from hookgate.wire import canonical

State: TypeAlias = Literal["holds", "unknown", "fails"]

STRICTNESS: Mapping[str, int] = {word: place for place, word in enumerate(get_args(RuleEffect))}
"""The strictest effect counts."""

TOGETHER = 12
"""So many conditions are looked at together first: most of the time none of them holds, and one
look costs half of what it costs to ask Python for it."""

MEMO = 1024
"""Tools, with their flags, for which the rules that can apply are remembered; and as many times
`PLANS` of them in their circumstances."""

PLANS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOutcome:
    """What one rule says of one call.

    Attributes:
        rule: The rule.
        state: Whether it holds, cannot be decided, or does not hold.
        why: Which part decided that, for people.
        effect: What follows; None where it does not hold.
    """

    rule: Rule
    state: State
    why: str
    effect: RuleEffect | None = None


UNDECLARED = "a flag that it looks at is not declared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What all rules say of one call.

    Attributes:
        decisive: The outcome that counts; None where no rule has a say.
        shadow: Outcomes of rules in shadow mode that would have had a say.
        outcomes: All outcomes that were looked at, those that fail too where they were asked for.
        arguments: New arguments, where a rule rewrites them.
    """

    decisive: RuleOutcome | None = None
    shadow: tuple[RuleOutcome, ...] = ()
    outcomes: tuple[RuleOutcome, ...] = ()
    arguments: Mapping[str, Any] | None = None

    @property
    def effect(self) -> RuleEffect | None:
        """What follows; None where no rule has a say."""
        return self.decisive.effect if self.decisive else None

    @property
    def approvers(self) -> tuple[tuple[str, ...], ...]:
        """The lists of all rules that ask, not of the decisive one alone: all of them count."""
        asking = (
            one.rule
            for one in self.outcomes
            if one.effect == "ask" and one.rule.mode == "enforce" and one.rule.approvers
        )
        return tuple(dict.fromkeys(rule.approvers for rule in asking))


_NOTHING = Judgement()


class Engine:
    """Rules, made ready.

    Attributes:
        rules: The rules.
        version: SHA-256 (hex) of what they say.
        budgets: Whether any asks about a budget.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self.version = hashlib.sha256(canonical([said(rule) for rule in rules])).hexdigest()
        self.budgets = any(rule.budgets for rule in rules)
        self._ready = tuple(_ready(rule) for rule in rules)
        self._memo: dict[tuple[Any, ...], tuple[_Group, ...]] = {}
        self._plans: dict[tuple[Any, ...], _Plan] = {}

    def judge(
        self, facts: Facts, history: History, now: float, *, every: bool = False
    ) -> Judgement:
        """Return what the rules say of a call.

        Args:
            facts: The call.
            history: The calls that were allowed before.
            now: The time, in seconds of the history's clock.
            every: Whether rules that do not hold are reported as well.
        """
        if not every and (plan := self._plan(facts)).judgement is not None:
            return plan.judgement
        variables = Variables(facts.for_conditions)
        look = _Looker(facts, variables, history, now)
        outcomes = look.at_every(self._ready) if every else look.at(plan.groups)
        judgement = _concluded(outcomes)
        if judgement.effect != "rewrite":
            return judgement
        enforced = [one for one in outcomes if one.effect and one.rule.mode == "enforce"]
        decisive, arguments = _rewritten(enforced, facts, variables)
        return replace(judgement, decisive=decisive, arguments=arguments)

    def concerns(
        self, tool: str, plugin: str, sandbox: str, flags: Flags, owner: str = "host"
    ) -> bool:
        """Whether any rule can apply to this tool, whatever the circumstances."""
        return bool(self._groups(tool, plugin, sandbox, flags, owner))

    def budgets_of(self, call: ToolCall) -> frozenset[str]:
        """Return the budgets that rules about a tool ask about."""
        if not self.budgets:
            return frozenset()
        tool = call.tool
        groups = self._groups(tool.name, tool.plugin, tool.sandbox, call.flags, tool.owner)
        rules = (able.ready.rule for group in groups for able in group.rules)
        return frozenset[str]().union(*(rule.budgets for rule in rules))

    def rules_of(self, facts: Facts) -> tuple[Rule, ...]:
        """Return the rules that can apply to this tool, whatever the circumstances."""
        return tuple(able.ready.rule for group in self._groups_of(facts) for able in group.rules)

    def _groups_of(self, facts: Facts) -> tuple[_Group, ...]:
        return self._groups(facts.tool, facts.plugin, facts.sandbox, facts.flags, facts.owner)

    def _groups(
        self, tool: str, plugin: str, sandbox: str, flags: Flags, owner: str
    ) -> tuple[_Group, ...]:
        key = (tool, plugin, sandbox, owner, flags)
        known = self._memo.get(key)
        if known is None:
            if len(self._memo) >= MEMO:
                self._memo.clear()
            facts = Facts(tool=tool, plugin=plugin, sandbox=sandbox, owner=owner, flags=flags)
            known = self._memo[key] = tuple(_grouped(self._ready, facts))
        return known

    def _plan(self, facts: Facts) -> _Plan:
        """Return what is left to look at, once tool and circumstances are known."""
        key = (
            facts.tool,
            facts.plugin,
            facts.sandbox,
            facts.owner,
            facts.flags,
            facts.agent,
            facts.channel,
            facts.account,
            facts.peer,
            facts.principal,
            facts.provenance,
            facts.taint,
            facts.depth > 0,
        )
        known = self._plans.get(key)
        if known is None:
            if len(self._plans) >= MEMO * PLANS:
                self._plans.clear()
            known = self._plans[key] = _planned(self._groups_of(facts), facts)
        return known


@dataclass(frozen=True, slots=True)
class _Ready:
    """A rule, made ready.

    Attributes:
        rule: The rule.
        checks: The parts of its match that look at circumstances.
        before: The calls one of which must have come before.
        counted: The calls of which there must have been so many.
        unless: The calls none of which may have come before.
        without: The calls that it is not about.
    """

    rule: Rule
    checks: tuple[Callable[[Facts], bool], ...]
    before: EarlierCalls | None
    counted: EarlierCalls | None
    unless: EarlierCalls | None
    without: EarlierCalls | None

    def fits(self, facts: Facts) -> bool:
        """Whether it is about such circumstances."""
        return all(check(facts) for check in self.checks)


def _ready(rule: Rule) -> _Ready:
    after, more, unless = rule.after, rule.more_than, rule.unless
    return _Ready(
        rule=rule,
        checks=rule.match.checks(),
        before=None if after is None else EarlierCalls(after.match),
        counted=None if more is None else EarlierCalls(more.match or rule.match),
        unless=None if unless is None else EarlierCalls(unless.after.match),
        without=None if rule.not_ is None else EarlierCalls(rule.not_),
    )


@dataclass(frozen=True, slots=True)
class _Able:
    """A rule that can apply to a tool.

    Attributes:
        ready: The rule.
        of_tool: Whether what it says of the tool holds; None where that cannot be said.
        settled: What it says in circumstances that fit, where nothing else matters to it.
    """

    ready: _Ready
    of_tool: bool | None
    settled: RuleOutcome | None


@dataclass(frozen=True, slots=True)
class _Group:
    """Rules that can apply to a tool.

    Attributes:
        rules: The rules.
        any_holds: Holds where any of their conditions does; false, it spares looking at each.
    """

    rules: tuple[_Able, ...]
    any_holds: Condition | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is left to look at for calls of one tool in the same circumstances.

    Attributes:
        groups: The rules that may have a say.
        judgement: What they say, where arguments and earlier calls do not matter.
    """

    groups: tuple[_Group, ...]
    judgement: Judgement | None = None


def _planned(groups: Iterable[_Group], facts: Facts) -> _Plan:
    left: list[_Group] = []
    for group in groups:
        rules = tuple(able for able in group.rules if able.ready.fits(facts))
        # Where most rules are out, looking at all conditions together spares nothing.
        together = 2 * len(rules) > len(group.rules)
        if rules:
            left.append(_Group(rules, group.any_holds if together else None))
    settled = [able.settled for group in left for able in group.rules]
    known = [outcome for outcome in settled if outcome is not None]
    if len(known) < len(settled):
        return _Plan(tuple(left))
    judgement = _concluded(known)
    return _Plan(tuple(left), judgement if judgement.effect != "rewrite" else None)


def _settled(rule: Rule, of_tool: bool | None) -> RuleOutcome | None:
    """Return what a rule says whose match is all there is to it; None for other rules."""
    if (rule.when, rule.after, rule.more_than, rule.not_, rule.unless) != (None,) * 5:
        return None
    return _outcome(rule, "" if of_tool else UNDECLARED)


def _concluded(outcomes: Sequence[RuleOutcome]) -> Judgement:
    """Return what follows from outcomes; of a rewrite, without the new arguments."""
    if not outcomes:
        return _NOTHING
    effective = [one for one in outcomes if one.effect is not None]
    enforced = [one for one in effective if one.rule.mode == "enforce"]
    shadow = tuple(one for one in effective if one.rule.mode == "shadow")
    # max() keeps the first of equals: the order of rules is the order of reasons.
    decisive = max(enforced, key=lambda one: STRICTNESS[one.effect or ""], default=None)
    return Judgement(decisive=decisive, shadow=shadow, outcomes=tuple(outcomes))


def _grouped(rules: Iterable[_Ready], facts: Facts) -> Iterable[_Group]:
    """Yield the rules that can apply: those without a condition, then the others by the dozen."""
    able = [
        _Able(ready, of_tool, _settled(ready.rule, of_tool))
        for ready in rules
        if (of_tool := ready.rule.match.of_tool(facts)) is not False
    ]
    plain = tuple(one for one in able if one.ready.rule.when is None)
    if plain:
        yield _Group(plain)
    conditional = [one for one in able if one.ready.rule.when is not None]
    for start in range(0, len(conditional), TOGETHER):
        part = tuple(conditional[start : start + TOGETHER])
        texts = [one.ready.rule.when.text for one in part if one.ready.rule.when]
        joined = " || ".join(f"({text})" for text in texts)
        # CEL's || is true where one side is, whatever the other one cannot say.
        yield _Group(part, Condition(joined, limit=None) if len(part) > 1 else None)


@dataclass(frozen=True, slots=True)
class _Looker:
    """Looks at what rules say of one call."""

    facts: Facts
    variables: Variables
    history: History
    now: float

    def at(self, groups: Iterable[_Group]) -> list[RuleOutcome]:
        """Return the outcomes of rules whose match holds, or may; those that fail are left out."""
        outcomes: list[RuleOutcome] = []
        for group in groups:
            if group.any_holds is not None and group.any_holds.holds(self.variables) is False:
                continue  # none of their conditions holds
            for able in group.rules:
                found = able.settled or self._look(able.ready, able.of_tool)
                if not isinstance(found, str):
                    outcomes.append(found)
        return outcomes

    def at_every(self, rules: Iterable[_Ready]) -> list[RuleOutcome]:
        """Return the outcomes of all rules, with why the others fail."""
        outcomes: list[RuleOutcome] = []
        for ready in rules:
            found: RuleOutcome | str = "it is about other circumstances"
            of_tool = ready.rule.match.of_tool(self.facts)
            if of_tool is False:
                found = "it is about other tools"
            elif ready.fits(self.facts):
                found = self._look(ready, of_tool)
            if isinstance(found, str):
                found = RuleOutcome(rule=ready.rule, state="fails", why=found)
            outcomes.append(found)
        return outcomes

    def _look(self, ready: _Ready, of_tool: bool | None) -> RuleOutcome | str:
        """Return what a rule says whose match may hold, or why it fails.

        By Kleene's logic, one part that fails is enough for that.
        """
        rule = ready.rule
        if rule.after is not None and ready.before is not None:
            earlier = self._earlier(ready.before, rule.after)
            if not any(True for _ in earlier):
                return "no such call came before"
        more = rule.more_than
        if more is not None and ready.counted and not self._more(ready.counted, more):
            return "there were not so many calls"
        unknown = "" if of_tool else UNDECLARED
        if ready.without is not None and ready.without.may_have(self.facts):
            if ready.without.was(self.facts):
                return "it leaves such calls out"
            unknown = UNDECLARED
        if rule.unless is not None and ready.unless is not None:
            earlier = self._earlier(ready.unless, rule.unless.after, sure=rule.tightens)
            if any(True for _ in earlier):
                return "the call came before that it waits for"
        if rule.when is not None:
            held = rule.when.holds(self.variables)
            if held is False:
                return "its condition does not hold"
            if held is not True:
                unknown = f"its condition cannot be decided: {held}"
        return _outcome(rule, unknown)

    def _earlier(
        self, kind: EarlierCalls, part: After | MoreThan, *, sure: bool = False
    ) -> Iterator[Facts]:
        """Yield the earlier calls of a kind: those that may be such, or are `sure` and done."""
        facts, scope = self.facts, part.scope
        start = float("-inf") if part.within is None else self.now - part.within
        session = facts.session if scope == "session" else None
        turn = facts.turn if scope == "turn" else None
        of_kind = kind.was if sure else kind.may_have
        for earlier in self.history.since(start, session, turn, done=sure):
            if same_scope(scope, earlier, facts) and of_kind(earlier):
                yield earlier

    def _more(self, kind: EarlierCalls, more: MoreThan) -> bool:
        left = more.calls
        for _ in self._earlier(kind, more):
            left -= 1
            if left < 0:
                return True
        # This call is one of them, if it is of their kind.
        return left < 1 and (more.match is None or kind.may_have(self.facts))


def _outcome(rule: Rule, unknown: str) -> RuleOutcome:
    """Return what follows where a rule holds, or cannot be decided for the reason `unknown`."""
    if not unknown:
        return RuleOutcome(
            rule=rule, state="holds", why="all of its parts hold", effect=rule.effect
        )
    return RuleOutcome(rule=rule, state="unknown", why=unknown, effect=rule.undecided)


def _rewritten(
    outcomes: Sequence[RuleOutcome], facts: Facts, variables: Variables
) -> tuple[RuleOutcome, Mapping[str, Any] | None]:
    """Return the first rewrite that changes something, with its arguments.

    A rule whose values cannot be made denies: the call must not run as it was.
    """
    first: RuleOutcome | None = None
    for outcome in outcomes:
        rewrite = outcome.rule.rewrite
        if outcome.effect != "rewrite" or rewrite is None:
            continue
        first = first or outcome
        arguments = {
            name: value for name, value in facts.arguments.items() if name not in rewrite.remove
        }
        try:
            for name, condition in rewrite.set.items():
                arguments[name] = condition.value(variables)
        except ConditionError as error:
            why = f"the arguments that it sets cannot be made: {error}"
            return RuleOutcome(rule=outcome.rule, state="unknown", why=why, effect="deny"), None
        if arguments != dict(facts.arguments):
            return outcome, arguments
    assert first is not None, "a rewrite was decisive"
    return first, None
