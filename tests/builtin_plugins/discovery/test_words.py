from __future__ import annotations

import re
import threading
from time import process_time

import pytest
import snowballstemmer  # type: ignore[import-untyped]  # it has no types
from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.discovery.index.documents import (
    CLAUSE_WORDS,
    CLAUSES,
    clause_spans,
    human_name,
    words_of,
)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("getAlbumSales", ["album", "sale"]),
        ("http_get", ["http"]),
        ("parseHTTPResponse", ["pars", "http", "respons"]),
        ("XMLHttpRequest", ["xml", "http", "request"]),
        ("SQL", ["sql"]),
        ("utf8Decode", ["utf8", "decod"]),
        ("web-page.digest", ["web", "page", "digest"]),
        ("__init__", ["init"]),
    ],
)
def test_names_fall_into_their_parts(name: str, words: list[str]) -> None:
    assert words_of(name) == words


def test_numbers_are_words_as_they_stand() -> None:
    assert words_of("week 00512 of 2024, ４２ days") == ["week", "00512", "2024", "42", "day"]


@given(st.text("aB1Z zéÉ_A"))
def test_names_fall_apart_where_capitals_begin(text: str) -> None:
    humps = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
    assert human_name(text) == human_name(humps.sub(" ", text))
    assert words_of(text, common=True) == words_of(humps.sub(" ", text), common=True)


def test_common_words_say_something_in_names_alone() -> None:
    assert words_of("get the time") == ["time"]
    assert words_of("get the time", common=True) == ["get", "the", "time"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("translating", "translate"),
        ("Emails", "email"),
        ("ＷＥＢ", "web"),  # letters of double width
        ("ﬁle", "file"),  # a ligature
        ("STRASSE", "straße"),
        ("cafe\u0301", "café"),  # a letter with an accent, in two characters and in one
    ],
)
def test_words_that_read_the_same_are_the_same(one: str, other: str) -> None:
    assert words_of(one) == words_of(other) != []


def clauses_of(text: str) -> list[str]:
    return [text[start:end] for start, end in clause_spans(text)]


def test_words_of_other_scripts_are_kept() -> None:
    assert words_of("Wie spät ist es? 天気 и погода") == ["wie", "spät", "ist", "es", "天気", "и", "погода"]  # fmt: skip # noqa: E501


def test_half_a_character_is_no_word_and_no_error() -> None:
    assert words_of("\ud800mail\udfff") == ["mail"]
    assert clauses_of("send \ud800 mail now. Then book a trip.") != []


def test_human_name_keeps_case_and_parts() -> None:
    assert human_name("getAlbumSales") == "get Album Sales"
    assert human_name("cli_executor") == "cli executor"
    assert human_name("!!!") == ""


@given(st.text())
def test_words_of_any_text_hold_no_space_and_nothing_in_capitals(text: str) -> None:
    for word in words_of(text, common=True):
        assert word
        assert word == word.casefold()
        assert not any(char.isspace() or char == "_" for char in word)


@given(st.text())
def test_words_without_common_ones_are_some_of_all_words(text: str) -> None:
    every = iter(words_of(text, common=True))
    assert all(word in every for word in words_of(text))


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("what time is it", []),
        ("send a mail and then", []),
        (
            "Translate this page to French and then book a table. Finally, tell me the weather.",
            ["Translate this page to French", "book a table", "Finally, tell me the weather"],
        ),
        (
            "convert five miles to km, and draft a mail; also remember my birthday",
            ["convert five miles to km", "draft a mail", "also remember my birthday"],
        ),
        ("read the file\nsummarise it for me", ["read the file", "summarise it for me"]),
        ("athena lives alone in Greece", []),
        ("look at the firstborn child there", []),
    ],
)
def test_message_falls_into_what_it_asks_for(text: str, clauses: list[str]) -> None:
    assert clauses_of(text) == clauses


def test_longest_clauses_are_kept_in_their_order() -> None:
    texts = [f"do {'very ' * number}much of thing{number}" for number in range(12)]
    assert clauses_of(". ".join(texts)) == texts[-CLAUSES:]


@given(st.text(alphabet="ab .,;!?\n\tthen and also", max_size=300))
def test_clauses_are_parts_of_the_message_in_order(text: str) -> None:
    spans = clause_spans(text)
    assert len(spans) != 1
    assert len(spans) <= CLAUSES
    at = 0
    for start, end in spans:
        assert at <= start < end <= len(text)
        at, clause = end, text[start:end]
        assert clause == clause.strip(" ,.;")
        assert len(clause.split()) >= CLAUSE_WORDS


LONG = 200_000


@pytest.mark.parametrize(
    "piece",
    [
        " ",
        "\t ",
        ", ",
        ",",
        "and ",
        ", and ",
        " then",
        "\n",
        ". ",
        " ,",
        "a" + " " * 999,
        "  and  then",
    ],
)
def test_clauses_of_a_huge_message_take_no_longer_than_its_length(piece: str) -> None:
    text = f"{piece * (LONG // len(piece))}."
    begun = process_time()
    clause_spans(text)
    assert process_time() - begun < 1


@pytest.mark.parametrize("piece", ["y", "aY", "ing", "get the mail ", "_", "\u0301", "ﷺ"])
def test_words_of_a_huge_message_take_no_longer_than_its_length(piece: str) -> None:
    text = piece * (LONG // 2 // len(piece))
    begun = process_time()
    words_of(text)
    human_name(text)
    assert process_time() - begun < 1


def test_threads_agree_on_stems() -> None:
    text = " ".join(f"translating{number} relations{number}ing caresses" for number in range(300))
    results: list[list[str]] = []
    threads = [threading.Thread(target=lambda: results.append(words_of(text))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [words_of(text)] * 4


def test_a_word_is_the_stem_that_the_whole_package_finds() -> None:
    whole = snowballstemmer.stemmer("english")
    words = [
        "flies",
        "happily",
        "relational",
        "conditional",
        "generously",
        "capabilities",
        "running",
    ]

    assert words_of(" ".join(words), common=True) == [whole.stemWord(word) for word in words]
