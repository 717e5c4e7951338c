from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
import sqlalchemy as sa

from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.settings import StorageSettings

# A process that has imported everything already makes one child for each round. A child
# writes from many tasks at once, and says a number once its write has returned.
NURSERY = """
    import asyncio, itertools, os, sys
    from pathlib import Path
    import alembic.operations, alembic.script
    import sqlalchemy as sa
    from hookgate.builtin_plugins.storage.conversations import SqlConversations
    from hookgate.builtin_plugins.storage.engine.opening import open_store
    from hookgate.builtin_plugins.storage.settings import StorageSettings
    from hookgate.core.host import SystemClock
    from hookgate.core.domain.messages import Message, Text
    from hookgate.core.domain.turn import Fence, SessionKey

    ROWS = sa.Table("rows", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True),
                    sa.Column("text", sa.Text))

    async def main(first):
        store = await open_store(StorageSettings(), Path(sys.argv[1]))
        assert store.durable, store.problem
        await store.write(lambda connection: ROWS.create(connection, checkfirst=True))
        conversations = SqlConversations(store, SystemClock())
        numbers = itertools.count(first)

        async def write(how):
            for number in numbers:
                row = {"id": number, "text": "x" * 200}
                if how == "insert":
                    await store.insert(ROWS, [row])
                elif how == "write":
                    await store.write(lambda c: c.execute(ROWS.insert(), row) and None)
                else:
                    key = SessionKey("a", "c", "l", str(number % 5))
                    message = Message(role="user", parts=(Text("x"),), turn=f"{number}")
                    await conversations.append(key, [message], fence=Fence())
                os.write(1, b"%s %d\\n" % (how.encode(), number))

        hows = ["insert"] * 8 + ["write"] * 2 + ["append"] * 4
        await asyncio.gather(*(write(how) for how in hows))

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            asyncio.run(main(int(line)))
        os.write(1, b"child %d\\n" % child)
        os.waitpid(child, 0)
        os.write(1, b"dead 0\\n")
"""


class Nursery:
    """Makes children that write, and kills them."""

    def __init__(self, home: Path) -> None:
        command = [sys.executable, "-c", dedent(NURSERY), str(home)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._next = 0

    def life(self, writes: int) -> set[tuple[str, int]]:
        """Let a child live until `writes` writes have returned; return all that did."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"%d\n" % self._next)
        self._process.stdin.flush()
        self._next += 1_000_000
        said: set[tuple[str, int]] = set()
        child = 0
        killed = False
        while True:
            word, number = self._line()
            if word == "dead":
                assert killed, "the child ended by itself"
                return said
            if word == "child":
                child = number
            else:
                said.add((word, number))
            if child and not killed and len(said) >= writes:
                os.kill(child, signal.SIGKILL)
                killed = True

    def _line(self) -> tuple[str, int]:
        assert self._process.stdout is not None
        word, number = self._process.stdout.readline().decode().split()
        return word, int(number)

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path)
    yield nursery
    nursery.close()


async def stored(home: Path) -> set[tuple[str, int]]:
    store = await open_store(StorageSettings(), home)
    try:
        assert store.durable, store.problem
        rows = await store.read(lambda c: c.execute(sa.text("SELECT id FROM rows")).scalars().all())
        query = sa.text("SELECT turn FROM storage_messages")
        turns = await store.read(lambda c: [int(turn) for turn in c.execute(query).scalars()])
    finally:
        await store.close()
    assert len(turns) == len(set(turns))
    return {("row", number) for number in rows} | {("append", number) for number in turns}


def check(nursery: Nursery, home: Path, kills: int) -> None:
    moments = random.Random(kills)
    acknowledged: set[tuple[str, int]] = set()
    for number in range(kills):
        # Some die while they start, with the tables half made; most while they write.
        writes = 0 if number % 5 == 0 else moments.randrange(1, 400)
        said = nursery.life(writes)
        acknowledged |= {("append" if how == "append" else "row", each) for how, each in said}
        assert acknowledged - asyncio.run(stored_or_nothing(home, acknowledged)) == set()
    assert len(acknowledged) > kills


async def stored_or_nothing(home: Path, acknowledged: set[tuple[str, int]]) -> set[tuple[str, int]]:
    # Before the first write has returned there may be no table yet.
    return await stored(home) if acknowledged else set()


@pytest.mark.slow
def test_nothing_that_was_acknowledged_is_lost_when_the_process_is_killed(
    nursery: Nursery, tmp_path: Path
) -> None:
    check(nursery, tmp_path, 5)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_that_was_acknowledged_is_lost_over_many_kills(
    nursery: Nursery, tmp_path: Path, short: bool
) -> None:
    check(nursery, tmp_path, 60 if short else 300)
