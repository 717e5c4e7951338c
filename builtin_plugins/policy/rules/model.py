"""Rules: what they say, without saying anything about a particular call.

A rule holds where each of its parts holds. A part that looks at what nobody declared, or at an
argument that is not there, is neither true nor false: then the rule says what follows, ``ask``
or ``deny``, and never ``allow``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from fnmatch import translate
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, PlainValidator

from hookgate import FLAG_NAMES, ToolOwner
from hookgate.builtin_plugins.policy.settings import LONGEST_QUESTION, WHY_NO_LONGER, RuleEffect
from hookgate.kit.content.documents import Made, Snake, many, matching, once, prose, several
from hookgate.kit.durations import FORMS, seconds_of, told

if TYPE_CHECKING:
    from cel_expr_python import cel

    from hookgate.builtin_plugins.policy.judge.facts import Facts

MAX_CHARS = 2000
"""The longest condition."""


VARIABLES = ("args", "tool", "turn", "now", "budget")
"""What a condition may speak of."""

TEXT = r"""[rRbB]{0,2}(?:\'{3}.*?\'{3}|\"{3}.*?\"{3}|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")"""
"""A text in CEL, for `re.DOTALL`."""

_BUDGET = re.compile(
    TEXT + r"""|(?<![.\w])budget\s*\(\s*(?P<name>"[^"\\]*"|'[^'\\]*')\s*\)""", re.DOTALL
)


class ConditionError(ValueError):
    """A condition cannot be compiled.

    Attributes:
        line: The line within the condition, from 1; None where it is not known.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@cache
def _environment() -> cel.Env:
    """Return what conditions may speak of: see `Facts.for_conditions`.

    CEL is loaded by the first condition: no rule that comes with hookgate has one.
    """
    from cel_expr_python import cel

    return cel.NewEnv(variables=dict.fromkeys(VARIABLES, cel.Type.DYN))


class Variables:
    """The variables of one call, made once for all conditions that look at them."""

    __slots__ = ("_activation", "_data")

    def __init__(self, data: Callable[[], Mapping[str, Any]]) -> None:
        self._data = data
        self._activation: cel.Activation | None = None

    @property
    def activation(self) -> cel.Activation:
        """What conditions are evaluated with."""
        if self._activation is None:
            data = self._data()
            # CEL's binding ends a text at a NUL: no condition would see what stands behind it.
            if "\\x00" in repr(data):
                data = _without_nul(data)
            self._activation = _environment().Activation(data)
        return self._activation


def _without_nul(value: Any) -> Any:
    """Return `value` with U+FFFD for each NUL in it."""
    match value:
        case str():
            return value.replace("\0", "\ufffd")
        case Mapping():
            return {_without_nul(key): _without_nul(item) for key, item in value.items()}
        case list() | tuple():
            return [_without_nul(item) for item in value]
    return value


class Condition:
    """A compiled condition.

    Attributes:
        text: The condition.
        budgets: The names of the budgets that it asks about.
    """

    __slots__ = ("_expression", "budgets", "text")

    def __init__(self, text: str, *, limit: int | None = MAX_CHARS) -> None:
        """Compile `text`, of at most `limit` characters.

        Raises:
            ConditionError: It is too long, no CEL, or speaks of what there is not.
        """
        self.text = text
        if limit is not None and len(text) > limit:
            raise ConditionError(f"{len(text)} characters: expected at most {limit}")
        named: set[str] = set()

        def looked_up(found: re.Match[str]) -> str:
            name = found["name"]
            if name is None:
                return found[0]
            named.add(name[1:-1])
            return f"budget[{name}]"

        # A budget is looked up by its name, so that what is asked about is known beforehand.
        compiled = _BUDGET.sub(looked_up, text)
        self.budgets = frozenset(named)
        try:
            self._expression = _environment().compile(compiled)
        except RuntimeError as error:
            told = _told(str(error))
            if "reference to 'budget'" in told:
                told = "`budget(...)` takes the name of one budget in quotes, as in budget('daily')"
            raise ConditionError(told) from None

    def __reduce__(self) -> tuple[type[Condition], tuple[str]]:
        """Say how it is made anew: another process compiles it again."""
        return Condition, (self.text,)

    @property
    def is_boolean(self) -> bool:
        """Whether it can be true or false, as far as that is known beforehand."""
        return self._expression.return_type().name() in ("BOOL", "DYN")

    def holds(self, variables: Variables) -> bool | str:
        """Return whether it holds, or why that cannot be said."""
        found = self._expression.eval(activation=variables.activation)
        value = found.value()
        if value is True or value is False:
            return bool(value)
        if found.type().name() == "ERROR":
            return str(value)
        return f"it is {found.type().name()} and not true or false"

    def value(self, variables: Variables) -> Any:
        """Return what it comes to, as JSON has it.

        Raises:
            ConditionError: It comes to nothing, or to what JSON cannot hold.
        """
        found = self._expression.eval(activation=variables.activation)
        value = found.plain_value()
        if found.type().name() == "ERROR":
            raise ConditionError(str(found.value()))
        if not isinstance(value, str | bool | int | float | list | dict | None):
            raise ConditionError(f"it is {found.type().name()}, which JSON cannot hold")
        return value


def _told(message: str) -> str:
    """Return the part of CEL's message that says what is wrong, on one line."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    first = lines[0] if lines else message
    for mark in ("INVALID_ARGUMENT:", "ERROR:", "<input>:"):
        first = first.removeprefix(mark).strip()
    return first.removesuffix("[INVALID_ARGUMENT]").strip()[:300]


# -- rules ------------------------------------------------------------------------

LONGEST = 86_400.0
NO_LONGER_AGO = "earlier calls are kept in memory, and no longer"

Severity: TypeAlias = Literal["info", "warning", "critical"]
Scope: TypeAlias = Literal["turn", "session", "peer", "agent", "principal", "gateway"]
Sandbox: TypeAlias = Literal["python", "wasm", "remote", "client"]
Came: TypeAlias = Literal[
    "external_user", "inter_session", "internal_system", "scheduled", "tool_result", "channel"
]
"""The values of `Provenance`."""

FlagSet: TypeAlias = "frozenset[bool | str | None]"
"""The values that a flag may have; None is undeclared, and `PROVEN` narrows them."""
Truth: TypeAlias = "bool | None"
"""True, False, or None where it cannot be said."""


# -- what stands in documents ------------------------------------------------------


def _condition(value: Any, *, boolean: bool = True) -> Condition:
    if isinstance(value, bool):
        value = str(value).lower()
    elif not boolean and isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str):
        raise ValueError("expected a condition in CEL, in quotes")
    try:
        condition = Condition(value)
    except ConditionError as error:
        more = ""
        if "escape" in str(error) or "\\" in value:
            more = "; in a pattern write [.] for a dot, or r'\\.' (docs/policy-rules.md, Traps)"
        raise ValueError(
            f"found no condition ({error}), expected CEL, such as "
            f"`args.to.endsWith('@us.com')`{more}"
        ) from None
    if boolean and not condition.is_boolean:
        raise ValueError("found a condition that is never true or false, expected one that is")
    return condition


def lasting(most: float, why: str, least: float = 0.001) -> PlainValidator:
    """Return what takes seconds, from `least` to `most`: a number of them, or ``10m``."""

    def check(value: Any) -> float:
        try:
            seconds = seconds_of(value) if isinstance(value, str) else value
        except ValueError:
            seconds = None
        if not isinstance(seconds, int | float) or isinstance(seconds, bool):
            raise ValueError(f"expected {FORMS}, or a number of seconds")
        if seconds > most:
            raise ValueError(f"expected at most {told(most)}: {why}")
        if seconds < least:
            raise ValueError(f"expected at least {told(least)}")
        return float(seconds)

    return PlainValidator(check)


PROVEN = "proven"
"""Stands among the values of a flag where only what the gateway enforces itself counts."""


def _values_of_flag(value: Any) -> FlagSet:
    if isinstance(value, dict):
        if set(value) != {"is", "proven"} or value["proven"] is not True:
            raise ValueError("expected `is` and `proven: true`, such as {is: false, proven: true}")
        if not isinstance(value["is"], bool):
            raise ValueError("expected true or false in `is`: what nobody declared is not proven")
        return frozenset((value["is"], PROVEN))
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(one, bool) or one == "unknown" for one in values):
        raise ValueError(
            "expected true, false or unknown, or a list of them, or {is: false, proven: true}"
        )
    return frozenset(None if one == "unknown" else one for one in values)


WhenText = Annotated[Condition, PlainValidator(_condition)]
ValueText = Annotated[Condition, PlainValidator(lambda value: _condition(value, boolean=False))]
RuleName = Annotated[
    str,
    matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", "letters, digits, `.`, `_` and `-`, at most 80"),
]
Glob = Annotated[str, matching(r"[\x21-\x7e]{1,128}", "a name or a glob of names, such as http_*")]
Globs = Annotated[tuple[Glob, ...], several, many]
Argument = Annotated[str, matching(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", "the name of an argument")]
FlagName = Annotated[Literal[FLAG_NAMES], Snake]  # type: ignore[valid-type]  # a constant tuple
FlagSets = Annotated[Mapping[FlagName, Annotated[FlagSet, PlainValidator(_values_of_flag)]], once]

# -- rules -------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))


def fits(globs: tuple[str, ...], name: str) -> bool:
    """Whether one of `globs` fits `name`, and none that stands behind a ``!``.

    Without any to fit, everything does.
    """
    fitting = all_fit = True
    for glob in globs:
        if glob.startswith("!"):
            if _compiled(glob[1:]).match(name):
                return False
        elif all_fit:
            all_fit, fitting = False, bool(_compiled(glob).match(name))
        else:
            fitting = fitting or bool(_compiled(glob).match(name))
    return fitting


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
        owner: Who runs them: the gateway, or the client that brings them.
        flags: The values that a flag may have; None among them is undeclared.
        tainted: Whether the turn has read what somebody else wrote.
        taint: Globs, one of which fits a source of what the turn has read.
        nested: Whether the turn was started by another one.
    """

    tool: Globs = ()
    plugin: Globs = ()
    agent: Globs = ()
    channel: Globs = ()
    account: Globs = ()
    peer: Globs = ()
    principal: Globs = ()
    provenance: Annotated[tuple[Annotated[Came, Snake], ...], several, many] = ()
    sandbox: Annotated[tuple[Sandbox, ...], several, many] = ()
    owner: Annotated[tuple[ToolOwner, ...], several, many] = ()
    flags: FlagSets = field(default_factory=dict)
    tainted: bool | None = None
    taint: Globs = ()
    nested: bool | None = None

    def of_tool(self, facts: Facts) -> Truth:
        """Whether it holds of the tool alone: the same for each call of it."""
        if not (
            fits(self.tool, facts.tool)
            and fits(self.plugin, facts.plugin)
            and (not self.sandbox or facts.sandbox in self.sandbox)
            and (not self.owner or facts.owner in self.owner)
        ):
            return False
        known: Truth = True
        for name, values in self.flags.items():
            value = facts.flags.get(name)
            if value in values and (PROVEN not in values or name in facts.flags.proven):
                continue
            if value is not None or PROVEN in values:
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
class Window(Match):
    """Earlier calls: in the same turn, or in the last seconds.

    Attributes:
        within: Seconds; None for the same turn.
        scope: Whose calls count; the session's, where `within` is given.
    """

    within: Annotated[float | None, lasting(LONGEST, NO_LONGER_AGO)] = None
    scope: Scope = ""  # type: ignore[assignment]  # what is not said follows from `within`

    def __post_init__(self) -> None:
        if not self.scope:
            object.__setattr__(self, "scope", "turn" if self.within is None else "session")
        if self.within is None and self.scope != "turn":
            raise ValueError(
                f"scope is {self.scope}, expected `within` beside it: how long to look back"
            )

    @property
    def call(self) -> Match:
        """What the earlier call was."""
        return Match(**{one.name: getattr(self, one.name) for one in fields(Match)})


@dataclass(frozen=True, slots=True, kw_only=True)
class After(Window):
    """A call that came before."""

    @property
    def match(self) -> Match:
        """What the earlier call was."""
        return self.call


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreThan(Window):
    """So many calls, this one counted.

    Attributes:
        calls: More than so many.
    """

    calls: Annotated[int, Field(ge=0, le=1_000_000)]

    @property
    def match(self) -> Match | None:
        """Which calls count; None for those that the rule itself matches."""
        return None if self.call == Match() else self.call


@dataclass(frozen=True, slots=True, kw_only=True)
class Unless:
    """What lets a rule not hold.

    Attributes:
        after: A call that came before and did what it was to do. What may have been such a one,
            and what failed or has not come to its end, is none.
    """

    after: After


def _rewrites(rewrite: Rewrite) -> Rewrite:
    if not rewrite.set and not rewrite.remove:
        raise ValueError("set is nothing to set or remove, expected one of the two")
    return rewrite


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Changes of arguments.

    Attributes:
        set: Conditions whose values arguments get.
        remove: Arguments that are taken away.
    """

    set: Mapping[Argument, ValueText] = field(default_factory=dict)
    remove: Annotated[tuple[Argument, ...], many] = ()


_APPROVERS = "names of groups or globs of principals, where the effect is ask or deny"


def _some_approvers(globs: tuple[str, ...]) -> tuple[str, ...]:
    if not globs:
        raise ValueError(f"expected {_APPROVERS}")
    return globs


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
        not_: What it does not hold for.
        unless: What must not have come before.
        unknown: The same as `when_unknown`; None where the rule does not say.
        severity: How an ask is shown.
        timeout: Seconds that an ask waits; None for the setting's.
        approvers: Names of groups, or globs of principals, who may answer; empty for the setting's.
        rewrite: Changes of arguments, for the effect ``rewrite``.
        file: Where it stands.
        line: The line on which it begins.
    """

    name: RuleName
    effect: RuleEffect
    description: Annotated[str, prose(1000)] = ""
    reason: Annotated[str, prose(500)] = ""
    mode: Literal["enforce", "shadow"] = "enforce"
    match: Match = field(default_factory=Match)
    when: WhenText | None = None
    after: After | None = None
    more_than: MoreThan | None = None
    not_: Annotated[Match | None, Field(alias="not")] = None
    unless: Unless | None = None
    unknown: Literal["ask", "deny"] | None = None
    severity: Severity = "warning"
    timeout: Annotated[float | None, lasting(LONGEST_QUESTION, WHY_NO_LONGER, 1)] = None
    approvers: Annotated[Globs, AfterValidator(_some_approvers)] = ()
    rewrite: Annotated[Rewrite, AfterValidator(_rewrites)] | None = None
    file: Annotated[str, Made()] = ""
    line: Annotated[int, Made()] = 0

    @property
    def when_unknown(self) -> Literal["ask", "deny"]:
        """What follows where it cannot be said whether it holds."""
        return self.unknown or "ask"

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Its condition, and those that make the values of a rewrite."""
        made = () if self.rewrite is None else tuple(self.rewrite.set.values())
        return made if self.when is None else (self.when, *made)

    @property
    def budgets(self) -> frozenset[str]:
        """The budgets that it asks about."""
        return frozenset[str]().union(*(one.budgets for one in self.conditions))

    @property
    def tightens(self) -> bool:
        """Whether it keeps calls from running without a person."""
        return self.effect in ("ask", "deny")

    @property
    def undecided(self) -> RuleEffect | None:
        """What follows where it cannot be said whether it holds; a rule that loosens does not."""
        return self.when_unknown if self.tightens else None

    @property
    def place(self) -> str:
        """``FILE:LINE``."""
        return f"{self.file}:{self.line}" if self.line else self.file


def checked(rule: Rule) -> Rule:
    """Return a rule whose parts go together.

    Raises:
        ValueError: They do not.
    """
    if (rule.effect == "rewrite") != (rule.rewrite is not None):
        raise ValueError(
            "rewrite is one without the other, "
            "expected `rewrite` with `set` or `remove` exactly where the effect is rewrite"
        )
    if rule.unknown is not None and not rule.tightens:
        raise ValueError(
            f"unknown is {rule.unknown}, expected no `unknown`: where it cannot be said whether "
            "such a rule holds, it does not"
        )
    if rule.timeout is not None and rule.effect != "ask":
        raise ValueError("timeout is a timeout, expected one where the effect is ask")
    if rule.approvers and not rule.tightens:
        raise ValueError(f"approvers is {', '.join(rule.approvers)}, expected {_APPROVERS}")
    return rule
