"""The operations of keys: make, list, change, rotate, revoke."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from hookgate import (
    BUDGETS,
    POSITIONAL,
    Invocation,
    NotAllowedError,
    OperationModel,
    TurnError,
    operation,
)
from hookgate.builtin_plugins.keys.book import (
    Client,
    KeyBook,
    Terms,
    beyond,
    lines_for,
    of_maker,
    url_of,
)

if TYPE_CHECKING:
    from hookgate.builtin_plugins.keys.tables import ClientKey

NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"

Name = Annotated[str, Field(pattern=NAME)]
Url = Annotated[str, Field(max_length=300, pattern=r"^(https?://[^\s/?#@]+(/[^\s?#]*)?)?$")]


class NewKey(Terms):
    """A key as it is to be."""

    name: Annotated[Name, POSITIONAL] = ""
    """Its name: small letters, digits, `_` and `-`; the client's and a number where it is empty."""
    for_: Annotated[Client | None, Field(alias="for")] = None
    """The client that it is for, which is told what to set."""
    url: Url = ""
    """Where clients reach this gateway, such as `https://models.acme.example`."""


class ChangedKey(Terms):
    """What of a key is to be another; the rest stays."""

    name: Annotated[str, Field(max_length=64)]
    """Its name."""
    clear: tuple[str, ...] = ()
    """What it is to be without, such as `usd` or `addresses`: as if nobody had ever said it."""


class KeyMade(OperationModel):
    """A new secret. It is kept nowhere, and not shown again."""

    name: str
    key: str
    """What the client sends, as `Authorization: Bearer KEY` or as `x-api-key`."""
    lines: list[str]
    """What makes the client come here with it."""
    expires: str
    """When it ends; "" for never."""


class KeyLife(OperationModel):
    """Whose a key is, and since when and until when it holds: ISO 8601 in UTC."""

    name: str
    client: str
    """The client that it was made for."""
    by: str
    """Who has made it."""
    made: str
    rotated: str
    revoked: str
    """When; "" where it was not."""


class KeyRow(KeyLife):
    """A key, without its secret."""

    state: str
    """`active`, `expired` or `revoked`."""
    scopes: tuple[str, ...]
    expires: str
    limits: dict[str, Any]
    """What else it was given: models, agents, budgets, rates, addresses and the like."""


class KeyRows(OperationModel):
    """Keys by name."""

    keys: list[KeyRow]


class KeyRevoked(OperationModel):
    """A key that lets nobody in any more."""

    name: str


class KeyOperations:
    """Keys of clients: make, list, change, rotate, revoke them."""

    def __init__(self, book: KeyBook) -> None:
        self._book = book

    @operation("keys.new", scope="operate", rest=("POST", "/v1/keys"))
    async def new(self, invocation: Invocation, params: NewKey) -> KeyMade:
        """Make a key for a client. It is shown once; the store holds its digest alone.

        It may do no more than you, and nothing but `chat` unless you say more.

        Examples:
            hookgate keys new --for claude-code
            hookgate keys new ci --models "openai/*" --usd 20 --rpm 60 --expires 90d
        """
        host, maker = invocation.host, invocation.principal
        rows = {row.name: row for row in await self._book.all()}
        name = params.name or _free(params.for_ or "key", rows)
        if name in host.settings.gateway.tokens:
            raise TurnError.invalid(
                f"there is a token called {name!r} in the settings, and what keys use is counted "
                "by their names",
                "choose another name",
            )
        asked = Terms.model_validate(
            params.model_dump(exclude={"name", "for_", "url"}, exclude_unset=True)
        )
        terms = _granted(asked, name, invocation)
        await host.record("key_made", by=maker.id, key=name, terms=_told(terms))
        secret = await self._book.add(name, terms, params.for_ or "", maker.id)
        return self._made(invocation, name, secret, terms, params.for_, params.url)

    @operation("keys.list", scope="operate", rest=("GET", "/v1/keys"))
    async def listed(self, invocation: Invocation, all: bool = False) -> KeyRows:
        """List the keys: what they may do, who made them, and when they end.

        Args:
            all: Revoked ones as well.
        """
        now = invocation.host.clock.now()
        rows = [_row(row, now) for row in await self._book.all() if all or not row.revoked]
        return KeyRows(keys=rows)

    @operation("keys.change", scope="operate")
    async def change(self, invocation: Invocation, params: ChangedKey) -> KeyRow:
        """Change what a key may do, and leave it its secret. It has your rights from then on.

        What came in with it is closed, and comes again under what it may do now.

        Examples:
            hookgate keys change ci --usd 50 --expires 90d
            hookgate keys change ci --clear addresses --clear rpm
        """
        host, name = invocation.host, params.name
        if odd := sorted(set(params.clear) - set(Terms.model_fields)):
            raise TurnError.invalid(
                f"found {odd[0][:80]!r}, expected some of {', '.join(Terms.model_fields)}",
                "name what is to be cleared as its option is called, with `_` for `-`",
            )
        known = await self._book.named(name)
        before = known.terms.model_dump(exclude_defaults=True, exclude=set(params.clear))
        fresh = params.model_dump(exclude={"name", "clear"}, exclude_unset=True)
        terms = _granted(Terms.model_validate(before | fresh), name, invocation)
        maker = invocation.principal.id
        await host.record("key_changed", by=maker, key=name, terms=_told(terms))
        await self._book.change(known, terms, maker)
        return _row((await self._book.named(name)).row, host.clock.now())

    @operation("keys.rotate", scope="operate")
    async def rotate(
        self, invocation: Invocation, name: Annotated[str, Field(max_length=64)], url: Url = ""
    ) -> KeyMade:
        """Give a key a new secret. The one before lets nobody in any more, at once.

        Args:
            name: Its name.
            url: Where clients reach this gateway.
        """
        known = await self._book.named(name)
        _within(known.terms, name, invocation)
        await invocation.host.record("key_rotated", by=invocation.principal.id, key=name)
        secret = await self._book.rotate(known)
        client: Any = known.row.client or None
        return self._made(invocation, name, secret, known.terms, client, url)

    @operation("keys.revoke", scope="operate")
    async def revoke(
        self, invocation: Invocation, name: Annotated[str, Field(max_length=64)]
    ) -> KeyRevoked:
        """Revoke a key at every gateway on the store: what came in with it is closed, too.

        Args:
            name: Its name.
        """
        await self._book.revoke(name)
        await invocation.host.record("key_revoked", by=invocation.principal.id, key=name)
        return KeyRevoked(name=name)

    def _made(
        self,
        invocation: Invocation,
        name: str,
        secret: str,
        terms: Terms,
        client: Client | None,
        url: str,
    ) -> KeyMade:
        gateway = invocation.host.settings.gateway
        there = url.rstrip("/") or url_of(gateway.host, gateway.port)
        lines = lines_for(client, there, secret, terms.provider_tools) if client else []
        return KeyMade(name=name, key=secret, lines=lines, expires=terms.expires)


def _granted(asked: Terms, name: str, invocation: Invocation) -> Terms:
    """Return what a key is given by whoever asks.

    Raises:
        TurnError: It is over already, or nobody would count what it limits.
        NotAllowedError: It is more than they have.
    """
    host, maker = invocation.host, invocation.principal
    terms = of_maker(asked, maker, host.clock.now())
    if terms.principal(name, "").has_expired(host.clock.now()):
        raise TurnError.invalid(
            f"found the end {terms.expires}, which is over, expected one to come",
            "say how long it is good for, such as `--expires 90d`",
        )
    if terms.metered and host.get(BUDGETS) is None:
        raise TurnError.invalid(
            "found a limit of what it uses, and no plugin that counts that",
            "enable the plugin `metering`, or leave the limit out",
        )
    _within(terms, name, invocation)
    return terms


def _told(terms: Terms) -> dict[str, Any]:
    return terms.model_dump(mode="json", exclude_defaults=True)


def _within(terms: Terms, name: str, invocation: Invocation) -> None:
    if more := beyond(terms, name, invocation.principal):
        raise NotAllowedError(
            f"{invocation.principal.id} has not {more}: a key is given no more than its maker has",
            action="ask for less, or have somebody make it who has it",
        )


def _free(client: str, taken: Any) -> str:
    numbers = (f"{client}-{number}" for number in range(2, len(taken) + 3))
    return next(name for name in (client, *numbers) if name not in taken)


def _row(row: ClientKey, now: Any) -> KeyRow:
    terms = Terms.model_validate_json(row.terms)
    ended = terms.principal(row.name, row.client).has_expired(now)
    known = {"scopes", "expires"}
    if terms.tokens is None and terms.usd is None:
        known.add("window")
    return KeyRow.of_record(
        row,
        state="revoked" if row.revoked else "expired" if ended else "active",
        scopes=terms.scopes,
        expires=terms.expires,
        limits=terms.model_dump(mode="json", exclude=known, exclude_defaults=True),
    )
