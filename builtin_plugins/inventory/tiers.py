"""What may be done to a capability: one pure function of its record, for pages and for REST."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from hookgate.builtin_plugins.inventory.record import CapabilityRecord, Origin, Tier

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
    if record.status == "manageable-but-pending-auth":
        hint = record.hint or f"{record.runtime} asks for a login first"
        return Affordance(buttons=(Button("enable", enabled=False, hint=hint),))
    action: Literal["enable", "disable"] = "enable" if record.status == "disabled" else "disable"
    return Affordance(buttons=(Button(action),), path=_PATHS[record.manageability])


def refusal(record: CapabilityRecord, action: str) -> str:
    """Return why a capability cannot be enabled or disabled; "" where it can.

    What has no button is refused, and for the same reason. To say again what holds already is no
    fault: the answer is the record as it is.
    """
    offered = affordance(record)
    if any(button.enabled for button in offered.buttons):
        return ""
    if offered.buttons:
        return f"{record.id} cannot be changed yet: {offered.buttons[0].hint}"
    if offered.note:
        return f"{record.id} can only be looked at: {offered.note}"
    if not _is_writable(record):
        return f"{record.id} cannot be switched through {record.runtime} by now"
    why = "; ".join(record.diagnostics) or "it is not available"
    return f"{record.id} cannot be {action}d: {why}"


def _is_writable(record: CapabilityRecord) -> bool:
    return record.writable and derived_writable(record.source, record.manageability)
