"""Nothing reaches a model without leaving a row: every operation, route, hook and nested path."""

from __future__ import annotations

import ast
import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from sqlalchemy import select
from tests.builtin_plugins.policy.conftest import near
from tests.support.script import until

from hookgate.builtin_plugins.metering.tables import CALLS
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.messages import Provenance
from hookgate.core.domain.models import ModelRef, ModelRequest
from hookgate.core.domain.turn import Address, Origin, Principal, TurnRequest
from hookgate.hookspecs import hookimpl
from hookgate.kit.testing.model import call, say
from hookgate.kit.tooling import tool
from hookgate.ports import STORE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from hookgate.core.domain.turn import Outcome, Turn
    from hookgate.core.host import Host
    from hookgate.gateway import Gateway
    from hookgate.kit.testing.model import ScriptedModel

__all__ = ["near"]

ROOT = Path(__file__).parents[3]

PARAMS: dict[str, dict[str, Any]] = {
    "chat": {"content": "hello"},
    "tool.call": {"name": "deeper", "arguments": {}},
}
"""What operations are called with that reach a model; all others with nothing."""


@pytest.fixture
def builtin_plugins() -> None:
    """All of them: each has operations and hooks that could ask a model."""


class Everywhere:
    """Asks a model of its own from hooks around a turn.

    Attributes:
        asking: How many requests of its own are under way, sent or not.
    """

    asking = 0

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        self.host = host
        yield

    async def ask(self, turn: Turn, cause: str) -> None:
        request = ModelRequest(model=ModelRef("script", "own"), cause=cause)
        self.asking += 1
        async for _ in self.host.call_model(turn, request):
            pass
        self.asking -= 1

    @hookimpl
    async def before_turn(self, turn: Turn) -> None:
        await self.ask(turn, "everywhere.before")

    @hookimpl
    async def after_turn(self, turn: Turn, outcome: Outcome | None) -> None:
        await self.ask(turn, "everywhere.after")

    async def deeper(self, turn: Turn) -> str:
        """Ask somebody else."""
        nested = await self.host.nested_turn(turn, "and you?", tool="deeper")
        return nested.answer


async def rows(gateway: Gateway) -> list[Any]:
    """Return the rows of the ledger."""
    columns = (CALLS.c.id, CALLS.c.cause, CALLS.c.plugin, CALLS.c.tool, CALLS.c.model)
    return await gateway.host[STORE].read(
        lambda connection: list(connection.execute(select(*columns)).all())
    )


@asynccontextmanager
async def asking(
    start: Callable[..., AbstractAsyncContextManager[Gateway]],
) -> AsyncIterator[tuple[Gateway, Everywhere]]:
    own = Everywhere()
    tools = [tool(own.deeper, flags=Flags.none())]
    policy = {"plugin": {"policy": {"profile": "open"}}}
    async with start(own, tools=tools, **policy) as gateway:
        yield gateway, own


@pytest.mark.usefixtures("near")
async def test_every_operation_over_the_wire_leaves_a_row_for_each_request_of_a_model(
    gateway: Callable[..., AbstractAsyncContextManager[Gateway]], model: ScriptedModel
) -> None:
    model.steps = [say("fine")]
    async with asking(gateway) as (running, own), TestClient(TestServer(running.app())) as client:
        for name in sorted(running.host.operations):
            before = len(model.requests)
            response = await client.post(f"/v1/operations/{name}", json=PARAMS.get(name, {}))
            await response.read()
            if name in PARAMS:
                assert len(model.requests) > before, name
        found = await settled(running, own, model)
    assert sorted(row.id for row in found) == sorted(one.call_id for one in model.requests)


async def settled(gateway: Gateway, own: Everywhere, model: ScriptedModel) -> list[Any]:
    """Return the rows of the ledger, once what runs behind answers has ended."""
    await until(lambda: not gateway.host.running() and not own.asking)
    assert model.closed == len(model.requests)
    # Rows are committed before an answer is; those of calls behind it, soon after.
    while len(found := await rows(gateway)) < len(model.requests):  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    return found


async def test_schedules_hooks_tools_and_nested_turns_leave_rows_with_their_cause(
    gateway: Callable[..., AbstractAsyncContextManager[Gateway]], model: ScriptedModel
) -> None:
    model.steps = [say("before"), call("deeper"), say("nested"), say("fine")]
    async with asking(gateway) as (running, own):
        await running.chat("hello")
        origin = Origin(provenance=Provenance.SCHEDULED, path="heartbeat")
        request = TurnRequest(content="anything new?", address=Address("schedule", "x", "y"))
        await running.host.start_turn(Principal.owner("clock"), origin, request).wait()
        found = await settled(running, own, model)
    assert len(found) == len(model.requests)
    assert {row.cause for row in found} >= {
        "chat",
        "tool",
        "heartbeat",
        "everywhere.before",
        "everywhere.after",
    }
    assert {row.tool for row in found if row.cause == "tool"} == {"deeper"}
    assert {row.plugin for row in found if row.model == "own"} == {"everywhere"}


def test_provider_is_asked_in_one_place_of_the_gateway() -> None:
    sources = {
        path: path.read_text(encoding="utf-8")
        for folder in ("core", "builtin_plugins", "src/hookgate/cli")
        for path in sorted((ROOT / folder).rglob("*.py"))
    }
    paths = [
        path
        for path, text in sources.items()
        if ("stream" in text or "embed" in text) and asks_provider(ast.parse(text))
    ]
    assert paths == [ROOT / "core" / "turn" / "model" / "call.py"]


def asks_provider(tree: ast.AST) -> bool:
    """Whether code takes `stream` or `embed` of what is called a provider."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in ("stream", "embed")
        and ast.unparse(node.value).endswith("provider")
        for node in ast.walk(tree)
    )
