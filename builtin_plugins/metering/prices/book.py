"""What each model costs: by the settings, else by the library, else at the worst."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from fnmatch import translate
from hashlib import sha256

from hookgate import ModelRef, Usage
from hookgate.builtin_plugins.metering.prices.library import Library, Priced
from hookgate.builtin_plugins.metering.prices.settings import Price
from hookgate.builtin_plugins.metering.prices.tariff import ZERO, Rate, Tariff

DEMO = Tariff(
    "free",
    True,
    "the demo provider asks nobody",
    dict.fromkeys(("input_tokens", "output_tokens"), Rate(ZERO)),
)
"""Unless the settings say otherwise."""

MAX_KEPT = 4096
"""Models whose prices are kept; their names come with requests."""


class Prices:
    """The prices of all models.

    Args:
        overrides: Prices by globs of ``provider/model``. An exact name comes before globs, and
            of several globs the one that says most.
        worst: What a model costs that nobody knows; it has `input` and `output`.

    Raises:
        ValueError: `worst` lacks one of these.
    """

    def __init__(self, overrides: Mapping[str, Price], worst: Price) -> None:
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
        return found or self._worst

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
