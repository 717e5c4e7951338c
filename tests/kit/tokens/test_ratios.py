"""What is reserved of a call's input fits it, once a model's bills have shown how it counts."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.examples import sampled

from hookgate.kit.tokens.ratios import MOST_MODELS, Ratios
from hookgate.kit.tokens.sizes import KINDS, Sizes

RECORDED = json.loads(
    (Path(__file__).parents[3] / "benchmarks" / "metering" / "counted.json").read_text("utf-8")
)
TEXTS: list[dict[str, Any]] = RECORDED["texts"]
TOKENIZERS: list[str] = RECORDED["tokenizers"]
KINDS_OF_TEXT = sorted({one["kind"] for one in TEXTS})
MODEL = "acme/large"


def drawn(random: Random, kinds: list[str], place: int, size: int = 40) -> tuple[list[int], int]:
    """Return what a request of some recorded texts is made of, and what a tokenizer bills."""
    pool = [one for one in TEXTS if one["kind"] in kinds]
    sizes, tokens = Sizes(), 7
    sizes.add("framing", 64)
    for one in random.choices(pool, k=size):
        sizes.add_text(one["text"])
        tokens += one["tokens"][place]
    return sizes.counts, tokens


@pytest.mark.parametrize("place", range(len(TOKENIZERS)), ids=TOKENIZERS)
@pytest.mark.parametrize(
    "kinds", sampled([KINDS_OF_TEXT, *([kind] for kind in KINDS_OF_TEXT)], every=6), ids=str
)
def test_bound_fits_the_bills_that_it_was_learned_from(kinds: list[str], place: int) -> None:
    random, ratios = Random(7), Ratios()
    for _ in range(12):
        ratios.learn(MODEL, *drawn(random, kinds, place))
    for _ in range(40):
        counts, tokens = drawn(random, kinds, place)
        most = ratios.most(MODEL, counts)
        # What is past it is the error of a count: 2 % of a call at most.
        assert tokens <= 1.02 * most
        assert most <= 1.6 * tokens
        ratios.learn(MODEL, counts, tokens)


@pytest.mark.parametrize("place", range(len(TOKENIZERS)), ids=TOKENIZERS)
def test_no_recorded_load_is_billed_past_its_bound(place: int) -> None:
    for kinds in (["english"], ["chinese"], ["english", "json", "code"], KINDS_OF_TEXT):
        random, ratios = Random(3), Ratios()
        past = 0
        for _ in range(60):
            counts, tokens = drawn(random, kinds, place)
            past = max(past, tokens - ratios.most(MODEL, counts))
            ratios.learn(MODEL, counts, tokens)
        assert past == 0, kinds


def test_nothing_is_known_of_a_model_before_its_first_bill() -> None:
    counts, tokens = drawn(Random(1), ["english"], 0)
    ratios = Ratios()
    ratios.learn("acme/other", counts, tokens)
    assert ratios.most(MODEL, counts) == sum(counts)
    assert ratios.count(MODEL, counts) is None


@pytest.mark.parametrize("kind", ["tamil", "armenian", "korean", "emoji", "base64"])
@pytest.mark.parametrize("place", range(len(TOKENIZERS)), ids=TOKENIZERS)
def test_writing_that_a_model_has_not_billed_yet_keeps_nearly_a_token_a_byte(
    kind: str, place: int
) -> None:
    random, ratios = Random(5), Ratios()
    for _ in range(50):
        ratios.learn(MODEL, *drawn(random, ["english"], place))
    counts, tokens = drawn(random, [kind], place)
    assert ratios.most(MODEL, counts) >= tokens * 0.98


def test_one_odd_text_does_not_move_what_is_known() -> None:
    """Ten thousand spaces are a hundred tokens; who sends them must not make room for others."""
    random, ratios = Random(2), Ratios()
    for _ in range(30):
        ratios.learn(MODEL, *drawn(random, ["english"], 0))
    spaces = Sizes()
    spaces.add_text(" " * 100_000)
    ratios.learn(MODEL, spaces.counts, 1_300)
    counts, tokens = drawn(random, ["english"], 0)
    assert tokens <= ratios.most(MODEL, counts)


def test_another_tokenizer_under_the_same_name_is_learned() -> None:
    random, ratios = Random(4), Ratios()
    for _ in range(100):
        ratios.learn(MODEL, *drawn(random, ["bengali", "english"], 0))
    for _ in range(20):
        ratios.learn(MODEL, *drawn(random, ["bengali", "english"], TOKENIZERS.index("anthropic")))
    counts, tokens = drawn(random, ["bengali", "english"], TOKENIZERS.index("anthropic"))
    assert tokens <= 1.02 * ratios.most(MODEL, counts)


COUNTS = st.lists(st.integers(0, 10**6), min_size=len(KINDS), max_size=len(KINDS))


@given(st.lists(st.tuples(COUNTS, st.integers(0, 10**9)), max_size=8), COUNTS)
def test_whatever_is_billed_the_bound_is_between_the_count_and_a_token_a_byte(
    bills: list[tuple[list[int], int]], counts: list[int]
) -> None:
    ratios = Ratios()
    for of, tokens in bills:
        ratios.learn(MODEL, of, tokens)
    most, count = ratios.most(MODEL, counts), ratios.count(MODEL, counts)
    assert 0 <= most <= sum(counts)
    assert count is None or 0 <= count <= most + 1


def test_models_that_nobody_asks_any_more_are_forgotten() -> None:
    ratios, (counts, tokens) = Ratios(), drawn(Random(1), ["english"], 0)
    for number in range(MOST_MODELS + 1):
        ratios.learn(f"acme/{number}", counts, tokens)
    assert ratios.count("acme/0", counts) is None
    assert ratios.count("acme/1", counts) is not None
