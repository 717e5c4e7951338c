"""What is odd about rules that can be read: those that never count, or contradict each other.

Only what is sure is reported. Whether one condition follows from another is not looked at: two
conditions are the same where their texts are. A rule that is not reported may be idle all the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hookgate import FLAG_NAMES, Flags
from hookgate.builtin_plugins.policy.judge.engine import STRICTNESS
from hookgate.builtin_plugins.policy.judge.facts import KEPT, Facts
from hookgate.builtin_plugins.policy.rules.model import (
    PROVEN,
    TEXT,
    VARIABLES,
    After,
    Condition,
    FlagSet,
    Match,
    MoreThan,
    Rule,
    Variables,
    fits,
)
from hookgate.builtin_plugins.policy.settings import ApprovalSettings, PolicySettings
from hookgate.kit.content.problems import Problem
from hookgate.kit.durations import told

_GLOBS = ("tool", "plugin", "agent", "channel", "account", "peer", "principal", "taint")
_OWNERS = ("loopback", "embedded", "cli")
"""Ids of the owner, as the ways in name it that need no token."""
_ALL: frozenset[bool | None] = frozenset((True, False, None))
_WILD = re.compile(r"[*?\[]")
_TEXT = re.compile(TEXT, re.DOTALL)
_ARGUMENT = re.compile(r"(?<![\w.])args\s*\.\s*([A-Za-z_]\w*)(?!\w|\s*\()")
_ARGUMENTS = re.compile(r"(?<![\w.])args\b")
_FIELD = re.compile(r"(?<![\w.])(turn|now|tool(?:\.flags(?=\.))?)\.([A-Za-z_]\w*)(?!\w|\s*\()")
_PATTERN = re.compile(rf"\bmatches\s*\((?:[\w.]+\s*,)?\s*({TEXT})\s*\)", re.DOTALL)
_VARIABLE = re.compile(rf"\b({'|'.join(VARIABLES)})\b")


@dataclass(frozen=True, slots=True)
class KnownTool:
    """A tool of a gateway.

    Attributes:
        call: A call of it, of which nothing else is known.
        arguments: The arguments that its schema knows; None where that is not known.
    """

    call: Facts
    arguments: frozenset[str] | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.call.tool


def lint(rules: Sequence[Rule], settings: PolicySettings | None = None) -> list[Problem]:
    """Return warnings about rules, in their order.

    Args:
        rules: The rules, in the order in which the gateway reads them.
        settings: Those whose lists stand above the rules, and that name groups of approvers.
    """
    problems: list[Problem] = []
    if settings is not None:
        problems += nobody_named(rules, settings.approvals)
    for number, rule in enumerate(rules):
        if never := _never(rule):
            problems.append(_odd(rule, *never))
            continue
        if (
            rule.more_than is not None
            and rule.more_than.calls == 0
            and rule.more_than.match is None
        ):
            problems.append(
                _odd(rule, "`more_than.calls: 0`, which always holds: the call itself is counted",
                     "1 or more, or no `more_than`")
            )  # fmt: skip
        problems += (
            _odd(rule, f"{one}, so that its condition is never decided", expected)
            for condition in rule.conditions
            for one, expected in _undecided(condition)
        )
        if rule.mode == "enforce":
            problems += _about_others(rules, number)
            problems += _about_lists(rule, settings)
    return problems


def _undecided(condition: Condition) -> Iterator[tuple[str, str]]:
    """Yield what a condition asks for that there never is, and what to write in its place."""
    flags = Flags.from_mapping(dict.fromkeys(FLAG_NAMES, True))
    spoken = Facts(tool="", flags=flags, at=datetime.min).for_conditions()
    spoken["tool.flags"] = spoken["tool"]["flags"]
    bare = _TEXT.sub("''", condition.text)
    for name, key in dict.fromkeys(_FIELD.findall(bare)):
        # `args.list.exists(tool, ...)` gives the name another meaning.
        if key not in spoken[name] and not re.search(rf"\(\s*{name}\s*,", bare):
            yield f"{name}.{key}, which there is not", f"one of {', '.join(spoken[name])}"
    for pattern in _PATTERN.findall(condition.text):
        held = Condition(f"''.matches({pattern})").holds(Variables(dict))
        if isinstance(held, str):
            yield f"the pattern {pattern} ({held})", "RE2, which has no look-around"


def nobody_named(rules: Sequence[Rule], approvals: ApprovalSettings) -> list[Problem]:
    """Return warnings about approvers that are neither a group nor anybody's id.

    A misspelt group is read as an id, and only its rule's questions find nobody, or fewer people.
    """
    groups, ids = ", ".join(map(repr, approvals.groups)) or "none", "ids such as 'token:ops'"
    expected = f"one of the groups ({groups}), or {ids}, or a glob of them"

    def nobody(names: Iterable[str], known: Collection[str]) -> Iterator[str]:
        what = "which is no group of [plugin.policy.approvals.groups], and no id that a token gives"
        for name in names:
            if name not in (*known, *_OWNERS) and ":" not in name and not _WILD.search(name):
                yield f"the approver {name!r}, {what}"

    # A group holds ids alone.
    lists: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]]
    lists = {f"groups.{name}": (names, (), ids) for name, names in approvals.groups.items()}
    lists |= {"approvers": (approvals.approvers or (), tuple(approvals.groups), expected)}
    return [
        Problem(
            file=f"[plugin.policy.approvals] {key}", found=one, expected=said, severity="warning"
        )
        for key, (names, known, said) in lists.items()
        for one in nobody(names, known)
    ] + [
        _odd(rule, one, expected)
        for rule in rules
        for one in nobody(rule.approvers, tuple(approvals.groups))
    ]


def unknown_budgets(rules: Sequence[Rule], names: Collection[str] | None) -> list[Problem]:
    """Return what is wrong with rules that ask about budgets which there are not.

    Args:
        rules: The rules.
        names: The budgets and limits that there are; None where nobody tells of any.
    """
    if names is None:
        there, do = (
            "no plugin tells of budgets",
            "no such condition, or a plugin such as `metering`",
        )
    else:
        there = f"there is {', '.join(sorted(names)) or 'none'}"
        do = "one of these, or one in [plugin.metering.budgets]"
    return [
        replace(_odd(rule, f"budget({name!r}), which is no budget: {there}", do), severity="error")
        for rule in rules
        for name in sorted(rule.budgets)
        if name not in (names or ())
    ]


def past_deadline(rules: Sequence[Rule], deadline: float) -> list[Problem]:
    """Return what is wrong with rules whose questions would outlast any turn, of `deadline` s."""
    return [
        replace(
            _odd(
                rule,
                f"a question that waits {told(rule.timeout)}, and its turn ends after "
                f"{told(deadline)}, which ends the question as well",
                f"at most {told(deadline)}, or a longer `[turn] deadline_seconds`",
            ),
            severity="error",
        )
        for rule in rules
        if rule.timeout is not None and rule.timeout > deadline
    ]


def _odd(rule: Rule, found: str, expected: str) -> Problem:
    return Problem(
        file=rule.file,
        line=rule.line or None,
        found=f"in rule {rule.name!r}: {found}",
        expected=expected,
        severity="warning",
    )


# -- rules among each other ------------------------------------------------------------


def _about_others(rules: Sequence[Rule], number: int) -> Iterator[Problem]:
    rule = rules[number]
    others = [(place, one) for place, one in enumerate(rules) if one.mode == "enforce"]
    for place, other in others:
        if place < number and other.effect != rule.effect and _parts(other) == _parts(rule):
            yield _odd(
                rule,
                f"the effect {rule.effect}, and {other.effect} in rule {other.name!r} "
                f"({other.place}), which is about the same calls",
                f"one of the two rules; as it stands, the stricter one counts "
                f"({max(rule.effect, other.effect, key=lambda one: STRICTNESS[one])})",
            )
            return
    for place, other in others:
        if place != number and not _never(other) and covers(other, rule, earlier=place < number):
            if _parts(other) == _parts(rule) and other.effect != rule.effect:
                return  # said of the later one of the two, as a contradiction
            yield _odd(
                rule,
                f"a rule that never counts: {other.name!r} ({other.place}) is about all that it "
                f"is about, and {'comes first' if other.effect == rule.effect else 'is stricter'}",
                "no such rule, or a narrower one there",
            )
            return


def covers(one: Rule, other: Rule, *, earlier: bool) -> bool:
    """Whether `one` has a say wherever `other` has, and `other` is never the decisive one.

    Args:
        one: A rule that is enforced.
        other: Another rule.
        earlier: Whether `one` comes before `other`; of two equals the first one decides.
    """
    if not (
        _match_covers(one.match, other.match)
        and _window_covers(one, other)
        and (one.when is None or (other.when is not None and one.when.text == other.when.text))
    ):
        return False
    # Where `other` holds, `one` holds: each part of `one` follows from a part of `other`.
    if not _counts_more(one.effect, other.effect, earlier=earlier):
        return False
    if other.undecided is None:
        return True
    # Where `other` cannot be decided, `one` may hold, or be undecided as well.
    if _is_decided(other):
        return True
    if not _counts_more(one.effect, other.undecided, earlier=earlier):
        return False
    return _is_decided(one) or (
        one.undecided is not None and _counts_more(one.undecided, other.undecided, earlier=earlier)
    )


def _counts_more(one: str, other: str, *, earlier: bool) -> bool:
    if STRICTNESS[one] > STRICTNESS[other]:
        return True
    # Rules that rewrite go on to the next one where the first one changes nothing.
    return earlier and one == other and one != "rewrite"


def _is_decided(rule: Rule) -> bool:
    """Whether it always can be said whether it holds."""
    decided = rule.when is None and rule.not_ is None
    return decided and all(values == _ALL for values in rule.match.flags.values())


def _match_covers(one: Match, other: Match) -> bool:
    if not all(_globs_cover(getattr(one, key), getattr(other, key)) for key in _GLOBS):
        return False
    if (
        one.tainted is not None
        and one.tainted != other.tainted
        and not (one.tainted and other.taint)
    ):
        return False
    if one.nested is not None and one.nested != other.nested:
        return False
    for key in ("provenance", "sandbox", "owner"):
        mine, its = set(getattr(one, key)), set(getattr(other, key))
        if mine and not (its and its <= mine):
            return False
    return all(
        values == _ALL or (name in other.flags and _values_cover(values, other.flags[name]))
        for name, values in one.flags.items()
    )


def _values_cover(one: FlagSet, other: FlagSet) -> bool:
    """Whether a flag has one of the values `one` wherever it has one of `other`."""
    if PROVEN in one:
        return one == other
    return other - {PROVEN} <= one


def _globs_cover(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether what a glob of `other` fits, one of `one` fits, too; no globs fit everything."""
    if not one or one == other:
        return True
    if any(glob.startswith("!") for glob in one):
        return False
    # What `other` leaves out only makes it narrower.
    other = tuple(glob for glob in other if not glob.startswith("!"))
    return bool(other) and all(any(_glob_covers(a, b) for a in one) for b in other)


def _glob_covers(one: str, other: str) -> bool:
    if one in ("*", other):
        return True
    wild = _WILD.search(other)
    if wild is None:
        return fits((one,), other)
    start = one[:-1]
    return one.endswith("*") and not _WILD.search(start) and other[: wild.start()].startswith(start)


def _window_covers(one: Rule, other: Rule) -> bool:
    if (one.not_, one.unless) not in ((None, None), (other.not_, other.unless)):
        return False
    if one.after is not None:
        its = other.after
        if its is None or one.after.scope != its.scope:
            return False
        if not (_match_covers(one.after.match, its.match) and _reaches(one.after, its)):
            return False
    if one.more_than is not None:
        more = other.more_than
        if more is None or one.more_than.scope != more.scope or one.more_than.calls > more.calls:
            return False
        counted = (one.more_than.match, more.match)
        same = counted[0] == counted[1] if None not in counted else counted == (None, None)
        if not same or (counted[0] is None and one.match != other.match):
            return False
        return _reaches(one.more_than, more)
    return True


def _reaches(one: After | MoreThan, other: After | MoreThan) -> bool:
    """Whether `one` looks back at least as far as `other`."""
    if one.within is None or other.within is None:
        return one.within is other.within
    return one.within >= other.within


def _parts(rule: Rule) -> tuple[Any, ...]:
    when = rule.when.text if rule.when else None
    return rule.match, when, rule.after, rule.more_than, rule.not_, rule.unless


def _about_lists(rule: Rule, settings: PolicySettings | None) -> Iterator[Problem]:
    """Yield where a list of the settings decides all that a rule is about."""
    if settings is None:
        return
    possible = [rule.effect, None if _is_decided(rule) else rule.undecided]
    # Values that cannot be made deny.
    strictest = max(STRICTNESS["deny" if one == "rewrite" else one] for one in possible if one)
    for effect, globs in settings.lists:
        key = effect.word
        if STRICTNESS[key] >= strictest and globs and _globs_cover(globs, rule.match.tool):
            yield _odd(
                rule,
                f"a rule that never counts: `{key}` of [plugin.policy] names all its tools, and "
                "comes before it",
                f"no such rule, or fewer tools in `{key}`",
            )
            return


# -- rules by themselves ---------------------------------------------------------------


def _never(rule: Rule) -> tuple[str, str] | None:
    """Return why a rule can never hold, and what to do; None where it may."""
    if _is_empty(rule.match):
        return "`tainted: false` beside `taint`, which never hold together", "one of the two"
    text = rule.when.text if rule.when else ""
    if rule.when and not _VARIABLE.search(text):
        held = rule.when.holds(Variables(lambda: {name: {} for name in VARIABLES}))
        if held is False:
            return f"the condition {text!r}, which never holds", "one that may hold"
    if rule.after is not None and (why := _never_before(rule.match, rule.after)):
        return why, "an `after` that a call can come behind"
    more = rule.more_than
    if more is None:
        return None
    if more.calls > KEPT:
        return f"more than {more.calls} calls", f"at most {KEPT}: so many calls are remembered"
    if more.match is not None and more.calls and (why := _never_before(rule.match, more)):
        return why.replace("`after`", "`more_than`"), "a `more_than` that calls can come to"
    return None


def _is_empty(match: Match) -> bool:
    return match.tainted is False and bool(match.taint)


def _never_before(match: Match, part: After | MoreThan) -> str:
    """Return why no earlier call can be such a one; "" where it can."""
    earlier = part.match
    if earlier is None:
        return ""
    if _is_empty(earlier):
        return "an `after` with `tainted: false` beside `taint`, which never hold together"
    if part.scope != "turn":
        return ""
    # One turn has one provenance and one depth, and its taint only grows.
    both = (set(match.provenance), set(earlier.provenance))
    if all(both) and not both[0] & both[1]:
        return "an `after` in the same turn with another provenance, which no call has"
    if None not in (match.nested, earlier.nested) and match.nested != earlier.nested:
        return "an `after` in the same turn with another `nested`, which no call has"
    if match.tainted is False and (earlier.tainted or earlier.taint):
        return "an `after` that is tainted and a call in the same turn that is not"
    return ""


# -- rules and tools -------------------------------------------------------------------


def lint_tools(rules: Sequence[Rule], tools: Sequence[KnownTool]) -> list[Problem]:
    """Return warnings about rules that are about none of `tools`, or miss their arguments."""
    problems: list[Problem] = []
    names = {tool.name for tool in tools}
    for rule in rules:
        globs = dict.fromkeys((*rule.match.tool, *_counted(rule)))
        idle = [
            glob
            for glob in globs
            if not any(fits((glob.removeprefix("!"),), name) for name in names)
        ]
        if idle:
            shown = ", ".join(repr(glob) for glob in idle)
            problems.append(_odd(rule, f"no tool that {shown} fits", "the name of a tool"))
        about = [tool for tool in tools if rule.match.of_tool(tool.call) is not False]
        if not about:
            if not idle:
                expected = "a `match` that fits a tool's plugin, sandbox and flags"
                problems.append(_odd(rule, "no tool that it is about", expected))
            continue
        if any(tool.arguments is None for tool in about):
            continue
        known = frozenset[str]().union(*(tool.arguments or () for tool in about))
        if missing := sorted(_spoken_of(rule) - known):
            few = ", ".join(sorted(tool.name for tool in about)[:5])
            shown = ", ".join(f"args.{name}" for name in missing)
            expected = f"an argument in the schema of a tool that it is about ({few})"
            problems.append(_odd(rule, f"a condition that speaks of {shown}", expected))
    return problems


def _counted(rule: Rule) -> Iterator[str]:
    unless = None if rule.unless is None else rule.unless.after
    for part in (rule.after, rule.more_than, unless):
        if part is not None and part.match is not None:
            yield from part.match.tool


def _spoken_of(rule: Rule) -> frozenset[str]:
    conditions = [rule.when] if rule.when else []
    conditions += rule.rewrite.set.values() if rule.rewrite else ()
    named = [arguments_of(one) for one in conditions]
    return frozenset[str]().union(*(one for one in named if one is not None))


def arguments_of(condition: Condition, *, texts: bool = False) -> frozenset[str] | None:
    """Return the arguments that a condition speaks of; None where it may be about any.

    Args:
        condition: The condition.
        texts: Whether what stands in quotes counts: then the answer leaves out nothing.
    """
    bare = condition.text if texts else _TEXT.sub("''", condition.text)
    names = frozenset(_ARGUMENT.findall(bare))
    if _ARGUMENTS.search(_ARGUMENT.sub("", bare)):
        return None
    return names


def known_tool(row: Mapping[str, Any], schema: Mapping[str, Any] | None = None) -> KnownTool:
    """Return a tool from what ``tools.list`` says of it, and its schema."""
    flags = Flags.from_mapping({name: one["value"] for name, one in row["flags"].items()})
    proven = frozenset(n for n, one in row["flags"].items() if one["standing"] == "proven")
    call = Facts(
        tool=row["name"],
        plugin=row["plugin"],
        sandbox=row["sandbox"],
        flags=replace(flags, proven=proven),
    )
    return KnownTool(call, None if schema is None else arguments_in(schema))


def arguments_in(schema: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the arguments that a tool's schema knows; None where it may take others."""
    open_ended = schema.get("patternProperties") or schema.get("additionalProperties")
    if set(schema) & {"$ref", "allOf", "anyOf", "oneOf", "if"} or open_ended:
        return None
    return frozenset(schema["properties"]) if "properties" in schema else None


def sample_of(globs: Iterable[str]) -> list[str]:
    """Return a name that fits each of `globs`, where one is easily made."""
    made = [re.sub(r"[*?]", "x", glob) for glob in globs if not re.search(r"[\[!]", glob)]
    return list(dict.fromkeys(name for name in made if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)))
