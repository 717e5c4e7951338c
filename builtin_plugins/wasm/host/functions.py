"""The host functions of one call, as the engine takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookgate.builtin_plugins.wasm.host.calls import GuestCall, HostRefusal
from hookgate.builtin_plugins.wasm.host.plain import read_clock, read_env, read_random, write_log
from hookgate.builtin_plugins.wasm.host.store import KeyValues, serve_store
from hookgate.builtin_plugins.wasm.wire import (
    HttpRequest,
    WireFormError,
    error_answer,
    ok_answer,
    read_form,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from hookgate.builtin_plugins.wasm.engine import CallContext, HostFunction
    from hookgate.builtin_plugins.wasm.host.http import Door
    from hookgate.builtin_plugins.wasm.packages.grants import Granted
    from hookgate.builtin_plugins.wasm.wire import ErrorCode
    from hookgate.core.host import Host

__all__ = ["HostFunctions"]


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

    def __init__(self, host: Host, door: Door, values: KeyValues | None, granted: Granted) -> None:
        self.granted = granted
        self._host = host
        self._door = door
        self._values = values

    def of(self, call: GuestCall) -> Mapping[str, HostFunction]:
        """Return the functions that `call` is granted, by name."""
        host = self._host

        async def http(request: bytes, context: CallContext) -> Any:
            asked = read_form(HttpRequest, request, what="the request of http")
            # What comes back is somebody else's text, and so is what is kept of it.
            call.taint |= {f"wasm:{call.plugin}"}
            return await self._door.send(asked, deadline=context.deadline)

        async def store(request: bytes, _: CallContext) -> Any:
            return await serve_store(self._values, call, request)

        at_once: dict[str, Callable[[bytes], Any]] = {
            "log": lambda request: write_log(host, call, request),
            "clock": lambda request: read_clock(host, request),
            "random": read_random,
            "env": lambda request: read_env(host, call, request),
        }
        made = {name: self._answering(call, name, one) for name, one in at_once.items()}
        made |= {
            "http": self._waiting(call, "http", http),
            "store": self._waiting(call, "store", store),
        }
        return {name: made[name] for name in call.granted.imports}

    def _answering(
        self, call: GuestCall, name: str, function: Callable[[bytes], Any]
    ) -> HostFunction:
        def answer(request: bytes, _: CallContext) -> bytes:
            try:
                return ok_answer(function(request))
            except Exception as error:  # noqa: BLE001 - whatever it is, the guest goes on
                return self._refused(call, name, error)

        return answer

    def _waiting(
        self,
        call: GuestCall,
        name: str,
        function: Callable[[bytes, CallContext], Awaitable[Any]],
    ) -> HostFunction:
        async def answer(request: bytes, context: CallContext) -> bytes:
            try:
                return ok_answer(await function(request, context))
            except Exception as error:  # noqa: BLE001 - whatever it is, the guest goes on
                return self._refused(call, name, error)

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
