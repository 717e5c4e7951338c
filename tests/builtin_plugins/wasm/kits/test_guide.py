"""What the guide for guest authors shows is what there is."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from hookgate.builtin_plugins.wasm import wire
from hookgate.builtin_plugins.wasm.engine.limits import Limits
from hookgate.builtin_plugins.wasm.wire import HOST_FUNCTIONS, REQUEST_BYTES, read_form

from .examples import ROOT

GUIDE = (ROOT / "docs" / "wasm-guests.md").read_text(encoding="utf-8")
FORMS = re.findall(r"<!-- form: (\w+) -->\n```json\n(.*?)```", GUIDE, re.DOTALL)
SHOWN = re.findall(r"```(c|rust|ts|python)\n(.*?)```", GUIDE, re.DOTALL)
SOURCES = {
    "c": "echo-c/echo.c",
    "rust": "text-rust/src/lib.rs",
    "ts": "http-assemblyscript/index.ts",
    "python": "table-python/plugin.py",
}


@pytest.mark.parametrize(("form", "example"), FORMS, ids=[name for name, _ in FORMS])
def test_each_form_is_shown_as_it_is(form: str, example: str) -> None:
    kind = getattr(wire, form)

    assert isinstance(read_form(kind, example.encode(), what=form), kind)


def test_every_form_that_a_guest_meets_is_shown() -> None:
    assert {name for name, _ in FORMS} == {
        *("Description", "ToolRequest", "ToolAnswer", "Incoming", "ParsedIncoming", "Outgoing"),
        *("HttpRequest", "Sent", "PollCursor", "PollRequest", "FaultAnswer"),
    }
    assert GUIDE.count("```json") == len(FORMS)


def test_code_is_that_of_the_examples() -> None:
    assert sorted(language for language, _ in SHOWN) == sorted(SOURCES)
    for language, code in SHOWN:
        source = ROOT / "examples" / "guests" / SOURCES[language]
        assert code in source.read_text(encoding="utf-8")


def test_the_limits_are_those_that_count() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", GUIDE, re.MULTILINE)

    said = {name: float(value.replace(",", "")) for name, value in rows}

    assert said == {one.name: getattr(Limits(), one.name) for one in fields(Limits)}


def test_the_functions_of_the_host_are_those_that_there_are() -> None:
    table = GUIDE.partition("## The host")[2].partition("## What guests are written with")[0]

    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(HOST_FUNCTIONS)


def test_the_sizes_of_requests_and_the_bounds_of_words_are_those_that_count() -> None:
    table = GUIDE.partition("## The host")[2].partition("## What guests are written with")[0]

    sizes = re.findall(r"^\| `(\w+)` \|.*\| ([\d,]+) \|", table, re.MULTILINE)

    assert {name: int(most.replace(",", "")) for name, most in sizes} == REQUEST_BYTES
    for most, what in (
        (wire.KEYS, "keys in one object"),
        (wire.PARTS, "elements in one array"),
        (wire.DEPTH, "objects and arrays within each"),
        (wire.VALUES, "values"),
        (wire.SCALAR, "characters in one number"),
        (wire.ESCAPES, "backslashes in all"),
    ):
        assert f"{most:,} {what}" in table
