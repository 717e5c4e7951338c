"""Access tokens: what the settings name, what has been revoked, and comparing with both."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import secrets as random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookgate.core.domain.errors import StartError, StoreError
from hookgate.core.domain.ports import SWITCHES, Key, Switch, Switches, set_switch
from hookgate.core.domain.turn import Claim, Principal
from hookgate.core.hooks.tasks import finish
from hookgate.core.settings.whole_file import write_whole

if TYPE_CHECKING:
    from hookgate.core.host import Host
    from hookgate.core.settings.schema import TokenSettings

PREFIX = "hgt_"
"""What every token begins with, so that one is recognised where it should not be."""

PREFIXES = (PREFIX, "hgk_")
"""The same, and what keys begin with that are made for clients."""

REVOKED_SWITCH = "tokens.revoked"
"""The switch that holds the digests of all revoked tokens, for every gateway on one store."""

DEAF_SECONDS = 5.0
"""A gateway that has not heard for so long what others revoke lets nobody in by a token."""

_REVOKED_FILE = "revoked-tokens.json"


def new_token() -> tuple[str, str]:
    """Return a new token and its digest for the settings (SHA-256, hex).

    The token has 256 random bits, so its digest needs neither salt nor stretching.
    """
    token = PREFIX + random.token_urlsafe(32)
    return token, hashlib.sha256(token.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Token:
    """One token of the settings.

    Attributes:
        name: Its name in ``[gateway.tokens.NAME]``.
        digest: Its SHA-256.
        principal: Who comes in with it.
    """

    name: str
    digest: bytes
    principal: Principal


class TokenBook:
    """The tokens of one gateway. A revocation outlives the process.

    Revoked digests stand in a file of the home folder and in a switch, which gateways on one
    store share. A token that either of them names is revoked: so neither a damaged store nor a
    lost file lets one back in.

    Args:
        tokens: The tokens.
        home: The folder that keeps the list of revoked ones.

    Attributes:
        evaluated: How many presented tokens have been compared.

    Raises:
        StartError: The list of revoked tokens cannot be read, so nobody can be let in.
    """

    def __init__(self, tokens: tuple[Token, ...], home: Path) -> None:
        self._tokens = tokens
        self._file = home / _REVOKED_FILE
        self._revoked = _read_revoked(self._file)
        self._watchers: list[Callable[[str], None]] = []
        self._writing = asyncio.Lock()
        self._switches: Switches | None = None
        self._unreadable = False
        self.evaluated = 0

    @property
    def configured(self) -> bool:
        """Whether the settings name any token, revoked ones included."""
        return bool(self._tokens)

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens of the settings."""
        return self._tokens

    @property
    def deaf(self) -> bool:
        """Whether a token may have been revoked at another gateway and nobody here knows of it."""
        return self._unreadable or (
            self._switches is not None and self._switches.behind() > DEAF_SECONDS
        )

    def take(self, tokens: tuple[Token, ...]) -> None:
        """Have these tokens count from now on; what came in by another form of one ends.

        A revoked one stays revoked, under whatever name it comes back.
        """
        before, self._tokens = self._tokens, tokens
        for token in before:
            if token not in tokens:
                self._tell(token.name)

    def _tell(self, name: str) -> None:
        for watcher in tuple(self._watchers):
            watcher(name)

    def is_revoked(self, token: Token) -> bool:
        """Whether `token` has been revoked."""
        return token.digest.hex() in self._revoked

    def holds(self, name: str) -> bool:
        """Whether there is a token called `name` that has not been revoked."""
        return any(token.name == name and not self.is_revoked(token) for token in self._tokens)

    def redeem(self, presented: str) -> Token | None:
        """Return the token that was presented, or None where it is none of ours.

        It is compared with all of them, in the same time whichever it is.
        """
        self.evaluated += 1
        digest = hashlib.sha256(presented.encode("utf-8", "surrogatepass")).digest()
        found: Token | None = None
        for token in self._tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        return None if found is None or self.is_revoked(found) else found

    def watch(self, watcher: Callable[[str], None]) -> Callable[[], None]:
        """Call `watcher` with the name of each token that is revoked or has become another one.

        What is returned undoes it.
        """
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    async def follow(self, switches: Switches) -> None:
        """Join the file with the switch, and follow the switch from now on.

        Raises:
            StartError: The switch cannot be read, so nobody can be let in.
        """
        if self._switches is switches:
            return
        switches.watch(REVOKED_SWITCH, self._heard)
        try:
            known = await switches.get(REVOKED_SWITCH)
            self._heard(known)
            if not self._revoked <= _digests(known):
                await self._share(switches)
        except (StoreError, ValueError) as error:
            raise StartError(f"the list of revoked tokens cannot be read: {error}") from error
        self._switches = switches

    def _heard(self, switch: Switch) -> None:
        self._unreadable = True
        fresh = _digests(switch) - self._revoked
        self._unreadable = False
        for digest in fresh:
            self._mark(digest)

    def _mark(self, digest: str) -> None:
        self._revoked.add(digest)
        for token in self._tokens:
            if token.digest.hex() == digest:
                self._tell(token.name)

    async def revoke(self, name: str) -> Token | None:
        """Revoke the token called `name`: at once, then durably. None where there is none.

        Raises:
            StoreError: It is revoked here until the gateway stops, and the home folder, or
                gateways beside this one, were not told.
        """
        token = next((token for token in self._tokens if token.name == name), None)
        if token is None:
            return None
        self._mark(token.digest.hex())
        # Whole: who revokes its own token is cut off by that, and others have to hear of it.
        await finish(self._keep(name))
        return token

    async def _keep(self, name: str) -> None:
        """Have the home folder and the switch name all that is revoked here; try both."""
        failed: OSError | None = None
        async with self._writing:
            try:
                kept = json.dumps({"digests": sorted(self._revoked)}).encode()
                await asyncio.to_thread(write_whole, self._file, kept, durable=True)
            except OSError as error:
                failed = error
        if self._switches is not None:
            await self._share(self._switches)
        if failed is not None:
            raise StoreError(
                f"token {name!r} is revoked, and {self._file} cannot be written ({failed}): a "
                "start may let it back in; make room there and revoke it again"
            ) from failed

    async def _share(self, switches: Switches) -> None:
        """Have the switch name all that is revoked here, beside what it names already."""
        await set_switch(
            switches, REVOKED_SWITCH, lambda known: sorted(_digests(known) | self._revoked)
        )


TOKEN_BOOK: Key[TokenBook] = Key("gateway tokens")


def principal_id(name: str) -> str:
    """Return the id of the principal who comes in with the token called `name`."""
    return f"token:{name}"


def token_book(host: Host) -> TokenBook:
    """Return the gateway's tokens, read from its settings on first use.

    Raises:
        StartError: The list of revoked tokens cannot be read, or two tokens are the same.
        ConfigError: A token's file is not safe to use.
    """
    book = host.get(TOKEN_BOOK)
    if book is None:
        tokens = read_tokens(host, host.settings.gateway.tokens)
        book = TokenBook(tokens, host.settings.home)
        host.provide(TOKEN_BOOK, book)
    return book


def read_tokens(host: Host, named: Mapping[str, TokenSettings]) -> tuple[Token, ...]:
    """Return the tokens of ``[gateway.tokens]``. It reads their files.

    Raises:
        StartError: Two tokens are the same, or a file is empty.
        ConfigError: A token's file is not safe to use.
    """
    tokens = tuple(_read_token(host, name, entry) for name, entry in named.items())
    for one, other in itertools.combinations(tokens, 2):
        if one.digest == other.digest:
            raise StartError(
                f"gateway.tokens.{one.name} and gateway.tokens.{other.name} are the same "
                "token: make one for each, with `hookgate token new`"
            )
    return tokens


async def followed_token_book(host: Host) -> TokenBook:
    """Return the gateway's tokens, which hear from now on of those that others revoke.

    Raises:
        StartError: See `token_book`; or the switch of revoked tokens cannot be read.
        ConfigError: A token's file is not safe to use.
    """
    book = token_book(host)
    await book.follow(host[SWITCHES])
    return book


def _read_token(host: Host, name: str, settings: TokenSettings) -> Token:
    if settings.file is not None:
        value = host.secrets.read(settings.file.expanduser())
        if not value:
            raise StartError(
                f"gateway.tokens.{name}.file: {settings.file} is empty: expected a token, "
                "such as `hookgate token new` prints"
            )
        digest = hashlib.sha256(value.encode()).digest()
    else:
        digest = bytes.fromhex(settings.digest or "")
    claims = itertools.product(settings.channels, settings.accounts, settings.peers)
    principal = Principal(
        id=principal_id(name),
        scopes=frozenset(settings.scopes),
        bindings=tuple(Claim(*claim) for claim in claims),
        key=name,
        agents=settings.agents,
        models=settings.models,
        expires=settings.expires,
    )
    return Token(name, digest, principal)


def _read_revoked(path: Path) -> set[str]:
    try:
        digests = json.loads(path.read_text("utf-8"))["digests"]
        return {bytes.fromhex(digest).hex() for digest in digests}
    except FileNotFoundError:
        return set()
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise StartError(
            f"the list of revoked tokens, {path}, cannot be read ({error}): restore it, or "
            "replace the tokens that were revoked in the settings and remove the file"
        ) from error


def _digests(switch: Switch) -> set[str]:
    held: Any = switch.value or []
    return {bytes.fromhex(digest).hex() for digest in held}
