"""The guests in `examples/guests`: loaded as their manifests say, built as their pages say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hookgate.builtin_plugins.wasm.engine.calls import HostFunction
from hookgate.builtin_plugins.wasm.engine.limits import Limits
from hookgate.builtin_plugins.wasm.engine.sandbox import Guest, Sandbox
from hookgate.builtin_plugins.wasm.packages.folders import MANIFEST
from hookgate.builtin_plugins.wasm.packages.manifest import Manifest, parse_manifest

ROOT = Path(__file__).parents[4]
FOLDERS = {path.parent.name: path.parent for path in ROOT.glob(f"examples/guests/*/{MANIFEST}")}
TOOL = "handle_tool_call"


def manifest(folder: Path) -> Manifest:
    return parse_manifest((folder / MANIFEST).read_text(encoding="utf-8"), MANIFEST)


async def load(sandbox: Sandbox, folder: Path, limits: Limits | None = None) -> Guest:
    """Load the guest of a folder with the host functions that its manifest grants."""
    said = manifest(folder)
    return await sandbox.load(
        (folder / said.module).read_bytes(),
        name=said.name,
        limits=limits or Limits(),
        imports=said.granted.imports,
    )


async def ask(guest: Guest, export: str, request: Any, **host: HostFunction) -> Any:
    """Call a guest with JSON, and return the JSON that it answers."""
    return json.loads(await guest.call(export, json.dumps(request).encode(), host=host))


async def use(guest: Guest, tool: str, **given: Any) -> Any:
    """Call a tool of a guest."""
    return await ask(guest, TOOL, {"name": tool, "input": given})


# -- building ----------------------------------------------------------------------------

TOOLS = {
    "python-zig": "pip install ziglang",
    "clang": "apt install clang lld",
    "cargo": "rustup target add wasm32-unknown-unknown",
    "asc": "npm install --global assemblyscript",
    "componentize-py": "pip install componentize-py",
}


def build_line(folder: Path) -> str:
    """Return the first command on a guest's page: the one that builds it."""
    found = re.search(r"```sh\n(.*?)\n```", (folder / "README.md").read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def build(folder: Path) -> None:
    """Build the guest of a folder as its page says; skip the test where the tool is missing."""
    line = build_line(folder)
    tool = line.split()[0]
    if tool == "python-zig" and shutil.which(tool) is None and shutil.which("clang"):
        tool, line = "clang", line.replace("python-zig cc --target=wasm32-freestanding", CLANG)
    if shutil.which(tool) is None or (tool == "cargo" and not rust_builds_it()):
        pytest.skip(f"{tool} does not build for WebAssembly here: {TOOLS[tool]}")
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=folder,
        env={**os.environ, "CARGO_TARGET_DIR": str(folder / "target")},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr


CLANG = "clang --target=wasm32"


def rust_builds_it() -> bool:
    """Whether Rust's own library is there for WebAssembly."""
    asked = ("rustc", "--print", "target-libdir", "--target", "wasm32-unknown-unknown")
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.returncode == 0 and any(Path(done.stdout.strip()).glob("libstd-*"))


def version(*command: str) -> str:
    """Return what a tool says of its version; nothing where it is missing."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
