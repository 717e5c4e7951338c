"""The keys of a gateway, as all gateways on its store know them."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field

from hookgate import (
    BUDGETS,
    STORE,
    SWITCHES,
    Claim,
    Host,
    OperationModel,
    Principal,
    StoreError,
    Switch,
    TurnError,
    not_found,
    set_switch,
)
from hookgate.clients import token_book
from hookgate.kit.durations import seconds_of, time_of
from hookgate.kit.tables import tables_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.keys.tables import ClientKey
    from hookgate.kit.records import Records

Scope: TypeAlias = Literal["chat", "approve", "operate", "read"]
Mode: TypeAlias = Literal["guard", "assist", "agent"]


def _network(text: str) -> str:
    return str(ip_network(text, strict=False))


def _end(text: str) -> str:
    if text:
        end_of(text, datetime.now(UTC))
    return text


def _some(scopes: tuple[Scope, ...]) -> tuple[Scope, ...]:
    if not scopes:
        raise ValueError("found none, expected one at least")
    return scopes


Network: TypeAlias = Annotated[str, AfterValidator(_network)]
Glob: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
Many: TypeAlias = Annotated[tuple[Glob, ...] | None, Field(max_length=100)]


def end_of(text: str, now: datetime) -> datetime:
    """Return when a key ends: ``2027-01-31``, a time with its zone, or ``90d`` from now on.

    Raises:
        ValueError: It is none of these.
    """
    with suppress(ValueError, OverflowError):
        return now + timedelta(seconds=seconds_of(text))
    try:
        return time_of(text)
    except ValueError:
        raise ValueError(
            f"found {text[:40]!r}, expected a length of time such as `90d` or `12h`, or a time "
            "such as `2027-01-31` or `2027-01-31T12:00:00+00:00`"
        ) from None


class Terms(OperationModel):
    """What a key may do. What is left out of a list of names allows all that its maker may."""

    scopes: Annotated[tuple[Scope, ...], AfterValidator(_some)] = ("chat",)
    """What a client with it may do."""
    models: Many = None
    """Globs of the models that may answer it, as `provider/model`."""
    agents: Many = None
    """Globs of the agents that it may speak to."""
    channels: Annotated[tuple[Glob, ...], Field(max_length=100)] = ("compat",)
    """The channels that it may speak in, under its own name as the account; `*` for any."""
    modes: tuple[Mode, ...] | None = None
    """The modes of the vendors' wires that it may use."""
    provider_tools: Annotated[tuple[Glob, ...], Field(max_length=100)] = ()
    """Globs of the tools that a provider runs itself and that it may ask for: `web_search*`."""
    client_tools: Literal["enforce", "observe"] = "enforce"
    """Whether calls of the client's tools are held to the policy, or only decided and recorded."""
    on_ask: Literal["hold", "refuse"] = "hold"
    """What happens to a call that a person has to allow: it waits, or is refused at once."""
    tokens: Annotated[int | None, Field(ge=1, le=10**15)] = None
    """The most tokens in a `window`."""
    usd: Annotated[Decimal | None, Field(gt=0, le=9_000_000, decimal_places=12)] = None
    """The most US dollars in a `window`."""
    window: Literal["day", "month"] = "month"
    """How long `tokens` and `usd` are for, in UTC."""
    rpm: Annotated[int | None, Field(ge=1, le=10**9)] = None
    """The most model calls a minute."""
    tpm: Annotated[int | None, Field(ge=1, le=10**15)] = None
    """The most tokens a minute."""
    parallel: Annotated[int | None, Field(ge=1, le=10**6)] = None
    """The most model calls at one time."""
    addresses: Annotated[tuple[Network, ...], Field(max_length=100)] = ()
    """The networks that it may come from, such as `10.0.0.0/8`; any where there are none."""
    expires: Annotated[str, Field(max_length=64), AfterValidator(_end)] = ""
    """When it ends: `90d`, `2027-01-31`; never where it is empty."""

    @property
    def metered(self) -> bool:
        """Whether something of it is counted, which takes a plugin that does."""
        counted = (self.tokens, self.usd, self.rpm, self.tpm, self.parallel)
        return any(most is not None for most in counted)

    def principal(self, name: str, client: str) -> Principal:
        """Return who comes in with the key called `name`."""
        return Principal(
            id=f"key:{name}",
            key=name,
            scopes=frozenset(self.scopes),
            bindings=tuple(Claim(channel, name) for channel in self.channels),
            agents=self.agents,
            models=self.models,
            expires=datetime.fromisoformat(self.expires) if self.expires else None,
            claims=self._claims(client),
        )

    def _claims(self, client: str) -> Mapping[str, Any]:
        budgets = [
            {"window": self.window, unit: str(most) if unit == "usd" else most}
            for unit, most in (("tokens", self.tokens), ("usd", self.usd))
            if most is not None
        ]
        rates = {"requests": self.rpm, "tokens": self.tpm, "parallel": self.parallel}
        limits = {unit: most for unit, most in rates.items() if most is not None}
        claims: dict[str, Any] = {
            "client": client,
            "modes": self.modes,
            "provider_tools": self.provider_tools,
            "client_tools": self.client_tools,
            "on_ask": self.on_ask,
        }
        return (
            claims
            | ({"budgets": budgets} if budgets else {})
            | ({"limits": limits} if limits else {})
        )

    def allows(self, address: str) -> bool:
        """Whether a client at `address` may use the key; one of no address may where all may."""
        if not self.addresses:
            return True
        try:
            client = ip_address(address)
        except ValueError:
            return False
        return any(client in ip_network(network) for network in self.addresses)


def of_maker(terms: Terms, maker: Principal, now: datetime) -> Terms:
    """Return `terms` with what its maker has, where they say nothing of their own."""
    end = end_of(terms.expires, now) if terms.expires else None
    if maker.expires is not None:
        end = maker.expires if end is None else min(end, maker.expires)
    return terms.model_copy(
        update={
            "expires": end.astimezone(UTC).isoformat(timespec="seconds") if end else "",
            "models": maker.models if terms.models is None else terms.models,
            "agents": maker.agents if terms.agents is None else terms.agents,
        }
    )


def beyond(terms: Terms, name: str, maker: Principal) -> str:
    """Say what of a key is more than its maker has; "" where nothing is."""
    return next(_beyond(terms, name, maker), "")


def _beyond(terms: Terms, name: str, maker: Principal) -> Iterator[str]:
    if maker.claims:
        # Budgets, rates, modes: each key that it made would have all of them once more.
        yield "the right to make keys, since it is limited in ways that none of them would share"
    if more := sorted(set(terms.scopes) - maker.scopes):
        yield f"the scope {more[0]!r}"
    for what, asked, own in (
        ("models", terms.models, maker.models),
        ("agents", terms.agents, maker.agents),
    ):
        if own is not None and (glob := _outside(asked, own)):
            yield f"the {what} {glob!r}"
    for channel in terms.channels:
        if not any(_covers(one, channel, name) for one in maker.bindings):
            yield f"the channel {channel!r} with the account {name!r}"


def _covers(claim: Claim, channel: str, account: str) -> bool:
    return claim.channel in ("*", channel) and claim.account in ("*", account) and claim.peer == "*"


def _outside(asked: Sequence[str] | None, held: Sequence[str]) -> str:
    """Return the first of the globs `asked` that is within none of `held`; "" where there is none.

    A glob lies within one of which `*` is the only sign where that takes its text as it is: its
    signs can only stand where the other has a `*`.
    """
    if asked is None:
        return "*"
    for glob in asked:
        plain = not set("*?[") & set(glob)
        for outer in held:
            simple = plain or not set("?[") & set(outer)
            if glob == outer or (simple and fnmatchcase(glob, outer)):
                break
        else:
            return glob
    return ""


# -- clients ---------------------------------------------------------------------

# What clients are told to come to this gateway: the lines that a new key is shown with.

Client: TypeAlias = Literal["claude-code", "codex", "opencode", "openai", "anthropic"]

_OPENCODE = (
    "export HOOKGATE_KEY={key}",
    'opencode.json: {{"provider": {{"anthropic": {{"options": {{"baseURL": "{url}/v1", '
    '"apiKey": "{{env:HOOKGATE_KEY}}"}}}}, "openai": {{"options": {{"baseURL": "{url}/v1", '
    '"apiKey": "{{env:HOOKGATE_KEY}}"}}}}}}}}',
)

_LINES: Mapping[Client, tuple[str, ...]] = {
    "claude-code": ("export ANTHROPIC_BASE_URL={url}", "export ANTHROPIC_AUTH_TOKEN={key}"),
    "codex": (
        "export HOOKGATE_KEY={key}",
        'codex -c model_provider=hookgate -c \'model_providers.hookgate={{name="hookgate", '
        'base_url="{url}/v1", env_key="HOOKGATE_KEY", wire_api="responses"}}\'{more}',
    ),
    "opencode": _OPENCODE,
    "openai": ("export OPENAI_BASE_URL={url}/v1", "export OPENAI_API_KEY={key}"),
    "anthropic": ("export ANTHROPIC_BASE_URL={url}", "export ANTHROPIC_API_KEY={key}"),
}
"""Each client's own variables and settings. Claude Code and Anthropic's SDKs add ``/v1`` by
themselves; of Claude Code's variables `ANTHROPIC_AUTH_TOKEN` counts before a login that it has."""


_CODEX_SEARCH = "web_search"
"""A tool that OpenAI runs and that Codex always asks for, unless it is told not to."""


def lines_for(client: Client, url: str, key: str, provider_tools: Sequence[str]) -> list[str]:
    """Return what makes a client come to `url` with `key`.

    Args:
        client: The client.
        url: Where it reaches the gateway.
        key: The key.
        provider_tools: Globs of the tools of a provider that the key may ask for.
    """
    searches = any(fnmatchcase(_CODEX_SEARCH, glob) for glob in provider_tools)
    more = "" if searches else f" -c {_CODEX_SEARCH}=disabled"
    return [line.format(url=url, key=key, more=more) for line in _LINES[client]]


def url_of(host: str, port: int) -> str:
    """Return the address of a gateway that listens on `host`, for clients of this machine."""
    near = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}
    return f"http://{near.get(host, f'[{host}]' if ':' in host else host)}:{port}"


# -- the book ----------------------------------------------------------------------

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
