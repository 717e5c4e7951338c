"""The bench of policy authors: the gateway's own judging, on calls that do not run.

A case that somebody wrote, or a row of the audit, becomes a turn and a call, and these go
through the same `Judge` as those of a gateway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

from hookgate import (
    MAX_ROUNDS,
    Address,
    Agent,
    Effect,
    Flags,
    Message,
    Origin,
    Principal,
    Provenance,
    SessionKey,
    Tool,
    ToolCall,
    ToolOwner,
    Turn,
    TurnPlan,
)
from hookgate.builtin_plugins.policy.judge.engine import Engine, Judgement
from hookgate.builtin_plugins.policy.judge.facts import Facts, History, facts_of
from hookgate.builtin_plugins.policy.judge.judging import Judge
from hookgate.builtin_plugins.policy.rules.linting import KnownTool
from hookgate.builtin_plugins.policy.rules.model import Rule
from hookgate.builtin_plugins.policy.settings import PolicySettings, ProfileName, RuleEffect
from hookgate.catalogue import Snapshot
from hookgate.kit.durations import seconds_of

NOW = 1_000_000.0
"""The time at which cases are judged, and calls explained, in seconds of the history's clock."""

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_EMPTY = Snapshot()
_PLAN = TurnPlan()


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchDecision:
    """What policy says of a call.

    Attributes:
        effect: What follows; ``rewrite`` where it runs with other arguments.
        rule: What decided: ``rule:NAME``, ``deny:GLOB`` of a list, the name of a profile's
            rule, or ``profile:NAME`` where nothing has a say.
        why: Why, for people.
        arguments: The arguments that were judged last.
        rewritten: Whether a rule changed them.
        judgements: What the rules said, one for each round.
    """

    effect: RuleEffect
    rule: str
    why: str = ""
    arguments: Mapping[str, Any]
    rewritten: bool = False
    judgements: tuple[Judgement, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what follows, for programs."""
        return {
            "effect": self.effect,
            "rule": self.rule,
            "why": self.why,
            "arguments": dict(self.arguments),
        }


class Bench:
    """Judges calls that do not run, by settings and rules.

    Attributes:
        settings: The settings.
        engine: The rules.
    """

    def __init__(
        self,
        settings: PolicySettings,
        rules: Sequence[Rule],
        profile: ProfileName | None = None,
    ) -> None:
        """Make ready what the gateway would judge by, under another profile where one is given."""
        if profile is not None:
            settings = settings.model_copy(update={"profile": profile})
        self.settings = settings
        self.engine = Engine(rules)
        self._judge = Judge(settings, self.engine)
        self._others: dict[ProfileName, Bench] = {settings.profile: self}

    def under(self, profile: ProfileName | None) -> Bench:
        """Return the bench of the same rules and lists under another profile."""
        if profile is None:
            return self
        if profile not in self._others:
            self._others[profile] = Bench(self.settings, self.engine.rules, profile)
        return self._others[profile]

    def decide(
        self, facts: Facts, history: History | None = None, now: float = 0.0, *, every: bool = False
    ) -> BenchDecision:
        """Return what follows, after as many rounds as the gateway would judge.

        Args:
            facts: The call.
            history: The calls that were allowed before.
            now: The time of the history's clock, in seconds.
            every: Whether the outcomes of all rules are wanted, of those that fail too.
        """
        try:
            return self._decided(facts, History() if history is None else history, now, every)
        except RuntimeError as error:
            # CEL goes through lists for so many steps at most; a gateway denies where a hook fails.
            why = f"the rules could not be judged ({error}), and what fails is denied"
            return BenchDecision(effect="deny", rule="", why=why, arguments=facts.arguments)

    def _decided(self, facts: Facts, history: History, now: float, every: bool) -> BenchDecision:
        judgements: list[Judgement] = []
        arguments = facts.arguments
        for number in range(MAX_ROUNDS):
            if number:
                facts = replace(facts, arguments=arguments, said=None)
            turn, call = imagined(facts)
            verdict, ruled = self._judge.judge(turn, call, history, now, facts.at, facts.budgets)
            if every:
                wall = self._judge.on_the_wall(facts.at)
                ruled = self.engine.judge(
                    facts_of(turn, call, wall, facts.budgets), history, now, every=True
                )
            judgements.append(ruled)
            if verdict.arguments is not None and verdict.arguments != arguments:
                arguments = verdict.arguments
                rewritten = verdict
                continue
            effect: RuleEffect = verdict.effect.word
            if number and verdict.effect is Effect.ALLOW:
                effect, verdict = "rewrite", rewritten
            return BenchDecision(
                effect=effect,
                rule=verdict.rule,
                why=verdict.ask_for.description if verdict.ask_for else verdict.reason,
                arguments=arguments,
                rewritten=number > 0,
                judgements=tuple(judgements),
            )
        return BenchDecision(
            effect="deny",
            rule="",
            why=f"the arguments were still being rewritten after {MAX_ROUNDS} rounds",
            arguments=arguments,
            rewritten=True,
            judgements=tuple(judgements),
        )


def session_of(text: str) -> SessionKey:
    """Return the session of that key; any other text becomes a session of its own."""
    try:
        return SessionKey.parse(text)
    except ValueError:
        return SessionKey(text, "", "", "")


def imagined(facts: Facts) -> tuple[Turn, ToolCall]:
    """Return a turn and a call of which `facts` hold."""
    session = session_of(facts.session)
    provenance = Provenance(facts.provenance)
    turn = Turn(
        id=facts.turn or "turn",
        session=session,
        agent=Agent(name=facts.agent, models=()),
        address=Address(facts.channel, facts.account, facts.peer),
        principal=Principal(id=facts.principal),
        origin=Origin(provenance=provenance),
        message=Message(role="user", parts=(), provenance=provenance, id="message", created=_NEVER),
        snapshot=_EMPTY,
        plan=_PLAN,
        extra_taint=facts.taint,
        started=_NEVER,
    )
    tool = Tool(
        name=facts.tool,
        description="",
        schema={},
        flags=facts.flags,
        plugin=facts.plugin,
        sandbox=cast("Any", facts.sandbox),
        owner=cast("ToolOwner", facts.owner),
    )
    call = ToolCall(
        id="call",
        tool=tool,
        arguments=facts.arguments,
        depth=facts.depth,
        index=facts.index,
        said=facts.said,
    )
    return turn, call


def declaring(flags: Flags, said: Mapping[str, bool | None]) -> Flags:
    """Return `flags` with what is said of some of them, by either spelling of their names.

    Raises:
        ValueError: There is no such flag.
    """
    values = flags.to_json()
    for name, value in said.items():
        own = Flags.from_mapping({name: True}).to_json()
        values |= {known: value for known, is_it in own.items() if is_it}
    return Flags.from_mapping(values) if said else flags


def facts_known(tool: str, known: Callable[[str], KnownTool | None]) -> Facts:
    """Return what is known of a tool."""
    found = known(tool)
    return replace(found.call if found else Facts(tool=tool), at=datetime.now(UTC))


def history_of(
    call: Facts, before: Sequence[str], known: Callable[[str], KnownTool | None]
) -> tuple[Facts, History]:
    """Return a call with its place in its turn, and what was called before it.

    Args:
        call: The call, at the time `NOW`.
        before: Tools that were called in this turn, or with ``@10m`` so long ago in another one of
            the session; the oldest first.
        known: Returns what is known of a tool.

    Raises:
        ValueError: A time is written otherwise.
    """
    happened: list[tuple[float, Facts]] = []
    for number, item in enumerate(before):
        name, mark, text = item.partition("@")
        earlier = replace(
            facts_known(name, known),
            agent=call.agent,
            channel=call.channel,
            session=call.session,
            provenance=call.provenance,
            taint=frozenset() if mark else call.taint,
            turn=f"turn {number}" if mark else call.turn,
        )
        happened.append((NOW - (seconds_of(text) if mark else 0.0), recorded(earlier)))
    history = History()
    for at, one in sorted(happened, key=lambda each: each[0]):
        history.add(at, one)
    return replace(call, index=sum(one.turn == call.turn for _, one in happened)), history


def recorded(facts: Facts) -> Facts:
    """Return facts as the gateway would remember them."""
    return facts_of(*imagined(facts))


def explained(bench: Bench, facts: Facts, history: History) -> dict[str, Any]:
    """Return what every rule says of a call at the time `NOW`, and which one decides."""
    found = bench.decide(facts, history, NOW, every=True)
    return {
        "tool": facts.tool,
        "flags": facts.flags.to_json(),
        "profile": bench.settings.profile,
        "rules": [
            {
                "rule": one.rule.name,
                "place": one.rule.place,
                "mode": one.rule.mode,
                "state": one.state,
                "effect": one.effect or "",
                "why": one.why,
            }
            for one in (found.judgements[-1].outcomes if found.judgements else ())
        ],
        "decided": found.to_json(),
    }
