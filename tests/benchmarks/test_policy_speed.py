from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.policy import speed as policy_speed

from hookgate.builtin_plugins.policy.judge.judging import Judge
from hookgate.builtin_plugins.policy.settings import PolicySettings
from hookgate.core.domain.tools import Effect, ToolCall


@pytest.mark.parametrize("name", list(policy_speed.SORTS))
def test_no_rule_of_a_sort_stops_the_call(name: str) -> None:
    engine = policy_speed.rule_engine(policy_speed.SORTS[name])
    tool = policy_speed.some_tool()
    call = ToolCall(id="c", tool=tool, arguments=policy_speed.some_arguments(1))
    history = policy_speed.some_history()

    verdict, ruled = Judge(PolicySettings(), engine).judge(
        policy_speed.some_turn(tool), call, history, float(policy_speed.REMEMBERED)
    )

    assert (verdict.effect, ruled.shadow) == (Effect.ALLOW, ())
    if name.startswith("100"):
        assert len(engine.rules) == policy_speed.RULES


def test_each_sort_is_timed_by_itself_and_on_the_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_speed, "SORTS", {"no rules": (), "1 flag rule": ()})

    times = policy_speed.measure(tmp_path, 2, 5, None)

    assert [len(one) for rounds in times.values() for one in rounds] == [5] * 8
    names = [figure.name for figure in policy_speed.figures_of(times)]
    assert "judge, no rules, p50" in names
    assert "path, 1 flag rule, p99" in names


def test_a_share_is_that_of_the_best_round() -> None:
    rounds = [[9000, 1000, 5000], [4000, 3000, 2000]]
    assert policy_speed.at(rounds, 0.5) == 3.0
    assert policy_speed.at(rounds, 0.99) == 4.0
