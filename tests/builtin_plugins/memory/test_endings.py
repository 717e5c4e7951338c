"""What is meant by how an id ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, create_engine

from hookgate.builtin_plugins.memory.overview import ids_called
from hookgate.builtin_plugins.memory.tables import METADATA, TURNS


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        METADATA.create_all(connection)
        yield connection
    engine.dispose()


def say(connection: Connection, message: str, pieces: int, place: int, session: str) -> None:
    blank = {"stamp": 0, "turn": "t", "at": 0, "speaker": "user", "text": "x", "taint": "[]"}
    blank |= {"provenance": "external_user", "terms": b"", "signs": 0, "fingerprint": ""}
    rows = [
        {**blank, "scope": "s", "place": place + part, "message": message, "part": part}
        | {"session": session}
        for part in range(pieces)
    ]
    connection.execute(TURNS.insert(), rows)


def test_many_pieces_of_one_message_hide_no_other_one_that_ends_alike(
    connection: Connection,
) -> None:
    """Else `memory forget beef` would forget the first one, and say nothing of the other."""
    say(connection, "message_1111beef", 20, 0, "main:cli:local:me")
    say(connection, "message_2222beef", 1, 100, "main:cli:local:me")
    found = ids_called(connection, ["beef"])["beef"]
    assert {one for one, _ in found} == {"message_1111beef", "message_2222beef"}


def test_ids_of_others_hide_none_of_ones_own(connection: Connection) -> None:
    for number in range(12):
        say(connection, f"message_{number:04}beef", 1, number, "main:mail:acme:eve")
    for number in (20, 21):
        say(connection, f"message_{number:04}beef", 1, number, "main:cli:local:me")
    found = ids_called(connection, ["beef"])["beef"]
    assert sum(session == "main:cli:local:me" for _, session in found) == 2
