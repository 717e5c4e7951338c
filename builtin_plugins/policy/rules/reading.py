"""Rule files: YAML, checked against what rules may say. A problem names file, line and rule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hookgate import FLAG_NAMES, Provenance
from hookgate.builtin_plugins.policy.rules.conditions import Condition, ConditionError
from hookgate.builtin_plugins.policy.rules.model import (
    EFFECTS,
    After,
    Match,
    MoreThan,
    Rewrite,
    Rule,
)
from hookgate.builtin_plugins.policy.settings import LONGEST_QUESTION, WHY_NO_LONGER
from hookgate.kit.content.fields import Fields
from hookgate.kit.content.files import MANIFEST_BYTES, read_text
from hookgate.kit.content.problems import ContentError, Problem, shortened
from hookgate.kit.content.yaml_reader import SourceDocument, read_yaml
from hookgate.kit.durations import FORMS, seconds_of, told

SUFFIXES = (".yaml", ".yml")
TEST_SUFFIX = ".test.yaml"
"""Cases stand beside the rules that they test, in files of this ending."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
GLOB = re.compile(r"[\x21-\x7e]{1,128}")
ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")

MAX_RULES = 2000
REASON_CHARS = 500
LONGEST = 86_400.0
NO_LONGER_AGO = "earlier calls are kept in memory, and no longer"

RULE_KEYS = (
    "name",
    "description",
    "mode",
    "match",
    "when",
    "after",
    "more_than",
    "effect",
    "unknown",
    "reason",
    "severity",
    "timeout",
    "approvers",
    "rewrite",
)
MATCH_KEYS = (
    "tool",
    "plugin",
    "agent",
    "channel",
    "account",
    "peer",
    "principal",
    "provenance",
    "sandbox",
    "flags",
    "tainted",
    "taint",
    "nested",
)
GLOB_KEYS = ("tool", "plugin", "agent", "channel", "account", "peer", "principal", "taint")
SCOPES = ("turn", "session", "peer", "agent", "principal", "gateway")
SANDBOXES = ("python", "wasm", "remote", "client")
SEVERITIES = ("info", "warning", "critical")
PROVENANCES = tuple(one.value for one in Provenance)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleReading:
    """What came of reading rules.

    Attributes:
        rules: The rules, in the order of files and lines; of a file with an error, none.
        problems: What is wrong.
    """

    rules: tuple[Rule, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether something is wrong that must not be passed over."""
        return any(problem.severity == "error" for problem in self.problems)


def files_of(paths: Iterable[Path], *, tests: bool = False) -> list[Path]:
    """Return the files of rules, or of their cases, that `paths` name.

    It blocks. Of a folder, what lies in it itself counts. A path that is not there is returned
    as it is, so that reading it says so.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(one for one in path.iterdir() if one.suffix in SUFFIXES)
            found += [one for one in inside if one.name.endswith(TEST_SUFFIX) is tests]
        elif path.name.endswith(TEST_SUFFIX) is tests:
            found.append(path)
    return list(dict.fromkeys(found))


def read_rules(paths: Iterable[Path]) -> RuleReading:
    """Read the rules of files and folders. It blocks, and never raises.

    Two rules of one name are an error: a verdict that names a rule must name one.
    """
    rules: list[Rule] = []
    problems: list[Problem] = []
    for path in files_of(paths):
        try:
            text, _ = read_text(path.resolve(), max_bytes=MANIFEST_BYTES)
        except ContentError as error:
            problems.append(replace(error.problem, file=str(path)))
            continue
        reading = read_text_of_rules(text, str(path))
        rules += reading.rules
        problems += reading.problems
    first: dict[str, Rule] = {}
    for rule in rules:
        other = first.setdefault(rule.name, rule)
        if other is not rule:
            problems.append(_double(rule, other))
    return RuleReading(rules=tuple(rules), problems=tuple(problems))


def _double(rule: Rule, other: Rule) -> Problem:
    return Problem(
        file=rule.file,
        line=rule.line,
        found=f"a second rule called {rule.name!r}",
        expected=f"another name; {other.place} has this one",
    )


def opened(text: str, file: str, keys: Sequence[str]) -> tuple[SourceDocument, Fields]:
    """Return a document of policy and its top, whose last key is the list that it is about.

    Raises:
        ContentError: It is no YAML, or no mapping.
    """
    document = read_yaml(text, file)
    if not isinstance(document.value, dict):
        found, expected = "no mapping", f"the key `{keys[-1]}` with a list below it"
        raise ContentError(document.problem((), found, expected))
    top = Fields(document)
    top.only(keys, strict=True)
    if "version" in top and top.value("version") != 1:
        top.problem("version", shortened(top.value("version")), "1")
    top.required(keys[-1])
    return document, top


def entries(top: Fields, key: str, limit: int) -> list[Any] | None:
    """Return the list at `key`; None where there is none of at most `limit` entries."""
    listed = top.value(key)
    if isinstance(listed, list) and len(listed) <= limit:
        return listed
    if key in top:
        top.problem(key, "no list, or a very long one", f"at most {limit} {key}")
    return None


def read_text_of_rules(text: str, file: str) -> RuleReading:
    """Read the rules in `text`. It never raises."""
    try:
        document, top = opened(text, file, ("version", "description", "rules"))
    except ContentError as error:
        return RuleReading(problems=(error.problem,))
    listed = entries(top, "rules", MAX_RULES)
    if listed is None:
        return RuleReading(problems=tuple(top.problems))
    rules, problems = [], list(top.problems)
    for number, one in enumerate(listed):
        if not isinstance(one, dict):
            place = ("rules", number)
            problems.append(document.problem(place, shortened(one), "a mapping: one rule"))
            continue
        rule, found = _rule(document, number)
        problems += found
        if rule is not None:
            rules.append(rule)
    reading = RuleReading(rules=tuple(rules), problems=tuple(problems))
    return replace(reading, rules=()) if reading.failed else reading


def _rule(document: SourceDocument, number: int) -> tuple[Rule | None, list[Problem]]:
    fields = Fields(document, ("rules", number))
    fields.only(RULE_KEYS, strict=True)
    for key in ("name", "effect"):
        fields.required(key)
    name = fields.text("name", NAME)
    effect = fields.choice("effect", EFFECTS)
    line = document.places.get(("rules", number))
    rule = Rule(
        name=name,
        effect=effect or "deny",  # type: ignore[arg-type]  # one of EFFECTS, or the rule is lost
        description=fields.prose("description", 1000),
        reason=fields.prose("reason", REASON_CHARS),
        mode=fields.choice("mode", ("enforce", "shadow")) or "enforce",  # type: ignore[arg-type]
        match=_match(fields.inner("match")),
        when=_condition(fields, "when"),
        after=_after(fields.inner("after")),
        more_than=_more_than(fields.inner("more_than")),
        unknown=fields.choice("unknown", ("ask", "deny")) or "ask",  # type: ignore[arg-type]
        severity=fields.choice("severity", SEVERITIES) or "warning",  # type: ignore[arg-type]
        timeout=seconds_at(fields, "timeout", LONGEST_QUESTION, WHY_NO_LONGER, least=1),
        approvers=_globs(fields, "approvers"),
        rewrite=_rewrite(fields.inner("rewrite")),
        file=document.file,
        line=line.line if line else 0,
    )
    _check(fields, rule)
    named = f"rule {name!r}" if name else f"rule {number + 1}"
    found = [replace(one, found=f"in {named}: {one.found}") for one in fields.problems]
    return (None if fields.failed else rule), found


def _check(fields: Fields, rule: Rule) -> None:
    """Note what does not go together."""
    if (rule.effect == "rewrite") != ("rewrite" in fields):
        expected = "`rewrite` with `set` or `remove` exactly where the effect is rewrite"
        fields.problem("rewrite", "one without the other", expected)
    if rule.effect in ("deny", "ask") and not rule.reason:
        fields.problem(
            "reason",
            "nothing",
            "a sentence that the model, or whoever is asked, can do something with",
            severity="warning",
        )
    if "unknown" in fields and rule.effect in ("allow", "rewrite"):
        expected = "no `unknown`: where it cannot be said whether such a rule holds, it does not"
        fields.problem("unknown", rule.unknown, expected)
    if rule.timeout is not None and rule.effect != "ask":
        fields.problem("timeout", "a timeout", "one where the effect is ask")
    if "approvers" in fields and (rule.effect not in ("ask", "deny") or not rule.approvers):
        expected = "names of groups or globs of principals, where the effect is ask or deny"
        fields.problem("approvers", shortened(fields.value("approvers")), expected)


def _match(fields: Fields | None) -> Match:
    if fields is None:
        return Match()
    fields.only(MATCH_KEYS, strict=True)
    return _inner_match(fields)


def _flags(fields: Fields | None) -> dict[str, frozenset[bool | None]]:
    if fields is None:
        return {}
    fields.only(FLAG_NAMES, strict=True)
    found: dict[str, frozenset[bool | None]] = {}
    for name in FLAG_NAMES:
        if name not in fields:
            continue
        value = fields.value(name)
        values = value if isinstance(value, list) else [value]
        if not values or not all(isinstance(one, bool) or one == "unknown" for one in values):
            fields.problem(name, shortened(value), "true, false or unknown, or a list of them")
            continue
        found[name] = frozenset(None if one == "unknown" else one for one in values)
    return found


def _after(fields: Fields | None) -> After | None:
    if fields is None:
        return None
    fields.only((*MATCH_KEYS, "within", "scope"), strict=True)
    within = seconds_at(fields, "within", LONGEST, NO_LONGER_AGO)
    scope = fields.choice("scope", SCOPES) or ("turn" if within is None else "session")
    _scoped(fields, within, scope)
    return After(match=_inner_match(fields), within=within, scope=scope)  # type: ignore[arg-type]


def _more_than(fields: Fields | None) -> MoreThan | None:
    if fields is None:
        return None
    fields.only((*MATCH_KEYS, "calls", "within", "scope"), strict=True)
    fields.required("calls")
    within = seconds_at(fields, "within", LONGEST, NO_LONGER_AGO)
    scope = fields.choice("scope", SCOPES) or ("turn" if within is None else "session")
    _scoped(fields, within, scope)
    match = _inner_match(fields)
    return MoreThan(
        calls=fields.integer("calls", 0, 1_000_000) or 0,
        within=within,
        scope=scope,  # type: ignore[arg-type]  # one of SCOPES
        match=None if match == Match() else match,
    )


def _scoped(fields: Fields, within: float | None, scope: str) -> None:
    if within is None and scope != "turn":
        fields.problem("scope", scope, "`within` beside it: how long to look back")


def _inner_match(fields: Fields) -> Match:
    globs = {key: _globs(fields, key) for key in GLOB_KEYS}
    return Match(
        **globs,
        provenance=_several(fields, "provenance", PROVENANCES),
        sandbox=_several(fields, "sandbox", SANDBOXES),
        flags=_flags(fields.inner("flags")),
        tainted=fields.truth("tainted"),
        nested=fields.truth("nested"),
    )


def _rewrite(fields: Fields | None) -> Rewrite | None:
    if fields is None:
        return None
    fields.only(("set", "remove"), strict=True)
    inner, values = fields.inner("set"), {}
    if inner is not None:
        for name in list(fields.value("set")):
            if not ARGUMENT.fullmatch(name):
                inner.problem(name, f"the argument {shortened(name)}", "the name of an argument")
            elif (condition := _condition(inner, name, boolean=False)) is not None:
                values[name] = condition
    remove = fields.texts("remove", ARGUMENT)
    if not values and not remove and not fields.failed:
        fields.problem("set", "nothing to set or remove", "one of the two")
    return Rewrite(set=values, remove=remove)


# -- values --------------------------------------------------------------------------


def _condition(fields: Fields, key: str, *, boolean: bool = True) -> Condition | None:
    if key not in fields:
        return None
    value = fields.value(key)
    if value is True or value is False or (not boolean and isinstance(value, int | float)):
        value = str(value).lower() if isinstance(value, bool) else str(value)
    if not isinstance(value, str):
        fields.problem(key, shortened(value), "a condition in CEL, in quotes")
        return None
    try:
        condition = Condition(value)
    except ConditionError as error:
        expected = "CEL, such as `args.to.endsWith('@us.com')`"
        if "escape" in str(error) or "\\" in value:
            expected += (
                "; in a pattern write [.] for a dot, or r'\\.' (docs/policy-rules.md, Traps)"
            )
        fields.problem(key, f"no condition ({error})", expected)
        return None
    if boolean and not condition.is_boolean:
        fields.problem(key, "a condition that is never true or false", "one that is")
        return None
    return condition


def _globs(fields: Fields, key: str) -> tuple[str, ...]:
    value = fields.value(key)
    if isinstance(value, str):
        text = fields.text(key, GLOB)
        return (text,) if text else ()
    return fields.texts(key, GLOB)


def _several(fields: Fields, key: str, known: Sequence[str]) -> tuple[str, ...]:
    if isinstance(fields.value(key), str):
        word = fields.choice(key, known)
        return (word,) if word else ()
    return fields.choices(key, known)


def seconds_at(
    fields: Fields, key: str, most: float, why: str, *, least: float = 0.001
) -> float | None:
    """Return seconds: a number of them, or a text such as ``10m``."""
    value = fields.value(key)
    if value is None:
        return None
    seconds = value
    if isinstance(value, str):
        try:
            seconds = seconds_of(value)
        except ValueError:
            seconds = None
    if type(seconds) not in (int, float):
        fields.problem(key, shortened(value), f"{FORMS}, or a number of seconds")
    elif seconds > most:
        fields.problem(key, shortened(value), f"at most {told(most)}: {why}")
    elif seconds < least:
        fields.problem(key, shortened(value), f"at least {told(least)}")
    else:
        return float(seconds)
    return None
