"""The page of the settings cannot rot: it is written from them, and its examples are read."""

from __future__ import annotations

import re
from pathlib import Path

from docs.configuration_page import PAGE, page, sections

from hookgate.core.settings.file import load_settings
from hookgate.core.settings.schema import Settings
from hookgate.core.settings.words import Shape

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page_is_what_the_settings_say() -> None:
    assert page() == TEXT, "run `make docs`, and commit docs/configuration.md"


def test_every_key_stands_on_the_page_with_a_description() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.*) \|$", TEXT, re.MULTILINE)
    headers = {re.sub(r"\W+NAME|\W", "", header.split(".")[-1]) for header, _ in sections(Settings)}
    known = {str(path[-1]) for path in Shape(Settings).every_key()}

    assert all(told for _, told in rows)
    assert known <= {key for key, _ in rows} | headers | {"agents", "hooks", "tokens", "plugin"}


def test_the_example_is_valid(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    file = tmp_path / "config.toml"
    file.write_text(example, encoding="utf-8")

    settings = load_settings(file, environ={"HOME": str(tmp_path)})

    assert settings.agents["main"].soul_file == tmp_path / "soul.md"
    assert settings.gateway.port == 7300
