"""A gateway that is killed while it learns and forgets, and two gateways on one store."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from tests.support.script import settled

from hookgate.builtin_plugins.memory import tables
from hookgate.builtin_plugins.storage.tables import MESSAGES
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.operations import Invocation
from hookgate.kit.testing.gateway import started
from hookgate.kit.testing.model import ScriptedModel, say
from hookgate.ports import STORE

if TYPE_CHECKING:
    from pathlib import Path

    from hookgate.gateway import Gateway

WRITER = textwrap.dedent(
    """
    import asyncio, sys
    from pathlib import Path
    from hookgate.core.domain.ports import CONVERSATIONS
    from hookgate.kit.testing.gateway import started
    from hookgate.kit.testing.model import ScriptedModel, say

    async def main():
        model = ScriptedModel(say("Fine."))
        async with started(home=Path(sys.argv[1]), model=model) as gate:
            for number in range(10**6):
                turn = await gate.chat(f"My friend Bob{sys.argv[2]}x{number} lives in Oslo.")
                print(turn.id, flush=True)
                if number % 3 == 1:
                    await gate.host[CONVERSATIONS].forget(turn.session, turns=[turn.id])

    asyncio.run(main())
    """
)


def kill_one(home: Path, round_: int, turns: int, pause: float) -> None:
    """Run a gateway that learns and forgets, and kill it somewhere behind so many turns."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(home), str(round_)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    assert writer.stdout is not None
    with writer, writer.stdout:
        for _ in range(turns):
            assert writer.stdout.readline()
        try:
            writer.wait(pause)
        except subprocess.TimeoutExpired:
            writer.kill()


def rows_of(connection: Any) -> dict[str, set[str]]:
    turn = {
        table.name: set(connection.execute(sa.select(table.c.turn)).scalars())
        for table in (tables.TURNS, tables.FACTS, tables.SOURCES, MESSAGES)
    }
    facts = sa.select(tables.FACTS.c.number)
    for table in (tables.SOURCES, tables.WORDS):
        loose = sa.select(table.c.fact).where(table.c.fact.not_in(facts))
        assert connection.execute(loose).first() is None, f"{table.name} of no fact"
    return turn


async def caught_up(gate: Gateway) -> dict[str, set[str]]:
    """Return the turns that each table knows, once all that was said is learned."""
    await settled(gate)
    operation = gate.host.operations["memory.forget"]
    invocation = Invocation(host=gate.host, principal=Principal.owner())
    with pytest.raises(Exception, match="nothing is remembered"):
        await operation.handler(invocation, operation.params(ids=["none"]))
    return await gate.host[STORE].read(rows_of)


async def whole_after(home: Path, kills: int) -> None:
    chance = random.Random(7)
    for number in range(kills):
        # Before it has caught up, what a kill has left is whole, if behind.
        await asyncio.to_thread(kill_one, home, number, chance.randint(1, 6), chance.random() * 0.2)
        async with started(home=home, model=ScriptedModel(say("Fine."))) as gate:
            turns = await caught_up(gate)
            said = turns[MESSAGES.name]
            assert turns[tables.TURNS.name] == said
            assert turns[tables.FACTS.name] == said, "each turn tells of somebody else"
            assert turns[tables.SOURCES.name] == said


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
async def test_a_kill_leaves_nothing_half_learned_or_half_forgotten(
    short: bool, tmp_path: Path
) -> None:
    await whole_after(tmp_path, 3 if short else 100)


@pytest.mark.slow
async def test_two_gateways_on_one_store_learn_each_message_once(url: str, tmp_path: Path) -> None:
    store = {"storage": {"url": url, "fallback": "refuse"}}
    one, other = (ScriptedModel(say("Fine.")) for _ in range(2))
    async with (
        started(home=tmp_path / "a", model=one, plugin=store) as a,
        started(home=tmp_path / "b", model=other, plugin=store) as b,
    ):
        for number in range(6):
            gate = (a, b)[number % 2]
            await gate.chat(f"My friend Bob{number} lives in Oslo.")
        for gate in (a, b):
            turns = await caught_up(gate)
            assert turns[tables.TURNS.name] == turns[MESSAGES.name]
        count = sa.select(sa.func.count()).select_from
        pieces = await a.host[STORE].read(lambda c: c.scalar(count(tables.TURNS)))
        said = await a.host[STORE].read(lambda c: c.scalar(count(MESSAGES)))
        assert pieces == said == 12
        live = sa.select(tables.FACTS.c.text).where(tables.FACTS.c.superseded.is_(None))
        texts = await a.host[STORE].read(lambda c: c.execute(live).scalars().all())
        assert len(texts) == len(set(texts))
        assert {f"Bob{n}" for n in range(6)} <= {w for text in texts for w in text.split()}
