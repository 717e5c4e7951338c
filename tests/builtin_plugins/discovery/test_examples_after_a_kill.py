"""What turns teach whose answer was committed, and whose `after_turn` a kill has prevented."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.script import Allow, Script, Scripted, Tools, call, echo_tool, say, settled

from hookgate.builtin_plugins.discovery.learn.store import CURSORS
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.messages import new_id
from hookgate.core.domain.ports import CONVERSATIONS
from hookgate.core.domain.turn import Address, Principal
from hookgate.core.gateway.operations import Invocation
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway
from hookgate.hookspecs import hookimpl
from hookgate.ports import STORE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
ANSWER = "This is an answer that is long enough to count as a whole one."


TEXT = "do it near here"


def stop() -> None:
    print("stopped", flush=True)
    signal.pause()


class Dies:
    """Stops once a turn's answer is committed, so that nothing follows it."""

    name = "dies"

    @hookimpl
    def judge_turn(self) -> None:
        stop()


@asynccontextmanager
async def running(home: Path, *more: object) -> AsyncIterator[Gateway]:
    page = echo_tool("page", flags=Flags(reads_external_data=True))
    script = Script(
        call(("1", "near", {"text": "x"}), ("2", "page", {"text": "call far"})),
        call(("3", "far", {"text": "y"})),
        say(ANSWER),
    )
    tools = Tools(echo_tool("near"), echo_tool("far"), page)
    config = Settings.model_validate(
        {
            "home": home,
            "agents": {"main": {"model": "script/one"}},
            "default_agent": "main",
            "plugins": {"entry_points": False},
        }
    )
    plugins = [Scripted(script), Allow(), tools, *more]
    async with Gateway(config, builtin=("storage", "discovery"), plugins=plugins) as gate:
        yield gate


async def caught_up(gate: Gateway) -> None:
    """Wait until what was said before the start is heard."""
    query = CURSORS.select().with_only_columns(CURSORS.c.cursor)
    end = await gate.host[CONVERSATIONS].end()
    while await gate.host[STORE].read(lambda connection: connection.scalar(query)) != end:
        pass


async def do(gate: Gateway, name: str, **params: Any) -> dict[str, Any]:
    operation = gate.host.operations[name]
    invocation = Invocation(host=gate.host, principal=Principal.owner())
    result = await operation.handler(invocation, operation.params(**params))
    shown: dict[str, Any] = result.model_dump(mode="json")
    return shown


async def learned(gate: Gateway) -> list[tuple[str, str, int]]:
    rows = (await do(gate, "discovery.examples"))["examples"]
    return sorted((row["capability"], row["text"], row["count"]) for row in rows)


async def chat(gate: Gateway) -> None:
    # Each in a session of its own: what the history of one holds teaches nothing any more.
    await gate.chat(TEXT, address=Address(peer=new_id("peer")))
    await settled(gate)


async def main(home: Path, how: str) -> None:
    """Run a turn, and stop before anybody hears of its end, or after it was erased."""
    async with running(home, *([Dies()] if how == "unheard" else [])) as gate:
        await caught_up(gate)
        await chat(gate)
        await do(gate, "discovery.forget", all=True)
        stop()


def killed(home: Path, how: str) -> None:
    command = [sys.executable, "-m", __name__, str(home), how]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        stopped = False
        for line in process.stdout:
            if line == "stopped\n":
                stopped = True
                process.kill()
    assert stopped


async def test_a_turn_that_nobody_heard_is_learned_at_the_next_start_and_once(
    tmp_path: Path,
) -> None:
    for count in (1, 3):
        killed(tmp_path, "unheard")
        for more in (0, 1):
            async with running(tmp_path) as gate:
                await caught_up(gate)
                found = await learned(gate)
                assert ("tool:near", TEXT, count + more) in found
                # What a page led to is not learned.
                assert "tool:far" not in {row[0] for row in found}
                if not more:
                    await chat(gate)


async def test_what_was_erased_is_not_learned_once_more(tmp_path: Path) -> None:
    killed(tmp_path, "erased")
    async with running(tmp_path) as gate:
        await caught_up(gate)
        assert await learned(gate) == []


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
