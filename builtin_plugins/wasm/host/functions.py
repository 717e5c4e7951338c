"""The host functions of one call, as the engine takes them: each under its grant."""

from __future__ import annotations

import base64
import os
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from hookgate import Host, StoreError, Taint
from hookgate.builtin_plugins.wasm import wire
from hookgate.builtin_plugins.wasm.engine.calls import CallContext, HostFunction
from hookgate.builtin_plugins.wasm.packages.grants import Granted
from hookgate.kit.rendering import clean
from hookgate.settings import looks_secret, variable_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.wasm.host.http import Door
    from hookgate.builtin_plugins.wasm.tables import Values

NOBODY = ""
"""Whose a channel's own data are: of no one peer."""


class HostRefusal(Exception):
    """A host function does not do what it was asked; the guest is told and goes on.

    Attributes:
        code: Why, for programs.
    """

    def __init__(self, code: wire.ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code: wire.ErrorCode = code


@dataclass(slots=True, kw_only=True)
class GuestCall:
    """What host functions know of the call that they serve.

    Attributes:
        plugin: The plugin's name.
        granted: Its grants.
        owner: Whose data in the store it sees: a peer, or `NOBODY` for those of a channel.
        before: The taint of the turn that calls.
        taint: Where untrusted text in what the guest has got came from. It grows: what is kept
            carries it beside `before`, and what the call comes to carries it.
        logged: How many lines the guest has logged.
        refused: How often which function refused, and why. It is told once the call is over:
            some functions run on the guest's thread.
    """

    plugin: str
    granted: Granted
    owner: str = NOBODY
    before: Taint = frozenset()
    taint: Taint = frozenset()
    logged: int = 0
    refused: Counter[tuple[str, wire.ErrorCode]] = field(default_factory=Counter)


# -- ``log``, ``clock``, ``random`` and ``env``: what needs no waiting -----------

MOST_LINES = 100
"""Lines that one call may log; those behind them are dropped, and that is said once."""

LINE_CHARS = 2_000


def write_log(host: Host, call: GuestCall, request: bytes) -> None:
    """Write a line to the gateway's log, masked and cut, with the plugin's name."""
    asked = wire.read_form(wire.LogRequest, request, what="the request of log")
    call.logged += 1
    if call.logged > MOST_LINES + 1:
        return
    text, level = asked.message, asked.level
    if call.logged > MOST_LINES:
        text, level = f"more than {MOST_LINES} lines in one call: the others are dropped", "warning"
    # Masked before it is cut: half a secret is no longer known as one.
    text = clean(host.secrets.redact(text[: 4 * LINE_CHARS]))[:LINE_CHARS]
    getattr(host.log, level)("a guest says", plugin=call.plugin, said=text)


def read_clock(host: Host, request: bytes) -> dict[str, float]:
    """Return the time of the gateway's clock."""
    wire.read_form(wire.ClockRequest, request or b"{}", what="the request of clock")
    return {"unix": host.clock.now().timestamp(), "monotonic": host.clock.monotonic()}


def read_random(request: bytes) -> str:
    """Return random bytes of the system, as base64."""
    asked = wire.read_form(wire.RandomRequest, request, what="the request of random")
    return base64.b64encode(secrets.token_bytes(asked.bytes)).decode()


def read_env(host: Host, call: GuestCall, request: bytes) -> Any:
    """Return a granted value of the environment; None where it is not set.

    Raises:
        HostRefusal: It is not granted, or is a secret.
    """
    asked = wire.read_form(wire.EnvRequest, request, what="the request of env")
    if asked.name not in {one.name for one in call.granted.env}:
        raise HostRefusal("not_granted", f"found env {asked.name[:80]!r}, expected a granted name")
    return environment(host, call.granted).get(asked.name)


def environment(host: Host, granted: Granted) -> dict[str, str]:
    """Return the granted values of the environment that are set, by name.

    Raises:
        HostRefusal: One of them is a secret.
    """
    values = {one.name: os.environ.get(one.name) for one in granted.env}
    found = {name: value for name, value in values.items() if value is not None}
    named = (*host.settings.secrets, *(one.name for one in granted.secrets))
    variables = set(map(variable_of, named))
    for name, value in found.items():
        # Known ones, and those that nobody has asked for by name yet.
        known = name in variables or host.secrets.redact(value) != value
        if known or looks_secret(name, value):
            raise _secret(name)
    return found


def _secret(name: str) -> HostRefusal:
    return HostRefusal(
        "not_granted",
        f"the value of {name} is a secret, or looks like one, which no guest sees: grant "
        f"`secret:{name.lower()} -> header @ URL`, and the host puts it into requests",
    )


# -- ``store``: keys and values under a quota, each owner's for itself -----------

NO_STORE = (
    "there is no store here: the operator has to enable the plugin `storage`, as it is by itself"
)


async def serve_store(values: Values | None, call: GuestCall, asked: wire.StoreRequest) -> Any:
    """Get, set, delete or list what the guest keeps; return what it is answered.

    What is kept carries the taint of the call; what is got adds its own to it.

    Raises:
        HostRefusal: The namespace is not granted, is full, or there is no store.
    """
    if values is None:
        raise HostRefusal("unavailable", NO_STORE)
    grants = call.granted.stores
    name = asked.namespace or (next(iter(grants)) if len(grants) == 1 else "")
    if name not in grants:
        raise HostRefusal(
            "not_granted", f"found the namespace {name[:80]!r}, expected {' or '.join(grants)}"
        )
    place = (call.plugin, name, call.owner)
    try:
        match asked.op:
            case "get":
                kept = await values.get(*place, asked.key)
                call.taint |= kept.taint if kept else frozenset()
                return kept.value if kept else None
            case "list":
                keys, taint = await values.keys(*place, asked.key)
                call.taint |= taint
                return list(keys)
            case "delete":
                return await values.delete(*place, asked.key)
            case "set":
                await _set(values, call, asked, place, grants[name].quota)
    except StoreError as error:
        raise HostRefusal("unavailable", f"the store: {error}") from error
    return None


async def _set(
    values: Values,
    call: GuestCall,
    asked: wire.StoreRequest,
    place: tuple[str, str, str],
    quota: int,
) -> None:
    # SQLAlchemy takes long to import; where there is a store it is there.
    from hookgate.builtin_plugins.wasm.tables import KeptValue, QuotaError

    if asked.value is None or not asked.key:
        missing = "value" if asked.value is None else "key"
        raise HostRefusal("bad_request", f"found no {missing}, expected one to set")
    if "\0" in asked.key + asked.value:
        raise HostRefusal("bad_request", "found a zero character, which no database keeps")
    try:
        await values.set(
            *place, asked.key, KeptValue(asked.value, call.before | call.taint), quota=quota
        )
    except QuotaError as error:
        raise HostRefusal(
            "limit", f"the namespace {place[1]} would hold {error}: delete something first"
        ) from None


# -- The host functions of one call, as the engine takes them --------------------

F = TypeVar("F", bound=wire.WireForm)


class HostFunctions:
    """What the guests of one plugin may ask of the host.

    Attributes:
        granted: Its grants.

    Args:
        host: The gateway.
        door: The plugin's way out.
        values: Where it keeps values; None where there is no store.
        granted: Its grants.
    """

    def __init__(self, host: Host, door: Door, values: Values | None, granted: Granted) -> None:
        self.granted = granted
        self._host = host
        self._door = door
        self._values = values

    def of(self, call: GuestCall) -> Mapping[str, HostFunction]:
        """Return the functions that `call` is granted, by name."""
        host = self._host

        async def http(asked: wire.HttpRequest, context: CallContext) -> Any:
            # What comes back is somebody else's text, and so is what is kept of it.
            call.taint |= {f"wasm:{call.plugin}"}
            return await self._door.send(asked, deadline=context.deadline)

        async def store(asked: wire.StoreRequest, _: CallContext) -> Any:
            return await serve_store(self._values, call, asked)

        at_once: dict[str, Callable[[bytes], Any]] = {
            "log": lambda request: write_log(host, call, request),
            "clock": lambda request: read_clock(host, request),
            "random": read_random,
            "env": lambda request: read_env(host, call, request),
        }
        made = {name: self._answering(call, name, one) for name, one in at_once.items()}
        made |= {
            "http": self._waiting(call, "http", wire.HttpRequest, http),
            "store": self._waiting(call, "store", wire.StoreRequest, store),
        }
        return {name: made[name] for name in call.granted.imports}

    def _answering(
        self, call: GuestCall, name: str, function: Callable[[bytes], Any]
    ) -> HostFunction:
        def answer(request: bytes, _: CallContext) -> bytes:
            try:
                _check_size(name, request)
                return wire.ok_answer(function(request))
            except Exception as error:  # noqa: BLE001 - whatever it is, the guest goes on
                return self._refused(call, name, error)

        return answer

    def _waiting(
        self,
        call: GuestCall,
        name: str,
        form: type[F],
        function: Callable[[F, CallContext], Awaitable[Any]],
    ) -> HostFunction:
        async def wait(asked: F, context: CallContext) -> bytes:
            try:
                value = await function(asked, context)
                return await wire.aside(_size(value), wire.ok_answer, value)
            except Exception as error:  # noqa: BLE001 - whatever it is, the guest goes on
                return self._refused(call, name, error)

        def answer(request: bytes, context: CallContext) -> bytes | Awaitable[bytes]:
            # What a guest says is read on its own thread, not on the event loop.
            try:
                _check_size(name, request)
                asked = wire.read_form(form, request, what=f"the request of {name}")
            except Exception as error:  # noqa: BLE001 - whatever it is, the guest goes on
                return self._refused(call, name, error)
            return wait(asked, context)

        return answer

    def _refused(self, call: GuestCall, name: str, error: Exception) -> bytes:
        code, text = self._told(name, error)
        call.refused[name, code] += 1
        return wire.error_answer(code, text)

    def _told(self, name: str, error: Exception) -> tuple[wire.ErrorCode, str]:
        if isinstance(error, HostRefusal):
            return error.code, str(error)
        if isinstance(error, wire.WireFormError):
            return "bad_request", str(error)
        # A fault of ours: the guest, a stranger, need not know more.
        self._host.log.error("a host function failed", function=name, exc_info=error)
        return "failed", f"{name} failed"


def _check_size(name: str, request: bytes) -> None:
    """Refuse what is too long for this function, before anything of it is read."""
    most = wire.REQUEST_BYTES[name]
    if len(request) > most:
        raise HostRefusal(
            "limit", f"found a request of {len(request):,} bytes, expected at most {most:,}"
        )


def _size(value: Any) -> int:
    text = value.body if isinstance(value, wire.HttpResponse) else value
    return len(text) if isinstance(text, str | list) else 0
