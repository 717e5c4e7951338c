"""Streamed text on a terminal: no word is cut in two."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from hookgate.cli.talk import WordWrap


def wrapped(*pieces: str, width: int = 20) -> str:
    file = io.StringIO()
    wrap = WordWrap(file, lambda: width)
    for piece in pieces:
        wrap.write(piece)
    wrap.flush()
    return file.getvalue()


def test_a_word_that_comes_in_pieces_is_not_cut_in_two() -> None:
    assert wrapped("the quick brown f", "ox jum", "ps over") == "the quick brown fox\njumps over"
    assert wrapped("12345678901234567890", " x") == "12345678901234567890\nx"


def test_a_line_that_the_text_breaks_itself_begins_anew() -> None:
    assert wrapped("one\n\ntwo three four five six\n") == "one\n\ntwo three four five\nsix\n"


def test_what_is_longer_than_a_line_and_code_are_left_as_they_are() -> None:
    url = "https://example.com/a/very/long/address"
    assert wrapped(f"see {url} there") == f"see\n{url}\nthere"
    code = "```\nfor name in some_names: print(name)\n```\n"
    assert wrapped(code) == code


def test_wide_characters_take_two_columns() -> None:
    assert wrapped("日本語日本語 日本語日本語") == "日本語日本語\n日本語日本語"


def test_what_can_be_shown_is_shown_at_once() -> None:
    file = io.StringIO()
    wrap = WordWrap(file, lambda: 20)
    wrap.write("one two thr")
    assert file.getvalue() == "one two"
    wrap.write("ee ")
    assert file.getvalue() == "one two three"


@given(st.lists(st.text("ab \n", max_size=12)), st.integers(1, 9))
def test_nothing_is_lost_and_no_line_is_too_long_that_could_be_shorter(
    pieces: list[str], width: int
) -> None:
    shown = wrapped(*pieces, width=width)
    assert shown.split() == "".join(pieces).split()
    assert [
        line for line in shown.split("\n") if len(line.rstrip()) > width and " " in line.strip()
    ] == []
