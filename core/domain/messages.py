"""Messages and their parts, and the taint that travels with them.

A message is immutable. Its JSON form (`Message.to_json`) is what the conversation
store keeps; `Message.from_json` reads it back, and also what older versions wrote.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hookgate.core.domain.parts import (
    Audio,
    Document,
    Image,
    Link,
    Text,
    content_from_json,
    content_to_json,
    part_from_json,
    part_to_json,
    plain_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hookgate.core.domain.parts import Content

Taint: TypeAlias = frozenset[str]
"""Where untrusted text came from, for example ``{"tool:http_get"}``. Empty means clean.

Taint only ever grows: what is made from several things carries the union of theirs.
"""

CLEAN: Taint = frozenset()

Role: TypeAlias = Literal["user", "assistant", "tool"]


class Provenance(StrEnum):
    """How something came in. The entry path sets it, never the frame."""

    EXTERNAL_USER = "external_user"
    INTER_SESSION = "inter_session"
    INTERNAL_SYSTEM = "internal_system"
    SCHEDULED = "scheduled"
    TOOL_RESULT = "tool_result"
    CHANNEL = "channel"


def new_id(prefix: str) -> str:
    """Return a new unique id such as ``turn_1f0c...`` (32 hex digits after the prefix)."""
    return f"{prefix}_{os.urandom(16).hex()}"


def join_taints(taints: Iterable[Taint]) -> Taint:
    """Return the union of all `taints`."""
    return CLEAN.union(*taints)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """The model asks for a tool.

    Attributes:
        id: The model's id for this call; its result carries the same.
        name: The tool's name.
        input: The arguments as the model wrote them: a JSON object, or the raw text
            where that text is no JSON object (the loop answers such a call with an error).
    """

    id: str
    name: str
    input: Mapping[str, Any] | str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultPart:
    """What a tool call came to, for the model.

    Attributes:
        tool_use_id: The `ToolUse.id` that this answers.
        content: What the model gets: plain text, or parts.
        is_error: Whether the call failed, was denied or was cancelled.
        taint: Where untrusted text in `content` came from.
    """

    tool_use_id: str
    content: Content
    is_error: bool = False
    taint: Taint = CLEAN

    @property
    def text(self) -> str:
        """The content as text: what is none is named in its place."""
        return plain_text(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """A provider's own data that must come back unchanged, such as signed thinking."""

    provider: str
    data: Mapping[str, Any]


Part: TypeAlias = Text | Image | Audio | Document | Link | ToolUse | ToolResultPart | Opaque


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation.

    Attributes:
        role: ``user``, ``assistant``, or ``tool`` (the results of the calls before it).
        parts: The content, in order.
        taint: Where untrusted text in it came from; stored with it.
        provenance: How it came in.
        id: Unique.
        turn: The id of the turn that it belongs to.
        principal: The id of who sent it, of a message that began a turn.
        created: When it was made, in UTC.
        counted: A counter, and how many tokens that has found in it; see `core.turn.context`.
        plain: Whether it is one text and nothing else, as most are: long histories are walked over
            several times a turn, and such a message has nothing to be looked for.
    """

    role: Role
    parts: tuple[Part, ...]
    taint: Taint = CLEAN
    provenance: Provenance = Provenance.INTERNAL_SYSTEM
    id: str = field(default_factory=lambda: new_id("msg"))
    turn: str = ""
    principal: str = ""
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    counted: tuple[object, int] | None = field(default=None, init=False, repr=False, compare=False)
    plain: bool = field(default=False, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts: object = self.parts  # a plugin may have put anything there
        if type(parts) is tuple and len(parts) == 1 and isinstance(parts[0], Text):
            object.__setattr__(self, "plain", True)

    @property
    def text(self) -> str:
        """The message's text parts, joined."""
        if self.plain and isinstance(text := self.parts[0], Text):
            return text.text
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def tool_uses(self) -> tuple[ToolUse, ...]:
        """The tool calls that this message asks for, in order."""
        if self.plain:
            return ()
        return tuple(part for part in self.parts if isinstance(part, ToolUse))

    @property
    def tool_results(self) -> tuple[ToolResultPart, ...]:
        """The tool results that this message carries, in order."""
        if self.plain:
            return ()
        return tuple(part for part in self.parts if isinstance(part, ToolResultPart))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that the conversation store keeps."""
        return {
            "role": self.role,
            "parts": [_part_to_json(part) for part in self.parts],
            "taint": sorted(self.taint),
            "provenance": self.provenance.value,
            "id": self.id,
            "turn": self.turn,
            **({"principal": self.principal} if self.principal else {}),
            "created": self.created.isoformat(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Message:
        """Read what `to_json` wrote.

        Raises:
            ValueError: A part has a type that this version does not know.
            KeyError: A required key is missing.
        """
        return cls(
            role=data["role"],
            parts=tuple(_part_from_json(part) for part in data["parts"]),
            taint=frozenset(data.get("taint", ())),
            provenance=Provenance(data.get("provenance", Provenance.INTERNAL_SYSTEM)),
            id=data["id"],
            turn=data.get("turn", ""),
            principal=data.get("principal", ""),
            created=datetime.fromisoformat(data["created"]),
        )


def _part_to_json(part: Part) -> dict[str, Any]:
    match part:
        case ToolUse():
            raw = part.input if isinstance(part.input, str) else dict(part.input)
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": raw}
        case ToolResultPart():
            return {
                "type": "tool_result",
                "tool_use_id": part.tool_use_id,
                "content": content_to_json(part.content),
                "is_error": part.is_error,
                "taint": sorted(part.taint),
            }
        case Opaque():
            return {"type": "opaque", "provider": part.provider, "data": dict(part.data)}
        case _:
            return part_to_json(part)


def _part_from_json(data: Mapping[str, Any]) -> Part:
    match data["type"]:
        case "tool_use":
            return ToolUse(id=data["id"], name=data["name"], input=data["input"])
        case "tool_result":
            return ToolResultPart(
                tool_use_id=data["tool_use_id"],
                content=content_from_json(data["content"]),
                is_error=data["is_error"],
                taint=frozenset(data.get("taint", ())),
            )
        case "opaque":
            return Opaque(provider=data["provider"], data=data["data"])
    part = part_from_json(data)
    if part is None:
        raise ValueError(
            f"message part of unknown type {data['type']!r}: expected text, image, audio, "
            "document, link, tool_use, tool_result or opaque; it was written by a newer version"
        )
    return part
