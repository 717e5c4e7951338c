"""The hooks that plugins publish for each other, and those of plugins that do not run.

Package-private: `core.plugins.manager` is the face of this. A plugin that publishes hooks names
their specifications::

    @hookspec("each")
    def acme_report_ready(report: Report) -> str | None:
        \"\"\"...what it means, as for any hook...\"\"\"

    class Plugin:
        publishes = (acme_report_ready,)

and calls them as the core calls its own: ``await host.hooks.each(acme_report_ready, report)``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pluggy

from hookgate.core.domain.errors import PluginError, StartError
from hookgate.core.hooks.dispatch import Chain
from hookgate.core.hooks.tasks import told
from hookgate.hookspecs import Contract


def prefix_of(plugin: str) -> str:
    """Return how the names of the hooks begin that the plugin of this name publishes."""
    return re.sub(r"\W", "_", plugin) + "_"


def _is_whole(contract: object) -> bool:
    """Whether a contract, which a plugin wrote, is one."""
    if not isinstance(contract, Contract):
        return False
    combine: object = contract.combine
    limit: object = contract.limit
    return (
        combine in ("each", "first", "fold")
        and isinstance(limit, int | float)
        and 0 < limit <= 3600
    )


class Published:
    """Hooks by the plugins that publish them.

    Attributes:
        by_plugin: The hooks that are there, by the publisher's own name.
        absent: Why a plugin that is known does not run, by its own name.
    """

    def __init__(self, manager: pluggy.PluginManager) -> None:
        self._manager = manager
        self.by_plugin: dict[str, tuple[str, ...]] = {}
        self.absent: dict[str, str] = {}

    def add(self, name: str, plugin: object) -> None:
        """Take the hooks that a plugin publishes.

        Raises:
            PluginError: One of them cannot be a hook; none of them is taken then.
        """
        try:
            specs = getattr(plugin, "publishes", ())
        except Exception as error:
            raise PluginError(name, f"`publishes` raised {told(error)}") from error
        if not isinstance(specs, tuple) or not all(inspect.isfunction(one) for one in specs):
            raise PluginError(
                name, f"`publishes` is {specs!r}: expected a tuple of functions under @hookspec"
            )
        problems = [
            f"publishes the hook `{spec.__name__}`, {wrong}"
            for spec in specs
            for wrong in self._wrong(prefix_of(name), spec)
        ]
        if len({spec.__name__ for spec in specs}) < len(specs):
            problems.append("publishes two hooks of one name: rename one")
        if problems:
            raise PluginError(name, "\n  ".join(problems))
        if specs:
            named = {spec.__name__: spec for spec in specs}
            holder = ModuleType(name)
            vars(holder).update(named)
            self._manager.add_hookspecs(holder)
            self.by_plugin[name] = tuple(named)

    def withdraw(self, name: str, why: str) -> None:
        """Take the hooks of a plugin away, since it does not run after all."""
        self.absent[name] = why
        for hook in self.by_plugin.pop(name, ()):
            delattr(self._manager.hook, hook)

    def publisher(self, hook: str) -> str:
        """Return who publishes a hook; "" for the core's own, and for none."""
        return next((name for name, hooks in self.by_plugin.items() if hook in hooks), "")

    def why_idle(self, hook: str, of: str) -> str:
        """Return why an implementation of a hook that is not there is not called, and may stay.

        Args:
            hook: The hook's name; none that is there.
            of: Whose it is, where the implementation says so.

        Returns:
            "" where nothing excuses it: the name is misspelt.
        """
        if of:
            if of in self.by_plugin or not hook.startswith(prefix_of(of)):
                return ""
            return f"{of} {self.absent.get(of, 'is not installed, or publishes no hooks')}"
        return next(
            (f"{one} {why}" for one, why in self.absent.items() if hook.startswith(prefix_of(one))),
            "",
        )

    def _wrong(self, prefix: str, spec: Callable[..., Any]) -> Iterator[str]:
        """Say why a function cannot be a hook, and what to write instead."""
        name = spec.__name__
        contract = getattr(spec, "__contract__", None)
        if contract is None:
            yield 'which is not marked: put @hookspec("each"), "first" or "fold" above it'
            return
        if not _is_whole(contract):
            yield f"whose contract is {contract}: expected each, first or fold, and a limit in s"
            return
        if not name.startswith(prefix):
            yield f"whose name does not say whose it is: call it `{prefix}{name}`"
        elif getattr(self._manager.hook, name, None) is not None:
            whose = self.publisher(name)
            yield f"which is there already, {f'of {whose}' if whose else 'of the core'}: rename it"
        if not (spec.__doc__ or "").strip():
            yield "which has no docstring: say when it is called, what it gets and may return"
        parameters = inspect.signature(spec).parameters.values()
        odd = [one.name for one in parameters if one.default is not one.empty]
        odd += [one.name for one in parameters if one.kind is not one.POSITIONAL_OR_KEYWORD]
        if odd or "self" in inspect.signature(spec).parameters:
            yield "whose arguments are not plain: no defaults, no `*`, no `self`"
            return
        try:
            Chain(name, spec, tuple(one.name for one in parameters), contract)
        except (StartError, TypeError, ValueError, IndexError) as error:
            yield f"whose types cannot be read: {error}"
