"""The four profiles: which declaration, in which circumstances, leads to which verdict.

A rule looks at one flag. What a tool leaves undeclared is unknown, and no rule of
``balanced``, ``guarded`` or ``strict`` takes unknown for false. Where several rules apply, the
strictest one counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, Literal, TypeAlias

from hookgate import FLAG_NAMES, Effect, Flags, Provenance, ToolOwner
from hookgate.builtin_plugins.policy.rules.model import After, Match, MoreThan, Rule
from hookgate.builtin_plugins.policy.settings import PolicySettings, ProfileName
from hookgate.wire import canonical

When: TypeAlias = Literal[
    "always", "tainted", "tainted_unconfined", "inter_session", "scheduled", "not_external_user"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What the rules look at beside the flags.

    Attributes:
        provenance: How the turn came in.
        tainted: Whether the turn has read anything that somebody else wrote.
        owner: Who runs the tool.
        said: Whether a plugin knows what this very call of a client's does.
        confined: Whether it says that all that the call writes stays in the client's workspace.
    """

    provenance: Provenance
    tainted: bool = False
    owner: ToolOwner = "host"
    said: bool = False
    confined: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRule:
    """One line of a profile.

    Attributes:
        name: Stands in verdicts, in the audit and in the documentation.
        flag: The flag that it looks at.
        values: The values of the flag that it is about; None is undeclared.
        when: The circumstances that it is about.
        effect: What follows.
        why: What the tool could do, for the person who is asked and the model that is denied.
        severity: How an ask is shown.
    """

    name: str
    flag: str
    values: frozenset[bool | None]
    when: When
    effect: Effect
    why: str
    severity: Literal["info", "warning", "critical"] = "warning"

    def applies(self, flags: Flags, circumstances: Circumstances) -> bool:
        """Whether this rule is about such a call."""
        if flags.get(self.flag) not in self.values:
            return False
        match self.when:
            case "always":
                return True
            case "tainted":
                return circumstances.tainted
            case "tainted_unconfined":
                return circumstances.tainted and not circumstances.confined
            case "inter_session":
                return circumstances.provenance is Provenance.INTER_SESSION
            case "scheduled":
                return circumstances.provenance is Provenance.SCHEDULED
            case "not_external_user":
                return circumstances.provenance is not Provenance.EXTERNAL_USER


_TRUE: frozenset[bool | None] = frozenset((True,))
_UNKNOWN: frozenset[bool | None] = frozenset((None,))
_TRUE_OR_UNKNOWN = _TRUE | _UNKNOWN

_BALANCED = (
    ProfileRule(
        name="privileged-without-a-person",
        flag="executes_privileged",
        values=_TRUE,
        when="not_external_user",
        effect=Effect.DENY,
        why="it acts with raised rights, and no person's message led to this",
    ),
    ProfileRule(
        name="privileged-after-foreign-text",
        flag="executes_privileged",
        values=_TRUE,
        when="tainted",
        effect=Effect.ASK,
        why="it acts with raised rights, and this turn has read text that somebody else wrote",
        severity="critical",
    ),
    ProfileRule(
        name="privileged",
        flag="executes_privileged",
        values=_TRUE,
        when="always",
        effect=Effect.ASK,
        why="it acts with raised rights",
        severity="critical",
    ),
    ProfileRule(
        name="privileged-unknown",
        flag="executes_privileged",
        values=_UNKNOWN,
        when="always",
        effect=Effect.ASK,
        why="it does not say whether it acts with raised rights",
    ),
    ProfileRule(
        name="send-after-foreign-text",
        flag="sends_externally",
        values=_TRUE_OR_UNKNOWN,
        when="tainted",
        effect=Effect.ASK,
        why="it can carry data out, and this turn has read text that somebody else wrote",
        severity="critical",
    ),
    ProfileRule(
        name="send-between-sessions",
        flag="sends_externally",
        values=_TRUE_OR_UNKNOWN,
        when="inter_session",
        effect=Effect.ASK,
        why="it can carry data out, and another session asked for it",
    ),
    ProfileRule(
        name="send-by-schedule",
        flag="sends_externally",
        values=_TRUE_OR_UNKNOWN,
        when="scheduled",
        effect=Effect.ASK,
        why="it can carry data out, and a schedule and no person's message led to this",
    ),
    ProfileRule(
        name="autonomous-without-a-person",
        flag="creates_autonomous_actions",
        values=_TRUE_OR_UNKNOWN,
        when="not_external_user",
        effect=Effect.ASK,
        why="it makes something that acts later by itself, and no person's message led to this",
    ),
    ProfileRule(
        name="write-after-foreign-text",
        flag="writes_persistent_state",
        values=_TRUE_OR_UNKNOWN,
        when="tainted",
        effect=Effect.ASK,
        why="what it writes outlives this turn, which has read text that somebody else wrote",
    ),
)

_SEND = ProfileRule(
    name="send",
    flag="sends_externally",
    values=_TRUE,
    when="always",
    effect=Effect.ASK,
    why="it can carry data out",
)
_AUTONOMOUS = ProfileRule(
    name="autonomous",
    flag="creates_autonomous_actions",
    values=_TRUE,
    when="always",
    effect=Effect.ASK,
    why="it makes something that acts later by itself",
)

_GUARDED = (
    *(rule for rule in _BALANCED if rule.name != "write-after-foreign-text"),
    replace(_SEND, name="send-or-unknown", values=_TRUE_OR_UNKNOWN),
    replace(_AUTONOMOUS, name="autonomous-or-unknown", values=_TRUE_OR_UNKNOWN),
    ProfileRule(
        name="write-beyond-the-workspace",
        flag="writes_persistent_state",
        values=_TRUE_OR_UNKNOWN,
        when="tainted_unconfined",
        effect=Effect.ASK,
        why="nothing says that what it writes stays in the workspace, and this turn has read text "
        "that somebody else wrote",
    ),
)

_STRICT = (
    *_BALANCED,
    *(
        ProfileRule(
            name=f"undeclared-{flag.replace('_', '-')}",
            flag=flag,
            values=_UNKNOWN,
            when="always",
            effect=Effect.ASK,
            why=f"it does not declare {flag}",
        )
        for flag in FLAG_NAMES
    ),
    _SEND,
    _AUTONOMOUS,
)

PROFILES: Mapping[ProfileName, tuple[ProfileRule, ...]] = {
    "open": (),
    "balanced": _BALANCED,
    "guarded": _GUARDED,
    "strict": _STRICT,
}
"""The rules of each profile. A call that no rule is about is allowed."""


def judge(profile: ProfileName, flags: Flags, circumstances: Circumstances) -> ProfileRule | None:
    """Return the strictest rule of `profile` that is about such a call; None allows it."""
    if circumstances.owner == "client" and not circumstances.said:
        flags = _of_client(flags)
    applying = [rule for rule in PROFILES[profile] if rule.applies(flags, circumstances)]
    # max() keeps the first of equals: the order of the table is the order of reasons.
    return max(applying, key=lambda rule: rule.effect, default=None)


def _of_client(flags: Flags) -> Flags:
    """Return what is judged of a client's tool of which nobody knows more: that it sends.

    The arguments leave to the client. It runs with the client's rights and not with the
    gateway's. What it says to do counts.
    """
    privileged = flags.executes_privileged or False
    return replace(flags, sends_externally=True, executes_privileged=privileged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell of a profile's table: flag, value, circumstances, and the rule that decides."""

    flag: str
    value: bool | None
    circumstances: Circumstances
    rule: ProfileRule | None

    @property
    def effect(self) -> Effect:
        """What follows."""
        return self.rule.effect if self.rule else Effect.ALLOW

    @property
    def rule_name(self) -> str:
        """The name of the rule; "" where none is about such a call."""
        return self.rule.name if self.rule else ""


def cells(profile: ProfileName) -> Iterator[Cell]:
    """Yield the whole table of a profile, each flag for itself, all others declared false."""
    for flag, value, provenance, tainted in product(
        FLAG_NAMES, (True, False, None), Provenance, (False, True)
    ):
        circumstances = Circumstances(provenance=provenance, tainted=tainted)
        declared = Flags.from_mapping({**Flags.none().to_json(), flag: value})
        rule = judge(profile, declared, circumstances)
        yield Cell(flag=flag, value=value, circumstances=circumstances, rule=rule)


# -- suggesting ------------------------------------------------------------------

# Which profile suits a set of tools: said with reasons, and never chosen by itself.

ACTS = ("sends_externally", "executes_privileged", "creates_autonomous_actions")
"""What cannot be taken back once it was done to somebody else."""

NAMED = 5
"""So many tools are named in a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A profile that suits.

    Attributes:
        profile: Its name.
        reasons: Why, a sentence each.
    """

    profile: ProfileName
    reasons: tuple[str, ...]


def suggest(tools: Mapping[str, Mapping[str, bool | None]]) -> Suggestion:
    """Return the profile that suits `tools`.

    ``strict`` where a tool runs commands, or where more than a third leave something open; else
    ``balanced``. ``open`` is never suggested: where it would do today, ``balanced`` asks about
    nothing either, and is ready for the next tool that is installed.

    Args:
        tools: The five flags of each tool, by name; None is undeclared.
    """
    silent = [name for name, flags in tools.items() if None in _values(flags, FLAG_NAMES)]
    powerful = [name for name, flags in tools.items() if flags.get("executes_privileged")]
    acting = [name for name, flags in tools.items() if True in _values(flags, ACTS)]
    reasons: list[str] = []
    if powerful:
        reasons.append(f"{_some(powerful)} run commands, or act with raised rights.")
    if silent:
        reasons.append(f"{_some(silent)} do not declare all of what they do.")
    if acting and not powerful:
        reasons.append(f"{_some(acting)} can send something out, or act later by themselves.")
    if powerful or 3 * len(silent) > len(tools):
        return Suggestion(profile="strict", reasons=tuple(reasons))
    if tools and not (silent or acting):
        reasons.append("No tool sends anything out, runs commands, or acts later by itself.")
    return Suggestion(profile="balanced", reasons=tuple(reasons))


def _values(flags: Mapping[str, bool | None], names: tuple[str, ...]) -> list[bool | None]:
    return [flags.get(name) for name in names]


def _some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(sorted(names)[:NAMED]) + more


# -- what is in force, as one digest -----------------------------------------------

_LATER = frozenset(("owner",))


def _plain(match: Match | None) -> dict[str, Any]:
    if match is None:
        return {}
    said = {item.name: getattr(match, item.name) for item in fields(Match)}
    # What a rule does not say leaves its digest as it was before there was such a part: grants
    # are bound to it.
    said = {name: value for name, value in said.items() if value or name not in _LATER}
    flags = {name: sorted(map(str, values)) for name, values in match.flags.items()}
    return {**said, "flags": flags}


def _after(part: After | MoreThan | None) -> dict[str, Any]:
    if part is None:
        return {}
    said = {"within": part.within, "scope": part.scope, "match": _plain(part.match)}
    return {**said, "calls": part.calls} if isinstance(part, MoreThan) else said


def said(rule: Rule) -> dict[str, Any]:
    """Return what a rule says, without where it stands."""
    more = {}
    if rule.not_ is not None:
        more["not"] = _plain(rule.not_)
    if rule.unless is not None:
        more["unless"] = {"after": _after(rule.unless.after)}
    return {
        **more,
        "name": rule.name,
        "effect": rule.effect,
        "mode": rule.mode,
        "reason": rule.reason,
        "match": _plain(rule.match),
        "when": rule.when.text if rule.when else "",
        "after": _after(rule.after),
        "more_than": _after(rule.more_than),
        "unknown": rule.when_unknown,
        "approvers": list(rule.approvers),
        "set": {name: one.text for name, one in rule.rewrite.set.items()} if rule.rewrite else {},
        "remove": list(rule.rewrite.remove) if rule.rewrite else [],
    }


def policy_version(settings: PolicySettings, rules: str) -> str:
    """Return SHA-256 (hex) of the settings, of the profile's table and of the rules.

    Args:
        settings: The whole section.
        rules: The digest of the rules.
    """
    table = [
        [
            cell.flag,
            cell.value,
            cell.circumstances.provenance.value,
            cell.circumstances.tainted,
            cell.effect.name,
            cell.rule_name,
        ]
        for cell in cells(settings.profile)
    ]
    said = {"settings": settings.model_dump(mode="json"), "table": table, "rules": rules}
    return hashlib.sha256(canonical(said)).hexdigest()
