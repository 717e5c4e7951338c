"""Facts as rows of JSONL, for another store or for a look."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, or_, select

from hookgate import CLEAN, Taint
from hookgate.builtin_plugins.memory.domain import Imported, check_scope
from hookgate.builtin_plugins.memory.facts.grammar import key_of, vocabulary
from hookgate.builtin_plugins.memory.facts.rows import (
    ENDED,
    MAX_SOURCES,
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
from hookgate.builtin_plugins.memory.recall.turns import time_of
from hookgate.builtin_plugins.memory.recall.words import fold
from hookgate.builtin_plugins.memory.tables import FACTS, SOURCES, TURNS
from hookgate.wire import well_formed

FORMAT, TURN_FORMAT = "hookgate-fact-1", "hookgate-turn-1"


class FactFormatError(ValueError):
    """A row is none that facts can be read from."""


def _text(least: int, longest: int) -> Callable[[Any], str]:
    expected = (
        f"a text of {least} to {longest} characters, without the character NUL and without halves "
        "of characters"
    )

    def read(value: Any) -> str:
        fits = isinstance(value, str) and least <= len(value) <= longest
        if not fits or "\0" in value or well_formed(value) != value:
            raise ValueError(expected)
        return str(value)

    return read


def _one_of(*values: str | None) -> Callable[[Any], str | None]:
    def read(value: Any) -> str | None:
        if not (value is None or isinstance(value, str)) or value not in values:
            raise ValueError(" or ".join(repr(one) for one in values))
        return value

    return read


def _time(value: Any) -> str:
    try:
        at = datetime.fromisoformat(value)
        if at.tzinfo is None:
            raise ValueError
        return iso(at)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("a time such as '2024-05-15T12:00:00+00:00'") from None


def _maybe(read: Callable[[Any], str]) -> Callable[[Any], str | None]:
    return lambda value: None if value is None else read(value)


def _taint(value: Any) -> str:
    texts = value if isinstance(value, list) and len(value) <= 100 else [None]
    try:
        return taint_text(frozenset(map(_text(1, 300), texts)))
    except ValueError:
        raise ValueError("a list of at most 100 texts") from None


def _confidence(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("a number from 0 to 1")
    return float(value)


_FACT: Mapping[str, Callable[[Any], Any]] = {
    "kind": _one_of("fact", "note"),
    "id": _text(1, 200),
    "scope": _text(1, 500),
    "subject": _text(0, 300),
    "subject_name": _text(0, 300),
    "relation": _text(0, 100),
    "value": _text(0, 300),
    "text": _text(1, 4000),
    "speaker": _text(1, 200),
    "provenance": _text(0, 100),
    "session": _text(0, 500),
    "turn": _text(0, 200),
    "confidence": _confidence,
    "taint": _taint,
    "learned": _time,
    **dict.fromkeys(("valid_from", "valid_to", "superseded"), _maybe(_time)),
    "ending": _one_of(None, "changed", "corrected", "confirmed", "over"),
    **dict.fromkeys(ENDED, _maybe(_text(0, 500))),
}
_SOURCE: Mapping[str, Callable[[Any], Any]] = {
    "said": _text(1, 500),
    **dict.fromkeys(("session", "turn", "speaker", "provenance"), _text(0, 500)),
    "at": _time,
    "confidence": _confidence,
    "taint": _taint,
}
"""What a row and a source hold, and what reads each: as it is kept, or what was expected."""


def export_page(
    connection: Connection, after: int, limit: int, *, session: str = "", scope: str = ""
) -> tuple[list[dict[str, Any]], int]:
    """Return rows behind a number, and the number to go on from; 0 for none.

    They are facts and notes of all scopes; or those of a session or a scope, and then what was said
    there: behind a number below zero.
    """
    if after < 0:
        said = _turns(connection, -after - 1, limit, session=session, scope=scope)
        return said, after - limit if len(said) == limit else 0
    columns, wanted = FACTS.c, [FACTS.c.number > after]
    if session:
        told = select(SOURCES.c.fact).where(SOURCES.c.session == session)
        wanted.append(or_(columns.session == session, columns.number.in_(told)))
    if scope:
        wanted.append(columns.scope == scope)
    found = connection.execute(select(FACTS).where(*wanted).order_by(columns.number).limit(limit))
    rows = list(found)
    sources: dict[int, list[dict[str, Any]]] = {}
    for each in {row.scope for row in rows}:
        sources |= sources_of(connection, each, [one.number for one in rows if one.scope == each])
    exported = [_exported(row, sources.get(row.number, ())) for row in rows]
    behind = -1 if session or scope else 0
    return exported, rows[-1].number if len(rows) == limit else behind


def _turns(
    connection: Connection, passed: int, limit: int, *, session: str, scope: str
) -> list[dict[str, Any]]:
    """Return what was said in a session or a scope, in the order in which it was kept."""
    columns = TURNS.c
    named = ((columns.session, session), (columns.scope, scope))
    wanted = [column == value for column, value in named if value]
    query = select(TURNS).where(*wanted).order_by(columns.scope, columns.place)
    found = connection.execute(query.offset(passed).limit(limit)).mappings()
    return [
        {
            "format": TURN_FORMAT,
            "kind": "turn",
            **{name: row[name] for name in ("scope", "session", "turn", "speaker", "text", "part")},
            "id": row["message"],
            "at": iso(time_of(row["at"])),
            "provenance": row["provenance"],
            "taint": json.loads(row["taint"]),
        }
        for row in found
    ]


def check_rows(rows: Iterable[Mapping[str, Any]], first: int = 1) -> None:
    """Look whether rows could be imported; `first` is the number of the first one.

    Raises:
        FactFormatError: A row is not of the format; see `import_rows`.
    """
    for _ in _all_checked(rows, first):
        pass


def _all_checked(
    rows: Iterable[Mapping[str, Any]], first: int = 1
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    for number, row in enumerate(rows, first):
        try:
            yield _checked(row)
        except FactFormatError as error:
            raise FactFormatError(f"row {number}: {error}") from None


def _exported(row: Row, sources: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        **{name: getattr(row, name) for name in _FACT},
        "taint": json.loads(row.taint),
        "sources": [
            {**{name: one[name] for name in _SOURCE}, "taint": json.loads(one["taint"])}
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
    for values, sources in _all_checked(rows):
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
        by=("", "", ""),
    )


def _checked(row: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a row and its sources as they are kept."""
    _kept(row, {"format": _one_of(FORMAT)})
    values = _kept(row, _FACT)
    try:
        check_scope(values["scope"])
    except ValueError as error:
        raise FactFormatError(str(error)) from None
    is_note = values["kind"] == "note"
    if not (is_note or (values["subject"] and values["relation"])):
        raise FactFormatError("found a fact without subject or relation, expected both")
    if (values["ending"] is None) != (values["superseded"] is None):
        raise FactFormatError(
            f"found ending {values['ending']!r}, expected one together with the time `superseded`, "
            "or neither"
        )
    values["folded"] = fold(values["text"]) if is_note else ""
    named = key_of(values["value"]) or f"{values['subject']}/{values['relation']}"
    values["object"] = digest_of(values["folded"]) if is_note else named
    sources = row.get("sources")
    if not isinstance(sources, list) or len(sources) > MAX_SOURCES:
        raise FactFormatError(f"found other `sources`, expected a list of at most {MAX_SOURCES}")
    if not all(isinstance(one, dict) for one in sources):
        raise FactFormatError("found a source that is no object, expected objects")
    checked = [_kept(one, _SOURCE) | {"scope": values["scope"]} for one in sources]
    for source in checked:
        _add_taint(frozenset(json.loads(source["taint"])), values)
    return values, list({source["said"]: source for source in checked}.values())


def _kept(row: Mapping[str, Any], fields: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    kept = {}
    for name, read in fields.items():
        try:
            kept[name] = read(row.get(name))
        except ValueError as error:
            found = f"{row.get(name)!r:.60}"
            raise FactFormatError(f"found {name} {found}, expected {error}") from None
    return kept
