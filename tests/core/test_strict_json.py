from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.core.json_cases import ACCEPTED, REFUSED

from hookgate.core.domain import strict_json
from hookgate.core.domain.strict_json import (
    MAX_DEPTH,
    MAX_INTEGER,
    StrictJSONError,
    canonical,
    dumps,
    loads,
)


def same(left: Any, right: Any) -> bool:
    """Equal in value, in type, in the sign of zero and in the order of keys."""
    return repr(left) == repr(right)


def test_a_valid_text_is_read() -> None:
    for name, (text, value) in ACCEPTED.items():
        if name == "y_structure_deepest":
            assert dumps(loads(text)) == text
        else:
            assert same(loads(text), value), name
            assert same(loads(text.decode()), value), name


def test_an_invalid_or_ambiguous_text_is_refused_with_a_reason() -> None:
    for name, text in REFUSED.items():
        try:
            loads(text)
        except StrictJSONError as error:
            assert "found " in str(error), name
            assert len(str(error)) < 300, name
        else:
            pytest.fail(f"{name} was read")


def test_reasons_name_what_was_found() -> None:
    reasons = {
        b'{"key":1,"key":2}': "found the key 'key' twice in one object",
        b"[NaN]": "found the number NaN",
        b"9007199254740992": "found the integer 9007199254740992",
        b'"\\ud800"': "half of a surrogate pair",
        b'["a" 1]': "line 1, column 6",
        b"\xff": "not UTF-8 at offset 0",
        b"\xef\xbb\xbf{}": "found a byte order mark: expected JSON in UTF-8 without one",
        b"[" * 65: "more than 64 levels",
        b"1e999": "found the number 1e999",
    }
    for text, reason in reasons.items():
        with pytest.raises(StrictJSONError) as caught:
            loads(text)
        assert reason in str(caught.value)


def test_a_lone_surrogate_in_a_python_string_is_refused() -> None:
    with pytest.raises(StrictJSONError):
        loads('"\ud800"')


def test_many_escaped_quotes_in_a_string_without_an_end_take_linear_time() -> None:
    small, large = (b"[" * 70 + b'"' + b'\\"' * size for size in (20_000, 200_000))

    def seconds(text: bytes) -> float:
        times = []
        for _ in range(3):
            start = time.thread_time()
            with pytest.raises(StrictJSONError):
                loads(text)
            times.append(time.thread_time() - start)
        return min(times)

    assert seconds(large) < 50 * max(seconds(small), 1e-4)


scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-MAX_INTEGER, max_value=MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('ab:\\"é\n'), inner),
    max_leaves=25,
)


@given(values)
def test_what_is_written_is_read_back(value: Any) -> None:
    assert same(loads(dumps(value)), value)
    assert same(loads(json.dumps(value)), value)
    assert same(loads(json.dumps(value, ensure_ascii=False, indent=1)), value)


@given(values)
def test_canonical_text_does_not_depend_on_the_order_of_keys(value: Any) -> None:
    def reversed_keys(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: reversed_keys(item[key]) for key in reversed(item)}
        return [reversed_keys(entry) for entry in item] if isinstance(item, list) else item

    assert canonical(value) == canonical(reversed_keys(value))
    assert canonical(loads(canonical(value))) == canonical(value)


# Texts that are nearly JSON: pieces in any order, with the pieces that the quick way could
# get wrong (double keys, escapes of colons, long integers) much more often than by chance.
pieces = st.sampled_from(
    [
        *'{}[],:"',
        '"a"',
        '"a":',
        '"a" :',
        '"\\u0061":',
        '":"',
        '"\\u003a"',
        '"\\u003A"',
        '"\\\\u003a"',
        "1",
        "-0",
        "0.5",
        "1e3",
        "9007199254740991",
        "9007199254740992",
        "18446744073709551616",
        "18446744073709551616.0",
        "1e400",
        "true",
        "null",
        "NaN",
        " ",
        "\n",
        '"\\ud800"',
        "é",
    ]
)


def either(read: Any, raw: bytes) -> tuple[str, str]:
    try:
        return "value", repr(read(raw))
    except StrictJSONError as error:
        return "refused", str(error)


@st.composite
def objects(draw: st.DrawFn) -> str:
    """Objects whose keys may be double, written with and without spaces and escapes."""
    members = draw(
        st.lists(
            st.tuples(
                st.sampled_from(['"a"', '"\\u0061"', '"b:"', '"b\\u003a"', '""']),
                st.sampled_from(["", " ", "\n"]),
                st.sampled_from(
                    ['"\\u003a"', '":"', '"::"', "1", "{}", '{"a":1}', "12345678901234567"]
                ),
            ),
            max_size=4,
        )
    )
    gap = draw(st.sampled_from(["", " "]))
    return "{" + ",".join(f"{key}{space}:{gap}{value}" for key, space, value in members) + "}"


@given(st.lists(pieces, max_size=14).map("".join) | objects() | st.lists(objects()).map(str))
@example('{"a":1,"a":"\\u003a"}')
@example('{"a" :1,"a":2}')
@example("[18446744073709551616, 1e3]")
@example("[-9223372036854775809]")
@example('{"a":[' + "[]," * 70 + "[]]}")
def test_the_quick_way_never_differs_from_the_strict_one(text: str) -> None:
    raw = text.encode()
    assert either(loads, raw) == either(strict_json._strict, raw)


def test_the_largest_integer_takes_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    # It stands as `maximum` in the schemas of many clients' tools.
    monkeypatch.setattr(strict_json, "_strict", pytest.fail)
    assert loads('{"maximum": 9007199254740991}') == {"maximum": MAX_INTEGER}


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused_alike_by_both_ways(raw: bytes) -> None:
    assert either(loads, raw) == either(strict_json._strict, raw)


@given(st.integers())
def test_integers_are_exact_or_refused(number: int) -> None:
    text = str(number)
    if abs(number) <= MAX_INTEGER:
        assert loads(text) == number
    else:
        with pytest.raises(StrictJSONError):
            loads(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_keep_every_bit(number: float) -> None:
    read = loads(repr(number))
    assert read == number
    assert math.copysign(1, read) == math.copysign(1, number)


@given(st.integers(min_value=1, max_value=130), st.booleans())
def test_the_limit_on_depth_holds_for_arrays_and_objects(depth: int, arrays: bool) -> None:
    text = "[" * depth + "]" * depth if arrays else '{"k": ' * depth + "{}" + "}" * depth
    if depth + (not arrays) <= MAX_DEPTH:
        loads(text)
    else:
        with pytest.raises(StrictJSONError, match="levels"):
            loads(text)


@given(st.integers(min_value=1, max_value=70), st.booleans())
def test_a_large_body_is_read_as_the_strict_reader_does(depth: int, twice: bool) -> None:
    # More brackets than may be nested, as a request with many tools has.
    many = ",".join('{"name": ["a"]}' for _ in range(200))
    held = '{"k": 1, "k": 2}' if twice else "{}"
    nested = "[" * depth + held + "]" * depth
    text = f'{{"tools": [{many}], "deep": {nested}}}'
    assert either(loads, text.encode()) == either(strict_json._strict, text.encode())


def test_canonical_sorts_keys_and_leaves_out_spaces() -> None:
    assert canonical({"b": [1, 2.5], "a": {"é": None}}) == '{"a":{"é":null},"b":[1,2.5]}'.encode()
