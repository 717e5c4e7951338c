"""How large a call may be: what is reserved of its input, and how much it may write."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from hookgate import Ending, Host, ModelRequest, Turn, Usage
from hookgate.kit.tokens.bills import TRIMS, Wording, counted
from hookgate.kit.tokens.bounds import input_bound, sizes_of
from hookgate.kit.tokens.sizes import KINDS, TYPICAL

MARGIN = 4.0
"""Deviations above the mean that are reserved. It costs little to be generous: what a call does not
need it gives back, so that only the last call of a budget has less room."""
SPREAD = 2.0
"""Deviations from the typical tokens of a byte to a whole one, before any bill was seen."""
FIRST_NOISE = 0.05
"""By how much texts of one kind are taken to differ before any was compared with another."""
LEAST_NOISE, MOST_NOISE = 0.01, 0.25
MEMORY = 0.9
"""The share that stays of what was known of the noise with each call."""
DRIFT = 0.005
"""By so much of itself a ratio may change from call to call: a name may get another tokenizer."""
STEP = 3.0
"""Deviations that one bill may move what is known by; what lies further off is an odd text."""
ODD = 3
"""So many bills in a row that lie further above are no odd texts, but another tokenizer. Below
nobody is hurt, and who sends texts of few tokens must not make room for others."""
MOST_MODELS = 256
"""Models of which ratios are kept: those that were asked last."""


class Ratios:
    """Learns of each model how many tokens its input takes."""

    def __init__(self) -> None:
        self._models: OrderedDict[str, _Model] = OrderedDict()

    def most(self, model: str, counts: Sequence[int]) -> int:
        """Return the tokens that a model makes of `counts` at most, with a margin.

        Args:
            model: Its name and its provider's.
            counts: How much there is of each kind; see `kit.tokens.sizes.Sizes`.
        """
        known, most = self._models.get(model), sum(counts)
        if known is None:
            return most
        mean, variance = known.guess(counts)
        return min(math.ceil(mean + MARGIN * math.sqrt(variance)), most)

    def count(self, model: str, counts: Sequence[int]) -> int | None:
        """Return how many tokens a model makes of `counts`; None for one that is not known."""
        known = self._models.get(model)
        return None if known is None else round(known.guess(counts)[0])

    def learn(self, model: str, counts: Sequence[int], tokens: int) -> None:
        """Take in what a model has billed for `counts`."""
        known = self._models.get(model)
        if known is None:
            known = self._models[model] = _Model()
            if len(self._models) > MOST_MODELS:
                self._models.popitem(last=False)
        self._models.move_to_end(model)
        known.learn(counts, min(tokens, sum(counts)))


class _Model:
    """What is known of one model.

    Attributes:
        means: Tokens of a byte, by kind.
        spread: Their covariance. It begins so that a token a byte lies `SPREAD` deviations off.
        noise: The square of the share by which bills differ from what is known.
        odd: How many bills in a row lay far above what was known.
    """

    __slots__ = ("means", "noise", "odd", "spread")

    def __init__(self) -> None:
        self.means = list(TYPICAL)
        self.noise = FIRST_NOISE**2
        self.forget()

    def forget(self) -> None:
        """Let everything be as uncertain as it was at first."""
        places = range(len(KINDS))
        self.spread = [
            [((1 - TYPICAL[one]) / SPREAD) ** 2 if one == other else 0.0 for other in places]
            for one in places
        ]
        self.odd = 0

    def guess(self, counts: Sequence[int]) -> tuple[float, float]:
        """Return how many tokens there are, and the variance of that."""
        there = [place for place, count in enumerate(counts) if count]
        mean = sum(counts[place] * self.means[place] for place in there)
        own = sum(
            counts[one] * counts[other] * self.spread[one][other]
            for one in there
            for other in there
        )
        return mean, max(own, 0.0) + self.noise * mean * mean

    def learn(self, counts: Sequence[int], tokens: int) -> None:
        """Take in one bill."""
        there = [place for place, count in enumerate(counts) if count]
        for place in there:
            self.spread[place][place] += (DRIFT * self.means[place]) ** 2
        mean, variance = self.guess(counts)
        if mean <= 0:
            return
        off = tokens - mean
        own = variance - self.noise * mean * mean
        seen = max(off * off - own, 0.0) / (mean * mean)
        noise = MEMORY * self.noise + (1 - MEMORY) * min(seen, 1.0)
        self.noise = min(max(noise, LEAST_NOISE**2), MOST_NOISE**2)
        reach = STEP * math.sqrt(variance)
        self.odd = self.odd + 1 if off > reach else 0
        if self.odd == ODD:
            self.forget()
            mean, variance = self.guess(counts)
            reach = STEP * math.sqrt(variance)
        off = min(max(off, -reach), reach)
        along = {
            row: sum(self.spread[row][place] * counts[place] for place in there)
            for row in range(len(KINDS))
        }
        for row, share in along.items():
            if not share:
                continue
            self.means[row] = min(max(self.means[row] + share / variance * off, 0.0), 1.0)
            for column, other in along.items():
                self.spread[row][column] -= share * other / variance
            self.spread[row][row] = max(self.spread[row][row], 0.0)


# -- outputs ---------------------------------------------------------------------

# How much calls write: what an answer must have room for, near the end of a budget.

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
