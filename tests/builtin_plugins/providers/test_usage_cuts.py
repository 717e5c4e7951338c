"""A stream that breaks off after any byte is charged no less than its sender had reported."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.builtin_plugins.providers.raw import CHUNKED, CLOSING, RawServer, Wire
from tests.builtin_plugins.providers.test_usage import Settled
from tests.builtin_plugins.providers.transcripts import chunk, sse
from tests.support.script import settings

from hookgate import Gateway, Usage, hookimpl
from hookgate.kit.usage import anthropic_messages, openai_chat

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from hookgate import Turn, TurnPlan


class Once(Settled):
    """Has each turn ask once."""

    @hookimpl
    def plan_turn(self, turn: Turn, plan: TurnPlan) -> TurnPlan:
        return replace(plan, retries=0)


def counted(completion: int) -> dict[str, Any]:
    """Return usage as a server sends it that counts in each chunk."""
    return {
        "prompt_tokens": 1200,
        "completion_tokens": completion,
        "total_tokens": 1200 + completion,
        "prompt_tokens_details": {"cached_tokens": 1024},
    }


OPENAI = sse(
    chunk({"role": "assistant", "content": ""}, usage=counted(0)),
    chunk({"content": "a"}, usage=counted(300)),
    chunk({"content": "b"}, usage=counted(301)),
    chunk({}, "stop"),
    chunk(usage=counted(700)),
    "[DONE]",
)
STARTED = {
    "input_tokens": 25,
    "cache_creation_input_tokens": 700,
    "cache_read_input_tokens": 9000,
    "cache_creation": {"ephemeral_1h_input_tokens": 600, "ephemeral_5m_input_tokens": 100},
    "output_tokens": 3,
}
ANTHROPIC = sse(
    {"type": "message_start", "message": {"role": "assistant", "usage": STARTED}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 700},
    },
    {"type": "message_stop"},
)


def events(sent: bytes) -> Iterable[Any]:
    """Return the events that have arrived whole, whether or not their blank line has."""
    for line in sent.split(b"\n"):
        try:
            yield json.loads(line.removeprefix(b"data: "))
        except ValueError:
            continue


def reported(kind: str, sent: bytes) -> Usage:
    """Return what had been reported when `sent` had been sent."""
    last = Usage()
    if kind == "openai":
        for event in events(sent):
            if event.get("usage"):
                last = openai_chat(event["usage"])
        return last
    raw: dict[str, Any] = {}
    for event in events(sent):
        raw |= (event.get("message") or event).get("usage") or {}
    return anthropic_messages(raw) if raw else last


@pytest.mark.slow
@pytest.mark.parametrize("how", ["closed", "chunked"])
@pytest.mark.parametrize(("kind", "stream"), [("openai", OPENAI), ("anthropic", ANTHROPIC)])
async def test_a_cut_after_any_byte_charges_what_was_reported(
    kind: str, stream: bytes, how: str, server: RawServer, tmp_path: Path
) -> None:
    settled = Once()
    made = settings(
        tmp_path,
        agents={"main": {"model": "acme/big"}},
        plugin={"providers": {"acme": {"kind": kind, "base_url": server.url}}},
    )
    sent = b""

    async def script(wire: Wire) -> None:
        # Without a length, the end of the connection is the end of the answer; a chunked answer
        # that ends so is known to be cut.
        framed = b"%x\r\n%b\r\n" % (len(sent), sent) if how == "chunked" and sent else sent
        await wire.raw((CHUNKED if how == "chunked" else CLOSING) + framed)
        wire.close()

    server.script = script
    wholes = set()
    async with Gateway(made, builtin=("egress", "providers"), plugins=(settled,)) as gate:
        for at in range(len(stream) + 1):
            sent = stream[:at]
            settled.usages.clear()
            turn = await gate.chat("what is 17*23?")
            (usage,) = settled.usages
            floor = reported(kind, sent)
            charged = usage or Usage()
            assert charged.total_input >= floor.total_input, sent
            assert charged.total_output >= floor.total_output, sent
            for name in ("cache_read_tokens", "cache_write_tokens", "cache_write_hour_tokens"):
                assert getattr(charged, name) == getattr(floor, name), sent
            if charged.reported and usage is not None:
                wholes.add(charged)
                assert turn.ending == "done", sent
    assert wholes == {reported(kind, stream)}
