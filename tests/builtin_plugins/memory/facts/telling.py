"""Stories: what is said, and what is known then; see ``stories.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, select
from sqlalchemy.pool import StaticPool

from hookgate.builtin_plugins.memory.domain import ASSISTANT, USER, Hit, Imported, Note, Utterance
from hookgate.builtin_plugins.memory.facts.exchange import export_page, import_rows
from hookgate.builtin_plugins.memory.facts.learner import learn
from hookgate.builtin_plugins.memory.facts.rows import (
    Row,
    add_note,
    forget_all,
    forget_facts,
    forget_said,
)
from hookgate.builtin_plugins.memory.facts.search import search
from hookgate.builtin_plugins.memory.tables import FACTS, METADATA

NOON = datetime(2024, 5, 15, 12, tzinfo=UTC)
ME = "peer:telegram:bot:me"

CHATTER = [
    "Can you explain how tides work?",
    "Thanks, that was clear.",
    "Write a haiku about rain.",
    "What's 17 * 23?",
    "Summarize the news for me, please.",
    "How long should I boil an egg?",
    "ok",
    "What would you recommend for a rainy weekend in general?",
    "Tell me a joke about databases.",
    "That's funny!",
]


@dataclass(frozen=True)
class Story:
    name: str
    said: list[str]
    knows: list[str]
    past: list[str] | None = None
    asks: tuple[tuple[str, str], ...] = ()
    as_of: tuple[tuple[str, str, str], ...] = ()


def stories(file: str) -> list[Story]:
    rows = tomllib.loads((Path(__file__).parent / file).read_text("utf-8"))["story"]
    return [Story(**row) for row in rows]


class Facts:
    """Learns, finds, forgets and moves what is known, as the keeper of memory does."""

    def __init__(
        self, redact: Callable[[str], str] = lambda text: text, max_notes: int = 1000
    ) -> None:
        self.learn = partial(learn, redact=redact)
        self._max_notes = max_notes

    def search(
        self, scopes: Sequence[str], query: str, connection: Connection, **more: Any
    ) -> list[Hit]:
        values: dict[str, Any] = {"as_of": None, "limit": 20} | more
        return search(connection, scopes, query, **values)

    def note(self, note: Note, connection: Connection) -> Note:
        return add_note(connection, note, limit=self._max_notes)

    def forget(
        self,
        scopes: Sequence[str],
        connection: Connection,
        *,
        ids: Sequence[str] = (),
        everything: bool = False,
        **said: Sequence[str],
    ) -> int:
        if everything:
            return forget_all(connection, scopes)
        gone = forget_facts(connection, scopes, ids)
        return gone + forget_said(connection, scopes, **said)

    def export(self, scopes: Sequence[str], connection: Connection) -> list[dict[str, Any]]:
        exported, after = [], 0
        while True:
            page, after = export_page(connection, after, 100)
            exported += [row for row in page if row["scope"] in scopes]
            if not after:
                return exported

    def import_(self, given: Sequence[dict[str, Any]], connection: Connection) -> Imported:
        return import_rows(connection, given, max_notes=self._max_notes)


def facts(**more: Any) -> Facts:
    return Facts(**more)


def opened() -> Connection:
    """Return a connection to tables of its own, in a transaction."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    METADATA.create_all(engine)
    connection = engine.connect()
    connection.begin()
    return connection


def utterance(
    text: str, number: int = 0, *, scope: str = ME, at: datetime | None = None, **more: Any
) -> Utterance:
    values: dict[str, Any] = {
        "id": f"msg_{number}",
        "scope": scope,
        "session": "main:telegram:bot:me",
        "turn": f"turn_{number}",
        "at": at or NOON + timedelta(minutes=number),
        "speaker": USER,
        "text": text,
        "provenance": "external_user",
    }
    return Utterance(**(values | more))


def told(said: list[str], scope: str = ME) -> list[Utterance]:
    """Return the messages of a story."""
    found: list[Utterance] = []
    at = NOON
    for text in said:
        if text == "CHATTER":
            for more in CHATTER * 3:
                found.append(utterance(more, len(found), scope=scope, at=at))
                at += timedelta(minutes=1)
            continue
        head, _, rest = text.partition(": ")
        if len(head) == 10 and head[:2] == "20":
            at, text = datetime.fromisoformat(head).replace(hour=12, tzinfo=UTC), rest
        speaker = ASSISTANT if text.startswith("A: ") else USER
        text = text.removeprefix("A: ")
        found.append(utterance(text, len(found), scope=scope, at=at, speaker=speaker))
        at += timedelta(minutes=1)
    return found


def rows(connection: Connection, scope: str = ME) -> list[Row]:
    query = select(FACTS).where(FACTS.c.scope == scope).order_by(FACTS.c.number)
    return list(connection.execute(query))


def shown(row: Row) -> str:
    return f"{row.subject} | {row.relation} | {row.value}"


def known(connection: Connection, at: datetime, scope: str = ME) -> list[Row]:
    """Return the rows that hold at a time."""
    now = at.isoformat(timespec="microseconds")
    return [
        row
        for row in rows(connection, scope)
        if row.superseded is None and (row.valid_to is None or row.valid_to > now)
    ]


def wrong_in(story: Story, connection: Connection | None = None) -> list[str]:
    """Tell a story; return what is known otherwise than it says.

    Args:
        story: The story.
        connection: To tables where nothing is known of `ME`; tables of its own where it is None.
    """
    if connection is None:
        with opened() as own:
            return wrong_in(story, own)
    said = told(story.said)
    memory = facts()
    for one in said:
        memory.learn([one], connection)
    end = said[-1].at + timedelta(minutes=1)
    holding = known(connection, end)
    return [*_otherwise(story, connection, holding), *_not_found(story, connection, end)]


def _otherwise(story: Story, connection: Connection, holding: list[Row]) -> list[str]:
    found = {shown(row) for row in holding}
    wanted = {" | ".join(line.split(" | ")[:3]) for line in story.knows}
    wrong = [f"not known: {one}" for one in sorted(wanted - found)]
    wrong += [f"should not be known: {one}" for one in sorted(found - wanted)]
    for line in story.knows:
        parts = line.split(" | ")
        since = {(row.valid_from or "")[:10] for row in holding if line.startswith(shown(row))}
        if len(parts) > 3 and parts[3] not in since:
            wrong.append(f"{line}: found {since}")
    if story.past is not None:
        ended = {
            shown(row)
            for row in rows(connection)
            if row not in holding and row.ending not in {"corrected", "confirmed"}
        }
        wrong += [f"past: {one}" for one in sorted(ended ^ set(story.past))]
    return wrong


def _not_found(story: Story, connection: Connection, end: datetime) -> list[str]:
    memory, wrong = facts(), []
    for question, words in story.asks:
        hits = memory.search([ME], question, connection, at=end, limit=3)
        if not any(words in hit.text for hit in hits):
            wrong.append(f"{question}: found {[hit.text for hit in hits]}")
    for day, question, words in story.as_of:
        at = datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC)
        hits = memory.search([ME], question, connection, at=end, as_of=at, limit=1)
        if not hits or words not in hits[0].text:
            wrong.append(f"{day} {question}: found {[hit.text for hit in hits]}")
    return wrong
