"""Runs WebAssembly of strangers: bytes in, bytes out, and every limit on.

It knows no manifest and no gateway: what a guest is granted comes as names of imports, as
:class:`WasiGrants` and as functions of the host.
"""

from __future__ import annotations

from hookgate.builtin_plugins.wasm.engine.calls import CallContext, HostFunction
from hookgate.builtin_plugins.wasm.engine.errors import GuestError, GuestRefusedError
from hookgate.builtin_plugins.wasm.engine.limits import Limits, WasiGrants
from hookgate.builtin_plugins.wasm.engine.sandbox import Guest, Sandbox
from hookgate.builtin_plugins.wasm.engine.wasi import opened_folder

__all__ = [
    "CallContext",
    "Guest",
    "GuestError",
    "GuestRefusedError",
    "HostFunction",
    "Limits",
    "Sandbox",
    "WasiGrants",
    "opened_folder",
]
