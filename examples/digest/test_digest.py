"""The installed plugin in a real gateway, with others that add to its digest."""

from __future__ import annotations

from pathlib import Path

from hookgate import Gateway, Settings, ToolResult, hookimpl


class Weekday:
    """Adds a line."""

    name = "weekday"

    @hookimpl(of="digest")
    async def digest_lines(self, day):
        return [f"it is a {day:%A}"]


class Broken:
    """Cannot add a line."""

    name = "broken"

    @hookimpl
    def digest_lines(self):
        raise RuntimeError("no lines today")


async def digest(home: Path, *others: object) -> ToolResult:
    """Let the demo model ask for the digest."""
    settings = Settings.model_validate({"home": home, "turn": {"default_verdict": "allow"}})
    async with Gateway(settings, plugins=others, disabled=("policy",)) as gateway:
        turn = await gateway.chat("/call digest {}")
    return turn.calls[0].result


async def test_nobody_has_anything_to_say(tmp_path: Path) -> None:
    assert (await digest(tmp_path)).text.endswith("Nothing today.")


async def test_others_add_lines_and_one_that_fails_costs_its_own(tmp_path: Path) -> None:
    result = await digest(tmp_path, Weekday(), Broken())
    head, line = result.text.splitlines()
    assert line == f"- it is a {head.partition(',')[0]}"


async def test_what_others_wrote_taints(tmp_path: Path) -> None:
    assert (await digest(tmp_path, Weekday())).taint == {"tool:digest"}
