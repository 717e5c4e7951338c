"""The installed plugin in a real gateway: beside the builtin providers, and in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hookgate import Gateway, Settings

PARROT = {"parrot": {"model": "echo/anything"}}
REPLACE = {"replace": {"providers": "second_provider"}}


def gateway(home: Path, **sections: Any) -> Gateway:
    return Gateway(Settings.model_validate({"home": home, "agents": PARROT, **sections}))


async def test_beside_the_builtin_providers_it_is_one_more(tmp_path: Path) -> None:
    async with gateway(tmp_path) as running:
        turn = await running.chat("hello there")

        assert {"demo", "echo"} <= running.host.providers.keys()
    assert turn.answer == "You said: hello there"


async def test_in_their_place_it_is_the_only_one_and_has_their_settings(tmp_path: Path) -> None:
    plugin = {"providers": {"prefix": "Indeed: "}}
    async with gateway(tmp_path, plugins=REPLACE, plugin=plugin) as running:
        turn = await running.chat("hello there")

        # The embedding makes vectors by the name `hookgate`, and writes no answers.
        assert running.host.providers.keys() - {"hookgate"} == {"echo"}
    assert turn.answer == "Indeed: hello there"
    assert turn.usage.output_tokens == 3
    assert turn.usage.reported


async def test_each_chunk_reaches_the_client_by_itself(tmp_path: Path) -> None:
    chunks = []

    def listen(event: Any) -> None:
        if event.type == "text":
            chunks.append(event.data["text"])

    async with gateway(tmp_path, plugins=REPLACE) as running:
        await running.chat("a b", sink=listen)

    assert chunks == ["You", " said:", " a", " b"]


async def test_plugin_list_says_who_was_replaced(tmp_path: Path) -> None:
    async with gateway(tmp_path, plugins=REPLACE) as running:
        known = [(info.name, info.origin, info.state) for info in running.host.plugins(every=True)]

    assert ("providers", "builtin", "replaced") in known
    assert ("providers", "hookgate-second-provider 0.1.0", "running") in known
