"""The installed plugin in a real gateway, and an agent on a real UDP socket."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hookgate_statsd import DATAGRAM, packed, tag

from hookgate import Gateway, Settings

LINE = re.compile(r"capabilities\.injected:1\|c\|#capability:([\w./-]+),session:([0-9a-f]{16})")


@pytest.fixture
def agent() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.setblocking(False)
        yield listening


@asynccontextmanager
async def gateway(home: Path, port: int, **settings: object) -> AsyncIterator[Gateway]:
    section = {"port": port, **settings}
    config = Settings.model_validate({"home": home, "plugin": {"statsd": section}})
    async with Gateway(config, builtin=("providers",)) as running:
        yield running


async def heard(agent: socket.socket) -> list[str]:
    loop = asyncio.get_running_loop()
    data = await asyncio.wait_for(loop.sock_recv(agent, 65_536), 10)
    return data.decode().splitlines()


def turn(gateway: Gateway, session: str, *cards: str) -> None:
    """Record a turn, as the plugin `awareness` does."""
    injected = [{"id": card, "relevanceScore": 1.0, "tokensUsed": 50} for card in cards]
    gateway.host.metric("awareness.turn", sessionKey=session, injected=injected)


async def test_each_injected_capability_is_counted(tmp_path: Path, agent: socket.socket) -> None:
    async with gateway(tmp_path, agent.getsockname()[1]) as running:
        turn(running, "demo:ws::", "deployment", "billing")
        lines = await heard(agent)

    cards, sessions = zip(*(LINE.fullmatch(line).groups() for line in lines), strict=True)
    assert cards == ("deployment", "billing")
    assert len(set(sessions)) == 1


async def test_sessions_are_told_apart_and_not_named(tmp_path: Path, agent: socket.socket) -> None:
    async with gateway(tmp_path, agent.getsockname()[1]) as running:
        lines = []
        for session in ("demo:sms:+4712345678:", "demo:sms:+4787654321:", "demo:sms:+4712345678:"):
            turn(running, session, "billing")
            lines += await heard(agent)

    assert lines[0] == lines[2] != lines[1]
    assert not any("4712345678" in line for line in lines)


async def test_session_is_no_tag_where_it_is_not_wanted(
    tmp_path: Path, agent: socket.socket
) -> None:
    async with gateway(tmp_path, agent.getsockname()[1], session_tag=False) as running:
        turn(running, "demo:ws::", "billing")
        assert await heard(agent) == ["capabilities.injected:1|c|#capability:billing"]


async def test_turns_without_cards_and_other_records_send_nothing(
    tmp_path: Path, agent: socket.socket
) -> None:
    async with gateway(tmp_path, agent.getsockname()[1]) as running:
        await running.chat("/say hello")
        turn(running, "demo:ws::")
        running.host.metric("awareness.turn")
        turn(running, "demo:ws::", "last")
        (line,) = await heard(agent)

    assert "capability:last" in line


async def test_turns_go_on_when_nobody_listens(tmp_path: Path, agent: socket.socket) -> None:
    port = agent.getsockname()[1]
    agent.close()
    async with gateway(tmp_path, port) as running:
        turn(running, "demo:ws::", "billing")
        turn(running, "demo:ws::", "billing")
        assert (await running.chat("/say hello")).answer == "hello"


def test_tag_cannot_end_its_line_or_begin_another_tag() -> None:
    assert tag("capability", "a,b|c\nd:e#f") == "capability:a_b_c_d_e_f"
    assert len(tag("capability", "x" * 999)) == 200


def test_many_lines_go_into_few_datagrams_that_are_not_cut() -> None:
    lines = [b"%d" % number * 10 for number in range(500)]
    datagrams = list(packed(lines))

    assert max(map(len, datagrams)) <= DATAGRAM
    assert b"\n".join(datagrams).split(b"\n") == lines
