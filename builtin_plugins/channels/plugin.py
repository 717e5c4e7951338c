"""The plugin ``channels``: hosts the connections of channels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hookgate import (
    EGRESS,
    STORE,
    Access,
    Channel,
    Host,
    Operation,
    Problem,
    Routes,
    StartError,
    Turn,
    TurnPlan,
    operations_of,
)
from hookgate.builtin_plugins.channels.operations import ChannelOperations
from hookgate.builtin_plugins.channels.roster import Hosting
from hookgate.builtin_plugins.channels.settings import ChannelsSettings, lacking
from hookgate.hookspecs import blocking, hookimpl
from hookgate.kit.tables import tables_of
from hookgate.tasks import stop

if TYPE_CHECKING:
    from aiohttp import web

    from hookgate.builtin_plugins.channels.service import Service
    from hookgate.builtin_plugins.channels.webhooks import WebhookDoor

PACKAGE = "hookgate.builtin_plugins.channels"
PART = "channels"

PATH = "/webhook/{channel}"
MAX_BODY = 16 * 1024 * 1024
"""The longest body of any channel; each has its own limit below."""

LATE_SECONDS = 1.0
"""A command that is soon done polls nothing and sends nothing."""


class Plugin:
    """Hosts channels, whoever brings them."""

    Settings = ChannelsSettings

    def __init__(self, settings: ChannelsSettings) -> None:
        self._settings = settings
        self._hosting: Hosting | None = None
        self._service: Service | None = None
        self._changed = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self._door: WebhookDoor | None = None
        self._operations = ChannelOperations(lambda: self._service, lambda: self._hosting)

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """End cleanly what has begun."""
        self._hosting = Hosting(host, self._settings.of)
        try:
            yield
        finally:
            await stop(self._serving)
            if self._service is not None:
                await self._service.close()
            self._service = self._door = self._serving = None

    @hookimpl
    @blocking
    def check_settings(self, host: Host) -> Sequence[Problem]:
        """Say which secrets of channels are nowhere."""
        return lacking(self._settings, host)

    @hookimpl
    def list_channels(self, host: Host) -> Sequence[Channel]:
        """Bring the channels of the settings that have a kind."""
        wanted = [name for name, section in self._settings.of.items() if section.kind]
        if not wanted:
            return ()
        if (egress := host.get(EGRESS)) is None:
            raise StartError(
                f"channels {', '.join(wanted)} send by HTTP, and nobody provides `egress`: enable "
                "the plugin `egress`"
            )
        from hookgate.builtin_plugins.channels.kinds import channel_of

        return [channel_of(host, egress, name, self._settings.of[name]) for name in wanted]

    @hookimpl
    async def add_routes(self, host: Host, routes: Routes) -> None:
        """Serve the webhooks, of channels that are listed by now and of those that come later."""
        assert self._hosting is not None, "routes are added while the plugin is open"
        access = Access.self_checked("the secret or signature of the channel's platform")
        routes.add("POST", PATH, self._post, access=access, max_body=MAX_BODY)
        routes.add("GET", PATH, self._get, access=access)
        host.channels.watch(self._changed.set)
        host.secrets.watch(lambda _: self._changed.set())
        await self._look(host)
        self._serving = host.spawn(self._follow(host), name="channels")

    async def _follow(self, host: Host) -> None:
        """Serve, and look again whenever channels have come, changed or gone."""
        await asyncio.sleep(LATE_SECONDS)
        running: asyncio.Task[None] | None = None
        while True:
            if running is None and self._service is not None:
                running = host.spawn(self._service.run(), name="channels.serving")
            await self._changed.wait()
            self._changed.clear()
            await self._look(host)

    async def _look(self, host: Host) -> None:
        """Take the channels that there are now; the first one opens what serves them all."""
        assert self._hosting is not None, "it is looked while the plugin is open"
        await self._hosting.find()
        if self._service is not None:
            self._service.look_again()
            return
        if not len(self._hosting):
            return
        if (store := host.get(STORE)) is None:
            host.standing(PART).bad(
                "no plugin provides a store, so no channel is served: what comes in twice would be "
                "answered twice (enable the plugin `storage`)"
            )
            return
        await tables_of(store, "channels", f"{PACKAGE}.book.tables")
        service = await asyncio.to_thread(import_module, f"{PACKAGE}.service")
        self._service = service.Service(host, self._settings, self._hosting, store)

    @hookimpl
    def plan_turn(self, turn: Turn, plan: TurnPlan) -> TurnPlan | None:
        """Leave out what was said before a conversation began anew."""
        if self._service is None or turn.origin.channel is None:
            return None
        turns = self._service.beginnings.history(str(turn.session), plan.history_turns)
        return replace(plan, history_turns=turns) if turns < plan.history_turns else None

    @hookimpl
    async def reloading(self, host: Host) -> Callable[[], None] | None:
        """Look for the secrets again."""
        if self._hosting is not None:
            await self._hosting.find()
        return None

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        """Offer what operators see and change."""
        return operations_of(self._operations)

    async def _post(self, request: web.Request) -> web.StreamResponse:
        return await self._opened.post(request)

    async def _get(self, request: web.Request) -> web.StreamResponse:
        return await self._opened.get(request)

    @property
    def _opened(self) -> WebhookDoor:
        from aiohttp import web

        if self._door is None:
            if self._service is None:
                raise web.HTTPNotFound
            # Who never serves loads no server.
            from hookgate.builtin_plugins.channels.webhooks import WebhookDoor

            self._door = WebhookDoor(self._service)
        return self._door
