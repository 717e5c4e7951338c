"""Reading the credential of a request: one at most, in a form that its route takes.

Nothing is compared here. What is malformed is refused before anybody is asked about it.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hookgate.core.domain.errors import StartError
from hookgate.core.domain.turn import Credential, CredentialKind
from hookgate.core.gateway.codes import wire_error

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

BEARER_PROTOCOL = "bearer."
"""What a WebSocket subprotocol begins with that brings a token."""

COOKIE = "cookie:"
"""What a form begins with that names a cookie, as in ``cookie:session``."""

SESSION = "session"
"""The form of a browser's session, whose cookie the gateway itself has given."""

SESSION_COOKIES = ("__Host-hookgate", "hookgate-session")
"""What the names of that cookie begin with: over TLS, where no other host can set it, and without.
What follows tells gateways apart: a browser sends a host's cookies to each of its ports."""

FORMS = ("bearer", "x-api-key", "subprotocol")
"""The forms of a credential that a route takes where it does not say otherwise."""

MAX_CREDENTIAL = 4096
"""Characters of the longest credential. A signed token with its claims takes up to 2,000."""

_VALUE = re.compile(rf"[\x21-\x7e]{{1,{MAX_CREDENTIAL}}}")
_COOKIE_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")


def check_forms(forms: Collection[Any]) -> tuple[str, ...]:
    """Return the forms of credentials that a route names.

    Raises:
        StartError: One is unknown, or there is none.
    """
    named = () if isinstance(forms, str) else tuple(forms)
    for form in named:
        if form not in (*FORMS, SESSION) and not (
            isinstance(form, str)
            and form.startswith(COOKIE)
            and _COOKIE_NAME.fullmatch(form.removeprefix(COOKIE))
            and not form.removeprefix(COOKIE).startswith(SESSION_COOKIES)
        ):
            raise StartError(
                f"found the credential {form!r}, expected {', '.join(map(repr, FORMS))}, "
                f"{SESSION!r}, or 'cookie:NAME' with the name of a cookie of your own"
            )
    if not named:
        raise StartError(
            f"found credentials={forms!r}, expected a sequence such as ('bearer', 'x-api-key'): a "
            "route that wants none has Access.public or Access.self_checked"
        )
    return named


def offered_protocols(headers: CIMultiDictProxy[str]) -> list[str]:
    """Return the WebSocket subprotocols that the client offers."""
    offers = ",".join(headers.getall("Sec-WebSocket-Protocol", ()))
    return [offer.strip() for offer in offers.split(",") if offer.strip()]


def read_credential(
    headers: CIMultiDictProxy[str], forms: Collection[str], *, client: str = ""
) -> Credential | None:
    """Return the credential that a request brings; None where it brings none.

    A header that stays empty, as a script sends it whose variable is not set, brings none. What
    cannot be right, another scheme than ``Bearer`` for example, has the value "".

    Args:
        headers: The request's headers.
        forms: The forms that the route takes. Cookies that it does not name are not looked at;
            any other form that it does not take is refused.
        client: The client's address.

    Raises:
        WireError: There are several that differ, or its form is not taken here.
    """
    given = [(kind, name, value) for kind, name, value in _given(headers, forms) if value != ""]
    # Clients of the vendors' wires send one key in both headers; anything else is two callers.
    pair = [kind for kind, _, _ in given] == ["bearer", "x-api-key"]
    if len(given) > 1 and not (pair and given[0][2] == given[1][2]):
        raise wire_error(
            "unauthorized",
            "found more than one token, expected one, or the same in both headers",
            action="send one `Authorization: Bearer TOKEN`",
        )
    if not given:
        return None
    kind, name, value = next((item for item in given if item[0] in forms), given[0])
    if kind != "cookie" and kind not in forms:
        raise wire_error(
            "unauthorized",
            f"found a credential of the form {kind!r}, which is not taken here",
            action=f"send it as one of {', '.join(forms)}",
        )
    return Credential(kind=kind, value=_checked(value), name=name, client=client)


def bearer(value: str, *, client: str = "") -> Credential:
    """Return a token that came in another way than by a header; "" where it cannot be right."""
    return Credential(kind="bearer", value=_checked(value), client=client)


def _checked(value: str) -> str:
    return value if _VALUE.fullmatch(value) else ""


def _given(
    headers: CIMultiDictProxy[str], forms: Collection[str]
) -> Iterator[tuple[CredentialKind, str, str]]:
    """Yield kind, name and value of whatever is there; a blank for what cannot be right."""
    for text in headers.getall("Authorization", ()):
        scheme, _, token = text.strip().partition(" ")
        yield "bearer", "", token.strip() if scheme.lower() == "bearer" else " "
    for text in headers.getall("X-Api-Key", ()):
        yield "x-api-key", "", text.strip()
    for offer in offered_protocols(headers) if "Sec-WebSocket-Protocol" in headers else ():
        if offer.startswith(BEARER_PROTOCOL):
            yield "subprotocol", "", offer.removeprefix(BEARER_PROTOCOL) or " "
    if cookies := headers.getall("Cookie", ()):
        names = {form.removeprefix(COOKIE) for form in forms if form.startswith(COOKIE)}
        for text in cookies:
            for pair in text.split(";"):
                name, _, value = pair.strip().partition("=")
                if name in names:
                    yield "cookie", name, value.strip().removeprefix('"').removesuffix('"')


# -- How many failed authentications an address may make -------------------------

# Many come from one address behind a proxy or a NAT, so failures lock out what is not known, and
# not those whose credential is: what was let in before is still looked at.

WINDOW = 60.0
"""Seconds that a failure counts."""

CAPACITY = 4096
"""Addresses that are remembered. Past it the one that failed longest ago is forgotten. As many
credentials are."""


class Attempts:
    """Counts failures per address over a sliding minute, in bounded memory.

    Args:
        limit: Failures of one address in `WINDOW` seconds.
        monotonic: Returns seconds that never go backwards.
        capacity: Addresses that are remembered.
    """

    def __init__(
        self, limit: int, monotonic: Callable[[], float], *, capacity: int = CAPACITY
    ) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self._capacity = capacity
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._trials: dict[str, _Trials] = {}
        self._let_in: OrderedDict[bytes, None] = OrderedDict()

    def take(self, limit: int) -> None:
        """Have another limit count from now on, for those too who have failed before."""
        self._limit = limit
        for address, failures in self._failures.items():
            self._failures[address] = deque(failures, maxlen=limit)

    def wait(self, address: str) -> float:
        """Return the seconds until `address` may try again; 0 where it may now."""
        failures = self._failures.get(address)
        if failures is None or len(failures) < self._limit:
            return 0.0
        return max(0.0, failures[0] + WINDOW - self._monotonic())

    def failed(self, address: str) -> None:
        """Count one failure of `address`."""
        failures = self._failures.get(address)
        if failures is None:
            failures = self._failures[address] = deque(maxlen=self._limit)
            if len(self._failures) > self._capacity:
                self._failures.popitem(last=False)
        failures.append(self._monotonic())
        self._failures.move_to_end(address)

    def let_in(self, credential: bytes) -> None:
        """Remember the digest of a credential that was right."""
        self._let_in[credential] = None
        self._let_in.move_to_end(credential)
        if len(self._let_in) > self._capacity:
            self._let_in.popitem(last=False)

    def forget(self, credential: bytes) -> None:
        """Forget the digest of a credential that is right no more."""
        self._let_in.pop(credential, None)

    def knows(self, credential: bytes) -> bool:
        """Whether the credential with this digest was right when it was last looked at."""
        return credential in self._let_in

    @asynccontextmanager
    async def trial(self, address: str) -> AsyncIterator[None]:
        """Wait until one more attempt may run, and run it; for attempts that take time.

        Never more run at once than may still fail, so that guesses which are made side by side
        are as few as those made one after the other. Right ones wait for each other at most.
        The caller looks at `wait` again within, and counts a failure before it leaves. Those
        that are known run one by one where nobody else may.
        """
        trials = self._trials.setdefault(address, _Trials())
        trials.known += 1
        try:
            while trials.running and trials.running >= self._room(address):
                await trials.free.wait()
            trials.running += 1
            try:
                yield
            finally:
                trials.running -= 1
                trials.mark()
        finally:
            trials.known -= 1
            if not trials.known:
                del self._trials[address]

    def _room(self, address: str) -> int:
        """Return how many attempts may still fail now."""
        since = self._monotonic() - WINDOW
        failures = self._failures.get(address, ())
        return self._limit - sum(moment > since for moment in failures)

    def __len__(self) -> int:
        return len(self._failures)


class _Trials:
    """The attempts of one address that run, and those that wait for them."""

    __slots__ = ("free", "known", "running")

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.known = 0
        self.running = 0

    def mark(self) -> None:
        """Have all that wait look again."""
        self.free.set()
        self.free = asyncio.Event()
