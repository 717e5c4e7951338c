"""How much calls write: what an answer must have room for, near the end of a budget."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any

from hookgate import ModelRequest

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
