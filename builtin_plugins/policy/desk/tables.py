"""What policy keeps: what somebody has allowed always."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Index, MetaData

from hookgate import ToolCall, Turn
from hookgate.builtin_plugins.policy.desk.grants import GrantScope, arguments_digest, family_of
from hookgate.kit.records import Field, Record

SCRIPTS = Path(__file__).parents[1] / "migrations"
METADATA = MetaData(info={"complete": True})


class StandingGrant(Record):
    """One standing permission."""

    __tablename__ = "policy_grant"
    __table_args__ = (Index("policy_grant_by_session", "session", "tool"),)
    metadata = METADATA

    id: str = Field(primary_key=True)
    scope: GrantScope
    """``arguments`` for these very arguments, ``family`` for calls that have the same in common,
    ``tool`` for any of this tool."""
    tool: str
    plugin: str
    """Who brings the tool."""
    tool_digest: str
    """The tool's digest when it was granted."""
    arguments: str
    """SHA-256 (hex) of the canonical arguments; "" with another scope."""
    shown: str
    """The arguments for people, in JSON, secrets masked."""
    family: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """What the calls have in common, in canonical JSON; "" with another scope."""
    agent: str
    """The agent that called it."""
    session: str
    provenance: str
    """How the turn came in whose call was asked about."""
    tainted: bool
    """Whether that turn had read what somebody else wrote."""
    policy: str
    """The version of the policy under which it was granted."""
    allowed_by: str
    """The principal who granted it."""
    allowed_at: str
    """When, ISO 8601 in UTC."""
    expires: str
    """When it ends, ISO 8601 in UTC."""

    def fits(self, turn: Turn, call: ToolCall) -> bool:
        """Whether it is about such a call, whatever the time and the policy.

        What was granted in a turn that had read nothing foreign does not hold in one that has:
        there, somebody else may be asking.
        """
        return (
            self.tool == call.name
            and self.plugin == call.tool.plugin
            and self.tool_digest == call.tool.digest
            and self._reaches(call)
            and self.agent == turn.agent.name
            and self.session == str(turn.session)
            and self.provenance == turn.origin.provenance.value
            and (self.tainted or not turn.taint)
        )

    def _reaches(self, call: ToolCall) -> bool:
        if self.scope == "family":
            return bool(self.family) and self.family == family_of(call)
        return self.scope == "tool" or self.arguments == arguments_digest(call)
