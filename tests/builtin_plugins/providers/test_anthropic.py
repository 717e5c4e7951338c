from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.providers.requests_made import (
    FULL,
    SHOWN,
    assistant,
    request,
    results,
    user,
)
from tests.builtin_plugins.providers.transcripts import ANTHROPIC, sse

from hookgate.builtin_plugins.providers.anthropic import AnthropicReader, AnthropicWire
from hookgate.builtin_plugins.providers.wire.protocol import SSESplitter
from hookgate.core.domain.errors import ProviderError
from hookgate.core.domain.messages import Opaque, ToolResultPart, ToolUse
from hookgate.core.domain.models import (
    ModelEvent,
    OpaqueDelta,
    ReasoningDelta,
    StopEvent,
    SystemText,
    TextDelta,
    ToolUseEvent,
    Usage,
    UsageEvent,
)
from hookgate.core.domain.parts import Text

WIRE = AnthropicWire("acme", "https://api.anthropic.com", "key")


class Read:
    """Reads events with a reader of its own, and keeps what it complained of."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.reader = AnthropicReader("acme", self.complaints.append)

    def __call__(self, *events: Any) -> list[ModelEvent]:
        said: list[ModelEvent] = []
        for event in events:
            said.extend(self.reader.read(json.dumps(event).encode()))
        return said


def start(usage: Any) -> Any:
    return {"type": "message_start", "message": {"usage": usage}}


def end(usage: Any, reason: Any = "end_turn") -> Any:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def usages(events: list[ModelEvent]) -> list[Usage]:
    return [event.usage for event in events if isinstance(event, UsageEvent)]


# -- requests ----------------------------------------------------------------


GOLDEN = {
    "model": "big",
    "max_tokens": 512,
    "stream": True,
    "system": [
        {"type": "text", "text": "You are kind."},
        {
            "type": "text",
            "text": "The house rules.",
            "cache_control": {"type": "ephemeral"},
        },
        {"type": "text", "text": "It rains."},
    ],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "what is 17*23, and what time is it?"},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
                },
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s1"},
                {"type": "text", "text": "I will look."},
                {
                    "type": "tool_use",
                    "id": "call_a_0",
                    "name": "calculate",
                    "input": {"expression": "17*23"},
                },
                {
                    "type": "tool_use",
                    "id": "b",
                    "name": "clock",
                    "input": {"malformed_arguments": '{"zone": '},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "call_a_0",
                    "content": "391",
                    "is_error": False,
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "b",
                    "content": "no such zone",
                    "is_error": True,
                },
                {"type": "text", "text": "and now?"},
            ],
        },
    ],
    "tools": [
        {
            "name": "calculate",
            "description": "Does sums.",
            "input_schema": {
                "type": "object",
                "properties": {"expression": {"type": "string"}},
                "required": ["expression"],
            },
        },
        {
            "name": "clock",
            "description": "Tells the time.",
            "input_schema": {"type": "object"},
        },
    ],
    "temperature": 0.5,
    "stop_sequences": ["END"],
    "top_p": 0.9,
}


def test_a_whole_request_has_the_shape_of_the_messages_api() -> None:
    assert WIRE.body(FULL) == GOLDEN


def test_the_smallest_request_says_no_more_than_it_must() -> None:
    assert WIRE.body(request(user("hello"))) == {
        "model": "big",
        "max_tokens": 1024,
        "stream": True,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
    }


def test_messages_of_one_role_become_one_message() -> None:
    body = WIRE.body(request(user("a"), user("b"), assistant("c"), assistant("d"), user("e")))
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert [block["text"] for block in body["messages"][0]["content"]] == ["a", "b"]


def test_a_conversation_never_begins_with_the_assistant() -> None:
    body = WIRE.body(request(assistant("hello"), user("hi")))
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]


def test_empty_text_is_left_out_and_with_it_an_empty_message() -> None:
    body = WIRE.body(request(user("a"), assistant(""), user("  "), user("b")))
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]


def test_without_a_stable_piece_nothing_is_marked_for_the_cache() -> None:
    body = WIRE.body(request(user("a"), system=(SystemText(text="x"),)))
    assert body["system"] == [{"type": "text", "text": "x"}]


def test_a_call_without_a_result_gets_an_error_result() -> None:
    use = ToolUse(id="a", name="clock", input={})
    body = WIRE.body(request(user("x"), assistant(use), user("y")))
    content = body["messages"][2]["content"]
    assert content[0]["type"] == "tool_result"
    assert content[0]["is_error"] is True
    assert content[1] == {"type": "text", "text": "y"}


def test_a_result_without_its_call_stays_as_text() -> None:
    body = WIRE.body(request(results(ToolResultPart(tool_use_id="x", content="42")), user("y")))
    assert body["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Result of an earlier tool call: 42"},
                {"type": "text", "text": "y"},
            ],
        }
    ]


@pytest.mark.parametrize("option", ["model", "messages", "system", "tools", "stream", "max_tokens"])
def test_options_cannot_change_what_the_gateway_has_judged(option: str) -> None:
    with pytest.raises(ProviderError, match=option) as caught:
        WIRE.body(request(user("x"), options={option: 1}))
    assert caught.value.kind == "rejected"


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://proxy.example/anthropic/v1", "https://proxy.example/anthropic/v1/messages"),
        ("https://proxy.example/anthropic/", "https://proxy.example/anthropic/v1/messages"),
    ],
)
def test_the_address_may_end_in_its_version_or_not(base: str, url: str) -> None:
    assert AnthropicWire("acme", base, None).url == url


def test_the_key_stands_in_its_own_header_where_there_is_one() -> None:
    assert WIRE.headers == {"anthropic-version": "2023-06-01", "x-api-key": "key"}
    assert "x-api-key" not in AnthropicWire("acme", "http://127.0.0.1", None).headers


# -- answers -----------------------------------------------------------------

SAID: list[ModelEvent] = [
    UsageEvent(
        Usage(
            input_tokens=25,
            cache_read_tokens=900,
            cache_write_tokens=7,
            output_tokens=1,
            reported=False,
        )
    ),
    ReasoningDelta("Let me "),
    ReasoningDelta("see."),
    OpaqueDelta(
        Opaque(
            provider="acme",
            data={"type": "thinking", "thinking": "Let me see.", "signature": "EqQBCgIY="},
        )
    ),
    OpaqueDelta(Opaque(provider="acme", data={"type": "redacted_thinking", "data": "b3BhcXVl"})),
    TextDelta("Zürich – 日本\u2028語 😀 "),
    TextDelta("and on"),
    ToolUseEvent(id="toolu_a", name="calculate", input={"expression": "17*23"}),
    ToolUseEvent(id="toolu_b", name="clock", input={}),
    UsageEvent(
        Usage(input_tokens=25, cache_read_tokens=900, cache_write_tokens=7, output_tokens=89)
    ),
    StopEvent("tool_use"),
]


def test_a_whole_answer_is_read_in_order() -> None:
    read = Read()
    assert read(*ANTHROPIC) == SAID
    assert read.reader.done
    assert read.complaints == []


def test_a_split_at_any_byte_of_the_stream_changes_nothing() -> None:
    stream = sse(*ANTHROPIC)
    for at in range(len(stream) + 1):
        reader, splitter = AnthropicReader("acme", str), SSESplitter()
        said: list[ModelEvent] = []
        for chunk in (stream[:at], stream[at:]):
            for data in splitter.feed(chunk):
                said.extend(reader.read(data))
        assert said == SAID


def test_what_was_read_goes_back_in_its_place() -> None:
    parts: list[Any] = []
    text = ""
    for event in SAID:
        match event:
            case TextDelta():
                text += event.text
            case OpaqueDelta(part):
                parts.append(part)
            case ToolUseEvent():
                if text:
                    parts.append(Text(text))
                    text = ""
                parts.append(ToolUse(id=event.id, name=event.name, input=event.input))
    done = results(
        ToolResultPart(tool_use_id="toolu_a", content="391"),
        ToolResultPart(tool_use_id="toolu_b", content="noon"),
    )
    body = WIRE.body(request(user("x"), assistant(*parts), done))
    assert [block["type"] for block in body["messages"][1]["content"]] == [
        "thinking",
        "redacted_thinking",
        "text",
        "tool_use",
        "tool_use",
    ]
    assert body["messages"][1]["content"][0]["signature"] == "EqQBCgIY="


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "end"),
        ("max_tokens", "max_tokens"),
        ("stop_sequence", "stop_sequence"),
        ("refusal", "refusal"),
        ("model_context_window_exceeded", "max_tokens"),
        ("pause_turn", "paused"),
        ("something_new", "other"),
    ],
)
def test_stop_reasons_are_mapped(reason: str, expected: str) -> None:
    assert Read()(end({}, reason), {"type": "message_stop"})[-1] == StopEvent(expected)  # type: ignore[arg-type]  # a parameter


def test_an_end_behind_the_stop_reason_is_an_end() -> None:
    read = Read()
    read(end({}))
    assert read.reader.end() == (StopEvent("end"),)


def test_an_end_in_the_middle_is_a_cut() -> None:
    read = Read()
    read(*ANTHROPIC[:10])
    with pytest.raises(ProviderError) as caught:
        read.reader.end()
    assert caught.value.kind == "cut"


@pytest.mark.parametrize("raw", ['{"a": ', "[1]", "null", '{"a": 1, "a": 2}', '{"a": NaN}', "x"])
def test_arguments_that_are_no_object_are_passed_on_as_text(raw: str) -> None:
    said = Read()(
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "a", "name": "x", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": raw},
        },
        {"type": "content_block_stop", "index": 0},
    )
    assert said == [ToolUseEvent(id="a", name="x", input=raw)]


def test_arguments_may_come_whole_with_the_start_of_the_block() -> None:
    said = Read()(
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "a", "name": "x", "input": {"k": 1}},
        },
        {"type": "content_block_stop", "index": 0},
    )
    assert said == [ToolUseEvent(id="a", name="x", input={"k": 1})]


def test_a_block_of_the_providers_own_tool_is_kept_whole() -> None:
    block = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    said = Read()(
        {"type": "content_block_start", "index": 0, "content_block": block},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"q": 1}'},
        },
        {"type": "content_block_stop", "index": 0},
    )
    assert said == [OpaqueDelta(Opaque(provider="acme", data={**block, "input": {"q": 1}}))]


def test_usage_is_cumulative_and_counted_once() -> None:
    said = Read()(
        start({"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5}),
        end({"input_tokens": 10, "output_tokens": 20, "cache_read_input_tokens": 5}),
        end({"output_tokens": 30}),
    )
    assert usages(said)[-1] == Usage(input_tokens=10, cache_read_tokens=5, output_tokens=30)


def test_a_later_zero_does_not_take_reported_input_back() -> None:
    said = Read()(
        start({"input_tokens": 10, "output_tokens": 1}),
        end({"input_tokens": 0, "output_tokens": 3}),
    )
    assert usages(said)[-1] == Usage(input_tokens=10, output_tokens=3)


def test_usage_is_not_called_reported_before_its_final_figures() -> None:
    assert [
        one.reported for one in usages(Read()(start({"input_tokens": 1, "output_tokens": 1})))
    ] == [False]


@pytest.mark.parametrize("count", [-1, 10**12, 1.5, "7", True, [1], 1e300])
def test_impossible_usage_counts_as_missing_and_is_complained_of(count: Any) -> None:
    read = Read()
    said = read(start({"input_tokens": 5, "output_tokens": 1}), end({"output_tokens": count}))
    assert [usage.reported for usage in usages(said)] == [False]
    assert len(read.complaints) == 1
    assert "output_tokens" in read.complaints[0]


def test_usage_is_absent_where_none_is_reported() -> None:
    assert usages(Read()(start(None), end(None), {"type": "message_stop"})) == []


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", "overloaded"),
        ("rate_limit_error", "rate_limited"),
        ("authentication_error", "auth"),
        ("permission_error", "auth"),
        ("invalid_request_error", "rejected"),
        ("request_too_large", "rejected"),
        ("timeout_error", "timeout"),
        ("api_error", "server"),
        ("something_new", "server"),
    ],
)
def test_an_error_in_the_stream_is_typed(kind: str, expected: str) -> None:
    with pytest.raises(ProviderError, match=f"{kind}.*: Busy") as caught:
        Read()({"type": "error", "error": {"type": kind, "message": "Busy"}})
    assert caught.value.kind == expected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"null",
        b'{"type": "content_block_delta"}',
        b'{"type": "content_block_delta", "delta": {"type": "text_delta", "text": 3}}',
        b'{"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta"}}',
        b'{"type": "content_block_start", "content_block": {}}',
        b'{"type": "content_block_start", "index": 0, "content_block": []}',
        b'{"type": "message_start", "message": 3}',
        b'{"type": "message_delta", "delta": "x"}',
        b'{"type": "error", "error": "x"}',
        b'{"type": "content_block_delta", "delta": {"type": "text_delta", "text": "\\ud800"}}',
    ],
)
def test_what_is_not_the_protocol_is_malformed(data: bytes) -> None:
    with pytest.raises(ProviderError) as caught:
        AnthropicReader("acme", str).read(data)
    assert caught.value.kind == "malformed"


@pytest.mark.parametrize(
    "event", [{"type": "ping"}, {"type": "new_event", "x": 1}, {}, {"type": 3}, {"type": None}]
)
def test_types_that_are_not_known_are_passed_over(event: Any) -> None:
    assert Read()(event) == []


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "index", "delta", "content_block", "usage", "message", "text"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
TYPES = st.sampled_from(
    [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "error",
        "ping",
    ]
)


@given(st.lists(st.tuples(TYPES, JSON, JSON)))
def test_whatever_comes_is_said_in_whole_events_or_is_the_providers_error(events: Any) -> None:
    read, ended = Read(), 0
    for kind, inner, index in events:
        keys = ("delta", "content_block", "message", "usage", "error")
        try:
            said = read({**dict.fromkeys(keys, inner), "type": kind, "index": index})
        except ProviderError:
            continue
        ended += kind == "message_stop"
        for one in said:
            match one:
                case TextDelta() | ReasoningDelta():
                    assert one.text
                case ToolUseEvent():
                    # No call is told before its end, and none without a name.
                    assert (kind, bool(one.id), bool(one.name)) == (
                        "content_block_stop",
                        True,
                        True,
                    )
                case UsageEvent():
                    assert min(one.usage.total_input, one.usage.total_output) >= 0
        assert sum(isinstance(one, StopEvent) for one in said) == (kind == "message_stop")
    assert read.reader.done == (ended > 0)


PIECES = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=3)
PLAIN = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4)
INPUTS = st.dictionaries(st.text(max_size=3), PLAIN | st.lists(PLAIN, max_size=2), max_size=3)
BLOCKS = st.lists(
    st.tuples(st.just("text"), PIECES)
    | st.tuples(st.just("thinking"), PIECES)
    | st.tuples(st.just("tool_use"), INPUTS, st.lists(st.integers(0, 60), max_size=3)),
    max_size=4,
)
NOISE = st.sampled_from([{"type": "ping"}, {"type": "new_event", "index": 0}, {"type": None}])


def block_of(index: int, block: Any) -> tuple[list[Any], list[ModelEvent]]:
    """Return the events of a block, and what they say."""
    kind = block[0]
    begun: dict[str, Any] = {"type": kind}
    said: list[ModelEvent] = []
    if kind == "tool_use":
        whole = json.dumps(block[1])
        cuts = [0, *sorted(min(one, len(whole)) for one in block[2]), len(whole)]
        begun |= {"id": f"t{index}", "name": "look", "input": {}}
        deltas: list[dict[str, Any]] = [
            {"type": "input_json_delta", "partial_json": whole[start:end]}
            for start, end in pairwise(cuts)
        ]
        said.append(ToolUseEvent(id=f"t{index}", name="look", input=block[1]))
    elif kind == "text":
        deltas = [{"type": "text_delta", "text": one} for one in block[1]]
        said += [TextDelta(one) for one in block[1]]
    else:
        deltas = [{"type": "thinking_delta", "thinking": one} for one in block[1]]
        deltas.append({"type": "signature_delta", "signature": "s"})
        signed = {"type": "thinking", "thinking": "".join(block[1]), "signature": "s"}
        said += [ReasoningDelta(one) for one in block[1]]
        said.append(OpaqueDelta(Opaque(provider="acme", data=signed)))
    events = [
        {"type": "content_block_start", "index": index, "content_block": begun},
        *({"type": "content_block_delta", "index": index, "delta": one} for one in deltas),
        {"type": "content_block_stop", "index": index},
    ]
    return events, said


@given(BLOCKS, st.lists(st.tuples(st.integers(0, 40), NOISE), max_size=4))
def test_an_answer_is_read_as_it_was_meant_wherever_it_is_cut(blocks: Any, noise: Any) -> None:
    made = [block_of(index, block) for index, block in enumerate(blocks)]
    events = [start({"input_tokens": 3}), *(one for some, _ in made for one in some)]
    events += [end({"output_tokens": 2}), {"type": "message_stop"}]
    for place, one in noise:
        events.insert(min(place, len(events) - 1), one)
    read = Read()
    said = [one for one in read(*events) if not isinstance(one, UsageEvent)]
    assert said == [*(one for _, some in made for one in some), StopEvent("end")]
    assert (read.reader.done, read.complaints) == (True, [])


def test_pictures_and_documents_stand_in_a_tools_result_and_sound_is_named() -> None:
    *_, answered = WIRE.body(SHOWN)["messages"]
    first, second = answered["content"]
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    paper = {"type": "base64", "media_type": "application/pdf", "data": "aGk="}
    assert first["content"] == [
        {"type": "text", "text": "Here:"},
        {"type": "image", "source": source},
        {"type": "document", "source": paper},
        {
            "type": "text",
            "text": "[left out: audio (audio/mpeg, 2 bytes): the provider does not take it]",
        },
    ]
    assert second["content"] == "noon"
