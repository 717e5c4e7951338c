"""Arithmetic without `eval`: a walk over the syntax tree of a small, safe language.

Every input ends, quickly: the text is short, numbers have a bounded size, and the size of
a power is known before it is computed.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

Number: TypeAlias = int | float

MAX_LENGTH = 1000
"""Characters of an expression."""

MAX_DEPTH = 50
"""Operations inside one another."""

MAX_DIGITS = 1000
"""Decimal digits of a whole number."""

MAX_BITS = math.ceil(MAX_DIGITS * math.log2(10))

_TOKEN = re.compile(
    r"\s*(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])|[A-Za-z_]\w*|\*\*|//|[-+*/%(),])\s*"
)


class CalculationError(ValueError):
    """The expression is none of this language, or its value is out of bounds."""


def calculate(expression: str) -> Number:
    """Return the value of `expression`.

    Numbers, ``+ - * / // % **``, parentheses, the functions of `FUNCTIONS`, and the
    constants ``pi`` and ``e``; everything means what it means in Python. Whole numbers stay
    exact, up to `MAX_DIGITS` digits.

    Raises:
        CalculationError: The text cannot be read, or a value is out of bounds or undefined.
    """
    if len(expression) > MAX_LENGTH:
        raise CalculationError(
            f"the expression has {len(expression)} characters: expected at most {MAX_LENGTH}"
        )
    _check_tokens(expression)
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, RecursionError, MemoryError) as error:
        # Deep nesting ends CPython's parser with the latter two.
        raise CalculationError(f"the expression cannot be read: {error}") from None
    try:
        return _value(tree.body, 0)
    except ZeroDivisionError:
        raise CalculationError("a division by zero has no value") from None
    except OverflowError:
        raise CalculationError("a value is too large for a floating-point number") from None


def _check_tokens(expression: str) -> None:
    # Python's own tokenizer warns on some texts, and accepts far more than is meant here.
    position = 0
    while position < len(expression):
        match = _TOKEN.match(expression, position)
        if match is None:
            found = expression[position:].lstrip()[:1] or " "
            hint = "; `**` is the power" if found == "^" else ""
            raise CalculationError(
                f"found {found!r} at character {position + 1}: expected numbers, "
                f"+ - * / // % ** ( ) and {', '.join(sorted(FUNCTIONS))}, pi, e{hint}"
            )
        position = match.end()


def _value(node: ast.expr, depth: int) -> Number:
    if depth > MAX_DEPTH:
        raise CalculationError(f"found more than {MAX_DEPTH} operations inside one another")
    match node:
        case ast.Constant(value=number) if type(number) in (int, float):
            return _bounded(number)  # type: ignore[arg-type]  # narrowed by its guard
        case ast.Name(id=name) if name in CONSTANTS:
            return CONSTANTS[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, depth + 1)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, depth + 1)
        case ast.BinOp():
            return _chain(node, depth)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            values = [_value(argument, depth + 1) for argument in arguments]
            try:
                return _bounded(FUNCTIONS[name](*values))
            except TypeError:
                raise CalculationError(
                    f"{name} does not take {len(values)} values like these"
                ) from None
        case ast.Name(id=name):
            raise CalculationError(
                f"found the name {name!r}: expected one of "
                f"{', '.join(sorted([*FUNCTIONS, *CONSTANTS]))}"
            )
    raise CalculationError(f"found {ast.unparse(node)!r}: expected arithmetic and nothing else")


def _chain(node: ast.BinOp, depth: int) -> Number:
    # A long sum leans to the left: walked down in a loop, its terms do not count as nesting.
    terms: list[tuple[ast.operator, ast.expr]] = []
    first: ast.expr = node
    while isinstance(first, ast.BinOp):
        terms.append((first.op, first.right))
        first = first.left
    value = _value(first, depth + 1)
    for operation, right in reversed(terms):
        apply = OPERATORS.get(type(operation))
        if apply is None:
            raise CalculationError("found an operator that is none of + - * / // % **")
        value = _bounded(apply(value, _value(right, depth + 1)))
    return value


def _bounded(value: Number) -> Number:
    if isinstance(value, complex):
        raise CalculationError("the value is no real number")
    if isinstance(value, float) and not math.isfinite(value):
        raise CalculationError("a value is too large for a floating-point number")
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise CalculationError(f"a value has more than {MAX_DIGITS} digits")
    return value


def _power(base: Number, exponent: Number) -> Number:
    if (
        isinstance(base, int)
        and isinstance(exponent, int)
        and abs(base) > 1
        # 2 ** (bits - 1) <= |base|: the power has at least this many bits.
        and (base.bit_length() - 1) * exponent > MAX_BITS
    ):
        raise CalculationError(f"the power has more than {MAX_DIGITS} digits")
    result: Number = base**exponent
    return result


def _round(value: Number, digits: Number = 0) -> Number:
    # Rounding a whole number to -n digits computes 10 ** n.
    if not isinstance(digits, int) or abs(digits) > MAX_DIGITS:
        raise CalculationError(
            f"round takes a whole number of digits from -{MAX_DIGITS} to {MAX_DIGITS}"
        )
    return round(value, digits) if digits else round(value)


def _sqrt(value: Number) -> Number:
    if value < 0:
        raise CalculationError("the square root of a negative number is no real number")
    return math.sqrt(value)


def _least(*values: Number) -> Number:
    return min(values) if values else _none("min")


def _most(*values: Number) -> Number:
    return max(values) if values else _none("max")


def _none(name: str) -> Number:
    raise CalculationError(f"{name} of nothing has no value")


OPERATORS: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}

FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "max": _most,
    "min": _least,
    "round": _round,
    "sqrt": _sqrt,
}

CONSTANTS: Mapping[str, float] = {"pi": math.pi, "e": math.e}


def show(value: Number) -> str:
    """Return `value` as text; of a floating-point number the digits that it really holds.

    A double holds 15 decimal digits (DBL_DIG of IEEE 754 binary64).
    """
    return str(value) if isinstance(value, int) else f"{value:.15g}"
