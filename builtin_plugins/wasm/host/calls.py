"""One call of a guest, as the host functions that serve it share it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hookgate import Taint

if TYPE_CHECKING:
    from hookgate.builtin_plugins.wasm.packages.grants import Granted
    from hookgate.builtin_plugins.wasm.wire import ErrorCode

NOBODY = ""
"""Whose a channel's own data are: of no one peer."""


class HostRefusal(Exception):
    """A host function does not do what it was asked; the guest is told and goes on.

    Attributes:
        code: Why, for programs.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code: ErrorCode = code


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
    refused: Counter[tuple[str, ErrorCode]] = field(default_factory=Counter)
