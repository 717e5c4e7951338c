"""What a call comes to, as it is put together while its arguments are read."""

from __future__ import annotations

from collections.abc import Mapping

from hookgate import ClientCallFlags, Flags

MAX_REASONS = 6
MAX_TEXT = 300


class CallFindings:
    """What a call does: what was found so far. It only ever becomes stricter."""

    def __init__(self) -> None:
        self.raised: list[str] = []
        """Why it acts with raised rights, or why it cannot be told what it does."""
        self.sent: list[str] = []
        self.later: list[str] = []
        self.done: list[str] = []
        self.writes = False
        self.families: list[Mapping[str, str]] = []

    @property
    def harmless(self) -> bool:
        """Whether nobody needs to be asked, as far as was found."""
        return not (self.raised or self.sent or self.later)

    def ask(self, why: str) -> None:
        """Note that it must be asked about."""
        _note(self.raised, why)

    def send(self, why: str, family: Mapping[str, str] | None = None) -> None:
        """Note that it reaches out of the machine."""
        _note(self.sent, why)
        self.families.append(family or {})

    def act_later(self, why: str) -> None:
        """Note that it makes something that acts by itself."""
        _note(self.later, why)
        self.families.append({})

    def write(self, what: str, family: Mapping[str, str] | None = None) -> None:
        """Note that it changes something in the workspace."""
        self.writes = True
        _note(self.done, what)
        self.families.append(family or {})

    def read(self, what: str) -> None:
        """Note that it shows something."""
        _note(self.done, what)

    def flags(self) -> ClientCallFlags:
        """Return what was found, as policy takes it."""
        first = self.families[0] if self.families else {}
        alike = not self.raised and all(one == first for one in self.families)
        reasons = [*self.raised, *self.sent, *self.later] or self.done
        return ClientCallFlags(
            flags=Flags(
                # What it shows was written by somebody, whoever that was.
                reads_external_data=True,
                writes_persistent_state=self.writes or bool(self.raised or self.later),
                sends_externally=bool(self.sent) or (None if self.raised else False),
                executes_privileged=bool(self.raised),
                creates_autonomous_actions=bool(self.later) or (None if self.raised else False),
            ),
            why="; ".join(reasons)[:400],
            confined=not (self.raised or self.later),
            family=first if alike and _fits(first) else {},
        )


def _note(reasons: list[str], why: str) -> None:
    if len(reasons) < MAX_REASONS and why not in reasons:
        reasons.append("".join(char if char.isprintable() else "?" for char in why)[:MAX_TEXT])


def _fits(family: Mapping[str, str]) -> bool:
    texts = [text for pair in family.items() for text in pair]
    return len(family) <= 8 and all(len(text) <= MAX_TEXT and text.isprintable() for text in texts)
