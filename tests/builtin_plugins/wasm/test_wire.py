"""What guests and the host say to each other: read strictly, told clearly."""

from __future__ import annotations

import json

import pytest

from hookgate.builtin_plugins.wasm.wire import (
    FaultError,
    Incoming,
    ParsedIncoming,
    PollRequest,
    Sent,
    ToolAnswer,
    WireFormError,
    as_content,
    error_answer,
    ok_answer,
    read_answer,
    read_form,
    written,
)
from hookgate.core.domain.parts import Image, Text


def test_an_answer_in_text_and_in_parts_becomes_content():
    plain = read_form(ToolAnswer, b'{"content": "hello"}', what="the answer")
    assert (as_content(plain.content), plain.is_error) == ("hello", False)
    parts = b"""{"content": [{"type": "text", "text": "see"},
        {"type": "image", "media_type": "image/png", "data": "AAAA"}], "is_error": true}"""
    mixed = read_form(ToolAnswer, parts, what="the answer")
    assert as_content(mixed.content) == (
        Text("see"),
        Image(media_type="image/png", data="AAAA"),
    )
    assert mixed.is_error


def test_media_whose_data_is_no_base64_is_an_error():
    answer = b'{"content": [{"type": "image", "media_type": "image/png", "data": "?"}]}'
    with pytest.raises(WireFormError, match="data is no base64"):
        as_content(read_form(ToolAnswer, answer, what="the answer").content)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"hello", "the answer: found no JSON"),
        (b"\xff", "the answer: found no JSON"),
        (b'{"contents": "x", "content": ""}', "unknown key 'contents', expected content, is_error"),
        (b"{}", "'content' is missing"),
        (b'{"content": 3}', "content.*found 3"),
        (b'{"content": "", "is_error": []}', r"is_error: found \[\]"),
        (b"[]", r"found \[\]"),
        (b'{"content": [{"type": "film"}]}', "content"),
    ],
)
def test_what_is_none_of_the_forms_is_told(data: bytes, told: str):
    with pytest.raises(WireFormError, match=told):
        read_form(ToolAnswer, data, what="the answer")


def test_ids_that_platforms_give_as_numbers_are_text():
    parsed = read_form(
        ParsedIncoming,
        b'{"messages": [{"id": 7, "content": "hi", "account": 12, "peer": -100123}], "cursor": 8}',
        what="the answer of parse_incoming",
    )
    message = parsed.messages[0]
    assert (message.id, message.account, message.peer) == ("7", "12", "-100123")
    assert parsed.cursor == "8"


def test_what_the_host_says_is_json_that_a_guest_reads():
    assert json.loads(written(Incoming(kind="webhook", body="é"))) == {
        "kind": "webhook",
        "status": 0,
        "headers": {},
        "query": {},
        "body": "é",
        "base64": False,
    }
    assert json.loads(ok_answer({"unix": 1.5})) == {"ok": {"unix": 1.5}}
    assert json.loads(ok_answer(None)) == {"ok": None}
    assert json.loads(error_answer("not_granted", "no")) == {
        "error": {"code": "not_granted", "message": "no"}
    }


def test_a_poll_that_would_wait_for_ever_is_refused():
    with pytest.raises(WireFormError, match="seconds: found 1000"):
        read_form(PollRequest, b'{"url": "https://a.example/", "seconds": 1000}', what="poll")


def test_a_guest_may_say_that_it_has_no_answer():
    data = b'{"error": {"message": "come again", "transient": true, "retry_after": 5}}'

    with pytest.raises(FaultError, match=r"^come again$") as fault:
        read_answer(Sent, data, export="parse_incoming")

    assert (fault.value.transient, fault.value.retry_after) == (True, 5)
    with pytest.raises(WireFormError, match="the answer of poll: found the unknown key 'error'"):
        read_answer(Sent, b'{"error": "no"}', export="poll")
    assert read_answer(Sent, b'{"message_id": 7}', export="parse_incoming").message_id == "7"
