"""Access tokens: what the settings name, what has been revoked, and comparing with both."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import os
import secrets as random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hookgate.core.domain.errors import StartError
from hookgate.core.domain.ports import Key
from hookgate.core.domain.turn import Claim, Principal
from hookgate.core.settings.secret_store import read_key_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from hookgate.core.host import Host
    from hookgate.core.settings.schema import TokenSettings

__all__ = [
    "PREFIX",
    "REVOKED",
    "TOKEN_BOOK",
    "Token",
    "TokenBook",
    "new_token",
    "principal_id",
    "token_book",
]

PREFIX = "hgt_"
"""What every token begins with, so that one is recognised where it should not be."""

REVOKED = "token.revoked"
"""The topic of `Signals` on which a revocation is told: ``{name, digest}``."""

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
        self.evaluated = 0

    @property
    def configured(self) -> bool:
        """Whether the settings name any token, revoked ones included."""
        return bool(self._tokens)

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens of the settings."""
        return self._tokens

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
        """Call `watcher` with the name of each token that is revoked; return what undoes it."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def mark(self, digest: str) -> None:
        """Take note that a token has been revoked, here or at another gateway."""
        self._revoked.add(digest)
        for token in self._tokens:
            if token.digest.hex() == digest:
                for watcher in tuple(self._watchers):
                    watcher(token.name)

    async def revoke(self, name: str) -> Token | None:
        """Revoke the token called `name`: durably, then at once. None where there is none."""
        token = next((token for token in self._tokens if token.name == name), None)
        if token is not None:
            digest = token.digest.hex()
            async with self._writing:
                await asyncio.to_thread(_write_revoked, self._file, self._revoked | {digest})
            self.mark(digest)
        return token


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
        settings = host.settings
        tokens = tuple(
            _read_token(host, name, entry) for name, entry in settings.gateway.tokens.items()
        )
        for one, other in itertools.combinations(tokens, 2):
            if one.digest == other.digest:
                raise StartError(
                    f"gateway.tokens.{one.name} and gateway.tokens.{other.name} are the same "
                    "token: make one for each, with `hookgate token new`"
                )
        book = TokenBook(tokens, settings.home)
        host.provide(TOKEN_BOOK, book)
    return book


def _read_token(host: Host, name: str, settings: TokenSettings) -> Token:
    if settings.file is not None:
        value = read_key_file(settings.file.expanduser())
        if not value:
            raise StartError(
                f"gateway.tokens.{name}.file: {settings.file} is empty: expected a token, "
                "such as `hookgate token new` prints"
            )
        host.secrets.register(value)
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


def _write_revoked(path: Path, digests: set[str]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # `mkstemp` makes the file with mode 0600.
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            json.dump({"digests": sorted(digests)}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
