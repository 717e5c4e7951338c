from __future__ import annotations

import json
from typing import Any

import pytest
import websockets
from aiohttp import WSMsgType
from hypothesis import given
from hypothesis import strategies as st
from tests.core.json_cases import ACCEPTED, REFUSED
from tests.support.wire import Socket, serving

from hookgate import __version__
from hookgate.core.gateway.wire.rpc import BadCall, read_call

PING = '{"jsonrpc":"2.0","id":"p","method":"ping"}'
PONG = {"jsonrpc": "2.0", "id": "p", "result": {"pong": True}}


async def ask(socket: Socket, frame: str | bytes) -> dict[str, Any]:
    """Send one frame as it is and return the next one."""
    data = frame.encode("utf-8", "surrogatepass") if isinstance(frame, str) else frame
    await socket.raw.send_frame(data, WSMsgType.TEXT)
    return await socket.next()


async def test_the_first_frame_says_who_answers_and_what_the_limits_are() -> None:
    limits = {"frame_bytes": 5000, "queue_frames": 9, "turns_per_connection": 3}
    async with (
        serving(wire={"limits": limits}, turn={"lane_queue": 4}) as served,
        served.socket(hello=False) as socket,
    ):
        served.gate.host.standing("storage").bad("the disk is gone")
        async with served.socket(hello=False) as late:
            hello = await socket.next()
            after = await late.next()
    assert hello["method"] == "hello"
    assert "id" not in hello
    params = hello["params"]
    assert params["version"] == __version__
    assert params["protocol"] == 1
    assert params["principal"] == "loopback"
    assert params["scopes"] == ["approve", "chat", "operate", "read"]
    assert params["limits"] == {
        "frame_bytes": 5000,
        "queue_frames": 9,
        "queue_bytes": 131_072,
        "turns": 3,
        "waiting_per_session": 4,
        "heartbeat_seconds": 30.0,
    }
    assert params["degraded"] == {}
    assert after["params"]["degraded"] == {"storage": "the disk is gone"}


@pytest.mark.parametrize("number", [0, 1, -7, 2**53 - 1, "1", "", "ünïcode ☃", "x" * 256])
async def test_an_id_comes_back_with_its_type(number: Any) -> None:
    async with serving() as served, served.socket() as socket:
        frame = json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"})
        answer = await ask(socket, frame)
    assert answer == {"jsonrpc": "2.0", "id": number, "result": {"pong": True}}
    assert type(answer["id"]) is type(number)


@pytest.mark.parametrize("number", [None, 1.5, 1.0, True, False, {}, [1], "x" * 257])
async def test_another_id_is_refused(number: Any) -> None:
    text = json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"})
    async with serving() as served, served.socket() as socket:
        answer = await ask(socket, text)
        assert answer["id"] is None
        assert answer["error"]["code"] == -32600
        assert await ask(socket, PING) == PONG


@pytest.mark.parametrize(
    ("frame", "code", "number"),
    [
        ("", -32700, None),
        ("{", -32700, None),
        ("nonsense", -32700, None),
        ("[]", -32600, None),
        (f"[{PING}]", -32600, None),
        ("[1,2]", -32600, None),
        ("3", -32600, None),
        ('"ping"', -32600, None),
        ("null", -32600, None),
        ("{}", -32600, None),
        ('{"id":1,"method":"ping"}', -32600, 1),
        ('{"jsonrpc":2.0,"id":1,"method":"ping"}', -32600, 1),
        ('{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600, 1),
        ('{"jsonrpc":"2.0","id":1}', -32600, 1),
        ('{"jsonrpc":"2.0","id":1,"method":7}', -32600, 1),
        ('{"jsonrpc":"2.0","id":1,"result":{}}', -32600, 1),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","param":{}}', -32600, 1),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602, 1),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","params":null}', -32602, 1),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}', -32602, 1),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1}}', -32602, 1),
        ('{"jsonrpc":"2.0","id":1,"method":"pong"}', -32601, 1),
        ('{"jsonrpc":"2.0","id":1,"method":""}', -32601, 1),
        ('{"jsonrpc":"2.0","id":1,"method":"PING"}', -32601, 1),
        ('{"jsonrpc":"2.0","id":1,"method":"chat.send","params":{}}', -32602, 1),
        ('{"jsonrpc":"2.0","id":1,"method":"chat.send","params":{"content":7}}', -32602, 1),
        ('{"jsonrpc":"2.0","id":1,"jsonrpc":"2.0","method":"ping"}', -32700, None),
        ('{"jsonrpc":"2.0","id":9007199254740992,"method":"ping"}', -32700, None),
        ('{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', -32700, None),
        ('{"jsonrpc":"2.0","id":NaN,"method":"ping"}', -32700, None),
        ("[" * 70_000, -32700, None),
    ],
)
async def test_what_is_no_request_gets_its_error_and_the_socket_lives(
    frame: str, code: int, number: Any
) -> None:
    async with serving() as served, served.socket() as socket:
        answer = await ask(socket, frame)
        assert (answer["id"], answer["error"]["code"]) == (number, code)
        assert answer["error"]["message"]
        assert answer["error"]["data"]["action"]
        assert await ask(socket, PING) == PONG


@pytest.mark.parametrize(
    ("version", "found"), [("", "no `jsonrpc`"), ('"jsonrpc":"1.0",', "another `jsonrpc`")]
)
async def test_another_version_is_told_from_none(version: str, found: str) -> None:
    async with serving() as served, served.socket() as socket:
        answer = await ask(socket, f'{{{version}"id":1,"method":"ping"}}')
    assert f'found {found}, expected "2.0"' in answer["error"]["message"]


async def test_every_text_that_is_no_strict_json_is_refused_and_a_ping_answered_after_it() -> None:
    async with serving() as served, served.socket() as socket:
        for name, text in REFUSED.items():
            answer = await ask(socket, text)
            assert answer["error"]["code"] == -32700, name
            assert await ask(socket, PING) == PONG, name


async def test_every_strict_json_is_taken_as_parameters() -> None:
    async with serving() as served, served.socket() as socket:
        for name, (text, _) in ACCEPTED.items():
            if name == "y_structure_deepest":
                continue  # the request around it is two levels more
            frame = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":%b}}' % text
            answer = await ask(socket, frame)
            # It is read; `ping` then finds a parameter that it does not know.
            assert answer["error"]["code"] == -32602, name
            assert await ask(socket, PING) == PONG, name


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (
            {"message": "hi"},
            "`content` is required, or `images` or `tool_results`; `message`: found",
        ),
        ({}, "`content` is required, or `images` or `tool_results`"),
        ({"content": "hi", "contnt": "x"}, "is not known; did you mean `content`?"),
        ({"content": "hi", "zzz": 1}, "is not known; it takes `channel`, `account`, `peer`"),
    ],
)
async def test_what_is_missing_is_said_and_what_is_unknown_named(
    params: dict[str, Any], said: str
) -> None:
    async with serving() as served, served.socket() as socket:
        error = (await socket.call("chat.send", **params))["error"]
    assert error["message"].startswith("chat.send: ")
    assert said in error["message"]
    assert "Value error" not in error["message"] + str(error["data"])


async def test_an_unknown_method_names_the_nearest() -> None:
    async with serving() as served, served.socket() as socket:
        answer = await socket.call("chat.sned")
    assert "chat.send" in answer["error"]["data"]["action"]


async def test_wrong_parameters_are_all_named_and_not_repeated() -> None:
    async with serving() as served, served.socket() as socket:
        secret = "what somebody typed"
        answer = await socket.call("chat.send", content=3, peer="", chanel=secret)
    data = answer["error"]["data"]
    assert {problem["path"] for problem in data["problems"]} == {"content", "peer", "chanel"}
    (nearest,) = [problem["nearest"] for problem in data["problems"] if "nearest" in problem]
    assert nearest == "channel"
    assert secret not in json.dumps(answer)


async def test_a_notification_gets_no_answer_whatever_it_says() -> None:
    async with serving() as served, served.socket() as socket:
        for frame in (
            '{"jsonrpc":"2.0","method":"ping"}',
            '{"jsonrpc":"2.0","method":"no.such"}',
            '{"jsonrpc":"2.0","method":"ping","params":{"x":1}}',
            '{"jsonrpc":"2.0","method":"status"}',
            '{"jsonrpc":"2.0","method":"operation.list"}',
        ):
            await socket.raw.send_str(frame)
        assert await ask(socket, PING) == PONG


async def test_a_notification_of_a_message_runs_the_turn_in_silence() -> None:
    async with serving() as served, served.socket() as socket:
        await socket.raw.send_str(
            '{"jsonrpc":"2.0","method":"chat.send","params":{"content":"hi"}}'
        )
        async with served.socket() as other:
            await other.send("chat.send", content="after it")
            await other.until("done")
            history = await other.result("session.history", session="main:cli:local:main")
        said = [message["parts"][0]["text"] for message in history["messages"]]
        assert said == ["hi", "well said", "after it", "well said"]
        assert await ask(socket, PING) == PONG


async def test_a_binary_frame_is_refused_and_the_socket_lives() -> None:
    async with serving() as served, served.socket() as socket:
        await socket.raw.send_bytes(PING.encode())
        answer = await socket.next()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        assert await ask(socket, PING) == PONG


async def test_the_longest_frame_is_taken_and_a_longer_one_closes_with_1009() -> None:
    limit = 2000
    async with serving(wire={"limits": {"frame_bytes": limit}}) as served:
        async with served.socket() as socket:
            frame = PING + " " * (limit - len(PING))
            assert await ask(socket, frame) == PONG
            await socket.raw.send_str(frame + " ")
            assert await socket.closed() == 1009
        async with served.socket() as socket:
            assert await ask(socket, PING) == PONG


async def test_a_frame_in_many_pieces_counts_as_a_whole() -> None:
    async with (
        serving(wire={"limits": {"frame_bytes": 1024}}) as served,
        websockets.connect(served.url.replace("http", "ws") + "/ws") as socket,
    ):
        await socket.recv()
        await socket.send([PING[:10], PING[10:20], PING[20:]])
        assert json.loads(await socket.recv()) == PONG
        await socket.send([" " * 400, " " * 400, " " * 400])
        await socket.wait_closed()
        assert socket.close_code == 1009


async def test_another_client_library_is_served_too() -> None:
    async with (
        serving() as served,
        websockets.connect(served.url.replace("http", "ws") + "/ws") as socket,
    ):
        assert json.loads(await socket.recv())["method"] == "hello"
        await socket.send(PING)
        assert json.loads(await socket.recv()) == PONG
        waiter = await socket.ping()
        assert await waiter >= 0
        assert socket.protocol.extensions == []


async def test_no_frame_is_compressed() -> None:
    async with serving() as served, served.socket(compress=15) as socket:
        assert not socket.raw.compress
        assert await ask(socket, PING) == PONG


async def test_requests_are_answered_in_order_while_they_come_fast() -> None:
    async with serving() as served, served.socket() as socket:
        for number in range(500):
            await socket.raw.send_str(PING.replace('"p"', str(number)))
        answers = [(await socket.next())["id"] for _ in range(500)]
    assert answers == list(range(500))


async def test_an_id_that_still_runs_cannot_be_used_again() -> None:
    async with serving() as served, served.socket() as socket:
        frame = '{"jsonrpc":"2.0","id":1,"method":"events.subscribe"}'
        assert "result" in await ask(socket, frame)
        answer = await ask(socket, frame)
        assert answer["error"]["code"] == -32600
        other = await ask(socket, frame.replace('"id":1', '"id":"1"'))
        assert other["id"] == "1"
        assert "result" in other


WORDS = st.dictionaries(
    st.sampled_from(["jsonrpc", "id", "method", "params", "extra"]),
    st.sampled_from(["2.0", "ping", 1, None, {}, [], 1.5, True, "x" * 300]),
)


@given(WORDS)
def test_reading_a_request_agrees_with_the_rules_spelled_out(value: dict[str, Any]) -> None:
    number = value.get("id")
    right = (
        value.get("jsonrpc") == "2.0"
        and isinstance(value.get("method"), str)
        and isinstance(value.get("params", {}), dict)
        and "extra" not in value
        and ("id" not in value or (isinstance(number, int | str) and number is not True))
        and not (isinstance(number, str) and len(number) > 256)
    )
    try:
        call_id, name, params = read_call(json.dumps(value))
    except BadCall:
        assert not right
    else:
        assert right
        assert (call_id, name, params) == (number, value["method"], value.get("params", {}))
