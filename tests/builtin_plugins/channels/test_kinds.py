"""The channels that come with hookgate, each against what its platform sends and takes."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.builtin_plugins.channels.conftest import Serve
from tests.builtin_plugins.channels.local_platform import Platform
from tests.builtin_plugins.channels.test_approvals import KEY, Bell, asking, post, signed_json

from hookgate.builtin_plugins.channels.kinds.slack import _said, mrkdwn
from hookgate.kit.testing.model import ScriptedModel, call, say

# -- json -------------------------------------------------------------------------


async def test_service_gets_the_answer_in_the_response_each_time_it_asks(serve: Serve) -> None:
    model = ScriptedModel(say("It is sunny."))
    channels = {"weather": {"kind": "json", "public": False}}
    async with serve(model=model, channels=channels, secrets={"weather_secret": KEY}) as served:
        body = json.dumps({"id": "q1", "peer": "station", "text": "how is it?"}).encode()
        expected = {"id": "q1", "peer": "station", "text": "It is sunny."}
        for _ in range(2):
            status, text = await post(served, "weather", body, signed_json(body))
            assert (status, json.loads(text)) == (200, expected)
        assert (await post(served, "weather", b'{"id": 1}', signed_json(b'{"id": 1}')))[0] == 400
    assert len(model.requests) == 1


async def test_stop_where_nothing_runs_leaves_no_dead_letter(serve: Serve) -> None:
    model, keys = ScriptedModel(), {"weather_secret": KEY}
    channels = {"weather": {"kind": "json", "public": False}}
    async with serve(model=model, channels=channels, secrets=keys) as served:
        body = json.dumps({"id": "q1", "peer": "station", "text": "/stop"}).encode()
        assert (await post(served, "weather", body, signed_json(body)))[0] == 200
        async with served.http.post(f"{served.url}/v1/channels/list", json={}) as answer:
            (row,) = (await answer.json())["channels"]
        assert (row["unsent"], row["dead"]) == (0, 0)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"id": 7, "peer": "station", "text": "hi"}, "`id`: "),
        ({"id": "q2", "text": "hi"}, "`peer`: "),
        ({"id": "q3", "peer": "station", "texts": "hi"}, "`texts`: "),
    ],
)
async def test_service_is_told_which_field_is_wrong(
    serve: Serve, wrong: dict[str, Any], told: str
) -> None:
    channels = {"weather": {"kind": "json", "public": False}}
    model, keys = ScriptedModel(), {"weather_secret": KEY}
    async with serve(model=model, channels=channels, secrets=keys) as served:
        body = json.dumps(wrong).encode()
        status, text = await post(served, "weather", body, signed_json(body))
        assert status == 400
        assert told in json.loads(text)["error"]


async def test_each_account_gets_the_answer_to_its_own_question_and_each_peer_its_own(
    serve: Serve,
) -> None:
    model = ScriptedModel(lambda request: say(f"re: {request.messages[-1].text}"))
    channels = {"desk": {"kind": "json"}}
    async with serve(model=model, channels=channels, secrets={"desk_secret": KEY}) as served:

        async def ask(account: str, peer: str, text: str) -> tuple[int, str]:
            said = {"id": "q1", "account": account, "peer": peer, "text": text}
            body = json.dumps(said).encode()
            return await post(served, "desk", body, signed_json(body))

        for account in ("acme", "umbrella", "acme"):
            status, text = await ask(account, "ada", f"what of {account}?")
            assert (status, json.loads(text)["text"]) == (200, f"re: what of {account}?")
        status, text = await ask("acme", "eve", "what did ada hear?")
        assert (status, "acme" in text) == (409, False)
    assert len(model.requests) == 2


async def test_service_that_has_waited_long_asks_again(serve: Serve) -> None:
    free = asyncio.Event()
    model = ScriptedModel([free.wait, *say("At last.")])
    channels = {"slow": {"kind": "json", "answer_seconds": 0.1}}
    async with serve(model=model, channels=channels, secrets={"slow_secret": KEY}) as served:
        body = json.dumps({"id": "q1", "peer": "p", "text": "?"}).encode()
        assert (await post(served, "slow", body, signed_json(body)))[0] == 202
        free.set()
        while (found := await post(served, "slow", body, signed_json(body)))[0] == 202:
            continue
        assert json.loads(found[1])["text"] == "At last."
    assert len(model.requests) == 1


async def test_answer_is_posted_to_the_callback_signed_and_with_its_key(
    serve: Serve, there: Platform
) -> None:
    there.answers = [(503, {}, {"Retry-After": "0"})]
    model = ScriptedModel(say("It is sunny."))
    channels = {"weather": {"kind": "json", "callback": f"{there.url}/answers"}}
    secrets = {"weather_secret": KEY, "weather_token": "bearer-of-the-callback"}
    async with serve(model=model, channels=channels, secrets=secrets) as served:
        body = json.dumps({"id": "q1", "peer": "station", "text": "?", "thread": "t7"}).encode()
        assert await post(served, "weather", body, signed_json(body)) == (200, "")
        await there.until(lambda: len(there.sent) == 2)
    first, second = there.sent
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"] != ""
    assert second.headers["authorization"] == "Bearer bearer-of-the-callback"
    signed = f"{second.headers['x-time']}.".encode() + second.raw
    digest = hmac.new(KEY.encode(), signed, hashlib.sha256).hexdigest()
    assert second.headers["x-signature"] == f"sha256={digest}"
    assert second.body == {
        "account": "default",
        "peer": "station",
        "thread": "t7",
        "text": "It is sunny.",
        "choices": [],
    }


# -- slack ------------------------------------------------------------------------


def signed_slack(body: bytes, **more: str) -> dict[str, str]:
    stamp = str(int(time.time()))
    digest = hmac.new(KEY.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={digest}", **more}


def slack_event(ts: str, text: str, **more: Any) -> bytes:
    event = {"type": "message", "user": "U1", "channel": "C1", "ts": ts, "text": text, **more}
    found = {"type": "event_callback", "team_id": "T1", "api_app_id": "A1", "event": event}
    return json.dumps({**found, "event_id": f"Ev{ts}{event['type']}"}).encode()


def slack(there: Platform, **more: Any) -> dict[str, Any]:
    there.usual = lambda number: {"ok": True, "ts": f"900.{number}"}
    return {"edit_seconds": 0.05, "work": {"kind": "slack", "api": f"{there.url}/api", **more}}


SLACK = {"work_secret": KEY, "work_token": "xoxb-token-of-the-bot"}


async def test_slack_checks_the_url_and_gets_one_answer_in_the_thread(
    serve: Serve, there: Platform
) -> None:
    model = ScriptedModel(say("1 < 2 & 3"))
    channels = slack(there, streaming=False)
    async with serve(model=model, channels=channels, secrets=SLACK) as served:
        body = json.dumps({"type": "url_verification", "challenge": "3eZbrw1a"}).encode()
        assert await post(served, "work", body, signed_slack(body)) == (200, "3eZbrw1a")
        assert (await post(served, "work", body, {**signed_slack(b"other")}))[0] == 401
        # A mention comes twice: as what it is, and as a message of the channel.
        for kind in ("app_mention", "message"):
            body = slack_event("100.1", "<@U0BOT> is 1 &lt; 2?", type=kind)
            assert (await post(served, "work", body, signed_slack(body)))[0] == 200
        bot = slack_event("100.2", "I am a bot", bot_id="B1")
        assert (await post(served, "work", bot, signed_slack(bot)))[0] == 200
        await there.until(lambda: there.sent)
    (sent,) = there.sent
    assert sent.path == "/api/chat.postMessage"
    assert sent.headers["authorization"] == "Bearer xoxb-token-of-the-bot"
    assert sent.body == {"channel": "C1", "text": "1 &lt; 2 &amp; 3", "thread_ts": "100.1"}
    (request,) = model.requests
    assert request.messages[-1].text == "is 1 < 2?"


async def test_slack_shows_the_answer_while_it_is_written(serve: Serve, there: Platform) -> None:
    free = asyncio.Event()
    model = ScriptedModel([*say("One two")[:2], free.wait, *say(" three.")])
    async with serve(model=model, channels=slack(there), secrets=SLACK) as served:
        body = slack_event("100.1", "count", channel_type="im")
        assert (await post(served, "work", body, signed_slack(body)))[0] == 200
        await there.until(lambda: there.sent)
        free.set()
        await there.until(lambda: there.sent[-1].body["text"] == "One two three.")
    assert there.sent[0].path == "/api/chat.postMessage"
    assert "thread_ts" not in there.sent[0].body
    assert there.sent[-1].path == "/api/chat.update"
    assert there.sent[-1].body["ts"] == "900.1"


async def test_slack_asks_for_approval_by_buttons(serve: Serve, there: Platform) -> None:
    bell = Bell()
    model = ScriptedModel(call("ring", how="<& once"), say("Rung."))
    approver = {"sender": "U9", "account": "A1", "principal": "ada", "peer": "D9"}
    channels = slack(there, approvers=[approver], streaming=False)
    setup: dict[str, Any] = {"tools": [bell.tool()], "plugin": asking("ada")}
    async with serve(model=model, channels=channels, secrets=SLACK, **setup) as served:
        body = slack_event("100.1", "ring")
        assert (await post(served, "work", body, signed_slack(body)))[0] == 200
        await there.until(lambda: len(there.sent) == 2)
        # Who has asked is told that somebody has to answer first, and nothing of the call.
        (told,) = (one.body for one in there.sent if "blocks" not in one.body)
        assert "needs an approval first (ring)" in told["text"]
        assert "&lt;" not in told["text"]
        asked = next(one.body for one in there.sent if "blocks" in one.body)
        assert asked["channel"] == "D9"
        *sections, actions = asked["blocks"]
        shown = "".join(section["text"]["text"] for section in sections)
        assert shown == asked["text"]
        assert '"how": "&lt;&amp; once"' in shown
        pressed = {
            "type": "block_actions",
            "api_app_id": "A1",
            "user": {"id": "U9"},
            "channel": {"id": "D9"},
            "actions": [{"value": actions["elements"][0]["value"], "action_ts": "1.2"}],
        }
        form = urlencode({"payload": json.dumps(pressed)}).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        assert (await post(served, "work", form, signed_slack(form, **kind)))[0] == 200
        await there.until(lambda: any(one.body.get("text") == "Rung." for one in there.sent))
        await there.until(lambda: any(one.path == "/api/chat.update" for one in there.sent))
    (changed,) = (one.body for one in there.sent if one.path == "/api/chat.update")
    assert changed["blocks"] == []
    assert "allowed by ada" in changed["text"]
    assert bell.rung == ["<& once"]


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("a & <b>", "a &amp; &lt;b&gt;"),
        ("**bold** and *slanted* and ~~gone~~", "*bold* and _slanted_ and ~gone~"),
        ("## Title\n- one\n* two", "*Title*\n• one\n• two"),
        ("[here](https://a.example/?x=1&y=2)", "here (https://a.example/?x=1&amp;y=2)"),
        ("`**x**` and ```\n**y** <z>\n```", "`**x**` and ```\n**y** &lt;z&gt;\n```"),
        ("# Title ##  \n# a #b\n# ###\n#no", "*Title*\n*a #b*\n*###*\n#no"),
        ("2 * 3 * 4, **half", "2 * 3 * 4, **half"),
        ("<!channel> [a](javascript:b)", "&lt;!channel&gt; [a](javascript:b)"),
    ],
)
def test_slack_shows_what_markdown_means(markdown: str, shown: str) -> None:
    assert mrkdwn(markdown) == shown


def test_a_heading_takes_time_by_its_length() -> None:
    def seconds(text: str) -> float:
        began = time.process_time()
        assert mrkdwn(text)
        return time.process_time() - began

    # Square, this took more than ten seconds.
    assert min(seconds("# a" + " #" * 20_000 + "x") for _ in range(3)) < 1.0


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"channel_type": "im"}, None),
        ({"type": "app_mention"}, True),
        ({"text": "say, <@UBOT>, is it?"}, True),
        ({"text": "lunch?"}, False),
        ({"subtype": "thread_broadcast", "text": "<@UBOT> is it?", "thread_ts": "1.1"}, True),
    ],
)
async def test_slack_says_in_a_channel_who_was_spoken_to(
    event: dict[str, Any], expected: bool | None
) -> None:
    said = {"type": "message", "channel": "C1", "ts": "1.2", "user": "U1", "text": "hi", **event}
    found = {"event": said, "authorizations": [{"user_id": "UBOT", "is_bot": True}]}

    (message,) = _said(found)

    assert message.addressed is expected
