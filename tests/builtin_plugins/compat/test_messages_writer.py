"""Answers of the Messages API, written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from tests.builtin_plugins.compat.bodies import MESSAGES, Ended, as_sdk, frame, stop, text, tool_use

from hookgate import Event, StopEvent, TextDelta, Turn, Usage
from hookgate.builtin_plugins.compat.answers import WireFrame
from hookgate.builtin_plugins.compat.wires.messages_writer import MessagesWriter, fold
from hookgate.wire import TextForm, TextFrames, came_as, dumps

START: WireFrame = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "real",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 1, "vendor_field": 1},
        "vendor_field": {"x": 1},
    },
}


def begun(index: int, **block: Any) -> WireFrame:
    return {"type": "content_block_start", "index": index, "content_block": block}


def grown(index: int, **delta: Any) -> WireFrame:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def ended(index: int) -> WireFrame:
    return {"type": "content_block_stop", "index": index}


def said(index: int, words: str) -> WireFrame:
    return grown(index, type="text_delta", text=words)


def called(index: int, use_id: str) -> list[WireFrame]:
    return [
        begun(index, type="tool_use", id=use_id, name="look", input={}),
        grown(index, type="input_json_delta", partial_json='{"at":'),
        grown(index, type="input_json_delta", partial_json=f"{index}}}"),
        ended(index),
    ]


def stopped(reason: str) -> list[WireFrame]:
    delta = {"stop_reason": reason, "stop_sequence": None, "container": None}
    usage = {"output_tokens": 12, "vendor_field": 2}
    return [{"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]


def asked(frame: WireFrame) -> WireFrame:
    return {**frame, "message": {**frame["message"], "model": "asked"}}


def written(events: Sequence[Event], turn: Ended | None = None, own: str = "") -> list[WireFrame]:
    writer = MessagesWriter("asked")
    frames = [one for event in events for one in writer.take(event)]
    return [*frames, *writer.end(cast("Turn", turn or Ended()), own)]


def sound(frames: Sequence[WireFrame]) -> None:
    """Hold what an SDK needs: blocks in order, one at a time, one end."""
    kinds = [one["type"] for one in frames]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("message_start") == kinds.count("message_stop") == 1
    opened, after = -1, 0
    for one in frames:
        as_sdk("anthropic.types", "RawMessageStreamEvent", one)
        if one["type"] == "content_block_start":
            assert (opened, one["index"]) == (-1, after)
            opened, after = one["index"], after + 1
        elif one["type"] == "content_block_delta":
            assert one["index"] == opened
        elif one["type"] == "content_block_stop":
            assert one["index"] == opened
            opened = -1
    assert opened == -1


def test_what_came_by_the_same_wire_goes_out_as_it_came() -> None:
    thinking = begun(0, type="thinking", thinking="", signature="")
    signed = grown(0, type="signature_delta", signature="s==")
    start = begun(1, type="text", text="", vendor_field=1)
    events = [
        frame(MESSAGES, START),
        frame(MESSAGES, thinking),
        frame(MESSAGES, signed),
        frame(MESSAGES, ended(0)),
        frame(MESSAGES, start),
        frame(MESSAGES, {"type": "ping"}),
        text("hi", MESSAGES, said(1, "hi")),
        frame(MESSAGES, ended(1)),
        stop("end", MESSAGES, stopped("end_turn")),
    ]
    middle = [thinking, signed, ended(0), start, {"type": "ping"}, said(1, "hi"), ended(1)]
    frames = written(events)
    assert frames == [asked(START), *middle, *stopped("end_turn")]


@pytest.mark.parametrize(
    ("reason", "stops", "told"),
    [("stop_sequence", ["X"], "X"), ("stop_sequence", ["X", "Y"], None), ("end", ["X"], None)],
)
def test_an_answer_that_its_one_stop_sequence_has_ended_names_it(
    reason: Any, stops: list[str], told: str | None
) -> None:
    writer = MessagesWriter("asked", stops=stops)
    frames = [frame for event in (text("hi"), stop(reason)) for frame in writer.take(event)]
    frames += writer.end(cast("Turn", Ended()))
    assert fold(frames)["stop_sequence"] == told


@pytest.mark.parametrize(
    ("matched", "told"), [("Y", ("stop_sequence", "Y")), ("else", ("end_turn", None))]
)
def test_what_the_upstream_says_has_ended_it_is_told_where_the_client_has_named_it(
    matched: str, told: tuple[str, str | None]
) -> None:
    writer = MessagesWriter("asked", stops=["X", "Y"])
    ended = Event("stop", {"reason": "end"}, value=StopEvent("end", matched=matched))
    frames = [frame for event in (text("hi"), ended) for frame in writer.take(event)]
    whole = fold([*frames, *writer.end(cast("Turn", Ended()))])
    assert (whole["stop_reason"], whole["stop_sequence"]) == told


def test_no_call_comes_by_the_message_that_begins_it_all() -> None:
    block = {"type": "tool_use", "id": "t0", "name": "look", "input": {}}
    start = {**START, "message": {**START["message"], "content": [block]}}
    frames = written([frame(MESSAGES, start), stop("end", MESSAGES, stopped("end_turn"))])
    assert frames[0]["message"]["content"] == []


def test_calls_are_sent_behind_their_judgement_as_they_came() -> None:
    events = [
        frame(MESSAGES, START),
        stop("tool_use", MESSAGES, stopped("tool_use")),
        tool_use("t0", "look", {"at": 0}, MESSAGES, called(0, "t0")),
        tool_use("t1", "look", {"at": 1}, MESSAGES, called(1, "t1")),
    ]
    frames = written(events, Ended("awaiting_client"))
    sound(frames)
    assert frames[1:-2] == [*called(0, "t0"), *called(1, "t1")]


def test_what_stands_behind_a_call_waits_for_it() -> None:
    behind = [begun(2, type="text", text=""), said(2, "then"), ended(2)]
    events = [
        frame(MESSAGES, START),
        frame(MESSAGES, begun(0, type="text", text="")),
        text("first", MESSAGES, said(0, "first")),
        frame(MESSAGES, ended(0)),
        frame(MESSAGES, behind[0]),
        text("then", MESSAGES, behind[1]),
        frame(MESSAGES, behind[2]),
        stop("tool_use", MESSAGES, stopped("tool_use")),
        tool_use("t1", "look", {"at": 1}, MESSAGES, called(1, "t1")),
    ]
    frames = written(events, Ended("awaiting_client"))
    sound(frames)
    assert frames[4:-2] == [*called(1, "t1"), *behind]


def test_of_a_round_that_was_denied_nothing_is_seen_but_its_text() -> None:
    usage = Usage(input_tokens=20, output_tokens=8)
    events = [
        frame(MESSAGES, START),
        frame(MESSAGES, begun(0, type="text", text="")),
        text("first", MESSAGES, said(0, "first")),
        frame(MESSAGES, ended(0)),
        # a call at 1 is denied, and what stood behind it goes with it
        frame(MESSAGES, begun(2, type="text", text="")),
        text("then", MESSAGES, said(2, "then")),
        frame(MESSAGES, ended(2)),
        stop("tool_use", MESSAGES, stopped("tool_use")),
        frame(MESSAGES, {**START, "message": {**START["message"], "id": "msg_2"}}),
        frame(MESSAGES, begun(0, type="text", text="")),
        text("other", MESSAGES, said(0, "other")),
        frame(MESSAGES, ended(0)),
        stop("end", MESSAGES, stopped("end_turn")),
    ]
    frames = written(events, Ended(usage=usage))
    sound(frames)
    whole = fold(frames)
    assert [one["text"] for one in whole["content"]] == ["first", "other"]
    assert (whole["id"], whole["usage"]["input_tokens"], whole["usage"]["output_tokens"]) == (
        "msg_1",
        20,
        8,
    )


def test_text_that_was_changed_stays_in_its_block() -> None:
    events = [
        frame(MESSAGES, START),
        frame(MESSAGES, begun(0, type="text", text="")),
        text("h*"),
        frame(MESSAGES, ended(0)),
        text("late"),
        stop("end", MESSAGES, stopped("end_turn")),
    ]
    frames = written(events)
    sound(frames)
    assert [one["text"] for one in fold(frames)["content"]] == ["h*", "late"]


def test_another_wires_answer_is_written_whole() -> None:
    events = [
        Event("reasoning", {"text": "hm"}),
        text("hi"),
        stop("tool_use"),
        tool_use("c1", "look", {"at": 1}),
    ]
    frames = written(events, Ended("awaiting_client"))
    sound(frames)
    whole = fold(frames)
    as_sdk("anthropic.types", "Message", whole)
    assert [one["type"] for one in whole["content"]] == ["thinking", "text", "tool_use"]
    assert whole["content"][2]["input"] == {"at": 1}
    assert (whole["stop_reason"], whole["model"]) == ("tool_use", "asked")


def test_the_gateways_own_word_ends_it_as_a_plain_stop() -> None:
    events = [frame(MESSAGES, START), stop("tool_use", MESSAGES, stopped("tool_use"))]
    frames = written(events, own="denied by rule x")
    sound(frames)
    whole = fold(frames)
    assert (whole["content"][0]["text"], whole["stop_reason"]) == ("denied by rule x", "end_turn")


def test_an_answer_with_nothing_in_it_is_one() -> None:
    frames = written([])
    sound(frames)
    assert fold(frames)["content"] == []


def test_a_block_that_broke_off_is_ended() -> None:
    events = [frame(MESSAGES, START), frame(MESSAGES, begun(0, type="text", text=""))]
    frames = written(events)
    assert ended(0) in frames
    sound(frames)


def alike(index: int, *texts: str) -> Event:
    """Texts that came together, in frames that nobody has parsed."""
    form = TextForm.of(said(index, "x"), "text", "x")
    assert form is not None
    written = [dumps(one)[1:-1] for one in texts]
    event = came_as(TextDelta("".join(texts)), TextFrames(MESSAGES, form, written))
    return Event("text", {"text": event.text}, value=event)


def parsed(frames: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for one in frames:
        data = one.data if isinstance(one, TextFrames) else one
        found += data if isinstance(data, list) else [data]
    return found


def test_frames_that_nobody_has_parsed_go_out_as_they_came() -> None:
    writer = MessagesWriter("asked")
    for one in (START, begun(0, type="text", text="")):
        list(writer.take(frame(MESSAGES, one)))
    came = alike(0, "a", "b\n")
    made = list(writer.take(came))
    assert made == [came.value.raw]
    assert parsed(made) == [said(0, "a"), said(0, "b\n")]


def test_frames_that_nobody_has_parsed_get_another_place_where_theirs_is_taken() -> None:
    writer = MessagesWriter("asked")
    list(writer.take(text("before")))
    begins = begun(0, type="text", text="")
    made = [one for each in (START, begins) for one in writer.take(frame(MESSAGES, each))]
    made += writer.take(alike(0, "a", "b"))
    assert parsed(made)[-2:] == [said(1, "a"), said(1, "b")]


def test_frames_behind_a_call_wait_for_it_whether_they_are_parsed_or_not() -> None:
    writer = MessagesWriter("asked")
    for one in (START, begun(1, type="text", text="")):
        list(writer.take(frame(MESSAGES, one)))
    assert list(writer.take(alike(1, "a", "b"))) == []


def test_frames_of_a_block_that_has_not_begun_are_left_out() -> None:
    writer = MessagesWriter("asked")
    list(writer.take(frame(MESSAGES, START)))
    assert list(writer.take(alike(0, "a"))) == []
