"""Which profile suits a set of tools: said with reasons, and never chosen by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hookgate import FLAG_NAMES

if TYPE_CHECKING:
    from hookgate.builtin_plugins.policy.settings import ProfileName

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
