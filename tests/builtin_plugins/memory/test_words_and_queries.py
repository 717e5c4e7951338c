"""How messages are read: words, signs, times, and of whom they speak."""

from __future__ import annotations

from datetime import UTC, datetime
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.memory.domain import ASSISTANT, USER
from hookgate.builtin_plugins.memory.recall.query import (
    MAX_WORDS,
    read_query,
    spans_in,
    speakers_in,
)
from hookgate.builtin_plugins.memory.recall.turns import MAX_PIECES, PIECE_CHARS, passages
from hookgate.builtin_plugins.memory.recall.words import MAX_TERMS, Signs, signs_of, terms_of

NOW = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)


def test_forms_of_a_word_are_one_word() -> None:
    assert terms_of("She bought") == terms_of("buying")
    assert terms_of("paintings") == terms_of("painted")
    assert terms_of("my children's") == terms_of("kids")
    assert terms_of("ＺÜRICH") == terms_of("zürich")


def test_words_that_say_nothing_are_no_words() -> None:
    assert terms_of("Wow, thanks! What's it that you do?") == []
    assert terms_of("in 7 days") == ["7", "day"]
    assert terms_of("is it", common=True) == ["is", "it"]


def test_scripts_without_spaces_are_found_by_neighbours() -> None:
    assert set(terms_of("東京")) <= set(terms_of("私は東京に住む"))
    assert terms_of("犬") == ["犬"]


@pytest.mark.parametrize("piece", ["a", "a'", "ab ", "東", "2023-", "may 1 "])
def test_reading_takes_no_longer_than_the_text_is_long(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    begun = process_time()
    assert len(terms_of(text)) <= MAX_TERMS
    signs_of(text)
    read_query(text, NOW)
    assert len(list(passages(text))) <= MAX_PIECES
    assert process_time() - begun < 2


def test_signs_of_a_text() -> None:
    assert signs_of("We went last week.") == Signs.TIME
    assert signs_of("Really? I did not know") == Signs.ASKS
    asks = Signs.ASKS | Signs.ONLY_ASKS
    assert signs_of("Is it?  ") == asks | Signs.NOTHING_ELSE
    assert signs_of("Is it? Or not?") == asks | Signs.NOTHING_ELSE
    assert signs_of("I live in Nice. Where can I eat?") == asks
    assert signs_of("Oh! Where?") == asks
    assert signs_of("Blue.") == Signs.NONE


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("on 9 july, 2022", "2022-07-09", "2022-07-25"),
        ("on july 9th 2022", "2022-07-09", "2022-06-30"),
        ("in may", "2023-05-20", "2022-05-20"),
        ("in february", "2024-02-10", "2023-02-10"),
        ("in june of 2021", "2021-06-30", "2021-08-01"),
        ("yesterday", "2024-02-28", "2024-02-20"),
        ("last week", "2024-02-20", "2024-02-01"),
        ("past month", "2024-01-20", "2023-11-01"),
    ],
)
def test_a_time_that_is_named_is_understood(text: str, inside: str, outside: str) -> None:
    (span,) = spans_in(f"what did i do {text}?", NOW)
    assert span.first <= datetime.fromisoformat(f"{inside}T12:00+00:00") < span.last
    when = datetime.fromisoformat(f"{outside}T12:00+00:00")
    assert not span.first <= when < span.last


@pytest.mark.parametrize("text", ["may i ask", "30 february", "the march of time 99", "1 june"])
def test_what_is_no_time_or_hardly_one_breaks_nothing(text: str) -> None:
    assert len(spans_in(text, NOW)) == (text in ("1 june", "the march of time 99"))


def test_names_of_speakers_and_of_times_are_no_words_to_look_for() -> None:
    query = read_query("What did Mel buy in May 2023?", NOW, ["Mel", "Ann"])
    assert list(query.words.values()) == ["buy"]
    assert list(read_query("Mel?", NOW, ["Mel"]).words.values()) == ["mel"]
    assert read_query("When was it?", NOW).asks_when
    assert len(read_query(" ".join(f"w{n}" for n in range(99)), NOW).words) == MAX_WORDS


def test_of_whom_a_message_speaks() -> None:
    people = ["Mel", "Jean Paul", USER, ASSISTANT]
    assert speakers_in("where did mel's dog go", people) == ["Mel"]
    assert speakers_in("what did jean paul and mel eat", people) == ["Mel", "Jean Paul"]
    assert speakers_in("where is jean", people) == []
    assert speakers_in("can you tell me my name", people) == [USER]
    assert speakers_in("what did you say", people) == [ASSISTANT]
    assert speakers_in("what is it", people) == []


@given(st.text("ab. \n", max_size=4000))
def test_pieces_hold_every_word_and_none_is_too_long(text: str) -> None:
    pieces = list(passages(text))
    assert all(0 < len(piece) <= PIECE_CHARS for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())
