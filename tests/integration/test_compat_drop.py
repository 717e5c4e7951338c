"""Fields that the operator has dropped where a request goes to another wire; others are a 400."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.builtin_plugins.providers.transcripts import ANTHROPIC, OPENAI
from tests.integration.test_compat_as_it_came import CHAT, MESSAGES, relayed

from hookgate.builtin_plugins.compat.settings import CompatSettings

SAID = {"role": "user", "content": [{"type": "text", "text": "go", "cache_control": {}}]}
BODY: dict[str, Any] = {
    "model": "anthropic/m",
    "messages": [SAID, {**SAID, "name": "ann"}],
    "max_tokens": 9,
    "seed": 7,
    "logit_bias": {"1": 2},
}
LISTED = ["seed", "logit_bias", "cache_control", "name"]


async def told(one: Any) -> list[Any]:
    _, found = await one.get("/v1/audit")
    return [row["data"] for row in found["entries"] if row["kind"] == "compat_dropped"]


async def test_what_is_listed_is_dropped_and_said(tmp_path: Path) -> None:
    async with relayed(tmp_path, ANTHROPIC, compat={"drop": LISTED}) as (one, upstream):
        async with one.http.post(one.url + CHAT, json=BODY) as answer:
            assert answer.status == 200, await answer.text()
            dropped = answer.headers["x-hookgate-dropped"]
        assert sorted(dropped.split(", ")) == sorted(LISTED)
        (row,) = await told(one)
        assert (row["model"], row["fields"]) == (
            "anthropic/m",
            [
                "seed",
                "logit_bias",
                "messages[0].content[0].cache_control",
                "messages[1].name",
                "messages[1].content[0].cache_control",
            ],
        )
    (sent,) = upstream.requests
    assert not {"seed", "logit_bias"} & sent.keys()
    assert "cache_control" not in str(sent["messages"])


@pytest.mark.parametrize("missing", LISTED)
async def test_what_is_not_listed_is_a_400_that_names_it(missing: str, tmp_path: Path) -> None:
    listed = [name for name in LISTED if name != missing]
    async with relayed(tmp_path, ANTHROPIC, compat={"drop": listed}) as (one, upstream):
        status, answer = await one.post(CHAT, BODY)
        assert (status, missing in answer["error"]["message"]) == (400, True)
        assert upstream.requests == []
        assert len(await told(one)) <= 1


async def test_nobody_is_told_to_drop_what_is_never_dropped(tmp_path: Path) -> None:
    placed = [SAID, {"role": "system", "content": "be brief"}, SAID]
    async with relayed(tmp_path, ANTHROPIC, compat={"drop": LISTED}) as (one, _):
        status, answer = await one.post(CHAT, {**BODY, "messages": placed})
        told = answer["error"]["message"]
        assert (status, "the role 'system'" in told, "`drop`" in told) == (400, True, False)


async def test_the_same_wire_carries_all_of_it(tmp_path: Path) -> None:
    body = {**BODY, "model": "m", "stream": True, "stream_options": {"include_usage": True}}
    async with relayed(tmp_path, OPENAI, compat={"drop": LISTED}) as (one, upstream):
        async with one.http.post(one.url + CHAT, json=body) as answer:
            assert answer.status == 200
            assert "x-hookgate-dropped" not in answer.headers
            await answer.read()
        assert upstream.requests == [body]
        assert await told(one) == []


async def test_of_several_models_the_one_of_the_same_wire_carries_all_of_it(
    tmp_path: Path,
) -> None:
    compat = {"drop": LISTED, "aliases": {"both": {"to": ["anthropic/m", "openai/m"]}}}
    overloaded = [{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}]
    async with relayed(tmp_path, overloaded, OPENAI, compat=compat) as (one, upstream):
        status, _ = await one.post(CHAT, {**BODY, "model": "both"})
        assert status == 200
    first, *_, last = upstream.requests
    assert "seed" not in first
    assert (last["seed"], last["messages"]) == (7, BODY["messages"])


async def test_an_agent_is_another_wire_too(tmp_path: Path) -> None:
    body = {**BODY, "model": "helper"}
    helper = {"mode": "agent", "agent": "main", "to": ["openai/m"]}
    compat: dict[str, Any] = {"aliases": {"helper": helper}}
    async with relayed(tmp_path, OPENAI, compat={**compat, "drop": LISTED}) as (one, _):
        status, answer = await one.post(CHAT, body)
        assert status == 200, answer
        (row,) = await told(one)
        assert "logit_bias" in row["fields"]
    async with relayed(tmp_path, OPENAI, compat=compat) as (one, _):
        status, answer = await one.post(CHAT, body)
        assert (status, answer["error"]["param"]) == (400, "logit_bias")


async def test_what_a_provider_would_run_is_never_dropped(tmp_path: Path) -> None:
    compat = {"drop": ["web_search_options"], "provider_tools": ["*"]}
    body = {"model": "anthropic/m", "messages": [SAID], "web_search_options": {}}
    async with relayed(tmp_path, ANTHROPIC, compat=compat) as (one, upstream):
        status, _ = await one.post(CHAT, body)
        assert (status, upstream.requests) == (400, [])


async def test_from_messages_to_chat(tmp_path: Path) -> None:
    body = {
        "model": "openai/m",
        "max_tokens": 9,
        "top_k": 4,
        "context_management": {"edits": []},
        "messages": [{"role": "user", "content": "go"}],
    }
    compat = {"drop": ["top_k", "context_management"]}
    async with relayed(tmp_path, OPENAI, compat=compat) as (one, upstream):
        status, _ = await one.post(MESSAGES, body)
        assert status == 200
        assert "top_k" not in upstream.requests[0]


@pytest.mark.parametrize("name", ["messages", "tools", "model", "max_tokens", "input", ""])
def test_what_a_request_is_made_of_cannot_be_dropped(name: str) -> None:
    with pytest.raises(ValidationError):
        CompatSettings.model_validate({"drop": (name,)})
