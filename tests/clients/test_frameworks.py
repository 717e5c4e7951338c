"""Those who stand on the vendors' SDKs: all stories of a client in one run of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.clients.conftest import STORIES, between, run, unchanged
from tests.clients.install import PYTHON
from tests.clients.test_sdks import EXPECTED, OSLO, SCRIPTS
from tests.clients.upstream import Answer, Call, Say

CLIENTS = [
    ("python_agents", "chat"),
    ("python_agents", "responses"),
    ("python_pydantic", "chat"),
    ("python_pydantic", "responses"),
    ("python_pydantic", "messages"),
    ("python_litellm", "chat"),
    ("python_litellm", "responses"),
    ("python_litellm", "messages"),
]
TOLD = ("plain", "streamed", "tools", "parallel", "schema", "error", "denied")
CASES = [
    (*client, story)
    for client in CLIENTS
    for story in TOLD
    # It knows by its name whether a model of Anthropic takes a schema.
    if (*client, story) != ("python_pydantic", "messages", "schema")
]
DENIED: tuple[Answer, ...] = ([Call("secret", OSLO)], [Say("I may not look.")])
ANSWERS: Mapping[str, tuple[Answer, ...]] = {**SCRIPTS, "denied": DENIED}
SAID = {**EXPECTED, "denied": {"text": "I may not look."}}


def by_model() -> Callable[[Mapping[str, Any]], Answer]:
    """Return a script that tells the story which the model is called like."""
    asked: Counter[str] = Counter()

    def script(body: Mapping[str, Any]) -> Answer:
        story = str(body["model"])
        asked[story] += 1
        return ANSWERS[story][asked[story] - 1]

    return script


@dataclass
class Told:
    """What a client has said of its stories, and what was sent: as it came, and as it went on."""

    said: Mapping[str, Any]
    came: Mapping[str, list[Any]]
    went: Mapping[str, list[Any]]


_runs: dict[tuple[str, str], Told] = {}


async def told(program: str, wire: str, home: Path) -> Told:
    """Run a client, unless it has run already."""
    if (program, wire) in _runs:
        return _runs[program, wire]
    plugin = {"policy": {"deny": ["secret"]}}
    async with between(home, by_model(), plugin=plugin) as there:
        stories = [story for name, other, story in CASES if (name, other) == (program, wire)]
        words = [str(STORIES / f"{program}.py"), there.url, there.key, wire, wire, *stories]
        out, err = await run([str(PYTHON), *words])
        if not out.strip():
            _runs[program, wire] = Told({}, {}, {})
        assert out.strip(), err[-3000:]
        came: dict[str, list[Any]] = {}
        went: dict[str, list[Any]] = {}
        for one in there.sent:
            if one.method == "POST":
                came.setdefault(one.json["model"].partition("/")[2], []).append(one.json)
        for one in there.upstream.sent:
            went.setdefault(one.json["model"], []).append(one.json)
    _runs[program, wire] = Told(json.loads(out.splitlines()[-1]), came, went)
    return _runs[program, wire]


@pytest.mark.parametrize(("program", "wire", "story"), CASES)
async def test_a_story(
    program: str, wire: str, story: str, tmp_path: Path, record_property: Any
) -> None:
    one = await told(program, wire, tmp_path)
    expected, said = SAID[story], one.said[story]
    assert {name: said[name] for name in expected} == expected, said
    assert ("calls" in said) == (story in ("tools", "parallel"))
    if story == "error":
        assert "nothing" not in one.went
        return
    came, went = one.came[story], one.went[story]
    if story == "denied":
        assert "denied" in str(went[1])
        came, went = came[:1], went[:1]
    assert len(came) == len(went)
    for sent, passed in zip(came, went, strict=True):
        assert unchanged(sent, passed) == {}
    record_property("compared", len(came))
