"""Opening what policy keeps: standing answers, and the digests of accepted tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from hookgate import STORE, Host, StoreError
from hookgate.builtin_plugins.policy.desk.desk import Desk
from hookgate.builtin_plugins.policy.desk.quarantine import PART, TOOL, Quarantine, ToolPins
from hookgate.builtin_plugins.policy.settings import PolicySettings
from hookgate.clients import followed_token_book, principal_id
from hookgate.kit.acceptance.acceptances import acceptances_of
from hookgate.kit.tables import tables_of
from hookgate.tasks import stop


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
    pins = ToolPins(await acceptances_of(host))
    module = "hookgate.builtin_plugins.policy.desk.tables"
    tables, store = await tables_of(host.get(STORE), "policy", module)
    desk = Desk(host, settings.approvals, tables.StandingGrant.records(store), policy)
    quarantine = Quarantine(host, pins, settings.pin_tools)
    pins.kept.desks[TOOL] = quarantine.desk()
    try:
        await desk.grants.prune()
        await pins.kept.load()
    except StoreError as error:
        host.standing(PART).bad(f"tools that others bring wait, since the store fails: {error}")
    host.tools.watch(quarantine.noticed)
    # What may leave a question without an answer that counts: its tool, or its approvers.
    host.tools.watch(desk.inbox.look_again)

    def revoked(name: str) -> None:
        desk.inbox.look_again()
        host.spawn(desk.forget(principal_id(name)), name="policy.grants")

    book = await followed_token_book(host)
    unwatch = (
        pins.kept.watch(quarantine.look_again),
        host.events.watch(desk.inbox.look_again),
        book.watch(revoked),
    )
    following = host.spawn(quarantine.follow(), name="policy.quarantine")
    try:
        yield desk, quarantine
    finally:
        for undo in unwatch:
            undo()
        await stop(following)
