"""`kill -9` in the middle of many conversations: nothing acknowledged is lost."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.talker import MESSAGES, PEERS

from hookgate.core.domain.ports import CONVERSATIONS
from hookgate.core.domain.turn import SessionKey
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway

TALKER = Path(__file__).with_name("talker.py")


def run_and_kill(home: Path, part: str, after: int | None) -> list[str]:
    """Let the talker run, kill it after so many acknowledgements, and return those seen."""
    command = [sys.executable, str(TALKER), str(home), part]
    seen: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n") and line[0].isdigit():
                seen.append(line.strip())
            if after is not None and len(seen) == after:
                process.send_signal(signal.SIGKILL)
                after = None
    return seen


async def check(home: Path, acknowledged: list[str]) -> None:
    settings = Settings(home=home, plugins={"entry_points": False})  # type: ignore[arg-type]
    async with Gateway(settings) as gate:
        assert gate.host.degraded == {}
        for peer in range(PEERS):
            key = SessionKey("demo", "cli", "local", f"p{peer}")
            stored = await gate.host[CONVERSATIONS].history(key, turns=100_000)
            answers = [item.text for item in stored if item.role == "assistant"]
            mine = [line for line in acknowledged if line.startswith(f"{peer} ")]
            assert [answer for answer in answers if answer in mine] == mine
            assert all(answer.startswith(f"{peer} ") for answer in answers)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
async def test_nothing_acknowledged_is_lost_when_the_gateway_is_killed(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    acknowledged: list[str] = []
    for part in range(2):
        acknowledged += run_and_kill(tmp_path, str(part), chance.randrange(1, PEERS * 10))
        await check(tmp_path, acknowledged)
    acknowledged += run_and_kill(tmp_path, "last", None)
    assert len([line for line in acknowledged if " last." in line]) == PEERS * MESSAGES
    await check(tmp_path, acknowledged)


@pytest.mark.slow
@pytest.mark.timeout(7200)
async def test_nothing_is_lost_over_many_kills(short: bool, tmp_path: Path) -> None:
    chance = random.Random(7)
    acknowledged: list[str] = []
    for part in range(2 if short else 300):
        acknowledged += run_and_kill(tmp_path, str(part), chance.randrange(1, PEERS * 10))
        if part % 10 == 4:
            await check(tmp_path, acknowledged)
    await check(tmp_path, acknowledged)
