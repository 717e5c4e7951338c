"""The installed plugin in a real gateway, beside the shipped policy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hookgate import FinishedCall, Flags, Gateway, Settings, hookimpl, tool

WRITES = Flags.from_mapping({**Flags.none().to_json(), "writes_persistent_state": True})


async def save(path: str) -> str:
    """Write a file."""
    return f"wrote {path}"


async def show(path: str) -> str:
    """Show a file."""
    return f"showed {path}"


class Files:
    """A plugin with two tools."""

    @hookimpl
    def list_tools(self):
        return [tool(save, flags=WRITES), tool(show, flags=Flags.none())]


async def call(home: Path, name: str, path: str) -> FinishedCall:
    """Let the demo model call a tool, and return what came of it."""
    folder = home / "project"
    folder.mkdir(exist_ok=True)
    settings = {"home": home, "plugin": {"working_copy": {"folder": str(folder)}}}
    async with Gateway(Settings.model_validate(settings), plugins=[Files()]) as gateway:
        turn = await gateway.chat(f"/call {name} {json.dumps({'path': path})}")
    return turn.calls[0]


async def test_a_file_in_the_folder_is_written(tmp_path: Path) -> None:
    made = await call(tmp_path, "save", "notes/today.md")

    assert made.result.content == "wrote notes/today.md"


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a/../../secret"])
async def test_a_path_that_leads_out_is_denied_and_the_model_is_told_why(
    tmp_path: Path, path: str
) -> None:
    made = await call(tmp_path, "save", path)

    assert made.result.status == "denied"
    assert (made.decision.by, made.decision.rule) == ("working_copy", "working-copy")
    assert "files are written below" in made.result.content


async def test_a_link_that_leads_out_is_followed_and_denied(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "way-out").symlink_to(tmp_path)

    made = await call(tmp_path, "save", "way-out/secret")

    assert made.result.status == "denied"


async def test_what_only_reads_is_left_to_the_other_plugins(tmp_path: Path) -> None:
    made = await call(tmp_path, "show", "/etc/passwd")

    assert made.result.content == "showed /etc/passwd"
