"""Prices of the settings."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, NamedTuple

from pydantic import Field, model_validator

from hookgate import Section

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
