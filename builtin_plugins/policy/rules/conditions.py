"""Conditions of rules: CEL, the Common Expression Language, compiled once.

CEL (https://cel.dev) always ends, has no side effects, and knows errors as values: what asks for
an argument that is not there, or a flag that nobody declared, has no result. That is neither
true nor false, and a rule says what follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cel_expr_python import cel

MAX_CHARS = 2000
"""The longest condition."""


VARIABLES = ("args", "tool", "turn", "now", "budget")
"""What a condition may speak of."""

TEXT = r"""[rRbB]{0,2}(?:\'{3}.*?\'{3}|\"{3}.*?\"{3}|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")"""
"""A text in CEL, for `re.DOTALL`."""

_BUDGET = re.compile(
    TEXT + r"""|(?<![.\w])budget\s*\(\s*(?P<name>"[^"\\]*"|'[^'\\]*')\s*\)""", re.DOTALL
)


class ConditionError(ValueError):
    """A condition cannot be compiled.

    Attributes:
        line: The line within the condition, from 1; None where it is not known.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@cache
def _environment() -> cel.Env:
    """Return what conditions may speak of: see `Facts.for_conditions`.

    CEL is loaded by the first condition: no rule that comes with hookgate has one.
    """
    from cel_expr_python import cel

    return cel.NewEnv(variables=dict.fromkeys(VARIABLES, cel.Type.DYN))


class Variables:
    """The variables of one call, made once for all conditions that look at them."""

    __slots__ = ("_activation", "_data")

    def __init__(self, data: Callable[[], Mapping[str, Any]]) -> None:
        self._data = data
        self._activation: cel.Activation | None = None

    @property
    def activation(self) -> cel.Activation:
        """What conditions are evaluated with."""
        if self._activation is None:
            data = self._data()
            # CEL's binding ends a text at a NUL: no condition would see what stands behind it.
            if "\\x00" in repr(data):
                data = _without_nul(data)
            self._activation = _environment().Activation(data)
        return self._activation


def _without_nul(value: Any) -> Any:
    """Return `value` with U+FFFD for each NUL in it."""
    match value:
        case str():
            return value.replace("\0", "\ufffd")
        case Mapping():
            return {_without_nul(key): _without_nul(item) for key, item in value.items()}
        case list() | tuple():
            return [_without_nul(item) for item in value]
    return value


class Condition:
    """A compiled condition.

    Attributes:
        text: The condition.
        budgets: The names of the budgets that it asks about.
    """

    __slots__ = ("_expression", "budgets", "text")

    def __init__(self, text: str, *, limit: int | None = MAX_CHARS) -> None:
        """Compile `text`, of at most `limit` characters.

        Raises:
            ConditionError: It is too long, no CEL, or speaks of what there is not.
        """
        self.text = text
        if limit is not None and len(text) > limit:
            raise ConditionError(f"{len(text)} characters: expected at most {limit}")
        named: set[str] = set()

        def looked_up(found: re.Match[str]) -> str:
            name = found["name"]
            if name is None:
                return found[0]
            named.add(name[1:-1])
            return f"budget[{name}]"

        # A budget is looked up by its name, so that what is asked about is known beforehand.
        compiled = _BUDGET.sub(looked_up, text)
        self.budgets = frozenset(named)
        try:
            self._expression = _environment().compile(compiled)
        except RuntimeError as error:
            told = _told(str(error))
            if "reference to 'budget'" in told:
                told = "`budget(...)` takes the name of one budget in quotes, as in budget('daily')"
            raise ConditionError(told) from None

    def __reduce__(self) -> tuple[type[Condition], tuple[str]]:
        """Say how it is made anew: another process compiles it again."""
        return Condition, (self.text,)

    @property
    def is_boolean(self) -> bool:
        """Whether it can be true or false, as far as that is known beforehand."""
        return self._expression.return_type().name() in ("BOOL", "DYN")

    def holds(self, variables: Variables) -> bool | str:
        """Return whether it holds, or why that cannot be said."""
        found = self._expression.eval(activation=variables.activation)
        value = found.value()
        if value is True or value is False:
            return bool(value)
        if found.type().name() == "ERROR":
            return str(value)
        return f"it is {found.type().name()} and not true or false"

    def value(self, variables: Variables) -> Any:
        """Return what it comes to, as JSON has it.

        Raises:
            ConditionError: It comes to nothing, or to what JSON cannot hold.
        """
        found = self._expression.eval(activation=variables.activation)
        value = found.plain_value()
        if found.type().name() == "ERROR":
            raise ConditionError(str(found.value()))
        if not isinstance(value, str | bool | int | float | list | dict | None):
            raise ConditionError(f"it is {found.type().name()}, which JSON cannot hold")
        return value


def _told(message: str) -> str:
    """Return the part of CEL's message that says what is wrong, on one line."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    first = lines[0] if lines else message
    for mark in ("INVALID_ARGUMENT:", "ERROR:", "<input>:"):
        first = first.removeprefix(mark).strip()
    return first.removesuffix("[INVALID_ARGUMENT]").strip()[:300]
