"""The page says what the code does."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from dataclasses import replace

import jsonschema_rs
from docs.inventory_record import PAGE, page, schema
from tests.builtin_plugins.inventory.acme import record

from hookgate.builtin_plugins.inventory import record as module
from hookgate.builtin_plugins.inventory.settings import InventorySettings
from hookgate.builtin_plugins.inventory.sources import inventory_sources

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_schema_on_the_page_is_the_schema_of_a_record() -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)

    assert page(TEXT) == TEXT, "run `make docs`, and commit docs/plugins/inventory.md"
    assert json.loads(shown) == schema()


def test_a_record_fits_the_schema_and_another_shape_does_not() -> None:
    check = jsonschema_rs.validator_for(schema())

    assert check.is_valid(record().to_json())
    assert not check.is_valid({**record().to_json(), "status": "fine"})
    assert not check.is_valid({**record().to_json(), "more": 1})
    assert not check.is_valid(replace(record(), tenant_id="acme").to_json())  # type: ignore[arg-type]


def test_the_settings_and_the_hook_are_as_the_page_says() -> None:
    shown = re.findall(r"^(\w+) = (.+?)(?: +#.*)?$", TEXT.partition("## Settings")[2], re.M)
    signature = f"def inventory_sources{inspect.signature(inventory_sources)}:".replace("'", "")

    assert {name: json.loads(value) for name, value in shown} == InventorySettings().model_dump(
        mode="json"
    )
    assert signature in TEXT


def test_a_record_needs_the_standard_library_alone() -> None:
    tree = ast.parse(inspect.getsource(module))
    names = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    code = f"import runpy; runpy.run_path({module.__file__!r})"

    assert names - sys.stdlib_module_names == set()
    assert subprocess.run([sys.executable, "-S", "-c", code], check=False).returncode == 0
