"""A gateway that is killed while it learns and forgets leaves nothing half done."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
import sqlalchemy as sa
from tests.builtin_plugins.stores import opened_store

from hookgate import Fence, Message, Said, SessionKey, Text
from hookgate.builtin_plugins.memory import tables
from hookgate.builtin_plugins.memory.domain import Utterance
from hookgate.builtin_plugins.memory.recall.episodes import Episodes
from hookgate.builtin_plugins.memory.recall.turns import forget_pieces
from hookgate.builtin_plugins.storage.conversations import SqlConversations
from hookgate.core.host import SystemClock

if TYPE_CHECKING:
    from hookgate.builtin_plugins.storage.store import SqlStore

    Keep: TypeAlias = Callable[[Said], list[Utterance]]

SESSION = SessionKey("demo", "cli", "local", "main")
SCOPE = f"session:{SESSION}"

# Says, learns and forgets until it is killed. Of each three turns the second is forgotten.
WRITER = textwrap.dedent(
    """
    import asyncio, sys
    from pathlib import Path
    from tests.builtin_plugins.memory.test_killed import SESSION, forget, learner, say
    from tests.builtin_plugins.stores import opened_store

    async def main():
        async with opened_store(Path(sys.argv[1])) as store:
            conversations, episodes, of = await learner(store)
            for number in range(int(sys.argv[2]), 10**6):
                await say(conversations, number)
                await episodes.follow(conversations, of)
                if number % 3 == 1:
                    await conversations.forget(SESSION, turns=[f"t{number}"])
                    await forget(store, f"t{number}")
                print(number, flush=True)

    asyncio.run(main())
    """
)


async def forget(store: SqlStore, turn: str) -> None:
    await store.write(lambda c: forget_pieces(c, scopes=None, session=str(SESSION), turns=[turn]))


async def learner(store: SqlStore) -> tuple[SqlConversations, Episodes, Keep]:
    await store.migrate("memory", tables.METADATA, tables.SCRIPTS)

    def of(said: Said) -> list[Utterance]:
        message = said.message
        return [
            Utterance(
                id=message.id, scope=SCOPE, session=str(said.session), turn=message.turn,
                at=message.created, speaker=message.role, text=message.text,
            )
        ]  # fmt: skip

    conversations = SqlConversations(store, SystemClock())
    return conversations, Episodes(store, now=lambda: datetime.now(UTC)), of


async def say(conversations: SqlConversations, number: int) -> None:
    long = "\n\n".join(f"tea {number} " + "word " * 150 for _ in range(5))
    messages = [
        Message(role="user", parts=(Text(long),), turn=f"t{number}"),
        Message(role="assistant", parts=(Text(f"tea {number}, gladly"),), turn=f"t{number}"),
    ]
    await conversations.append(SESSION, messages, fence=Fence())


def killed_after(home: Path, first: int, turns: int) -> int:
    """Run a writer, and kill it once it has said so many; return the last one."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(home), str(first)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    assert writer.stdout is not None
    with writer, writer.stdout:
        last = first
        for _ in range(turns):
            last = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
    return last


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
async def test_kill_while_turns_are_learned_and_forgotten(tmp_path: Path) -> None:
    first = 0
    for turns in (3, 7):
        first = await asyncio.to_thread(killed_after, tmp_path, first, turns) + 1
        async with opened_store(tmp_path) as store:
            conversations, episodes, of = await learner(store)
            # What a kill has left: forgotten where it was said, and kept here until it is
            # forgotten here as well.
            said = {m.turn for m in await conversations.history(SESSION, turns=1000)}
            kept = await store.read(lambda c: c.execute(sa.select(tables.TURNS.c.turn)).all())
            for turn in {row.turn for row in kept} - said:
                await forget(store, turn)
            await episodes.follow(conversations, of)
            rows = await store.read(lambda c: c.execute(sa.select(tables.TURNS)).all())
            pieces: dict[str, int] = {}
            for row in rows:
                pieces[row.turn] = pieces.get(row.turn, 0) + 1
            assert pieces.keys() == said
            # A message of five pieces, and one of one.
            assert set(pieces.values()) == {6}
            # The writer takes what it finds; the highest number may have been said already.
            first = max([first, *(int(turn[1:]) + 1 for turn in said)])
