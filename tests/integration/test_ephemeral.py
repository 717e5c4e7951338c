"""Turns of which nothing is kept, with all that comes with hookgate beside them."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from hookgate import (
    CONVERSATIONS,
    Message,
    Origin,
    Principal,
    Provenance,
    SessionKey,
    Text,
    ToolResultPart,
    ToolUse,
    Turn,
    TurnRequest,
    hookimpl,
)
from hookgate.kit.testing.model import say

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from hookgate import Gateway, Host
    from hookgate.kit.testing.model import ScriptedModel

    Started = Callable[..., AbstractAsyncContextManager[Gateway]]

SESSION = SessionKey("main", "cli", "local", "main")
ASKED = "My name is Zanzibarius and I live in Quuxington."
ANSWER = "Welcome to Quuxington, dear Zanzibarius, it is a pleasure to meet you here today."


class Wire:
    """An endpoint of somebody else: passes requests on and keeps nothing of them."""

    name = "wire"

    def __init__(self) -> None:
        self.host: Any = None
        self.over: list[Turn] = []

    @hookimpl
    def list_tools(self, host: Host) -> list[Any]:
        self.host = host
        return []

    @hookimpl
    def after_turn(self, turn: Turn) -> None:
        self.over.append(turn)

    def ask(self, *said: Message, **more: Any) -> Any:
        origin = Origin(provenance=Provenance.EXTERNAL_USER, path="wire")
        request = TurnRequest(content="", client_history=said, verbatim=True, **more)
        return self.host.start_turn(Principal.owner("client"), origin, request).wait()


def user(*parts: Any) -> Message:
    return Message(role="user", parts=parts)


def stored(home: Path, words: str) -> set[str]:
    """Return the tables of the store in which `words` stand."""
    found = set()
    for path in home.rglob("*.db"):
        with closing(sqlite3.connect(path)) as db:
            tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (table,) in tables:
                rows = db.execute(f'SELECT * FROM "{table}"').fetchall()
                if words in repr(rows):
                    found.add(table)
    return found


async def test_nothing_that_was_said_is_in_the_store_and_the_call_is_in_the_ledger(
    gateway: Started, model: ScriptedModel, tmp_path: Path
) -> None:
    model.steps, wire, home = [say(ANSWER)], Wire(), tmp_path / "home"
    learning = {"memory": {"extractor": "model"}}
    async with gateway(wire, plugin=learning) as gate:
        turn = await wire.ask(user(Text(ASKED)), ephemeral=True)
        await gate.turns.after.drain()
    assert len(model.requests) == 1
    assert (turn.ending, turn.answer, wire.over) == ("done", ANSWER, [turn])
    assert stored(home, "Quuxington") == set()
    assert "metering_call" in stored(home, turn.id)
    assert stored(home, turn.id) <= {"metering_call", "dashboard_turn", "audit_entry"}

    # What is kept of any other turn, so that the test would see it.
    async with gateway(wire, plugin=learning) as gate:
        other = await wire.ask(user(Text(ASKED)))
        await gate.turns.after.drain()
    assert len(model.requests) == 3
    assert "storage_messages" in stored(home, "Quuxington")
    assert "planning_outcome" in stored(home, other.id)


async def test_fifty_of_one_session_run_side_by_side_on_a_store_and_taint_it(
    gateway: Started, model: ScriptedModel
) -> None:
    running, go = 0, asyncio.Event()

    async def together() -> None:
        nonlocal running
        running += 1
        if running == 50:
            go.set()
        await go.wait()

    model.steps, wire = [[*say("ok")[:1], together, *say("ok")[1:]]], Wire()
    async with gateway(wire) as gate:
        turns = await asyncio.gather(
            *(
                wire.ask(
                    Message(
                        role="assistant", parts=(ToolUse(id=str(number), name="Bash", input={}),)
                    ),
                    user(ToolResultPart(tool_use_id=str(number), content="x")),
                    ephemeral=True,
                )
                for number in range(50)
            )
        )
        kept = await gate.host[CONVERSATIONS].taint(SESSION, turns=0)
        history = await gate.host[CONVERSATIONS].history(SESSION, turns=100)
    assert {turn.ending for turn in turns} == {"done"}
    assert "client:unverified" in kept
    assert list(history) == []
