"""What the page of the sanitizer says to do is done here, word for word."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from hookgate.builtin_plugins.sanitizer import rules
from hookgate.builtin_plugins.sanitizer.report import explained
from hookgate.builtin_plugins.sanitizer.sanitizer import SanitizerSettings

PAGE = Path(__file__).parents[3] / "docs/plugins/sanitizer.md"


def block(beginning: str) -> str:
    """Return the block of code of the page that begins so."""
    blocks = re.findall(r"^```\w+\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    (found,) = [one for one in blocks if one.startswith(beginning)]
    return str(found)


def test_a_rule_is_added_and_a_false_alarm_lifted_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = block("[[rules]]")
    (entry,) = tomllib.loads(added)["rules"]
    skill = tmp_path / "SKILL.md"
    skill.write_text(f"---\nname: a\ndescription: Looks.\n---\n\n{entry['finds']}\n")
    before = explained(skill, SanitizerSettings())
    assert entry["name"] not in {one["rule"] for one in before["findings"]}

    copy = tmp_path / "rules.toml"
    copy.write_text(f"{rules.RULES.read_text(encoding='utf-8')}\n{added}", encoding="utf-8")
    made = rules.read(copy)
    monkeypatch.setattr(rules, "rules", lambda: made)
    told = explained(skill, SanitizerSettings())
    (one,) = [one for one in told["findings"] if one["rule"] == entry["name"]]
    assert (told["verdict"], one["severity"], one["line"]) == ("reject", entry["severity"], 6)

    lifting = block("[plugin.sanitizer]")
    (digest,) = re.findall(r"[0-9a-f]{64}", lifting)
    section = tomllib.loads(lifting.replace(digest, told["sha256"]))["plugin"]["sanitizer"]
    settings = SanitizerSettings.model_validate({**section, "allow": tuple(section["allow"])})
    assert explained(skill, settings)["allowed"]
