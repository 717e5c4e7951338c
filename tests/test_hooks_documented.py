"""Hooks cannot rot: each has a page that says the truth, and a test that implements it."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy
import pytest
from docs.hook_pages import PAGES, Hook, contract_line, header, hooks, index_table
from docs.turn_picture import CORE, PICTURE, drawing
from tests.support.types import checked

from hookgate import hookspecs
from hookgate.core.hooks.caller import Hooks

ROOT = Path(__file__).parent.parent
HOOKS = {hook.name: hook for hook in hooks()}
SECTIONS = ["When it fires", "When it does not", "What stops it", "Example"]

each_hook = pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS.keys())


def page(hook: Hook) -> str:
    return (PAGES / f"{hook.name}.md").read_text(encoding="utf-8")


def example(hook: Hook) -> str:
    after = page(hook).partition("## Example\n")[2]
    blocks = re.findall(r"```python\n(.*?)```", after, re.DOTALL)
    assert len(blocks) == 1, "a page has one example, in one block"
    return str(blocks[0])


def load(source: str, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    return module


def registered(plugin: object) -> pluggy.PluginManager:
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin, "example")
    manager.check_pending()
    return manager


def test_every_hook_has_a_page_and_every_page_a_hook() -> None:
    pages = {path.stem for path in PAGES.glob("*.md")} - {"index"}

    assert pages == HOOKS.keys()


def test_every_function_with_a_contract_is_found() -> None:
    declared = {name for name, value in vars(hookspecs).items() if hasattr(value, "__contract__")}

    assert declared == HOOKS.keys()


@each_hook
def test_a_page_shows_the_exact_signature_and_contract(hook: Hook) -> None:
    assert page(hook).startswith(f"# {hook.name}\n\n{header(hook)}\n"), "run `make docs`"


@each_hook
def test_a_page_says_when_it_fires_where_not_and_what_stops_it(hook: Hook) -> None:
    text = page(hook)

    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[:4] == SECTIONS
    for section in re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]:
        assert len(section.split()) >= 10


@each_hook
def test_a_page_speaks_of_its_own_limit(hook: Hook) -> None:
    words = {5.0: "five", 10.0: "ten", 30.0: "30", 60.0: "60", 610.0: "600"}

    told = re.findall(r"(\w+) seconds", page(hook))

    assert set(told) <= {words[hook.contract.limit], "600"}


@each_hook
def test_the_example_of_a_page_is_a_plugin_that_implements_the_hook(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = load(example(hook), f"example_{hook.name}", monkeypatch).Plugin()

    called = Hooks(registered(plugin)).implementations(getattr(hookspecs, hook.name))

    assert [implementation.plugin for implementation in called] == ["example"]


@each_hook
def test_the_example_of_a_page_has_the_annotations_of_the_hook(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = load(example(hook), f"example_{hook.name}", monkeypatch).Plugin
    spec = inspect.signature(getattr(hookspecs, hook.name))
    found = inspect.signature(getattr(plugin, hook.name), follow_wrapped=True)

    for name, parameter in list(found.parameters.items())[1:]:
        assert parameter.annotation == spec.parameters[name].annotation
    if hook.name != "lifespan":
        assert found.return_annotation == spec.return_annotation


@each_hook
def test_the_example_in_the_docstring_implements_the_hook(hook: Hook) -> None:
    body = "\n".join(f"    {line}" for line in hook.example.splitlines())
    names: dict[str, Any] = {
        "hookimpl": hookspecs.hookimpl,
        "blocking": hookspecs.blocking,
        "asynccontextmanager": asynccontextmanager,
    }
    exec(f"class Plugin:\n{body}", names)

    called = registered(names["Plugin"]()).hook

    assert getattr(called, hook.name).get_hookimpls()


def test_the_index_lists_every_hook_with_its_contract() -> None:
    assert index_table() in (PAGES / "index.md").read_text(encoding="utf-8"), "run `make docs`"


def test_the_picture_of_a_turn_shows_its_hooks_in_their_order() -> None:
    shown = PICTURE.read_text(encoding="utf-8")

    assert shown == drawing(), "run `make docs`, and commit docs/turn.svg"
    turn = [hook.name for hook in HOOKS.values() if hook.section != "Wiring"]
    assert [name for name in re.findall(r">(\w+)</text>", shown) if name in HOOKS] == turn


def test_the_picture_of_a_turn_names_no_hook_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CORE, "before_lunch", "a meal")

    with pytest.raises(ValueError, match="before_lunch"):
        drawing()


def test_the_readme_counts_the_hooks() -> None:
    assert f"{len(HOOKS)} typed hooks" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_changed_contract_changes_the_page() -> None:
    hook = HOOKS["tag_turn"]
    stricter = replace(hook, contract=replace(hook.contract, required=True))

    assert header(stricter) != header(hook)
    assert contract_line(stricter.contract) == "`each!` · limit 5 s"


def implemented_in(path: Path) -> set[str]:
    text = path.read_text(encoding="utf-8")
    if "hookimpl" not in text:
        return set()
    return {
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(_is_hookimpl(mark) for mark in node.decorator_list)
    }


def _is_hookimpl(mark: ast.expr) -> bool:
    function = mark.func if isinstance(mark, ast.Call) else mark
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name == "hookimpl"


def test_every_hook_is_implemented_by_a_test() -> None:
    tested = set[str]().union(*(implemented_in(path) for path in (ROOT / "tests").rglob("*.py")))

    assert HOOKS.keys() - tested == set()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_examples_of_all_pages_pass_mypy(tmp_path: Path) -> None:
    for hook in HOOKS.values():
        (tmp_path / f"example_{hook.name}.py").write_text(example(hook), encoding="utf-8")

    done = checked(sorted(tmp_path.glob("*.py")))

    assert done.returncode == 0, done.stdout
