"""mypy knows the arguments and the results of every hook."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.types import checked

HEAD = """
from hookgate import hookspecs
from hookgate.core.domain.descriptors import Card, Rejected
from hookgate.core.hooks.caller import Hooks
from hookgate.core.domain.models import ModelRequest
from hookgate.core.domain.turn import Turn, TurnPlan

async def calls(
    hooks: Hooks, turn: Turn, plan: TurnPlan, card: Card, request: ModelRequest
) -> None:
"""
RIGHT = """
    refusals = await hooks.each(hookspecs.before_model_call, turn, request)
    reveal_type(refusals)  #: list[~models.Refusal]
    reveal_type(await hooks.each(hookspecs.tag_turn, turn=turn))  #: list[typing.Collection[str]]
    reveal_type(await hooks.fold(hookspecs.plan_turn, turn, plan))  #: ~turn.TurnPlan
    end: Card | Rejected = await hooks.fold(hookspecs.sanitize_card, card)
    reveal_type(await hooks.first(hookspecs.judge_turn, turn))  #: ~turn.Outcome | None
    for answer in await hooks.each_by_plugin(hookspecs.before_model_call, turn, request):
        reveal_type(answer.value)  #: ~models.Refusal | None
"""
WRONG = """
    await hooks.each(hookspecs.before_turn, tunr=turn)  #: call-arg
    await hooks.each(hookspecs.before_turn)  #: call-arg
    await hooks.each(hookspecs.before_turn, turn, plan)  #: call-arg
    await hooks.each(hookspecs.before_turn, plan)  #: arg-type
    await hooks.first(hookspecs.judge_turn, trun=turn)  #: call-arg
    await hooks.fold(hookspecs.plan_turn, turn, paln=plan)  #: call-arg
    await hooks.fold(hookspecs.plan_turn, plan, turn)  #: arg-type
    await hooks.each_by_plugin(hookspecs.before_turn, tunr=turn)  #: call-arg
    await hooks.notify(hookspecs.hook_failed, failuer=turn)  #: call-arg
    await hooks.notify(hookspecs.before_turn, turn)  #: arg-type
"""


@pytest.mark.slow
def test_mypy_knows_results_and_refuses_misspelt_arguments(tmp_path: Path) -> None:
    source = HEAD + RIGHT + WRONG
    snippet = tmp_path / "snippet.py"
    snippet.write_text(source)
    done = checked([snippet])
    out, errors = done.stdout, done.stderr
    found: dict[int, set[str]] = {}
    for line, text in re.findall(r"snippet\.py:(\d+): (?:error|note): (.*)", out):
        found.setdefault(int(line), set()).add(text)
    for number, line in enumerate(source.splitlines(), 1):
        code, _, expected = line.partition("#: ")
        told = " ".join(found.pop(number, ()))
        if "reveal_type" in code:
            full = expected.replace("~", "hookgate.core.domain.")
            assert told == f'Revealed type is "{full}"', (line, out, errors)
        elif expected:
            assert f"[{expected}]" in told, (line, out, errors)
        else:
            assert told == "", (line, out, errors)
