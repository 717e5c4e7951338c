from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hookgate.kit.content.files import read_text
from hookgate.kit.content.problems import ContentError


def test_what_becomes_a_link_after_the_look_at_it_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is looked at by its name and then opened: a link may stand there by then."""
    secret, path = tmp_path / "secret", tmp_path / "card.md"
    secret.write_text("hush")
    path.write_text("honest")
    look = os.stat

    def swapped(name: Path, **how: Any) -> os.stat_result:
        seen = look(name, **how)
        path.unlink()
        path.symlink_to(secret)
        return seen

    monkeypatch.setattr(os, "stat", swapped)
    with pytest.raises(ContentError) as refused:
        read_text(path, max_bytes=100)
    assert "hush" not in str(refused.value)
    assert refused.value.problem.file == str(path)


def test_a_link_is_no_file_of_content(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    assert read_text(tmp_path / "file", max_bytes=4)[0] == "text"
    with pytest.raises(ContentError, match="a regular file"):
        read_text(tmp_path / "link", max_bytes=4)
