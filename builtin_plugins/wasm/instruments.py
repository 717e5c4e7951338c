"""What the sandbox measures, for Prometheus and OpenTelemetry.

This is apart from `guests`, which loads all of the sandbox: a start without guests does not.
"""

from __future__ import annotations

from hookgate import Instrument, Label, RecordSource

CALL = "wasm.call"
"""The record of a call of a guest: ``plugin``, ``export``, ``ending`` and ``seconds``."""
REFUSED = "wasm.refused"
"""The record of what a host function refused: ``plugin``, ``function`` and ``code``."""

_PLUGIN = Label(name="plugin")
_ENDINGS = frozenset(
    (
        *("done", "trap", "fuel", "time", "memory", "table", "stack"),
        *("host-calls", "host", "output", "answer", "busy", "cancelled"),
    )
)

INSTRUMENTS = (
    Instrument(
        name="hookgate_wasm_calls",
        help="Calls of guests, by how they ended: done, a trap, or the limit that was met.",
        sources=(RecordSource(record=CALL),),
        labels=(_PLUGIN, Label(name="export"), Label(name="ending", values=_ENDINGS)),
        unit="{call}",
    ),
    Instrument(
        name="hookgate_wasm_call_seconds",
        help="Wall time of calls of guests, their host calls included.",
        kind="histogram",
        sources=(RecordSource(record=CALL, value="seconds"),),
        labels=(_PLUGIN,),
        boundaries=(0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60),
        unit="s",
    ),
    Instrument(
        name="hookgate_wasm_refusals",
        help="What host functions refused to guests, by function and why.",
        sources=(RecordSource(record=REFUSED),),
        labels=(_PLUGIN, Label(name="function"), Label(name="code", attribute="error.type")),
        unit="{call}",
    ),
)
"""All of them, for ``host.instruments``."""
