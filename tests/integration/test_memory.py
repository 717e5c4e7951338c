"""What a gateway remembers: found again and not replayed, one's own alone, and forgotten whole."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.script import settled

from hookgate.core.domain.errors import TurnError
from hookgate.core.domain.operations import Invocation
from hookgate.core.domain.turn import Address, Principal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from hookgate.core.domain.events import Event
    from hookgate.core.domain.models import ModelRequest
    from hookgate.core.domain.turn import Turn
    from hookgate.gateway import Gateway
    from hookgate.kit.testing.gateway import TurnedClock
    from hookgate.kit.testing.model import ScriptedModel

    Started = Callable[..., AbstractAsyncContextManager[Gateway]]

pytest_plugins = ["hookgate.kit.testing.fixtures"]

ME = Address(channel="cli", account="local", peer="me")
OTHER = Address(channel="cli", account="local", peer="eve")

TALK = (
    "What goes into a good tomato soup?",
    "Tell me something about the tides.",
    "How do I sharpen a kitchen knife?",
    "Why is the sky red in the evening?",
    "Which bread keeps for a whole week?",
)


class Talk:
    """One person at a gateway."""

    def __init__(self, gate: Gateway, model: ScriptedModel, clock: TurnedClock) -> None:
        self.gate = gate
        self.model = model
        self._clock = clock
        self.events: dict[str, dict[str, Any]] = {}

    async def say(self, text: str, address: Address = ME) -> Turn:
        """Say something, and wait until it is learned."""
        self._clock.turn(minutes=1)
        self.events = {}
        turn = await self.gate.chat(text, address=address, sink=self._hear)
        assert turn.answer, turn.error
        await self.learned()
        return turn

    def _hear(self, event: Event) -> None:
        self.events[event.type] = dict(event.data)

    async def chatter(self, turns: int, address: Address = ME) -> None:
        for number in range(turns):
            await self.say(f"{TALK[number % len(TALK)]} ({number})", address)

    async def learned(self) -> None:
        await settled(self.gate)
        await self.do("memory.forget", expect="nothing", ids=["none"])

    async def do(
        self, name: str, *, by: Principal | None = None, expect: str = "", **params: Any
    ) -> dict[str, Any]:
        operation = self.gate.host.operations[name]
        invocation = Invocation(host=self.gate.host, principal=by or Principal.owner())
        try:
            result = await operation.handler(invocation, operation.params(**params))
        except TurnError as error:
            assert expect, error
            assert expect in str(error)
            return {}
        assert not expect
        shown: dict[str, Any] = result.model_dump(mode="json")
        return shown

    async def facts(self, **params: Any) -> list[str]:
        return [row["text"] for row in (await self.do("memory.list", **params))["rows"]]

    @property
    def request(self) -> ModelRequest:
        return self.model.requests[-1]

    @property
    def recalled(self) -> str:
        """What the model got to read last of what is remembered."""
        return "\n".join(
            piece.text for piece in self.request.system if "[Recalled for this" in piece.text
        )


@pytest.fixture
def talking(gateway: Started, model: ScriptedModel, clock: TurnedClock) -> Any:
    @asynccontextmanager
    async def talk(*plugins: object, **settings: Any) -> AsyncIterator[Talk]:
        sections = {"plugin": {"memory": settings}}
        async with gateway(*plugins, **sections) as gate:
            yield Talk(gate, model, clock)

    return talk


async def test_what_was_said_thirty_turns_ago_is_recalled_and_nothing_is_replayed(
    talking: Any,
) -> None:
    async with talking() as talk:
        await talk.say("My dog is called Luna.")
        await talk.chatter(30)
        await talk.say("What's my dog's name?")
        assert "Luna" in talk.recalled
        assert talk.events["context"]["tokens"] < 5000
        texts = [message.text for message in talk.request.messages]
        assert len(texts) == 2 * 5 + 1, "the window of the history, and the message"
        assert not any("Luna" in text for text in texts)
        assert not any(f"({number})" in talk.recalled for number in range(25, 30)), "in the window"
        lines = talk.events["recall"]["lines"]
        assert all(line["why"] for line in lines)
        assert any("Luna" in why or "dog" in why for line in lines for why in line["why"])


async def test_a_move_supersedes_and_another_peer_sees_neither(talking: Any) -> None:
    async with talking() as talk:
        await talk.say("I live in NYC.")
        await talk.say("I moved from NYC to LA.")
        await talk.chatter(6)
        await talk.say("Where do I live?")
        now, past = await talk.facts(), await talk.facts(past=True)
        assert any("LA" in text for text in now)
        assert not any("NYC" in text for text in now)
        assert any("NYC" in text for text in past)
        rows = (await talk.do("memory.audit", about="user"))["rows"]
        old = next(row for row in rows if "NYC" in row["text"])
        assert (old["ending"], bool(old["superseded"])) == ("changed", True)
        assert " LA" in talk.recalled
        before = len(talk.model.requests)
        await talk.chatter(6, OTHER)
        await talk.say("Where do I live? What do you know of LA and NYC?", OTHER)
        for request in talk.model.requests[before:]:
            everything = [piece.text for piece in request.system]
            assert not any(
                "moved" in text or ("[Recalled" in text and "LA" in text) for text in everything
            )


async def test_a_fresh_session_recalls_nothing(talking: Any) -> None:
    async with talking() as talk:
        await talk.say("What's my dog's name?")
        assert talk.recalled == ""
        assert "recall" not in talk.events
