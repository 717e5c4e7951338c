"""Measures one call of one implementation. Made only while somebody listens to spans."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from hookgate.core.domain.events import CUT_SHORT, HookSpan
from hookgate.core.hooks.dispatch import Failed

if TYPE_CHECKING:
    from hookgate.core.hooks.dispatch import Implementation

WORDS_CHARS = 80

LIMIT = 0.05
"""Seconds for which an implementation may hold the event loop before that is said of it."""

HELD = "held the event loop"

_CUT_SHORT: Any = object()

_TELLING = ("effect", "status", "code", "reason", "message")


class Span:
    """One call that is going on.

    Attributes:
        hook: The hook's name.
    """

    def __init__(self, implementation: Implementation, args: tuple[Any, ...]) -> None:
        chain = implementation.chain
        self.hook = chain.name
        self._plugin = implementation.plugin
        self._turn = "" if chain.turn is None else str(getattr(args[chain.turn], "id", ""))
        self._at = perf_counter()
        self._value: Any = _CUT_SHORT
        self._waited = True

    def end(self, value: Any, *, waited: bool) -> None:
        """Take note of what the call came to: a result, None or `Failed`.

        Args:
            value: That.
            waited: Whether it could let others run meanwhile.
        """
        self._value = value
        self._waited = waited

    def closed(self) -> HookSpan:
        """Return the span, which ends now."""
        outcome, failed = _in_words(self._value)
        seconds = perf_counter() - self._at
        held = not self._waited and seconds > LIMIT
        if held:
            outcome += f"; {HELD} for {seconds * 1000:.0f} ms"
        return HookSpan(
            hook=self.hook,
            plugin=self._plugin,
            seconds=seconds,
            outcome=outcome,
            failed=failed,
            held=held,
            turn=self._turn,
            at=self._at,
        )


def _in_words(value: Any) -> tuple[str, bool]:
    """Return in a few words what a call came to, and whether it failed."""
    if value is _CUT_SHORT:
        return CUT_SHORT, True
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
