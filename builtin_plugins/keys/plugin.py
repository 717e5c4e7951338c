"""The plugin ``keys``: keys that clients of other products come in with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hookgate import Credential, Host, Operation, Principal, Refusal, operations_of
from hookgate.builtin_plugins.keys.book import PREFIX, KeyBook
from hookgate.builtin_plugins.keys.operations import KeyOperations
from hookgate.hookspecs import hookimpl

if TYPE_CHECKING:
    from aiohttp import web

AGAIN = "`hookgate keys new --for claude-code` (or codex, opencode, ...) makes another one"


class Plugin:
    """Lets clients in by keys that were made while the gateway runs; it has no settings."""

    def __init__(self) -> None:
        self._book: KeyBook | None = None

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Hear of what other gateways revoke; nothing is read before somebody shows a key."""
        unfollow = self._of(host).follow()
        try:
            yield
        finally:
            unfollow()

    @hookimpl
    async def authenticate(
        self, credential: Credential, request: web.Request
    ) -> Principal | Refusal | None:
        """Say who comes with a key of this gateway, or why it lets nobody in."""
        book = self._book
        if book is None or not credential.value.startswith(PREFIX) or credential.kind == "cookie":
            return None
        known = await book.find(credential.value)
        if known is None:
            return _refused("this key is not known here", f"check it; {AGAIN}")
        if why := book.lacks(known):
            return _refused(why, AGAIN)
        if not known.terms.allows(credential.client):
            return _refused(
                f"the key {known.row.name!r} is not for clients of this address", "ask who made it"
            )
        return known.principal

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        """Bring what makes, lists, rotates and revokes keys."""
        return operations_of(KeyOperations(self._of(host)))

    def _of(self, host: Host) -> KeyBook:
        if self._book is None:
            self._book = KeyBook(host)
        return self._book


def _refused(message: str, action: str) -> Refusal:
    return Refusal(code="unauthorized", message=message, action=action)
