"""What a call is charged, whichever way it has ended.

| the call | is charged |
|---|---|
| was not sent | nothing |
| ended with the provider's own figures | those |
| ended without figures, or with impossible ones | what was counted here, marked as estimated |
| ended behind its answer, with neither figures nor the mark of an end | what was reserved |
| was refused by the provider, before a first token | nothing: no provider bills an error |
| was cut, cancelled or lost on the way | what was reserved: the provider may have gone on |
"""

from __future__ import annotations

from collections.abc import Callable

from hookgate import Ending, ModelRequest, Usage

UNBILLED = frozenset(
    ("unreachable", "rate_limited", "overloaded", "auth", "rejected", "context_overflow", "server")
)
"""Kinds of `ProviderError` that say that the provider has answered with an error, or was not
reached: it has not begun to write."""


def charged(
    request: ModelRequest, ending: Ending, usage: Usage | None, bound: Callable[[], int]
) -> Usage:
    """Return what a call is charged.

    Args:
        request: The call, as it was sent.
        ending: How it ended.
        usage: What the gateway knows of its tokens.
        bound: Returns what was reserved for its input.
    """
    if not ending.sent:
        return Usage()
    # Some providers tell what was used so far with every piece: only behind the end is it all.
    over = ending.status == "done" or (
        ending.stop is not None and usage is not None and usage.reported
    )
    if usage is not None and over:
        return usage
    if usage is None and not ending.started and ending.kind in UNBILLED:
        return Usage()
    told = usage or Usage()
    # What is known keeps its kinds, which may cost more than plain input does; the rest is added.
    rest = Usage(
        input_tokens=max(bound() - told.total_input, 0),
        output_tokens=max(request.max_output_tokens - told.total_output, 0),
        reported=False,
    )
    return told + rest


def billed(ending: Ending, used: Usage) -> bool:
    """Whether a call costs anything, so also what its provider takes for each call.

    Args:
        ending: How it ended.
        used: What it is charged, as `charged` has said.
    """
    return ending.sent and (used.total > 0 or ending.started or ending.kind not in UNBILLED)
