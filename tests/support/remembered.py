"""What every gateway makes anew and always finds the same is made once in a process of tests.

Statements and tables of the database, shipped manifests, skills and cards, schemas of tools. What
tests write themselves is read anew each time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pluggy
import pytest
import sqlalchemy
from pluggy import _decorators, _impl, _manager
from pydantic import BaseModel
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.dialects.sqlite.base import SQLiteDialect
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.util import LRUCache

import hookgate
from hookgate import Card, hookspecs
from hookgate.builtin_plugins.awareness import service
from hookgate.builtin_plugins.awareness.cards import folders as cards
from hookgate.builtin_plugins.discovery.sources import folders as capabilities
from hookgate.builtin_plugins.storage import migrate
from hookgate.builtin_plugins.storage.engine import sqlite
from hookgate.builtin_plugins.storage.migrate import PluginTables, TableStatus
from hookgate.core.hooks import dispatch
from hookgate.core.plugins import loader
from hookgate.core.plugins.checks import Manager
from hookgate.kit import tooling
from hookgate.kit.content.documents import DocumentReading
from hookgate.kit.functions import operations
from hookgate.kit.functions.signatures import Signature

T = TypeVar("T")

HOOKGATE = Path(hookgate.__file__).parent
SHIPPED = HOOKGATE / "capabilities"
SYNCHRONOUS = sqlite.SYNCHRONOUS
STATEMENTS = 5000
"""So many statements are kept compiled; hookgate and its tests have fewer."""


@contextmanager
def statements() -> Iterator[None]:
    """Compile a statement once, and not for every database.

    SQLAlchemy keeps what it has compiled by engine and dialect, and each gateway has new ones.
    """
    shared: LRUCache[Any, Any] = LRUCache(STATEMENTS)

    def made(url: str, **options: Any) -> Engine:
        engine = create_engine(url, **options)
        engine._compiled_cache = shared
        return engine

    def same(one: SQLiteDialect, other: object) -> bool:
        return type(one) is type(other)

    with pytest.MonkeyPatch.context() as patch:
        for module in (sqlalchemy, sqlite):
            patch.setattr(module, "create_engine", made)
        patch.setattr(SQLiteDialect, "__eq__", same)
        patch.setattr(SQLiteDialect, "__hash__", lambda one: hash(type(one)))
        yield


@contextmanager
def unsynced() -> Iterator[None]:
    """Wait for no disk: a process of tests that is cut off leaves nothing that is read again.

    A commit took 6 ms on one, and most tests make some. Processes of their own do wait for it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "SYNCHRONOUS", "OFF")
        yield


@pytest.fixture
def looked_through_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look through the cards when a gateway has started, and not two seconds later."""
    monkeypatch.setattr(service, "FIRST_LOOK_SECONDS", 0.0)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the disk as a gateway does."""
    monkeypatch.setattr(sqlite, "SYNCHRONOUS", SYNCHRONOUS)


@contextmanager
def made_tables() -> Iterator[None]:
    """Say once how a table of SQLite and its indexes are made."""
    known: dict[tuple[Any, ...], Any] = {}

    def once(compile_one: Callable[..., Any]) -> Callable[..., Any]:
        def compiled(statement: CreateTable | CreateIndex, **options: Any) -> Any:
            if getattr(options.get("dialect"), "name", "") != "sqlite":
                return compile_one(statement, **options)
            # With the table itself: while it is here, no other one has its id.
            key = type(statement), id(statement.element)
            if key not in known:
                known[key] = statement.element, compile_one(statement, **options)
            return known[key][1]

        return compiled

    with pytest.MonkeyPatch.context() as patch:
        for kind in (CreateTable, CreateIndex):
            patch.setattr(kind, "compile", once(kind.compile))
        yield


@contextmanager
def new_tables() -> Iterator[None]:
    """Make the tables of a new store by the statements that made them the first time."""
    upgrade = migrate.upgrade
    # With the tables themselves: while they are here, no others have their id.
    known: dict[tuple[int, Path], tuple[object, list[tuple[str, Any]], TableStatus]] = {}

    def again(connection: Connection, tables: PluginTables, *, allowed: bool = True) -> TableStatus:
        key = id(tables.metadata), tables.scripts
        if not allowed or not tables.metadata.info.get("complete") or not _none(connection, tables):
            return upgrade(connection, tables, allowed=allowed)
        if key in known:
            _, made, status = known[key]
            driver: Any = connection.connection.driver_connection
            with connection.begin():
                for statement, values in made:
                    driver.execute(statement, values)
            return status
        done: list[tuple[str, Any]] = []

        def note(_: object, cursor: object, statement: str, values: Any, *more: object) -> None:
            if statement.startswith(("\nCREATE", "CREATE", "INSERT", "UPDATE")):
                done.append((statement, values))

        event.listen(connection, "before_cursor_execute", note)
        try:
            status = upgrade(connection, tables)
        finally:
            event.remove(connection, "before_cursor_execute", note)
        if tables.scripts.is_relative_to(HOOKGATE):
            known[key] = tables.metadata, done, status
        return status

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "upgrade", again)
        yield


def _none(connection: Connection, tables: PluginTables) -> bool:
    """Whether a database of SQLite has none of a plugin's tables."""
    if connection.dialect.name != "sqlite":
        return False
    names = [tables.version_table, *tables.metadata.tables]
    names += tables.metadata.info.get("instead_of", ())
    driver: Any = connection.connection.driver_connection
    marks = ", ".join("?" * len(names))
    there = f"SELECT 1 FROM sqlite_master WHERE name IN ({marks}) LIMIT 1"
    return driver.execute(there, names).fetchone() is None


@contextmanager
def shipped() -> Iterator[None]:
    """Read the manifests, skills and cards that are shipped once."""

    def once(read: Callable[[Path], T]) -> Callable[[Path], T]:
        known = cache(read)
        return lambda path: known(path) if path.is_relative_to(SHIPPED) else read(path)

    parse, parsed = cards.parse_card, cache(cards.parse_card)

    def card(text: str, path: str, **options: Any) -> DocumentReading[Card]:
        return (parsed if path.startswith(str(SHIPPED)) else parse)(text, path, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capabilities, "read_manifest", once(capabilities.read_manifest))
        patch.setattr(capabilities, "read_skill", once(capabilities.read_skill))
        patch.setattr(cards, "parse_card", card)
        yield


@contextmanager
def schemas() -> Iterator[None]:
    """Make the schema of a tool that is shipped once for its function."""
    read, make, describe = tooling.read_signature, tooling.arguments_model, tooling._json_schema
    signatures: dict[Hashable, Signature] = {}
    # By the id of a signature that is kept above.
    models: dict[tuple[str, int], type[BaseModel]] = {}
    described: dict[type[BaseModel], dict[str, Any]] = {}

    def signature(function: Callable[..., Any], *, first: str) -> Signature:
        if not function.__module__.startswith("hookgate."):
            return read(function, first=first)
        code = function.__code__, first
        if code not in signatures:
            signatures[code] = read(function, first=first)
        return signatures[code]

    def model(name: str, found: Signature, notes: Mapping[str, str]) -> type[BaseModel]:
        if not any(found is each for each in signatures.values()):
            return make(name, found, notes)
        if (name, id(found)) not in models:
            models[name, id(found)] = make(name, found, notes)
        return models[name, id(found)]

    def schema(name: str, model: type[BaseModel]) -> dict[str, Any]:
        if model not in models.values():
            return describe(name, model)
        if model not in described:
            described[model] = describe(name, model)
        return described[model]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tooling, "read_signature", signature)
        patch.setattr(tooling, "arguments_model", model)
        patch.setattr(tooling, "_json_schema", schema)
        yield


@contextmanager
def checked() -> Iterator[None]:
    """Look through the hooks of a builtin plugin once: which there are, and that all are sound."""
    marked, check = Manager._marked, loader.problems_with
    marks: dict[type, Any] = {}
    sound: set[tuple[type, frozenset[str]]] = set()

    def own(plugin: object) -> bool:
        return type(plugin).__module__.startswith("hookgate.builtin_plugins.")

    def once(manager: Manager, plugin: object) -> Any:
        if not own(plugin):
            return marked(manager, plugin)
        if type(plugin) not in marks:
            marks[type(plugin)] = marked(manager, plugin)
        return marks[type(plugin)]

    def problems(manager: Manager, plugin: object, specs: Any, published: Any) -> list[str]:
        if not own(plugin):
            return check(manager, plugin, specs, published)
        # Another plugin's hook that is not there is passed over, and not looked at.
        key = type(plugin), frozenset(loader.idle_hooks(manager, plugin, published))
        if key not in sound:
            found = check(manager, plugin, specs, published)
            if found:
                return found
            sound.add(key)
        return []

    static, names = _manager._static_hook_attr, _decorators.varnames
    methods: set[tuple[type, str]] = set()
    known: dict[Any, tuple[tuple[str, ...], tuple[str, ...]]] = {}

    def attribute(plugin: object, name: str) -> Any:
        if (type(plugin), name) in methods:
            method = getattr(plugin, name)
            return method.__func__, method
        found = static(plugin, name)
        if own(plugin) and found is not None and inspect.ismethod(found[1]):
            methods.add((type(plugin), name))
        return found

    def arguments(function: Any, **options: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if not (function.__module__ or "").startswith("hookgate."):
            return names(function, **options)
        key = getattr(function, "__func__", function), inspect.ismethod(function), *options.items()
        if key not in known:
            known[key] = names(function, **options)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Manager, "_marked", once)
        patch.setattr(loader, "problems_with", problems)
        patch.setattr(_manager, "_static_hook_attr", attribute)
        patch.setattr(_impl, "varnames", arguments)
        patch.setattr(_decorators, "varnames", arguments)
        yield


@contextmanager
def hooks() -> Iterator[None]:
    """Look through the specifications of hooks once, and not for every gateway."""
    parse = pluggy.PluginManager.parse_hookspec_opts
    known: dict[str, Any] = {}

    def options(manager: pluggy.PluginManager, namespace: Any, name: str) -> Any:
        if namespace is not hookspecs:
            return parse(manager, namespace, name)
        if name not in known:
            known[name] = parse(manager, namespace, name)
        return known[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pluggy.PluginManager, "parse_hookspec_opts", options)
        patch.setattr(dispatch, "annotation_of", cache(dispatch.annotation_of))
        patch.setattr(dispatch, "expected_of", cache(dispatch.expected_of))
        patch.setattr(operations, "read_docstring", cache(operations.read_docstring))
        yield


@contextmanager
def remembered() -> Iterator[None]:
    """Make all of this once."""
    with ExitStack() as stack:
        for part in (
            statements,
            unsynced,
            made_tables,
            new_tables,
            shipped,
            schemas,
            checked,
            hooks,
        ):
            stack.enter_context(part())
        yield
