"""The figures on the pages of the sandbox are those that count."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from hookgate.builtin_plugins.wasm.engine import limits as limits_module
from hookgate.builtin_plugins.wasm.engine.limits import Limits
from hookgate.builtin_plugins.wasm.engine.sandbox import CACHE_BYTES, MEMORY_BYTES
from hookgate.builtin_plugins.wasm.engine.workers import NICENESS, THREADS_A_TURN
from hookgate.builtin_plugins.wasm.settings import WasmSettings

DOCS = Path(__file__).parents[4] / "docs"
SANDBOX = (DOCS / "wasm-sandbox.md").read_text(encoding="utf-8")
PLUGIN = (DOCS / "plugins" / "wasm.md").read_text(encoding="utf-8")
UNITS = {"KB": 1024, "MB": 1024**2, "GB": 1024**3}
ROW = re.compile(r"^\| (`[^|]+) \| ([^|]+) \|", re.MULTILINE)


def said(page: str) -> dict[str, float]:
    """Return what the limits' table of a page says, by limit; a row may have several."""
    table = page.partition("## Limits")[2].partition("\n## ")[0]
    found: dict[str, float] = {}
    for names, figures in ROW.findall(table):
        limits = re.findall(r"`(\w+)`", names)
        values = [figure(one) for one in re.split(r",(?= )", figures)]
        found |= dict(zip(limits, values, strict=True))
    return found


def figure(text: str) -> float:
    number, _, unit = text.strip().partition(" ")
    return float(number.replace(",", "")) * UNITS.get(unit, 1)


def test_each_limit_has_the_default_that_the_page_of_the_sandbox_says() -> None:
    assert said(SANDBOX) == {one.name: getattr(Limits(), one.name) for one in fields(Limits)}


def test_each_limit_has_the_default_that_the_page_of_the_plugin_says() -> None:
    found = said(PLUGIN)

    assert len(found) == 10
    assert found == {name: getattr(Limits(), name) for name in found}


def test_the_settings_that_the_page_of_the_plugin_shows_are_the_defaults() -> None:
    shown = PLUGIN.partition("## Settings")[2].partition("## ")[0]
    rows = re.findall(r"^(\w+) = ([\d.]+|true|false)\b", shown, re.MULTILINE)
    settings = WasmSettings()

    for name, value in rows:
        owner = settings if name in WasmSettings.model_fields else settings.limits
        if name == "memory_bytes" and int(value) != settings.memory_bytes:
            owner = settings.limits
        assert getattr(owner, name) == pytest.approx(float({"true": 1}.get(value, value))), name


def test_the_other_figures_of_the_page_of_the_sandbox_are_those_that_count() -> None:
    settings = WasmSettings()

    assert f"`threads` calls run at a time, {settings.threads} by default" in SANDBOX
    assert settings.memory_bytes == MEMORY_BYTES == 1 << 30
    assert "`memory_bytes` together, 1 GB by default" in SANDBOX
    assert THREADS_A_TURN == 4
    assert "four times as many calls\nmay have begun" in SANDBOX
    assert f"all its memories, {limits_module.MEMORIES} at most" in SANDBOX
    assert f"all its tables, {limits_module.TABLES} at most" in SANDBOX
    assert f"{limits_module.ELEMENT_BYTES} bytes for an element of a table" in SANDBOX
    assert f"512 KB | its stack; {limits_module.MOST['stack_bytes'] >> 20} MB at most" in SANDBOX
    assert CACHE_BYTES == 1 << 30
    assert "the folder is larger than 1 GB" in SANDBOX
    assert f"niceness {NICENESS}" in SANDBOX
