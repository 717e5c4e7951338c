"""Facts as rows of JSONL, for another store or for a look."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from hookgate import CLEAN, Taint
from hookgate.builtin_plugins.memory.facts.grammar import key_of, vocabulary
from hookgate.builtin_plugins.memory.facts.rows import (
    MAX_SOURCES,
    Cause,
    Row,
    add_sources,
    check_room,
    close,
    digest_of,
    insert_row,
    iso,
    rows_where,
    sources_of,
    taint_text,
    trust_in,
)
from hookgate.builtin_plugins.memory.models import Imported
from hookgate.builtin_plugins.memory.recall.words import fold
from hookgate.builtin_plugins.memory.scopes import check_scope
from hookgate.builtin_plugins.memory.tables import FACTS
from hookgate.wire import well_formed

FORMAT = "hookgate-fact-1"

_TEXTS = {
    "id": 200,
    "scope": 500,
    "subject": 300,
    "subject_name": 300,
    "relation": 100,
    "value": 300,
    "text": 4000,
    "speaker": 200,
    "provenance": 100,
    "session": 500,
    "turn": 200,
}
"""Texts of a row, and how long each may be."""

_MAY_BE_EMPTY = {"subject", "subject_name", "relation", "value", "provenance", "session", "turn"}
_TIMES = ("valid_from", "valid_to", "superseded")
_ENDED = ("ended_by", "ended_turn", "ended_session")
_SOURCE_TEXTS = ("said", "session", "turn", "speaker", "provenance")
_ENDINGS = (None, "changed", "corrected", "confirmed", "over")


class FactFormatError(ValueError):
    """A row is none that facts can be read from."""


def export_page(connection: Connection, after: int, limit: int) -> tuple[list[dict[str, Any]], int]:
    """Return rows of all scopes behind a number, and the number to go on from; 0 for none."""
    found = connection.execute(
        select(FACTS).where(FACTS.c.number > after).order_by(FACTS.c.number).limit(limit)
    )
    rows = list(found)
    sources: dict[int, list[dict[str, Any]]] = {}
    for scope in {row.scope for row in rows}:
        sources |= sources_of(connection, scope, [one.number for one in rows if one.scope == scope])
    exported = [_exported(row, sources.get(row.number, ())) for row in rows]
    return exported, rows[-1].number if len(rows) == limit else 0


def check_rows(rows: Iterable[Mapping[str, Any]], first: int = 1) -> None:
    """Look whether rows could be imported; `first` is the number of the first one.

    Raises:
        FactFormatError: A row is not of the format; see `import_rows`.
    """
    for number, row in enumerate(rows, first):
        try:
            _checked(row)
        except FactFormatError as error:
            raise FactFormatError(f"row {number}: {error}") from None


def _exported(row: Row, sources: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    texts = (*_SOURCE_TEXTS, "at", "confidence")
    return {
        "format": FORMAT,
        "kind": row.kind,
        **{name: getattr(row, name) for name in _TEXTS},
        "confidence": row.confidence,
        "taint": json.loads(row.taint),
        "learned": row.learned,
        **{name: getattr(row, name) for name in (*_TIMES, "ending", *_ENDED)},
        "sources": [
            {**{name: one[name] for name in texts}, "taint": json.loads(one["taint"])}
            for one in sources
        ],
    }


def import_rows(
    connection: Connection,
    rows: Iterable[Mapping[str, Any]],
    *,
    max_notes: int,
    taint: Taint = CLEAN,
) -> Imported:
    """Add exported rows, in the caller's transaction; what is there already is left as it is.

    Args:
        connection: Of the caller's transaction.
        rows: The rows. Whoever wrote them may have written anything, a taint of `[]` too.
        max_notes: Notes of one scope at most.
        taint: What all of it is tainted with besides; `CLEAN` where its writer is trusted.

    Raises:
        FactFormatError: A row is not of the format; it says which, and what was expected. The
            caller's transaction is to be undone then.
        FullError: A scope holds as many notes as it may. The same goes for the transaction.
    """
    new = known = 0
    for number, row in enumerate(rows, 1):
        try:
            values, sources = _checked(row)
        except FactFormatError as error:
            raise FactFormatError(f"row {number}: {error}") from None
        if taint:
            _add_taint(taint, values, *sources)
        if _is_known(connection, values, sources, join=not taint):
            known += 1
            continue
        if values["kind"] == "note":
            check_room(connection, values["scope"], limit=max_notes)
        _settle(connection, insert_row(connection, values, sources))
        new += 1
    return Imported(new=new, known=known)


def _add_taint(taint: Taint, *kept: dict[str, Any]) -> None:
    for values in kept:
        values["taint"] = taint_text(frozenset(json.loads(values["taint"])) | taint)


def _is_known(
    connection: Connection,
    values: Mapping[str, Any],
    sources: Sequence[Mapping[str, Any]],
    *,
    join: bool,
) -> bool:
    """Whether a row is there; where it is the same fact, that rests on its sources, too.

    Without `join` it does not: what somebody said here is not tainted by who else says so.
    """
    columns = FACTS.c
    scope = [values["scope"]]
    if rows_where(connection, scope, columns.id == values["id"], limit=1):
        return True
    if values["superseded"] is not None:
        return False
    same = rows_where(
        connection,
        scope,
        columns.kind == values["kind"],
        columns.subject == values["subject"],
        columns.relation == values["relation"],
        columns.object == values["object"],
        columns.superseded.is_(None),
        limit=8,
    )
    for row in same:
        if row.valid_from == values["valid_from"] and row.valid_to == values["valid_to"]:
            if join:
                add_sources(connection, row, sources, frozenset(json.loads(values["taint"])))
            return True
    return False


def _settle(connection: Connection, row: Row) -> None:
    """Keep one current value where there can be one: that of the better source, else the later."""
    if row.kind == "note" or row.superseded or row.valid_to:
        return
    if not vocabulary().relation(row.relation).single:
        return
    columns = FACTS.c
    rows = rows_where(
        connection,
        [row.scope],
        columns.subject == row.subject,
        columns.relation == row.relation,
        columns.superseded.is_(None),
        columns.valid_to.is_(None),
        limit=8,
    )
    best = max(rows, key=lambda one: (trust_in(one), one.learned, one.number))
    others = [one for one in rows if one.number != best.number]
    close(
        connection,
        others,
        why="changed",
        at=max(best.learned, row.learned),
        until=best.valid_from or best.learned,
        by=Cause("", "", ""),
    )


def _checked(row: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a row and its sources as they are kept."""
    if row.get("format") != FORMAT:
        raise FactFormatError(f"found format {row.get('format')!r}, expected {FORMAT!r}")
    kind = row.get("kind")
    if not isinstance(kind, str) or kind not in {"fact", "note"}:
        raise FactFormatError(f"found kind {kind!r}, expected 'fact' or 'note'")
    values: dict[str, Any] = {"kind": kind}
    for name, longest in _TEXTS.items():
        values[name] = _text(row, name, longest)
    try:
        check_scope(values["scope"])
    except ValueError as error:
        raise FactFormatError(str(error)) from None
    if kind == "fact" and not (values["subject"] and values["relation"]):
        raise FactFormatError("found a fact without subject or relation, expected both")
    values["object"] = _object(values)
    values["folded"] = fold(values["text"]) if kind == "note" else ""
    values["confidence"] = _confidence(row)
    values["learned"] = _time(row, "learned", needed=True)
    for name in _TIMES:
        values[name] = _time(row, name, needed=False)
    if row.get("ending") not in _ENDINGS or (row.get("ending") is None) != (
        values["superseded"] is None
    ):
        raise FactFormatError(
            f"found ending {row.get('ending')!r}, expected one of {_ENDINGS[1:]} together with the "
            "time `superseded`, or neither"
        )
    values["ending"] = row.get("ending")
    for name in _ENDED:
        values[name] = None if row.get(name) is None else _text(row, name, 500, empty=True)
    sources = _checked_sources(row, values["scope"])
    taint = _taint(row).union(*(json.loads(source["taint"]) for source in sources))
    values["taint"] = taint_text(taint)
    return values, sources


def _object(values: Mapping[str, Any]) -> str:
    if values["kind"] == "note":
        return digest_of(fold(values["text"]))
    return key_of(values["value"]) or f"{values['subject']}/{values['relation']}"


def _checked_sources(row: Mapping[str, Any], scope: str) -> list[dict[str, Any]]:
    sources = row.get("sources")
    if not isinstance(sources, list) or len(sources) > MAX_SOURCES:
        raise FactFormatError(f"found other `sources`, expected a list of at most {MAX_SOURCES}")
    checked: dict[str, dict[str, Any]] = {}
    for source in sources:
        if not isinstance(source, dict):
            raise FactFormatError("found a source that is no object, expected objects")
        values: dict[str, Any] = {}
        for name in _SOURCE_TEXTS:
            values[name] = _text(source, name, 500, empty=name != "said")
        values |= {"scope": scope, "at": _time(source, "at", needed=True)}
        values |= {"taint": taint_text(_taint(source)), "confidence": _confidence(source)}
        checked[values["said"]] = values
    return list(checked.values())


def _text(row: Mapping[str, Any], name: str, longest: int, *, empty: bool | None = None) -> str:
    value = row.get(name)
    may_be_empty = name in _MAY_BE_EMPTY if empty is None else empty
    if (
        not isinstance(value, str)
        or len(value) > longest
        or "\0" in value
        or well_formed(value) != value
        or (not value and not may_be_empty)
    ):
        shown = f"{value!r:.60}"
        raise FactFormatError(
            f"found {name} {shown}, expected a text of {0 if may_be_empty else 1} to {longest} "
            "characters, without the character NUL and without halves of characters"
        )
    return value


def _time(row: Mapping[str, Any], name: str, *, needed: bool) -> str | None:
    value = row.get(name)
    if value is None and not needed:
        return None
    try:
        at = datetime.fromisoformat(value)  # type: ignore[arg-type]
        if at.tzinfo is None:
            raise ValueError
        return iso(at)
    except (TypeError, ValueError, OverflowError):
        raise FactFormatError(
            f"found {name} {value!r:.60}, expected a time such as '2024-05-15T12:00:00+00:00'"
        ) from None


def _taint(row: Mapping[str, Any]) -> frozenset[str]:
    taint = row.get("taint")
    if (
        not isinstance(taint, list)
        or len(taint) > 100
        or not all(isinstance(one, str) and 0 < len(one) <= 300 for one in taint)
        or any("\0" in one or well_formed(one) != one for one in taint)
    ):
        raise FactFormatError(f"found taint {taint!r:.60}, expected a list of at most 100 texts")
    return frozenset(taint)


def _confidence(row: Mapping[str, Any]) -> float:
    value = row.get("confidence")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise FactFormatError(f"found confidence {value!r:.60}, expected a number from 0 to 1")
    return float(value)
