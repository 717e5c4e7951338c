"""Alembic without its command line: each plugin's scripts, and a version table for each.

A plugin brings a folder with ``versions/*.py`` and nothing else: there is no ``env.py``
and no ``alembic.ini``. Everything runs on a connection that is handed in, in one
transaction, so that a migration is done whole or not at all.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from hookgate import HookgateError, StartError
from hookgate.builtin_plugins.storage.engine.faults import fault

if TYPE_CHECKING:
    from alembic.script import ScriptDirectory

PREFIX = "alembic_version_"
"""A plugin's version table is called this and the plugin's name."""
LOCK = 0x686B67746D
"""The PostgreSQL advisory lock for migrations: ``hkgtm``."""

_ALEMBIC = threading.Lock()
"""Alembic hands ``op`` to scripts through a global of its module: one migration at a time,
even where two gateways run in one process. This is the only state that they share."""

_seen = sa.table("storage_scripts", sa.column("plugin"), sa.column("digest"), sa.column("version"))
"""Which scripts a plugin's tables were last brought up to date with. Where nothing has
changed since, a start needs neither Alembic (0.2 s to import) nor the scripts."""


# Alembic's own template writes them in single quotes.
_REVISION = re.compile(r"""^revision\b.*?=\s*["'](\w+)["']""", re.MULTILINE)
_DOWN_REVISION = re.compile(r"""^down_revision\b.*?=\s*["'](\w+)["']""", re.MULTILINE)


class TablesError(StartError):
    """A database says that it has a revision, and its tables are not those of that revision."""


@dataclass(frozen=True, slots=True)
class PluginTables:
    """The tables of one plugin.

    Attributes:
        plugin: The plugin's name; it names the version table.
        metadata: The tables as the code knows them.
        scripts: The folder that holds ``versions/``.
    """

    plugin: str
    metadata: sa.MetaData
    scripts: Path

    def __post_init__(self) -> None:
        # PostgreSQL cuts names behind 63 bytes, without saying so.
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", self.plugin):
            raise StartError(
                f"found {self.plugin!r} as the name of a plugin with tables: expected 1 to 40 "
                "letters, digits, `_` and `-`, since it becomes part of a table's name"
            )
        if not (self.scripts / "versions").is_dir():
            raise StartError(
                f"plugin {self.plugin!r} has no folder {self.scripts / 'versions'}: expected its "
                "migrations there (is the folder part of the installed package?)"
            )

    @property
    def version_table(self) -> str:
        """The name of the version table."""
        return PREFIX + self.plugin

    def digest(self) -> str:
        """Return the SHA-256 of all scripts, names and contents, as hex."""
        digest = hashlib.sha256()
        for script in sorted((self.scripts / "versions").glob("*.py")):
            content = script.read_bytes()
            digest.update(f"{script.name}\0{len(content)}\0".encode() + content)
        return digest.hexdigest()

    def whole_head(self, connection: sa.Connection) -> str:
        """Return the revision of tables that are made as the metadata says, at once.

        "" where the scripts are to run: they know more than the metadata, or there are tables
        already, or the database is PostgreSQL.
        """
        if not self.metadata.info.get("complete") or connection.dialect.name != "sqlite":
            return ""
        there = set(sa.inspect(connection).get_table_names())
        before = self.metadata.info.get("instead_of", ())
        if not there.isdisjoint((*self.metadata.tables, *before)):
            return ""
        texts = [each.read_text("utf-8") for each in (self.scripts / "versions").glob("*.py")]
        text = "\n".join(texts)
        names = set(_REVISION.findall(text))
        if len(names) != len(texts):
            # A script whose revision is said in another way may be the newest one.
            return ""
        heads = names - set(_DOWN_REVISION.findall(text))
        return heads.pop() if len(heads) == 1 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """How far a plugin's tables are.

    Attributes:
        plugin: The plugin.
        version: The revision of the database, "" where there is none yet.
        head: The newest revision of the code, "" where the plugin does not run.
    """

    plugin: str
    version: str
    head: str

    @property
    def current(self) -> bool:
        """Whether nothing is to be done."""
        return self.version == self.head or not self.head


def upgrade(
    connection: sa.Connection, tables: PluginTables, *, allowed: bool = True
) -> TableStatus:
    """Bring a plugin's tables up to date, in one transaction of its own.

    Args:
        connection: A connection outside of any transaction.
        tables: The plugin's tables.
        allowed: Whether anything may be changed; otherwise outdated tables are an error.

    Raises:
        StartError: The database is newer than the code; or it is outdated and may not be
            changed; or a script failed. Nothing was changed.
    """
    digest = tables.digest()
    with _foreign_keys_off(connection), connection.begin():
        _one_gateway_at_a_time(connection)
        version = _version(connection, tables.version_table)
        if version and _seen_with(connection, tables.plugin) == (digest, version):
            _check_tables(connection, tables)
            return TableStatus(plugin=tables.plugin, version=version, head=version)
        if allowed and not version and (head := tables.whole_head(connection)):
            _make_whole(connection, tables, head)
            _remember(connection, tables.plugin, digest, head)
            return TableStatus(plugin=tables.plugin, version=head, head=head)
        with _ALEMBIC:
            script = _scripts(tables)
            found = _compare(tables, script, version)
            _refuse_newer(found, script)
            if not found.current:
                if not allowed:
                    raise StartError(
                        f"the tables of plugin {tables.plugin!r} are at revision "
                        f"{version or '(none)'}, expected {found.head}: run `hookgate db "
                        "upgrade`, or set `[plugin.storage] auto_upgrade = true`"
                    )
                _run_scripts(connection, tables, script, found)
                found = _compare(tables, script, _version(connection, tables.version_table))
        _check_tables(connection, tables)
        if allowed:
            _remember(connection, tables.plugin, digest, found.version)
        return found


def status(connection: sa.Connection, tables: PluginTables) -> TableStatus:
    """Return how far a plugin's tables are; changes nothing."""
    return _compare(tables, _scripts(tables), _version(connection, tables.version_table))


def version_tables(connection: sa.Connection, known: Collection[str]) -> list[TableStatus]:
    """Return the tables of plugins that are not `known` here: disabled or uninstalled ones."""
    names = sa.inspect(connection).get_table_names()
    plugins = sorted(name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX))
    return [
        TableStatus(plugin=plugin, version=_version(connection, PREFIX + plugin), head="")
        for plugin in plugins
        if plugin not in known
    ]


def _scripts(tables: PluginTables) -> ScriptDirectory:
    from alembic.script import ScriptDirectory

    script = ScriptDirectory(str(tables.scripts))
    heads = script.get_heads()
    if len(heads) != 1:
        raise StartError(
            f"the migrations of plugin {tables.plugin!r} end in {len(heads)} revisions "
            f"({', '.join(sorted(heads)) or 'none'}), expected one: give each script the "
            "`down_revision` of the one before it"
        )
    return script


def _compare(tables: PluginTables, script: ScriptDirectory, version: str) -> TableStatus:
    (head,) = script.get_heads()
    return TableStatus(plugin=tables.plugin, version=version, head=head)


def _refuse_newer(found: TableStatus, script: ScriptDirectory) -> None:
    known = {revision.revision for revision in script.walk_revisions()}
    if found.version and found.version not in known:
        raise StartError(
            f"the tables of plugin {found.plugin!r} are at revision {found.version}, which this "
            f"version of the plugin does not know (its newest is {found.head}): the database was "
            "written by a newer version. Install that version again, or restore a backup from "
            "before the upgrade, or start with another database (`[plugin.storage] path`)"
        )


def _make_whole(connection: sa.Connection, tables: PluginTables, head: str) -> None:
    """Make new tables as they are in the end: the scripts take ten times as long, and Alembic."""
    tables.metadata.create_all(connection, checkfirst=False)
    name = tables.version_table
    number = sa.Column("version_num", sa.String(32), nullable=False)
    versions = sa.Table(
        name, sa.MetaData(), number, sa.PrimaryKeyConstraint(number, name=f"{name}_pkc")
    )
    versions.create(connection)
    connection.execute(sa.insert(versions).values(version_num=head))


def _run_scripts(
    connection: sa.Connection, tables: PluginTables, script: ScriptDirectory, found: TableStatus
) -> None:
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext, RevisionStep

    step = ""

    def steps(_: object, context: MigrationContext) -> Iterator[RevisionStep]:
        nonlocal step
        path = list(script.iterate_revisions(found.head, found.version or "base"))
        for revision in reversed(path):
            step = revision.revision
            yield RevisionStep(script.revision_map, revision, True)

    context = MigrationContext.configure(
        connection,
        opts={
            "fn": steps,
            "version_table": tables.version_table,
            "target_metadata": tables.metadata,
        },
    )
    try:
        with Operations.context(context):
            context.run_migrations()
        _check_foreign_keys(connection)
    except HookgateError:
        raise
    except Exception as error:
        if fault(error):
            raise
        raise StartError(
            f"the migration of plugin {tables.plugin!r} failed at revision {step or 'none'} "
            f"(`{tables.scripts / 'versions'}`), and nothing was changed: "
            f"{type(error).__name__}: {error}"
        ) from error


def _check_tables(connection: sa.Connection, tables: PluginTables) -> None:
    """Raise where a table is not there as the code knows it."""
    written = connection.dialect.identifier_preparer
    for each in tables.metadata.sorted_tables:
        # To have SQLAlchemy build each of these statements would be a fiftieth of the start.
        columns = ", ".join(written.format_column(one, use_table=True) for one in each.columns)
        try:
            connection.exec_driver_sql(
                f"SELECT {columns} FROM {written.format_table(each)} LIMIT 0"
            )
        except DBAPIError as error:
            if fault(error):
                raise
            raise TablesError(
                f"table {each.name!r} of plugin {tables.plugin!r} is not what its code expects: "
                f"{error.orig}. Restore a backup of the database; or, if the plugin is yours, "
                "add a script to its migrations"
            ) from error


def _version(connection: sa.Connection, name: str) -> str:
    if not sa.inspect(connection).has_table(name):
        return ""
    found = connection.execute(sa.select(sa.table(name, sa.column("version_num")))).scalars()
    return ",".join(sorted(found))


def _seen_with(connection: sa.Connection, plugin: str) -> tuple[str, str] | None:
    if not sa.inspect(connection).has_table(_seen.name):
        return None
    row = connection.execute(
        sa.select(_seen.c.digest, _seen.c.version).where(_seen.c.plugin == plugin)
    ).one_or_none()
    return None if row is None else (row.digest, row.version)


def _remember(connection: sa.Connection, plugin: str, digest: str, version: str) -> None:
    values = {"digest": digest, "version": version}
    done = connection.execute(sa.update(_seen).where(_seen.c.plugin == plugin).values(values))
    if done.rowcount == 0:
        connection.execute(sa.insert(_seen).values(plugin=plugin, **values))


@contextmanager
def _foreign_keys_off(connection: sa.Connection) -> Iterator[None]:
    """Switch SQLite's foreign keys off, which it allows outside of transactions only.

    A migration that makes a table anew would else delete what refers to the former one
    (https://sqlite.org/lang_altertable.html, "Making Other Kinds Of Table Schema Changes").
    """
    if connection.dialect.name != "sqlite":
        yield
        return
    driver = connection.connection.driver_connection
    assert driver is not None
    driver.execute("PRAGMA foreign_keys=OFF")
    try:
        yield
    finally:
        driver.execute("PRAGMA foreign_keys=ON")


def _check_foreign_keys(connection: sa.Connection) -> None:
    if connection.dialect.name == "sqlite":
        broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
        if broken is not None:
            raise ValueError(f"a row of table {broken[0]!r} refers to a row that is not there")


def _one_gateway_at_a_time(connection: sa.Connection) -> None:
    # On SQLite, the lock file and BEGIN IMMEDIATE see to that.
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")
