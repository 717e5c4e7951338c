"""What calls cost: exactly, by the settings or the library, and never nothing in silence."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.kit.test_usage import READINGS

from hookgate import ModelRef, Usage
from hookgate.builtin_plugins.metering.prices import PICO, Library, Prices, Rate, Tariff
from hookgate.builtin_plugins.metering.settings import Price
from hookgate.kit.usage import (
    StreamedUsage,
    anthropic_messages,
    gemini_content,
    openai_chat,
    openai_responses,
)

ROOT = Path(__file__).parents[3]
AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
WORST = Price(input=Decimal(20), output=Decimal(100))
KINDS = Usage.COUNTS


def price(**dollars: str) -> Price:
    return Price.model_validate(dollars)


async def tariff(model: str, at: datetime = AT, **overrides: Price) -> Tariff:
    prices = Prices({name.replace("__", "/"): one for name, one in overrides.items()}, WORST)
    await prices.load()
    return prices.of(ModelRef.parse(model), at)


def dollars(cost: int) -> Decimal:
    return Decimal(cost) / PICO


# -- an answer, its counts, and what they cost -----------------------------------------

GPT_5 = price(input="1.25", cache_read="0.125", output="10")
SONNET = price(input="3", cache_read="0.3", cache_write="3.75", cache_write_hour="6", output="15")
AUDIO = price(input="2.5", audio_input="32", output="10", audio_output="64")
REALTIME = price(input="4", cache_read="0.4", audio_input="32", output="16")
FLASH = price(input="0.3", cache_read="0.03", audio_input="1", output="2.5", image_output="30")
COSTS = [
    # 86 x 1.25 + 1,920 x 0.125 + 300 x 10
    ("chat: cached and reasoning tokens are parts, not more", GPT_5, "0.0033475"),
    # 904 x 3 + 1,024 x 0.3 + 3,072 x 3.75 + 10 x 15
    ("chat: what was written to the cache is a part of the prompt", SONNET, "0.0146892"),
    # 50 x 2.5 + 100 x 32 + 30 x 10 + 180 x 64
    ("chat: audio in the prompt and in the answer", AUDIO, "0.015145"),
    # 26 x 4 + 64 x 0.4 + 60 x 32
    ("chat: cached audio is counted once", REALTIME, "0.0020496"),
    # 72 x 1.25 + 256 x 0.125 + 1,052 x 10
    ("responses", GPT_5, "0.010642"),
    # 50 x 3 + 100,000 x 0.3 + 248 x 3.75 + 503 x 15
    ("anthropic: the cache stands beside the input", SONNET, "0.038625"),
    # 2,048 x 3 + 1,800 x 0.3 + 148 x 3.75 + 100 x 6 + 503 x 15
    ("anthropic: writes for five minutes and for an hour", SONNET, "0.015384"),
    # 10 x 3 + 700 x 15
    ("anthropic: thinking is a part of the output", SONNET, "0.01053"),
    # 203,000 x 3 + 4,500 x 15
    ("anthropic: a compaction is left out of the figures above it", SONNET, "0.6765"),
    # 21 x 0.3 + 69 x 2.5
    ("gemini: thoughts stand beside the candidates", FLASH, "0.0001788"),
    # 255 x 0.3 + 800 x 0.03 + 12 x 2.5
    (
        "gemini: cached content is a part of the prompt, what tools brought in is not",
        FLASH,
        "0.0001305",
    ),
    # 400 x 0.3 + 500 x 0.03 + 100 x 1 + 10 x 2.5 + 1,290 x 30
    ("gemini: modalities, some of them cached", FLASH, "0.03896"),
    # 20 x 0.3 + 996 x 2.5
    ("gemini's compatible answers: thoughts stand in the total alone", FLASH, "0.002496"),
    # 26 x 3 + 6 x 0.75 + 103 x 15
    (
        "xai: thoughts beside the completion",
        price(input="3", cache_read="0.75", output="15"),
        "0.0016275",
    ),
    # 104 x 0.28 + 896 x 0.028 + 50 x 0.42
    (
        "deepseek: hits and misses are the prompt",
        price(input="0.28", cache_read="0.028", output="0.42"),
        "0.000075208",
    ),
    # 94 x 3 + 100 x 3.75 + 2 x 15
    ("openrouter", SONNET, "0.000687"),
    # 400 x 2 + 33 x 6: what was cached costs as input where nobody says otherwise
    ("mistral", price(input="2", output="6"), "0.000998"),
    # 9 x 0.1 + 18 x 0.2
    ("vllm", price(input="0.1", output="0.2"), "0.0000045"),
    ("ollama, its own", price(input="0", output="0"), "0"),
    # 237 x 1 + 35 x 2
    ("llama.cpp: timings", price(input="1", output="2"), "0.000307"),
]


@pytest.mark.parametrize(("case", "prices", "expected"), COSTS, ids=[case for case, *_ in COSTS])
async def test_an_answer_costs_exactly_what_its_parts_cost(
    case: str, prices: Price, expected: str
) -> None:
    read, found, _ = READINGS[case]
    known = await tariff("mine/model", mine__model=prices)
    assert dollars(known.cost(read(found))) == Decimal(expected)


DEEPSEEK = price(input="0.28", cache_read="0.028", output="0.42")
PAGE = [
    (openai_chat, GPT_5),
    (openai_responses, GPT_5),
    (anthropic_messages, SONNET),
    (gemini_content, FLASH),
    (openai_chat, FLASH),
    (openai_chat, DEEPSEEK),
]
"""Whose the examples of the page are, in order."""


async def test_the_examples_of_the_page_cost_what_it_says() -> None:
    text = (ROOT / "docs" / "plugins" / "metering.md").read_text(encoding="utf-8")
    examples = re.findall(r"```json\n(.*?)```(.*?)(?=```json|\Z)", text, re.DOTALL)
    assert len(examples) == len(PAGE)
    for (found, said), (read, prices) in zip(examples, PAGE, strict=True):
        known = await tariff("mine/model", mine__model=prices)
        cost = dollars(known.cost(read(json.loads(found)))).normalize()
        assert f"${cost:f}" in said, cost


async def test_streams_cost_what_their_last_figures_cost() -> None:
    """Usage that comes twice, cumulatively, or in a start and a delta."""
    chat = StreamedUsage(openai_chat, "completion_tokens")
    for completion in (0, 150, 300, 300):
        chat.take(
            {
                "prompt_tokens": 2006,
                "completion_tokens": completion,
                "prompt_tokens_details": {"cached_tokens": 1920},
            }
        )
    messages = StreamedUsage(anthropic_messages, "output_tokens")
    messages.take({"input_tokens": 50, "cache_read_input_tokens": 100_000, "output_tokens": 3})
    messages.take({"input_tokens": 50, "cache_read_input_tokens": 100_000, "output_tokens": 503})
    gpt, claude = await tariff("a/b", a__b=GPT_5), await tariff("a/b", a__b=SONNET)
    first, second = chat.news(done=True), messages.news(done=True)
    assert first is not None
    assert second is not None
    # 86 x 1.25 + 1,920 x 0.125 + 300 x 10
    assert dollars(gpt.cost(first)) == Decimal("0.0033475")
    # 50 x 3 + 100,000 x 0.3 + 503 x 15
    assert dollars(claude.cost(second)) == Decimal("0.037695")


async def test_long_input_costs_what_the_library_says() -> None:
    sonnet = await tariff("anthropic/claude-sonnet-4-5-20250929")
    short = Usage(input_tokens=50, cache_read_tokens=199_950, output_tokens=100)
    long = Usage(input_tokens=51, cache_read_tokens=199_950, output_tokens=100)
    # 50 x 3 + 199,950 x 0.3 + 100 x 15
    assert dollars(sonnet.cost(short)) == Decimal("0.061635")
    # All of it costs more: 51 x 6 + 199,950 x 0.6 + 100 x 22.5
    assert dollars(sonnet.cost(long)) == Decimal("0.122526")


async def test_what_caching_saved() -> None:
    known = await tariff("a/b", a__b=SONNET)
    # 1,000 x (3 - 0.3)
    assert dollars(known.saved(Usage(input_tokens=5, cache_read_tokens=1000))) == Decimal("0.0027")
    # 1,000 x (3 - 3.75) + 1,000 x (3 - 6)
    written = Usage(cache_write_tokens=1000, cache_write_hour_tokens=1000)
    assert dollars(known.saved(written)) == Decimal("-0.00375")
    assert known.saved(Usage(input_tokens=1000, output_tokens=1000)) == 0


# -- which prices ----------------------------------------------------------------------


async def test_the_library_knows_a_model_by_the_providers_name() -> None:
    for name in ("openai/gpt-4o", "OpenAI/gpt-4o"):
        known = await tariff(name)
        assert (known.known, known.free) == (True, False)
        assert known.version.startswith("genai-prices ")
        assert known.rates["cache_read_tokens"] == Rate(Decimal("1.25"))
    assert (
        await tariff("gemini/gemini-2.5-flash")
    ).source == "genai-prices google/gemini-2.5-flash"


async def test_some_calls_cost_a_fee_whatever_their_length() -> None:
    sonar = await tariff("perplexity/sonar")
    # 12 / 1,000 + 10 x 1 + 5 x 1 millionths
    assert dollars(sonar.cost(Usage(input_tokens=10, output_tokens=5))) == Decimal("0.012015")
    assert sonar.worst(10, 5) == sonar.cost(Usage(input_tokens=10, output_tokens=5))
    mine = await tariff("a/b", a__b=price(input="0", output="0", fee="0.25"))
    assert dollars(mine.cost(Usage(input_tokens=10))) == Decimal("0.25")
    assert not mine.free
    changed = await tariff("perplexity/sonar", perplexity__sonar=price(fee="0.001"))
    assert dollars(changed.cost(Usage(input_tokens=10))) == Decimal("0.00101")


@pytest.mark.parametrize("name", ["acme/gpt-4o", "openai/never-heard-of", "ollama/llama3.3"])
async def test_an_unknown_model_is_flagged_and_costs_the_worst(name: str) -> None:
    unknown = await tariff(name)
    assert (unknown.known, unknown.free, unknown.version) == (False, False, "unknown")
    assert dollars(unknown.cost(Usage(input_tokens=10, output_tokens=1))) == Decimal("0.0003")
    assert unknown.worst(10, 1) == unknown.cost(Usage(cache_read_tokens=10, output_tokens=1))


async def test_a_model_whose_tokens_have_no_price_in_the_library_is_unknown() -> None:
    assert not (await tariff("github-copilot/gpt-4o")).known
    assert not (await tariff("openai/text-embedding-3-small")).known


async def test_what_a_provider_gives_away_is_free() -> None:
    assert (await tariff("openrouter/qwen/qwq-32b:free")).free
    assert (await tariff("demo/echo")).free
    assert not (await tariff("demo/echo", demo__echo=GPT_5)).free


async def test_the_settings_name_a_provider_of_the_library() -> None:
    mine = await tariff("mine/gpt-4o", **{"mine/*": price(**{"as": "openai"})})
    assert mine.rates == (await tariff("openai/gpt-4o")).rates
    assert mine.version.startswith("settings ")
    assert " on genai-prices " in mine.version
    other = await tariff("mine/fast", **{"mine/fast": price(**{"as": "openai/gpt-4o"})})
    assert other.rates == mine.rates


async def test_the_settings_change_single_prices_of_the_library() -> None:
    changed = await tariff("openai/gpt-4o", **{"openai/gpt-4o": price(output="1")})
    assert changed.rates["output_tokens"] == changed.rates["reasoning_tokens"]
    assert changed.rates["output_tokens"] == Rate(Decimal(1))
    assert changed.rates["cache_read_tokens"] == Rate(Decimal("1.25"))


async def test_single_prices_of_a_model_that_nobody_knows_do_not_make_it_known() -> None:
    assert not (await tariff("acme/big", acme__big=price(output="1"))).known


async def test_the_name_that_says_most_counts() -> None:
    named = {
        "*": price(input="1", output="1"),
        "acme/*": price(input="2", output="2"),
        "acme/big*": price(input="3", output="3"),
        "acme/big": price(input="4", output="4"),
    }
    found = {
        name: (await tariff(name, **named)).rates["input_tokens"].base
        for name in ("other/x", "acme/small", "acme/bigger", "acme/big")
    }
    assert list(found.values()) == [1, 2, 3, 4]


async def test_the_version_says_which_settings_a_cost_came_from() -> None:
    first = await tariff("a/b", a__b=price(input="1", output="2"))
    again = await tariff("a/b", a__b=price(input="1", output="2"))
    other = await tariff("a/b", a__b=price(input="1", output="3"))
    assert first.version == again.version != other.version


async def test_prices_that_depend_on_the_hour() -> None:
    name, night = "deepseek/deepseek-chat", datetime(2026, 11, 20, 20, tzinfo=UTC)
    assert (await tariff(name)).rates["output_tokens"].base == Decimal("1.1")
    assert (await tariff(name, night)).rates["output_tokens"].base == Decimal("0.55")


async def test_claude_keeps_things_for_an_hour_at_twice_the_price() -> None:
    """Wherever it is asked, and where the library does not say so."""
    library = Library()
    seen = 0
    for provider, model in (("openrouter", "anthropic/claude-sonnet-4"), ("aws", "claude-opus-4")):
        found = library.find(provider, model)
        if found is None or (known := found.at(AT)) is None:
            continue
        seen += 1
        usual, hour = known.rates["input_tokens"], known.rates["cache_write_hour_tokens"]
        assert hour.base == 2 * usual.base
    assert seen


def test_prices_that_cannot_be_are_refused() -> None:
    for wrong in ({"input": "-1"}, {"input": "NaN"}, {"input": "1e7"}, {"inptu": "1"}, {}):
        with pytest.raises(ValidationError):
            Price.model_validate(wrong)
    with pytest.raises(ValueError, match="expected both"):
        Prices({}, price(input="1"))


async def test_other_settings_count_from_then_on() -> None:
    prices, model = Prices({"a/b": price(input="1", output="1")}, WORST), ModelRef("a", "b")
    first = prices.of(model, AT)
    with pytest.raises(ValueError, match="expected both"):
        prices.take({}, price(output="1"))
    assert prices.of(model, AT) is first
    prices.take({"a/b": price(input="2", output="1")}, WORST)
    assert prices.of(model, AT).rates["input_tokens"].base == 2
    assert prices.of(model, AT).version != first.version


def test_prices_are_not_guessed_before_they_are_loaded() -> None:
    with pytest.raises(RuntimeError, match=r"Prices\.load"):
        Prices({}, WORST).of(ModelRef("openai", "gpt-4o"), AT)


@pytest.mark.slow
async def test_prices_of_many_models_are_not_all_kept() -> None:
    prices = Prices({"a/*": GPT_5}, WORST)
    for number in range(5_000):
        assert prices.of(ModelRef("a", f"m{number}"), AT).known
    assert len(prices._kept) <= 4096


@pytest.mark.slow
def test_the_library_is_not_loaded_with_the_plugin() -> None:
    code = (
        "import sys; from hookgate.builtin_plugins.metering import prices; "
        "sys.exit('genai_prices' in sys.modules or 'httpx2' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- arithmetic ------------------------------------------------------------------------

AMOUNTS = st.decimals(0, 1000, places=6)
RATES = st.builds(
    lambda base, tiers: Rate(base, tuple(sorted(tiers.items()))),
    AMOUNTS,
    st.dictionaries(st.integers(0, 300_000), AMOUNTS, max_size=3),
)
TARIFFS = st.builds(
    lambda rates, fee: Tariff("v", True, "here", rates, fee),
    st.fixed_dictionaries(
        {"input_tokens": RATES, "output_tokens": RATES},
        optional={kind: RATES for kind in KINDS if kind not in ("input_tokens", "output_tokens")},
    ),
    AMOUNTS,
)
FLAT = st.builds(
    lambda rates: Tariff("v", True, "here", {kind: Rate(rates[kind]) for kind in KINDS}),
    st.fixed_dictionaries(dict.fromkeys(KINDS, AMOUNTS)),
)
USAGES = st.builds(Usage, **{kind: st.integers(0, 200_000) for kind in KINDS})


@given(prices=TARIFFS, usage=USAGES, more=st.integers(0, 10**6), longer=st.integers(0, 10**6))
def test_no_call_costs_more_than_the_worst_of_its_size(
    prices: Tariff, usage: Usage, more: int, longer: int
) -> None:
    cost = prices.cost(usage)
    assert 0 <= cost <= prices.worst(usage.total_input, usage.total_output)
    assert cost <= prices.worst(usage.total_input + more, usage.total_output + longer)


@given(prices=FLAT, usage=USAGES)
def test_a_call_costs_the_sum_of_its_kinds(prices: Tariff, usage: Usage) -> None:
    parts = [prices.cost(Usage(**{kind: getattr(usage, kind)})) for kind in KINDS]
    assert prices.cost(usage) == sum(parts)
    exact = sum(prices.rates[kind].base * getattr(usage, kind) for kind in KINDS) / 10**6
    assert dollars(prices.cost(usage)) == exact


@given(prices=TARIFFS, usage=USAGES)
def test_what_was_saved_is_the_difference_to_input_that_is_not_cached(
    prices: Tariff, usage: Usage
) -> None:
    cached = usage.cache_read_tokens + usage.cache_write_tokens + usage.cache_write_hour_tokens
    plain = Usage(
        **{kind: getattr(usage, kind) for kind in KINDS if not kind.startswith("cache_")}
    ) + Usage(input_tokens=cached)
    assert prices.saved(usage) == prices.cost(plain) - prices.cost(usage)


def test_costs_are_rounded_up_and_savings_down() -> None:
    third = {"input_tokens": Rate(Decimal("0.0000001")), "output_tokens": Rate(Decimal(0))}
    known = Tariff("v", True, "here", third)
    assert known.cost(Usage(input_tokens=1)) == 1
    assert known.cost(Usage(input_tokens=11)) == 2
    assert known.saved(Usage(cache_read_tokens=7)) == 0


# -- the library's own arithmetic ----------------------------------------------------------

THEIRS = {
    "cache_read_tokens": "cache_read_mtok",
    "cache_write_hour_tokens": "cache_write_1h_mtok",
    "audio_input_tokens": "input_audio_mtok",
    "image_input_tokens": "input_image_mtok",
    "reasoning_tokens": "output_reasoning_mtok",
    "audio_output_tokens": "output_audio_mtok",
    "image_output_tokens": "output_image_mtok",
}


def in_their_words(usage: Usage) -> Any:
    from genai_prices import Usage as Theirs

    return Theirs(
        input_tokens=usage.total_input,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens + usage.cache_write_hour_tokens,
        cache_write_1h_tokens=usage.cache_write_hour_tokens,
        input_audio_tokens=usage.audio_input_tokens,
        cache_audio_read_tokens=0,
        input_image_tokens=usage.image_input_tokens,
        cache_image_read_tokens=0,
        output_tokens=usage.total_output,
        output_reasoning_tokens=usage.reasoning_tokens,
        output_audio_tokens=usage.audio_output_tokens,
        output_image_tokens=usage.image_output_tokens,
    )


@pytest.mark.slow
def test_every_model_of_the_library_costs_what_the_library_says() -> None:
    from genai_prices.data import providers

    library, compared = Library(), 0
    sizes = [
        {kind: 1000 + 7 * place for place, kind in enumerate(KINDS)},
        {kind: 61_003 * place for place, kind in enumerate(KINDS)},
    ]
    for provider in providers:
        for listed in provider.models:
            found = library.find(provider.id, listed.id)
            info = provider.find_model(listed.id, all_providers=providers)
            for at in (AT, datetime(2025, 3, 1, 23, tzinfo=UTC)):
                known = found.at(at) if found else None
                if known is None or info is None:
                    continue
                prices = info.get_prices(at)
                for counts in sizes:
                    usage = Usage(
                        **{
                            kind: count
                            for kind, count in counts.items()
                            if kind not in THEIRS or getattr(prices, THEIRS[kind]) is not None
                        }
                    )
                    theirs = info.calc_price(
                        in_their_words(usage), provider, genai_request_timestamp=at
                    )
                    expected = theirs.total_price
                    over = dollars(known.cost(usage)) - expected
                    assert 0 <= over < Decimal(1) / PICO, (provider.id, listed.id, at)
                    compared += 1
    assert compared > 5000


# -- models of one's own ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "free"),
    [
        ("ollama/qwen3", True),
        ("ollama/llama3.2", True),
        ("ollama/deepseek-r1:8b", True),
        # A proxy on this machine may pass them on to whoever sells them.
        ("ollama/gpt-4o", False),
        ("ollama/claude-sonnet-4-5", False),
        # A name that the library has prices for, wherever it is.
        ("openai/gpt-4o", False),
        ("elsewhere/qwen3", False),
    ],
)
async def test_a_model_of_ones_own_costs_nothing_unless_the_settings_say(
    model: str, free: bool
) -> None:
    prices = Prices({}, WORST, local=lambda name: name in ("ollama", "openai"))
    await prices.load()
    ref = ModelRef.parse(model)
    assert prices.of(ref, AT).free is free
    said = Prices({model: price(input="1", output="2")}, WORST, local=lambda _: True)
    await said.load()
    assert not said.of(ref, AT).free
