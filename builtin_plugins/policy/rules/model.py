"""Rules: what they say, without saying anything about a particular call.

A rule holds where each of its parts holds. A part that looks at what nobody declared, or at an
argument that is not there, is neither true nor false: then the rule says what follows, ``ask``
or ``deny``, and never ``allow``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from hookgate.builtin_plugins.policy.judge.facts import Facts
    from hookgate.builtin_plugins.policy.rules.conditions import Condition

RuleEffect: TypeAlias = Literal["allow", "ask", "deny", "rewrite"]
EFFECTS: tuple[RuleEffect, ...] = ("allow", "ask", "deny", "rewrite")

Severity: TypeAlias = Literal["info", "warning", "critical"]
Scope: TypeAlias = Literal["turn", "session", "peer", "agent", "principal", "gateway"]

Truth: TypeAlias = "bool | None"
"""True, False, or None where it cannot be said."""


@lru_cache(maxsize=4096)
def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))


def fits(globs: tuple[str, ...], name: str) -> bool:
    """Whether one of `globs` fits `name`; no globs fit everything."""
    return not globs or any(_compiled(glob).match(name) for glob in globs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The parts of a rule that look at one call; what is empty does not matter.

    Attributes:
        tool: Globs of tool names.
        plugin: Globs of the plugins that bring tools.
        agent: Globs of agents.
        channel: Globs of channels.
        account: Globs of accounts.
        peer: Globs of peers.
        principal: Globs of principals.
        provenance: Ways in which a turn comes in.
        sandbox: Where tools run.
        flags: The values that a flag may have; None among them is undeclared.
        tainted: Whether the turn has read what somebody else wrote.
        taint: Globs, one of which fits a source of what the turn has read.
        nested: Whether the turn was started by another one.
    """

    tool: tuple[str, ...] = ()
    plugin: tuple[str, ...] = ()
    agent: tuple[str, ...] = ()
    channel: tuple[str, ...] = ()
    account: tuple[str, ...] = ()
    peer: tuple[str, ...] = ()
    principal: tuple[str, ...] = ()
    provenance: tuple[str, ...] = ()
    sandbox: tuple[str, ...] = ()
    flags: Mapping[str, frozenset[bool | None]] = field(default_factory=dict)
    tainted: bool | None = None
    taint: tuple[str, ...] = ()
    nested: bool | None = None

    def of_tool(self, facts: Facts) -> Truth:
        """Whether it holds of the tool alone: the same for each call of it."""
        if not (
            fits(self.tool, facts.tool)
            and fits(self.plugin, facts.plugin)
            and (not self.sandbox or facts.sandbox in self.sandbox)
        ):
            return False
        known: Truth = True
        for name, values in self.flags.items():
            value = facts.flags.get(name)
            if value in values:
                continue
            if value is not None:
                return False
            known = None  # nobody declared it: it may be one of them
        return known

    def of_call(self, facts: Facts) -> bool:
        """Whether the rest of it holds."""
        return all(check(facts) for check in self.checks())

    def checks(self) -> tuple[Callable[[Facts], bool], ...]:
        """Return what `of_call` looks at, one function for each part that matters."""
        found: list[Callable[[Facts], bool]] = []
        if self.provenance:
            found.append(lambda facts: facts.provenance in self.provenance)
        if self.tainted is not None:
            found.append(lambda facts: bool(facts.taint) is self.tainted)
        if self.nested is not None:
            found.append(lambda facts: (facts.depth > 0) is self.nested)
        if self.agent:
            found.append(lambda facts: fits(self.agent, facts.agent))
        if self.channel:
            found.append(lambda facts: fits(self.channel, facts.channel))
        if self.account:
            found.append(lambda facts: fits(self.account, facts.account))
        if self.peer:
            found.append(lambda facts: fits(self.peer, facts.peer))
        if self.principal:
            found.append(lambda facts: fits(self.principal, facts.principal))
        if self.taint:
            found.append(lambda facts: any(fits(self.taint, one) for one in facts.taint))
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class After:
    """A call that came before: in the same turn, or in the last seconds.

    Attributes:
        match: What the earlier call was.
        within: Seconds; None for the same turn.
        scope: Whose calls count.
    """

    match: Match
    within: float | None = None
    scope: Scope = "turn"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreThan:
    """So many calls in the last seconds, this one counted.

    Attributes:
        calls: More than so many.
        within: Seconds; None for the same turn.
        scope: Whose calls count.
        match: Which calls count; None for those that the rule itself matches.
    """

    calls: int
    within: float | None = None
    scope: Scope = "session"
    match: Match | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Changes of arguments.

    Attributes:
        set: Conditions whose values arguments get.
        remove: Arguments that are taken away.
    """

    set: Mapping[str, Condition] = field(default_factory=dict)
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule.

    Attributes:
        name: Unique among all rules; stands in verdicts and in the audit.
        effect: What follows where it holds.
        description: What it is for, for people.
        reason: Why, for the model and for whoever is asked.
        mode: ``shadow`` only records what would have followed.
        match: What it looks at.
        when: A condition beside that.
        after: A call that must have come before.
        more_than: So many calls that must have come before.
        unknown: What follows where it cannot be said whether it holds.
        severity: How an ask is shown.
        timeout: Seconds that an ask waits; None for the setting's.
        approvers: Names of groups, or globs of principals, who may answer; empty for the setting's.
        rewrite: Changes of arguments, for the effect ``rewrite``.
        file: Where it stands.
        line: The line on which it begins.
    """

    name: str
    effect: RuleEffect
    description: str = ""
    reason: str = ""
    mode: Literal["enforce", "shadow"] = "enforce"
    match: Match = field(default_factory=Match)
    when: Condition | None = None
    after: After | None = None
    more_than: MoreThan | None = None
    unknown: Literal["ask", "deny"] = "ask"
    severity: Severity = "warning"
    timeout: float | None = None
    approvers: tuple[str, ...] = ()
    rewrite: Rewrite | None = None
    file: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        """``FILE:LINE``."""
        return f"{self.file}:{self.line}" if self.line else self.file
