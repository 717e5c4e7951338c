"""A hookgate plugin: calls of the tools on a list are denied, each with its reason."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pydantic import Field

from hookgate import Section, Verdict, hookimpl

if TYPE_CHECKING:
    from hookgate import ToolCall


class Blocklist(Section):
    """``[plugin.blocklist]``."""

    tools: dict[str, str] = Field(default_factory=dict)
    """Globs of tool names, each with the reason that the model is given."""


class Plugin:
    """Denies what is on the list, and abstains from everything else."""

    Settings = Blocklist

    def __init__(self, settings: Blocklist) -> None:
        self.settings = settings

    @hookimpl
    def before_tool_call(self, call: ToolCall) -> Verdict | None:
        """Deny a call by the first glob that its tool's name fits."""
        for glob, reason in self.settings.tools.items():
            if fnmatchcase(call.name, glob):
                return Verdict.deny(reason, rule=glob)
        return None
