"""What each method returns is what its schema says: no member less, and none beside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema_rs
import pytest
from tests.core.gateway.test_chat import turn_frames
from tests.support.script import Script, Scripted, say, settings
from tests.support.wire import Served, Socket, tokens

from hookgate import Gateway
from hookgate.builtin_plugins import BUILTIN
from hookgate.core.gateway.serve import listen

PARAMS: dict[str, dict[str, Any]] = {
    "chat.send": {"content": "hi"},
    "sessions.show": {"session": "main:cli:local:main"},
    "sessions.export": {"session": "main:cli:local:main"},
    "sessions.delete": {"session": "main:cli:local:main"},
    "plugins.why": {"name": "providers"},
    "tools.call": {"name": "nothing"},
    "token.revoke": {"name": "spare"},
    "accept.forget": {"kind": "tool", "name": "nothing"},
    # Its trial measures for a long time.
    "awareness.report": {"trial": False},
}
NOT_TO_CALL = frozenset({"chat.cancel", "request.cancel", "accept.give"})
"""They need something that runs, or waits."""


def unknown(value: Any, schema: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of members that a schema does not name, at any depth."""
    if "$ref" in schema:
        schema = known[schema["$ref"].rpartition("/")[2]]
    if isinstance(value, list):
        for item in value:
            yield from unknown(item, schema.get("items", {}), known)
    properties = schema.get("properties")
    if isinstance(value, dict) and properties is not None:
        for name, item in value.items():
            if name not in properties:
                yield name
            else:
                yield from (f"{name}.{one}" for one in unknown(item, properties[name], known))


def check(name: str, value: Any, schema: Mapping[str, Any]) -> None:
    """Hold a result against its schema."""
    jsonschema_rs.Draft202012Validator(dict(schema)).validate(value)
    assert list(unknown(value, schema, schema.get("$defs", {}))) == [], name


async def called(socket: Socket, name: str, params: Mapping[str, Any]) -> Any:
    if name == "chat.send":
        frames = await turn_frames(socket, await socket.send(name, **params))
        return frames[0]["result"]
    answer = await socket.call(name, **params)
    # Some of a plugin's own need what is not there, such as a card.
    code = answer.get("error", {}).get("code")
    assert "result" in answer or (name not in PARAMS and code in (-32006, -32602)), (name, answer)
    return answer.get("result")


@pytest.mark.parametrize(
    "builtin",
    [
        pytest.param(("control", "providers"), id="bare"),
        pytest.param(tuple(BUILTIN), id="builtins", marks=pytest.mark.slow),
    ],
)
async def test_each_result_is_as_its_schema_says(builtin: tuple[str, ...], tmp_path: Path) -> None:
    section, made = tokens(
        ops={"scopes": ["chat", "approve", "operate", "read"]}, spare={"scopes": ["read"]}
    )
    config = settings(tmp_path, gateway={"port": 0, **section})
    plugins = [Scripted(Script(say("well said")))]
    headers = {"Authorization": f"Bearer {made['ops']}"}
    checked = set()
    async with (
        Gateway(config, builtin=builtin, plugins=plugins) as gate,
        listen(gate) as listener,
        aiohttp.ClientSession() as http,
        Served(gate, listener, http).socket(headers=headers) as socket,
    ):
        await turn_frames(socket, await socket.send("chat.send", content="hi"))
        rows = (await socket.result("operations.list"))["operations"]
        # What deletes the session comes last.
        for row in sorted(rows, key=lambda row: row["name"] == "sessions.delete"):
            name, wanted = row["name"], row["params"].get("required", [])
            if name in NOT_TO_CALL or (wanted and name not in PARAMS):
                continue
            if name == "events.subscribe":
                subscribed = await socket.send(name)
                check(name, (await socket.answer(subscribed))["result"], row["result"])
                ended = await socket.result("events.unsubscribe", request=subscribed)
                assert ended == {"cancelled": True}
            elif row["streams"] and name not in PARAMS:
                continue
            else:
                result = await called(socket, name, PARAMS.get(name, {}))
                if result is None:
                    continue
                check(name, result, row["result"])
            checked.add(name)
    core = {row["name"] for row in rows if row["plugin"] == "control"} - NOT_TO_CALL
    assert core <= checked
    assert {"status", "reload"} <= checked
