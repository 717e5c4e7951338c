from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.builtin_plugins.providers.raw import CLOSING, RawServer, Wire
from tests.builtin_plugins.providers.requests_made import FULL, SHOWN, request, user
from tests.builtin_plugins.providers.transcripts import sse

from hookgate.builtin_plugins.providers.responses import ResponsesReader, ResponsesWire
from hookgate.builtin_plugins.providers.settings import ProviderSettings
from hookgate.builtin_plugins.providers.wire.protocol import SSESplitter
from hookgate.core.domain.errors import ProviderError
from hookgate.core.domain.messages import Opaque
from hookgate.core.domain.models import (
    Frame,
    ModelEvent,
    OpaqueDelta,
    ReasoningDelta,
    StopEvent,
    TextDelta,
    ToolUseEvent,
    Usage,
    UsageEvent,
)
from hookgate.wire import Raw, came_as

if TYPE_CHECKING:
    from collections.abc import Callable

    from hookgate.builtin_plugins.providers.remote import RemoteProvider
    from hookgate.core.domain.turn import Turn

    Make = Callable[..., RemoteProvider]

NO_TURN = cast("Turn", None)
WIRE = ResponsesWire("acme", "https://api.openai.com/v1", "key")
USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 64},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 10},
    "total_tokens": 130,
}
THOUGHT = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Let me see."}],
    "encrypted_content": "gAAAA",
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Zürich 😀 and on", "annotations": []}],
}
CALCULATE = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "call_a",
    "name": "calculate",
    "arguments": '{"expression": "17*23"}',
}
PATCH = {
    "id": "ct_1",
    "type": "custom_tool_call",
    "call_id": "call_b",
    "name": "apply_patch",
    "input": "*** Begin Patch",
}


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "sequence_number": 7, **more}


def ended(status: str = "completed", **more: Any) -> dict[str, Any]:
    response = {"id": "resp_1", "status": status, "usage": USAGE, **more}
    return event(status, response=response)


RESPONSES = [
    event("created", response={"id": "resp_1", "status": "in_progress"}),
    event("in_progress", response={"id": "resp_1"}),
    event("output_item.added", output_index=0, item={**THOUGHT, "summary": []}),
    event("reasoning_summary_text.delta", item_id="rs_1", output_index=0, delta="Let me see."),
    event("output_item.done", output_index=0, item=THOUGHT),
    event("output_item.added", output_index=1, item={**MESSAGE, "content": []}),
    event(
        "output_text.delta", item_id="msg_1", output_index=1, content_index=0, delta="Zürich 😀 "
    ),
    event("output_text.delta", item_id="msg_1", output_index=1, delta="and on"),
    event("output_item.done", output_index=1, item=MESSAGE),
    event("output_item.added", output_index=2, item={**CALCULATE, "arguments": ""}),
    event("function_call_arguments.delta", item_id="fc_1", output_index=2, delta='{"expr'),
    event(
        "function_call_arguments.delta",
        item_id="fc_1",
        output_index=2,
        delta='ession": "17*23"}',
    ),
    event("output_item.done", output_index=2, item=CALCULATE),
    event("output_item.added", output_index=3, item={**PATCH, "input": ""}),
    event("custom_tool_call_input.delta", item_id="ct_1", output_index=3, delta=PATCH["input"]),
    event("output_item.done", output_index=3, item=PATCH),
    ended(output=[THOUGHT, MESSAGE, CALCULATE, PATCH]),
]
COUNTED = Usage(input_tokens=36, cache_read_tokens=64, output_tokens=20, reasoning_tokens=10)
ITEMS = [
    OpaqueDelta(Opaque(provider="acme", data=THOUGHT)),
    ToolUseEvent(id="call_a", name="calculate", input={"expression": "17*23"}),
    ToolUseEvent(id="call_b", name="apply_patch", input={"input": "*** Begin Patch"}),
]
SAID: list[ModelEvent] = [
    ReasoningDelta("Let me see."),
    ITEMS[0],
    TextDelta("Zürich 😀 "),
    TextDelta("and on"),
    *ITEMS[1:],
    UsageEvent(COUNTED),
    StopEvent("tool_use"),
]


class Read:
    """Reads events with a reader of its own, and keeps what it complained of."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.reader = ResponsesReader("acme", self.complaints.append)

    def __call__(self, *events: Any) -> list[ModelEvent]:
        said: list[ModelEvent] = []
        for each in events:
            data = each if isinstance(each, str) else json.dumps(each)
            said.extend(self.reader.read(data.encode()))
        return said


# -- requests ----------------------------------------------------------------


def test_request_is_the_golden_one() -> None:
    assert WIRE.body(replace(FULL, stop=())) == {
        "model": "big",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 512,
        "temperature": 0.5,
        "top_p": 0.9,
        "instructions": "You are kind.\n\nThe house rules.\n\nIt rains.",
        "input": [
            said("user", "hello"),
            said("assistant", "hi"),
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "what is 17*23, and what time is it?"},
                    {
                        "type": "input_image",
                        "image_url": "data:image/png;base64,iVBORw0KGgo=",
                        "detail": "auto",
                    },
                ],
            },
            # Of the thoughts those alone that are this provider's.
            {"type": "thinking", "thinking": "hm", "signature": "s1"},
            said("assistant", "I will look."),
            {
                "type": "function_call",
                "call_id": "call_a_0",
                "name": "calculate",
                "arguments": '{"expression":"17*23"}',
            },
            {
                "type": "function_call",
                "call_id": "b",
                "name": "clock",
                "arguments": '{"malformed_arguments":"{\\"zone\\": "}',
            },
            {"type": "function_call_output", "call_id": "call_a_0", "output": "391"},
            {"type": "function_call_output", "call_id": "b", "output": "Error: no such zone"},
            said("user", "and now?"),
        ],
        "tools": [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.schema,
                "strict": False,
            }
            for tool in FULL.tools
        ],
    }


def said(role: str, text: str) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "input_text", "text": text}
    if role == "assistant":
        block = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": role, "content": [block]}


def test_a_result_keeps_its_pictures_and_files_in_their_place() -> None:
    *_, shown, plain = WIRE.body(SHOWN)["input"]
    text, picture, paper, sound = shown["output"]
    assert (text["text"], picture["type"], paper["filename"]) == ("Here:", "input_image", "a.pdf")
    assert "left out: audio" in sound["text"]
    assert plain["output"] == "noon"


def test_stop_texts_are_refused_by_name() -> None:
    with pytest.raises(ProviderError, match=r"cannot carry `stop`"):
        WIRE.body(FULL)


@pytest.mark.parametrize("option", ["model", "input", "store", "previous_response_id"])
def test_options_cannot_change_what_was_judged(option: str) -> None:
    with pytest.raises(ProviderError, match=option):
        WIRE.body(request(user("hi"), options={option: "x"}))


def test_an_item_that_leaves_its_type_out_is_sent_behind_others_as_it_came() -> None:
    # SDKs send messages so; a denied call has the input written anew.
    short = {"role": "user", "content": "hello"}
    raw = Raw(wire=WIRE.name, data={"model": "acme/big", "input": [short]})
    before = request(came_as(user("hello"), Raw(wire=WIRE.name, data=short)))
    denied = replace(
        before,
        messages=(*before.messages, user("denied")),
        raw=raw,
        baseline=before,
    )
    assert WIRE.body(denied)["input"] == [short, said("user", "denied")]


# -- answers -----------------------------------------------------------------


def test_a_stream_is_read_whole() -> None:
    read = Read()
    assert read(*RESPONSES) == SAID
    assert (read.reader.done, read.complaints) == (True, [])


@given(st.lists(st.integers(1, 400), max_size=8))
def test_a_stream_is_read_wherever_it_is_cut(cuts: list[int]) -> None:
    stream, read, splitter = sse(*RESPONSES), Read(), SSESplitter()
    events: list[ModelEvent] = []
    place = 0
    for size in [*cuts, len(stream)]:
        for data in splitter.feed(stream[place : place + size]):
            events.extend(read.reader.read(data))
        place += size
    assert events == SAID


def test_an_answer_in_one_piece_says_the_same() -> None:
    body = {"status": "completed", "output": [THOUGHT, MESSAGE, CALCULATE, PATCH], "usage": USAGE}
    whole = ResponsesReader("acme", lambda _: None).whole(json.dumps(body).encode())
    text = TextDelta("Zürich 😀 and on")
    expected = [SAID[0], ITEMS[0], text, *ITEMS[1:], UsageEvent(COUNTED), StopEvent("tool_use")]
    assert list(whole) == expected


def test_a_message_without_deltas_is_told_at_its_end() -> None:
    read = Read()
    assert read(event("output_item.done", item=MESSAGE)) == [TextDelta("Zürich 😀 and on")]


@pytest.mark.parametrize(
    ("last", "stop"),
    [
        (ended(), "end"),
        (ended("incomplete", incomplete_details={"reason": "max_output_tokens"}), "max_tokens"),
        (ended("incomplete", incomplete_details={"reason": "content_filter"}), "refusal"),
        (ended("incomplete", incomplete_details={"reason": "something new"}), "other"),
        (ended("incomplete"), "other"),
    ],
)
def test_why_it_stopped(last: Any, stop: str) -> None:
    assert Read()(last)[-1] == StopEvent(cast("Any", stop))


def test_a_refusal_is_text_and_its_stop() -> None:
    told = Read()(event("refusal.delta", item_id="m", delta="I will not."), ended())
    assert (told[0], told[-1]) == (TextDelta("I will not."), StopEvent("refusal"))


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (ended("failed", error={"code": "rate_limit_exceeded", "message": "slow"}), "rate_limited"),
        (ended("failed", error={"code": "server_error", "message": "oh"}), "server"),
        ({"type": "error", "code": "invalid_prompt", "message": "bad"}, "rejected"),
        ({"error": {"type": "authentication_error", "message": "no"}}, "auth"),
        (
            ended("failed", error={"code": "context_length_exceeded", "message": "too long"}),
            "context_overflow",
        ),
        (ended("failed"), "server"),
    ],
)
def test_failures_have_their_kind(failure: Any, kind: str) -> None:
    with pytest.raises(ProviderError) as told:
        Read()(failure)
    assert told.value.kind == kind


@pytest.mark.parametrize(
    "raw",
    [
        "[1]",
        "x",
        '{"type": "response.output_item.done", "item": {"type": "function_call"}}',
        '{"type": "response.output_item.done", "item": {"type": "message", "content": 7}}',
        '{"type": "response.output_text.delta", "delta": 7}',
        '{"type": "response.completed", "response": []}',
    ],
)
def test_what_is_not_the_protocol_is_named(raw: str) -> None:
    with pytest.raises(ProviderError, match="not its protocol") as told:
        Read()(raw)
    assert told.value.kind == "malformed"


def test_figures_that_cannot_be_true_are_complained_of() -> None:
    read = Read()
    told = read(ended(usage={**USAGE, "output_tokens": -1}))
    assert told == [StopEvent("end")]
    assert "output_tokens" in read.complaints[0]


# -- as it came ----------------------------------------------------------------


def as_it_came(*events: Any) -> list[ModelEvent]:
    reader = ResponsesReader("acme", lambda _: None, as_it_came=True)
    return [one for event in events for one in reader.read(json.dumps(event).encode())]


def frames_of(said: list[ModelEvent]) -> list[Any]:
    """The events that a client is sent, in their order."""
    found: list[Any] = []
    for one in said:
        raw = one.raw
        if raw is not None:
            found.extend(raw.data if isinstance(raw.data, list) else [raw.data])
    return found


def test_every_event_is_passed_on_and_no_text_is_said_twice() -> None:
    said = as_it_came(*RESPONSES)
    assert [one for one in said if not isinstance(one, Frame)] == SAID
    frames = frames_of(said)
    assert [frame["type"] for frame in frames] == [one["type"] for one in RESPONSES]
    assert str(frames).count("Zürich") == 1
    assert str(frames).count("Let me see.") == 1
    assert frames[-1]["response"]["output"] == []


def test_unknown_events_and_fields_are_passed_on() -> None:
    unknown = event("something.new", output_index=0, held={"deep": [1]})
    (frame,) = as_it_came(unknown)
    assert isinstance(frame, Frame)
    assert frame.raw.data == unknown


@pytest.mark.parametrize(
    "piece",
    [
        event("function_call_arguments.delta", output_index=2, delta='{"expression": "1"}'),
        event("function_call_arguments.done", output_index=2, arguments="{}"),
    ],
)
def test_a_call_whose_pieces_say_something_else_is_not_passed_on_as_it_came(piece: Any) -> None:
    added = event("output_item.added", output_index=2, item={**CALCULATE, "arguments": ""})
    (call,) = as_it_came(added, piece, event("output_item.done", output_index=2, item=CALCULATE))
    assert isinstance(call, ToolUseEvent)
    assert (call.input, call.raw) == ({"expression": "17*23"}, None)


def test_calls_of_the_vendors_own_tools_are_the_clients() -> None:
    item = {"type": "shell_call", "id": "s", "call_id": "c", "action": {"commands": ["ls"]}}
    (call,) = as_it_came(event("output_item.done", item=item))
    assert isinstance(call, ToolUseEvent)
    assert (call.name, call.input) == ("shell", {"action": {"commands": ["ls"]}})
    searched = {"type": "tool_search_call", "execution": "server", "call_id": "c"}
    (opaque,) = as_it_came(event("output_item.done", item=searched))
    assert isinstance(opaque, OpaqueDelta)


def test_a_call_that_says_it_runs_elsewhere_is_judged_all_the_same() -> None:
    item = {**CALCULATE, "execution": "server"}
    added = event("output_item.added", output_index=0, item=item)
    (call,) = as_it_came(added, event("output_item.done", output_index=0, item=item))
    assert isinstance(call, ToolUseEvent)


def test_no_frame_holds_a_call_or_a_piece_of_one() -> None:
    began = event("created", response={"id": "r", "output": [CALCULATE]})
    piece = event("function_call_arguments.done", output_index=0, arguments='{"evil": 1}')
    (frame,) = as_it_came(began, piece)
    assert frame.raw is not None
    assert frame.raw.data["response"] == {"id": "r", "output": []}


def test_an_action_that_begins_otherwise_than_it_ends_is_not_passed_on() -> None:
    item = {"type": "shell_call", "id": "s", "call_id": "c", "action": {"commands": ["ls"]}}
    other = {**item, "action": {"commands": ["rm -rf /"]}}
    added = event("output_item.added", output_index=0, item=other)
    done = event("output_item.done", output_index=0, item=item)
    (call,) = as_it_came(added, done)
    assert call.raw is not None
    assert call.raw.data == [{**added, "item": {**item, "status": "in_progress"}}, done]


# -- over a socket -----------------------------------------------------------


async def test_a_server_is_asked_at_its_path(server: RawServer, made: Make) -> None:
    async def script(wire: Wire) -> None:
        await wire.raw(CLOSING + sse(*RESPONSES))
        wire.close()

    server.script = script
    provider = made("openai", server.url, api="responses")
    told = [each async for each in provider.stream(NO_TURN, request(user("hello")))]
    assert told == SAID
    assert server.heads[0].startswith("POST /v1/responses ")


async def test_a_stream_that_ends_early_is_cut(server: RawServer, made: Make) -> None:
    async def script(wire: Wire) -> None:
        await wire.raw(CLOSING + sse(*RESPONSES[:-1]))
        wire.close()

    server.script = script
    provider = made("openai", server.url, api="responses")
    with pytest.raises(ProviderError, match="middle of the answer") as told:
        _ = [each async for each in provider.stream(NO_TURN, request(user("hello")))]
    assert told.value.kind == "cut"


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"kind": "anthropic", "api": "responses"}, "kind `openai`"),
        ({"kind": "openai", "api": "responses", "output_limit": "max_tokens"}, "output_limit"),
        ({"kind": "openai", "api": "assistants"}, "responses"),
    ],
)
def test_settings_that_do_not_fit_are_named(settings: Any, named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        ProviderSettings.model_validate(settings)
