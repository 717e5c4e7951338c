"""Keys on the vendors' wires: what a client reads of its limits, and of a key that is none."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.keys.conftest import BUILTIN, Named, keyed, new
from tests.support.script import Scripted, say
from tests.support.wire import Served, bearer

ALL = (*BUILTIN, "compat")
PATHS = ("/v1/chat/completions", "/v1/messages")


def models() -> Scripted:
    return Scripted(Named(*(say("well said") for _ in range(9))))


async def asked(served: Served, path: str, key: str, model: str = "script/one") -> Any:
    """Ask a model; return status, headers and body."""
    body = {
        "model": model,
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "hi"}],
    }
    async with served.http.post(served.url + path, json=body, **bearer(key)) as answer:
        return answer.status, answer.headers, await answer.json()


async def test_a_client_reads_what_is_left_of_its_rates_as_its_vendor_says_it(
    tmp_path: Path,
) -> None:
    async with keyed(tmp_path, models(), builtin=ALL) as served:
        key = await new(served, name="ci", rpm=2)
        free = await new(served, name="free")
        status, headers, _ = await asked(served, PATHS[0], key)
        assert status == 200
        assert headers["x-ratelimit-limit-requests"] == "2"
        assert headers["x-ratelimit-remaining-requests"] in ("1", "2")
        assert headers["x-ratelimit-reset-requests"].endswith("s")
        assert "x-ratelimit-limit-tokens" not in headers
        status, headers, _ = await asked(served, PATHS[1], key)
        assert (status, headers["anthropic-ratelimit-requests-limit"]) == (200, "2")
        assert datetime.fromisoformat(headers["anthropic-ratelimit-requests-reset"])
        status, headers, answer = await asked(served, PATHS[0], key)
        assert (status, headers["x-should-retry"]) == (429, "false")
        assert "rate limit" in answer["error"]["message"]
        for path in PATHS:
            status, headers, _ = await asked(served, path, free)
            assert status == 200
            assert not [name for name in headers if "ratelimit" in name.lower()]


@pytest.mark.parametrize("path", PATHS)
async def test_an_unknown_key_is_told_the_command_in_the_shape_of_the_vendor(
    path: str, tmp_path: Path
) -> None:
    async with keyed(tmp_path, models(), builtin=ALL) as served:
        for key in ("hgk_nobody", "sk-ant-nobody"):
            status, headers, answer = await asked(served, path, key)
            assert (status, headers["x-should-retry"]) == (401, "false")
            assert answer["error"]["type"] == "authentication_error"
            assert "hookgate keys new" in answer["error"]["message"]


async def test_a_key_asks_in_its_modes_alone(tmp_path: Path) -> None:
    async with keyed(tmp_path, models(), builtin=ALL) as served:
        guard = await new(served, name="guard", modes=["guard", "agent"])
        agent = await new(served, name="agent", modes=["agent"])
        for path in PATHS:
            assert (await asked(served, path, guard))[0] == 200
            status, _, answer = await asked(served, path, agent)
            assert (status, "mode 'guard'" in answer["error"]["message"]) == (403, True)


async def test_a_key_lists_and_asks_its_models_alone(tmp_path: Path) -> None:
    async with keyed(tmp_path, models(), builtin=ALL) as served:
        key = await new(served, name="ci", models=["script/one"])
        status, found = await served.get("/v1/models", **bearer(key))
        assert (status, [one["id"] for one in found["data"]]) == (
            200,
            ["agent/main", "script/one"],
        )
        for path in PATHS:
            assert (await asked(served, path, key))[0] == 200
            assert (await asked(served, path, key, "script/two"))[0] in (403, 404)
