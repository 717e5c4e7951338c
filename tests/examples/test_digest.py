"""Two examples together: one publishes a hook, the other implements it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from hookgate.kit.testing.gateway import started
from hookgate.kit.testing.model import ScriptedModel, call, say

EXAMPLES = Path(__file__).parents[2] / "examples"
SECTION = {"digest_birthdays": {"people": {"Ada": "03-01", "Alan": "06-23"}}}
OPEN = {"plugin": SECTION, "turn": {"default_verdict": "allow"}, "disabled": ("policy",)}

TOGETHER = """
import asyncio, sys
from hookgate import Gateway, Settings
async def main():
    settings = Settings.model_validate({"home": sys.argv[1]})
    async with Gateway(settings) as gateway:
        print(gateway.plugins.why("digest"))
        print(gateway.plugins.why("digest_birthdays"))
asyncio.run(main())
"""


def module(folder: str, name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, made)
    spec.loader.exec_module(made)
    return made


async def test_line_of_the_one_stands_in_the_digest_of_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = module("digest", "hookgate_digest", monkeypatch).Plugin
    birthdays = module("digest-birthdays", "hookgate_digest_birthdays", monkeypatch).Plugin
    model = ScriptedModel(call("digest"), say("read"))
    async with started(digest, birthdays, home=tmp_path, model=model, **OPEN) as gate:
        turn = await gate.chat("what is today?")
        infos = {info.name: info for info in gate.host.plugins()}
    assert turn.calls[0].result.text == "Sunday, 01 March 2026\n- Ada has a birthday"
    assert infos["digest"].publishes == ("digest_lines",)
    assert (infos["digest_birthdays"].hooks, infos["digest_birthdays"].idle) == (
        ("digest_lines",),
        (),
    )


async def test_while_the_publisher_is_disabled_the_implementation_is_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = module("digest", "hookgate_digest", monkeypatch).Plugin
    birthdays = module("digest-birthdays", "hookgate_digest_birthdays", monkeypatch).Plugin
    model = ScriptedModel(say("hello"))
    off = {**OPEN, "disabled": ("policy", "digest")}
    async with started(digest, birthdays, home=tmp_path, model=model, **off) as gate:
        assert (await gate.chat("hello")).answer == "hello"
        (info,) = (one for one in gate.host.plugins() if one.name == "digest_birthdays")
    assert info.idle == ("digest_lines: digest does not run: it is disabled",)


@pytest.mark.slow
def test_installed_together_they_find_each_other(tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"),
        *("--no-build-isolation", "--disable-pip-version-check", "--target", str(site)),
        *(str(EXAMPLES / "digest"), str(EXAMPLES / "digest-birthdays")),
    ]
    subprocess.run(command, check=True, timeout=120)
    done = subprocess.run(
        [sys.executable, "-c", TOGETHER, str(tmp_path / "home")],
        env={"PYTHONPATH": str(site), "HOME": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "it publishes digest_lines" in done.stdout, done.stderr
    assert "it implements digest_lines\n" in done.stdout
