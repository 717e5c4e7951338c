"""The vendor's SDK, unmodified, on paths beside those of answers: vectors, and kept responses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.clients.conftest import STORIES, Between, between, run
from tests.clients.install import PYTHON
from tests.clients.upstream import Say, answers


async def said(program: str, model: str, there: Between) -> Any:
    out, err = await run([str(PYTHON), str(STORIES / program), there.url, there.key, model])
    assert out, err
    return json.loads(out)


@pytest.mark.parametrize("story", ["python_embeddings"])
async def test_the_sdk_gets_vectors_in_both_forms(story: str, tmp_path: Path) -> None:
    async with between(tmp_path, answers()) as there:
        found = await said(f"{story}.py", "chat/big", there)
        assert found["float"] == found["packed"] == [[1.0, 0.5], [3.0, 0.5]]
        assert (found["model"], found["tokens"]) == ("chat/big", 7)
        assert [one.json["model"] for one in there.upstream.sent] == ["big", "big"]
        assert all("sk-upstream" in one.headers["Authorization"] for one in there.upstream.sent)


@pytest.mark.parametrize("model", ["responses/big", "chat/big"])
@pytest.mark.parametrize("story", ["python_kept"])
async def test_the_sdk_asks_for_responses_again(story: str, model: str, tmp_path: Path) -> None:
    script = answers([Say("one")], [Say("two")], [Say("three")])
    async with between(tmp_path, script) as there:
        assert await said(f"{story}.py", model, there) == {
            "same": True,
            "texts": ["one", "two", "three"],
            "previous": True,
            "items": ["user", "assistant", "user"],
            "begun": "queued",
            "ended": "completed",
            "background": True,
            "gone": "NotFoundError",
        }
        sent = [one.json for one in there.upstream.sent if one.method == "POST"]
        own = ("previous_response_id", "background")
        assert [name for body in sent for name in own if name in body] == []
        assert len(sent[1].get("input") or sent[1]["messages"]) == 3
