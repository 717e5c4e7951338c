"""The installed plugin in a real gateway, beside the builtin ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookgate import ConfigError, Gateway, Settings, ToolResult


async def call(home: Path, message: str, **settings: object) -> ToolResult:
    """Let the demo model call a tool, and return what came of it."""
    config = Settings.model_validate({"home": home, "plugin": {"blocklist": settings}})
    async with Gateway(config) as gateway:
        turn = await gateway.chat(message)
    return turn.calls[0].result


SUM = '/call calculate {"expression": "1 + 1"}'


async def test_tool_on_the_list_is_denied_and_the_model_is_told_why(tmp_path: Path) -> None:
    result = await call(tmp_path, SUM, tools={"calc*": "people do the sums here"})

    assert result.status == "denied"
    assert "people do the sums here" in result.content


async def test_tool_that_is_not_on_the_list_runs(tmp_path: Path) -> None:
    result = await call(tmp_path, SUM, tools={"clock": "it is always now"})

    assert result.content == "2"


async def test_operators_permission_does_not_overrule_the_list(tmp_path: Path) -> None:
    config = Settings.model_validate(
        {
            "home": tmp_path,
            "plugin": {
                "blocklist": {"tools": {"calculate": "no"}},
                "policy": {"profile": "open", "allow": ["*"]},
            },
        }
    )
    async with Gateway(config) as gateway:
        turn = await gateway.chat(SUM)

    assert turn.calls[0].decision.by == "blocklist"
    assert turn.calls[0].result.status == "denied"


def test_misspelt_setting_stops_the_start_and_names_its_key(tmp_path: Path) -> None:
    config = Settings.model_validate({"home": tmp_path, "plugin": {"blocklist": {"tool": {}}}})

    with pytest.raises(ConfigError, match=r"plugin\.blocklist\.tool.*tools"):
        Gateway(config)
