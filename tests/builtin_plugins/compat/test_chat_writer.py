"""Answers of Chat Completions, written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import pytest
from tests.builtin_plugins.compat.bodies import CHAT, Ended, as_sdk, frame, stop, text, tool_use

from hookgate import Event, TextDelta, Turn, Usage
from hookgate.builtin_plugins.compat.answers import WireFrame
from hookgate.builtin_plugins.compat.wires.chat_writer import ChatWriter, fold
from hookgate.wire import Raw, TextForm, TextFrames, came_as, dumps


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> WireFrame:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "up-1", "object": "chat.completion.chunk", "created": 7, "model": "real"}
    return {**head, "choices": [choice], **more}


def call(index: int, use_id: str, arguments: str) -> list[WireFrame]:
    function = {"name": "look", "arguments": ""}
    first = {"index": index, "id": use_id, "type": "function", "function": function}
    more = {"index": index, "function": {"arguments": arguments}}
    return [chunk({"tool_calls": [first]}), chunk({"tool_calls": [more]})]


ROLE = chunk({"role": "assistant", "content": ""}, system_fingerprint="fp")
HI = chunk({"content": "hi", "vendor_field": [1]})
END = chunk({}, "stop")
USED = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
TOLD = {**chunk({}), "choices": [], "usage": USED}


def written(
    events: Sequence[Event], turn: Ended | None = None, *, usage: bool = True, said: str = ""
) -> list[WireFrame]:
    writer = ChatWriter("asked", usage=usage)
    frames = [one for event in events for one in writer.take(event)]
    return [*frames, *writer.end(cast("Turn", turn or Ended()), said)]


def as_asked(frame: WireFrame) -> WireFrame:
    return {**frame, "model": "asked"}


def test_what_came_by_the_same_wire_goes_out_as_it_came() -> None:
    events = [frame(CHAT, ROLE), text("hi", CHAT, HI), stop("end", CHAT, [END, TOLD])]
    assert written(events) == list(map(as_asked, (ROLE, HI, END, TOLD)))
    assert [list(one) for one in written(events)] == [list(one) for one in (ROLE, HI, END, TOLD)]


def test_no_call_comes_by_a_message_beside_the_delta() -> None:
    smuggled = chunk({"content": "hi"})
    smuggled["choices"][0]["message"] = {"tool_calls": [{"id": "c1"}]}
    frames = written([frame(CHAT, smuggled), text("hi", CHAT, smuggled), stop("end")])
    assert "tool_calls" not in json.dumps(frames)


def test_who_has_not_asked_for_the_usage_does_not_get_it() -> None:
    events = [
        frame(CHAT, {**ROLE, "usage": None}),
        text("hi", CHAT, HI),
        stop("end", CHAT, [END, TOLD]),
    ]
    assert written(events, usage=False) == list(map(as_asked, (ROLE, HI, END)))


def test_text_that_was_changed_is_written_anew_under_the_one_id() -> None:
    frames = written([frame(CHAT, ROLE), text("h*"), stop("end", CHAT, [END])])
    assert {one["id"] for one in frames} == {"up-1"}
    assert frames[1]["choices"][0]["delta"] == {"content": "h*"}
    assert frames[-1]["usage"]["prompt_tokens"] == 3


def test_calls_are_sent_behind_their_judgement_and_numbered_from_0() -> None:
    events = [
        frame(CHAT, ROLE),
        stop("tool_use", CHAT, [chunk({}, "tool_calls")]),
        tool_use("c1", "look", {"at": 1}, CHAT, call(2, "c1", '{"at":1}')),
        tool_use("c2", "look", {"at": 2}),
    ]
    frames = written(events, Ended("awaiting_client"))
    calls = [one["choices"][0]["delta"].get("tool_calls", [{}])[0] for one in frames[1:4]]
    assert [one["index"] for one in calls] == [0, 0, 1]
    assert calls[2]["function"] == {"name": "look", "arguments": '{"at":2}'}
    assert frames[-2]["choices"][0]["finish_reason"] == "tool_calls"


def test_of_a_round_that_was_denied_nothing_is_seen_but_its_text() -> None:
    second = {**chunk({"content": "no"}), "id": "up-2"}
    usage = Usage(input_tokens=20, output_tokens=8)
    events = [
        frame(CHAT, ROLE),
        text("hi", CHAT, HI),
        stop("tool_use", CHAT, [chunk({}, "tool_calls"), TOLD]),
        frame(CHAT, {**ROLE, "id": "up-2"}),
        text("no", CHAT, second),
        stop("end", CHAT, [{**END, "id": "up-2"}, {**TOLD, "id": "up-2"}]),
    ]
    frames = written(events, Ended(usage=usage))
    assert {one["id"] for one in frames} == {"up-1"}
    reasons = [one["choices"][0]["finish_reason"] for one in frames if one["choices"]]
    assert [one for one in reasons if one] == ["stop"]
    assert frames[-1]["usage"]["total_tokens"] == 28


def test_the_role_comes_first_also_where_the_upstream_begins_with_something_else() -> None:
    """Azure's first chunk is about the prompt; some servers send no role at all."""
    prompt = {**ROLE, "choices": [], "prompt_filter_results": []}
    events = [frame(CHAT, prompt), text("hi", CHAT, chunk({"content": "hi"})), stop("end")]
    frames = written(events)
    assert frames[0]["prompt_filter_results"] == []
    said = [one["choices"][0]["delta"] for one in frames if one["choices"]]
    assert said[:2] == [{"role": "assistant", "content": ""}, {"content": "hi"}]
    assert [one for one in said if "role" in one] == said[:1]


def test_another_wires_answer_is_written_whole() -> None:
    events = [Event("reasoning", {"text": "hm"}), text("hi"), stop("max_tokens")]
    frames = written(events)
    assert frames[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [next(iter(one["choices"][0]["delta"]), "") for one in frames[1:4]] == [
        "reasoning_content",
        "content",
        "",
    ]
    assert frames[3]["choices"][0]["finish_reason"] == "length"
    for one in frames:
        as_sdk("openai.types.chat", "ChatCompletionChunk", one)


def test_the_gateways_own_word_ends_it_as_a_plain_stop() -> None:
    events = [frame(CHAT, ROLE), stop("tool_use", CHAT, [chunk({}, "tool_calls"), TOLD])]
    frames = written(events, said="denied by rule x")
    assert frames[1]["choices"][0]["delta"] == {"content": "denied by rule x"}
    assert frames[2]["choices"][0]["finish_reason"] == "stop"


def test_an_answer_with_nothing_in_it_is_one() -> None:
    frames = written([])
    assert [one["choices"][0]["finish_reason"] for one in frames[:2]] == [None, "stop"]


def test_chunks_fold_to_the_whole_answer() -> None:
    likely = {"content": [{"token": "hi", "logprob": -1.0, "bytes": None, "top_logprobs": []}]}
    told = chunk({"content": " you"})
    told["choices"][0]["logprobs"] = {**likely, "refusal": None}
    frames = [
        ROLE,
        HI,
        told,
        *call(0, "c1", '{"at"'),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}),
        chunk({}, "tool_calls"),
        TOLD,
    ]
    frames[4]["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] = '{"at"'
    whole = fold(json.loads(json.dumps(frames)))
    as_sdk("openai.types.chat", "ChatCompletion", whole)
    (choice,) = whole["choices"]
    assert whole["object"] == "chat.completion"
    assert whole["system_fingerprint"] == "fp"
    assert choice["message"]["content"] == "hi you"
    assert choice["message"]["vendor_field"] == [1]
    assert choice["message"]["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}}
    ]
    assert choice["logprobs"]["content"] == likely["content"]
    assert (choice["finish_reason"], whole["usage"]) == ("tool_calls", USED)


@pytest.mark.parametrize("count", [20_000])
def test_a_long_answer_folds_in_time(count: int) -> None:
    whole = fold([ROLE, *[chunk({"content": "word "})] * count, END])
    assert len(whole["choices"][0]["message"]["content"]) == 5 * count


@pytest.mark.parametrize("usage", [True, False])
def test_frames_that_nobody_has_parsed_have_the_one_id_and_the_model_that_was_asked_for(
    usage: bool,
) -> None:
    came = chunk({"content": "x", "vendor_field": [1]}, usage=None)
    form = TextForm.of(came, "content", "x")
    assert form is not None
    texts = ["a", 'b\n"', "model"]
    made = came_as(
        TextDelta("".join(texts)), TextFrames(CHAT, form, [dumps(one)[1:-1] for one in texts])
    )
    event = Event("text", {"text": made.text}, value=made)
    one, other = ChatWriter("asked", usage=usage), ChatWriter("asked", usage=usage)
    other._head["id"] = one._head["id"]
    head = frame(CHAT, {**ROLE, "id": "up-1"})
    assert list(one.take(head)) == list(other.take(head))
    (alike,) = one.take(event)
    assert isinstance(alike, TextFrames)
    parsed = came_as(TextDelta(made.text), Raw(wire=CHAT, data=made.raw and made.raw.data))
    whole = Event("text", {"text": made.text}, value=parsed)
    assert [list(one.items()) for one in alike.data] == [
        list(one.items()) for one in other.take(whole) if isinstance(one, dict)
    ]


def test_a_text_that_comes_in_parts_and_in_plain_pieces_is_whole() -> None:
    def delta(content: Any) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": {"content": content}}]}

    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "so"}]}
    whole = fold([delta(""), delta([thought]), delta("It is "), delta("noon."), delta("")])
    told = {"type": "text", "text": "It is noon."}
    assert whole["choices"][0]["message"]["content"] == [thought, told]
    whole = fold([delta("It is "), delta("noon."), delta([thought])])
    assert whole["choices"][0]["message"]["content"] == [told, thought]
