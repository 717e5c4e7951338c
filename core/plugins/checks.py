"""What is refused of a plugin before it is registered, and of a hook that it publishes.

Each time it is said what to write instead.

Package-private: `core.plugins.manager` is the face of this. pluggy would accept some of these and
then never call them, or call them without what they need; the others it refuses without
saying what would be right.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

import pluggy

from hookgate.core.domain.errors import PluginError, StartError
from hookgate.core.hooks.dispatch import Chain
from hookgate.core.hooks.tasks import told
from hookgate.core.plugins.sources import classes_with_hooks
from hookgate.core.settings.sections import nearest
from hookgate.hookspecs import Contract

_INSTEAD_OF_ASYNCGEN = {
    "lifespan": "decorate it with @contextlib.asynccontextmanager, below @hookimpl",
    "filter_stream": (
        "write a plain `def filter_stream` that returns an inner async generator: "
        "`async def filtered(): ...` and then `return filtered()`"
    ),
}


class Manager(pluggy.PluginManager):
    """pluggy's manager, which looks through the names of a plugin once.

    A plugin is checked twice, and then registered.
    """

    def __init__(self, project_name: str) -> None:
        super().__init__(project_name)
        # With the plugin itself: while it is here, no other one has its id.
        self._marks: dict[int, tuple[object, dict[str, pluggy.HookimplOpts]]] = {}

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> pluggy.HookimplOpts | None:
        """Return how a function is marked; None for whatever is no marked function."""
        return self._marked(plugin).get(name)

    def implemented_hooks(self, plugin: object) -> dict[str, str]:
        """Return the methods that are marked as implementations: method -> the hook's name."""
        marked = self._marked(plugin)
        return {name: options.get("specname") or name for name, options in marked.items()}

    def _marked(self, plugin: object) -> dict[str, pluggy.HookimplOpts]:
        known = self._marks.get(id(plugin))
        if known is None:
            own = getattr(plugin, "__dict__", ())
            marks = {}
            for name in dir(plugin):
                # More than half of a plugin's names are those of every object.
                inherited = getattr(type(plugin), name, plugin) is getattr(object, name, None)
                if name in own or not inherited:
                    options = super().parse_hookimpl_opts(plugin, name)
                    if options is not None:
                        marks[name] = options
            known = self._marks[id(plugin)] = plugin, marks
        return known[1]


def problems_with(
    manager: Manager,
    plugin: object,
    specs: Mapping[str, tuple[str, ...]],
    published: Published,
) -> list[str]:
    """Return what is wrong with the implementations of `plugin`, one line each.

    Args:
        manager: Knows how an implementation is marked.
        plugin: An instance, or a module.
        specs: The argument names of every hook.
        published: Whose hooks are there, and whose are not.
    """
    marked = manager.implemented_hooks(plugin)
    named = specs.keys() & dir(plugin)
    unmarked = sorted(name for name in named - marked.keys() if _is_unmarked_hook(plugin, name))
    if not marked and not unmarked and not getattr(plugin, "publishes", ()):
        meant = classes_with_hooks(plugin) if inspect.ismodule(plugin) else ""
        return [
            "it implements no hook, so it would never be called"
            + (
                meant
                or ": put @hookimpl of hookgate.hookspecs above a method that has a hook's name"
            )
        ]
    problems = [
        f"it has a function `{name}` which is named as a hook and lacks the marker: "
        "put @hookimpl above it, or give it another name"
        for name in unmarked
    ]
    idle = idle_hooks(manager, plugin, published)
    for name, hook in marked.items():
        if hook in idle:
            continue
        options: Mapping[str, Any] = manager.parse_hookimpl_opts(plugin, name) or {}
        function = getattr(plugin, name)
        static = inspect.getattr_static(plugin, name)
        if inspect.isfunction(static) and not inspect.ismodule(plugin):
            first = next(iter(inspect.signature(static).parameters), None)
            if first is None or first in specs.get(hook, ()):
                problems.append(_without_self(name, hook, static, specs))
                continue
        wrong = [*_wrong(hook, function, options, specs)]
        of, publisher = owner_of(function), published.publisher(hook)
        if of and hook in specs and of != publisher:
            whose = f"of {publisher}" if publisher else "one of the core's own"
            wrong.append(f"says that the hook is of {of}, and it is {whose}")
        if wrong:
            where = f"hook {hook}: `{_signature(name, function)}`"
            problems += [f"{where} {what}" for what in wrong]
    return problems


def owner_of(function: object) -> str:
    """Return whose hook an implementation says that it implements; "" where it says nothing."""
    of: str = getattr(function, "__hookgate_of__", "")
    return of


def idle_hooks(manager: Manager, plugin: object, published: Published) -> dict[str, str]:
    """Return the hooks that `plugin` implements and whose publisher is not there: hook -> why."""
    idle = {}
    for name, hook in manager.implemented_hooks(plugin).items():
        caller = getattr(manager.hook, hook, None)
        if caller is None or not caller.has_spec():
            idle[hook] = published.why_idle(hook, owner_of(getattr(plugin, name)))
    return {hook: why for hook, why in idle.items() if why}


def _is_unmarked_hook(plugin: object, name: str) -> bool:
    value = inspect.getattr_static(plugin, name, None)
    value = getattr(value, "__func__", value)
    if not inspect.isfunction(value) or hasattr(value, "__contract__"):
        return False
    return not inspect.ismodule(plugin) or value.__module__ == plugin.__name__


def _without_self(
    name: str, hook: str, static: Callable[..., Any], specs: Mapping[str, tuple[str, ...]]
) -> str:
    arguments = ", ".join(("self", *inspect.signature(static).parameters))
    prefix = "async def" if _is_async(static) else "def"
    return (
        f"hook {hook}: `{_signature(name, static)}` has no `self`, which takes the place of its "
        f"first argument: write `{prefix} {name}({arguments})`; the hook takes "
        f"({', '.join(specs.get(hook, ()))})"
    )


def _signature(name: str, function: Callable[..., Any]) -> str:
    written = inspect.signature(getattr(function, "__func__", function))
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in written.parameters.values()]
    prefix = "async def" if _is_async(function) else "def"
    shown = written.replace(parameters=bare, return_annotation=inspect.Signature.empty)
    return f"{prefix} {name}{shown}"


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _wrong(
    hook: str,
    function: Callable[..., Any],
    options: Mapping[str, Any],
    specs: Mapping[str, tuple[str, ...]],
) -> Iterator[str]:
    if hook not in specs:
        hint = _hint(hook, specs)
        more = "" if hint else '; is it one of a plugin that may be absent: @hookimpl(of="NAME")'
        yield f"implements a hook that does not exist{hint}{more}"
        return
    if options.get("wrapper") or options.get("hookwrapper"):
        yield (
            "is a wrapper, which cannot be awaited: implement the hook itself with plain "
            "@hookimpl (@hookimpl(tryfirst=True) comes before the others, trylast=True after)"
        )
        return
    if options.get("optionalhook"):
        yield "is marked optionalhook, which hides misspelt names: write plain @hookimpl"
    if inspect.isasyncgenfunction(function):
        instead = _INSTEAD_OF_ASYNCGEN.get(hook, "write `async def` with `return` in its place")
        yield f"is an async generator, which a hook cannot await: {instead}"
    elif inspect.isgeneratorfunction(function):
        yield "is a generator: return the values in a list instead of yielding them"
    if getattr(function, "__hookgate_blocking__", False) and _is_async(function):
        yield (
            "is both @blocking and async: write a plain `def` for work that blocks, "
            "or remove @blocking"
        )
    yield from _wrong_arguments(function, specs[hook])


def _wrong_arguments(function: Callable[..., Any], names: tuple[str, ...]) -> Iterator[str]:
    takes = f"the hook takes ({', '.join(names)})"
    for parameter in inspect.signature(function).parameters.values():
        name = parameter.name
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            yield f"takes {parameter}, which stays empty: name the arguments; {takes}"
        elif name not in names:
            hint = _hint(name, names)
            yield f"takes an argument `{name}` which the hook does not have{hint}; {takes}"
        elif parameter.default is not parameter.empty:
            yield (
                f"gives `{name}` a default, so that it would never get the hook's value: "
                f"write `{name}` without the default"
            )
        elif parameter.kind is parameter.KEYWORD_ONLY:
            yield (
                f"takes `{name}` by keyword only, and arguments are passed by position: "
                "remove the `*`"
            )


def _hint(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    return f"; did you mean `{near}`?" if near else ""


# -- the hooks that plugins publish for each other -------------------------------


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
    """Hooks by the plugins that publish them, and those of plugins that do not run.

    A plugin that publishes hooks names their specifications::

        @hookspec("each")
        def acme_report_ready(report: Report) -> str | None:
            \"\"\"...what it means, as for any hook...\"\"\"

        class Plugin:
            publishes = (acme_report_ready,)

    and calls them as the core calls its own:
    ``await host.hooks.each(acme_report_ready, report)``.

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
