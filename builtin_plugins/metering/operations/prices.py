"""The operations that say what models cost."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from hookgate import POSITIONAL, Host, Invocation, ModelRef, OperationModel, TurnError, operation
from hookgate.builtin_plugins.metering.prices import Prices
from hookgate.kit.model_check import agents_by_model


class Step(OperationModel):
    """What something costs in calls with long input."""

    above: int
    """It is for calls with more tokens of input than so many."""
    usd: str
    """US dollars for each million tokens."""


class KindPrice(OperationModel):
    """What one kind of token costs."""

    usd: str
    """US dollars for each million tokens."""
    steps: list[Step]
    """Other prices for calls with long input."""


class ModelPrices(OperationModel):
    """What one model costs."""

    model: str
    """`provider/model`."""
    agents: list[str]
    """The agents that ask it."""
    state: Literal["known", "free", "unknown"]
    """Whether somebody has said what it costs. Budgets in money take an unknown one at its
    worst."""
    version: str
    """Which prices these are; each row of the ledger names them."""
    source: str
    """Where they stand."""
    prices: dict[str, KindPrice]
    """By count of usage, such as `cache_read_tokens`."""
    fee: str
    """US dollars for each call, whatever its length."""
    action: str
    """What to do, where it is unknown."""


class PricesShown(OperationModel):
    """What models cost."""

    models: list[ModelPrices]
    library: str
    """The library of prices, and its version."""


class Checked(PricesShown):
    """Whether it is known what all models of agents cost."""

    ok: bool
    """Whether it is."""


class PriceOperations:
    """What models cost: show the prices, check that they are known.

    Args:
        prices: The prices of the gateway.
        host: The gateway; its settings have the agents.
    """

    def __init__(self, prices: Prices, host: Host) -> None:
        self._prices = prices
        self._host = host

    @operation("prices.show", rest=("GET", "/v1/prices"))
    async def show(
        self, _: Invocation, model: Annotated[str, POSITIONAL, Field(max_length=300)] = ""
    ) -> PricesShown:
        """Show what models cost, in US dollars for each million tokens, and where that stands.

        Args:
            model: A model as `provider/model`; without it, all that agents ask.

        Example:
            hookgate prices show openai/gpt-4o
        """
        wanted = [_ref(model)] if model else list(agents_by_model(self._host.settings))
        return PricesShown(models=await self._shown(wanted), library=self._prices.version)

    @operation("prices.check", rest=("GET", "/v1/prices/check"))
    async def check(self, _: Invocation) -> Checked:
        """Say whether it is known what the models of all agents cost.

        Exit code 1 where it is not: budgets in money then take that model at its worst.
        """
        found = await self._shown(agents_by_model(self._host.settings))
        ok = all(one.state != "unknown" for one in found)
        return Checked(models=found, library=self._prices.version, ok=ok)

    async def _shown(self, models: Iterable[ModelRef]) -> list[ModelPrices]:
        await self._prices.load()
        asked = agents_by_model(self._host.settings)
        return [_priced(self._prices, one, asked.get(one, []), self._host) for one in models]


def _ref(name: str) -> ModelRef:
    try:
        return ModelRef.parse(name)
    except ValueError as error:
        raise TurnError.invalid(
            error, "name the model as the settings do, such as `openai/gpt-4o`"
        ) from error


def _priced(prices: Prices, model: ModelRef, agents: list[str], host: Host) -> ModelPrices:
    tariff = prices.of(model, host.clock.now())
    state: Literal["known", "free", "unknown"] = "free" if tariff.free else "known"
    return ModelPrices(
        model=str(model),
        agents=agents,
        state=state if tariff.known else "unknown",
        version=tariff.version,
        source=tariff.source,
        prices={
            kind: KindPrice(
                usd=_plain(rate.base),
                steps=[Step(above=above, usd=_plain(usd)) for above, usd in rate.tiers],
            )
            for kind, rate in tariff.rates.items()
        },
        fee=_plain(tariff.fee),
        action="" if tariff.known else prices.advice(model),
    )


def _plain(price: Decimal) -> str:
    """Return a price without an exponent, and without zeros behind its last digit."""
    text = f"{price:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
