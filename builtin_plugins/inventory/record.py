"""The one shape of whatever an agent can use: a tool, a skill or a connector, of any runtime.

This module needs the standard library alone, so that a source may run anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

Kind: TypeAlias = Literal["skill", "tool", "connector"]
Scope: TypeAlias = Literal["team", "agent", "global"]
Origin: TypeAlias = Literal[
    "brokered-mcp",
    "curated-skill",
    "filesystem-skill-md",
    "mcp-connector",
    "runtime-builtin",
    "openclaw-extension",
    "external-vendor-cli",
]
Tier: TypeAlias = Literal["managed", "external-write", "runtime-of-record", "observe-only"]
Status: TypeAlias = Literal["ready", "disabled", "manageable-but-pending-auth", "unavailable"]
Risk: TypeAlias = Literal["low", "medium", "high", "unknown"]

RUNTIMES = ("native", "hermes", "claude-code", "codex", "openclaw", "human")
"""The known runtimes; a source may bring others. Nobody brings ``human`` yet."""

KEY_CHARS = 512
"""The longest key, name, agent or runtime."""

TEXT_CHARS = 4000
"""The longest description, hint or diagnosis."""

REFUSED = "install_refused"
"""The code of an install that has not passed the scan: HTTP 422."""


class RecordId(NamedTuple):
    """What an id says: ``source:runtime:scope:agent|global:kind:key``."""

    source: str
    runtime: str
    scope: str
    agent_id: str | None
    kind: str
    key: str


def _part(text: str) -> str:
    return text.replace("%", "%25").replace(":", "%3A")


def _whole(part: str) -> str:
    return part.replace("%3A", ":").replace("%25", "%")


def record_id(
    source: str,
    *,
    runtime: str,
    kind: str,
    key: str,
    scope: str = "global",
    agent_id: str | None = None,
) -> str:
    """Return the id of a capability: the same each time that the same one is read.

    The key comes last and as it is, so that any ``:`` in it is safe; in the other parts ``:``
    and ``%`` are written ``%3A`` and ``%25``.
    """
    agent = "global" if agent_id is None else _part(agent_id)
    return f"{_part(source)}:{_part(runtime)}:{scope}:{agent}:{kind}:{key}"


def parse_id(text: str) -> RecordId:
    """Return what an id says.

    Raises:
        ValueError: It is no id.
    """
    parts = text.split(":", 5)
    if len(parts) < 6 or not all(parts):
        raise ValueError(
            f"found the id {text[:80]!r}, expected source:runtime:scope:agent:kind:key"
        )
    source, runtime, scope, agent, kind, key = parts
    whose = _whole(agent) if scope == "agent" else None
    return RecordId(_whole(source), _whole(runtime), scope, whose, kind, key)


@dataclass(frozen=True, kw_only=True)
class CapabilityRecord:
    """One capability, as its owner has it.

    Make one with `of`, which makes its id.

    Attributes:
        id: See `record_id`; it begins with the id of the source that reads it.
        source_key: What it is called where it is kept: a tool's name, a skill's folder, a server.
        kind: skill, tool or connector.
        runtime: The runtime that has it: one of `RUNTIMES`, or another one.
        source: What it was read from, whoever reads it.
        manageability: What the gateway may do to it: the tier.
        scope: Whose it is: an agent's, a team's, or everybody's.
        agent_id: The agent, where the scope is agent; else null.
        name: Its name for people; the key where nobody gave it one.
        description: What it does, in a sentence or two.
        available: Whether it can be used as it is.
        diagnostics: Why it cannot, or what is odd about it.
        status: ready, disabled, manageable-but-pending-auth or unavailable.
        writable: Whether its source can change it by now.
        hint: What a person can do about it, such as a command that logs in.
        tenant_id: Always null.
        provenance: Where it was declared, for people: a file, a plugin, a server.
        risk: How much harm it can do: low, medium, high or unknown.
        synced_at: When its source was last read well, ISO 8601 in UTC; "" where the source
            leaves that to the inventory.
    """

    id: str
    source_key: str
    kind: Kind
    runtime: str
    source: Origin
    manageability: Tier
    scope: Scope = "global"
    agent_id: str | None = None
    name: str = ""
    description: str = ""
    available: bool = True
    diagnostics: tuple[str, ...] = ()
    status: Status = "ready"
    writable: bool = True
    hint: str = ""
    tenant_id: None = None
    provenance: str = ""
    risk: Risk = "unknown"
    synced_at: str = ""

    @classmethod
    def of(
        cls,
        source_id: str,
        key: str,
        *,
        kind: Kind,
        source: Origin,
        manageability: Tier,
        runtime: str = "",
        agent_id: str | None = None,
        scope: Scope | None = None,
        name: str = "",
        **more: Any,
    ) -> CapabilityRecord:
        """Return a record whose id follows from the rest.

        Args:
            source_id: The id of the source that reads it: `RuntimeSource.id`.
            key: What it is called where it is kept.
            kind: skill, tool or connector.
            source: What it was read from.
            manageability: The tier.
            runtime: The runtime that has it; the source's own where this is left out.
            agent_id: The agent whose it is; that makes the scope agent.
            scope: Whose it is; global, or agent where there is one.
            name: Its name for people; the key where this is left out.
            **more: The other fields.
        """
        if not more.keys() <= _FIELDS:
            unknown = ", ".join(sorted(more.keys() - _FIELDS))
            raise TypeError(f"found {unknown}, expected fields of a CapabilityRecord")
        runtime = runtime or source_id
        whose: Scope = scope or ("global" if agent_id is None else "agent")
        values = {
            **_DEFAULTS,
            "id": record_id(
                source_id, runtime=runtime, kind=kind, key=key, scope=whose, agent_id=agent_id
            ),
            "source_key": key,
            "kind": kind,
            "runtime": runtime,
            "source": source,
            "manageability": manageability,
            "scope": whose,
            "agent_id": agent_id,
            "name": name or key,
            **more,
        }
        made = object.__new__(cls)
        # At once, and not field by field as `__init__` does: a source makes thousands at a read.
        object.__setattr__(made, "__dict__", values)
        return made

    def to_json(self) -> dict[str, Any]:
        """Return its fields, JSON-ready."""
        return {**vars(self), "diagnostics": list(self.diagnostics)}


_FIELDS = frozenset(item.name for item in fields(CapabilityRecord))

_DEFAULTS: Mapping[str, Any] = {
    item.name: item.default for item in fields(CapabilityRecord) if item.default is not MISSING
}


def from_json(data: Mapping[str, Any], source_id: str) -> CapabilityRecord:
    """Return the record that `CapabilityRecord.to_json` has made, of another version perhaps.

    Args:
        data: Its fields; those that are not known are passed over.
        source_id: The source whose it has to be.

    Raises:
        ValueError: It is none.
    """
    known = {name: value for name, value in data.items() if name in _FIELDS}
    try:
        record = CapabilityRecord(**known)
        record = replace(record, diagnostics=tuple(record.diagnostics))
    except TypeError as error:
        raise ValueError(f"found no record: {error}") from None
    if wrong := problem_of(record, source_id):
        raise ValueError(wrong)
    return record


def readable(record: CapabilityRecord) -> CapabilityRecord:
    r"""Return the record with texts of one line that show what is in them.

    Who wrote them is a stranger: line breaks become spaces, and characters that move or hide
    others (controls, bidirectional marks, zero widths) are written out, such as ``\u202e``.
    """
    changed: dict[str, Any] = {
        name: _one_line(text)
        for name in ("name", "description", "hint", "provenance")
        if not (text := getattr(record, name)).isprintable()
    }
    if not all(map(str.isprintable, record.diagnostics)):
        changed["diagnostics"] = tuple(map(_one_line, record.diagnostics))
    return replace(record, **changed) if changed else record


def _one_line(text: str) -> str:
    shown = (
        one if one.isprintable() else one.encode("unicode_escape").decode()
        for one in " ".join(text.split())
    )
    return "".join(shown)[:TEXT_CHARS]


_WORDS: dict[str, frozenset[str]] = {
    "kind": frozenset(get_args(Kind)),
    "scope": frozenset(get_args(Scope)),
    "source": frozenset(get_args(Origin)),
    "manageability": frozenset(get_args(Tier)),
    "status": frozenset(get_args(Status)),
    "risk": frozenset(get_args(Risk)),
}


def problem_of(record: CapabilityRecord, source_id: str) -> str:
    """Return what is wrong with a record that the source called `source_id` brings; "" if nothing.

    What a source writes is its own: an id of another source would let it answer for that one.
    """
    for name, words in _WORDS.items():
        if getattr(record, name) not in words:
            found = f"{record.id!r}: found the {name} {getattr(record, name)!r}"
            return f"{found}, expected one of {', '.join(sorted(words))}"
    if (record.scope == "agent") != (record.agent_id is not None):
        return f"{record.id!r}: found the agent {record.agent_id!r} in the scope {record.scope!r}"
    made = record_id(
        source_id,
        runtime=record.runtime,
        kind=record.kind,
        key=record.source_key,
        scope=record.scope,
        agent_id=record.agent_id,
    )
    if record.id != made:
        return f"found the id {record.id!r}, expected {made!r}"
    short = (record.source_key, record.name, record.runtime, record.agent_id or "")
    if not (record.source_key and record.runtime) or max(map(len, short)) > KEY_CHARS:
        return f"{record.id[:80]!r}: expected a key and a runtime of 1 to {KEY_CHARS} characters"
    if not all(map(str.isprintable, (*short, record.id))):
        return f"{record.id[:80]!r}: expected a key without control or invisible characters"
    if max(map(len, (record.description, record.hint, *record.diagnostics))) > TEXT_CHARS:
        return f"{record.id!r}: expected texts of at most {TEXT_CHARS} characters"
    return ""


# -- tiers -----------------------------------------------------------------------

# What may be done to a capability: one pure function of its record, for pages and for REST.

WritePath: TypeAlias = Literal["own", "transcoder", "runtime", "none"]
"""How a change reaches its place: ``own`` for what the gateway keeps itself, ``transcoder`` for a
file of the runtime's that the gateway writes, ``runtime`` for the runtime's own interface."""

_PATHS: dict[Tier, WritePath] = {
    "managed": "own",
    "external-write": "transcoder",
    "runtime-of-record": "runtime",
    "observe-only": "none",
}

_NOT_BUILT: frozenset[Origin] = frozenset({"mcp-connector", "openclaw-extension"})
"""What nobody can switch through the interface of the runtime that keeps it."""


@dataclass(frozen=True, slots=True)
class Button:
    """Something that a person may be offered.

    Attributes:
        action: ``enable`` or ``disable``.
        enabled: Whether it can be done now; where not, `hint` says what has to be done first.
        hint: What a person has to do first; "" for nothing.
    """

    action: Literal["enable", "disable"]
    enabled: bool = True
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Affordance:
    """What may be done to one capability.

    Attributes:
        buttons: What is offered; nothing that would be refused.
        note: What stands there instead; "" for nothing.
        path: How a change gets there; none where there is no button that works.
    """

    buttons: tuple[Button, ...] = ()
    note: str = ""
    path: WritePath = "none"


def derived_writable(origin: Origin, tier: Tier) -> bool:
    """Whether what comes from `origin` in this tier can be switched by now.

    It is never kept with a record: what was kept would offer buttons that do nothing.
    """
    return not (tier == "runtime-of-record" and origin in _NOT_BUILT)


def affordance(record: CapabilityRecord) -> Affordance:
    """Return what may be done to a capability: buttons, and where a change would go."""
    if record.manageability == "observe-only":
        return Affordance(note=f"built-in, managed by {record.runtime}")
    if not _is_writable(record) or not record.available or record.status == "unavailable":
        return Affordance()
    path = _PATHS[record.manageability]
    if record.status == "manageable-but-pending-auth":
        hint = record.hint or f"{record.runtime} asks for a login first"
        waits = Button("enable", enabled=False, hint=hint)
        # A file can be changed whoever is logged in: there what waits can be switched off.
        return (
            Affordance(buttons=(waits, Button("disable")), path=path)
            if path == "transcoder"
            else Affordance(buttons=(waits,))
        )
    action: Literal["enable", "disable"] = "enable" if record.status == "disabled" else "disable"
    return Affordance(buttons=(Button(action),), path=path)


def refusal(record: CapabilityRecord, action: str) -> str:
    """Return why a capability cannot be enabled or disabled; "" where it can.

    What has no button is refused, and for the same reason. To say again what holds already is no
    fault: the answer is the record as it is.
    """
    offered = affordance(record)
    waits = any(one.action == action and not one.enabled for one in offered.buttons)
    if not waits and any(button.enabled for button in offered.buttons):
        return ""
    if offered.buttons:
        return f"{record.id} cannot be changed yet: {offered.buttons[0].hint}"
    if offered.note:
        return f"{record.id} can only be looked at: {offered.note}"
    if not _is_writable(record):
        hint = f": {record.hint}" if record.hint else ""
        return f"{record.id} cannot be switched through {record.runtime} by now{hint}"
    why = "; ".join(record.diagnostics) or "it is not available"
    return f"{record.id} cannot be {action}d: {why}"


def _is_writable(record: CapabilityRecord) -> bool:
    return record.writable and derived_writable(record.source, record.manageability)
