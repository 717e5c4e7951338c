"""A hookgate plugin: one rule in Python, for what a rule file cannot look up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hookgate import Section, Verdict, blocking, hookimpl

if TYPE_CHECKING:
    from hookgate import ToolCall


class WorkingCopy(Section):
    """``[plugin.working_copy]``."""

    folder: Path = Path()
    """The folder in which files may be written."""


class Plugin:
    """Judges calls with a path."""

    Settings = WorkingCopy

    def __init__(self, settings: WorkingCopy) -> None:
        self.folder = settings.folder.expanduser()

    @hookimpl
    @blocking
    def before_tool_call(self, call: ToolCall) -> Verdict | None:
        """Deny writing outside the folder, wherever links lead, and abstain otherwise."""
        # `is False`: a tool that does not say whether it writes may well do so.
        if call.flags.writes_persistent_state is False or "path" not in call.arguments:
            return None
        path = (self.folder / str(call.arguments["path"])).resolve()
        if path.is_relative_to(self.folder.resolve()):
            return None
        return Verdict.deny(f"files are written below {self.folder}", rule="working-copy")
