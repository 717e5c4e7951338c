"""How many tokens each model makes of what a request is made of, learned of what it has billed."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

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
            counts: How much there is of each kind; see `hookgate.kit.tokens.sizes`.
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
