"""What rules say as JSON, and the digest of what is in force: answers of other rules are void."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import Any

from hookgate.builtin_plugins.policy.rules.model import After, Match, MoreThan, Rule
from hookgate.builtin_plugins.policy.rules.profiles import cells
from hookgate.builtin_plugins.policy.settings import PolicySettings
from hookgate.wire import canonical

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


# -- version ---------------------------------------------------------------------

# What is in force, as one digest: an answer that was given under other rules is void.


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
