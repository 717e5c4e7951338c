"""The example policies: each can be read, and does with its cases what these expect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hookgate.builtin_plugins.policy.bench.bench import Bench
from hookgate.builtin_plugins.policy.bench.cases import Case, read_cases, run_case
from hookgate.builtin_plugins.policy.rules.files import files_of, read_rules
from hookgate.builtin_plugins.policy.settings import PolicySettings

FOLDER = Path(__file__).parents[2] / "examples" / "policies"
POLICIES = files_of([FOLDER])
CASES = [
    (policy, case)
    for policy in POLICIES
    for case in read_cases([policy.with_suffix(".test.yaml")]).found
]


def named(item: object) -> str:
    return item.stem if isinstance(item, Path) else getattr(item, "name", "")


@pytest.mark.parametrize("policy", POLICIES, ids=named)
def test_a_policy_and_its_cases_read_without_a_problem(policy: Path) -> None:
    reading = read_rules([policy])
    cases = read_cases([policy.with_suffix(".test.yaml")])

    assert list(map(str, (*reading.problems, *cases.problems))) == []
    assert reading.found
    assert cases.found


def test_all_policies_together_have_no_two_rules_of_one_name() -> None:
    assert not read_rules([FOLDER]).problems


@pytest.mark.parametrize("policy", POLICIES, ids=named)
def test_every_enforced_rule_decides_one_of_its_cases(policy: Path) -> None:
    expected = {case.rule.removeprefix("rule:") for owner, case in CASES if owner == policy}
    deciding = {
        rule.name
        for rule in read_rules([policy]).found
        if rule.mode == "enforce" and rule.effect != "rewrite"
    }

    assert deciding <= expected


@pytest.mark.parametrize(("policy", "case"), CASES, ids=named)
def test_case_ends_as_expected(policy: Path, case: Case) -> None:
    bench = Bench(PolicySettings(), read_rules([policy]).found)

    assert run_case(bench, case).wrong == ()


def test_the_page_lists_every_policy() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    linked = re.findall(r"\(([a-z-]+\.yaml)\)", page)

    assert linked == [policy.name for policy in POLICIES]
