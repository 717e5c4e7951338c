"""The source, counted: lines, headers, twins, imports, commands.

A line of code is one that holds a token, docstrings and comments left out. Headers are the lines
of imports, of ``if TYPE_CHECKING`` and of ``__all__``. Twins are two classes (or a class and a
table) that share at least four fields and three quarters of those of the smaller one.
"""

from __future__ import annotations

import ast
import io
import itertools
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("core", "builtin_plugins", "src/hookgate", "hookspecs.py")
LAYOUT = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


@dataclass(frozen=True)
class Module:
    """A module of the product.

    Attributes:
        path: Where it stands, from the root of the repository.
        tree: What it says.
        lines: All its lines.
        code: Its lines of code.
        headers: Those of them that import or list names.
    """

    path: Path
    tree: ast.Module
    lines: int
    code: int
    headers: int


def modules() -> Iterator[Module]:
    """Yield the product's modules; the links in ``src/hookgate`` are not followed."""
    for room in ROOMS:
        at = ROOT / room
        for path in [at] if at.is_file() else sorted(at.rglob("*.py")):
            if not any(parent.is_symlink() for parent in (path, *path.parents)):
                yield weighed(path)


def weighed(path: Path) -> Module:
    """Return the module at `path`, counted."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    said = {
        line
        for node in ast.walk(tree)
        for child in _block(node)
        if isinstance(child, ast.Expr)
        and isinstance(child.value, ast.Constant)
        and isinstance(child.value.value, str)
        for line in _lines(child)
    }
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    code -= said
    headers = {line for node in ast.walk(tree) if _is_header(node) for line in _lines(node)}
    return Module(path.relative_to(ROOT), tree, text.count("\n"), len(code), len(headers & code))


def _block(node: ast.AST) -> list[ast.stmt]:
    body = getattr(node, "body", [])
    return body if isinstance(body, list) else []


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _is_header(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if isinstance(node, ast.Assign):
        return any(isinstance(one, ast.Name) and one.id == "__all__" for one in node.targets)
    return isinstance(node, ast.Import | ast.ImportFrom)


def twins(all_modules: Iterable[Module]) -> int:
    """Return how many pairs of classes and tables have nearly the same fields."""
    rows = [
        fields
        for module in all_modules
        for node in ast.walk(module.tree)
        if len(fields := _fields(node)) >= 4
    ]
    return sum(
        len(one & other) >= max(4, 0.75 * min(len(one), len(other)))
        for one, other in itertools.combinations(rows, 2)
    )


def _fields(node: ast.AST) -> frozenset[str]:
    if isinstance(node, ast.ClassDef):
        named = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
        return frozenset(one.id for one in named if isinstance(one, ast.Name) and one.id[0] != "_")
    if isinstance(node, ast.Call) and _called(node) == "Table":
        return frozenset(
            str(each.args[0].value)
            for each in node.args
            if isinstance(each, ast.Call)
            and _called(each) == "Column"
            and isinstance(each.args[0], ast.Constant)
        )
    return frozenset()


def _called(node: ast.Call) -> str:
    # `Table`, or `sa.Table`.
    name: str = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return name


def behind_the_face(plugins: Iterable[Module]) -> int:
    """Return how many imports builtin plugins make of what stands behind the face."""
    return sum(
        node.module.startswith("hookgate.core")
        for module in plugins
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.module
    )


def commands(all_modules: Iterable[Module]) -> tuple[int, int]:
    """Return how many commands are written by hand: those that ask an operation, and the others.

    The others work on files, on a terminal or before there is a gateway. What makes commands of
    operations is neither.
    """
    asking = [
        _asks(module.tree, node.name)
        for module in all_modules
        for node in module.tree.body
        if "commands" in module.path.with_suffix("").parts
        and isinstance(node, ast.FunctionDef)
        and node.name[0] != "_"
        and _is_command(node)
    ]
    return sum(asking), len(asking) - sum(asking)


def _is_command(node: ast.FunctionDef) -> bool:
    kinds = [ast.unparse(arg.annotation) for arg in node.args.args if arg.annotation]
    return "typer.Context" in kinds


def _asks(tree: ast.Module, name: str) -> bool:
    """Return whether a function, or one of its module that it calls, asks an operation."""
    functions = {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    seen, todo = set[str](), [name]
    while todo:
        one = todo.pop()
        if one in seen or one not in functions:
            continue
        seen.add(one)
        for node in ast.walk(functions[one]):
            if isinstance(node, ast.Attribute) and node.attr == "ask":
                return True
            if isinstance(node, ast.Name):
                todo.append(node.id)
    return False


def figures() -> dict[str, tuple[float, str]]:
    """Return what is counted: values by name, each with its unit."""
    found = list(modules())

    def code(*rooms: str, but: tuple[str, ...] = ()) -> int:
        return sum(
            module.code
            for module in found
            if module.path.as_posix().startswith(rooms)
            and not module.path.as_posix().startswith(but)
        )

    plugins = [one for one in found if one.path.parts[0] == "builtin_plugins"]
    of_plugins: Counter[str] = Counter()
    for module in plugins:
        of_plugins[module.path.parts[1]] += module.code
    names = Counter(
        node.name
        for module in found
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and node.name[0] != "_"
    )
    total = code(*ROOMS)
    asking, others = commands(found)
    thin = code("core/", "hookspecs.py", but=("core/gateway/", "core/settings/"))
    return {
        "modules": (len(found), "modules"),
        "lines": (sum(one.lines for one in found), "lines"),
        "code": (total, "lines"),
        "headers": (100 * sum(one.headers for one in found) / total, "% of code"),
        "core": (thin, "lines of code, without gateway and settings"),
        "doors": (code("core/gateway/", "core/settings/"), "lines of code"),
        "kit and command line": (code("src/"), "lines of code"),
        "twins": (twins(found), "pairs"),
        "behind the face": (behind_the_face(plugins), "imports by builtins"),
        "commands by hand": (asking, "functions that ask an operation"),
        "commands of the terminal": (others, "functions"),
        "names of two classes": (sum(count > 1 for count in names.values()), "names"),
        **{
            f"plugin {name}": (count, "lines of code")
            for name, count in sorted(of_plugins.items())
            if not name.endswith(".py")
        },
    }
