"""Reading token counts that a provider reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MAX_TOKENS", "UsageError", "count_of"]

MAX_TOKENS = 1_000_000_000
"""The most tokens that one call can have used; beyond it a figure is an error. The longest
contexts on offer hold some ten million."""


class UsageError(ValueError):
    """A reported figure cannot be true: negative, no whole number, or far too large."""


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
