"""Measures one call of one implementation. Made only while somebody listens to spans."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from hookgate.core._dispatch import Failed
from hookgate.core.events import HookSpan

if TYPE_CHECKING:
    from hookgate.core._contracts import Chain
    from hookgate.core._dispatch import Implementation

__all__ = ["Span"]

WORDS_CHARS = 80

_CUT_SHORT: Any = object()

_TELLING = ("effect", "status", "code", "reason", "message")


class Span:
    """One call that is going on.

    Attributes:
        hook: The hook's name.
    """

    def __init__(self, chain: Chain, implementation: Implementation, args: tuple[Any, ...]) -> None:
        self.hook = chain.name
        self._plugin = implementation.plugin
        self._turn = "" if chain.turn is None else str(getattr(args[chain.turn], "id", ""))
        self._at = perf_counter()
        self._value: Any = _CUT_SHORT

    def end(self, value: Any) -> None:
        """Take note of what the call came to: a result, None or `Failed`."""
        self._value = value

    def closed(self) -> HookSpan:
        """Return the span, which ends now."""
        outcome, failed = _in_words(self._value)
        return HookSpan(
            hook=self.hook,
            plugin=self._plugin,
            seconds=perf_counter() - self._at,
            outcome=outcome,
            failed=failed,
            turn=self._turn,
            at=self._at,
        )


def _in_words(value: Any) -> tuple[str, bool]:
    """Return in a few words what a call came to, and whether it failed."""
    if value is _CUT_SHORT:
        return "cancelled from outside", True
    if type(value) is Failed:
        return value.failure.message, True
    if value is None:
        return "nothing", False
    name = type(value).__name__
    if isinstance(value, str | bytes | list | tuple | set | frozenset | dict):
        return f"{name} of {len(value)}", False
    words = [name]
    for field in _TELLING:
        told = getattr(value, field, None)
        if told is not None and told != "" and not callable(told):
            words.append(str(getattr(told, "name", told)).partition("\n")[0][:WORDS_CHARS])
    return " ".join(words), False
