"""Stored turns, one after the other, as they were committed."""

from __future__ import annotations

from collections.abc import AsyncIterator

from hookgate import Conversations, Message, SessionKey


async def turns_since(
    conversations: Conversations, cursor: str
) -> AsyncIterator[tuple[SessionKey, list[Message]]]:
    """Yield the messages of each turn that came after `cursor`, once it is over.

    A turn is over when its session goes on with another one, or when there is nothing more.
    """
    open_turns: dict[SessionKey, list[Message]] = {}
    more = True
    while more:
        page = await conversations.since(cursor)
        for said in page.said:
            messages = open_turns.get(said.session)
            if messages is not None and messages[0].turn == said.message.turn:
                messages.append(said.message)
                continue
            if messages is not None:
                yield said.session, messages
            open_turns[said.session] = [said.message]
        cursor, more = page.cursor, page.more
    for session, messages in open_turns.items():
        yield session, messages
