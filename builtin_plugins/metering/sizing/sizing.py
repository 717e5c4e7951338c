"""`Sizing`: what is reserved for a call."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hookgate import Ending, Host, ModelRef, ModelRequest, Turn, Usage
from hookgate.builtin_plugins.metering.sizing.outputs import Outputs
from hookgate.builtin_plugins.metering.sizing.ratios import Ratios
from hookgate.kit.tokens.bills import TRIMS, Wording, counted
from hookgate.kit.tokens.bounds import input_bound, sizes_of

if TYPE_CHECKING:
    from hookgate.kit.tokens.sizes import Sizes

DRAWS = frozenset(("audio", "modalities"))
"""Options by which a model answers with something else than text, which costs more."""


class Size(NamedTuple):
    """What is reserved for a call.

    Attributes:
        input_tokens: Of its input.
        output_tokens: Of its output: all that its provider is told that it may write.
        plain: Whether all of it is text, so that no dearer kind is billed.
    """

    input_tokens: int
    output_tokens: int
    plain: bool


class Sizing:
    """Says how large calls are, and learns of those that have ended.

    Args:
        host: The gateway.

    Attributes:
        outputs: What calls have written.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._ratios = Ratios()
        self._last: tuple[ModelRequest, Sizes] | None = None
        self._bound: tuple[ModelRef, int] | None = None
        self.outputs = Outputs()

    def of(self, request: ModelRequest) -> Size:
        """Return what is to be reserved for `request`.

        With a picture, a sound or a document in it the whole is taken at its bound.
        """
        sizes = self._sizes(request)
        if self._bound is None or self._bound[0] != request.model:
            self._bound = request.model, input_bound(self._host, request)
        most = self._bound[1]
        if not sizes.media:
            most = min(most, self._ratios.most(str(request.model), sizes.counts))
        plain = not sizes.media and DRAWS.isdisjoint(request.options)
        return Size(most, request.max_output_tokens, plain)

    def recounted(self, request: ModelRequest, usage: Usage) -> Usage:
        """Return an estimate with the input as the model's other bills have it."""
        sizes = self._sizes(request)
        known = None if sizes.media else self._ratios.count(str(request.model), sizes.counts)
        own = counted(self._host, request, Wording("", "")).input_tokens
        # What a provider has told before its end is better than both.
        if known is None or usage.total_input != usage.input_tokens or usage.input_tokens != own:
            return usage
        return replace(usage, input_tokens=known)

    def learn(self, turn: Turn, request: ModelRequest, ending: Ending, usage: Usage) -> None:
        """Learn of a call that has ended, where its provider's figures are of all of it."""
        if ending.status != "done":
            return
        self.outputs.note(turn.agent.name, request.cause, usage.total_output)
        if not usage.reported or not TRIMS.isdisjoint(request.options):
            return
        sizes = self._sizes(request)
        if not sizes.media:
            self._ratios.learn(str(request.model), sizes.counts, usage.total_input)

    def _sizes(self, request: ModelRequest) -> Sizes:
        """Return what `request` is made of; of one call it is asked twice before, and behind it."""
        if self._last is not None:
            known, sizes = self._last
            if (
                known.messages is request.messages
                and known.system is request.system
                and known.tools is request.tools
                and known.options is request.options
            ):
                return sizes
        sizes = sizes_of(request)
        self._last, self._bound = (request, sizes), None
        return sizes
