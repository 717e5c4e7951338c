"""Reading token counts that a provider reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookgate.core.turn.tools.soundness import MAX_TOKENS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MAX_TOKENS", "UsageError", "count_of", "table_of"]


class UsageError(ValueError):
    """A reported figure cannot be true: negative, no whole number, or far too large."""


def table_of(usage: object, name: str = "usage") -> Mapping[str, Any]:
    """Return a table of figures, {} where there is none.

    Raises:
        UsageError: Something else stands there.
    """
    if usage is None:
        return {}
    if not isinstance(usage, dict):
        raise UsageError(f"found {name} = {str(usage)[:40]!r}, expected an object")
    return usage


def count_of(usage: Mapping[str, Any], *names: str) -> int | None:
    """Return the count under the first of `names` that is there, or None.

    Raises:
        UsageError: What stands there is no possible count.
    """
    for name in names:
        value = usage.get(name)
        if value is None:
            continue
        if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_TOKENS:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_TOKENS:
            raise UsageError(
                f"found {name} = {str(value)[:40]!r}, expected 0 to {MAX_TOKENS} as a number"
            )
        return value
    return None
