"""The plugin on a real store, with calls that a person is asked about."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.builtin_plugins.stores import opened_store
from tests.builtin_plugins.turns import make_call, make_host, make_turn
from tests.support.script import until

from hookgate.builtin_plugins.policy.plugin import Plugin
from hookgate.builtin_plugins.policy.settings import PolicySettings
from hookgate.builtin_plugins.storage.questions import SqlQuestions
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.ports import AUDIT
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.operations import Invocation
from hookgate.core.settings.schema import Settings
from hookgate.ports import QUESTIONS, STORE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from tests.builtin_plugins.turns import TurnedClock

    from hookgate.core.domain.tools import Decision, ToolCall, Verdict
    from hookgate.core.domain.turn import Turn
    from hookgate.core.host import Host

OPS = Principal.owner("ops")
SENDS = Flags.from_mapping({**Flags.none().to_json(), "sends_externally": True})


class Record:
    """An audit that keeps rows, or fails."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, Mapping[str, Any]]] = []
        self.failure: Exception | None = None

    async def append(self, kind: str, data: Mapping[str, Any]) -> None:
        if self.failure is not None:
            raise self.failure
        self.rows.append((kind, data))


class Asked:
    """A gateway that is made of the plugin alone."""

    def __init__(self, host: Host, plugin: Plugin, record: Record) -> None:
        self.host = host
        self.plugin = plugin
        self.record = record
        self.operations = {item.name: item for item in plugin.list_operations(host)}

    @property
    def clock(self) -> TurnedClock:
        return self.host.clock  # type: ignore[return-value]  # make_host provides that one

    async def do(self, called: str, principal: Principal = OPS, /, **params: Any) -> Any:
        operation = self.operations[called]
        invocation = Invocation(host=self.host, principal=principal)
        return await operation.handler(invocation, operation.params(**params))

    def turn(self, **more: Any) -> Turn:
        more.setdefault("principal", OPS)
        more.setdefault("taint", {"x"})
        return make_turn(sink=self.host.events.publish, **more)

    def judged(self, turn: Turn, call: ToolCall) -> Verdict:
        return self.plugin.before_tool_call(turn, call)

    def asking(self, turn: Turn, call: ToolCall) -> asyncio.Task[Decision]:
        ask = self.judged(turn, call).ask_for
        assert ask is not None

        async def answered() -> Decision:
            decision = await self.plugin.resolve_ask(turn, call, ask)
            assert decision is not None
            return decision

        return asyncio.create_task(answered())

    async def question(self, principal: Principal = OPS) -> dict[str, Any]:
        """Return the first question that waits."""
        assert self.plugin._desk is not None
        inbox = self.plugin._desk.inbox
        await until(lambda: len(inbox) > 0)
        return dict((await self.do("approvals.list", principal)).approvals[0])

    async def always(
        self, turn: Turn, call: ToolCall, *, principal: Principal = OPS, **more: Any
    ) -> str:
        """Allow a call always; return the grant's id."""
        asked = self.asking(turn, call)
        shown = await self.question(principal)
        resolved = await self.do(
            "approvals.resolve", principal, id=shown["id"], decision="allow-always", **more
        )
        assert (await asked).allowed
        return str(resolved.grant)

    async def is_asked(self, turn: Turn, call: ToolCall) -> bool:
        """Whether somebody is asked about a call; whoever is denies it."""
        asked = self.asking(turn, call)
        assert self.plugin._desk is not None
        inbox = self.plugin._desk.inbox
        await until(lambda: asked.done() or len(inbox) > 0)
        if asked.done():
            assert asked.result().allowed
            return False
        await self.do("approvals.resolve", id=(await self.question())["id"], decision="deny")
        assert not (await asked).allowed
        return True

    async def reread(self) -> None:
        """Read the rules again, as a reload of a gateway with this plugin alone does."""
        put = await self.plugin.reloading(self.host)
        assert put is not None
        put()

    async def grants(self, principal: Principal = OPS) -> dict[str, str]:
        """Return the state of each grant by its id."""
        rows = (await self.do("approvals.grants", principal)).grants
        return {row.id: row.state for row in rows}


@asynccontextmanager
async def opened(
    home: Path,
    *,
    tokens: Mapping[str, Sequence[str]] | None = None,
    bound: Mapping[str, Sequence[str]] | None = None,
    **settings: Any,
) -> AsyncIterator[Asked]:
    """Open the plugin; `tokens` are the gateway's, by name with their scopes, all `bound` so."""
    host, record = make_host(home), Record()
    section = {
        name: {"digest": hashlib.sha256(name.encode()).hexdigest(), "scopes": scopes}
        | dict(bound or {})
        for name, scopes in (tokens or {}).items()
    }
    host.settings = Settings.model_validate({"home": home, "gateway": {"tokens": section}})
    plugin = Plugin(PolicySettings.model_validate(settings))
    async with opened_store(home) as store:
        host.provide(STORE, store)
        host.provide(QUESTIONS, SqlQuestions(store, host.clock, spawn=host.spawn))
        host.provide(AUDIT, record)
        try:
            async with plugin.lifespan(host):
                yield Asked(host, plugin, record)
        finally:
            await host.stop_tasks()


def mail(arguments: Mapping[str, Any] | None = None, **more: Any) -> ToolCall:
    return make_call("mail", SENDS, arguments or {"to": "a"}, **more)
