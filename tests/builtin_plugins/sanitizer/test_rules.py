"""Each rule of ``rules.toml`` finds what it says, passes what it says, and takes linear time."""

from __future__ import annotations

import time

import pytest

from hookgate.builtin_plugins.sanitizer.detector import inspect
from hookgate.builtin_plugins.sanitizer.normalise import fold
from hookgate.builtin_plugins.sanitizer.rules import REACH, Rule, found, rules

NAMES = [rule.name for rule in rules()]


def named(text: str) -> set[str]:
    return {rule.name for rule, places in found(fold(text).text) if any(places)}


@pytest.mark.parametrize("rule", rules(), ids=NAMES)
def test_a_rule_finds_its_example_and_passes_what_comes_close(rule: Rule) -> None:
    assert rule.name in named(rule.finds)
    assert rule.name not in named(rule.passes)


@pytest.mark.parametrize("rule", rules(), ids=NAMES)
def test_what_a_rule_finds_is_a_finding_with_its_place_and_reason(rule: Rule) -> None:
    before = "Read this first.\n\n"
    (one, *_) = [each for each in inspect(before + rule.finds) if each.rule == rule.name]
    assert (one.severity, one.note) == (rule.severity, rule.why)
    assert len(before) <= one.start < one.end <= len(before + rule.finds)


@pytest.mark.parametrize("rule", rules(), ids=NAMES)
def test_an_example_is_found_wherever_hints_stand_around_it(rule: Rule) -> None:
    crowd = f"{rule.hint[0]} and more. " * 40
    for apart in (0, REACH - 5, REACH + 5):
        assert rule.name in named(f"{crowd}{' ' * apart}\n{rule.finds}\n{crowd}")


@pytest.mark.parametrize("rule", rules(), ids=NAMES)
def test_a_rule_takes_time_that_grows_with_the_length_and_no_faster(rule: Rule) -> None:
    for piece in (
        rule.finds,
        rule.finds[:-1],
        rule.hint[0],
        f"{rule.hint[0]} ",
        f"{rule.hint[0]}/",
    ):
        text = (piece * (50_000 // len(piece) + 1))[:50_000]
        begun = time.thread_time()
        for _, places in found(text):
            list(places)
        assert time.thread_time() - begun < 2.0


def test_names_are_given_once() -> None:
    assert len(set(NAMES)) == len(NAMES)
