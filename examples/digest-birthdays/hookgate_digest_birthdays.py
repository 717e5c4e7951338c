"""A hookgate plugin that implements a hook of another plugin: birthdays for its digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from hookgate import Section, hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date


class Birthdays(Section):
    """``[plugin.digest_birthdays]``."""

    people: dict[str, str] = Field(default_factory=dict)
    """Names, and their birthdays as month and day: ``Ada = "12-10"``."""


class Plugin:
    """Knows who has a birthday. It needs nothing of the plugin that asks."""

    name = "digest_birthdays"
    Settings = Birthdays

    def __init__(self, settings: Birthdays) -> None:
        self.people = settings.people

    @hookimpl(of="digest")
    def digest_lines(self, day: date) -> Sequence[str] | None:
        """Name those whose birthday it is."""
        today = f"{day:%m-%d}"
        return [f"{name} has a birthday" for name, born in self.people.items() if born == today]
