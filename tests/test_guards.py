"""The lists of guards are true of the tree: `make test-guards` tries what they say."""

from __future__ import annotations

import ast
import functools

import pytest
from tests.guards import ROOT, Guard, guards

GUARDS = tuple(guards())


@functools.cache
def functions_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions))


def wrong_with(guard: Guard) -> str:
    """Return what the list says of a guard and is not so."""
    path, *_, name = guard.test.split("::")
    if name.partition("[")[0] not in functions_of(path):
        return f"{guard.part}: there is no test {guard.test}"
    try:
        without = guard.deleted(ROOT)
        if guard.file.endswith(".py"):
            ast.parse(without)
    except (OSError, ValueError, SyntaxError) as error:
        return f"{guard.part}: {error}"
    return ""


@pytest.mark.parametrize("listed", sorted({one.part.partition(":")[0] for one in GUARDS}))
def test_a_guard_stands_where_its_list_says_and_names_a_test_that_is_there(listed: str) -> None:
    mine = [one for one in GUARDS if one.part.partition(":")[0] == listed]
    assert mine
    assert [wrong for one in mine if (wrong := wrong_with(one))] == []


def test_no_guard_is_listed_twice() -> None:
    places = [(one.file, one.find, one.replace) for one in GUARDS]
    assert len(set(places)) == len(places)
