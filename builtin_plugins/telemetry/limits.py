"""Keeps the number of series within bounds, whatever comes from outside."""

from __future__ import annotations

from hookgate import Instrument, Label
from hookgate.metrics import OTHER, Reading
from hookgate.wire import well_formed

LABEL_SETS = 1000
"""Sets of label values that one instrument keeps apart."""
LABEL_CHARS = 120
"""Characters of one value; the rest is cut."""


class Limits:
    """Gives readings labels that are well formed, short and not too many.

    Tools and models are named by whoever brings them, so that a thousand sets of values are kept
    apart for each instrument. In any further one, what comes from outside becomes ``other``.

    Args:
        most: Sets of values that one instrument keeps apart.
    """

    def __init__(self, most: int = LABEL_SETS) -> None:
        self._most = most
        self._known: dict[Instrument, set[tuple[str, ...]]] = {}

    def within(self, reading: Reading) -> Reading:
        """Return `reading` with labels within bounds."""
        labels = reading.instrument.labels
        if not labels:
            return reading
        known = self._known.setdefault(reading.instrument, set())
        if reading.labels in known:
            return reading
        values = tuple(map(_fitting, labels, reading.labels))
        if values not in known:
            if len(known) < self._most:
                known.add(values)
            else:
                values = tuple(
                    value if label.values is not None else OTHER
                    for label, value in zip(labels, values, strict=True)
                )
        return reading._replace(labels=values)


def _fitting(label: Label, value: str) -> str:
    if label.values is not None:
        return value if value in label.values else OTHER
    return well_formed(value[:LABEL_CHARS])
