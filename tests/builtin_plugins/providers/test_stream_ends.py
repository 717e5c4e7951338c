"""A stream is done with its usage or with the mark of its end; cut before both, it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.builtin_plugins.providers.raw import CHUNKED, CLOSING, RawServer, Wire
from tests.builtin_plugins.providers.transcripts import chunk, sse
from tests.support.script import settings

from hookgate import Ending, Gateway, ModelRequest, Turn, Usage, hookimpl

if TYPE_CHECKING:
    from pathlib import Path

SAID = chunk({"content": "fine"})
STOP = chunk({}, "stop")
USAGE = {"prompt_tokens": 12, "completion_tokens": 3}
BEGUN = {"type": "message_start", "message": {"role": "assistant", "usage": {"input_tokens": 12}}}
DELTA = {
    "type": "content_block_delta",
    "index": 0,
    "delta": {"type": "text_delta", "text": "fine"},
}


def stopped(**usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}


class Ended:
    name = "ended"

    def __init__(self) -> None:
        self.calls: list[tuple[Ending, Usage | None]] = []

    @hookimpl
    def after_model_call(
        self, turn: Turn, request: ModelRequest, ending: Ending, usage: Usage | None
    ) -> None:
        self.calls.append((ending, usage))


@pytest.mark.parametrize(
    ("kind", "events", "status"),
    [
        ("openai", (SAID, STOP, chunk(usage=USAGE), "[DONE]"), "done"),
        ("openai", (SAID, STOP, chunk(usage=USAGE)), "done"),
        ("openai", (SAID, STOP, "[DONE]"), "done"),
        ("openai", (SAID, STOP), "cut"),
        # Figures from before the stop are not the last ones.
        ("openai", (chunk({"content": "fine"}, usage=USAGE), STOP), "cut"),
        ("anthropic", (BEGUN, DELTA, stopped(output_tokens=3), {"type": "message_stop"}), "done"),
        ("anthropic", (BEGUN, DELTA, stopped(output_tokens=3)), "done"),
        ("anthropic", (BEGUN, DELTA, stopped(), {"type": "message_stop"}), "done"),
        ("anthropic", (BEGUN, DELTA, stopped()), "cut"),
    ],
)
@pytest.mark.parametrize("how", ["closed", "broken"])
async def test_stream_is_done_with_its_usage_or_the_mark_of_its_end(
    kind: str, events: tuple[Any, ...], status: str, how: str, server: RawServer, tmp_path: Path
) -> None:
    stream = sse(*events)

    async def script(wire: Wire) -> None:
        # A chunked answer without its last chunk is known to be cut; a plain one just ends.
        framed = CHUNKED + b"%x\r\n%b\r\n" % (len(stream), stream)
        await wire.raw(framed if how == "broken" else CLOSING + stream)
        wire.close()

    server.script = script
    ended = Ended()
    made = settings(
        tmp_path,
        agents={"main": {"model": "acme/big"}},
        plugin={"providers": {"acme": {"kind": kind, "base_url": server.url}}},
    )
    async with Gateway(made, builtin=("egress", "providers"), plugins=(ended,)) as gate:
        turn = await gate.chat("hi")
    ((ending, usage),) = ended.calls
    assert (turn.ending, turn.answer) == ("done", "fine")
    assert (ending.status, ending.stop) == (status, "end")
    assert usage is not None
    assert usage.reported <= (status == "done")
