"""The Telegram guest: what the Bot API says becomes messages, and back."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from hookgate.builtin_plugins.wasm.engine.calls import CallContext
from hookgate.builtin_plugins.wasm.engine.sandbox import Guest, Sandbox
from hookgate.builtin_plugins.wasm.wire import (
    FaultError,
    HttpRequest,
    ParsedIncoming,
    PollRequest,
    Sent,
    WireForm,
    read_answer,
)

from .examples import FOLDERS, ask, load, manifest

ADA = {"id": 42, "is_bot": False, "first_name": "Ada"}
PRIVATE = {"message_id": 7, "from": ADA, "chat": {"id": 42, "type": "private"}, "text": "héllo"}
GROUP = {**PRIVATE, "chat": {"id": -1001234567890123, "type": "supergroup"}}
TOPIC = {**GROUP, "is_topic_message": True, "message_thread_id": 5}
PRESSED = {"id": "q1", "from": ADA, "message": GROUP, "data": "yes"}
API = "https://api.telegram.org/bot{{secret:TELEGRAM_BOT_TOKEN}}/"


@pytest.fixture
async def telegram(sandbox: Sandbox) -> Guest:
    return await load(sandbox, FOLDERS["telegram"])


async def parsed(
    guest: Guest,
    body: Any,
    kind: str = "webhook",
    status: int = 0,
    form: type[WireForm] = ParsedIncoming,
) -> Any:
    """Return what the guest reads in a body, as the gateway takes it."""
    text = body if isinstance(body, str) else json.dumps(body)
    asked = {"kind": kind, "status": status, "headers": {}, "query": {}, "body": text}
    data = await guest.call("parse_incoming", json.dumps(asked).encode(), host={})
    return read_answer(form, data, export="parse_incoming")


async def asked(guest: Guest, export: str, request: Any, **env: str) -> dict[str, Any]:
    """Return the request that the guest makes, its body read."""

    def value(request: bytes, context: CallContext) -> bytes:
        return json.dumps({"ok": env.get(json.loads(request)["name"])}).encode()

    made = await ask(guest, export, request, env=value)
    read_answer(
        PollRequest if export == "poll" else HttpRequest, json.dumps(made).encode(), export=export
    )
    assert made["headers"] == {"content-type": "application/json"}
    assert made["method"] == "POST"
    return {**made, "body": json.loads(made["body"])}


# -- in ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ({"message": PRIVATE}, {"content": "héllo", "peer": "42", "sender": "42"}),
        (
            {"message": {**PRIVATE, "text": None, "caption": "a picture"}},
            {"content": "a picture", "peer": "42"},
        ),
        (
            {"message": GROUP},
            {"peer": "-1001234567890123", "guild": "-1001234567890123", "thread": "7"},
        ),
        ({"message": TOPIC}, {"thread": "7-5"}),
        (
            {"message": {**PRIVATE, "chat": {"id": 2**63 - 1, "type": "private"}}},
            {"peer": "9223372036854775807"},
        ),
        (
            {"callback_query": PRESSED},
            {"choice": "yes", "content": "", "peer": "-1001234567890123", "sender": "42"},
        ),
    ],
    ids=["text", "caption", "group", "topic", "64 bits", "button"],
)
async def test_an_update_becomes_a_message(
    telegram: Guest, update: dict[str, Any], expected: dict[str, str]
) -> None:
    update = {"update_id": 10, **update}

    posted = await parsed(telegram, update)
    polled = await parsed(telegram, {"ok": True, "result": [update]}, "poll", 200)

    (message,) = posted.messages
    assert (message.id, message.account) == ("10", "default")
    assert {name: getattr(message, name) for name in expected} == expected
    assert polled.messages == posted.messages
    assert polled.cursor == "11"


@pytest.mark.parametrize(
    "update",
    [
        {"edited_message": PRIVATE},
        {"channel_post": GROUP},
        {"message": {**PRIVATE, "text": None}},
        {"message": {**PRIVATE, "from": {**ADA, "is_bot": True}}},
        {"message": {**GROUP, "from": None}},
        {"my_chat_member": {"chat": {"id": 42}}},
        {"callback_query": {**PRESSED, "data": None}},
        {"callback_query": {**PRESSED, "message": None}},
        {"message": {**PRIVATE, "chat": {"id": 2**64, "type": "private"}}},
        {},
    ],
)
async def test_what_asks_for_no_answer_is_passed_over(
    telegram: Guest, update: dict[str, Any]
) -> None:
    update = {"update_id": 10, **update}

    assert (await parsed(telegram, update)).messages == ()
    polled = await parsed(telegram, {"ok": True, "result": [update]}, "poll", 200)
    assert (polled.messages, polled.cursor) == ((), "11")


async def test_a_page_of_updates_is_read_in_order_and_the_next_one_begins_behind_it(
    telegram: Guest,
) -> None:
    updates = [{"update_id": 2**53 + n, "message": {**PRIVATE, "text": str(n)}} for n in range(100)]

    polled = await parsed(telegram, {"ok": True, "result": updates}, "poll", 200)
    empty = await parsed(telegram, {"ok": True, "result": []}, "poll", 200)

    assert [message.content for message in polled.messages] == [str(n) for n in range(100)]
    assert polled.cursor == str(2**53 + 100)
    assert empty == ParsedIncoming()


async def test_a_pressed_button_is_answered_by_the_reply_to_the_post(telegram: Guest) -> None:
    read = await parsed(telegram, {"update_id": 10, "callback_query": PRESSED})

    assert (read.reply.status, read.reply.headers) == (200, {"content-type": "application/json"})
    assert json.loads(read.reply.body) == {
        "method": "answerCallbackQuery",
        "callback_query_id": "q1",
    }


@pytest.mark.parametrize(
    ("body", "kind", "told"),
    [
        ("<html>", "poll", "found no JSON at byte 0"),
        ("", "webhook", "found no JSON at byte 0"),
        ([], "webhook", "found no update_id"),
        ({"ok": False, "error_code": 401, "description": "Unauthorized"}, "poll", "401: Unauth"),
        ({"ok": True}, "letter", "found no kind"),
    ],
)
async def test_what_is_none_of_the_bot_api_is_said(
    telegram: Guest, body: Any, kind: str, told: str
) -> None:
    with pytest.raises(FaultError, match=told) as fault:
        await parsed(telegram, body, kind, 200)
    assert not fault.value.transient


@pytest.mark.parametrize(
    ("code", "more", "transient", "after"),
    [
        (429, {"parameters": {"retry_after": 5}}, True, 5),
        (502, {}, True, None),
        (409, {}, True, None),
        (403, {}, False, None),
        (429, {"parameters": {"retry_after": 10**12}}, True, 3600),
    ],
)
async def test_a_refusal_says_whether_and_when_to_come_again(
    telegram: Guest, code: int, more: dict[str, Any], transient: bool, after: float | None
) -> None:
    body = {"ok": False, "error_code": code, "description": "no", **more}

    with pytest.raises(FaultError, match=f"Telegram refuses with {code}: no") as fault:
        await parsed(telegram, body, "sent", code, Sent)

    assert (fault.value.transient, fault.value.retry_after) == (transient, after)


async def test_what_was_sent_has_an_id_and_an_edit_that_changes_nothing_is_done(
    telegram: Guest,
) -> None:
    sent = await parsed(telegram, {"ok": True, "result": PRIVATE}, "sent", 200, Sent)
    same = {"ok": False, "error_code": 400, "description": "Bad Request: message is not modified"}

    assert sent == Sent(message_id="7")
    assert await parsed(telegram, same, "sent", 400, Sent) == Sent(done=True)


# -- out --------------------------------------------------------------------------------


async def test_a_message_is_sent_with_its_thread_and_buttons(telegram: Guest) -> None:
    made = await asked(
        telegram,
        "format_outgoing",
        {
            "action": "send",
            "content": [
                {"type": "text", "text": "see"},
                {"type": "link", "uri": "https://a.example/", "name": "A"},
                {"type": "image", "media_type": "image/png", "data": ""},
            ],
            "account": "default",
            "peer": "-1001234567890123",
            "thread": "7-5",
            "choices": [{"label": "Yes", "data": "y"}, {"label": "No", "data": "n"}],
        },
    )

    assert made["url"] == f"{API}sendMessage"
    assert made["body"] == {
        "chat_id": -1001234567890123,
        "text": "see\nA: https://a.example/\n[image]",
        "reply_parameters": {"message_id": 7, "allow_sending_without_reply": True},
        "message_thread_id": 5,
        "reply_markup": {
            "inline_keyboard": [
                [{"text": "Yes", "callback_data": "y"}],
                [{"text": "No", "callback_data": "n"}],
            ]
        },
    }


async def test_a_message_is_edited(telegram: Guest) -> None:
    out = {"action": "edit", "content": "now", "account": "default", "peer": "@acme"}

    made = await asked(telegram, "format_outgoing", {**out, "message_id": "7"})
    without = await ask(telegram, "format_outgoing", out)

    assert made["url"] == f"{API}editMessageText"
    assert made["body"] == {"chat_id": "@acme", "text": "now", "message_id": 7}
    assert "found no message_id to edit" in without["error"]["message"]


async def test_an_empty_message_is_refused_before_telegram_does(telegram: Guest) -> None:
    out = {"action": "send", "content": " \n", "account": "default", "peer": "42"}

    assert "found no text" in (await ask(telegram, "format_outgoing", out))["error"]["message"]


async def test_a_poll_waits_and_goes_on_where_the_last_one_ended(telegram: Guest) -> None:
    first = await asked(telegram, "poll", {"cursor": ""})
    later = await asked(telegram, "poll", {"cursor": "9007199254740993", "seconds": 2})

    assert (first["url"], first["seconds"]) == (f"{API}getUpdates", 25)
    assert first["body"] == {"timeout": 25, "allowed_updates": ["message", "callback_query"]}
    assert (later["seconds"], later["body"]["timeout"]) == (2, 2)
    assert later["body"]["offset"] == 9007199254740993


async def test_another_bot_api_server_is_named_by_the_environment(telegram: Guest) -> None:
    made = await asked(telegram, "poll", {"cursor": ""}, TELEGRAM_API="http://127.0.0.1:8081/")

    assert made["url"] == "http://127.0.0.1:8081/bot{{secret:TELEGRAM_BOT_TOKEN}}/getUpdates"


def test_the_manifest_lets_the_token_go_nowhere_else() -> None:
    said = manifest(FOLDERS["telegram"])

    assert [one.pattern.text for one in said.granted.http] == ["https://api.telegram.org/*"]
    assert [one.pattern.text for one in said.granted.secrets] == ["https://api.telegram.org/*"]
    assert said.channel is not None
    assert said.channel.features.max_length == 4096


# -- whatever comes ---------------------------------------------------------------------

WORDS = [
    *("update_id", "message", "callback_query", "chat", "id", "from", "text", "data", "type"),
    *("message_id", "ok", "result", "is_bot", "caption", "parameters", "retry_after", "private"),
    *("supergroup", "description", "message_thread_id", "is_topic_message", "é\ud800", ""),
]


def mutated(chance: random.Random, depth: int = 5) -> Any:
    """Make a value of the keys of the Bot API, whatever their kind."""
    kind = chance.randrange(9 if depth else 6)
    if kind >= 7:
        return [mutated(chance, depth - 1) for _ in range(chance.randrange(4))]
    if kind == 6:
        return {chance.choice(WORDS): mutated(chance, depth - 1) for _ in range(5)}
    numbers = [0, -1, 7, 2**31, 2**63, -(2**63), 10**40, 1.5, 1e300, 429]
    values = [None, True, False, chance.choice(numbers), chance.choice(WORDS), "\x00" * 50]
    return values[kind]


def spoilt(chance: random.Random, value: Any) -> Any:
    """Return an update with one of its values replaced by anything."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(list(value))
        return {**value, key: spoilt(chance, value[key])}
    return mutated(chance, 2)


async def test_whatever_comes_gets_an_answer_or_a_clear_error(telegram: Guest) -> None:
    chance = random.Random(40)
    good = [{"update_id": 1, "message": TOPIC}, {"update_id": 2, "callback_query": PRESSED}]
    read = 0

    for number in range(900):
        body = mutated(chance) if number % 3 == 0 else spoilt(chance, chance.choice(good))
        kind = chance.choice(["webhook", "poll", "sent"])
        if kind == "poll":
            body = {"ok": True, "result": [body, chance.choice(good)]}
        text = json.dumps(body)
        if number % 5 == 0:
            at = chance.randrange(len(text) + 1)
            text = text[:at] + chance.choice(['"', "{", "\\u12", "", "\x01"]) + text[at + 1 :]
        try:
            await parsed(telegram, text, kind, 200, Sent if kind == "sent" else ParsedIncoming)
            read += 1
        except FaultError:
            continue
    assert 100 < read < 800


async def test_whatever_is_asked_gets_a_request_or_a_clear_error(telegram: Guest) -> None:
    chance = random.Random(41)
    out = {
        "action": "send",
        "content": [{"type": "text", "text": "hi"}],
        "account": "default",
        "peer": "-100",
        "thread": "7-5",
        "message_id": "7",
        "choices": [{"label": "Yes", "data": "y"}],
    }
    for number in range(600):
        export = ("format_outgoing", "poll", "parse_incoming", "describe")[number % 4]
        request = {"cursor": mutated(chance, 2)} if export == "poll" else spoilt(chance, out)
        answer = await ask(telegram, export, request)
        assert isinstance(answer, dict)
        if "url" in answer:
            assert answer["url"].startswith(API)
            assert isinstance(json.loads(answer["body"]), dict)


# -- Markdown ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("markdown", "text", "entities"),
    [
        ("plain & <b>", "plain & <b>", {}),
        ("**bold** and *slanted*", "bold and slanted", {"bold": "bold", "italic": "slanted"}),
        ("😀 **é**", "😀 é", {"bold": "é"}),
        ("**a *b* c**", "a b c", {"bold": "a b c", "italic": "b"}),
        ("# Title\nText", "Title\nText", {"bold": "Title"}),
        ("- one\n* two", "• one\n• two", {}),
        ("`x**y**`", "x**y**", {"code": "x**y**"}),
        ("```py\na = '**'\n```\nend", "a = '**'\nend", {"pre": "a = '**'"}),
        ("````\n```\n````", "```", {"pre": "```"}),
        ("[a](https://b.example/c)", "a", {"text_link": "a"}),
        # What is not closed yet, or means nothing, stays as it was written.
        ("**half", "**half", {}),
        ("```py\nopen", "open", {"pre": "open"}),
        ("2*3*4 and snake_case_name", "2*3*4 and snake_case_name", {}),
        ("[a](javascript:alert)", "[a](javascript:alert)", {}),
        ("\\*no\\*", "*no*", {}),
        ("a ** b ** c", "a ** b ** c", {}),
    ],
)
async def test_markdown_becomes_text_and_entities(
    telegram: Guest, markdown: str, text: str, entities: dict[str, str]
) -> None:
    outgoing = {"action": "send", "content": markdown, "account": "default", "peer": "42"}
    body = (await asked(telegram, "format_outgoing", outgoing))["body"]

    units = body["text"].encode("utf-16-le")
    found = {
        one["type"]: units[2 * one["offset"] : 2 * (one["offset"] + one["length"])].decode(
            "utf-16-le"
        )
        for one in body.get("entities", [])
    }
    assert (body["text"], found) == (text, entities)


async def test_any_text_is_written_within_bounds(telegram: Guest) -> None:
    chance = random.Random(7)
    for _ in range(150):
        markdown = "".join(chance.choices("ab *_~`[]()#\\\n😀-", k=chance.randint(1, 200))) + "x"
        outgoing = {"action": "send", "content": markdown, "account": "default", "peer": "42"}
        body = (await asked(telegram, "format_outgoing", outgoing))["body"]
        length = len(body["text"].encode("utf-16-le")) // 2
        for one in body.get("entities", []):
            assert 0 <= one["offset"] < one["offset"] + one["length"] <= length


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (PRIVATE, None),
        (GROUP, False),
        ({**GROUP, "text": "/help"}, True),
        ({**GROUP, "reply_to_message": {"from": {"id": 1, "is_bot": True}}}, True),
        ({**GROUP, "reply_to_message": {"from": ADA}}, False),
    ],
)
async def test_in_a_group_it_is_said_who_was_spoken_to(
    telegram: Guest, message: dict[str, Any], expected: bool | None
) -> None:
    (read,) = (await parsed(telegram, {"update_id": 1, "message": message})).messages

    assert read.addressed is expected


async def test_typing_is_an_action_of_the_chat(telegram: Guest) -> None:
    outgoing = {"action": "typing", "content": "", "account": "default", "peer": "42"}
    made = await asked(telegram, "format_outgoing", outgoing)

    assert made["url"] == f"{API}sendChatAction"
    assert made["body"] == {"chat_id": 42, "action": "typing"}
