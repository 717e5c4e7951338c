"""The rules of the house, read from the source: who may import whom, and what stands where."""

from __future__ import annotations

import ast
import fnmatch
import gc
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.support import syntax

import hookgate
from hookgate.builtin_plugins import BUILTIN

ROOT = Path(__file__).parent.parent
FACE = ROOT / "src" / "hookgate"
# What tests are made with stands around the plugins under test as a plugin.
KIT = FACE / "kit" / "testing"
MADE_HERE = {
    ".git",
    ".hypothesis",
    ".import_linter_cache",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    "__pycache__",
    "build",
    "dist",
}

FOLDER_MODULES = 14
FUNCTION_LINES = 60

ROOMS = re.findall(r"`(hookgate\.\w+)`", hookgate.__doc__ or "")
OPEN_TO_PLUGINS = (
    *("hookgate.hookspecs", *ROOMS),
    *(f"hookgate.{name}" for name in hookgate.__all__),
)
HEAVY = {"alembic", "faiss", "genai_prices", "numpy", "sqlalchemy", "sqlmodel", "torch", "wasmtime"}
SQL = re.compile(
    r"\b(SELECT\b.+\bFROM|INSERT INTO|CREATE TABLE|DELETE FROM|UPDATE \w+ SET)\b", re.S
)
HTML = re.compile(r"<(!doctype|html|div|span|script|table)\b", re.IGNORECASE)
# Written in two parts, so that this file does not find itself.
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b|NotImplemented" r"Error\(\)")
MACHINE = re.compile(r"(?<![\w}])/(work|root)/|pyp" r"i\.org|pythonhos" r"ted|npm" r"js\.(org|com)")
MUTATORS = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem"),
    *("popleft", "remove", "setdefault", "update"),
}


# -- reading -------------------------------------------------------------------------


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file."""
    found: list[ast.AST] = [tree(path)]
    for node in found:  # twice as fast as `ast.walk`, over two million of them
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                found += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return tuple(found)


@cache
def statements(path: Path) -> list[ast.AST]:
    """The statements of a file: they are walked once, most rules look at them alone."""
    return syntax.statements(tree(path))


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Let go of the trees at the end: whatever a process keeps, its collector walks."""
    gc.disable()
    yield
    tree.cache_clear()
    nodes.cache_clear()
    statements.cache_clear()
    gc.enable()


def shown(path: Path, node: ast.AST | int) -> str:
    line = node if isinstance(node, int) else getattr(node, "lineno", 0)
    return f"{path.relative_to(ROOT)}:{line}"


def files(folder: Path, pattern: str = "*.py") -> list[Path]:
    """Files below `folder`, but for what is made here and what a link leads to."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [
            name for name in folders if name not in MADE_HERE and not name.startswith(".venv")
        ]
        found += (Path(place, name) for name in fnmatch.filter(names, pattern))
    return sorted(path for path in found if not path.is_symlink())


CORE = files(ROOT / "core")
PLUGINS = files(ROOT / "builtin_plugins")
PRODUCT = [ROOT / "hookspecs.py", *CORE, *PLUGINS, *files(FACE)]
TESTS = files(ROOT / "tests")
PYTHON = files(ROOT)
TEXTS = [
    path
    for path in files(ROOT, "*")
    if path.suffix in {".py", ".md", ".toml", ".txt", ".yaml", ".yml", ".js", ".css", ".html"}
    or path.name in {"Makefile", "run"}
]


def is_type_checking(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Walk `node`, but for what stands below ``if TYPE_CHECKING``."""
    yield node
    if isinstance(node, ast.If) and is_type_checking(node.test):
        for child in node.orelse:
            yield from run_time(child)
        return
    for child in ast.iter_child_nodes(node):
        yield from run_time(child)


def imports(found: Iterable[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    for node in found:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            if module == "hookgate":
                yield from ((f"hookgate.{alias.name}", node) for alias in node.names)
            else:
                yield module, node


def lies_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def docstrings(module: ast.Module) -> set[ast.AST]:
    return {
        node.body[0].value
        for node in ast.walk(module)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }


# -- who may import whom -------------------------------------------------------------


def test_the_hooks_import_the_core_for_type_checkers_only() -> None:
    path = ROOT / "hookspecs.py"

    wrong = [
        shown(path, node) for name, node in imports(run_time(tree(path))) if "hookgate" in name
    ]

    assert wrong == []


def test_the_core_imports_no_plugin_and_no_command_line() -> None:
    known = ("hookgate.core", "hookgate.hookspecs", "hookgate.__version__")

    wrong = [
        f"{shown(path, node)} imports {name}"
        for path in CORE
        for name, node in imports(run_time(tree(path)))
        # The face alone loads nothing: annotations are looked up in it.
        if name.startswith("hookgate.") and not any(lies_in(name, one) for one in known)
    ]
    wrong += [
        f"{shown(path, node)} names {name}"
        for path in CORE
        for name, node in imports(statements(path))
        if lies_in(name, "hookgate.builtin_plugins") or lies_in(name, "hookgate.cli")
    ]

    assert wrong == []


def test_a_plugin_imports_the_face_the_kit_the_hooks_and_itself() -> None:
    """What lies behind the face may move, and a third party's plugin has no more than this."""
    wrong = []
    for path in PLUGINS:
        parts = path.relative_to(ROOT / "builtin_plugins").parts
        if len(parts) == 1:
            continue
        known = (*OPEN_TO_PLUGINS, f"hookgate.builtin_plugins.{parts[0]}")
        wrong += [
            f"{shown(path, node)} imports {name}"
            for name, node in imports(statements(path))
            if lies_in(name, "hookgate") and not any(lies_in(name, one) for one in known)
        ]

    assert wrong == []


def test_nothing_is_imported_by_a_relative_name_or_by_the_folder_at_the_top() -> None:
    wrong = [
        f"{shown(path, node)} imports {name}"
        for path in PRODUCT
        for name, node in imports(statements(path))
        if name.startswith(".")
        or name.partition(".")[0] in {"core", "hookspecs", "builtin_plugins", "src"}
    ]

    assert wrong == []


def test_the_core_loads_no_database_vectors_sandbox_or_prices() -> None:
    wrong = [
        f"{shown(path, node)} imports {name}"
        for path in CORE
        for name, node in imports(run_time(tree(path)))
        if name.partition(".")[0] in HEAVY
    ]

    assert wrong == []


def test_the_core_holds_neither_sql_nor_html() -> None:
    wrong = [
        shown(path, node)
        for path in CORE
        for node in set(nodes(path)) - docstrings(tree(path))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and (SQL.search(node.value) or HTML.search(node.value))
    ]

    assert wrong == []


def test_a_class_that_the_face_names_is_the_only_one_of_its_name() -> None:
    homes: dict[str, list[str]] = {}
    for path in PRODUCT:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and node.name in hookgate.__all__:
                homes.setdefault(node.name, []).append(shown(path, node))

    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_the_face_alone_names_the_builtin_plugins() -> None:
    allowed = {*files(FACE), ROOT / "builtin_plugins" / "__init__.py"}

    naming = {
        path
        for path in PRODUCT
        if "BUILTIN" in path.read_text(encoding="utf-8")
        for node in nodes(path)
        if (isinstance(node, ast.Name) and node.id == "BUILTIN")
        or (isinstance(node, ast.alias) and node.name == "BUILTIN")
    }

    assert naming <= allowed, sorted(map(str, naming - allowed))


# -- one plugin ----------------------------------------------------------------------


def folders(where: Path) -> set[str]:
    return {path.parent.name for path in where.glob("*/*.py") if path.parent.name != "__pycache__"}


def test_every_plugin_folder_is_named_once_in_the_load_order() -> None:
    assert sorted(BUILTIN) == sorted(folders(ROOT / "builtin_plugins"))


def test_every_plugin_has_a_folder_of_tests_and_every_such_folder_a_plugin() -> None:
    assert folders(ROOT / "tests" / "builtin_plugins") == set(BUILTIN)


def test_every_plugin_has_a_page_and_every_page_a_plugin() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "plugins").glob("*.md")} - {"index"}

    assert pages == set(BUILTIN)


@pytest.mark.parametrize("name", BUILTIN)
def test_a_plugin_module_defines_the_class_plugin(name: str) -> None:
    path = ROOT / "builtin_plugins" / name / "plugin.py"

    assert "Plugin" in {node.name for node in tree(path).body if isinstance(node, ast.ClassDef)}


def test_hooks_are_implemented_in_the_plugin_module_alone() -> None:
    wrong = [
        shown(path, node)
        for path in PRODUCT
        if path.name not in {"plugin.py", "hookspecs.py"} and KIT not in path.parents
        for node in statements(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for mark in node.decorator_list
        if "hookimpl" in ast.unparse(mark)
    ]

    assert wrong == []


# -- how code is written -------------------------------------------------------------


def test_no_folder_is_a_heap() -> None:
    """A file is split by meaning and not by length; what is many belongs in rooms."""
    heaps = {
        str(folder.relative_to(ROOT)): count
        for folder, count in Counter(path.parent for path in PRODUCT).items()
        if count > FOLDER_MODULES
    }

    assert heaps == {}, f"past {FOLDER_MODULES} modules a folder wants rooms"


def test_no_function_is_too_long() -> None:
    wrong = [
        f"{shown(path, node)} {node.name}"
        for path in PYTHON
        for node in statements(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and lines_of_code(node) > FUNCTION_LINES
    ]

    assert wrong == [], f"past {FUNCTION_LINES} lines a function wants to be two"


def lines_of_code(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many lines a function has, its docstring not counted."""
    first = function.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno - docstring


def test_no_module_keeps_state() -> None:
    wrong = [where for path in PRODUCT for where in mutations(path)]

    assert wrong == [], "two gateways run in one process: state belongs to a value"


def mutations(path: Path) -> Iterator[str]:
    """Yield the places where a function changes something that belongs to its module."""
    names = {
        target.id
        for node in tree(path).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for function in statements(path):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        within = list(ast.walk(function))
        own = {node.id for node in within if is_bound(node)} | arguments(function)
        for node in within:
            changed = changed_name(node)
            if isinstance(node, ast.Global) or (changed in names and changed not in own):
                yield shown(path, node)


def is_bound(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}


def changed_name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        target: ast.expr = node.func.value
        changes = node.func.attr in MUTATORS
    elif isinstance(node, ast.Subscript):
        target, changes = node.value, isinstance(node.ctx, ast.Store | ast.Del)
    else:
        return None
    return target.id if changes and isinstance(target, ast.Name) else None


def test_no_failure_is_passed_over_in_silence() -> None:
    wrong = [
        shown(path, node)
        for path in PYTHON
        for node in statements(path)
        if isinstance(node, ast.ExceptHandler)
        and all(isinstance(item, ast.Pass) or is_ellipsis(item) for item in node.body)
        and not (path in TESTS and is_narrow(node.type))
    ]

    assert wrong == []


def is_narrow(kinds: ast.expr | None) -> bool:
    """Whether an ``except`` names what it catches, as a test's own server may."""
    named = {node.id for node in ast.walk(kinds) if isinstance(node, ast.Name)} if kinds else set()
    return bool(named) and named.isdisjoint({"Exception", "BaseException"})


def is_ellipsis(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and node.value.value is Ellipsis
    )


def test_every_test_can_fail() -> None:
    wrong = [
        f"{shown(path, node)} {node.name}"
        for path in TESTS
        for node in statements(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not any(claims(item) for item in ast.walk(node))
    ]

    assert wrong == []


def claims(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        if ast.unparse(node.func) == "given":
            return True  # that nothing is raised, whatever is given, can fail
        return bool(
            re.search(
                r"assert|raises|check|expect|verify|wait_for|timeout|until", ast.unparse(node.func)
            )
        )
    return isinstance(node, ast.Assert)


# -- what is written down ------------------------------------------------------------


@pytest.mark.parametrize("pattern", [UNFINISHED, MACHINE], ids=["unfinished", "machine"])
def test_nothing_is_left_unfinished_or_bound_to_one_machine(pattern: re.Pattern[str]) -> None:
    wrong = [
        f"{shown(path, number)}: {line.strip()[:90]}"
        for path in TEXTS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]

    assert wrong == []


def test_every_link_in_the_documents_leads_somewhere() -> None:
    wrong = [
        f"{shown(path, number)}: {target}"
        for path in TEXTS
        if path.suffix == ".md" and "capabilities" not in path.parts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", line)
        if "://" not in target and not (path.parent / target).exists()
    ]

    assert wrong == []
