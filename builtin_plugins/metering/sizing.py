"""How large a call may be: what is reserved of its input, and how much it may write."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from hookgate import Ending, Host, ModelRequest, Turn, Usage
from hookgate.kit.tokens.bills import TRIMS, Wording, counted
from hookgate.kit.tokens.bounds import input_bound, sizes_of
from hookgate.kit.tokens.ratios import Ratios

LEAST = 256
"""Tokens of output below which no answer is worth its input."""
SAMPLES = 200
"""Answers of each agent, by what they were for, that are remembered."""
ENOUGH = 20
"""So many there must be before the longest of them say anything."""
MOST_KEPT = 1000


class Outputs:
    """Remembers how much the calls of each agent have written, each cause by itself."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], deque[int]] = OrderedDict()

    def note(self, agent: str, cause: str, tokens: int) -> None:
        """Remember what an answer has written that came to its end."""
        seen = self._seen.get((agent, cause))
        if seen is None:
            seen = self._seen[agent, cause] = deque(maxlen=SAMPLES)
            if len(self._seen) > MOST_KEPT:
                self._seen.popitem(last=False)
        self._seen.move_to_end((agent, cause))
        seen.append(tokens)

    def least(self, agent: str, request: ModelRequest) -> int:
        """Return the tokens below which a call is refused, not cut.

        It is what half of the agent's calls have used, and `LEAST` at least, so that most answers
        come to their end; never more than the request asks for.
        """
        usual = max(LEAST, self._share(agent, request.cause, 0.5) or 0)
        return min(usual + _thinking(request.options), request.max_output_tokens)

    def ample(self, agent: str, request: ModelRequest) -> int:
        """Return the tokens that are enough for a call: twice what 99 of 100 have used."""
        longest = self._share(agent, request.cause, 0.99)
        most = request.max_output_tokens
        if longest is None:
            return most
        return min(max(2 * longest, self.least(agent, request)), most)

    def _share(self, agent: str, cause: str, share: float) -> int | None:
        seen = self._seen.get((agent, cause))
        if seen is None or len(seen) < ENOUGH:
            return None
        return sorted(seen)[int(share * (len(seen) - 1))]


def _thinking(options: Mapping[str, Any]) -> int:
    """Return what a request gives to thoughts: Anthropic takes no lower limit than that."""
    thinking = options.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    return budget if type(budget) is int and budget > 0 else 0


# -- `Sizing`: what is reserved for a call ---------------------------------------

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
        self.outputs = Outputs()

    def of(self, request: ModelRequest) -> Size:
        """Return what is to be reserved for `request`.

        With a picture, a sound or a document in it the whole is taken at its bound.
        """
        sizes = sizes_of(request)
        most = input_bound(self._host, request)
        if not sizes.media:
            most = min(most, self._ratios.most(str(request.model), sizes.counts))
        plain = not sizes.media and DRAWS.isdisjoint(request.options)
        return Size(most, request.max_output_tokens, plain)

    def recounted(self, request: ModelRequest, usage: Usage) -> Usage:
        """Return an estimate with the input as the model's other bills have it."""
        sizes = sizes_of(request)
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
        sizes = sizes_of(request)
        if not sizes.media:
            self._ratios.learn(str(request.model), sizes.counts, usage.total_input)
