"""Impossible usage is a fault of the provider: the answer stands, and the figures are estimated."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from tests.builtin_plugins.providers.raw import RawServer, Wire
from tests.builtin_plugins.providers.transcripts import chunk, sse
from tests.support.examples import sampled
from tests.support.script import Events, Script, Scripted, settings
from tests.support.script import gateway as scripted

from hookgate import Gateway
from hookgate.core.domain.events import MetricRecord
from hookgate.core.domain.models import StopEvent, TextDelta, Usage, UsageEvent
from hookgate.core.log import Log
from hookgate.core.turn.tools.sound import MAX_TOKENS
from hookgate.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from hookgate.core.domain.models import Ending, ModelRequest
    from hookgate.core.domain.turn import Turn

ANSWER = "seventeen times twenty-three is three hundred and ninety-one"


def openai_stream(usage: str) -> bytes:
    spoken = sse(chunk({"content": ANSWER}), chunk({}, "stop"))
    last = f'data: {{"choices": [], "usage": {usage}}}\n\ndata: [DONE]\n\n'
    return spoken + last.encode()


def openai_whole(usage: str) -> bytes:
    choice = {"index": 0, "message": {"content": ANSWER}, "finish_reason": "stop"}
    return f'{{"choices": [{json.dumps(choice)}], "usage": {usage}}}'.encode()


def anthropic_stream(usage: str) -> bytes:
    delta = {"type": "text_delta", "text": ANSWER}
    spoken = sse(
        {"type": "message_start", "message": {"role": "assistant"}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
    )
    last = f'{{"type": "message_delta", "delta": {{"stop_reason": "end_turn"}}, "usage": {usage}}}'
    return spoken + f"data: {last}\n\n".encode() + sse({"type": "message_stop"})


def anthropic_whole(usage: str) -> bytes:
    content = json.dumps([{"type": "text", "text": ANSWER}])
    return (
        f'{{"type": "message", "role": "assistant", "content": {content}, '
        f'"stop_reason": "end_turn", "usage": {usage}}}'
    ).encode()


ANSWERS: dict[str, tuple[str, str, Callable[[str], bytes]]] = {
    "openai streamed": ("openai", "text/event-stream", openai_stream),
    "openai whole": ("openai", "application/json", openai_whole),
    "anthropic streamed": ("anthropic", "text/event-stream", anthropic_stream),
    "anthropic whole": ("anthropic", "application/json", anthropic_whole),
}
NAMES = {
    "openai": ("prompt_tokens", "completion_tokens"),
    "anthropic": ("input_tokens", "output_tokens"),
}


class Settled:
    """Keeps what `after_model_call` and `log_metrics` were told."""

    name = "settled"

    def __init__(self) -> None:
        self.usages: list[Usage | None] = []
        self.records: list[MetricRecord] = []

    @hookimpl
    def after_model_call(
        self, turn: Turn, request: ModelRequest, ending: Ending, usage: Usage | None
    ) -> None:
        self.usages.append(usage)

    @hookimpl
    def log_metrics(self, record: MetricRecord) -> None:
        self.records.append(record)


def gateway(server: RawServer, kind: str, home: Path, *plugins: object) -> Gateway:
    made = settings(
        home,
        agents={"main": {"model": "acme/big"}},
        plugin={"providers": {"acme": {"kind": kind, "base_url": server.url}}},
    )
    return Gateway(made, builtin=("egress", "providers"), plugins=plugins)


def says(server: RawServer, content_type: str, body: bytes) -> None:
    async def script(wire: Wire) -> None:
        await wire.answer(200, body, content_type=content_type)

    server.script = script


def impossible(kind: str, value: str) -> str:
    first, second = NAMES[kind]
    return f'{{"{first}": {value}, "{second}": {value}}}'


VALUES = ["-1", "NaN", "Infinity", '"12"', "1.5", "1" + "0" * 30, "1" + "0" * 5000, "[3]", "true"]


@pytest.mark.parametrize("how", ANSWERS)
@pytest.mark.parametrize("value", sampled([*VALUES, "nonsense"], every=5))
async def test_the_answer_stands_and_its_usage_is_an_estimate(
    how: str, value: str, server: RawServer, tmp_path: Path
) -> None:
    kind, content_type, answer = ANSWERS[how]
    usage = '"nonsense"' if value == "nonsense" else impossible(kind, value)
    says(server, content_type, answer(usage))
    events, settled_with = Events(), Settled()
    async with gateway(server, kind, tmp_path, settled_with) as gate:
        turn = await gate.chat("what is 17*23?", sink=events)
        notices = dict(gate.host.notices)
    assert (turn.ending, turn.answer, turn.error) == ("done", ANSWER, None)
    assert not turn.usage.reported
    assert turn.usage.total_input > 0
    assert turn.usage.total_output >= gate.host.tokens.count(ANSWER)
    assert events.of("done")[0]["usage"] == turn.usage.to_json()
    assert settled_with.usages == [turn.usage]
    assert "error" not in events.types()
    assert "impossible" in notices["usage of provider acme"]


@pytest.mark.parametrize("how", ANSWERS)
@pytest.mark.parametrize("usage", ["null", "{}"])
async def test_usage_that_was_not_reported_is_estimated(
    how: str, usage: str, server: RawServer, tmp_path: Path
) -> None:
    kind, content_type, answer = ANSWERS[how]
    says(server, content_type, answer(usage))
    async with gateway(server, kind, tmp_path) as gate:
        turn = await gate.chat("what is 17*23?")
    assert (turn.ending, turn.answer) == ("done", ANSWER)
    assert not turn.usage.reported
    assert turn.usage.total_output >= gate.host.tokens.count(ANSWER)


@pytest.mark.parametrize("how", ANSWERS)
async def test_figures_that_can_be_are_taken_as_reported(
    how: str, server: RawServer, tmp_path: Path
) -> None:
    kind, content_type, answer = ANSWERS[how]
    first, second = NAMES[kind]
    says(server, content_type, answer(f'{{"{first}": 12, "{second}": 14}}'))
    async with gateway(server, kind, tmp_path) as gate:
        turn = await gate.chat("hi")
        assert "usage of provider acme" not in gate.host.notices
    assert turn.usage == Usage(input_tokens=12, output_tokens=14)


async def test_more_cached_than_read_is_impossible(server: RawServer, tmp_path: Path) -> None:
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 9},
    }
    says(server, "text/event-stream", openai_stream(json.dumps(usage)))
    async with gateway(server, "openai", tmp_path) as gate:
        turn = await gate.chat("hi")
    assert turn.ending == "done"
    assert not turn.usage.reported
    assert turn.usage.cache_read_tokens == 0


async def test_the_log_names_the_provider_and_what_was_found_once_an_answer(
    server: RawServer, tmp_path: Path
) -> None:
    bad = {"prompt_tokens": -7, "completion_tokens": 1}
    pieces = sse(
        chunk({"content": "a"}, usage=bad), chunk({"content": "b"}, "stop", usage=bad), "[DONE]"
    )
    says(server, "text/event-stream", pieces)
    gate, lines = gateway(server, "openai", tmp_path), io.StringIO()
    gate.host.log = Log(gate.settings.log, gate.host.secrets, stream=lines).logger()
    async with gate:
        await gate.chat("hi")
    told = [json.loads(line) for line in lines.getvalue().splitlines()]
    warned = [line for line in told if line["level"] == "warning"]
    warned = [line for line in warned if line["event"] == "impossible usage reported"]
    assert [line["provider"] for line in warned] == ["acme"]
    assert "prompt_tokens = '-7'" in warned[0]["found"]


ODD: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**70), max_value=2**70)
    | st.floats()
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
KEYS = [
    "prompt_tokens",
    "completion_tokens",
    "prompt_tokens_details",
    "completion_tokens_details",
    "prompt_cache_hit_tokens",
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
]


@pytest.fixture
async def gates(server: RawServer, tmp_path: Path) -> AsyncIterator[Mapping[str, Gateway]]:
    async with (
        gateway(server, "openai", tmp_path / "openai") as first,
        gateway(server, "anthropic", tmp_path / "anthropic") as second,
    ):
        yield {"openai": first, "anthropic": second}


@pytest.mark.slow
@examples(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    usage=ODD | st.dictionaries(st.sampled_from(KEYS), ODD | st.integers(0, 100), max_size=6),
    how=st.sampled_from(sorted(ANSWERS)),
)
async def test_no_usage_at_all_can_fail_a_turn(
    usage: Any, how: str, server: RawServer, gates: Mapping[str, Gateway]
) -> None:
    kind, content_type, answer = ANSWERS[how]
    says(server, content_type, answer(json.dumps(usage)))
    turn = await gates[kind].chat("hi")
    assert (turn.ending, turn.answer) == ("done", ANSWER)
    counts = turn.usage.to_json()
    assert all(0 <= value <= 3 * MAX_TOKENS for value in counts.values())


async def test_impossible_figures_of_any_provider_are_estimated(tmp_path: Path) -> None:
    lie = Usage(input_tokens=10**400, output_tokens=-1)
    script = Script([TextDelta(ANSWER), UsageEvent(lie), StopEvent("end")])
    async with scripted(Scripted(script)) as gate:
        turn = await gate.chat("hi")
        notices = dict(gate.host.notices)
    assert (turn.ending, turn.answer) == ("done", ANSWER)
    assert not turn.usage.reported
    assert 0 < turn.usage.total_input < 10_000
    assert "impossible" in notices["usage of provider script"]
