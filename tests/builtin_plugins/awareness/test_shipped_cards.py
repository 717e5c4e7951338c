"""The cards and reference pages that come with hookgate: short, true, and found."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hookgate import hookspecs
from hookgate.builtin_plugins import BUILTIN
from hookgate.builtin_plugins.awareness.cards.folders import parse_card, shipped_cards
from hookgate.builtin_plugins.awareness.cards.listing import shipped_reference
from hookgate.builtin_plugins.awareness.selection.router import TagRouter, default_tags
from hookgate.builtin_plugins.awareness.selection.selector import (
    CardMatcher,
    CardQuestion,
    cap_of,
    fit,
    order,
    tokens_of,
)
from hookgate.builtin_plugins.awareness.settings import AwarenessSettings
from hookgate.builtin_plugins.sanitizer.detector import inspect
from hookgate.builtin_plugins.sanitizer.sanitizer import clean
from hookgate.cli.app import app
from hookgate.core.domain.descriptors import Card
from hookgate.core.plugins.manager import Plugins
from hookgate.core.settings.schema import Settings

BEYOND = {"configuration", "deployment", "debugging"}
"""Cards about the gateway as a whole."""

PAGES = (
    "architecture", "cards", "configuration", "discovery",
    "hooks", "memory", "operations-and-cli", "policy",
)  # fmt: skip


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.md") if path.name != "README.md")


READ = {
    path: parse_card(path.read_text("utf-8"), path.name, origin="repo", trusted=True)
    for path in files(shipped_cards())
}
CARDS = {read.one.id: read.one for read in READ.values() if read.one is not None}
TEXTS = {
    **{f"cards/{card.id}": card.text for card in CARDS.values()},
    **{f"reference/{path.stem}": path.read_text("utf-8") for path in files(shipped_reference())},
}


def each(items: dict[str, Card]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("card", items.values(), ids=items)


def test_nothing_is_wrong_with_the_cards() -> None:
    problems = [str(problem) for read in READ.values() for problem in read.problems]
    assert problems == []
    assert len(CARDS) == len(READ)


def test_every_builtin_plugin_has_a_card() -> None:
    # What `control` brings, the cards on configuration, deployment and debugging speak of.
    assert CARDS.keys() - BEYOND >= {*BUILTIN} - {"control"}
    assert CARDS.keys() - BEYOND <= {*BUILTIN, "telemetry"}


@each(CARDS)
def test_a_card_is_short_and_shown_whole(card: Card) -> None:
    assert 200 <= len(card.text) <= 800
    assert len(card.text) <= cap_of(card)
    assert 20 <= len(card.description) <= 100
    assert card.name


@each(CARDS)
def test_a_card_is_named_as_its_file_and_is_for_people(card: Card) -> None:
    assert card.source_ref == f"{card.id}.md"
    assert card.triggers.session_types == ("main",)


@each(CARDS)
def test_a_card_has_a_tag_that_is_found(card: Card) -> None:
    (tag,) = card.triggers.router_tags
    assert tag in default_tags() or tag.startswith("gateway-")
    assert tag in TagRouter({}, CARDS.values()).tags


@each({name: card for name, card in CARDS.items() if card.triggers.keywords})
def test_each_keyword_alone_shows_its_card_and_no_other(card: Card) -> None:
    matcher = CardMatcher(CARDS)
    for keyword in card.triggers.keywords:
        judged = matcher.judge(
            CardQuestion(
                message=f"well, {keyword}", tags=frozenset(), session_type="main", point="bootstrap"
            )
        )
        assert [one.card.id for one in judged if one.chosen] == [card.id], keyword


def test_every_shipped_tag_shows_a_card() -> None:
    assert {tag for card in CARDS.values() for tag in card.triggers.router_tags} >= set(
        default_tags()
    )


@pytest.mark.parametrize(
    "tags", [*((tag,) for tag in default_tags()), tuple(default_tags())], ids="-".join
)
def test_what_tags_show_stays_within_the_budget(tags: tuple[str, ...]) -> None:
    judged = CardMatcher(CARDS).judge(
        CardQuestion(message="hello", tags=frozenset(tags), session_type="main", point="mid")
    )
    decisions = fit(order(judged), AwarenessSettings().budget)
    shown = [one for one in decisions if one.judged.chosen]
    assert shown
    assert sum(one.tokens for one in shown) <= 1500
    if len(tags) == 1:
        assert [one for one in judged if one.chosen] == [one.judged for one in shown]


@pytest.mark.parametrize(
    "message",
    ["thanks!", "what is 17*23?", "write a poem about tea", "the tools in my garage are rusty"],
)
def test_everyday_messages_show_nothing(message: str) -> None:
    judged = CardMatcher(CARDS).judge(
        CardQuestion(
            message=message,
            tags=TagRouter({}, CARDS.values()).words(message),
            session_type="main",
            point="bootstrap",
        )
    )
    assert [one.card.id for one in judged if one.chosen] == []


def test_asking_to_remember_something_shows_the_card_of_memory_alone() -> None:
    message = "remember that I like tea"
    judged = CardMatcher(CARDS).judge(
        CardQuestion(
            message=message,
            tags=TagRouter({}, CARDS.values()).words(message),
            session_type="main",
            point="bootstrap",
        )
    )
    assert [one.card.id for one in judged if one.chosen] == ["memory"]


# -- reference -----------------------------------------------------------------------


def test_there_are_the_pages_that_cards_name() -> None:
    pages = {path.stem: path for path in files(shipped_reference())}
    assert set(pages) == set(PAGES)
    assert all(1000 <= path.stat().st_size <= 6000 for path in pages.values())
    named = {
        name
        for card in CARDS.values()
        for name in re.findall(r"`read_reference`\s+with\s+(?:the\s+name\s+)?`([\w-]+)`", card.text)
    }
    assert named
    assert named <= set(pages)


@pytest.mark.parametrize("name", TEXTS)
def test_the_sanitizers_find_nothing(name: str) -> None:
    assert inspect(TEXTS[name]) == ()
    assert clean(TEXTS[name]) == TEXTS[name]


# -- what they name is there ---------------------------------------------------------


def commands(text: str) -> list[list[str]]:
    inline = re.findall(r"`(hookgate [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    fenced = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    blocks = re.findall(r"^(hookgate .+)$", fenced, re.MULTILINE)
    # What is in square brackets may be left out.
    shown = [re.sub(r"\[[^\]]*\]|\.\.\.", "", " ".join(one.split())) for one in inline + blocks]
    return [shlex.split(one, comments=True)[1:] for one in shown]


NAMED = sorted({tuple(words) for text in TEXTS.values() for words in commands(text)})
# A command that is the beginning of the next one is looked at with it.
COMMANDS = [
    words
    for words, longer in zip(NAMED, [*NAMED[1:], ()], strict=True)
    if longer[: len(words)] != words
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_is_known_with_its_options(words: tuple[str, ...], runner: CliRunner) -> None:
    # Everything is parsed before `--help` is answered. A number stands for N.
    given = ["7300" if word == "N" else word for word in words]
    done = runner.invoke(app, [*given, "--help"])
    assert done.exit_code == 0, done.output


def settings_in(text: str) -> list[str]:
    fenced = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    indented = re.findall(r"(?:^ {4}.*\n(?:\n(?= {4}))?)+", text + "\n", re.MULTILINE)
    return fenced + [re.sub("^ {4}", "", one, flags=re.MULTILINE) for one in indented]


SETTINGS = [(name, block) for name, text in TEXTS.items() for block in settings_in(text)
            if block.lstrip().startswith("[") and "class " not in block]  # fmt: skip


@pytest.mark.parametrize(("name", "block"), SETTINGS, ids=[name for name, _ in SETTINGS])
def test_settings_are_valid(
    name: str, block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    data = tomllib.loads(block)
    for agent in data.get("agents", {}).values():
        agent.setdefault("model", "demo/demo")
    if data.get("gateway", {}).get("host"):
        data["gateway"]["tokens"] = {"laptop": {"digest": "0" * 64}}
    if data.get("plugin", {}).get("telemetry"):
        data["plugin"]["telemetry"].pop("otel", None)
    settings = Settings.model_validate({**data, "home": tmp_path / "home"})
    assert {info.name for info in Plugins.load(settings, builtin=BUILTIN).infos()} >= set(BUILTIN)


def example(page: str, language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", TEXTS[f"reference/{page}"], re.DOTALL)
    return str(found)


def test_the_card_in_the_reference_can_be_read() -> None:
    read = parse_card(
        example("cards", "markdown"), "a.md", origin="user", trusted=False, strict=True
    )
    assert read.one is not None
    assert [problem.expected for problem in read.problems] == ["200 to 800 characters"]


def test_the_plugin_in_the_reference_is_accepted() -> None:
    names: dict[str, Any] = {"__name__": "example"}
    exec(example("hooks", "python"), names)
    settings = Settings.model_validate({"plugins": {"entry_points": False}})
    plugins = Plugins.load(settings, builtin=(), extra=[names["Plugin"]])
    assert [info.hooks for info in plugins.infos()] == [("before_tool_call",)]


def test_the_reference_names_every_hook() -> None:
    named = set(re.findall(r"`(\w+)`", TEXTS["reference/hooks"].split("A small plugin")[0]))
    assert named >= {
        name for name in vars(hookspecs) if hasattr(vars(hookspecs)[name], "__contract__")
    }


def test_the_reference_names_every_builtin_plugin() -> None:
    assert all(f"`{name}`" in TEXTS["reference/architecture"] for name in BUILTIN)


def test_there_are_commands_and_settings_to_look_at() -> None:
    assert len(COMMANDS) > 30
    assert len(SETTINGS) > 8
    # On the average: there is a card for each plugin.
    assert tokens_of("".join(card.text for card in CARDS.values())) < 170 * len(CARDS)
