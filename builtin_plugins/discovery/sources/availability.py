"""Whether a capability can be used now, and why not."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from hookgate import Capability, ConfigError, Secrets

ORDINARY = frozenset(
    {
        *("editor", "home", "hostname", "lang", "language", "logname", "mail", "oldpwd", "path"),
        *("pwd", "pythonpath", "shell", "term", "tmpdir", "tz", "user", "username"),
    }
)
"""Variables of every environment. Asked for as a secret, one's value would be masked from then on
wherever it is shown, and a file from anywhere may ask."""


@dataclass
class Availability:
    """Judges capabilities by what there is at one moment.

    Attributes:
        secrets: Where secrets are looked up; each once.
        tools: The names of the tools that are registered.
        channels: The names of the channels.
        disabled: The ids that the settings switch off.
        described: What manifests say of tools, by id: their requirements count, too.
    """

    secrets: Secrets
    tools: Collection[str]
    channels: Collection[str]
    disabled: Collection[str] = ()
    described: Mapping[str, Capability] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)

    def reasons(self, row: Capability) -> tuple[str, ...]:
        """Return why `row` is not available; nothing where it is. It may read key files."""
        reasons = self._own(row)
        for tool in row.required_tools:
            if why := self._tool(tool, {row.id}):
                reasons.append(why)
        return tuple(dict.fromkeys(reasons))

    def _own(self, row: Capability) -> list[str]:
        reasons = []
        if not row.available:
            reasons.append("it is declared as not available")
        if row.id in self.disabled:
            reasons.append("the settings disable it")
        if row.kind == "tool" and row.name not in self.tools:
            reasons.append(f"no tool called {row.name} is registered: a manifest runs nothing")
        if row.kind == "channel" and row.name not in self.channels:
            reasons.append(f"no channel called {row.name} is registered")
        reasons += [why for name in row.required_secrets if (why := self._secret(name))]
        return reasons

    def _tool(self, name: str, asked: set[str]) -> str:
        """Return why a required tool cannot be used, or ""; tools may require each other."""
        row_id = f"tool:{name}"
        if name not in self.tools:
            return f"the tool {name} is not registered"
        if row_id in self.disabled:
            return f"the settings disable the tool {name}"
        row = self.described.get(row_id)
        if row is None or row_id in asked:
            return ""
        asked.add(row_id)
        inner = [*self._own(row), *(self._tool(one, asked) for one in row.required_tools)]
        return next((f"the tool {name} cannot be used: {why}" for why in inner if why), "")

    def _secret(self, name: str) -> str:
        if re.sub(r"[.-]", "_", name).lower() in ORDINARY:
            return f"{name} is no secret but an ordinary variable"
        if name not in self._known:
            try:
                there = self.secrets.get(name) is not None
                self._known[name] = "" if there else f"the secret {name} is not set"
            except ConfigError as error:
                self._known[name] = f"the secret {name} cannot be read: {error}"
        return self._known[name]
