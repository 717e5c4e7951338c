"""The page of the wire cannot rot: it is written from the code, and its example is run."""

from __future__ import annotations

import asyncio
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs.wire_page import PAGE, all_operations, page
from tests.core.gateway.test_http import SSE
from tests.support.wire import serving

from hookgate.core.domain.errors import TurnError
from hookgate.core.gateway.codes import CODES, wire_error
from hookgate.kit.functions.signatures import schema_of

ROOT = Path(__file__).parent.parent
TEXT = PAGE.read_text(encoding="utf-8")


async def test_the_page_is_what_the_code_says() -> None:
    assert page(await all_operations()) == TEXT, "run `make docs`, and commit docs/wire.md"


async def test_every_method_has_its_parameters_and_its_result_there() -> None:
    """The core's are described as well; a plugin's own page may say more of its own."""
    sections = {part.partition("`")[0]: part for part in TEXT.split("\n### `")[1:]}
    for operation in await all_operations():
        section = sections[operation.name]
        for model in (operation.params, operation.result):
            if f": [{model.__name__}](#" in section:  # which stands in several places
                shape = re.split(rf"^### {model.__name__}$", TEXT, flags=re.M)[1]
                section += shape.partition("\n### ")[0]
            for name in schema_of(model).get("properties", {}):
                told = r"\S.*" if operation.plugin == "control" else ".*"
                row = re.search(rf"^\| `{name}` .*\| ({told}) \|$", section, re.M)
                assert row, f"{operation.name}: {name} is not described"


def test_each_shape_is_told_once() -> None:
    tables = re.findall(r"^\| (?:member|result|parameter) \|.*\n\|---.*\n((?:\|.*\n)+)", TEXT, re.M)
    long = [table for table in tables if table.count("\n") > 4]
    assert len(long) == len(set(long)) > 50
    links = set(re.findall(r"\[[A-Z]\w+\]\(#(\w+)\)", TEXT))
    headings = {one.lower() for one in re.findall(r"^### ([A-Z]\w+)$", TEXT, re.M)}
    assert links == headings


async def test_the_example_works(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    async with serving() as served:
        code = compile(example.replace("127.0.0.1:7200", served.host), "wire.md", "exec")
        await asyncio.to_thread(exec, code, {"__name__": "example"})
    assert capsys.readouterr().out == "well said"


async def test_the_command_lines_work() -> None:
    (lines,) = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    whole, streamed = (
        shlex.split(f"curl{line}".replace("\\\n", " ")) for line in lines.split("curl")[1:]
    )
    async with serving() as served:
        for words, headers in ((whole, {}), (streamed, SSE)):
            pairs = itertools.pairwise(words)
            asked = dict(text.split(": ") for flag, text in pairs if flag == "-H")
            assert asked == {"Content-Type": "application/json", **headers}
            path = next(word for word in words if word.startswith("http")).partition("7200")[2]
            async with served.http.post(
                served.url + path, data=words[words.index("-d") + 1], headers=asked
            ) as answer:
                assert answer.status == 200
                texts = re.findall(r'"text":"([^"]*)"', await answer.text())
                assert texts[-1] == "well said"


def raised() -> Iterator[str]:
    """Yield the names of all errors that the gateway and its operations raise."""
    folders = (ROOT / "core" / "gateway", ROOT / "builtin_plugins" / "control")
    for file in (file for folder in folders for file in folder.rglob("*.py")):
        yield from re.findall(r'wire_error\(\s*"(\w+)"', file.read_text(encoding="utf-8"))


def test_every_code_is_in_the_table_once_and_every_one_is_used() -> None:
    names = [code.name for code in CODES]
    numbers = [code.number for code in CODES]
    assert len(set(names)) == len(names)
    assert len(set(numbers)) == len(numbers)
    reserved = range(-32768, -32000 + 1)
    assert all(number in reserved for number in numbers)
    by_class = {kind.code for kind in TurnError.__subclasses__()}
    elsewhere = {"internal", "failed", "store_failed", "provider_failed", *by_class}
    elsewhere |= {"message_too_long", "unknown_provider", "unknown_model"}  # of loop and providers
    assert set(names) <= set(raised()) | elsewhere
    for name in raised():
        assert wire_error(name, "x").data["code"] == name
