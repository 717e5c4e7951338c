"""What policy looks at: one call, as it would run, and what came before it.

The same facts come from a running turn, from a case that a policy author wrote, and from a row
of the audit, so that a decision can be explained, tested and replayed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from hookgate import FLAG_NAMES, ClientCallFlags, Flags, ToolCall, Turn

if TYPE_CHECKING:
    from hookgate.builtin_plugins.policy.rules.model import Match, Scope

KEPT = 10_000
"""Calls that are remembered for rules about windows; the oldest one goes first."""

Budgets: TypeAlias = Mapping[str, Mapping[str, float]]
"""What is left of budgets, by name."""

LONGEST = 86_400.0
"""Seconds that a window may reach back at most."""


# Not frozen: one is made for each call that is judged, and that would take three times as long.
@dataclass(slots=True, kw_only=True)
class Facts:
    """One call, and the circumstances in which it would run. Nobody changes one.

    Attributes:
        tool: The tool's name.
        arguments: Its arguments.
        flags: What the tool declares; None is undeclared.
        plugin: Who brought the tool.
        sandbox: Where it runs.
        owner: ``host`` or ``client``.
        agent: Who calls it.
        channel: Where the message came from.
        account: The account on that channel.
        peer: Who wrote it.
        principal: Who authenticated.
        session: The session's key.
        turn: The turn's id.
        provenance: How the turn came in.
        taint: Where untrusted text in the turn came from.
        depth: 0 in a turn that a person started.
        index: The call's place among the calls of its turn.
        redacted: Paths of arguments that are masked, where the facts come from the audit.
        at: When it is judged, by the clock on the wall of the settings' zone; None where that is
            not known.
        said: What plugins know of this very call of a client's.
        budgets: What is left of each budget that rules ask about, as `BUDGETS` tells it.
    """

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    flags: Flags = field(default_factory=Flags)
    plugin: str = ""
    sandbox: str = "python"
    owner: str = "host"
    agent: str = "main"
    channel: str = "cli"
    account: str = "local"
    peer: str = "main"
    principal: str = "loopback"
    session: str = ""
    turn: str = ""
    provenance: str = "external_user"
    taint: frozenset[str] = frozenset()
    depth: int = 0
    index: int = 0
    redacted: tuple[str, ...] = ()
    at: datetime | None = None
    said: ClientCallFlags | None = None
    budgets: Budgets = field(default_factory=dict)

    def for_conditions(self) -> dict[str, Any]:
        """Return the variables of conditions.

        What is undeclared is left out: asked for, it makes a condition undecidable. As a null
        it would compare as not true, and a rule that it should stop would not.
        """
        return {
            "args": dict(self.arguments),
            "tool": {
                "name": self.tool,
                "plugin": self.plugin,
                "sandbox": self.sandbox,
                "owner": self.owner,
                "flags": dict(_declared(self.flags)),
            },
            "turn": {
                "agent": self.agent,
                "channel": self.channel,
                "account": self.account,
                "peer": self.peer,
                "principal": self.principal,
                "session": self.session,
                "provenance": self.provenance,
                "tainted": bool(self.taint),
                "taint": sorted(self.taint),
                "depth": self.depth,
                "index": self.index,
            },
            "now": {} if self.at is None else _wall(self.at),
            "budget": {name: dict(left) for name, left in self.budgets.items()},
        }


def _wall(at: datetime) -> dict[str, Any]:
    return {
        "hour": at.hour,
        "minute": at.minute,
        "weekday": at.isoweekday(),
        "date": at.date().isoformat(),
        "time": f"{at:%H:%M}",
    }


@lru_cache(maxsize=1024)
def _declared(flags: Flags) -> tuple[tuple[str, bool], ...]:
    values = ((name, flags.get(name)) for name in FLAG_NAMES)
    return tuple((name, value) for name, value in values if value is not None)


def facts_of(
    turn: Turn, call: ToolCall, at: datetime | None = None, budgets: Budgets | None = None
) -> Facts:
    """Return the facts of a call that is to run at a time on the wall, with what is left then."""
    return Facts(
        tool=call.name,
        arguments=call.arguments,
        flags=call.flags,
        plugin=call.tool.plugin,
        sandbox=call.tool.sandbox,
        owner=call.tool.owner,
        agent=turn.agent.name,
        channel=turn.address.channel,
        account=turn.address.account,
        peer=turn.address.peer,
        principal=turn.principal.id,
        session=str(turn.session),
        turn=turn.id,
        provenance=turn.origin.provenance.value,
        taint=turn.taint,
        depth=call.depth,
        index=call.index,
        at=at,
        said=call.said,
        budgets=budgets or {},
    )


@dataclass(slots=True, kw_only=True)
class Happened:
    """A call that was allowed.

    Attributes:
        at: When, in seconds of a clock that never goes backwards.
        facts: The call.
        done: Whether it did what it was to do, as far as that is known.
        call: Its id, while it has not come to its end.
    """

    at: float
    facts: Facts
    done: bool = True
    call: str = ""


class History:
    """The calls that were allowed, for rules about what came before. It lives in the process.

    A restart empties it; what a session has read stays known by its taint, which is stored.

    Attributes:
        added: How many there were, those that are forgotten counted.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self.added = 0
        self._kept = kept
        self._calls: deque[Happened] = deque()
        self._sessions: dict[str, deque[Happened]] = {}
        self._turns: dict[str, deque[Happened]] = {}
        self._begun: dict[tuple[str, str], Happened] = {}

    def add(self, at: float, facts: Facts, *, call: str = "", done: bool = True) -> None:
        """Remember a call that was allowed at `at`.

        Args:
            at: Seconds of the clock.
            facts: The call.
            call: Its id, where `finished` will tell of its end.
            done: Whether it did what it was to do.
        """
        self.added += 1
        happened = Happened(at=at, facts=facts, done=done and not call, call=call)
        if call:
            self._begun[facts.turn, call] = happened
        self._calls.append(happened)
        self._sessions.setdefault(facts.session, deque()).append(happened)
        self._turns.setdefault(facts.turn, deque()).append(happened)
        while self._calls[0].at < at - LONGEST or len(self._calls) > self._kept:
            gone = self._calls.popleft()
            oldest = gone.facts
            _drop_first(self._sessions, oldest.session)
            _drop_first(self._turns, oldest.turn)
            if gone.call:
                self._begun.pop((oldest.turn, gone.call), None)

    def finished(self, turn: str, call: str, *, done: bool) -> None:
        """Note what became of a call that was added with its id."""
        if (happened := self._begun.pop((turn, call), None)) is not None:
            happened.done, happened.call = done, ""

    def since(
        self,
        at: float,
        session: str | None = None,
        turn: str | None = None,
        *,
        done: bool = False,
    ) -> Iterable[Facts]:
        """Return the calls that were allowed at `at` or later, the newest first.

        Args:
            at: Seconds of the clock.
            session: Those of one session alone.
            turn: Those of one turn alone, whatever the session.
            done: Those alone that did what they were to do.
        """
        calls: Iterable[Happened]
        if turn is not None:
            calls = reversed(self._turns.get(turn, ()))
        elif session is not None:
            calls = reversed(self._sessions.get(session, ()))
        else:
            calls = reversed(self._calls)
        for happened in calls:
            if happened.at < at:
                return
            if happened.done or not done:
                yield happened.facts

    def __len__(self) -> int:
        return len(self._calls)


def _drop_first(kept: dict[str, deque[Happened]], key: str) -> None:
    kept[key].popleft()
    if not kept[key]:
        del kept[key]


# -- Calls that came before, as rules mean them: of what sort, and whose ---------

TOOLS_REMEMBERED = 1024
"""Tools, with their flags, of which it is remembered whether they are of a sort."""


class EarlierCalls:
    """Earlier calls of one sort."""

    __slots__ = ("_checks", "_match", "_tools")

    def __init__(self, match: Match) -> None:
        self._match = match
        self._checks = match.checks()
        self._tools: dict[tuple[Any, ...], bool | None] = {}

    def was(self, facts: Facts) -> bool:
        """Whether a call was such a one for sure."""
        return self._of_tool(facts) is True and all(check(facts) for check in self._checks)

    def may_have(self, facts: Facts) -> bool:
        """Whether a call was such a one, or may have been: what nobody declared counts as that."""
        return self._of_tool(facts) is not False and all(check(facts) for check in self._checks)

    def _of_tool(self, facts: Facts) -> bool | None:
        key = (facts.tool, facts.plugin, facts.sandbox, facts.owner, facts.flags)
        try:
            return self._tools[key]
        except KeyError:
            if len(self._tools) >= TOOLS_REMEMBERED:
                self._tools.clear()
            of_tool = self._tools[key] = self._match.of_tool(facts)
            return of_tool


def same_scope(scope: Scope, one: Facts, other: Facts) -> bool:
    """Whether two calls are of the same turn, session, peer and so on."""
    match scope:
        case "turn":
            return (one.turn, one.session) == (other.turn, other.session)
        case "session":
            return one.session == other.session
        case "peer":
            return (one.channel, one.account, one.peer) == (
                other.channel,
                other.account,
                other.peer,
            )
        case "agent":
            return one.agent == other.agent
        case "principal":
            return one.principal == other.principal
        case "gateway":
            return True
