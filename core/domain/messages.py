"""Messages and their parts, and the taint that travels with them.

A message is immutable. Its JSON form (`Message.to_json`) is what the conversation
store keeps; `Message.from_json` reads it back, and also what older versions wrote.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from hookgate.core.domain.parts import (
    CONTENT_FORMS,
    Content,
    ContentPart,
    PartForms,
    Text,
    WirePart,
    plain_text,
)

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
    """Return a new unique id such as ``turn_019a...`` (32 hex digits after the prefix).

    The first 12 digits are the milliseconds since 1970, so that ids grow: a table's index by random
    ones touches another page with each row. The other 20 are random; nobody guesses one.
    """
    return f"{prefix}_{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"


def join_taints(taints: Iterable[Taint]) -> Taint:
    """Return the union of all `taints`."""
    return CLEAN.union(*taints)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse(WirePart):
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
class ToolResultPart(WirePart):
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
class Opaque(WirePart):
    """A provider's own data that must come back unchanged, such as signed thinking."""

    provider: str
    data: Mapping[str, Any]


Part: TypeAlias = ContentPart | ToolUse | ToolResultPart | Opaque

FIXED = frozenset((Text, ToolResultPart))
"""Parts in which nobody can change anything; the dictionaries of calls and of opaque data are
whoever's who has got them."""

PART_FORMS = PartForms(
    {
        **CONTENT_FORMS.types,
        "tool_use": ToolUse,
        "tool_result": ToolResultPart,
        "opaque": Opaque,
    }
)
"""The JSON forms of all that a message may hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(WirePart):
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
        sized: What it is made of, once somebody has looked; see `kit.tokens.bounds.sizes_of`.
        plain: Whether it is one text and nothing else, as most are: long histories are walked over
            several times a turn, and such a message has nothing to be looked for.
        text: Its text parts, joined.
        tool_uses: The tool calls that it asks for, in order.
        tool_results: The tool results that it carries, in order.
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
    sized: Any = field(default=None, init=False, repr=False, compare=False)
    plain: bool = field(default=False, init=False, repr=False, compare=False)
    text: str = field(default="", init=False, repr=False, compare=False)
    tool_uses: tuple[ToolUse, ...] = field(default=(), init=False, repr=False, compare=False)
    tool_results: tuple[ToolResultPart, ...] = field(
        default=(), init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        # Looked for once: a history is walked over for them several times a turn.
        parts: object = self.parts  # a plugin may have put anything there
        if type(parts) is tuple and len(parts) == 1 and isinstance(parts[0], Text):
            object.__setattr__(self, "plain", True)
            object.__setattr__(self, "text", parts[0].text)
        elif isinstance(parts, tuple | list):
            texts, uses, results = list[str](), list[ToolUse](), list[ToolResultPart]()
            for part in parts:
                if isinstance(part, Text):
                    texts.append(part.text)
                elif isinstance(part, ToolUse):
                    uses.append(part)
                elif isinstance(part, ToolResultPart):
                    results.append(part)
            object.__setattr__(self, "text", "".join(texts))
            object.__setattr__(self, "tool_uses", tuple(uses))
            object.__setattr__(self, "tool_results", tuple(results))

    def with_texts(self, change: Callable[[str], str]) -> Message:
        """Return this message with each of its texts changed."""
        parts = tuple(
            replace(part, text=change(part.text)) if isinstance(part, Text) else part
            for part in self.parts
        )
        return replace(self, parts=parts)

    @property
    def is_context(self) -> bool:
        """Whether it is what the gateway has put beside what was said: blocks, and nothing else."""
        if self.role != "user" or not self.parts:
            return False
        if self.plain and isinstance(text := self.parts[0], Text):
            return text.source != ""
        return "" not in [part.source if isinstance(part, Text) else "" for part in self.parts]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that the conversation store keeps."""
        return {
            "role": self.role,
            "parts": [PART_FORMS.to_json(part) for part in self.parts],
            "taint": sorted(self.taint),
            "provenance": str(self.provenance),
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
            parts=tuple(PART_FORMS.from_json(part) for part in data["parts"]),
            taint=frozenset(data.get("taint", ())),
            provenance=Provenance(data.get("provenance", Provenance.INTERNAL_SYSTEM)),
            id=data["id"],
            turn=data.get("turn", ""),
            principal=data.get("principal", ""),
            created=datetime.fromisoformat(data["created"]),
        )
