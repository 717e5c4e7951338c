"""Figures on their way to `log_metrics`, and what is made of them.

Whoever measures hands over records (`Host.metric`), and says once what is to be counted of them:
an `Instrument` for each figure (``host.instruments``). Plugins that keep figures, such as
`telemetry`, know records and instruments, and nobody's names.

`waterfall` is for the figures of one turn: what ran in it, and when.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from hookgate.core.domain.events import MetricRecord as MetricRecord
from hookgate.core.domain.strict_json import well_formed

if TYPE_CHECKING:
    from collections.abc import Iterator

InstrumentKind: TypeAlias = Literal["counter", "histogram", "gauge"]

OTHER = "other"
"""Stands for a label's value that is missing, or is none of those that it can be."""

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OTEL_NAME = re.compile(r"[a-zA-Z][-_./a-zA-Z0-9]{0,254}")
_OTEL_UNIT_CHARS = 63
_SUFFIXES = ("_total", "_created", "_bucket", "_count", "_sum", "_info")
"""What the formats write behind a name: with them, two names could be one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a figure is told apart by.

    No label names a session, a turn, a person or a message: those have no end, and each of
    their values would be one more series for ever.

    Attributes:
        name: The label's name.
        field: The field of the record that holds its value; "" for one of the label's name.
        values: All that it can be, and anything else becomes ``other``; None where the values
            come from outside.
        truth: Whether it is ``true`` where the field holds something, and ``false`` elsewhere.
        attribute: The attribute's name for OpenTelemetry; "" for ``hookgate.`` and the name.
    """

    name: str
    field: str = ""
    values: frozenset[str] | None = None
    truth: bool = False
    attribute: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name.startswith("__") or self.name == "le":
            raise ValueError(
                f"found the label {self.name!r}, expected letters, digits and `_`, with no digit "
                "and no `__` in front; `le` is the buckets' own"
            )

    def value_of(self, fields: Mapping[str, Any]) -> str:
        """Return the label's value for a record with these fields."""
        found = fields.get(self.field or self.name)
        if self.truth:
            return "true" if found else "false"
        value = found if isinstance(found, str) and found else OTHER
        return OTHER if self.values is not None and value not in self.values else value


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSource:
    """Which records a figure is read from, and what of them.

    Attributes:
        record: The records' name.
        value: The field that holds the figure; "" for 1 for each record.
        scale: What that is multiplied by, such as 0.001 for milliseconds that are kept in seconds.
        each: A field that holds a list of objects: each of them is read in place of the record.
        labels: Labels whose value does not stand in the record, and what it is.
    """

    record: str
    value: str = ""
    scale: float = 1
    each: str = ""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)

    def rows(self, fields: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Return what is read of a record with these fields."""
        if not self.each:
            return (fields,)
        found = fields.get(self.each)
        if not isinstance(found, list | tuple):
            return ()
        return [item for item in found if isinstance(item, Mapping)]

    def figure(self, fields: Mapping[str, Any]) -> float | None:
        """Return the figure: finite, and not less than zero; None where there is none."""
        value = fields.get(self.value) if self.value else 1
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        try:
            number = float(value) * self.scale
        except OverflowError:
            return None
        return number if math.isfinite(number) and number >= 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """One figure that is kept.

    Attributes:
        name: Its name, such as ``acme_rows``: letters, digits and ``_``, without what the formats
            write behind it (``_total`` of a counter, ``_sum``, ...).
        help: What it counts, in a sentence.
        kind: What is done with readings: added up, put into buckets, or kept as the last one.
        sources: The records that it is read from.
        labels: What it is told apart by.
        boundaries: The upper ends of a histogram's buckets, ascending.
        unit: The unit in UCUM, such as ``s``, or ``{row}`` for rows.
        otel: The name for OpenTelemetry; "" for the name with dots.
        otel_kind: The kind for OpenTelemetry, where it is another one.
    """

    name: str
    help: str
    kind: InstrumentKind = "counter"
    sources: tuple[RecordSource, ...] = ()
    labels: tuple[Label, ...] = ()
    boundaries: tuple[float, ...] = ()
    unit: str = "1"
    otel: str = ""
    otel_kind: InstrumentKind | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name.endswith(_SUFFIXES):
            raise ValueError(
                f"found the instrument {self.name!r}, expected letters, digits and `_`, with no "
                f"digit in front and none of {', '.join(_SUFFIXES)} at the end"
            )
        self._check_words()
        if self.kind not in ("counter", "histogram", "gauge"):
            raise ValueError(
                f"instrument {self.name}: found the kind {self.kind!r}, expected counter, "
                "histogram or gauge"
            )
        histogram = "histogram" in (self.kind, self.otel_kind)
        finite = all(map(math.isfinite, self.boundaries))
        ascending = list(self.boundaries) == sorted(set(self.boundaries))
        if histogram != bool(self.boundaries) or not (finite and ascending):
            raise ValueError(
                f"instrument {self.name}: found the boundaries {self.boundaries}, expected "
                "finite, ascending ones for a histogram, and none for anything else"
            )
        if len({label.name for label in self.labels}) != len(self.labels):
            raise ValueError(f"instrument {self.name}: two of its labels have one name")

    def _check_words(self) -> None:
        """Refuse what one of the formats would refuse later, for all figures at once."""
        if not _OTEL_NAME.fullmatch(self.otel_name):
            raise ValueError(
                f"instrument {self.name}: found the name {self.otel_name!r} for OpenTelemetry, "
                "expected a letter, and at most 254 letters, digits and `_.-/` behind it"
            )
        if not self.unit.isascii() or len(self.unit) > _OTEL_UNIT_CHARS:
            raise ValueError(
                f"instrument {self.name}: found the unit {self.unit!r}, expected at most "
                f"{_OTEL_UNIT_CHARS} ASCII characters"
            )
        text: object = self.help  # A plugin without types writes what it likes.
        if not isinstance(text, str) or well_formed(text) != text:
            raise ValueError(
                f"instrument {self.name}: found the help {self.help!r}, expected a sentence"
            )
        if self.otel_kind not in (None, "counter", "histogram", "gauge"):
            raise ValueError(
                f"instrument {self.name}: found the kind {self.otel_kind!r} for OpenTelemetry, "
                "expected counter, histogram or gauge"
            )

    @property
    def otel_name(self) -> str:
        """Its name for OpenTelemetry."""
        return self.otel or self.name.replace("_", ".")

    def __hash__(self) -> int:
        # Every reading is looked up by its instrument, and few have the name of another one.
        return hash(self.name)

    def readings(self, record: MetricRecord) -> Iterator[Reading]:
        """Yield what `record` says of this figure.

        Records come from anybody: a field that is missing or is something else costs the
        reading that it would have been, and no other.
        """
        for source in self.sources:
            if source.record == record.name:
                for fields in source.rows(record.fields):
                    if (reading := self.reading(source, fields)) is not None:
                        yield reading

    def reading(self, source: RecordSource, fields: Mapping[str, Any]) -> Reading | None:
        """Return what a row of one of its sources says, if anything."""
        number = source.figure(fields)
        if number is None:
            return None
        return Reading(self, number, self.labels_of(source, fields))

    def labels_of(self, source: RecordSource, fields: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the values of its labels for a row of one of its sources."""
        given = source.labels
        return tuple([given.get(label.name) or label.value_of(fields) for label in self.labels])


class Reading(NamedTuple):
    """One value for one instrument.

    Attributes:
        instrument: The figure.
        value: What is added, put into a bucket, or kept.
        labels: One value for each of the instrument's labels, in their order.
    """

    instrument: Instrument
    value: float = 1
    labels: tuple[str, ...] = ()


# -- what ran in a turn, and when, from the events that tell of it ------------------

WATERFALL_EVENTS = ("hook", "context", "usage", "tool_use", "tool_result")
"""The events that `waterfall` is made of."""

_BEFORE_MODEL = frozenset(("before_context_build", "prepare_model_call", "before_model_call"))
_BEFORE_TOOL = frozenset(("before_tool_call", "resolve_ask", "tool_decided"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRow:
    """One line of the waterfall.

    Attributes:
        kind: A hook's implementation, a model call, a tool call, or what was packed.
        name: The hook or the tool.
        plugin: Whose it is.
        at: Milliseconds since the turn's first sign.
        milliseconds: How long it took.
        said: What it decided, or what came of it.
        failed: Whether it failed.
        depth: 1 for a call that a tool, a provider or a hook makes, one more within each such call.
    """

    kind: Literal["hook", "model", "tool", "context"]
    name: str
    plugin: str = ""
    at: float = 0.0
    milliseconds: float = 0.0
    said: str = ""
    failed: bool = False
    depth: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the row for programs."""
        nested = {"depth": self.depth} if self.depth else {}
        return {
            **nested,
            "kind": self.kind,
            "name": self.name,
            "plugin": self.plugin,
            "at_ms": round(self.at, 3),
            "ms": round(self.milliseconds, 3),
            "said": self.said,
            "failed": self.failed,
        }


def waterfall(heard: Sequence[Mapping[str, Any]]) -> list[TraceRow]:
    """Return everything that one turn's events tell of, in the order in which it began.

    Args:
        heard: Events of one turn, each with `type`, `at` and `data`, as they came.
    """
    if not heard:
        return []
    spans = [event["data"] for event in heard if event["type"] == "hook"]
    events = [event for event in heard if event["type"] != "hook"]
    zero = min([span["at"] for span in spans] + [event["at"] for event in events])
    rows = [_span_row(span, zero) for span in spans] + _event_rows(events, spans, zero)
    return sorted(rows, key=lambda row: row.at)


def _span_row(span: Mapping[str, Any], zero: float) -> TraceRow:
    return TraceRow(
        kind="hook",
        name=span["hook"],
        plugin=span["plugin"],
        at=(span["at"] - zero) * 1000,
        milliseconds=span["milliseconds"],
        said=span["outcome"],
        failed=span["failed"],
    )


def _event_rows(
    events: list[Mapping[str, Any]], spans: list[Mapping[str, Any]], zero: float
) -> list[TraceRow]:
    """Return rows for what lies between the hooks: contexts, model calls, tool calls."""
    rows: list[TraceRow] = []
    uses: dict[str, Mapping[str, Any]] = {}
    first_within: dict[str, float] = {}
    since = zero
    for event in events:
        data, at = event["data"], event["at"]
        match event["type"]:
            case "tool_use":
                uses[data["id"]] = event
                first_within.setdefault(data.get("within", ""), at)
                continue
            case "context":
                said = f"{data['tokens']:,} of {data['budget']:,} tokens"
                rows.append(_row("context", "context packed", at, at, zero, said))
            case "usage":
                begin = _last_end(spans, _BEFORE_MODEL, since, at)
                said = f"{data['input_tokens']:,} tokens in, {data['output_tokens']:,} out"
                rows.append(_row("model", "model", begin, at, zero, said))
            case "tool_result":
                use = uses.get(data["tool_use_id"])
                name = str(use["data"]["name"]) if use else "tool"
                # It had begun when a tool was called within it.
                until = first_within.get(data["tool_use_id"], at)
                begin = _last_end(spans, _BEFORE_TOOL, use["at"] if use else since, until)
                row = _row("tool", name, begin, at, zero, str(data["content"]))
                depth = _nested(uses, use["data"]) if use else 0
                rows.append(replace(row, failed=bool(data["is_error"]), depth=depth))
        since = at
    return rows


def _nested(uses: Mapping[str, Mapping[str, Any]], use: Mapping[str, Any]) -> int:
    """Return how deep a call is within others; each stands behind the one that it is in."""
    depth = 0
    while (within := use.get("within")) is not None:
        depth += 1
        outer = uses.get(within)
        if outer is None:
            break
        use = outer["data"]
    return depth


def _row(
    kind: Literal["hook", "model", "tool", "context"],
    name: str,
    begin: float,
    end: float,
    zero: float,
    said: str,
) -> TraceRow:
    return TraceRow(
        kind=kind,
        name=name,
        at=(begin - zero) * 1000,
        milliseconds=max(end - begin, 0.0) * 1000,
        said=said,
    )


def _last_end(
    spans: list[Mapping[str, Any]], hooks: frozenset[str], since: float, until: float
) -> float:
    """Return when the last of these hooks ended between two times; `since` if none did."""
    ends = (
        float(span["at"]) + float(span["milliseconds"]) / 1000
        for span in spans
        if span["hook"] in hooks
    )
    return max((end for end in ends if since <= end <= until), default=since)
