from __future__ import annotations

import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.memory.facts.telling import (
    ME,
    NOON,
    facts,
    known,
    opened,
    rows,
    shown,
    stories,
    told,
    utterance,
)
from tests.support.examples import sampled

from hookgate.builtin_plugins.memory.facts import grammar
from hookgate.builtin_plugins.memory.facts.extractor import MAX_CLAIMS, extract
from hookgate.builtin_plugins.memory.facts.grammar import (
    EXPRESSIONS,
    Pattern,
    patterns,
    vocabulary,
)
from hookgate.builtin_plugins.memory.facts.times import find_time

BEFORE = {"lives in": "I live in", "works at": "I work at", "partner": "I'm dating"}


def test_every_expression_compiles() -> None:
    rows = tomllib.loads(Path(grammar.__file__).with_name("grammar.toml").read_text("utf-8"))
    names = [*rows["folded"], *rows["exact"]]
    assert len(names) == len(set(names))
    assert all(EXPRESSIONS[name].pattern for name in names)


@pytest.mark.parametrize("pattern", sampled(patterns()), ids=lambda pattern: pattern.name)
def test_a_pattern_finds_its_example(pattern: Pattern) -> None:
    text, _, wanted = pattern.finds.partition(" => ")
    with opened() as connection:
        if wanted.startswith("ended: "):
            wanted = wanted.removeprefix("ended: ").strip(" |")
            relation, _, value = wanted.removeprefix("user | ").partition(" | ")
            before = f"{BEFORE[relation]} {value or 'Acme'}."
            facts().learn([utterance(before, 1)], connection)
            assert [shown(row) for row in known(connection, NOON)] != []
            facts().learn([utterance(text, 2)], connection)
            assert known(connection, NOON.replace(hour=13)) == []
            return
        if "is the" in text:
            facts().learn([utterance("My dog is called Luna.", 1)], connection)
        facts().learn([utterance(text, 2)], connection)
        found = [shown(row).casefold().strip() for row in rows(connection)]
    assert wanted.casefold().strip() in found


@pytest.mark.parametrize("pattern", sampled(patterns()), ids=lambda pattern: pattern.name)
def test_a_pattern_misses_what_it_must_not_find(pattern: Pattern) -> None:
    with opened() as connection:
        facts().learn([utterance(pattern.misses)], connection)
        assert [shown(row) for row in rows(connection)] == []


def test_every_pattern_names_relations_that_there_are() -> None:
    known_names = vocabulary().relations
    names = {name for one in patterns() for name in (one.relation, one.denied, one.also) if name}

    assert {name for name in names if name not in known_names and name[0] != "@"} == set()
    assert len({one.name for one in patterns()}) == len(patterns())


@pytest.mark.parametrize(
    ("text", "found", "ahead"),
    [
        ("since last May", "since 2023-05", False),
        ("two years ago", "at 2022", False),
        ("next Friday", "at 2024-05-17", True),
        ("in June", "at 2023-06", False),
        ("in June", "at 2024-06", True),
        ("on the 3rd of July", "at 2024-07-03", True),
        ("for three years", "for 2021", False),
        ("until 2020", "until 2020", False),
        ("from 2010 to 2015", "between 2010", False),
        ("yesterday", "at 2024-05-14", False),
        ("in a couple of weeks", "at 2024-05-29", True),
        ("last Tuesday", "at 2024-05-14", False),
        ("on February 31st", "", False),
        ("I may go", "", False),
        ("after the fall", "", False),
    ],
)
def test_times_are_read_by_the_time_of_the_message(text: str, found: str, ahead: bool) -> None:
    when = find_time(text, NOON, ahead=ahead)
    assert (f"{when.kind} {when.words}" if when else "") == found


WORDS = tuple(
    "I my dog is called not no Luna in May since 2019 and , . live moved to from a the like "  # noqa: SIM905
    "have got named 's her name for years two ago never at work as am married ? actually used "
    "sorry \" ' ( ) ; : - because if she it said with Tom don't I'm".split()
)


@given(st.text(max_size=400))
def test_any_text_is_read(text: str) -> None:
    assert len(extract(text, NOON)) <= MAX_CLAIMS


@given(st.lists(st.sampled_from(WORDS), max_size=80))
def test_any_words_are_read_and_learned(words: list[str]) -> None:
    text = " ".join(words)
    with opened() as connection:
        facts().learn([utterance(text, 1), utterance(text, 2)], connection)
        assert all(len(row.value) <= 100 and row.text for row in rows(connection))


@pytest.mark.parametrize(
    "part",
    ["a", "My ", "my dog ", "I like it ", "I live in Rome, ", '"', "'", "`", "no, ", "\n", "A. "],
)
def test_long_texts_cost_no_more_than_their_length(part: str) -> None:
    text = (part * 60_000)[:50_000]
    taken = []
    for _ in range(3):
        began = time.thread_time()
        extract(text, NOON)
        extract(text[:2_900], NOON)
        taken.append(time.thread_time() - began)

    assert min(taken) < 0.05


def test_a_turn_costs_less_than_a_millisecond() -> None:
    texts = [one.text for story in stories("stories.toml") for one in told(story.said)]
    taken = []
    for text in texts * 2:
        began = time.thread_time()
        extract(text, NOON)
        taken.append(time.thread_time() - began)

    assert sorted(taken)[len(taken) // 2] <= 0.001


def test_a_secret_is_kept_nowhere() -> None:
    memory = facts(redact=lambda text: text.replace("hunter2", "***"))
    with opened() as connection:
        memory.learn([utterance("I live in Rome and my dog is called hunter2.")], connection)
        assert rows(connection, ME) == []


def test_what_no_database_takes_teaches_nothing() -> None:
    with opened() as connection:
        facts().learn([utterance("I live in Rome\0."), utterance("I live in \ud800.")], connection)
        assert rows(connection) == []
