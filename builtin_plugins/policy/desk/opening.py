"""Opening what policy keeps: standing answers, and the digests of accepted tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hookgate import STORE, Host, StoreError
from hookgate.builtin_plugins.policy.desk.desk import Desk
from hookgate.builtin_plugins.policy.desk.pins import ToolPins
from hookgate.builtin_plugins.policy.desk.quarantine import PART, Quarantine
from hookgate.clients import followed_token_book, principal_id
from hookgate.kit.tables import tables_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.policy.desk.tables import Grant
    from hookgate.builtin_plugins.policy.settings import PolicySettings
    from hookgate.kit.records import Records


@asynccontextmanager
async def opened(
    host: Host, settings: PolicySettings, policy: Callable[[], str]
) -> AsyncIterator[tuple[Desk, Quarantine]]:
    """Open the desk and the quarantine.

    Without a store both end with the process. Where the store cannot be read, tools that
    others bring wait until it can.

    Args:
        host: The gateway.
        settings: The plugin's settings.
        policy: Returns the version of the policy that is in force.
    """
    kept, pins = await _keeping(host)
    desk = Desk(host, settings.approvals, kept, policy)
    quarantine = Quarantine(host, pins, settings.pin_tools)
    try:
        await desk.grants.prune()
        await pins.load()
    except StoreError as error:
        host.standing(PART).bad(f"tools that others bring wait, since the store fails: {error}")
    host.tools.watch(quarantine.noticed)
    # What may leave a question without an answer that counts: its tool, or its approvers.
    host.tools.watch(desk.inbox.look_again)

    def revoked(name: str) -> None:
        desk.inbox.look_again()
        host.spawn(desk.forget(principal_id(name)), name="policy.grants")

    book = await followed_token_book(host)
    unwatch = (host.events.watch(desk.inbox.look_again), book.watch(revoked))
    following = host.spawn(quarantine.follow(), name="policy.quarantine")
    try:
        yield desk, quarantine
    finally:
        for undo in unwatch:
            undo()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _keeping(host: Host) -> tuple[Records[Grant], ToolPins]:
    tables, store = await tables_of(
        host.get(STORE), "policy", "hookgate.builtin_plugins.policy.desk.tables"
    )
    # A store that stands in for one that cannot be read knows nothing of what was accepted.
    pins = ToolPins(tables.ToolPin.records(store), trust_first=not store.problem)
    return tables.Grant.records(store), pins
