"""The content of `capabilities/`: all of it is right, and works with the builtin tools."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.discovery.short_messages import HELD_OUT, LANGUAGES, TUNED, messages, translated

from hookgate.builtin_plugins.discovery.sources.folders import Root, scan, shipped_folder
from hookgate.builtin_plugins.discovery.sources.manifests import DeclaredCapability
from hookgate.core.domain.descriptors import Card
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway
from hookgate.kit.vectors import small_talk

SHIPPED = scan([Root(path=shipped_folder(), origin="hookgate", expected=True)])
SKILLS = [one for one in SHIPPED.declared if one.row.kind == "skill"]
TOOLS = [one for one in SHIPPED.declared if one.row.kind != "skill"]

CHARACTERS = 4000
"""Half of what tier 2 has room for, so that two skills fit."""


def gateway(home: Path) -> Gateway:
    """Return a gateway in which every builtin tool has its grant."""
    granted = {"http_get": ["https://example.org/*"], "read_roots": [str(home)]}
    return Gateway(Settings(home=home, plugin={"tools": granted}))


def body(declared: DeclaredCapability) -> str:
    assert declared.row.load is not None
    return declared.row.load().content


def test_nothing_is_wrong_with_what_comes_with_hookgate() -> None:
    assert [str(problem) for problem in SHIPPED.problems] == []


async def test_every_builtin_tool_and_channel_has_a_manifest_and_no_other_has_one(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path) as gate:
        there = {f"tool:{name}" for name in gate.host.tools.view()}
        there |= {f"channel:{name}" for name in gate.host.channels}
    described = {one.row.id for one in TOOLS}
    assert {"tool:clock", "tool:http_get", "tool:read_file"} <= there
    assert described == there


async def test_every_tool_that_is_required_exists(tmp_path: Path) -> None:
    async with gateway(tmp_path) as gate:
        known = set(gate.host.tools.view())
    wanted = {tool for one in SHIPPED.declared for tool in one.row.required_tools}
    assert {"clock", "calculate", "http_get", "read_file", "remember"} <= wanted
    assert wanted <= known


def test_there_are_skills_that_need_no_grant_and_no_secret() -> None:
    free = {"clock", "calculate", "remember", "recall"}
    assert len([one for one in SKILLS if set(one.row.required_tools) <= free]) >= 12
    assert [one.row.id for one in SHIPPED.declared if one.row.required_secrets] == []


def test_each_brings_examples_of_its_own_and_none_is_small_talk() -> None:
    counts = {one.row.id: len(one.row.examples) for one in SHIPPED.declared}
    assert {id_: count for id_, count in counts.items() if not 5 <= count <= 8} == {}
    said = [text.casefold() for one in SHIPPED.declared for text in one.row.examples]
    assert len(set(said)) == len(said)
    assert set(said).isdisjoint(line.casefold() for line in small_talk())


def test_no_short_message_that_is_measured_is_an_example_or_known_as_small_talk() -> None:
    known = {text for one in SHIPPED.declared for text in one.row.examples} | {*small_talk()}
    known |= {one.text for one in messages(TUNED)}
    held_out = messages(HELD_OUT)
    sets = translated()
    assert {language: len(every) for language, every in sets.items()} == dict.fromkeys(
        LANGUAGES, 40
    )
    assert known.isdisjoint(one.text for every in (held_out, *sets.values()) for one in every)
    assert sum(bool(one.wanted) for one in held_out) == len(held_out) / 2 == 60
    names = {one.row.name for one in SHIPPED.declared}
    assert all(one.wanted <= names for one in (*held_out, *messages(TUNED)))


@pytest.mark.parametrize("skill", SKILLS, ids=lambda one: one.row.name)
def test_a_skill_says_how_what_and_when(skill: DeclaredCapability) -> None:
    row, text = skill.row, body(skill)
    lines = [line for line in text.splitlines() if line.strip()]
    assert row.category
    assert len(row.tags) >= 4
    assert "Use for" in row.description
    assert text.startswith("# ")
    assert "## Pitfalls" in text
    assert 10 <= len(lines) <= 40
    assert len(text) <= CHARACTERS


@pytest.mark.slow
async def test_the_sanitizers_take_nothing_away(tmp_path: Path) -> None:
    async with gateway(tmp_path) as gate:
        for one in SHIPPED.declared:
            for text in (one.row.description, body(one)):
                assert await gate.host.sanitize(Card(id=one.row.id, text=text)) == Card(
                    id=one.row.id, text=text
                )
