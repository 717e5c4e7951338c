"""From a call to a verdict: the settings' lists and the rules, then the profile."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from fnmatch import translate
from typing import Any
from zoneinfo import ZoneInfo

from hookgate import FLAG_NAMES, Ask, EffectName, Flags, Recheck, Taint, ToolCall, Turn, Verdict
from hookgate.builtin_plugins.policy.judge.engine import STRICTNESS, Engine, Judgement, RuleOutcome
from hookgate.builtin_plugins.policy.judge.facts import Budgets, History, facts_of
from hookgate.builtin_plugins.policy.rules.profiles import Circumstances, ProfileRule, judge
from hookgate.builtin_plugins.policy.settings import PolicySettings, RuleEffect

MEMO = 4096
"""Declarations in their circumstances for which what the profile says is remembered."""

_NOTHING = Judgement()


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
    """Judges calls by the settings and by rules. The same call always gets the same verdict.

    Attributes:
        engine: The rules.
    """

    def __init__(
        self,
        settings: PolicySettings,
        engine: Engine | None = None,
        recheck: Recheck | None = None,
    ) -> None:
        """Judge by `settings` and `engine`; `recheck` goes with each verdict."""
        self.engine = engine or Engine(())
        self._settings = settings
        self._recheck = recheck
        self._zone = ZoneInfo(settings.zone)
        self._allowed = Verdict.allow(rule=f"profile:{settings.profile}", recheck=recheck)
        self._known: dict[tuple[Flags, Circumstances], ProfileRule | None] = {}
        self._overrides = tuple(
            (effect.word, Globs(globs)) for effect, globs in settings.lists if globs
        )

    def judge(
        self,
        turn: Turn,
        call: ToolCall,
        history: History | None = None,
        now: float = 0.0,
        at: datetime | None = None,
        budgets: Budgets | None = None,
    ) -> tuple[Verdict, Judgement]:
        """Return the verdict on `call`, and what the rules said.

        There always is a verdict: policy never abstains. The strictest of the settings' lists
        and the rules counts; where none of them has a say, the profile does.

        Args:
            turn: The turn.
            call: The call.
            history: The calls that were allowed before.
            now: The time of the history's clock, in seconds.
            at: The time; one without a zone is what the clock on the wall shows.
            budgets: What is left of those that the rules ask about.
        """
        tool = call.tool
        if not self.engine.concerns(tool.name, tool.plugin, tool.sandbox, call.flags, tool.owner):
            return self._verdict(turn, call, _NOTHING, turn.taint), _NOTHING
        facts = facts_of(turn, call, self.on_the_wall(at), budgets)
        ruled = self.engine.judge(facts, history or History(), now)
        return self._verdict(turn, call, ruled, facts.taint), ruled

    def on_the_wall(self, at: datetime | None) -> datetime | None:
        """Return a time as the clock on the wall of the settings' zone shows it."""
        return at if at is None or at.tzinfo is None else at.astimezone(self._zone)

    def _verdict(self, turn: Turn, call: ToolCall, ruled: Judgement, taint: Taint) -> Verdict:
        said = ruled.decisive
        strict = STRICTNESS[said.effect] if said is not None and said.effect else -1
        for key, globs in self._overrides:
            if STRICTNESS[key] < strict:
                break  # a rule is stricter than what is still to come
            if glob := globs.match(call.name):
                verdict = self._overridden(turn, call, key, f"{key}:{glob}")
                return _narrowed(verdict, ruled)
        if said is not None and said.effect:
            return _narrowed(self._ruled(turn, call, said, ruled.arguments), ruled)
        client = call.said
        circumstances = Circumstances(
            provenance=turn.origin.provenance,
            tainted=bool(taint),
            owner=call.tool.owner,
            said=client is not None,
            confined=client is not None and client.confined,
        )
        rule = self._profiled(call.flags, circumstances)
        if rule is None:
            return self._allowed
        return self._made(turn, call, rule.effect.word, rule.why, rule.name, severity=rule.severity)

    def _profiled(self, flags: Flags, circumstances: Circumstances) -> ProfileRule | None:
        key = (flags, circumstances)
        try:
            return self._known[key]
        except KeyError:
            if len(self._known) >= MEMO:
                self._known.clear()
            rule = self._known[key] = judge(self._settings.profile, flags, circumstances)
            return rule

    def _ruled(
        self, turn: Turn, call: ToolCall, said: RuleOutcome, arguments: Mapping[str, Any] | None
    ) -> Verdict:
        rule, name = said.rule, f"rule:{said.rule.name}"
        why = rule.reason or rule.description or f"the rule {rule.name} says so"
        if said.state == "unknown":
            why = f"{why} ({said.why})"
        if said.effect == "rewrite" and arguments is not None:
            return Verdict.rewrite(arguments, reason=why, rule=name)
        timeout = rule.timeout or self._settings.approvals.timeout_seconds
        return self._made(
            turn, call, said.effect or "deny", why, name, severity=rule.severity, timeout=timeout
        )

    def _overridden(self, turn: Turn, call: ToolCall, effect: EffectName, rule: str) -> Verdict:
        why = f"the operator's settings {effect} it"
        if effect == "ask":
            why = "the operator's settings ask about it each time"
        # Each time is each time: nothing stands in for the person.
        return self._made(turn, call, effect, why, rule, choices=("allow-once", "deny"))

    def _made(
        self,
        turn: Turn,
        call: ToolCall,
        effect: RuleEffect,
        why: str,
        rule: str,
        **question: Any,
    ) -> Verdict:
        """Return the verdict of an effect; `question` is how an ask differs from the usual one."""
        match effect:
            case "deny":
                return Verdict.deny(f"{call.name} is not run: {why}", rule=rule)
            case "ask":
                ask = replace(self._ask(turn, call, why), **question)
                return Verdict.ask(ask, rule=rule, recheck=self._recheck)
            case "allow" | "rewrite":
                return Verdict.allow(why, rule=rule, recheck=self._recheck)

    def idle_globs(self, names: Collection[str]) -> list[tuple[str, str]]:
        """Return ``(key, glob)`` of each override that names none of the tools `names`."""
        return [(key, glob) for key, globs in self._overrides for glob in globs.idle(names)]

    def _ask(self, turn: Turn, call: ToolCall, why: str) -> Ask:
        flags = ", ".join(
            f"{name} {_word(call.flags.get(name))} ({call.flags.standing(name)})"
            for name in FLAG_NAMES
        )
        lines = [
            f"{call.name} is to run: {why}.",
            f"It is brought by {call.tool.plugin or 'an unnamed plugin'}; {flags}.",
            f"The turn came in as {turn.origin.provenance.value}.",
        ]
        if call.said is not None and call.said.why:
            lines.append(f"What it does: {call.said.why}.")
        if turn.taint:
            lines.append(f"It has read from {', '.join(sorted(turn.taint))}.")
        return Ask(
            # A tool's name has at most 64 characters, a title at most 80.
            title=f"May {call.name} run?",
            description="\n".join(lines),
            timeout=self._settings.approvals.timeout_seconds,
            choices=(
                ("allow-once", "deny")
                if self._settings.approvals.always == "off"
                else ("allow-once", "allow-always", "deny")
            ),
        )


def _narrowed(verdict: Verdict, ruled: Judgement) -> Verdict:
    """Return a verdict that asks with the approvers of all rules that ask."""
    if verdict.ask_for is None or not (lists := ruled.approvers):
        return verdict
    told = "; ".join(", ".join(names) for names in lists)
    description = f"{verdict.ask_for.description}\nWho may answer: {told}."
    ask = replace(verdict.ask_for, approvers=lists, description=description)
    return replace(verdict, ask_for=ask)


def _word(value: bool | None) -> str:
    return "unknown" if value is None else "yes" if value else "no"
