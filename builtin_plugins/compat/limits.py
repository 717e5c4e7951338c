"""What is left of a client's rates, in the headers that the vendors' SDKs and agents read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from hookgate import BUDGETS, Host, StoreError, Turn
from hookgate.ports import RateLeft


async def limit_headers(host: Host, turn: Turn, *, anthropic: bool) -> dict[str, str]:
    """Return the headers of an answer that say what is left; none where nothing limits the turn.

    Args:
        host: The host.
        turn: The turn of the request, whose own calls may not be counted yet.
        anthropic: Whether Anthropic's clients read them.
    """
    budgets = host.get(BUDGETS)
    if budgets is None:
        return {}
    try:
        rates = await budgets.rates(turn)
    except StoreError:
        return {}  # The call itself is refused then, and says why.
    return anthropic_limits(rates, host.clock.now()) if anthropic else openai_limits(rates)


def openai_limits(rates: Sequence[RateLeft]) -> dict[str, str]:
    """Return ``x-ratelimit-*``."""
    headers: dict[str, str] = {}
    for rate in rates:
        headers[f"x-ratelimit-limit-{rate.unit}"] = str(rate.limit)
        headers[f"x-ratelimit-remaining-{rate.unit}"] = str(rate.left)
        headers[f"x-ratelimit-reset-{rate.unit}"] = f"{rate.seconds:.0f}s"
    return headers


def anthropic_limits(rates: Sequence[RateLeft], now: datetime) -> dict[str, str]:
    """Return ``anthropic-ratelimit-*``."""
    headers: dict[str, str] = {}
    for rate in rates:
        reset = (now + timedelta(seconds=rate.seconds)).astimezone(UTC)
        headers[f"anthropic-ratelimit-{rate.unit}-limit"] = str(rate.limit)
        headers[f"anthropic-ratelimit-{rate.unit}-remaining"] = str(rate.left)
        headers[f"anthropic-ratelimit-{rate.unit}-reset"] = f"{reset:%Y-%m-%dT%H:%M:%SZ}"
    return headers
