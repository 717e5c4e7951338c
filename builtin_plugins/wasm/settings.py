"""The settings of the sandbox: ``[plugin.wasm]``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from hookgate import Section

MB = 1024 * 1024


class CallLimits(Section):
    """What one call of a guest may use: of a manifest's ``[limits]``, what stands there counts."""

    fuel: int = Field(default=20_000_000_000, ge=1)
    """Instructions of one call, about one each."""
    seconds: float = Field(default=60.0, gt=0, le=600)
    """Wall time of one call, its requests included."""
    memory_bytes: int = Field(default=256 * MB, ge=65_536)
    """All linear memories of one call together."""
    table_elements: int = Field(default=100_000, ge=1)
    """All tables of one call together."""
    stack_bytes: int = Field(default=MB, ge=4_096, le=2 * MB)
    """The guest's own stack."""
    instances: int = Field(default=256, ge=1)
    """Core instances that a component is made of."""
    host_calls: int = Field(default=10_000, ge=1)
    """Calls of host functions in one call."""
    host_bytes: int = Field(default=64 * MB, ge=1)
    """Bytes to and from host functions in one call."""
    host_seconds: float = Field(default=60.0, gt=0, le=600)
    """Wall time in host functions in one call."""
    output_bytes: int = Field(default=4 * MB, ge=1)
    """The answer of one call."""


class GuestLimitSettings(CallLimits):
    """``[plugin.wasm.limits]``: what a plugin may ask for at most in its ``[limits]``.

    What a plugin does not ask for is hookgate's own default, or this where this is less.
    """

    compile_seconds: float = Field(default=120.0, gt=0, le=600)
    """Time of compiling a module, which happens once."""
    compile_memory_bytes: int = Field(default=2048 * MB, ge=64 * MB)
    """Memory of the process that compiles."""
    module_bytes: int = Field(default=32 * MB, ge=1)
    """The module itself."""


class WasmSettings(Section):
    """``[plugin.wasm]``: where plugins are found, and what they may use."""

    folders: tuple[Path, ...] = ()
    """Plugin folders, or folders that hold some, beside those that were installed."""
    accept_new: bool = True
    """Whether a plugin that is found in `folders` for the first time counts at once, since the
    operator has named the folder. What changes later waits to be accepted, whatever this says."""
    threads: int = Field(default=8, ge=1, le=256)
    """Calls of guests that run at the same time; the others wait. One guest has half of them at
    most, and less where others run: a guest never holds more than it leaves free."""
    memory_bytes: int = Field(default=1024 * MB, ge=MB)
    """What the memories and tables of all calls that have begun may take together, each counted
    by its limits. A call that does not fit waits, for as long as it may run."""
    limits: GuestLimitSettings = GuestLimitSettings.by_default()
    """What a plugin may ask for at most."""
    http_seconds: float = Field(default=20.0, gt=0, le=600)
    """The limit of one request of a guest with its redirects; less where its call ends earlier."""
    http_bytes: int = Field(default=4 * MB, ge=1024)
    """The longest response that a guest may get, after decompression."""
