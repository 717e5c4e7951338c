"""What a guest says is counted before anything is made of it."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.examples import examples

from hookgate.builtin_plugins.wasm.wire import (
    DEPTH,
    ESCAPES,
    KEYS,
    LONG,
    PARTS,
    VALUES,
    FaultError,
    Sent,
    ToolAnswer,
    TooMuchError,
    WireFormError,
    aside,
    hold,
    read_form,
)

MANY = VALUES // PARTS
WITHIN = {
    "keys": json.dumps({str(one): one for one in range(KEYS)}),
    "parts": json.dumps([0] * PARTS),
    "depth": "[" * DEPTH + "]" * DEPTH,
    "values": json.dumps([[0] * (PARTS - 2)] * MANY),
    "escapes": json.dumps("\n" * ESCAPES),
    "number": "9" * 64,
    "text": json.dumps("a,b:[{" * 100_000),
    "quotes": json.dumps('"\\' * 100_000),
    "blanks": " " * 1_000_000 + "{}",
}
PAST = {
    "keys": (json.dumps({str(one): one for one in range(KEYS + 1)}), "64 keys in one object"),
    "equal keys": ("{" + ",".join(['"a":1'] * (KEYS + 1)) + "}", "64 keys in one object"),
    "parts": (json.dumps([0] * (PARTS + 1)), "1,000 elements in one array"),
    "depth": ("[" * (DEPTH + 1), "16 objects and arrays within each other"),
    "values": (json.dumps([[0] * PARTS] * MANY), "20,000 values"),
    "escapes": (json.dumps("\n" * (ESCAPES + 1)), "500,000 backslashes"),
    "number": ("9" * 65, "64 characters in one number"),
    "no json": ("[" + "1 " * 500_000, "20,000 values"),
}


@pytest.mark.parametrize("name", WITHIN)
def test_what_is_within_each_bound_is_let_through(name: str):
    json.loads(WITHIN[name])

    assert held(WITHIN[name].encode())


@pytest.mark.parametrize("name", PAST)
def test_what_passes_a_bound_is_told_with_it(name: str):
    text, told = PAST[name]

    with pytest.raises(TooMuchError, match=f"found more than {told}, expected at most"):
        hold(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "}",
        "]" * 9,
        '"',
        '"\\',
        '"\\"',
        "\\",
        "[}",
        "{]",
        ",,,",
        '{"a":}',
        "[1,2",
        "\0",
        "é",
    ],
)
def test_what_is_no_json_is_for_the_parser_to_tell(text: str):
    hold(text.encode())

    with pytest.raises(WireFormError, match="found no JSON"):
        read_form(ToolAnswer, text.encode(), what="the answer")


def test_one_error_is_told_of_many():
    wrong = json.dumps({f"key{one}": one for one in range(KEYS)}).encode()

    with pytest.raises(WireFormError) as found:
        read_form(ToolAnswer, wrong, what="the answer")

    assert str(found.value) == "the answer: 'content' is missing, expected content, is_error"


def test_of_what_was_found_a_short_part_is_shown():
    with pytest.raises(WireFormError) as found:
        read_form(Sent, json.dumps({"done": "x" * 1_000_000}).encode(), what="the answer")

    assert len(str(found.value)) < 300


def test_the_reason_of_a_fault_has_bounds_as_well():
    fault = {"error": {"message": "come again"}, "more": [0] * (PARTS + 1)}

    with pytest.raises(WireFormError, match="1,000 elements in one array") as found:
        read_form(Sent, json.dumps(fault).encode(), what="the answer")
    assert not isinstance(found.value, FaultError)


async def test_what_is_long_is_read_on_another_thread() -> None:
    here = threading.get_ident()

    assert await aside(LONG - 1, threading.get_ident) == here
    assert await aside(LONG, threading.get_ident) != here


# -- whatever a guest says -------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.text() | st.floats(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
layouts = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t: \r")])


def nested(value: Any, times: int) -> Any:
    for _ in range(times):
        value = [value]
    return value


@examples(400)
@given(
    value=json_values,
    wide=st.integers(0, PARTS + 3) | st.just(0),
    keys=st.integers(0, KEYS + 3),
    deep=st.integers(0, DEPTH + 3),
    layout=layouts,
    ascii_alone=st.booleans(),
)
def test_json_is_let_through_exactly_where_it_is_within_all_bounds(
    value: Any, wide: int, keys: int, deep: int, layout: tuple[str, str], ascii_alone: bool
):
    value = nested([value, [0] * wide, dict.fromkeys(map(str, range(keys)), "]")], deep)
    text = json.dumps(value, separators=layout, ensure_ascii=ascii_alone)

    assert held(text.encode("utf-8", "surrogatepass")) == within(value)


@examples(600)
@given(data=st.binary() | st.text('{}[],:"\\ 1a\n', max_size=60).map(str.encode))
@example(b'"\\\\"')
@example(b'{"a":"\\"}","b":[]}')
def test_nothing_else_comes_of_any_bytes(data: bytes):
    """Whatever a parser makes of them is within bounds where they are let through."""
    if held(data):
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return
        assert within(value)


@examples(60)
@given(
    unit=st.text('{}[],:"\\ 1a\n', min_size=1, max_size=8),
    times=st.sampled_from([1, 100, 30_000]),
    before=st.sampled_from(["", "[", '{"a":', '"', "[[", "{"]),
)
def test_a_parser_that_stops_early_has_built_no_more_than_the_bounds(
    unit: str, times: int, before: str
):
    """Also of what is no JSON: it reads as far as it is some."""
    data = (before + unit * times).encode()

    if held(data):
        assert started_values(data) <= 2 * VALUES


def held(data: bytes) -> bool:
    try:
        hold(data)
    except TooMuchError:
        return False
    return True


def within(value: Any, depth: int = 0) -> bool:
    if isinstance(value, dict | list):
        most = KEYS if isinstance(value, dict) else PARTS
        inner = value.values() if isinstance(value, dict) else value
        return depth < DEPTH and len(value) <= most and all(within(one, depth + 1) for one in inner)
    return True


def started_values(data: bytes) -> int:
    """Count the values that the standard library's parser finishes before it fails, or ends."""
    count = 0

    def counted(value: Any) -> Any:
        nonlocal count
        count += 1
        return value

    decoder = json.JSONDecoder(
        object_pairs_hook=counted, parse_int=counted, parse_float=counted, parse_constant=counted
    )
    with suppress(ValueError, RecursionError):
        decoder.decode(data.decode())
    return count
