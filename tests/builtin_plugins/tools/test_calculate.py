from __future__ import annotations

import ast
import math
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.examples import examples

from hookgate.builtin_plugins.tools.calculate import (
    MAX_DIGITS,
    MAX_LENGTH,
    CalculationError,
    calculate,
    show,
)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("-2 ** 2", -4),
        ("2 ** -1", 0.5),
        ("7 // 2 + 7 % 4 + 7 / 2", 9.5),
        ("+-+1", -1),
        ("1e3 + .5 + 2.", 1002.5),
        ("sqrt(16) + abs(-2) + floor(1.5) + ceil(1.5)", 9.0),
        ("round(2.345, 2)", 2.35),
        ("round(1250, -2)", 1200),
        ("max(1, 2, 3) - min(4)", -1),
        ("pi - e", math.pi - math.e),
        ("10 ** 999", 10**999),
        ("1 ** 10 ** 900", 1),
        (" 1\n+ 1 ", None),
    ],
)
def test_values_are_pythons(expression: str, value: float | None) -> None:
    if value is None:
        assert calculate(expression.replace("\n", " ")) == 2
    else:
        assert calculate(expression) == value
        assert type(calculate(expression)) is type(value)


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("", "cannot be read"),
        ("1 +", "cannot be read"),
        ("007", "cannot be read"),
        ("1" * (MAX_LENGTH + 1), "at most"),
        ("9 ** 9 ** 9", "digits"),
        ("10 ** 999 * 10 ** 999", "digits"),
        ("2.0 ** 5000", "too large"),
        ("1e999", "too large"),
        ("10 ** 600 / 1.5", "too large"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("(-8) ** 0.5", "no real number"),
        ("sqrt(-1)", "no real number"),
        ("round(1, 10 ** 9)", "whole number of digits"),
        ("round(1, 0.5)", "whole number of digits"),
        ("min()", "min of nothing"),
        ("abs(1, 2)", "does not take 2"),
        ("2 ^ 3", r"`\*\*` is the power"),
        ("__import__", "found the name"),
        ("x + 1", "found the name 'x'"),
        ("pi(2)", "arithmetic and nothing else"),
        ("(1, 2)", "arithmetic and nothing else"),
        ("abs(*1)", "cannot|arithmetic|found"),
        ("True + 1", "arithmetic and nothing else"),
        ("1 if 2 else 3", "arithmetic and nothing else"),
        ("1 or 2", "arithmetic and nothing else"),
        ("1or 2", "found"),
        ("0x10", "found"),
        ("1_000", "found"),
        ("2j", "found"),
        ("(1).real", "found"),
        ("a[0]", "found"),
        ("'a' * 9", "found"),
        ("x := 1", "found"),
        ("٣", "found|cannot"),
    ],
)
def test_what_is_no_arithmetic_is_refused_with_a_reason(expression: str, says: str) -> None:
    with pytest.raises(CalculationError, match=says):
        calculate(expression)


def test_long_sums_are_no_deep_nesting_but_parentheses_are() -> None:
    assert calculate("+".join(["1"] * 400)) == 400
    with pytest.raises(CalculationError, match="inside one another"):
        calculate("-(" * 60 + "1" + ")" * 60)
    with pytest.raises(CalculationError, match="cannot be read"):
        calculate("(" * 400 + "1" + ")" * 400)
    with pytest.raises(CalculationError):
        calculate("-" * 900 + "1")
    with pytest.raises(CalculationError):
        calculate("2**" * 300 + "1")


def test_floating_point_results_show_the_digits_that_they_hold() -> None:
    assert show(calculate("0.1 + 0.2")) == "0.3"
    assert show(calculate("6 / 2")) == "3"
    assert show(calculate("2 ** 100")) == "1267650600228229401496703205376"
    assert len(show(calculate("10 ** 999"))) == MAX_DIGITS


NUMBERS = ["0", "7", "99999999999999999999", "1.5", "1e300", "pi", "e", "x"]
SIGNS = ["(", ")", ",", " ", "+", "-", "*", "/", "//", "%", "**", "**", "**"]
CALLS = ["abs(", "sqrt(", "round(", "min(", "max(", "ceil(", "floor"]
TOKENS = st.sampled_from([*NUMBERS, *SIGNS, *CALLS])


@examples(300)
@given(
    st.lists(TOKENS, max_size=60).map("".join) | st.text("0123456789.+-*/%(),e pi\n_", max_size=80)
)
def test_every_text_ends_quickly_in_a_number_or_a_refusal(expression: str) -> None:
    began = time.process_time()
    value: float = 0
    with suppress(CalculationError):
        value = calculate(expression)
    assert time.process_time() - began < 10.0
    assert math.isfinite(value) if isinstance(value, float) else len(str(value)) <= MAX_DIGITS + 1


@st.composite
def sums(draw: st.DrawFn) -> str:
    leaf = st.integers(0, 10**6).map(str) | st.floats(0, 1e6).map(repr)
    nested = st.recursive(
        leaf,
        lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        max_leaves=12,
    )
    return draw(nested)


@given(sums())
def test_agrees_with_python(expression: str) -> None:
    expected = eval(compile(ast.parse(expression, mode="eval"), "x", "eval"), {})
    assert calculate(expression) == expected
