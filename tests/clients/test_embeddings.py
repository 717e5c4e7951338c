"""Vectors for the vendor's SDK, unmodified."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.clients.conftest import STORIES, between, run
from tests.clients.install import PYTHON
from tests.clients.upstream import answers


@pytest.mark.parametrize("story", ["python_embeddings"])
async def test_the_sdk_gets_vectors_in_both_forms(story: str, tmp_path: Path) -> None:
    async with between(tmp_path, answers()) as there:
        program = str(STORIES / f"{story}.py")
        out, err = await run([str(PYTHON), program, there.url, there.key, "chat/big"])
        assert out, err
        said = json.loads(out)
        assert said["float"] == said["packed"] == [[1.0, 0.5], [3.0, 0.5]]
        assert (said["model"], said["tokens"]) == ("chat/big", 7)
        assert [one.json["model"] for one in there.upstream.sent] == ["big", "big"]
        assert all("sk-upstream" in one.headers["Authorization"] for one in there.upstream.sent)
