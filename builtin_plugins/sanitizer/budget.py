"""How much looking a text is worth: a bound that is counted, and not timed.

A verdict must not depend on how busy the machine is. So each part of the detector says what it is
about to do in steps, of about ten nanoseconds each, and stops where the bound is passed.
"""

from __future__ import annotations

STEPS = 42
"""So many steps are allowed for each byte of a text: half a microsecond to a whole one."""

LEAST = 50_000
"""A text of fewer bytes may take as many steps as one of so many."""

MOST = 1_000_000
"""A text of more bytes may take no more steps than one of so many."""


class TooCostlyError(Exception):
    """The text would take more steps than it is allowed; the message is for people."""


class Budget:
    """The steps that one text may still take, with all that is unpacked from it.

    Attributes:
        limit: The steps it may take.
        spent: The steps it has taken.
    """

    def __init__(self, text: str) -> None:
        size = len(text.encode("utf-8", "surrogatepass"))
        self.limit = STEPS * min(max(size, LEAST), MOST)
        self.spent = 0

    def spend(self, steps: int) -> None:
        """Count steps that are about to be taken.

        Raises:
            TooCostlyError: They are more than are left.
        """
        self.spent += steps
        if self.spent > self.limit:
            raise TooCostlyError(
                f"is too costly to look through: found {self.spent:,} steps, expected at most "
                f"{self.limit:,} for its length; write it more simply, or allow it by its SHA-256"
            )
