"""A gateway with a schedule whose model never answers; says when it is asked.

Run as a program: ``python clockwork.py HOME``.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway
from hookgate.hookspecs import hookimpl
from hookgate.kit.testing.model import ScriptedModel


def config(home: Path, **job: Any) -> Settings:
    """Return the settings of the gateway that is killed, and of the one that comes after it."""
    return Settings.model_validate(
        {
            "home": home,
            "agents": {"main": {"model": "script/test"}},
            "plugins": {"entry_points": False},
            "plugin": {"schedules": {"jobs": {"job": {"text": "tick", **job}}}},
        }
    )


class Silent:
    """Brings a model that says that it was asked, and nothing more."""

    name = "silent"

    @hookimpl
    def list_providers(self) -> list[ScriptedModel]:
        return [ScriptedModel([lambda: print("asked", flush=True), asyncio.Event().wait])]


async def main(home: Path) -> None:
    async with Gateway(config(home, every="1s"), plugins=[Silent()]):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
