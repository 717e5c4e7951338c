"""The plugin of the page on replacing a builtin takes the builtin's place, tools and all."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookgate import Principal, hookimpl
from hookgate.core.domain.errors import WireError
from hookgate.core.gateway.wire.rpc import Methods

PAGE = Path(__file__).parents[2] / "docs" / "replacing-a-builtin.md"


async def test_the_plugin_of_the_page_runs_in_place_of_memory(
    gateway: Callable[..., Any], model: Any
) -> None:
    plugin, test = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {"__name__": "acme_memory"}
    exec(plugin, names)
    exec(test, names)

    # It fails where the names of the page are not there.
    assert await names["test_notes_go_to_the_service"](gateway, model) is None


async def test_what_replaces_control_says_what_clients_may_ask(
    gateway: Callable[..., Any],
) -> None:
    class Other:
        name = "acme_control"

        @hookimpl
        def before_turn(self) -> None:
            return None

    async with gateway(Other, plugins={"replace": {"control": "acme_control"}}) as running:
        with pytest.raises(WireError) as caught:
            Methods(running.host).find("chat.send", Principal.owner())
        assert "plugins list" in caught.value.data["action"]
        assert (await running.chat("still there?")).answer == "Fine."
