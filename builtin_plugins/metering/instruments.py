"""What metering measures, for Prometheus and OpenTelemetry.

No label names a session, a person, a key or a tool: those have no end. What one of them has used is
told by `hookgate usage`.
"""

from __future__ import annotations

from typing import Any

from hookgate import Instrument, Label, RecordSource
from hookgate.builtin_plugins.metering.calls import COUNTS, PICO, LedgerRow

CALL = "metering.call"
"""The record of a call that is over; its fields are `call_fields`."""
REFUSED = "metering.refused"
"""The record of a refusal; `code` says which."""
BUDGET = "metering.budget"
"""The record of how far a budget is used; `budget` names it, `share` is 1 where it is used up."""

_MODEL = (
    Label(name="provider", attribute="gen_ai.provider.name"),
    Label(name="model", attribute="gen_ai.request.model"),
)
INSTRUMENTS = (
    Instrument(
        name="hookgate_metering_cost_usd",
        help="US dollars that model calls have cost, of models with a known price.",
        sources=(RecordSource(record=CALL, value="cost_usd"),),
        labels=_MODEL,
        unit="{USD}",
    ),
    Instrument(
        name="hookgate_metering_cache_saved_usd",
        help="US dollars that reading from caches has saved, where it has.",
        sources=(RecordSource(record=CALL, value="saved_usd"),),
        labels=_MODEL,
        unit="{USD}",
    ),
    Instrument(
        name="hookgate_metering_tokens",
        help="Tokens of model calls, by kind; the kinds are disjoint.",
        sources=tuple(
            RecordSource(record=CALL, value=count, labels={"kind": count.removesuffix("_tokens")})
            for count in COUNTS
        ),
        labels=(*_MODEL, Label(name="kind", attribute="gen_ai.token.type")),
        unit="{token}",
    ),
    Instrument(
        name="hookgate_metering_calls",
        help="Model calls that are in the ledger, by how they ended.",
        sources=(RecordSource(record=CALL),),
        labels=(
            *_MODEL,
            Label(
                name="status",
                values=frozenset(("done", "refused", "failed", "cut", "cancelled", "lost")),
            ),
            Label(name="reported", truth=True),
            Label(name="priced", truth=True),
        ),
        unit="{call}",
    ),
    Instrument(
        name="hookgate_metering_refusals",
        help="Model calls that metering has refused, by why.",
        sources=(RecordSource(record=REFUSED),),
        labels=(Label(name="code", attribute="error.type"),),
        unit="{call}",
    ),
    Instrument(
        name="hookgate_metering_budget_used_ratio",
        help="How far a budget is used, of the window that was charged last; 1 is all of it.",
        kind="gauge",
        sources=(RecordSource(record=BUDGET, value="share"),),
        labels=(Label(name="budget"),),
        unit="1",
    ),
)
"""All of them, for ``host.instruments``."""


def call_fields(call: LedgerRow) -> dict[str, Any]:
    """Return the fields of the record of a call."""
    return {
        "provider": call.provider,
        "model": call.model,
        "status": call.status,
        "reported": call.usage.reported,
        "priced": call.cost is not None,
        "cost_usd": (call.cost or 0) / PICO,
        # A counter only grows: what writing a cache costs stands in `cost_usd` anyway.
        "saved_usd": max(call.saved, 0) / PICO,
        **{name: count for name, count in call.usage.counts.items() if count},
    }
