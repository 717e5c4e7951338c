"""Answers of the Responses API, written."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

from tests.builtin_plugins.compat.bodies import Ended, as_sdk, stop, text, told, tool_use
from tests.builtin_plugins.providers.test_responses import RESPONSES

from hookgate import (
    ErrorAnswer,
    Event,
    Turn,
    Usage,
)
from hookgate.builtin_plugins.compat.wires.responses_reader import read
from hookgate.builtin_plugins.compat.wires.responses_writer import ResponsesWriter, fold
from hookgate.builtin_plugins.providers.responses import ResponsesReader

PATCH = {"type": "custom", "name": "apply_patch"}


def writer() -> ResponsesWriter:
    return ResponsesWriter(read({"model": "asked", "input": "hi", "tools": [PATCH]}))


def events(stream: Iterable[dict[str, Any]]) -> list[Event]:
    """What a turn tells of an upstream's answer."""
    reader = ResponsesReader("acme", lambda _: None, as_it_came=True)
    said = [one for each in stream for one in reader.read(json.dumps(each).encode())]
    return [event for one in said if (event := told(one)) is not None]


def written(some: list[Event], *, said: str = "", **turn: Any) -> list[Any]:
    made = writer()
    frames = [frame for event in some for frame in made.take(event)]
    return [*frames, *made.end(cast("Turn", Ended(**turn)), said)]


def test_an_answer_of_the_same_wire_arrives_as_it_was_sent() -> None:
    frames = written(events(RESPONSES))
    expected = [{**frame, "sequence_number": at} for at, frame in enumerate(RESPONSES)]
    assert [frame["type"] for frame in frames] == [frame["type"] for frame in expected]
    for frame, sent in zip(frames, expected, strict=True):
        response = frame.get("response")
        if response is not None:
            # The model is the one that was asked for.
            assert response.pop("model") == "asked"
            response.pop("created_at", None)
        assert {**frame, "response": None} == {**sent, "response": None}
    assert frames[-1]["response"]["output"] == RESPONSES[-1]["response"]["output"]


def test_what_a_guard_has_changed_is_said_nowhere_as_it_was() -> None:
    some = events(RESPONSES)
    changed = [
        Event("text", {"text": "[gone]"}) if "Zürich" in str(event.data) else event
        for event in some
    ]
    frames = written(changed)
    assert "Zürich" not in str(frames)
    whole = fold(frames)
    (message,) = [item for item in whole["output"] if item["type"] == "message"]
    assert message["content"][0]["text"] == "[gone]and on"
    for frame in frames:
        if frame["type"] == "response.output_item.done" and frame["item"]["type"] == "message":
            assert frame["item"]["content"][0]["text"] == "[gone]and on"


def test_likelihoods_stand_wherever_their_text_does() -> None:
    likely = [{"token": word, "logprob": -1.0, "bytes": [], "top_logprobs": []} for word in "ab"]
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "ab", "annotations": [], "logprobs": likely}
    item = {"id": "m", "type": "message", "role": "assistant", "status": "completed"}
    head = {"id": "r", "status": "in_progress", "output": []}
    item_at = {"type": "response.output_item", "output_index": 0}
    stream: list[dict[str, Any]] = [
        {"type": "response.created", "response": head},
        {**item_at, "type": "response.output_item.added", "item": {**item, "content": []}},
        *[
            {"type": "response.output_text.delta", **place, "delta": one["token"],
             "logprobs": [one]}
            for one in likely
        ],
        {"type": "response.output_text.done", **place, "text": "ab", "logprobs": likely},
        {"type": "response.content_part.done", **place, "part": part},
        {**item_at, "type": "response.output_item.done", "item": {**item, "content": [part]}},
        {"type": "response.completed", "response": {**head, "status": "completed"}},
    ]  # fmt: skip
    some = events(stream)
    frames = {frame["type"]: frame for frame in written(some)}
    assert frames["response.output_text.done"]["logprobs"] == likely
    assert frames["response.content_part.done"]["part"] == part
    assert frames["response.output_item.done"]["item"]["content"] == [part]
    assert frames["response.completed"]["response"]["output"][0]["content"] == [part]
    # Of what a guard has changed they are not there.
    masked = [Event("text", {"text": "x"}) if one.data == {"text": "a"} else one for one in some]
    (found,) = fold(written(masked))["output"][0]["content"]
    assert (found["text"], found["logprobs"]) == ("xb", likely[1:])


def test_an_answer_of_another_wire_is_made_as_the_sdk_reads_it() -> None:
    given = {"place": "Oslo"}
    some = [
        Event("reasoning", {"text": "Hm."}),
        text("Let me "),
        text("see."),
        tool_use("c1", "weather", given),
        tool_use("c2", "apply_patch", {"input": "*** Begin"}),
        stop("tool_use"),
    ]
    usage = Usage(input_tokens=5, cache_read_tokens=3, output_tokens=2)
    frames = written(some, ending="awaiting_client", usage=usage)
    assert [frame["sequence_number"] for frame in frames] == list(range(len(frames)))
    added, done = set(), []
    for frame in frames:
        as_sdk("openai.types.responses", "ResponseStreamEvent", frame)
        if frame["type"] == "response.output_item.added":
            added.add(frame["item"]["id"])
        elif frame["type"] == "response.output_item.done":
            done.append(frame["item"])
        elif "item_id" in frame:
            assert frame["item_id"] in added
    whole = fold(frames)
    as_sdk("openai.types.responses", "Response", whole)
    assert whole["output"] == done
    assert [item["type"] for item in done] == [
        *("reasoning", "message", "function_call", "custom_tool_call")
    ]
    assert done[1]["content"][0]["text"] == "Let me see."
    assert (done[2]["arguments"], done[3]["input"]) == ('{"place":"Oslo"}', "*** Begin")
    assert whole["usage"]["total_tokens"] == 10
    assert {frame["response"]["id"] for frame in frames if "response" in frame} == {whole["id"]}


def test_a_hidden_round_leaves_one_answer() -> None:
    first = [frame for frame in RESPONSES if "fc_1" not in str(frame) or "response" in frame]
    denied = [event for event in events(first) if event.type != "tool_use"]
    frames = written([*denied, *events(RESPONSES)])
    kinds = [frame["type"] for frame in frames]
    assert (kinds.count("response.created"), kinds.count("response.completed")) == (1, 1)
    indexes = [f["output_index"] for f in frames if f["type"] == "response.output_item.added"]
    assert indexes == list(range(len(indexes)))
    assert [frame["sequence_number"] for frame in frames] == list(range(len(frames)))


def test_what_the_gateway_says_in_the_place_of_denied_calls_is_the_answer() -> None:
    frames = written([stop("tool_use")], said="Stopped.")
    assert fold(frames)["output"][0]["content"][0]["text"] == "Stopped."
    assert frames[-1]["type"] == "response.completed"


def test_an_answer_that_is_cut_says_so_by_its_last_event() -> None:
    frames = written([text("Half"), stop("max_tokens")])
    assert frames[-1]["type"] == "response.incomplete"
    assert frames[-1]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


def test_a_failure_ends_the_answer_once() -> None:
    made = writer()
    frames = [*made.take(text("Half"))]
    error = ErrorAnswer(number=-32000, message="cut", data={"code": "provider_failed"}, status=502)
    frames += made.fail(error, "req_1")
    assert frames[-1]["type"] == "response.failed"
    assert frames[-1]["response"]["error"]["message"] == "cut"
    as_sdk("openai.types.responses", "ResponseStreamEvent", frames[-1])
