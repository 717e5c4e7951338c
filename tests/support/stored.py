"""What a session keeps, and turns that go on with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.messages import Message, Provenance, ToolResultPart
from hookgate.core.domain.ports import CONVERSATIONS
from hookgate.core.domain.strict_json import dumps
from hookgate.core.domain.tools import Tool
from hookgate.core.domain.turn import Fence, Origin, Principal, SessionKey, TurnRequest
from hookgate.sessions import InProcessConversations

OWNER = Principal.owner("test")
USER = Origin(provenance=Provenance.EXTERNAL_USER, path="test")
CLIENT = Tool(
    name="on_client", description="", schema={"type": "object"}, owner="client", flags=Flags.none()
)
SESSION = SessionKey("main", "cli", "local", "main")


class Strict(InProcessConversations):
    """Conversations that write JSON, as a store does."""

    async def append(
        self, session: SessionKey, messages: Sequence[Message], *, fence: Fence
    ) -> None:
        for message in messages:
            dumps(message.to_json())
        await super().append(session, messages, fence=fence)


async def stored(gate: Any) -> Sequence[Message]:
    return await gate.host[CONVERSATIONS].history(SESSION, turns=100)


def unpaired(messages: Sequence[Message]) -> set[str]:
    """Ids of calls without a result, and of results without a call."""
    uses = {use.id for message in messages for use in message.tool_uses}
    return uses ^ {part.tool_use_id for message in messages for part in message.tool_results}


def asking(gate: Any, **request: Any) -> Any:
    request.setdefault("content", "")
    request.setdefault("client_tools", (CLIENT,))
    return gate.host.start_turn(OWNER, USER, TurnRequest(**request)).wait()


def brought(*results: tuple[str, str]) -> tuple[ToolResultPart, ...]:
    return tuple(ToolResultPart(tool_use_id=use, content=text) for use, text in results)
