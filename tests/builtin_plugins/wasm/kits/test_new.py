"""`hookgate wasm new` writes a folder that builds, and whose guest runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hookgate.builtin_plugins.wasm.engine.limits import Limits
from hookgate.builtin_plugins.wasm.engine.sandbox import Sandbox
from hookgate.builtin_plugins.wasm.kits import Kind, Language
from hookgate.builtin_plugins.wasm.kits.scaffold import create
from hookgate.builtin_plugins.wasm.packages.folders import MANIFEST
from hookgate.cli.app import app
from hookgate.core.domain.errors import ContentError, StartError

from .examples import ROOT, ask, build, load, manifest, use

KITS = ROOT / "builtin_plugins" / "wasm"
COPIES = {
    Language.C: {"hookgate.h": KITS / "kits/c/hookgate.h"},
    Language.RUST: {"src/hookgate.rs": KITS / "kits/rust/hookgate.rs"},
    Language.ASSEMBLYSCRIPT: {"hookgate.ts": KITS / "kits/assemblyscript/hookgate.ts"},
    Language.PYTHON: {"wit/plugin.wit": KITS / "wit/plugin.wit"},
}


@pytest.mark.parametrize("language", Language)
def test_a_new_folder_has_a_manifest_a_page_and_its_own_copy_of_the_kit(
    tmp_path: Path, language: Language
) -> None:
    folder = tmp_path / "deep" / "acme-text"

    written = create("acme-text", folder, language)

    assert set(written) == {path for path in folder.rglob("*") if path.is_file()}
    said = manifest(folder)
    assert (said.name, said.kind, said.module) == ("acme-text", "tool", "plugin.wasm")
    assert [tool.name for tool in said.tools] == ["acme_text"]
    assert not said.granted.imports
    for path, kit in COPIES[language].items():
        assert (folder / path).read_bytes() == kit.read_bytes()
    for path in written:
        assert path.suffix != ".tmpl"
    # Beside the kit, nothing is left that should have been filled in.
    own = [path for path in written if path.relative_to(folder).as_posix() not in COPIES[language]]
    assert not [path for path in own if "$" in path.read_text()]
    assert "plugin.wasm" in (folder / "README.md").read_text()


@pytest.mark.parametrize("language", [Language.RUST, Language.PYTHON])
def test_a_new_channel_has_a_manifest_with_a_connection_and_says_how_it_is_tried(
    tmp_path: Path, language: Language
) -> None:
    written = create("acme-pager", tmp_path / "new", language, Kind.CHANNEL)

    said = manifest(tmp_path / "new")
    assert (said.name, said.kind) == ("acme-pager", "channel")
    assert said.channel is not None
    assert said.channel.webhook is not None
    page = (tmp_path / "new/README.md").read_text()
    assert "hookgate channels pair" in page
    assert "-w tool" not in page
    own = [path for path in written if path.name not in ("hookgate.rs", "plugin.wit")]
    assert not [path for path in own if "$" in path.read_text()]


def test_a_channel_in_a_language_without_a_beginning_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="expected rust or python"):
        create("acme", tmp_path / "new", Language.C, Kind.CHANNEL)
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("language", [Language.RUST, Language.PYTHON])
async def test_a_new_channel_builds_and_translates(
    sandbox: Sandbox, tmp_path: Path, language: Language
) -> None:
    create("acme-pager", tmp_path / "new", language, Kind.CHANNEL)
    build(tmp_path / "new")
    guest = await load(sandbox, tmp_path / "new", Limits(compile_seconds=200))

    post = {"id": "1", "room": "a", "from": "ada", "text": "é"}
    read = await ask(guest, "parse_incoming", {"kind": "webhook", "body": json.dumps(post)})
    said = await ask(guest, "format_outgoing", {"action": "send", "content": "é", "peer": "a"})

    assert read["messages"][0]["content"] == "é"
    assert json.loads(said["body"]) == {"room": "a", "text": "é"}


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("language", Language)
async def test_a_new_guest_builds_and_runs(
    sandbox: Sandbox, tmp_path: Path, language: Language
) -> None:
    create("acme-hello", tmp_path / "new", language)
    build(tmp_path / "new")
    guest = await load(sandbox, tmp_path / "new", Limits(compile_seconds=200))

    assert await use(guest, "acme_hello", name="Ada é") == {"content": "Hello, Ada é!"}
    assert await use(guest, "acme_hello") == {
        "content": 'acme_hello needs a name: {"name": "Ada"}',
        "is_error": True,
    }


@pytest.mark.parametrize("name", ["Acme", "", "1st", "a b", "a" * 65, "../up", 'x"\n'])
def test_a_name_that_no_plugin_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StartError, match=r"expected up to 64 small letters"):
        create(name, tmp_path / "new", Language.C)
    assert not (tmp_path / "new").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text("mine")

    with pytest.raises(ContentError, match=r"nothing is overwritten"):
        create("acme", tmp_path, Language.RUST)
    with pytest.raises(ContentError, match=r"nothing is overwritten"):
        create("acme", tmp_path / MANIFEST, Language.RUST)
    assert (tmp_path / MANIFEST).read_text() == "mine"


def test_the_command_says_what_it_wrote_and_what_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    done = CliRunner().invoke(app, ["wasm", "new", "acme-text", "--lang", "rust", "--json"])
    again = CliRunner().invoke(app, ["wasm", "new", "acme-text", "--lang", "c"])

    assert done.exit_code == 0, done.output
    said = json.loads(done.output)
    assert said["plugin"] == "acme-text"
    assert {Path(one).as_posix() for one in said["files"]} >= {
        "acme-text/hookgate-plugin.toml",
        "acme-text/src/lib.rs",
    }
    assert again.exit_code != 0
