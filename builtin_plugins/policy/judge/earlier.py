"""Calls that came before, as rules mean them: of what sort, and whose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookgate.builtin_plugins.policy.judge.facts import Facts
    from hookgate.builtin_plugins.policy.rules.model import Match, Scope

TOOLS = 1024
"""Tools, with their flags, of which it is remembered whether they are of a sort."""


class Kind:
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
            if len(self._tools) >= TOOLS:
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
