"""Tables of builtin plugins are made by their migrations once in a process, and then replayed.

Most tests start on an empty database, and to read and run all scripts takes half of a start. What
they have said to SQLite is kept, and said again to the next empty database. All else (tables
that are older, PostgreSQL, scripts of a test) goes the whole way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event, inspect

from hookgate import builtin_plugins
from hookgate.builtin_plugins.storage import migrate
from hookgate.builtin_plugins.storage.migrate import PluginTables, TableStatus

SHIPPED = Path(builtin_plugins.__file__).parent
CHANGES = ("CREATE", "ALTER", "DROP", "INSERT", "UPDATE", "DELETE")

Said = list[tuple[str, Any]]


@contextmanager
def heard(connection: Connection) -> Iterator[Said]:
    """Keep the changes that are made in this block."""
    said: Said = []

    def hear(_c: Any, _cursor: Any, statement: str, values: Any, _x: Any, many: bool) -> None:
        if statement.lstrip().upper().startswith(CHANGES):
            said.extend((statement, each) for each in (values if many else [values]))

    event.listen(connection, "before_cursor_execute", hear)
    try:
        yield said
    finally:
        event.remove(connection, "before_cursor_execute", hear)


def new(connection: Connection, tables: PluginTables) -> bool:
    """Whether no table of a plugin has been made yet."""
    with connection.begin():
        return not inspect(connection).has_table(tables.version_table)


@pytest.fixture(scope="session", autouse=True)
def migrations() -> Iterator[None]:
    known: dict[tuple[str, Path], tuple[Said, TableStatus]] = {}
    whole = migrate.upgrade

    def upgrade(
        connection: Connection, tables: PluginTables, *, allowed: bool = True
    ) -> TableStatus:
        sqlite = connection.dialect.name == "sqlite"
        if not (
            allowed
            and sqlite
            and tables.scripts.is_relative_to(SHIPPED)
            and new(connection, tables)
        ):
            return whole(connection, tables, allowed=allowed)
        if (made := known.get((tables.plugin, tables.scripts))) is None:
            with heard(connection) as said:
                found = whole(connection, tables)
            known[tables.plugin, tables.scripts] = said, found
            return found
        with migrate._foreign_keys_off(connection), connection.begin():
            for statement, values in made[0]:
                connection.exec_driver_sql(statement, values)
        return made[1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "upgrade", upgrade)
        yield
