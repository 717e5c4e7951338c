"""What goes wrong with a guest: it is refused when it is loaded, or it fails in a call."""

from __future__ import annotations

from typing import Literal

from hookgate import HookgateError

GuestErrorKind = Literal[
    "trap",
    "fuel",
    "time",
    "memory",
    "table",
    "stack",
    "host-calls",
    "output",
    "answer",
    "busy",
    "host",
]
"""Why a call failed: the guest trapped, met a limit, answered what cannot be read (``answer``),
found no free thread (``busy``), or a function of the host raised (``host``, with its cause)."""


class GuestRefusedError(HookgateError):
    """A guest cannot be loaded: the text names the import, the export or the limit.

    Attributes:
        guest: The name under which it was loaded.
        lasting: Whether it is refused again for as long as module, limits and engine are the
            same; False where that lies in what is around it.
    """

    def __init__(self, message: str, *, guest: str, lasting: bool = True) -> None:
        super().__init__(f"guest {guest!r}: {message}")
        self.guest = guest
        self.lasting = lasting


class GuestError(HookgateError):
    """A call of a guest failed. The text names the guest, the limit and its figure.

    Attributes:
        guest: The name under which the guest was loaded.
        kind: Why.
        reason: The text without the guest's name.
        figure: The limit that was met, in its own unit; None where none was.
    """

    def __init__(
        self, message: str, *, guest: str, kind: GuestErrorKind, figure: float | None = None
    ) -> None:
        super().__init__(f"guest {guest!r}: {message}")
        self.guest = guest
        self.reason = message
        self.kind: GuestErrorKind = kind
        self.figure = figure
