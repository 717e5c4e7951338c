"""Keeps the number of series within bounds, whatever comes from outside."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import not_
from typing import Any, NamedTuple

from hookgate import HookFailure, Instrument, Label, MetricRecord, RecordSource
from hookgate.metrics import OTHER, Reading
from hookgate.wire import well_formed

LABEL_SETS = 1000
"""Sets of label values that one instrument keeps apart."""
LABEL_CHARS = 120
"""Characters of one value; the rest is cut."""


class LabelLimits:
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


# -- records ---------------------------------------------------------------------

# What a record of figures says, as readings of the instruments that were declared.

HOOK_FAILURE = "hook.failed"
UNREAD = "unread"

HOOK_FAILURES = Instrument(
    name="hookgate_hook_failures",
    help="Implementations of a hook that failed.",
    sources=(RecordSource(record=HOOK_FAILURE),),
    labels=(Label(name="plugin"), Label(name="hook")),
    unit="{failure}",
)
EVENTS = Instrument(
    name="hookgate_events",
    help="Records of figures that stand in no metric of their own.",
    sources=(RecordSource(record=UNREAD),),
    labels=(Label(name="name", attribute="hookgate.event.name"),),
    unit="{event}",
)
NOW = "gateway.now"
_NOW_PARTS = RecordSource(record=NOW, value="value", each="parts")

TURNS_RUNNING = Instrument(
    name="hookgate_turns_running",
    help="Turns that run or wait, when the figures were asked for.",
    kind="gauge",
    sources=(RecordSource(record=NOW, value="turns"),),
    unit="{turn}",
)
QUESTIONS_WAITING = Instrument(
    name="hookgate_questions_waiting",
    help="Questions that wait for a person, when the figures were asked for.",
    kind="gauge",
    sources=(RecordSource(record=NOW, value="questions"),),
    unit="{question}",
)
DEGRADED = Instrument(
    name="hookgate_degraded",
    help="1 for a part that does not work as it should, 0 for one that does again.",
    kind="gauge",
    sources=(_NOW_PARTS,),
    labels=(Label(name="part"),),
)
OWN = (HOOK_FAILURES, EVENTS, TURNS_RUNNING, QUESTIONS_WAITING, DEGRADED)
"""What telemetry measures itself."""


class RecordPart(NamedTuple):
    """What is read of records of one name: of the record itself, or of the rows of a list in it.

    Attributes:
        record: The records' name.
        each: The field with the list; "" for the record itself.
        readers: The instruments that read it, with their sources.
        labels: The fields that tell its series apart.
        truths: Those of which it is all that counts whether there is anything in them.
    """

    record: str
    each: str
    readers: Sequence[tuple[Instrument, RecordSource]]
    labels: Sequence[str]
    truths: Sequence[str]

    def key_of(self, fields: Mapping[str, Any]) -> Hashable | None:
        """Return what says which series a row belongs to; None where nothing can."""
        found = fields.get
        try:
            truths = map(not_, map(found, self.truths))
            key = self.record, self.each, *map(found, self.labels), *truths
            hash(key)
        except TypeError:  # whoever records it writes what it likes
            return None
        return key

    def series(self, fields: Mapping[str, Any]) -> list[tuple[RecordSource, Reading]]:
        """Return the series that a row belongs to, with what each is read from."""
        return [
            (source, Reading(one, labels=one.labels_of(source, fields)))
            for one, source in self.readers
        ]


class Instruments:
    """The instruments that were declared, by the records that they read.

    Attributes:
        parts: What is read of the records of each name that an instrument reads.
    """

    def __init__(self, declared: Iterable[Instrument]) -> None:
        self._by_record: dict[str, list[tuple[Instrument, RecordSource]]] = {}
        for one in declared:
            for source in one.sources:
                self._by_record.setdefault(source.record, []).append((one, source))
        self.parts: dict[str, list[RecordPart]] = {}
        for name, readers in self._by_record.items():
            for each in sorted({source.each for _, source in readers}):
                some = [(one, source) for one, source in readers if source.each == each]
                labels = {(by.field or by.name, by.truth) for one, _ in some for by in one.labels}
                plain, truths = [
                    sorted([at for at, truth in labels if truth is kind]) for kind in (False, True)
                ]
                part = RecordPart(name, each, some, plain, truths)
                self.parts.setdefault(name, []).append(part)

    def readings(self, record: MetricRecord) -> list[Reading]:
        """Return what `record` says. Raises nothing, whatever is in its fields."""
        readers = self._by_record.get(record.name)
        if readers is None:
            fields = {"name": record.name}
            unread = MetricRecord(name=UNREAD, timestamp=record.timestamp, fields=fields)
            return list(EVENTS.readings(unread))
        return [
            reading
            for one, source in readers
            for fields in source.rows(record.fields)
            if (reading := one.reading(source, fields)) is not None
        ]


def record_of_failure(failure: HookFailure, timestamp: int = 0) -> MetricRecord:
    """Return the record of one failed implementation of a hook."""
    fields = {"plugin": failure.plugin, "hook": failure.hook}
    return MetricRecord(name=HOOK_FAILURE, timestamp=timestamp, fields=fields)
