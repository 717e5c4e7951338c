"""Judging facts by rules: which ones hold, which cannot be decided, and what follows.

Of all rules that hold, the strictest counts, whatever their order. A rule that allows counts
where no other one denies or asks; it then stands above the profile.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hookgate.builtin_plugins.policy.conditions import Condition, ConditionError, Variables
from hookgate.core.strict_json import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hookgate.builtin_plugins.policy.facts import Facts, History
    from hookgate.builtin_plugins.policy.rules import (
        After,
        Match,
        MoreThan,
        Rule,
        RuleEffect,
        Scope,
    )

__all__ = ["STRICTNESS", "Engine", "Judgement", "Outcome", "said"]

State: TypeAlias = Literal["holds", "unknown", "fails"]

STRICTNESS: Mapping[str, int] = {"allow": 0, "rewrite": 1, "ask": 2, "deny": 3}
"""The strictest effect counts."""

TOGETHER = 12
"""So many conditions are looked at together first: most of the time none of them holds, and one
look costs half of what it costs to ask Python for it."""

MEMO = 1024
"""Tools, with their flags, for which the rules that can apply are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What all rules say of one call.

    Attributes:
        decisive: The outcome that counts; None where no rule has a say.
        shadow: Outcomes of rules in shadow mode that would have had a say.
        outcomes: All outcomes that were looked at, those that fail too where they were asked for.
        arguments: New arguments, where a rule rewrites them.
    """

    decisive: Outcome | None = None
    shadow: tuple[Outcome, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    arguments: Mapping[str, Any] | None = None

    @property
    def effect(self) -> RuleEffect | None:
        """What follows; None where no rule has a say."""
        return self.decisive.effect if self.decisive else None


class Engine:
    """Rules, made ready.

    Attributes:
        rules: The rules.
        version: SHA-256 (hex) of what they say.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self.version = hashlib.sha256(canonical([said(rule) for rule in rules])).hexdigest()
        self._ready = tuple(_Ready(rule, rule.match.checks()) for rule in rules)
        self._memo: dict[tuple[Any, ...], tuple[_Group, ...]] = {}

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
        variables = Variables(facts.for_conditions)
        outcomes: list[Outcome] = []
        for group in (self._every(facts),) if every else self._groups(facts):
            if group.any_holds is not None and group.any_holds.holds(variables) is False:
                continue  # none of their conditions holds
            for ready, of_tool in group.rules:
                found = _look(ready, of_tool, facts, variables, history, now)
                if not isinstance(found, str):
                    outcomes.append(found)
                elif every:
                    outcomes.append(Outcome(rule=ready.rule, state="fails", why=found))
        saying = [one for one in outcomes if one.effect is not None]
        enforced = [one for one in saying if one.rule.mode == "enforce"]
        shadow = tuple(one for one in saying if one.rule.mode == "shadow")
        # max() keeps the first of equals: the order of rules is the order of reasons.
        decisive = max(enforced, key=lambda one: STRICTNESS[one.effect or ""], default=None)
        arguments = None
        if decisive is not None and decisive.effect == "rewrite":
            decisive, arguments = _rewritten(enforced, facts, variables)
        return Judgement(
            decisive=decisive, shadow=shadow, outcomes=tuple(outcomes), arguments=arguments
        )

    def rules_of(self, facts: Facts) -> tuple[Rule, ...]:
        """Return the rules that can apply to this tool, whatever the circumstances."""
        return tuple(ready.rule for group in self._groups(facts) for ready, _ in group.rules)

    def _every(self, facts: Facts) -> _Group:
        return _Group(tuple((ready, ready.rule.match.of_tool(facts)) for ready in self._ready))

    def _groups(self, facts: Facts) -> tuple[_Group, ...]:
        key = (facts.tool, facts.plugin, facts.sandbox, facts.flags)
        known = self._memo.get(key)
        if known is None:
            if len(self._memo) >= MEMO:
                self._memo.clear()
            known = self._memo[key] = tuple(_grouped(self._every(facts).rules))
        return known


@dataclass(frozen=True, slots=True)
class _Ready:
    """A rule, and the parts of its match that look at circumstances."""

    rule: Rule
    checks: tuple[Callable[[Facts], bool], ...]


@dataclass(frozen=True, slots=True)
class _Group:
    """Rules that can apply to a tool, each with whether what it says of the tool holds.

    Attributes:
        rules: The rules.
        any_holds: Holds where any of their conditions does; false, it spares looking at each.
    """

    rules: tuple[tuple[_Ready, bool | None], ...]
    any_holds: Condition | None = None


def _grouped(rules: Iterable[tuple[_Ready, bool | None]]) -> Iterable[_Group]:
    """Yield the rules that can apply: those without a condition, then the others by the dozen."""
    able = [(ready, held) for ready, held in rules if held is not False]
    plain = tuple(one for one in able if one[0].rule.when is None)
    if plain:
        yield _Group(plain)
    conditional = [one for one in able if one[0].rule.when is not None]
    for start in range(0, len(conditional), TOGETHER):
        part = tuple(conditional[start : start + TOGETHER])
        texts = [ready.rule.when.text for ready, _ in part if ready.rule.when]
        joined = " || ".join(f"({text})" for text in texts)
        # CEL's || is true where one side is, whatever the other one cannot say.
        yield _Group(part, Condition(joined, limit=None) if len(part) > 1 else None)


def _look(
    ready: _Ready,
    of_tool: bool | None,
    facts: Facts,
    variables: Variables,
    history: History,
    now: float,
) -> Outcome | str:
    """Return what a rule says, or why it fails; by Kleene's logic, one part is enough for that."""
    rule = ready.rule
    if of_tool is False:
        return "it is about other tools"
    for check in ready.checks:
        if not check(facts):
            return "it is about other circumstances"
    if rule.after is not None:
        seen = _came_before(rule.after.match, rule.after.within, rule.after.scope)
        if not any(seen(facts, history, now)):
            return "no such call came before"
    if rule.more_than is not None and not _more(rule, facts, history, now):
        return "there were not so many calls"
    unknown = "" if of_tool else "a flag that it looks at is not declared"
    if rule.when is not None:
        held = rule.when.holds(variables)
        if held is False:
            return "its condition does not hold"
        if held is not True:
            unknown = f"its condition cannot be decided: {held}"
    if not unknown:
        return Outcome(rule=rule, state="holds", why="all of its parts hold", effect=rule.effect)
    # Where it cannot be said, a rule that loosens does not; one that tightens says what follows.
    effect = rule.unknown if rule.effect in ("ask", "deny") else None
    return Outcome(rule=rule, state="unknown", why=unknown, effect=effect)


_WITHIN_SESSION = ("turn", "session")

Seen: TypeAlias = "Callable[[Facts, History, float], Iterable[bool]]"


def _came_before(match: Match, within: float | None, scope: Scope) -> Seen:
    def seen(facts: Facts, history: History, now: float) -> Iterable[bool]:
        start = float("-inf") if within is None else now - within
        for earlier in history.since(start, facts.session if scope in _WITHIN_SESSION else None):
            if _same(scope, earlier, facts) and _may_be(match, earlier):
                yield True

    return seen


def _more(rule: Rule, facts: Facts, history: History, now: float) -> bool:
    more = rule.more_than
    assert more is not None, "it was asked for"
    left = more.calls
    for _ in _came_before(more.match or rule.match, more.within, more.scope)(facts, history, now):
        left -= 1
        if left < 0:
            return True
    # This call is one of them, if it is of their kind.
    return left < 1 and (more.match is None or _may_be(more.match, facts))


def _may_be(match: Match, facts: Facts) -> bool:
    """Whether a call was such a one, or may have been: what nobody declared counts as that."""
    return match.of_tool(facts) is not False and match.of_call(facts)


def _same(scope: Scope, one: Facts, other: Facts) -> bool:
    match scope:
        case "turn":
            return one.turn == other.turn
        case "session":
            return one.session == other.session
        case "peer":
            return (one.channel, one.account, one.peer) == (
                other.channel,
                other.account,
                other.peer,
            )
        case "agent":
            return one.agent == other.agent
        case "principal":
            return one.principal == other.principal
        case "gateway":
            return True


def _rewritten(
    outcomes: Sequence[Outcome], facts: Facts, variables: Variables
) -> tuple[Outcome, Mapping[str, Any] | None]:
    """Return the first rewrite that changes something, with its arguments.

    A rule whose values cannot be made denies: the call must not run as it was.
    """
    first: Outcome | None = None
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
            return Outcome(rule=outcome.rule, state="unknown", why=why, effect="deny"), None
        if arguments != dict(facts.arguments):
            return outcome, arguments
    assert first is not None, "a rewrite was decisive"
    return first, None


def _plain(match: Match | None) -> dict[str, Any]:
    if match is None:
        return {}
    said = {item.name: getattr(match, item.name) for item in fields(match)}
    flags = {name: sorted(map(str, values)) for name, values in match.flags.items()}
    return {**said, "flags": flags}


def _after(part: After | MoreThan | None) -> dict[str, Any]:
    if part is None:
        return {}
    said = {item.name: getattr(part, item.name) for item in fields(part)}
    return {**said, "match": _plain(part.match)}


def said(rule: Rule) -> dict[str, Any]:
    """Return what a rule says, without where it stands."""
    return {
        "name": rule.name,
        "effect": rule.effect,
        "mode": rule.mode,
        "reason": rule.reason,
        "match": _plain(rule.match),
        "when": rule.when.text if rule.when else "",
        "after": _after(rule.after),
        "more_than": _after(rule.more_than),
        "unknown": rule.unknown,
        "set": {name: one.text for name, one in rule.rewrite.set.items()} if rule.rewrite else {},
        "remove": list(rule.rewrite.remove) if rule.rewrite else [],
    }
