"""The modules beside the examples are what their sources build to, where the tools are there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hookgate.builtin_plugins.wasm.engine.limits import Limits
from hookgate.builtin_plugins.wasm.engine.sandbox import Sandbox

from .examples import FOLDERS, ROOT, TOOL, ask, build, build_line, load, manifest, use, version

BUILT_BY = {
    "python-zig": (("python-zig", "version"), "0.17.1"),
    "cargo": (("rustc", "--version"), "1.63.0"),
    "asc": (("asc", "--version"), "0.28.20"),
}
"""The tools that the modules were built by. Another version may put other bytes."""
CASES = {
    "echo-c": [(TOOL, {"name": "echo", "input": {"text": 'a"é'}}), (TOOL, {"name": "x"})],
    "text-rust": [
        (TOOL, {"name": "text_count", "input": {"text": "a b\nc"}}),
        (TOOL, {"name": "text_slug", "input": {"text": "A Title"}}),
    ],
    "http-assemblyscript": [(TOOL, {"name": "json_field", "input": {"url": "u", "field": "f"}})],
    "telegram": [
        ("poll", {"cursor": "7"}),
        ("format_outgoing", {"action": "send", "content": "hi", "account": "a", "peer": "5"}),
        ("parse_incoming", {"kind": "poll", "body": '{"ok":true,"result":[]}', "status": 200}),
    ],
}


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A copy of the guests and of what they are written with, in another place."""
    for part in ("builtin_plugins/wasm/kits", "builtin_plugins/wasm/wit", "examples/guests"):
        shutil.copytree(
            ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("*.wasm", "target")
        )
    return tmp_path / "examples" / "guests"


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", sorted(CASES))
async def test_a_module_is_built_again(sandbox: Sandbox, elsewhere: Path, name: str) -> None:
    build(elsewhere / name)

    module = manifest(elsewhere / name).module
    made = (elsewhere / name / module).read_bytes()
    command, ours = BUILT_BY[build_line(FOLDERS[name]).split()[0]]
    if ours in version(*command):
        assert made == (FOLDERS[name] / module).read_bytes()
    before, after = await load(sandbox, FOLDERS[name]), await load(sandbox, elsewhere / name)
    for export, request in CASES[name]:
        assert await ask(before, export, request) == await ask(after, export, request)


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_the_guest_in_python_is_built_and_runs(sandbox: Sandbox, elsewhere: Path) -> None:
    folder = elsewhere / "table-python"
    build(folder)
    guest = await load(sandbox, folder, Limits(compile_seconds=200))

    answer = await use(guest, "table_column", table="a,b\n1,x\n2,y\n6,\n", column="a")
    wrong = await use(guest, "table_column", table="a\n1\n", column="b")

    assert json.loads(answer["content"]) == {
        "rows": 3,
        "values": 3,
        "sum": 9,
        "mean": 3,
        "median": 2,
        "smallest": 1,
        "largest": 6,
    }
    assert wrong["is_error"] is True
