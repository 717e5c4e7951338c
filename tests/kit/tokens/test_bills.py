"""Reported usage that cannot be true is a fault of the provider, and what can be true is none."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.providers.requests_made import request, user
from tests.support.script import Script, Scripted, gateway

from hookgate import BILLS, Host, ModelRequest, SystemText, Turn, hookimpl
from hookgate.core.domain.models import Ending, StopEvent, TextDelta, Usage, UsageEvent
from hookgate.kit.tokens.bills import UsageBills, Wording, _least_output, least_input
from hookgate.kit.tokens.sizes import Sizes, typical_of_text

RECORDED = json.loads(
    (Path(__file__).parents[3] / "benchmarks" / "metering" / "counted.json").read_text("utf-8")
)
TEXTS = RECORDED["texts"]
PROSE = " ".join(one["text"] for one in TEXTS if one["kind"] == "english")
ANY = st.text(st.characters(exclude_categories=[]))


class Billing:
    name = "billing"

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        host.provide(BILLS, UsageBills(host))
        yield


class Seen:
    name = "seen"

    def __init__(self) -> None:
        self.calls: list[tuple[ModelRequest, Ending, Usage | None]] = []

    @hookimpl
    def after_model_call(
        self, turn: Turn, request: ModelRequest, ending: Ending, usage: Usage | None
    ) -> None:
        self.calls.append((request, ending, usage))


async def told(message: str, answer: str, usage: Usage, **stop: Any) -> tuple[Usage, str, Ending]:
    """Return what a call counts as of which a provider says `usage`, and what is announced."""
    seen, pieces = Seen(), [TextDelta(f" {piece}") for piece in answer.split(" ")]
    script = Script([*pieces, UsageEvent(usage), StopEvent("end", **stop)])
    async with gateway(Billing, Scripted(script), seen) as gate:
        turn = await gate.chat(message)
        notice = gate.host.notices.get("usage of provider script", "")
    ((_, ending, settled),) = seen.calls
    assert settled == turn.usage
    return turn.usage, notice, ending


async def test_no_input_at_all_is_never_believed() -> None:
    usage, notice, _ = await told("hi", "fine", Usage(input_tokens=0, output_tokens=1))
    assert usage.total_input > 0
    assert not usage.reported
    assert "0 tokens of input" in notice


async def test_zeros_for_a_long_prompt_are_counted_here() -> None:
    usage, notice, _ = await told(PROSE, PROSE, Usage())
    for counted in (usage.total_input, usage.total_output):
        assert counted >= typical_of_text(PROSE)
    assert not usage.reported
    assert "of input for" in notice
    assert "of output for" in notice


async def test_one_token_a_chunk_without_a_total_is_no_total() -> None:
    sound = Usage(input_tokens=typical_of_text(PROSE), output_tokens=1)
    usage, notice, _ = await told(PROSE, PROSE, sound)
    assert usage.total_input == sound.input_tokens
    assert usage.total_output >= typical_of_text(PROSE)
    assert not usage.reported
    assert "1 tokens of output" in notice


@pytest.mark.parametrize("side", ["input_tokens", "output_tokens"])
async def test_a_billion_is_not_charged(side: str) -> None:
    lie = {"input_tokens": 20, "output_tokens": 1, side: 999_999_999}
    usage, notice, _ = await told("hi", "fine", Usage(**lie))
    assert usage.total < 8_000
    assert usage.total_output <= 1024
    assert not usage.reported
    assert "999,999,999" in notice


async def test_thoughts_that_nobody_was_shown_are_believed_beyond_the_limit() -> None:
    honest = Usage(input_tokens=20, output_tokens=1, reasoning_tokens=9_000)
    usage, notice, _ = await told("hi", "fine", honest)
    assert (usage, notice) == (honest, "")


async def test_an_answer_past_its_limit_is_believed_where_it_was_said() -> None:
    honest = Usage(input_tokens=20, output_tokens=3_000)
    usage, notice, _ = await told("hi", PROSE * 6, honest)
    assert (usage, notice) == (honest, "")


async def test_trimmed_requests_may_be_billed_for_less() -> None:
    async with gateway(
        Billing,
        Scripted(Script([TextDelta("ok"), UsageEvent(Usage(input_tokens=9)), StopEvent("end")])),
        agents={"main": {"model": "script/m", "options": {"truncation": "auto"}}},
    ) as gate:
        turn = await gate.chat(PROSE)
    assert turn.usage == Usage(input_tokens=9)


@pytest.mark.parametrize("place", range(len(RECORDED["tokenizers"])))
def test_what_real_tokenizers_bill_is_always_believed(place: int) -> None:
    for one in TEXTS:
        text, tokens = one["text"] * 20, one["tokens"][place] * 20
        made = request(user(text), system=(SystemText(text=text),))
        assert least_input(made, 0) <= 2 * tokens, one["kind"]
        assert _least_output(Wording(text, ""), 0) <= tokens, one["kind"]


async def test_stream_without_its_own_end_counts_as_cut_and_its_answer_stands() -> None:
    seen = Seen()
    script = Script([TextDelta("fine"), StopEvent("end", marked=False)])
    async with gateway(Scripted(script), seen) as gate:
        turn = await gate.chat("hi")
    ((_, ending, _),) = seen.calls
    assert (turn.ending, turn.answer) == ("done", "fine")
    assert (ending.status, ending.stop) == ("cut", "end")


@pytest.mark.parametrize(("billed", "told"), [(60, False), (90_000, True)])
async def test_bill_above_the_bound_is_told(billed: int, told: bool) -> None:
    usage = Usage(input_tokens=billed, output_tokens=1)
    script = Script([TextDelta("ok"), UsageEvent(usage), StopEvent("end")])
    async with gateway(Billing, Scripted(script)) as gate:
        turn = await gate.chat("hi")
        assert turn.usage.input_tokens == billed
        notice = gate.host.notices.get("bound of provider script", "")
    assert ("billed 90,000 tokens" in notice) == told


# -- sizes ---------------------------------------------------------------------------


@given(ANY)
def test_every_byte_of_a_text_is_of_one_kind(text: str) -> None:
    sizes = Sizes()
    sizes.add_text(text)
    sizes.add_json(text)
    assert sizes.most == 2 * len(text.encode("utf-8", "surrogatepass"))
    assert min(sizes.counts) >= 0


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("abc de\n", "letters"),
        ("ABC", "capitals"),
        ("0123", "digits"),
        ("+={}", "marks"),
        ("äöüñ", "accents"),
        ("привет", "cyrillic"),
        ("γειάשלוםمرحبا", "alphabets"),
        ("नमस्तेสวัสดี", "abugidas"),
        ("你好かな", "cjk"),
        ("안녕", "hangul"),
        ("“—”🎉", "symbols"),
    ],
)
def test_writing_is_told_by_the_first_byte_of_a_character(text: str, kind: str) -> None:
    sizes, expected = Sizes(), Sizes()
    sizes.add_text(text)
    expected.add(kind, len(text.encode()))
    assert sizes.counts == expected.counts


def test_estimates_are_nearer_than_four_characters_a_token() -> None:
    """Over all recorded texts and tokenizers, and in each writing beyond Latin by itself."""
    errors: dict[str, list[tuple[float, float]]] = {}
    for one in TEXTS:
        for tokens in one["tokens"]:
            pair = [
                abs(guess / tokens - 1)
                for guess in (len(one["text"]) / 4, typical_of_text(one["text"]))
            ]
            errors.setdefault(one["kind"], []).append((pair[0], pair[1]))

    def mean(pairs: list[tuple[float, float]], place: int) -> float:
        return sum(pair[place] for pair in pairs) / len(pairs)

    whole = [pair for pairs in errors.values() for pair in pairs]
    assert mean(whole, 1) < 0.3 < mean(whole, 0)
    for kind in ("chinese", "japanese", "korean", "tamil", "greek", "arabic", "base64", "emoji"):
        assert mean(errors[kind], 1) < mean(errors[kind], 0), kind
