"""What the page of the plugin shows to authors of plugins."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.types import ROOT, checked


@pytest.mark.slow
def test_the_tables_that_the_page_shows_pass_mypy(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "plugins" / "storage.md").read_text(encoding="utf-8")
    shown = page.partition("from sqlalchemy import MetaData")
    code = f"{shown[1]}{shown[2].partition('```')[0]}"
    assert "class Note(" in code
    module = tmp_path / "tables.py"
    module.write_text(f"{code}\nKEY: str = Note.table.c.id.name\n")
    done = checked([module])
    assert done.returncode == 0, done.stdout
