"""From a call to a verdict: the operator's overrides first, then the profile."""

from __future__ import annotations

import re
from fnmatch import translate
from typing import TYPE_CHECKING

from hookgate.builtin_plugins.policy.profiles import Circumstances, Rule, judge
from hookgate.core.descriptors import FLAG_NAMES
from hookgate.core.tools import Ask, Effect, Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hookgate.builtin_plugins.policy.settings import PolicySettings
    from hookgate.core.tools import ToolCall
    from hookgate.core.turn import Turn

__all__ = ["Globs", "Judge"]


class Globs:
    """Globs of tool names, compiled."""

    def __init__(self, globs: Sequence[str]) -> None:
        self._globs = {glob: re.compile(translate(glob)) for glob in globs}

    def match(self, name: str) -> str | None:
        """Return the first glob that `name` fits, or None."""
        return next((glob for glob, regex in self._globs.items() if regex.match(name)), None)

    def idle(self, names: Collection[str]) -> list[str]:
        """Return the globs that none of `names` fits."""
        return [
            glob
            for glob, regex in self._globs.items()
            if not any(regex.match(name) for name in names)
        ]


class Judge:
    """Judges calls by the settings. Holds nothing that changes."""

    def __init__(self, settings: PolicySettings) -> None:
        self._settings = settings
        # From the strictest to the mildest: the first list that names a tool counts.
        self._overrides = (
            (Effect.DENY, "deny", Globs(settings.deny)),
            (Effect.ASK, "ask", Globs(settings.ask)),
            (Effect.ALLOW, "allow", Globs(settings.allow)),
        )

    def judge(self, turn: Turn, call: ToolCall) -> Verdict:
        """Return the verdict on `call`. There always is one: policy never abstains."""
        for effect, key, globs in self._overrides:
            if glob := globs.match(call.name):
                return self._overridden(turn, call, effect, f"{key}:{glob}")
        circumstances = Circumstances(provenance=turn.origin.provenance, tainted=bool(turn.taint))
        rule = judge(self._settings.profile, call.flags, circumstances)
        if rule is None:
            return Verdict.allow(rule=f"profile:{self._settings.profile}")
        if rule.effect is Effect.DENY:
            return Verdict.deny(f"{call.name} is not run: {rule.why}", rule=rule.name)
        return Verdict.ask(self._ask(turn, call, rule.why, rule), rule=rule.name)

    def idle_globs(self, names: Collection[str]) -> list[tuple[str, str]]:
        """Return ``(key, glob)`` of each override that names none of the tools `names`."""
        return [(key, glob) for _, key, globs in self._overrides for glob in globs.idle(names)]

    def _overridden(self, turn: Turn, call: ToolCall, effect: Effect, rule: str) -> Verdict:
        match effect:
            case Effect.DENY:
                return Verdict.deny(
                    f"{call.name} is not run: the operator's settings deny it", rule=rule
                )
            case Effect.ASK:
                why = "the operator's settings ask about it each time"
                return Verdict.ask(self._ask(turn, call, why, None), rule=rule)
            case Effect.ALLOW:
                return Verdict.allow("the operator's settings allow it", rule=rule)

    def _ask(self, turn: Turn, call: ToolCall, why: str, rule: Rule | None) -> Ask:
        flags = ", ".join(
            f"{name} {_word(call.flags.get(name))} ({call.flags.standing(name)})"
            for name in FLAG_NAMES
        )
        lines = [
            f"{call.name} is to run: {why}.",
            f"It is brought by {call.tool.plugin or 'an unnamed plugin'}; {flags}.",
            f"The turn came in as {turn.origin.provenance.value}.",
        ]
        if turn.taint:
            lines.append(f"It has read from {', '.join(sorted(turn.taint))}.")
        return Ask(
            # A tool's name has at most 64 characters, a title at most 80.
            title=f"May {call.name} run?",
            description="\n".join(lines),
            severity=rule.severity if rule else "warning",
            timeout=self._settings.approvals.timeout_seconds,
        )


def _word(value: bool | None) -> str:
    return "unknown" if value is None else "yes" if value else "no"
