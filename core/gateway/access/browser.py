"""Sessions of browsers: a cookie that stands for the credential that was shown at the login.

Nothing is kept of a session that lives: the cookie says which token of the settings it stands for,
or holds the credential that plugins are asked about, signed with a key that all gateways on one
store share. So whatever holds for the credential (scopes, claims, its end, that it was revoked)
holds for the session, at each of them, and a start forgets none. Kept are the sessions that were
ended before their time.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets as random
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hookgate.core.domain.errors import StoreError, WireError
from hookgate.core.domain.ports import SWITCHES, Switch, Switches
from hookgate.core.gateway.access.credentials import MAX_CREDENTIAL, SESSION_COOKIES
from hookgate.core.gateway.access.tokens import Token, TokenBook
from hookgate.core.gateway.codes import wire_error

if TYPE_CHECKING:
    from hookgate.core.host import Host

SESSION_SECONDS = 12 * 3600
"""Seconds that a session lasts after it was opened, or shown last."""

SESSIONS_SWITCH = "sessions.key"
"""The switch that holds the key of the signatures."""

ENDED_SWITCH = "sessions.ended"
"""The switch that holds the ids of ended sessions, and until when each is remembered."""

ENDED_SECONDS = SESSION_SECONDS + 600
"""Seconds for which an ended session is remembered, whichever of its cookies was shown: another
one may have been renewed just now, at a gateway that had not heard of the end, by a clock of its
own."""

MAX_ENDED = 200
"""Ended sessions that are remembered. One more ends all sessions of the credential that has ended
the most of them, in whose place that alone is remembered: no session that was ended comes back,
and nobody ends those of others by logging out. Where none has ended two, a new key ends all."""

WHOSE = 16
"""Digits of a session's id that say which credential opened it, not what that is."""

MARK = 12
"""Digits of the cookie's name that tell gateways apart."""

KEY_BYTES = 32

MOST_SHOWN = 4096
"""Sessions of which it is remembered when they end, those that were shown last."""

_FORM = re.compile(
    r"(?P<signed>v1\.(?P<id>[0-9a-f]{32})\.(?P<since>[0-9]{1,12})"
    r"\.(?P<kind>[tc])\.(?P<held>[A-Za-z0-9_-]+))\.(?P<signature>[0-9a-f]{64})"
)


def of_plugin(cookie: str) -> bool:
    """Whether a cookie says that it was opened by a credential that a plugin knows."""
    match = _FORM.fullmatch(cookie)
    return match is not None and match["kind"] == "c"


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A session that a cookie stands for.

    Attributes:
        id: Names it, and opens nothing.
        token: The token of the settings that was shown; None where a plugin knows the credential.
        credential: The credential that plugins know, or "".
    """

    id: str
    token: Token | None
    credential: str


class SessionTime:
    """How long a session lasts: longer, whenever this gateway is shown it again.

    Args:
        session_id: The session.
        shown: When each session ends, by what was shown of it.
    """

    def __init__(self, session_id: str, shown: Mapping[str, int]) -> None:
        self._session_id = session_id
        self._shown = shown
        self._ends = 0

    @property
    def expires(self) -> datetime:
        """When it ends."""
        self._ends = max(self._ends, self._shown.get(self._session_id, 0))
        return datetime.fromtimestamp(self._ends, UTC)


class BrowserSessions:
    """The sessions of browsers at one gateway.

    Args:
        host: The gateway.
        tokens: Its tokens.
    """

    def __init__(self, host: Host, tokens: TokenBook) -> None:
        self._host = host
        self._tokens = tokens
        self._key = random.token_bytes(KEY_BYTES)
        self._mark = ""
        self._ended: dict[str, int] = {}
        self._shown: OrderedDict[str, int] = OrderedDict()
        self._switches: Switches | None = None
        self._watchers: list[Callable[[str], None]] = []

    def watch(self, watcher: Callable[[str], None]) -> None:
        """Call `watcher` with what the ids of ended sessions begin with, here or elsewhere."""
        self._watchers.append(watcher)

    async def cookie(self, *, secure: bool) -> str:
        """Return the name of the cookie: of all gateways on this store, and of no others.

        Args:
            secure: Whether it goes over TLS.

        Raises:
            WireError: The store fails.
        """
        await self._open()
        return f"{SESSION_COOKIES[not secure]}-{self._mark}"

    async def issue(self, token: str, credential: str, session_id: str = "") -> tuple[str, int]:
        """Return a cookie's value, and when its session ends.

        Args:
            token: The name of the token of the settings that was shown, or "".
            credential: What was shown, where a plugin knows it.
            session_id: The session that goes on; "" for a new one.

        Raises:
            WireError: The store fails, or the credential is too long for a cookie.
        """
        await self._open()
        held = self._named(token) if token else None
        value, kind = (token, "t") if held else (credential, "c")
        shown = base64.urlsafe_b64encode(value.encode()).decode().rstrip("=")
        session_id = session_id or self._new_id(f"{kind}.{shown}")
        since = max(self._now(), self._ended_before(session_id))
        signed = f"v1.{session_id}.{since}.{kind}.{shown}"
        cookie = f"{signed}.{self._signature(signed, held)}"
        if len(cookie) > MAX_CREDENTIAL:
            raise wire_error(
                "too_large",
                f"found a credential of {len(value)} characters, which no cookie holds",
                action="log in with a shorter one",
            )
        self._show(session_id, since)
        return cookie, since + SESSION_SECONDS

    async def read(self, value: str) -> BrowserSession:
        """Return the session of a cookie.

        Raises:
            WireError: It is none, has ended, or nobody can tell.
        """
        await self._open()
        if self._tokens.deaf:
            raise _not_checked()
        match = _FORM.fullmatch(value)
        held = _held(match["held"]) if match else None
        if match is None or held is None:
            raise _ended()
        token = self._named(held) if match["kind"] == "t" else None
        right = hmac.compare_digest(self._signature(match["signed"], token), match["signature"])
        since = int(match["since"])
        late = since + SESSION_SECONDS <= self._now()
        ended = match["id"] in self._ended or since < self._ended_before(match["id"])
        lost = match["kind"] == "t" and token is None
        if not right or lost or late or ended:
            raise _ended()
        self._show(match["id"], since)
        return BrowserSession(match["id"], token, "" if token else held)

    async def renew(self, value: str) -> tuple[str, int]:
        """Return a cookie of the same session that lasts from now on, and when that one ends.

        Raises:
            WireError: See `read`.
        """
        session = await self.read(value)
        name = session.token.name if session.token else ""
        return await self.issue(name, session.credential, session.id)

    def _show(self, session_id: str, since: int) -> None:
        """Remember when a session ends, as far as this gateway was shown it."""
        self._shown[session_id] = max(since + SESSION_SECONDS, self._shown.pop(session_id, 0))
        if len(self._shown) > MOST_SHOWN:
            self._shown.popitem(last=False)

    def lasts(self, session_id: str) -> SessionTime:
        """Return how long a session lasts that was shown just now."""
        return SessionTime(session_id, self._shown)

    def has_ended(self, session_id: str) -> bool:
        """Whether a session was ended before its time."""
        return session_id in self._ended

    async def end(self, session_id: str) -> None:
        """End a session for good, at every gateway on the store.

        Raises:
            WireError: That cannot be kept; the session goes on.
        """
        switches = await self._open()
        try:
            while True:
                known = await switches.get(ENDED_SWITCH)
                now = self._now()
                ended = {one: until for one, until in _ended_in(known).items() if until > now}
                ended[session_id] = now + ENDED_SECONDS
                if len(ended) > MAX_ENDED:
                    whose, count = Counter(one[:WHOSE] for one in ended).most_common(1)[0]
                    ended = {one: at for one, at in ended.items() if not one.startswith(whose)}
                    ended[whose] = now + ENDED_SECONDS
                    if count == 1:
                        await self._renew_key(switches)
                        ended = {}
                if await switches.put(ENDED_SWITCH, ended, version=known.version) is not None:
                    break
        except (StoreError, ValueError) as error:
            raise _not_checked() from error
        self._tell(session_id)

    # -- the key and the list --------------------------------------------------

    async def _open(self) -> Switches:
        """Read key and list once, and follow both from then on.

        Raises:
            WireError: They cannot be read, so no session can be told from a made-up one.
        """
        if self._switches is not None:
            return self._switches
        switches = self._host[SWITCHES]
        try:
            key = await switches.get(SESSIONS_SWITCH)
            if key.value is None:
                await self._renew_key(switches)
                key = await switches.get(SESSIONS_SWITCH)
            ended = await switches.get(ENDED_SWITCH)
            self._heard_key(key)
            self._heard_ended(ended)
        except (StoreError, ValueError) as error:
            self._host.log.error("sessions of browsers cannot be checked", error=str(error))
            raise _not_checked() from error
        if self._switches is None:
            switches.watch(SESSIONS_SWITCH, self._heard_key)
            switches.watch(ENDED_SWITCH, self._heard_ended)
            self._switches = switches
        return switches

    @staticmethod
    async def _renew_key(switches: Switches) -> None:
        known = await switches.get(SESSIONS_SWITCH)
        # Where another gateway was faster, its key is as good.
        await switches.put(SESSIONS_SWITCH, random.token_hex(KEY_BYTES), version=known.version)

    def _heard_key(self, switch: Switch) -> None:
        # Whatever cannot be read leaves a key that nobody knows.
        self._key = random.token_bytes(KEY_BYTES)
        if self._switches is not None:
            self._tell("")
        key = bytes.fromhex(str(switch.value))
        if len(key) != KEY_BYTES:
            raise ValueError(f"found a key of {len(key)} bytes, expected {KEY_BYTES}")
        self._host.secrets.register(str(switch.value))
        self._key = key
        self._mark = hmac.new(key, b"the name of the cookie", hashlib.sha256).hexdigest()[:MARK]

    def _heard_ended(self, switch: Switch) -> None:
        fresh = _ended_in(switch)
        news = fresh.items() - self._ended.items()
        self._ended = fresh
        for session_id, _ in news:
            self._tell(session_id)

    def _ended_before(self, session_id: str) -> int:
        """Return the time before which all cookies of this session's credential were ended."""
        return self._ended.get(session_id[:WHOSE], 0) - SESSION_SECONDS

    def _tell(self, session_id: str) -> None:
        for watcher in self._watchers:
            watcher(session_id)

    # -- signatures --------------------------------------------------------------

    def _signature(self, signed: str, token: Token | None) -> str:
        """Return the signature; it is another one once the token is, so no name is enough."""
        material = signed.encode() + (token.digest if token else b"")
        return hmac.new(self._key, material, hashlib.sha256).hexdigest()

    def _new_id(self, opened_by: str) -> str:
        """Return an id that says, to this key alone, which credential opened the session."""
        whose = hmac.new(self._key, opened_by.encode(), hashlib.sha256).hexdigest()[:WHOSE]
        return whose + random.token_hex(8)

    def _named(self, name: str) -> Token | None:
        return next(
            (
                token
                for token in self._tokens.tokens
                if token.name == name and not self._tokens.is_revoked(token)
            ),
            None,
        )

    def _now(self) -> int:
        return int(self._host.clock.now().timestamp())


def _ended_in(switch: Switch) -> dict[str, int]:
    """Return what a switch says of ended sessions.

    Raises:
        ValueError: It cannot be read.
    """
    try:
        return {str(one): int(until) for one, until in (switch.value or {}).items()}
    except (AttributeError, TypeError) as error:
        raise ValueError(f"the ended sessions cannot be read: {error}") from error


def _held(text: str) -> str | None:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def session_cookie(name: str, value: str, *, secure: bool) -> str:
    """Return the header ``Set-Cookie`` for a session; an empty value takes the cookie back."""
    seconds = SESSION_SECONDS if value else 0
    ending = "; Secure" if secure else ""
    return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{ending}"


def _ended() -> WireError:
    return wire_error(
        "unauthorized", "this session is not known, or has ended", action="log in again"
    )


def _not_checked() -> WireError:
    return wire_error(
        "not_checked",
        "whether this session was ended cannot be found out now",
        action="try again in a moment; operators find the reason in `status`",
    )
