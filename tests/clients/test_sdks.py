"""The vendors' SDKs and those who stand on them, unmodified: twelve stories on each wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.clients.conftest import between, told, unchanged
from tests.clients.upstream import Answer, Call, Fault, Say, Think, answers

OSLO = {"place": "Oslo"}
WEATHER = Call("weather", OSLO)
COLD: Answer = [Say("It is cold.")]
CALLED = {"calls": [["weather", OSLO]], "text": "It is cold."}

SCRIPTS: dict[str, tuple[Answer, ...]] = {
    "plain": ([Say("Cold.")],),
    "streamed": ([Say("Cold and wet.")],),
    "tools": ([WEATHER], COLD),
    "parallel": ([Say("I look."), WEATHER, Call("clock", OSLO)], COLD),
    "forced": ([WEATHER], COLD),
    "picture": ([Say("A dot.")],),
    "schema": ([Say('{"city": "Oslo"}')],),
    "thinking": ([Think("Hm."), WEATHER], COLD),
    "caching": (COLD,),
    "error": (COLD,),
    "cancel": ([Say("Cold and wet.")],),
}
EXPECTED: dict[str, dict[str, Any]] = {
    "plain": {"text": "Cold."},
    "streamed": {"text": "Cold and wet."},
    "tools": CALLED,
    "parallel": {**CALLED, "calls": [["weather", OSLO], ["clock", OSLO]]},
    "forced": CALLED,
    "picture": {"text": "A dot."},
    "schema": {"value": {"city": "Oslo"}},
    "thinking": {**CALLED, "thoughts": ["c2lnbmVk"]},
    "caching": {"cached": 19_000},
    "error": {"error": "NotFoundError", "status": 404},
}
ALL = tuple(SCRIPTS)
CASES = [
    *[("python_openai", "chat", story) for story in ALL if story != "thinking"],
    *[("python_openai", "responses", story) for story in ALL],
    *[("python_anthropic", "messages", story) for story in ALL],
    *[
        (program, wire, story)
        for program, wire in (
            ("node_openai", "chat"),
            ("node_openai", "responses"),
            ("node_anthropic", "messages"),
        )
        for story in ("plain", "streamed", "tools", "parallel", "error", "cancel")
    ],
    *[
        ("node_ai", wire, story)
        for wire in ("chat", "responses", "messages")
        for story in ("plain", "streamed", "tools", "parallel")
    ],
]


@pytest.mark.parametrize(("program", "wire", "story"), CASES)
async def test_a_story(
    program: str, wire: str, story: str, tmp_path: Path, record_property: Any
) -> None:
    async with between(tmp_path, answers(*SCRIPTS[story])) as there:
        said = await told(program, wire, story, there)
        if story == "cancel":
            assert "Cold and wet.".startswith(said["text"])
            return
        expected = EXPECTED[story]
        assert {name: said[name] for name in expected} == expected, said
        passed = [one for one in there.upstream.sent if one.method == "POST"]
        assert len(passed) == (0 if story == "error" else len(SCRIPTS[story]))
        for came, went in zip(there.sent, passed, strict=False):
            assert unchanged(came.json, went.json) == {}
        record_property("compared", len(passed))


DENIED = {"policy": {"deny": ["weather"]}}


@pytest.mark.parametrize(
    ("program", "wire"),
    [("python_openai", "chat"), ("python_openai", "responses"), ("python_anthropic", "messages")],
)
async def test_a_denied_call_is_never_seen(program: str, wire: str, tmp_path: Path) -> None:
    script = answers([WEATHER], [Say("I may not look.")])
    async with between(tmp_path, script, plugin=DENIED) as there:
        said = await told(program, wire, "denied", there)
        assert said["text"] == "I may not look."
        assert "calls" not in said
        again = str(there.upstream.sent[1].json)
        assert "denied" in again


@pytest.mark.parametrize(
    ("program", "wire", "kind"),
    [
        ("python_openai", "chat", "RateLimitError"),
        ("python_openai", "responses", "RateLimitError"),
        ("python_anthropic", "messages", "RateLimitError"),
    ],
)
async def test_an_upstream_that_fails_is_told_by_its_class(
    program: str, wire: str, kind: str, tmp_path: Path
) -> None:
    full = Fault(429, {"error": {"type": "rate_limit_error", "message": "slow down"}})
    async with between(tmp_path, answers(*[full] * 9)) as there:
        said = await told(program, wire, "plain", there)
        assert (said["error"], said["status"]) == (kind, 429)
