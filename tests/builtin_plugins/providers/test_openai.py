from __future__ import annotations

import json
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
from tests.builtin_plugins.providers.transcripts import OPENAI, chunk, sse

from hookgate.builtin_plugins.providers.openai import OpenAIReader, OpenAIWire
from hookgate.builtin_plugins.providers.wire.protocol import SSESplitter
from hookgate.core.domain.errors import ProviderError
from hookgate.core.domain.messages import Opaque, ToolResultPart, ToolUse
from hookgate.core.domain.models import (
    ModelEvent,
    ReasoningDelta,
    StopEvent,
    TextDelta,
    ToolUseEvent,
    Usage,
    UsageEvent,
)

WIRE = OpenAIWire("acme", "https://api.openai.com/v1", "key")


class Read:
    """Reads events with a reader of its own, and keeps what it complained of."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.reader = OpenAIReader("acme", self.complaints.append)

    def __call__(self, *events: Any) -> list[ModelEvent]:
        said: list[ModelEvent] = []
        for event in events:
            data = event if isinstance(event, str) else json.dumps(event)
            said.extend(self.reader.read(data.encode()))
        return said


def call(index: int | None, call_id: str = "", name: str = "", arguments: Any = "") -> Any:
    fragment: dict[str, Any] = {"function": {"name": name, "arguments": arguments}}
    if index is not None:
        fragment["index"] = index
    if call_id:
        fragment["id"] = call_id
    return chunk({"tool_calls": [fragment]})


def calls_of(events: list[ModelEvent]) -> list[tuple[str, str, Any]]:
    return [(e.id, e.name, e.input) for e in events if isinstance(e, ToolUseEvent)]


# -- requests ----------------------------------------------------------------


GOLDEN = {
    "model": "big",
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_completion_tokens": 512,
    "messages": [
        {"role": "system", "content": "You are kind.\n\nThe house rules.\n\nIt rains."},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "what is 17*23, and what time is it?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            ],
        },
        {
            "role": "assistant",
            "content": "I will look.",
            "tool_calls": [
                {
                    "id": "call_a_0",
                    "type": "function",
                    "function": {
                        "name": "calculate",
                        "arguments": '{"expression":"17*23"}',
                    },
                },
                {
                    "id": "b",
                    "type": "function",
                    "function": {
                        "name": "clock",
                        "arguments": '{"malformed_arguments":"{\\"zone\\": "}',
                    },
                },
            ],
        },
        {"role": "tool", "tool_call_id": "call_a_0", "content": "391"},
        {"role": "tool", "tool_call_id": "b", "content": "Error: no such zone"},
        {"role": "user", "content": "and now?"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "calculate",
                "description": "Does sums.",
                "parameters": {
                    "type": "object",
                    "properties": {"expression": {"type": "string"}},
                    "required": ["expression"],
                },
            },
        },
        {
            "type": "function",
            "function": {
                "name": "clock",
                "description": "Tells the time.",
                "parameters": {"type": "object"},
            },
        },
    ],
    "temperature": 0.5,
    "stop": ["END"],
    "top_p": 0.9,
}


def test_a_whole_request_has_the_shape_of_chat_completions() -> None:
    assert WIRE.body(FULL) == GOLDEN


def test_the_smallest_request_says_no_more_than_it_must() -> None:
    assert WIRE.body(request(user("hello"))) == {
        "model": "big",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 1024,
        "messages": [{"role": "user", "content": "hello"}],
    }


def test_other_servers_get_the_older_name_of_the_output_limit() -> None:
    body = OpenAIWire("acme", "http://127.0.0.1:1/v1", None, "max_tokens").body(request(user("x")))
    assert body["max_tokens"] == 1024
    assert "max_completion_tokens" not in body


def test_an_assistant_message_of_calls_alone_has_no_content() -> None:
    use = ToolUse(id="a", name="clock", input={})
    done = results(ToolResultPart(tool_use_id="a", content="noon"))
    messages = WIRE.body(request(user("x"), assistant(use), done))["messages"]
    assert messages[1]["content"] is None
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]


def test_another_providers_own_data_is_not_sent() -> None:
    opaque = Opaque(provider="anthropic", data={"type": "thinking", "signature": "s"})
    messages = WIRE.body(request(user("x"), assistant(opaque), user("y")))["messages"]
    assert messages == [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]


def test_a_call_without_a_result_gets_an_error_result() -> None:
    use = ToolUse(id="a", name="clock", input={})
    messages = WIRE.body(request(user("x"), assistant(use)))["messages"]
    assert messages[-1]["role"] == "tool"
    assert messages[-1]["content"].startswith("Error: ")


@pytest.mark.parametrize("option", ["model", "messages", "n", "max_tokens", "stream_options"])
def test_options_cannot_change_what_the_gateway_has_judged(option: str) -> None:
    with pytest.raises(ProviderError, match=option) as caught:
        WIRE.body(request(user("x"), options={option: 1}))
    assert caught.value.kind == "rejected"


def test_the_key_is_a_bearer_token_where_there_is_one() -> None:
    assert WIRE.headers == {"authorization": "Bearer key"}
    assert WIRE.url == "https://api.openai.com/v1/chat/completions"
    assert OpenAIWire("acme", "http://127.0.0.1/v1/", None).headers == {}


# -- answers -----------------------------------------------------------------

SAID: list[ModelEvent] = [
    TextDelta("Zürich – 日本\u2028語 😀 "),
    TextDelta("and on"),
    UsageEvent(Usage(input_tokens=36, cache_read_tokens=64, output_tokens=20, reasoning_tokens=10)),
    ToolUseEvent(id="call_a", name="calculate", input={"expression": "17*23"}),
    ToolUseEvent(id="call_b", name="clock", input={}),
    StopEvent("tool_use"),
]


def test_a_whole_answer_is_read_in_order() -> None:
    read = Read()
    assert read(*OPENAI) == SAID
    assert read.reader.done
    assert read.complaints == []


def test_a_split_at_any_byte_of_the_stream_changes_nothing() -> None:
    stream = sse(*OPENAI)
    for at in range(len(stream) + 1):
        reader, splitter = OpenAIReader("acme", str), SSESplitter()
        said: list[ModelEvent] = []
        for piece in (stream[:at], stream[at:]):
            for data in splitter.feed(piece):
                said.extend(reader.read(data))
        assert said == SAID


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("stop", "end"),
        ("length", "max_tokens"),
        ("tool_calls", "tool_use"),
        ("function_call", "tool_use"),
        ("content_filter", "refusal"),
        ("something_new", "other"),
    ],
)
def test_finish_reasons_are_mapped(reason: str, expected: str) -> None:
    assert Read()(chunk({"content": "x"}, reason), "[DONE]")[-1] == StopEvent(expected)  # type: ignore[arg-type]  # a parameter


def test_calls_that_end_in_a_plain_stop_are_tool_use() -> None:
    said = Read()(call(0, "a", "clock", "{}"), chunk({}, "stop"), "[DONE]")
    assert said[-1] == StopEvent("tool_use")


def test_a_refusal_is_text_and_a_stop_reason() -> None:
    said = Read()(chunk({"refusal": "I will not."}), chunk({}, "stop"), "[DONE]")
    assert said == [TextDelta("I will not."), StopEvent("refusal")]


def test_an_end_behind_the_finish_reason_is_an_end() -> None:
    read = Read()
    said = [*read(call(0, "a", "clock", "{}"), chunk({}, "tool_calls")), *read.reader.end()]
    assert calls_of(said) == [("a", "clock", {})]
    assert said[-1] == StopEvent("tool_use")


def test_an_end_in_the_middle_is_a_cut() -> None:
    read = Read()
    read(*OPENAI[:3])
    with pytest.raises(ProviderError) as caught:
        read.reader.end()
    assert caught.value.kind == "cut"


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_reasoning_is_told_from_the_answer(key: str) -> None:
    said = Read()(chunk({"role": "assistant", "content": None, key: "hm"}))
    assert said == [ReasoningDelta("hm")]


def test_content_may_come_in_typed_parts() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "yes"},
    ]
    assert Read()(chunk({"content": parts})) == [ReasoningDelta("hm"), TextDelta("yes")]


def test_fragments_without_an_index_belong_to_the_call_before_them() -> None:
    said = Read()(
        call(None, "a", "calculate", '{"x"'),
        call(None, "", "", ": 1}"),
        call(None, "b", "clock", "{}"),
        "[DONE]",
    )
    assert calls_of(said) == [("a", "calculate", {"x": 1}), ("b", "clock", {})]


def test_a_call_without_an_id_gets_one() -> None:
    said = Read()(call(0, "", "clock", "{}"), call(1, "", "clock", "{}"), "[DONE]")
    ids = [call_id for call_id, _, _ in calls_of(said)]
    assert all(ids)
    assert len(set(ids)) == 2


def test_a_name_that_is_repeated_is_not_doubled() -> None:
    said = Read()(call(0, "a", "clock", '{"z"'), call(0, "a", "clock", ":1}"), "[DONE]")
    assert calls_of(said) == [("a", "clock", {"z": 1})]


def test_arguments_may_come_as_an_object() -> None:
    assert calls_of(Read()(call(0, "a", "x", {"k": 1}), "[DONE]")) == [("a", "x", {"k": 1})]


@pytest.mark.parametrize("raw", ['{"a": ', "[1]", "null", '{"a": 1, "a": 2}', "x"])
def test_arguments_that_are_no_object_are_passed_on_as_text(raw: str) -> None:
    assert calls_of(Read()(call(0, "a", "x", raw), "[DONE]")) == [("a", "x", raw)]


def test_answers_that_nobody_asked_for_are_passed_over() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "x"}, "finish_reason": "stop"}]}
    read = Read()
    assert read(other) == []
    with pytest.raises(ProviderError):
        read.reader.end()


def usage_of(usage: Any) -> tuple[list[Usage], list[str]]:
    read = Read()
    said = read(chunk({"content": "x"}, "stop"), chunk(usage=usage), "[DONE]")
    return [event.usage for event in said if isinstance(event, UsageEvent)], read.complaints


def test_usage_without_details_is_input_and_output() -> None:
    found, _ = usage_of({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7})
    assert found == [Usage(input_tokens=5, output_tokens=2)]


def test_details_that_are_null_count_nothing() -> None:
    found, complaints = usage_of(
        {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": None}
    )
    assert found == [Usage(input_tokens=5, output_tokens=2)]
    assert complaints == []


def test_cached_input_may_stand_under_another_name() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}
    assert usage_of(usage)[0] == [Usage(input_tokens=1, cache_read_tokens=4, output_tokens=2)]


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_disjoint_parts_add_up_to_what_was_reported(a: int, b: int, c: int, d: int) -> None:
    (usage,), complaints = usage_of(
        {
            "prompt_tokens": a + b,
            "completion_tokens": c + d,
            "prompt_tokens_details": {"cached_tokens": b},
            "completion_tokens_details": {"reasoning_tokens": d},
        }
    )
    assert (usage.total_input, usage.total_output) == (a + b, c + d)
    assert complaints == []


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -1, "completion_tokens": 2},
        {"prompt_tokens": 5, "completion_tokens": 10**15},
        {"prompt_tokens": 5, "completion_tokens": "2"},
        {"prompt_tokens": 5},
        {},
        {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 6}},
        {
            "prompt_tokens": 5,
            "completion_tokens": 2,
            "completion_tokens_details": {"reasoning_tokens": 3},
        },
        {"prompt_tokens": 5.5, "completion_tokens": 2},
        {"prompt_tokens": True, "completion_tokens": 2},
    ],
)
def test_impossible_usage_counts_as_missing_and_is_complained_of(usage: Any) -> None:
    found, complaints = usage_of(usage)
    assert not any(one.reported for one in found)
    assert len(complaints) == 1


def test_usage_in_every_chunk_is_counted_once() -> None:
    read = Read()
    said = read(
        chunk({"content": "a"}, usage={"prompt_tokens": 5, "completion_tokens": 1}),
        chunk({"content": "b"}, "stop", usage={"prompt_tokens": 5, "completion_tokens": 2}),
        "[DONE]",
    )
    found = [event.usage for event in said if isinstance(event, UsageEvent)]
    assert found == [
        Usage(input_tokens=5, output_tokens=1, reported=False),
        Usage(input_tokens=5, output_tokens=2),
    ]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"type": "rate_limit_exceeded", "message": "Busy"}, "rate_limited"),
        ({"code": "insufficient_quota", "message": "Busy"}, "rate_limited"),
        ({"type": "overloaded_error", "message": "Busy"}, "overloaded"),
        ({"code": 429, "message": "Busy"}, "rate_limited"),
        ({"code": "503", "message": "Busy"}, "overloaded"),
        ({"code": 401, "message": "Busy"}, "auth"),
        ({"type": "invalid_request_error", "message": "Busy"}, "rejected"),
        ({"type": "server_error", "message": "Busy"}, "server"),
        ({"code": "²", "message": "Busy"}, "server"),
        ("Busy", "server"),
    ],
)
def test_an_error_in_the_stream_is_typed(error: Any, expected: str) -> None:
    with pytest.raises(ProviderError, match="Busy") as caught:
        Read()({"error": error})
    assert caught.value.kind == expected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"[DONE",
        b"null",
        b'{"choices": {"a": 1}}',
        b'{"choices": [3]}',
        b'{"choices": [{"delta": 3}]}',
        b'{"choices": [{"delta": {"content": 3}}]}',
        b'{"choices": [{"delta": {"tool_calls": 3}}]}',
        b'{"choices": [{"delta": {"tool_calls": [3]}}]}',
        b'{"choices": [{"delta": {"tool_calls": [{"function": 3}]}}]}',
        b'{"choices": [{"delta": {"content": [3]}}]}',
    ],
)
def test_what_is_not_the_protocol_is_malformed(data: bytes) -> None:
    with pytest.raises(ProviderError) as caught:
        OpenAIReader("acme", str).read(data)
    assert caught.value.kind == "malformed"


def test_a_call_without_a_name_is_malformed() -> None:
    with pytest.raises(ProviderError) as caught:
        Read()(call(0, "a", "", "{}"), "[DONE]")
    assert caught.value.kind == "malformed"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 2)
    | st.floats(allow_nan=False)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["index", "delta", "content", "tool_calls", "id", "function", "name", "arguments"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(st.lists(st.tuples(st.sampled_from(["choices", "usage", "error", "x"]), JSON), max_size=6))
def test_whatever_comes_the_only_error_is_a_providers(events: Any) -> None:
    read = Read()
    for key, inner in events:
        for event in ({key: inner}, {"choices": [{"delta": inner, "finish_reason": inner}]}):
            try:
                read(event)
            except ProviderError:
                continue
    try:
        read("[DONE]")
    except ProviderError:
        return
    assert read.reader.done


def test_calls_that_share_an_index_and_have_ids_of_their_own_stay_apart() -> None:
    said = Read()(
        call(0, "a", "calculate", '{"expre'),
        call(0, "", "", 'ssion": "1"}'),
        call(0, "b", "clock", "{"),
        call(0, "b", "", "}"),
        "[DONE]",
    )
    assert calls_of(said) == [("a", "calculate", {"expression": "1"}), ("b", "clock", {})]


def test_long_ids_that_begin_alike_stay_different() -> None:
    ids = [f"{'x' * 100}{n}" for n in range(3)]
    asked = [ToolUse(id=one, name="clock", input={}) for one in ids]
    given = [ToolResultPart(tool_use_id=one, content=one) for one in ids]
    messages = WIRE.body(request(user("go"), assistant(*asked), results(*given)))["messages"]
    made = [one["id"] for one in messages[1]["tool_calls"]]
    assert [one["tool_call_id"] for one in messages[2:]] == made
    assert len(set(made)) == 3
    assert max(map(len, made)) <= 64


def test_pictures_of_a_tools_result_follow_in_a_message_behind_all_results() -> None:
    _, _, first, second, shown = WIRE.body(SHOWN)["messages"]
    assert first["role"] == "tool"
    assert first["content"].splitlines() == [
        "Here:",
        "[an image (image/png, 8 bytes)]",
        "[a document 'a.pdf' (application/pdf, 2 bytes)]",
        "[audio (audio/mpeg, 2 bytes)]",
    ]
    assert second == {"role": "tool", "tool_call_id": "b", "content": "noon"}
    file = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}
    assert shown == {
        "role": "user",
        "content": [
            {"type": "text", "text": "What came with the result of the tool call a:"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            {"type": "file", "file": file},
            {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}},
        ],
    }
