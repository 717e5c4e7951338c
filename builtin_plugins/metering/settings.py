"""The settings of metering: ``[plugin.metering]``."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, ClassVar, Literal, NamedTuple, Self, TypeAlias

from pydantic import Field, model_validator

from hookgate import Section

Scope: TypeAlias = Literal[
    "global", "agent", "channel", "account", "key", "session", "tool", "plugin", "heartbeat"
]
"""Whose calls are counted together; see `limits.subjects`."""
Window: TypeAlias = Literal["turn", "day", "month"]
Unit: TypeAlias = Literal["tokens", "usd", "requests", "parallel"]
Over: TypeAlias = Literal["refuse", "fallback", "ask"]

NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"
MOST_USD = 9_000_000
"""The most dollars of one budget: what fits 64 bits in units of 1e-12 dollars."""


class QuotaSettings(Section):
    """Whose calls are counted together; each field of `units` is the most of one."""

    scope: Scope = "global"
    """Whose calls it is for."""
    of: str = Field(default="*", min_length=1, max_length=300)
    """A glob of those that it is for, such as the name of an agent. Each of them has all of it."""

    units: ClassVar[tuple[Unit, ...]]

    def something_is_limited(self) -> Self:
        """Return it.

        Raises:
            ValueError: Nothing would be limited.
        """
        if all(getattr(self, unit) is None for unit in self.units):
            *first, last = (f"`{unit}`" for unit in self.units)
            raise ValueError(
                f"found neither {', '.join(first)} nor {last}, expected at least one of them"
            )
        return self


class Budget(QuotaSettings):
    """What a budget is, whoever sets it."""

    window: Window = "day"
    """How long it is for; days and months are those of UTC."""
    tokens: int | None = Field(default=None, ge=0, le=10**15)
    """The most tokens, input and output together."""
    usd: Decimal | None = Field(default=None, ge=0, le=MOST_USD, decimal_places=12)
    """The most US dollars."""
    warn_at: float = Field(default=0.8, gt=0, le=1)
    """The share from which operators are told."""
    over: Over = "refuse"
    """What happens to a call that does not fit: `refuse` refuses it, `fallback` asks the cheapest
    model of the turn's plan that fits, `ask` refuses it and asks operators to raise the budget."""

    units = ("tokens", "usd")


class BudgetSettings(Budget):
    """One budget: ``[plugin.metering.budgets.NAME]``."""

    _limits = model_validator(mode="after")(QuotaSettings.something_is_limited)


class RateSettings(QuotaSettings):
    """One limit on the rate of calls: ``[plugin.metering.limits.NAME]``."""

    requests: int | None = Field(default=None, ge=1, le=10**9)
    """The most model calls a minute."""
    tokens: int | None = Field(default=None, ge=1, le=10**15)
    """The most tokens a minute, input and output together."""
    parallel: int | None = Field(default=None, ge=1, le=10**6)
    """The most model calls at one time."""

    units = ("requests", "tokens", "parallel")
    _limits = model_validator(mode="after")(QuotaSettings.something_is_limited)


class GuardSettings(Section):
    """``[plugin.metering.guard]``: turns that burn far more than their session ever has."""

    enabled: bool = True
    """Whether a session is paused whose turn burns so much."""
    times: float = Field(default=5.0, gt=1)
    """How often the session's 95th percentile a turn may use."""
    samples: int = Field(default=20, ge=2, le=1000)
    """Turns of the session that there must be before anything is said of the next one."""
    days: int = Field(default=7, ge=1, le=90)
    """How far back they may lie."""
    least_tokens: int = Field(default=10_000, ge=0)
    """A turn below this is not worth anybody's attention."""


Dollars = Annotated[Decimal, Field(ge=0, le=1_000_000, max_digits=18, decimal_places=12)]


class Listed(NamedTuple):
    """How genai-prices calls the price of a kind of tokens: the first of these that it has."""

    names: tuple[str, ...]


class Price(Section):
    """US dollars for each million tokens.

    What is left out costs what the library says, where it knows the model and `input` or `output`
    is left out; else as `input` or `output`.
    """

    as_: str = Field(default="", alias="as", pattern=r"^[^/\s]*(/\S+)?$")
    """A provider of genai-prices, such as `openai`, whose prices are meant: that of the model of
    the same name, or of another one, as `openai/gpt-4o`."""
    input: Annotated[Dollars | None, Listed(("input_mtok", "input_text_mtok"))] = None
    """Input."""
    cache_read: Annotated[Dollars | None, Listed(("cache_read_mtok", "cache_text_read_mtok"))] = (
        None
    )
    """Input that was read from the provider's cache."""
    cache_write: Annotated[
        Dollars | None, Listed(("cache_write_mtok", "cache_write_5m_mtok", "cache_text_write_mtok"))
    ] = None
    """Input that was written to the provider's cache."""
    cache_write_hour: Annotated[
        Dollars | None, Listed(("cache_write_1h_mtok", "cache_text_write_1h_mtok"))
    ] = None
    """Input that was written to the cache for an hour; as `cache_write` where nobody says."""
    audio_input: Annotated[Dollars | None, Listed(("input_audio_mtok",))] = None
    """Input that was heard."""
    image_input: Annotated[Dollars | None, Listed(("input_image_mtok",))] = None
    """Input that was seen."""
    output: Annotated[Dollars | None, Listed(("output_mtok", "output_text_mtok"))] = None
    """Output."""
    reasoning: Annotated[
        Dollars | None, Listed(("output_reasoning_mtok", "output_text_reasoning_mtok"))
    ] = None
    """Output spent on reasoning."""
    audio_output: Annotated[Dollars | None, Listed(("output_audio_mtok",))] = None
    """Output that was spoken."""
    image_output: Annotated[Dollars | None, Listed(("output_image_mtok",))] = None
    """Output that was drawn."""
    fee: Dollars | None = None
    """US dollars for each call, whatever its length."""

    @model_validator(mode="after")
    def _says_something(self) -> Price:
        if not self.model_dump(exclude_none=True, exclude_defaults=True):
            raise ValueError("expected `as`, or a price such as `input`")
        return self

    @property
    def whole(self) -> bool:
        """Whether it needs no other prices."""
        return not self.as_ and self.input is not None and self.output is not None

    def of(self, kind: str) -> Decimal | None:
        """Return the price of a count of `hookgate.Usage`, such as ``cache_read_tokens``."""
        price: Decimal | None = getattr(self, kind.removesuffix("_tokens"))
        return price


class MeteringSettings(Section):
    """``[plugin.metering]``: what calls cost, and what they may cost."""

    budgets: dict[str, BudgetSettings] = Field(default_factory=dict)
    """Budgets, by name."""
    limits: dict[str, RateSettings] = Field(default_factory=dict)
    """Limits on the rate of calls, by name."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """Prices of your own, by globs of ``provider/model``; they come before the known ones."""
    unknown: Price = Price(input=Decimal(30), output=Decimal(180))
    """What a model without a known price is taken to cost by budgets in money."""
    guard: GuardSettings = GuardSettings.by_default()
    without_store: Literal["refuse", "count"] = "refuse"
    """Without a durable store, budgets of days and months would begin anew with each start:
    `refuse` refuses the calls that they are for, `count` counts in memory."""
    keep_days: int = Field(default=400, ge=62, le=3650)
    """For so many days it is known how far a budget was used; the ledger is never cut."""

    @model_validator(mode="after")
    def _names_are_names(self) -> MeteringSettings:
        import re

        for kind in ("budgets", "limits"):
            for name in getattr(self, kind):
                if not re.fullmatch(NAME, name):
                    raise ValueError(
                        f"found the name {name!r} in `{kind}`, expected small letters, digits, "
                        "`_` and `-`"
                    )
        return self
