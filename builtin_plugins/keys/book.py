"""The keys of a gateway, as all gateways on its store know them."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hookgate import (
    BUDGETS,
    STORE,
    SWITCHES,
    Host,
    Principal,
    StoreError,
    Switch,
    TurnError,
    not_found,
    set_switch,
)
from hookgate.builtin_plugins.keys.terms import Terms, beyond
from hookgate.clients import token_book
from hookgate.kit.tables import tables_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.keys.tables import ClientKey
    from hookgate.kit.records import Records

PREFIX = "hgk_"
"""What every key begins with, so that one is recognised where it should not be."""

SWITCH = "keys.changed"
"""The switch by which gateways on one store hear that a key is another one, or none any more."""

PART = "keys"

TOKEN = "token:"

DEAF_SECONDS = 2.0
"""A gateway that has not heard of others for so long goes by the store itself."""

KNOWN = 10_000
"""Keys that are remembered; others are read each time."""

AGAIN_SECONDS = 0.5


def new_secret() -> tuple[str, str]:
    """Return a new key and its digest."""
    secret = PREFIX + secrets.token_urlsafe(32)
    return secret, digest_of(secret)


def digest_of(secret: str) -> str:
    """Return what is kept of a key."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Known:
    """A key as it was read.

    Attributes:
        row: What is kept of it.
        terms: What it may do.
        principal: Who comes in with it.
    """

    row: ClientKey
    terms: Terms
    principal: Principal

    @classmethod
    def of(cls, row: ClientKey) -> Known:
        """Return what a row says."""
        terms = Terms.model_validate_json(row.terms)
        return cls(row, terms, terms.principal(row.name, row.client))


class KeyBook:
    """Finds, makes, rotates and revokes keys.

    What was read is remembered until a gateway on the store says that something has changed, so a
    request costs no statement; and what has changed meanwhile lets nobody in.

    Args:
        host: The gateway.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._known: dict[str, Known] = {}
        self._heard = 0
        self._opening = asyncio.Lock()
        self._tables: Any = None
        self._rows: Records[ClientKey] | None = None

    def follow(self) -> Callable[[], None]:
        """Hear of what is taken back from now on, here and elsewhere; return what ends that."""
        others = self._host[SWITCHES].watch(SWITCH, self._changed)
        own = token_book(self._host).watch(self._token_revoked)

        def unfollow() -> None:
            others()
            own()

        return unfollow

    def _token_revoked(self, name: str) -> None:
        for one in list(self._known.values()):
            if one.row.by == TOKEN + name:
                self._host.end_key(one.row.name)

    async def _records(self) -> Records[ClientKey]:
        """Return the rows, opened when they are first asked for.

        Raises:
            StoreError: They cannot be opened.
        """
        async with self._opening:
            if self._rows is None:
                store = self._host.get(STORE)
                if store is not None and store.problem:
                    raise StoreError(f"keys cannot be read: {store.problem}")
                if store is None or not store.durable:
                    self._host.standing(PART).bad(
                        "there is no durable store: keys end with this process, and no other "
                        "gateway knows them (enable the plugin `storage`)"
                    )
                module = "hookgate.builtin_plugins.keys.tables"
                self._tables, store = await tables_of(store, "keys", module)
                self._rows = self._tables.ClientKey.records(store)
            return self._rows

    # -- finding -------------------------------------------------------------

    async def find(self, secret: str) -> Known | None:
        """Return the key of this secret, whatever it may do now; None where there is none.

        Raises:
            StoreError: It cannot be read, so nobody is let in.
        """
        digest = digest_of(secret)
        fresh = self._host[SWITCHES].behind() <= DEAF_SECONDS
        if fresh and (known := self._known.get(digest)) is not None:
            return known
        rows = await self._records()
        while True:
            heard = self._heard
            found = await rows.all(rows.c.digest == digest)
            # What changed while it was read may be this very key: read again.
            if heard == self._heard:
                break
        if not found:
            return None
        known = Known.of(found[0])
        if fresh and not known.row.revoked and len(self._known) < KNOWN:
            self._known[digest] = known
        return known

    def lacks(self, known: Known) -> str:
        """Say why a key that is kept lets nobody in, whoever shows it; "" where it does.

        What its maker has lost since then the key has lost as well, where the maker came by a
        token of the settings.
        """
        if known.row.revoked:
            return f"the key {known.row.name!r} was revoked"
        if known.terms.metered and self._host.get(BUDGETS) is None:
            return f"the key {known.row.name!r} has limits, and no plugin holds them (`metering`)"
        if not known.row.by.startswith(TOKEN):
            return ""
        name, book = known.row.by.removeprefix(TOKEN), token_book(self._host)
        maker = next((one for one in book.tokens if one.name == name), None)
        if maker is None or not book.holds(name):
            return f"the token {name!r}, by which this key was made, is not there any more"
        if maker.principal.has_expired(self._host.clock.now()):
            return f"the token {name!r}, by which this key was made, has expired"
        more = beyond(known.terms, known.row.name, maker.principal)
        return more and f"the token {name!r}, by which this key was made, has not {more} any more"

    async def all(self) -> list[ClientKey]:
        """Return all keys, revoked ones too, by their names.

        Raises:
            StoreError: They cannot be read.
        """
        return await (await self._records()).all()

    async def named(self, name: str) -> Known:
        """Return the key of a name that holds.

        Raises:
            TurnError: There is none.
            StoreError: It cannot be read.
        """
        row = await (await self._records()).get(name)
        if row is None or row.revoked:
            raise not_found("key", name, "`hookgate keys list` shows all")
        return Known.of(row)

    # -- changing ------------------------------------------------------------

    async def add(self, name: str, terms: Terms, client: str, by: str) -> str:
        """Make a key; return its secret, which is kept nowhere.

        Raises:
            TurnError: There is one of this name, or who makes it has no rights any more.
            StoreError: It cannot be kept.
        """
        rows, (secret, digest) = await self._records(), new_secret()
        tables = self._tables
        row = tables.ClientKey(
            name=name,
            digest=digest,
            terms=terms.model_dump_json(exclude_defaults=True),
            client=client,
            by=by,
            made=self._now,
            rotated="",
            revoked="",
        )
        added = await rows.store.write(lambda one: tables.add(one, row), order=tables.KEYS.name)
        if not added:
            raise TurnError.invalid(
                f"there is a key called {name!r}",
                f"choose another name, or give it another secret: `hookgate keys rotate {name}`",
            )
        return secret

    async def change(self, known: Known, terms: Terms, by: str) -> None:
        """Have a key do what `terms` say from now on; what came in with it is ended.

        Args:
            known: The key as it was read.
            terms: What it may do.
            by: Who says so, whose rights it has from now on.

        Raises:
            TurnError: Somebody has changed it meanwhile.
            StoreError: It cannot be kept; nothing was changed.
        """
        await self._change(known.row, terms=terms.model_dump_json(exclude_defaults=True), by=by)

    async def rotate(self, known: Known) -> str:
        """Give a key another secret, and return it; what came in with the one before is ended.

        Raises:
            TurnError: Somebody has changed it meanwhile.
            StoreError: It cannot be kept; nothing was changed.
        """
        secret, digest = new_secret()
        await self._change(known.row, digest=digest, rotated=self._now)
        return secret

    async def _change(self, row: ClientKey, **values: str) -> None:
        """Change a key that holds and has still the secret and the terms of `row`."""
        rows = await self._records()
        same = rows.c.name == row.name, rows.c.digest == row.digest, rows.c.terms == row.terms
        if not await rows.change(*same, rows.c.revoked == "", **values):
            raise not_found("key", row.name, "somebody else has changed or revoked it just now")
        await self._end(row.name)

    async def revoke(self, name: str) -> None:
        """Revoke a key: what came in with it is ended.

        Raises:
            TurnError: There is none of this name.
            StoreError: It cannot be kept, or other gateways cannot be told.
        """
        rows = await self._records()
        if not await rows.change(rows.c.name == name, rows.c.revoked == "", revoked=self._now):
            raise not_found("key", name, "`hookgate keys list` shows all")
        await self._end(name)

    @property
    def _now(self) -> str:
        return self._host.clock.now().isoformat(timespec="seconds")

    async def _end(self, name: str) -> None:
        """End what came in with a key: at this gateway at once, then at all others."""
        self._heard += 1
        self._known = {key: one for key, one in self._known.items() if one.row.name != name}
        self._host.end_key(name)
        # Each value is another one: it says that something has changed, the store says what.
        await set_switch(self._host[SWITCHES], SWITCH, lambda _: secrets.token_hex(8))

    def _changed(self, _: Switch) -> None:
        self._heard += 1
        known, self._known = self._known, {}
        if known:
            self._host.spawn(self._end_changed(known), name="keys.changed")

    async def _end_changed(self, known: dict[str, Known]) -> None:
        """End what came in with keys that another gateway has changed or taken back."""
        rows = await self._records()
        while True:
            try:
                kept = {row.digest: row for row in await rows.all()}
            except StoreError as error:
                self._host.log.warning("which keys were revoked cannot be read", error=str(error))
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                break
        for digest, one in known.items():
            now = kept.get(digest)
            if now is None or now.revoked or now.terms != one.row.terms:
                self._host.end_key(one.row.name)
