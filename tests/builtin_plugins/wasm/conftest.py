from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.script import Allow, Script, Scripted

from hookgate.builtin_plugins.wasm.engine.sandbox import Sandbox
from hookgate.core.domain.messages import Provenance
from hookgate.core.domain.tools import ToolResult
from hookgate.core.domain.turn import Address, Origin, Principal
from hookgate.core.gateway.operations import Invocation
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway

BUILTIN = ("control", "storage", "egress", "sanitizer", "wasm")

Started = Callable[..., AbstractAsyncContextManager["Sandboxed"]]


@dataclass
class Sandboxed:
    """A gateway with the sandbox.

    Attributes:
        gateway: It.
        script: What its model says.
        plugins: The folder of its settings.
    """

    gateway: Gateway
    script: Script
    plugins: Path

    async def call(
        self, name: str, arguments: Mapping[str, Any], *, peer: str = "main"
    ) -> ToolResult:
        """Call a tool as somebody would who calls it without a model."""
        finished = await self.gateway.host.call_tool(
            Principal.owner(),
            Origin(provenance=Provenance.EXTERNAL_USER, path="test"),
            Address(peer=peer),
            name,
            arguments,
        )
        return finished.result

    async def ask(self, arguments: Mapping[str, Any], name: str = "ask", **more: Any) -> Any:
        """Have the guest of `relay` ask its host function; return what that answered."""
        result = await self.call(name, arguments, **more)
        assert not result.is_error, result.text
        return json.loads(result.text)

    async def operation(self, name: str, /, **params: Any) -> Any:
        """Call an operation as the owner; return its result, JSON-ready."""
        operation = self.gateway.host.operations[name]
        invocation = Invocation(host=self.gateway.host, principal=Principal.owner())
        result = await operation.handler(invocation, operation.params.model_validate(params))
        return result.model_dump(mode="json")

    async def accept(self, name: str, digest: str) -> Any:
        """Accept a plugin; return what `wasm.list` says of it."""
        await self.operation("accept.give", kind="guest", name=name, digest=digest)
        return (await self.rows())[name]

    async def rows(self) -> dict[str, dict[str, Any]]:
        """Return what `wasm.list` says, by name."""
        rows = (await self.operation("wasm.list"))["plugins"]
        return {row["name"]: row for row in rows}


@pytest.fixture
def started(tmp_path: Path) -> Started:
    """Starts gateways in one home folder, whose sandbox finds plugins in ``plugins``."""

    @asynccontextmanager
    async def start(
        *steps: Any,
        without: Sequence[str] = (),
        wasm: Mapping[str, Any] | None = None,
        extra: Sequence[object] = (),
        **sections: Any,
    ) -> AsyncIterator[Sandboxed]:
        plugins = tmp_path / "plugins"
        plugins.mkdir(exist_ok=True)
        plugin = {"wasm": {"folders": [str(plugins)], **(wasm or {})}, **sections.pop("plugin", {})}
        settings = Settings.model_validate(
            {
                "home": tmp_path / "home",
                "agents": {"main": {"model": "script/one"}},
                "plugins": {"entry_points": False},
                "plugin": plugin,
                **sections,
            }
        )
        script = Script(*steps)
        builtin = [name for name in BUILTIN if name not in without]
        brought = [Scripted(script), Allow(), *extra]
        async with Gateway(settings, builtin=builtin, plugins=brought) as gateway:
            yield Sandboxed(gateway, script, plugins)

    return start


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    """The engine by itself."""
    made = Sandbox(tmp_path / "guests")
    yield made
    await made.close()
