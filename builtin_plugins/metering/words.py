"""Amounts in words."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hookgate.builtin_plugins.metering.limits.rules import Unit

_NAMES: dict[Unit, str] = {"tokens": "tokens", "requests": "requests", "parallel": "at one time"}


_EXACT = Context(prec=60)


def dollars(pico: int) -> Decimal:
    """Return units of 1e-12 dollars as dollars, exactly."""
    return Decimal(pico).scaleb(-12, _EXACT)


def amount_text(amount: int, unit: Unit, *, name: bool = True) -> str:
    """Return an amount for people, such as ``99,500 tokens`` or ``$0.0125``.

    Args:
        amount: The amount; of money in units of 1e-12 dollars.
        unit: What it is of.
        name: Whether the unit is named; that of money always is.
    """
    if unit == "usd":
        return f"${dollars(amount).normalize():,f}"
    return f"{amount:,} {_NAMES[unit]}" if name else f"{amount:,}"
