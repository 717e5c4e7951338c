"""What one model costs, exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from math import lcm
from operator import attrgetter
from typing import NamedTuple

from hookgate import Usage
from hookgate.builtin_plugins.metering.calls import PICO

MILLION = 10**6
ZERO = Decimal(0)

MOST_OUTPUT = 10**9
"""Tokens of output that cost nothing, of which there is no end."""
CACHED = ("cache_read_tokens", "cache_write_tokens", "cache_write_hour_tokens")
_cached_of = attrgetter(*CACHED)


class Rate(NamedTuple):
    """Dollars for each million tokens of one kind.

    Attributes:
        base: For calls whose input is short.
        tiers: For all tokens of a call whose input is longer than so many tokens, in order.
    """

    base: Decimal
    tiers: tuple[tuple[int, Decimal], ...] = ()


def filled(given: Mapping[str, Rate]) -> dict[str, Rate]:
    """Return a rate for every count of `Usage`, of those that are known.

    Args:
        given: ``input_tokens`` and ``output_tokens`` at least.
    """
    usual = given["input_tokens"]
    rates = {name: given.get(name, usual) for name in Usage.INPUTS}
    if "cache_write_hour_tokens" not in given:
        rates["cache_write_hour_tokens"] = rates["cache_write_tokens"]
    return rates | {name: given.get(name, given["output_tokens"]) for name in Usage.OUTPUTS}


class _Exact(NamedTuple):
    """A rate as whole numbers: parts of a picodollar for each token."""

    base: int
    tiers: tuple[tuple[int, int], ...]

    def at(self, size: int) -> int:
        """Return what a token costs in a call with `size` tokens of input."""
        for start, price in reversed(self.tiers):
            if size > start:
                return price
        return self.base


def _most(rates: Sequence[_Exact]) -> _Exact:
    """Return the most that a token of any of `rates` costs, which never falls."""
    most = base = max(rate.base for rate in rates)
    tiers = []
    for start, price in sorted(tier for rate in rates for tier in rate.tiers):
        most = max(most, price)
        tiers.append((start, most))
    return _Exact(base, tuple(tiers))


@dataclass(frozen=True, slots=True)
class Tariff:
    """The prices of one model at one time.

    Attributes:
        version: What they are, so that a past cost can be derived again: the library and its
            version, and the digest of what the settings say.
        known: Whether anybody has said what the model costs.
        source: Where they stand, for people.
        given: What was said of the counts of `Usage`.
        fee: Dollars for each call, whatever its length.
        rates: A `Rate` for every one of them.
    """

    version: str
    known: bool
    source: str
    given: Mapping[str, Rate] = field(hash=False, repr=False)
    fee: Decimal = ZERO
    rates: Mapping[str, Rate] = field(init=False, hash=False)
    _fee: int = field(init=False, repr=False, compare=False)
    _unit: int = field(init=False, repr=False, compare=False)
    _exact: Mapping[str, _Exact] = field(init=False, repr=False, compare=False)
    _worst: Mapping[bool, Sequence[_Exact]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", filled(self.given))
        prices = [*_prices(self.rates.values()), self.fee]
        unit = lcm(*(price.as_integer_ratio()[1] for price in prices))

        def whole(price: Decimal) -> int:
            above, below = price.as_integer_ratio()
            return above * (PICO // MILLION) * (unit // below)

        exact = {
            name: _Exact(whole(rate.base), tuple((at, whole(price)) for at, price in rate.tiers))
            for name, rate in self.rates.items()
        }
        object.__setattr__(self, "_unit", unit)
        object.__setattr__(self, "_fee", whole(self.fee) * MILLION)
        object.__setattr__(self, "_exact", exact)
        # What is heard, seen or spoken costs far more than text does.
        texts = {name: rate for name, rate in exact.items() if name not in Usage.MEDIA}
        worst = {
            plain: [
                _most([rates[name] for name in side if name in rates])
                for side in (Usage.INPUTS, Usage.OUTPUTS)
            ]
            for plain, rates in ((False, exact), (True, texts))
        }
        object.__setattr__(self, "_worst", worst)

    @property
    def free(self) -> bool:
        """Whether it is known that nothing is charged."""
        return self.known and not self.fee and not any(_prices(self.rates.values()))

    def cost(self, usage: Usage) -> int:
        """Return what a call costs, in picodollars, rounded up to a whole one."""
        size = usage.total_input
        parts = self._fee
        for name, rate in self._exact.items():
            if count := getattr(usage, name):
                parts += count * (rate.at(size) if rate.tiers else rate.base)
        return -(-parts // self._unit)

    def worst(self, input_tokens: int, output_tokens: int, *, plain: bool = False) -> int:
        """Return the most that a call can cost, in picodollars.

        It is that of the dearest kinds of input and of output, and never less for more tokens.

        Args:
            input_tokens: Tokens of its input.
            output_tokens: Tokens of its output.
            plain: Whether all of it is text: what is heard, seen or spoken costs far more.
        """
        return -(-self._worst_parts(input_tokens, output_tokens, plain) // self._unit)

    def _worst_parts(self, input_tokens: int, output_tokens: int, plain: bool) -> int:
        dearest_input, dearest_output = self._worst[plain]
        parts = self._fee + input_tokens * dearest_input.at(input_tokens)
        return parts + output_tokens * dearest_output.at(input_tokens)

    def output_for(self, room: int, input_tokens: int, *, plain: bool = False) -> int:
        """Return the most tokens of output with which a call costs `room` at most, -1 for none.

        Args:
            room: What it may cost, in picodollars.
            input_tokens: Tokens of its input.
            plain: Whether all of it is text.
        """
        left = room * self._unit - self._worst_parts(input_tokens, 0, plain)
        each = (self._worst[plain])[1].at(input_tokens)
        if left < 0:
            return -1
        return left // each if each else MOST_OUTPUT

    def saved(self, usage: Usage) -> int:
        """Return what caching saved, against input that is not cached; below 0 where it cost more.

        Rounded down: never more than was saved.
        """
        if not any(_cached_of(usage)):
            return 0
        size, rates = usage.total_input, self._exact
        usual = rates["input_tokens"].at(size)
        parts = 0
        for name in CACHED:
            if count := getattr(usage, name):
                parts += count * (usual - rates[name].at(size))
        return parts // self._unit


def _prices(rates: Iterable[Rate]) -> Iterable[Decimal]:
    for rate in rates:
        yield rate.base
        for _, price in rate.tiers:
            yield price
