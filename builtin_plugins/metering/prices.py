"""What each model costs: by the settings, else by the library, else at the worst."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from fnmatch import translate
from hashlib import sha256
from math import lcm
from operator import attrgetter
from typing import Any, NamedTuple

from hookgate import ModelRef, Usage
from hookgate.builtin_plugins.metering.calls import PICO
from hookgate.builtin_plugins.metering.settings import Listed, Price

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


# -- the book ----------------------------------------------------------------------

DEMO = Tariff(
    "free",
    True,
    "the demo provider asks nobody",
    dict.fromkeys(("input_tokens", "output_tokens"), Rate(ZERO)),
)
"""Unless the settings say otherwise."""

MAX_KEPT = 4096
"""Models whose prices are kept; their names come with requests."""


LOCAL = Tariff(
    "free",
    True,
    "its provider is on this machine or in its own network",
    dict.fromkeys(("input_tokens", "output_tokens"), Rate(ZERO)),
)
"""What a model of one's own costs, where the settings do not say something else."""


class Prices:
    """The prices of all models.

    Args:
        overrides: Prices by globs of ``provider/model``. An exact name comes before globs, and
            of several globs the one that says most.
        worst: What a model costs that nobody knows; it has `input` and `output`.
        local: Whether a provider is on this machine or in its own network.

    Raises:
        ValueError: `worst` lacks one of these.
    """

    def __init__(
        self,
        overrides: Mapping[str, Price],
        worst: Price,
        *,
        local: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.local = local
        self._library: Library | None = None
        self._loading = asyncio.Lock()
        self._kept: dict[ModelRef, Priced | Tariff] = {}
        self.take(overrides, worst)

    def take(self, overrides: Mapping[str, Price], worst: Price) -> None:
        """Take other settings, as the constructor does.

        Raises:
            ValueError: `worst` lacks `input` or `output`; everything stays as it was.
        """
        if not worst.whole:
            raise ValueError("found a worst price without `input` and `output`, expected both")
        self._worst = Tariff("unknown", False, "the worst price of the settings", *_given(worst))
        self._overrides = dict(overrides)
        self._globs = [
            (name, re.compile(translate(name)).match)
            for name in sorted(self._overrides, key=_says, reverse=True)
        ]
        self._kept.clear()

    @property
    def version(self) -> str:
        """The library and its version, "" before it is loaded."""
        return self._library.version if self._library else ""

    async def load(self) -> None:
        """Load the library's data, once, on a thread."""
        if self._library is None:
            async with self._loading:
                if self._library is None:
                    self._library = await asyncio.to_thread(Library)

    def of(self, model: ModelRef, at: datetime) -> Tariff:
        """Return what a model costs at a time.

        Raises:
            RuntimeError: The data has not been loaded.
        """
        kept = self._kept.get(model)
        if kept is None:
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            kept = self._kept[model] = self._find(model)
        return kept if isinstance(kept, Tariff) else kept.at(at) or self._worst

    def advice(self, model: ModelRef) -> str:
        """Return what to do about a model that nobody knows."""
        library = self._loaded()
        made_by = library.guess(model.model)
        section = f'[plugin.metering.prices."{model}"]'
        if made_by and made_by != library.provider(model.provider):
            return f'add {section} with `as = "{made_by}"`, or with its own `input` and `output`'
        return f"add {section} with `input` and `output`, dollars for each million tokens"

    def _loaded(self) -> Library:
        if self._library is None:
            raise RuntimeError("the prices are not loaded: await `Prices.load` first")
        return self._library

    def _find(self, model: ModelRef) -> Priced | Tariff:
        name = str(model)
        if name in self._overrides:
            return self._overridden(name, self._overrides[name], model)
        for glob, matches in self._globs:
            if matches(name):
                return self._overridden(glob, self._overrides[glob], model)
        if model.provider == "demo":
            return DEMO
        library = self._loaded()
        provider = library.provider(model.provider)
        found = library.find(provider, model.model) if provider else None
        if found is None and self.local(model.provider) and self._is_ones_own(model.model):
            return LOCAL
        return found or self._worst

    def _is_ones_own(self, model: str) -> bool:
        """Whether a model that is asked for nearby runs there.

        A proxy may pass the names of those on that are sold; a tag such as ``:8b`` is a file's.
        """
        return ":" in model or not self._loaded().guess(model)

    def _overridden(self, glob: str, price: Price, model: ModelRef) -> Priced | Tariff:
        """Return what the settings say, over what the library does where they leave things out."""
        digest = sha256(price.model_dump_json(by_alias=True, exclude_none=True).encode())
        version = f"settings {digest.hexdigest()[:8]}"
        source = f'settings "{glob}"'
        if price.whole:
            return Tariff(version, True, source, *_given(price))
        library = self._loaded()
        named, _, other = price.as_.partition("/")
        provider = library.provider(named or model.provider)
        found = library.find(provider, other or model.model) if provider else None
        if found is None:
            return self._worst
        given, _ = _given(price)
        return found.changed(
            lambda tariff: replace(
                tariff,
                version=f"{version} on {tariff.version}",
                source=f"{source} on {tariff.source}",
                given={**tariff.given, **given},
                fee=tariff.fee if price.fee is None else price.fee,
            )
        )


def _says(glob: str) -> tuple[int, str]:
    """Order globs by how much they say."""
    return len(glob) - sum(map(glob.count, "*?[]")), glob


def _given(price: Price) -> tuple[Mapping[str, Rate], Decimal]:
    """Return what is said of the counts of `Usage`, and the fee of a call."""
    given = {kind: Rate(value) for kind in Usage.COUNTS if (value := price.of(kind)) is not None}
    return given, price.fee or ZERO


# -- the library genai-prices, which brings its data along ------------------------------

NAMES: Mapping[str, tuple[str, ...]] = {
    f"{kind}_tokens": listed.names
    for kind, price in Price.model_fields.items()
    for listed in price.metadata
    if isinstance(listed, Listed)
}
"""The library's names of the prices of each count."""

ALSO = {
    "gemini": "google",
    "google-ai": "google",
    "vertex": "google",
    "vertex-ai": "google",
    "xai": "x-ai",
    "grok": "x-ai",
    "bedrock": "aws",
    "aws-bedrock": "aws",
    "azure-openai": "azure",
    "moonshot": "moonshotai",
    "kimi": "moonshotai",
    "claude": "anthropic",
    "together-ai": "together",
    "fireworks-ai": "fireworks",
    "copilot": "github-copilot",
}
"""Other names that settings give to the providers that the library knows."""

HOUR = 2
"""How many times as much as input Claude's writes to the cache cost that stay for an hour, as
Anthropic says in its documentation of prompt caching."""

FREE = ":free"
"""How the names of models end that a provider gives away; the library has no prices of these."""


class Priced(NamedTuple):
    """One model of the library, whose prices may depend on the time.

    Attributes:
        choices: Tariffs, and when they apply; the last one that does counts, and the first one
            where none does.
    """

    choices: Sequence[tuple[Callable[[datetime], bool] | None, Tariff | None]]

    def at(self, at: datetime) -> Tariff | None:
        """Return the tariff at a time, None where the library has no prices for tokens then."""
        for applies, tariff in reversed(self.choices):
            if applies is None or applies(at):
                return tariff
        return self.choices[0][1]

    def changed(self, change: Callable[[Tariff], Tariff]) -> Priced:
        """Return the same with all tariffs changed."""
        return Priced(
            [(when, None if tariff is None else change(tariff)) for when, tariff in self.choices]
        )


class Library:
    """The library's data, and what of it has been looked up."""

    def __init__(self) -> None:
        # Here, and not above: it takes a while, and loads an HTTP client. Nothing of it asks
        # the network unless it is told to.
        from genai_prices import __version__
        from genai_prices.data import providers

        self.version = f"genai-prices {__version__}"
        self._providers = providers
        self._by_id = {provider.id: provider for provider in providers}

    def provider(self, name: str) -> str:
        """Return the library's name of a provider of the settings, "" where it knows none."""
        known = name.lower().strip().replace("_", "-")
        known = ALSO.get(known, known)
        for found in (known, known.replace("-", "_")):
            if found in self._by_id:
                return found
        return ""

    def find(self, provider: str, model: str) -> Priced | None:
        """Return a model's prices, None where the library does not know it.

        Args:
            provider: One of the library's own names.
            model: The model's name at that provider.
        """
        found = self._by_id[provider]
        info = found.find_model(model, all_providers=self._providers)
        if info is None:
            return None
        source = f"genai-prices {provider}/{info.id}"
        prices: list[Any] = info.prices if isinstance(info.prices, list) else [info]
        choices: list[tuple[Callable[[datetime], bool] | None, Tariff | None]] = []
        for one in prices:
            constraint = getattr(one, "constraint", None)
            rates = self._rates(one.prices, model)
            calls = one.prices.requests_kcount
            fee = calls / 1000 if isinstance(calls, Decimal) else ZERO
            tariff = None if rates is None else Tariff(self.version, True, source, rates, fee)
            choices.append((None if constraint is None else constraint.active, tariff))
        if not choices or all(tariff is None for _, tariff in choices):
            return None
        return Priced(choices)

    def guess(self, model: str) -> str:
        """Return a provider that makes a model of this name, "" where there is none."""
        for provider in self._providers:
            makes = provider.model_match
            if (
                makes is not None
                and makes.is_match(model.lower())
                and self.find(provider.id, model) is not None
            ):
                return provider.id
        return ""

    def _rates(self, prices: Any, model: str) -> Mapping[str, Rate] | None:
        """Return what is said of each count, None where the library does not price tokens."""
        rates: dict[str, Rate] = {}
        for kind, names in NAMES.items():
            for name in names:
                if (price := getattr(prices, name)) is not None:
                    rates[kind] = _rate(price)
                    break
        if not rates and model.lower().endswith(FREE):
            nothing = Rate(ZERO)
            return {"input_tokens": nothing, "output_tokens": nothing}
        if not {"input_tokens", "output_tokens"} <= rates.keys():
            return None
        if "claude" in model.lower() and "cache_write_hour_tokens" not in rates:
            usual = rates["input_tokens"]
            rates["cache_write_hour_tokens"] = Rate(
                usual.base * HOUR, tuple((start, price * HOUR) for start, price in usual.tiers)
            )
        return rates


def _rate(price: Any) -> Rate:
    if isinstance(price, Decimal):
        return Rate(price)
    return Rate(price.base, tuple((tier.start, tier.price) for tier in price.tiers))
