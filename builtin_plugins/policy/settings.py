"""The settings of policy: ``[plugin.policy]``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator

from hookgate import LONGEST_ASK, Effect, Section
from hookgate.kit.durations import Days, Seconds, told

LONGEST_QUESTION = LONGEST_ASK
"""Seconds that a question waits at most."""

WHY_NO_LONGER = "its call and its session wait for a question, and a turn has no longer deadline"

RuleEffect: TypeAlias = Literal["allow", "rewrite", "ask", "deny"]
"""What follows where a rule holds, from the mildest to the strictest: the strictest counts."""
ProfileName: TypeAlias = Literal["open", "balanced", "guarded", "strict"]


class ApprovalSettings(Section):
    """``[plugin.policy.approvals]``: how people are asked."""

    timeout_seconds: Seconds = Field(default=120.0, gt=0)
    """After so long nobody's answer means deny: seconds, or a text such as `5m`; at most `7d`. The
    deadline of the turn counts as well, `[turn] deadline_seconds`."""
    unattended: Literal["deny", "wait"] = "deny"
    """What to do where nobody who may approve is connected: deny at once, or wait all the
    same for somebody who comes and looks."""
    approvers: tuple[str, ...] | None = None
    """Globs of the ids of principals who may answer. Left out, every principal with the scope
    `approve` may; an empty list means nobody."""
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Names for lists of such globs. `approvers` here and in rules takes them as well."""
    self_approval: bool = True
    """Whether somebody may approve a call that their own message led to."""
    always: Literal["off", "arguments", "tool"] = "arguments"
    """How far an answer may reach beyond the one call: not at all, to the same arguments in the
    same session, or to any arguments of the same tool in the same session."""
    always_days: Days = Field(default=30.0, gt=0, le=3650)
    """After so many days, or a text such as `12h`, what was allowed always is asked about again."""

    @field_validator("timeout_seconds")
    @classmethod
    def _not_too_long(cls, seconds: float) -> float:
        if seconds > LONGEST_QUESTION:
            raise ValueError(f"expected at most {told(LONGEST_QUESTION)}: {WHY_NO_LONGER}")
        return seconds


class PolicySettings(Section):
    """``[plugin.policy]``: what tool calls may do."""

    profile: ProfileName = "balanced"
    """The rules that stand where nothing below says otherwise."""
    allow: tuple[str, ...] = ()
    """Globs of tool names that run, whatever the profile says."""
    ask: tuple[str, ...] = ()
    """Globs of tool names that a person is asked about each time; beats `allow`."""
    deny: tuple[str, ...] = ()
    """Globs of tool names that never run; beats `ask` and `allow`."""
    zone: str = "UTC"
    """The time zone of `now` in conditions of rules, such as `Europe/Berlin`."""
    rules: tuple[Path, ...] = ()
    """Files and folders of rules in YAML. They come before the profile, and none of them can
    allow what `deny` names."""
    pin_tools: Literal["others", "all", "off"] = "others"
    """Whose tools are held against the digest that was accepted: those that do not come with
    hookgate, all, or none."""
    approvals: ApprovalSettings = ApprovalSettings.by_default()

    @field_validator("zone")
    @classmethod
    def _is_a_zone(cls, zone: str) -> str:
        try:
            ZoneInfo(zone)
        except (ValueError, OSError, KeyError):
            raise ValueError(f"found {zone!r}, expected a zone such as Europe/Berlin") from None
        return zone

    @property
    def lists(self) -> tuple[tuple[Effect, tuple[str, ...]], ...]:
        """The globs of each effect, from the strictest on: the first that names a tool counts."""
        return tuple(
            (effect, getattr(self, effect.word)) for effect in sorted(Effect, reverse=True)
        )
