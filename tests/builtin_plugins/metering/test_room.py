"""What is reserved for a call fits it: budgets are used to their end, and output not past it."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks.metering.room import NEEDED, QUICK, Run, measured
from tests.builtin_plugins.metering.support import rows_of
from tests.support.script import Events

from hookgate.builtin_plugins import BUILTIN
from hookgate.core.domain.models import ModelRequest, StopEvent, TextDelta, Usage, UsageEvent
from hookgate.core.domain.turn import Address
from hookgate.kit.testing.gateway import started
from hookgate.kit.testing.model import ScriptedModel
from hookgate.kit.tokens.sizes import typical_of_text
from hookgate.ports import STORE

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from hookgate.gateway import Gateway

BARE = [name for name in BUILTIN if name not in NEEDED]
WORDS = "the plan for tomorrow is to look at the logs of both machines and to compare them "


def honest(request: ModelRequest, written: int) -> list[Any]:
    """Return an answer of so many tokens, or as many as it may have, billed as real ones are."""
    texts = [piece.text for piece in request.system]
    texts += [message.text for message in request.messages]
    read = sum(4 + typical_of_text(text) for text in texts)
    out = min(written, request.max_output_tokens)
    text = (WORDS * (1 + out // 16))[: 4 * out]
    stop = "end" if out == written else "max_tokens"
    return [
        TextDelta(text),
        UsageEvent(Usage(input_tokens=read, output_tokens=out)),
        StopEvent(stop),
    ]


def bare(home: Path, model: ScriptedModel, **metering: Any) -> AbstractAsyncContextManager[Gateway]:
    """Run a gateway in which nothing stands beside the message."""
    agents = {"main": {"model": "script/dear", "fallback": ["script/cheap"]}}
    return started(
        home=home,
        model=model,
        disabled=BARE,
        agents=agents,
        context={"history_turns": 0},
        plugin={"metering": metering, "embedding": {"embedder": "none"}},
    )


def session(tokens: int, **more: Any) -> dict[str, Any]:
    return {"budgets": {"small": {"scope": "session", "tokens": tokens, **more}}}


@pytest.mark.parametrize("run", QUICK, ids=lambda run: f"{run.tokenizer}-{run.load}")
async def test_nine_tenths_of_a_limit_can_be_used_before_a_refusal(run: Run) -> None:
    found = await measured(run)
    assert found.usable >= 0.9
    assert found.share >= 0.9 or not found.small
    assert found.past == 0


async def test_fourth_question_of_a_small_budget_is_answered(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: honest(request, 60))
    async with bare(tmp_path, model, **session(3_000)) as running:
        endings = [(await running.chat(WORDS * 12)).ending for _ in range(9)]
    assert endings == ["done"] * 9


async def test_output_is_cut_to_what_is_left_and_the_client_is_told(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: honest(request, 700))
    events, last = Events(), Events()
    async with bare(tmp_path, model, **session(2_600)) as running:
        for _ in range(3):
            await running.chat("hello there", sink=events)
        fourth = await running.chat("hello there", sink=last)
        used = sum(
            sum(event["input_tokens"] + event["output_tokens"] for event in events.of("usage"))
            for events in (events, last)
        )
        fifth = await running.chat("hello there")
    assert not events.of("output_limited")
    (told,) = last.of("output_limited")
    assert told["wanted"] == 1024
    assert told["max_output_tokens"] == model.requests[-1].max_output_tokens < 1024
    assert (told["why"], told["model"]) == ("budget", "script/dear")
    (warning,) = last.of("warning")
    # Nobody is told to raise a limit that is not the one that was met.
    assert (warning["code"], warning["action"]) == ("answer_cut", "ask it to go on")
    assert 2_400 <= used <= 2_600
    assert (fourth.ending, fifth.ending) == ("done", "refused")
    assert "this call needs up to 1," in str(fifth.error)


@pytest.mark.parametrize("seed", range(3))
async def test_output_never_goes_past_a_limit_whoever_calls_at_once(
    seed: int, tmp_path: Path
) -> None:
    """Each answer is as long as it may be, which is the worst that a provider may do."""
    random, billed = Random(seed), 0

    def greedy(request: ModelRequest) -> list[Any]:
        nonlocal billed
        step = honest(request, 10**6)
        billed += next(event.usage.total for event in step if isinstance(event, UsageEvent))
        return [lambda: asyncio.sleep(random.random() / 100), *step]

    limit = random.randint(8_000, 20_000)
    budgets = {"day": {"tokens": limit}, "money": {"usd": "0.5"}}
    prices = {"script/*": {"input": 10, "output": 30}}
    async with bare(tmp_path, ScriptedModel(greedy), budgets=budgets, prices=prices) as running:
        turns = await asyncio.gather(
            *(
                running.chat(WORDS * random.randint(1, 20), address=Address("cli", "local", str(n)))
                for n in range(40)
            )
        )
    assert billed <= limit
    assert billed * 10 <= 500_000
    assert {turn.ending for turn in turns} == {"done", "refused"}


async def test_fallback_does_not_fall_while_there_is_room_for_a_usual_answer(
    tmp_path: Path,
) -> None:
    model = ScriptedModel(lambda request: honest(request, 60))
    budgets = {"small": {"usd": "0.01", "over": "fallback"}}
    prices = {"script/dear": {"input": 3, "output": 15}, "script/cheap": {"input": 0, "output": 0}}
    async with bare(tmp_path, model, budgets=budgets, prices=prices) as running:
        for _ in range(8):
            await running.chat("hello there")
    asked = [request.model.model for request in model.requests]
    # A call costs $.001, and $.016 if it wrote all that it might.
    assert asked.count("dear") >= 5
    assert asked[0] == "dear"
    assert asked[-1] == "cheap"


async def test_limit_of_a_minute_cuts_no_answer_that_fits_the_next_one(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: honest(request, 700))
    async with bare(tmp_path, model, limits={"calm": {"tokens": 2_000}}) as running:
        first = await running.chat("hello there")
        second = await running.chat("hello there")
        third = await running.chat("hello there")
    assert (first.ending, second.ending, third.ending) == ("done", "done", "refused")
    assert third.error is not None
    assert third.error.code == "rate_limited"
    assert {request.max_output_tokens for request in model.requests} == {1024}


async def test_answer_without_figures_is_counted_as_the_models_other_bills(
    tmp_path: Path,
) -> None:
    words = "Υπάρχει ένα σχέδιο για αύριο. " * 40
    dear = [
        TextDelta("fine"),
        UsageEvent(Usage(input_tokens=1_100, output_tokens=2)),
        StopEvent("end"),
    ]
    model = ScriptedModel(*[dear] * 8, [TextDelta("fine"), StopEvent("end")])
    async with bare(tmp_path, model, **session(100_000)) as running:
        for _ in range(8):
            await running.chat(words)
        await running.chat(words)
        rows = await rows_of(running.host[STORE])
    last = max(rows, key=lambda row: row["seq"])
    assert not last["reported"]
    assert abs(last["input_tokens"] - 1_100) < 60
