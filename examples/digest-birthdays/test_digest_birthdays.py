"""The installed plugin in a real gateway, without the plugin whose hook it implements."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from hookgate_digest_birthdays import Birthdays, Plugin

from hookgate import Gateway, Settings


def test_birthdays_of_the_day_are_named() -> None:
    plugin = Plugin(Birthdays(people={"Ada": "12-10", "Alan": "06-23"}))
    assert plugin.digest_lines(date(2026, 12, 10)) == ["Ada has a birthday"]
    assert plugin.digest_lines(date(2026, 1, 1)) == []


async def test_alone_it_runs_and_its_implementation_is_idle(tmp_path: Path) -> None:
    async with Gateway(Settings.model_validate({"home": tmp_path})) as gateway:
        info = {one.name: one for one in gateway.host.plugins()}["digest_birthdays"]
        why = gateway.plugins.why("digest_birthdays")

    assert (info.state, info.hooks) == ("running", ())
    assert info.idle == ("digest_lines: digest is not installed, or publishes no hooks",)
    assert "idle: digest_lines" in why
