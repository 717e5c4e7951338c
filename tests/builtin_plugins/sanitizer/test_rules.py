"""Each rule of ``rules.toml`` finds what it says, passes what it says, and takes linear time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hookgate.builtin_plugins.sanitizer.detector import inspect
from hookgate.builtin_plugins.sanitizer.rules import (
    REACH,
    RuleError,
    SanitizerRule,
    found,
    read,
    rules,
)
from hookgate.builtin_plugins.sanitizer.text import fold

NAMES = [rule.name for rule in rules()]


def named(text: str) -> set[str]:
    return {rule.name for rule, places in found(fold(text).text) if any(places)}


@pytest.mark.parametrize("rule", rules(), ids=NAMES)
def test_a_rule_finds_its_example_and_passes_what_comes_close(rule: SanitizerRule) -> None:
    assert rule.name in named(rule.finds)
    assert rule.name not in named(rule.passes)


@pytest.mark.parametrize("rule", rules(), ids=NAMES)
def test_what_a_rule_finds_is_a_finding_with_its_place_and_reason(rule: SanitizerRule) -> None:
    before = "Read this first.\n\n"
    (one, *_) = [each for each in inspect(before + rule.finds) if each.rule == rule.name]
    assert (one.severity, one.note) == (rule.severity, rule.why)
    assert len(before) <= one.start < one.end <= len(before + rule.finds)


@pytest.mark.parametrize("rule", rules(), ids=NAMES)
def test_an_example_is_found_wherever_hints_stand_around_it(rule: SanitizerRule) -> None:
    crowd = f"{rule.hint[0]} and more. " * 40
    for apart in (0, REACH - 5, REACH + 5):
        assert rule.name in named(f"{crowd}{' ' * apart}\n{rule.finds}\n{crowd}")


@pytest.mark.parametrize("rule", rules(), ids=NAMES)
def test_a_rule_takes_time_that_grows_with_the_length_and_no_faster(rule: SanitizerRule) -> None:
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


GOOD = {
    "name": '"x"',
    "severity": '"high"',
    "why": '"is x"',
    "hint": '["xyz"]',
    "pattern": "'''xyz[0-9]'''",
    "finds": '"An xyz7."',
    "passes": '"An xyz."',
}


def written(folder: Path, **keys: str | None) -> Path:
    """Write a file of one rule, with other values of some keys, and without those that are None."""
    path = folder / "rules.toml"
    lines = [f"{key} = {value}" for key, value in (GOOD | keys).items() if value is not None]
    path.write_text("\n".join(["[[rules]]", *lines, ""]), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"why": None}, r"rule 'x': found no `why`, expected what it does, for people"),
        ({"name": None}, r"rule 1: found no `name`, expected what a finding is called"),
        ({"hint": '"xyz"'}, r"found 'xyz' as `hint`, expected words of which one stands"),
        ({"hint": "[]"}, r"found \[\] as `hint`"),
        ({"severity": '"grave"'}, r"found the severity 'grave', expected high .* or medium"),
        ({"severity": '"low"'}, r"found the severity 'low'"),
        ({"pattern": "'''xyz[0-9'''"}, r"a pattern that cannot be read .*unterminated"),
        ({"pattern": '"xyz\\d"'}, r"found no TOML .* three single quotes"),
        ({"reason": '"x"'}, r"found `reason`, expected name, severity, why"),
        ({"finds": '"An xyz."'}, r"did not find the pattern in `finds`, expected it there"),
        ({"finds": '"An XYZ7."', "pattern": "'''XYZ[0-9]'''"}, r"did not find the pattern"),
        ({"hint": '["other"]'}, r"did not find any `hint`, so that the pattern is not tried"),
        ({"passes": '"An xyz8."'}, r"found its pattern in `passes`, expected it to pass; narrow"),
    ],
)
def test_a_rule_that_is_wrong_is_named_with_what_to_do(
    tmp_path: Path, keys: dict[str, str | None], told: str
) -> None:
    path = written(tmp_path, **keys)
    with pytest.raises(RuleError, match=told) as raised:
        read(path)
    assert str(raised.value).startswith(f"{path}: ")


def test_two_rules_of_one_name_are_told(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text() * 2)
    with pytest.raises(RuleError, match="rule 'x': found it twice"):
        read(path)
