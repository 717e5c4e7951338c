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


@pytest.mark.parametrize("guard", GUARDS, ids=[one.part for one in GUARDS])
def test_a_guard_stands_where_its_list_says_and_names_a_test_that_is_there(guard: Guard) -> None:
    without = guard.deleted(ROOT)
    if guard.file.endswith(".py"):
        ast.parse(without)
    path, *_, name = guard.test.split("::")
    assert name.partition("[")[0] in functions_of(path)


def test_no_guard_is_listed_twice() -> None:
    places = [(one.file, one.find, one.replace) for one in GUARDS]
    assert len(set(places)) == len(places)
