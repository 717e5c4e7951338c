"""The host functions of one call, as the engine takes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from hookgate import Host
from hookgate.builtin_plugins.wasm.bounded import aside
from hookgate.builtin_plugins.wasm.host.calls import GuestCall, HostRefusal
from hookgate.builtin_plugins.wasm.host.plain import read_clock, read_env, read_random, write_log
from hookgate.builtin_plugins.wasm.host.store import serve_store
from hookgate.builtin_plugins.wasm.wire import (
    REQUEST_BYTES,
    ErrorCode,
    HttpRequest,
    HttpResponse,
    StoreRequest,
    WireForm,
    WireFormError,
    error_answer,
    ok_answer,
    read_form,
)

if TYPE_CHECKING:
    from hookgate.builtin_plugins.wasm.engine.calls import CallContext, HostFunction
    from hookgate.builtin_plugins.wasm.host.http import Door
    from hookgate.builtin_plugins.wasm.packages.grants import Granted
    from hookgate.builtin_plugins.wasm.tables import Values

F = TypeVar("F", bound=WireForm)


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

        async def http(asked: HttpRequest, context: CallContext) -> Any:
            # What comes back is somebody else's text, and so is what is kept of it.
            call.taint |= {f"wasm:{call.plugin}"}
            return await self._door.send(asked, deadline=context.deadline)

        async def store(asked: StoreRequest, _: CallContext) -> Any:
            return await serve_store(self._values, call, asked)

        at_once: dict[str, Callable[[bytes], Any]] = {
            "log": lambda request: write_log(host, call, request),
            "clock": lambda request: read_clock(host, request),
            "random": read_random,
            "env": lambda request: read_env(host, call, request),
        }
        made = {name: self._answering(call, name, one) for name, one in at_once.items()}
        made |= {
            "http": self._waiting(call, "http", HttpRequest, http),
            "store": self._waiting(call, "store", StoreRequest, store),
        }
        return {name: made[name] for name in call.granted.imports}

    def _answering(
        self, call: GuestCall, name: str, function: Callable[[bytes], Any]
    ) -> HostFunction:
        def answer(request: bytes, _: CallContext) -> bytes:
            try:
                _check_size(name, request)
                return ok_answer(function(request))
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
                return await aside(_size(value), ok_answer, value)
            except Exception as error:  # noqa: BLE001 - whatever it is, the guest goes on
                return self._refused(call, name, error)

        def answer(request: bytes, context: CallContext) -> bytes | Awaitable[bytes]:
            # What a guest says is read on its own thread, not on the event loop.
            try:
                _check_size(name, request)
                asked = read_form(form, request, what=f"the request of {name}")
            except Exception as error:  # noqa: BLE001 - whatever it is, the guest goes on
                return self._refused(call, name, error)
            return wait(asked, context)

        return answer

    def _refused(self, call: GuestCall, name: str, error: Exception) -> bytes:
        code, text = self._told(name, error)
        call.refused[name, code] += 1
        return error_answer(code, text)

    def _told(self, name: str, error: Exception) -> tuple[ErrorCode, str]:
        if isinstance(error, HostRefusal):
            return error.code, str(error)
        if isinstance(error, WireFormError):
            return "bad_request", str(error)
        # A fault of ours: the guest, a stranger, need not know more.
        self._host.log.error("a host function failed", function=name, exc_info=error)
        return "failed", f"{name} failed"


def _check_size(name: str, request: bytes) -> None:
    """Refuse what is too long for this function, before anything of it is read."""
    most = REQUEST_BYTES[name]
    if len(request) > most:
        raise HostRefusal(
            "limit", f"found a request of {len(request):,} bytes, expected at most {most:,}"
        )


def _size(value: Any) -> int:
    text = value.body if isinstance(value, HttpResponse) else value
    return len(text) if isinstance(text, str | list) else 0
