from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.cli.conftest import FEW, CommandLine, Served
from tests.support.examples import sampled

# Words alone find what these ask for; the model would take seconds to load.
WORDS_ALONE = '[plugins]\ndisable = ["embedding"]\n'

SKILL = """---
name: github
description: Work with GitHub issues and pull requests from the command line.
metadata:
  requires-tools: calculate
---
# GitHub

Use `gh issue list`.
"""


@pytest.fixture
def builtin_plugins() -> tuple[str, ...]:
    return (*FEW, "discovery")


@pytest.fixture
def discover(hookgate: CommandLine) -> CommandLine:
    hookgate.config(WORDS_ALONE)
    folder = hookgate.home / ".hookgate" / "capabilities" / "github"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    return hookgate


def found(data: Any) -> list[str]:
    return [row["id"] for row in data["found"]]


def test_what_a_message_finds_is_shown_and_why(discover: CommandLine) -> None:
    ran = discover("discover", "list the open GitHub issues")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].split() == ["capability", "relevance", "why"]
    assert lines[1].split()[0] == "skill:github"
    assert "holds" in lines[1]
    assert "issu" in lines[1]
    assert any("tool:calculate" in line and "needed by skill:github" in line for line in lines)
    assert "tier 0" not in ran.out


def test_explained_search_shows_scores_by_part_tiers_and_times(discover: CommandLine) -> None:
    ran = discover("discover", "list the open GitHub issues", "--explain")
    assert ran.code == 0
    assert ran.out.splitlines()[0].split() == [
        "capability",
        "relevance",
        "dense",
        "lexical",
        "graph",
        "why",
    ]
    for said in (
        "tier 0, the map of categories: ",
        "tier 1, summaries: ",
        "tier 2, full details: ",
        "1. github (skill)",
        "- calculate (tool), needed by github",
        "gh issue list",
        "tokens in all. Searched by words alone.",
        "Milliseconds: index ",
    ):
        assert said in ran.out


def test_json_holds_all_that_is_known(discover: CommandLine) -> None:
    data = discover("discover", "list the open GitHub issues", "--json").json
    assert found(data)[0] == "skill:github"
    first = data["found"][0]
    assert 0 < first["lexical"] <= 1
    assert 0.45 <= first["relevance"] <= 1
    assert first["available"] is True
    assert "issu" in first["words"]
    (pulled,) = [row for row in data["found"] if row["id"] == "tool:calculate"]
    assert (pulled["pulled_by"], pulled["edge"]) == ("skill:github", "DEPENDS_ON")
    assert data["tokens"] == sum(tier["tokens"] for tier in data["tiers"])
    assert len(data["tiers"]) == 3
    assert data["vectors"] is False
    assert set(data["milliseconds"]) == {"index", "embed", "search", "graph", "tiers"}


def test_off_topic_text_finds_nothing_and_says_so(discover: CommandLine) -> None:
    ran = discover("discover", "xyzzy plugh", "--explain")
    assert ran.code == 0
    assert ran.out.startswith("Nothing fits: no tier 1 and no tier 2")
    assert "tier 1, summaries: 0 tokens" in ran.out
    assert "tier 2, full details: 0 tokens" in ran.out
    data = discover("discover", "xyzzy plugh", "--json").json
    assert found(data) == []
    assert [tier["tokens"] for tier in data["tiers"][1:]] == [0, 0]


@pytest.mark.slow
def test_search_can_be_narrowed(discover: CommandLine) -> None:
    words = ("discover", "GitHub issues, convert a unit, calculate", "--json")
    every = found(discover(*words).json)
    skills = found(discover(*words, "--kind", "skill").json)
    assert {one.split(":")[0] for one in every} > {"skill"}
    assert {one.split(":")[0] for one in skills} == {"skill"}
    assert len(found(discover(*words, "--kind", "skill", "--limit", "1").json)) == 1
    assert found(discover(*words, "--floor", "1").json) == []
    assert found(discover(*words, "--category", "nowhere").json) == []
    assert "skill:github" in found(discover(*words, "--available").json)


@pytest.mark.parametrize(
    ("words", "said"),
    sampled(
        [
            (("mail", "--kind", "toll"), "toll"),
            (("mail", "--kind", "card"), "card"),
            (("mail", "--limit", "0"), "limit"),
            (("mail", "--limit", "many"), "--limit"),
            (("mail", "--floor", "7"), "floor"),
            (("",), "query"),
            (("x" * 20_001,), "query"),
            ((), "query"),
        ],
        every=3,
    ),
)
def test_what_cannot_be_meant_is_refused_with_its_name(
    discover: CommandLine, words: tuple[str, ...], said: str
) -> None:
    ran = discover("discover", *words)
    assert ran.code != 0
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_without_the_plugin_it_is_said_what_is_missing(hookgate: CommandLine) -> None:
    ran = hookgate("discover", "mail", HOOKGATE_PLUGINS__DISABLE='["discovery", "embedding"]')
    assert ran.code == 1
    assert "discovery" in ran.err
    assert "Traceback" not in ran.err


def test_markup_and_escapes_in_a_message_are_shown_as_they_are(discover: CommandLine) -> None:
    ran = discover("discover", "[bold]GitHub[/bold] \x1b[31missues\x1b[0m [/]", "--explain")
    assert ran.code == 0
    assert "skill:github" in ran.out
    assert "\x1b" not in ran.out


def test_gateway_that_runs_is_asked(discover: CommandLine, serve: Callable[[], Served]) -> None:
    served = serve()
    data = discover("discover", "list the open GitHub issues", "--json").json
    assert found(data)[0] == "skill:github"
    assert data["index_version"] > 0
    stats = discover("capabilities", "stats", "--json").json
    assert stats["capabilities"] > 20
    assert stats["index_version"] == data["index_version"]
    assert stats["graph_nodes"] == stats["capabilities"]
    assert served.gateway.host is not None
