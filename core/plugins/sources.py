"""Where plugins come from: builtin packages, entry points, and the embedding program.

Package-private. Nothing is imported here until `Candidate.fetch` is called.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from hookgate.core.domain.errors import ConfigError, PluginError, Problem
from hookgate.core.settings.schema import Section
from hookgate.core.settings.sections import problem
from hookgate.hookspecs import PROJECT

if TYPE_CHECKING:
    from packaging.requirements import Requirement


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A plugin that could run.

    Attributes:
        name: Its own name.
        origin: ``builtin``, ``program``, or the distribution and version that brought it.
        fetch: Imports it, and returns its class, or an instance or module that is ready.
        refused: Why it may not even be imported; "" where it may.
        version: The version of what brought it; "" where that has none.
    """

    name: str
    origin: str
    fetch: Callable[[], object]
    refused: str = ""
    version: str = ""

    @property
    def third_party(self) -> bool:
        """Whether a separately installed distribution brings it."""
        return self.origin not in ("builtin", "program")

    def make(self, settings: Section | None) -> object:
        """Make the plugin, with its settings where it has any.

        Raises:
            ConfigError: It found its settings wrong.
            PluginError: Its constructor raised something else.
        """
        found = self.fetch()
        if not inspect.isclass(found):
            return found
        build: Callable[..., object] = found
        try:
            made = build() if settings is None else build(settings)
        except ConfigError:
            raise
        except (Exception, SystemExit) as error:
            raise PluginError(
                self.name, f"its constructor raised {type(error).__name__}: {error}"
            ) from error
        return made


CONTENT = "capabilities"
"""The folder of a plugin's package that holds what models read: skills, manifests, cards."""


def content_of(plugin: object) -> Path | None:
    """Return the folder of content beside a plugin's module; None where there is none.

    The module must stand in a package: what lies beside a single module is not its own.
    """
    name = plugin.__name__ if inspect.ismodule(plugin) else type(plugin).__module__
    module = sys.modules.get(name)
    file, package = getattr(module, "__file__", None), getattr(module, "__package__", "")
    # Of hookgate's own package, all that is shipped is content already.
    if not file or not package or package == "hookgate":
        return None
    folder = Path(file).parent / CONTENT
    return folder if folder.is_dir() else None


def builtin_candidates(names: Sequence[str], package: str) -> list[Candidate]:
    """Return the builtin plugins: ``package.NAME.plugin`` defines ``Plugin``."""
    from hookgate import __version__

    candidates = []
    for name in names:
        load = partial(import_module, f"{package}.{name}.plugin")
        fetch = partial(_loaded, name, load)
        candidates.append(Candidate(name=name, origin="builtin", fetch=fetch, version=__version__))
    return candidates


def extra_candidates(plugins: Sequence[object]) -> list[Candidate]:
    """Return the plugins that the embedding program brings: classes, instances, modules."""
    names = map(_name_of, plugins)
    return [
        Candidate(name=name, origin="program", fetch=partial(_resolved, name, plugin))
        for name, plugin in zip(names, plugins, strict=True)
    ]


def installed(allow: Sequence[str] | None) -> tuple[list[Candidate], list[Problem]]:
    """Return the plugins of installed distributions, by entry point, in order of name.

    Args:
        allow: Requirements that the distribution must meet, one of them; None: any may.

    Returns:
        The plugins, and what is wrong with `allow`.
    """
    requirements, problems = _requirements(allow)

    candidates = []
    for point in sorted(entry_points(group=PROJECT), key=lambda one: one.name):
        name, version = (point.dist.name, point.dist.version) if point.dist else ("", "")
        ok = requirements is None or allowed_by(requirements, name, version)
        candidates.append(
            Candidate(
                name=point.name,
                origin=f"{name} {version}".strip() or "an unknown distribution",
                fetch=partial(_loaded, point.name, point.load),
                version=version,
                refused="" if ok else "its distribution is not in `plugins.allow`",
            )
        )
    return candidates, problems


def is_allowed(allow: Sequence[str] | None, name: str, version: str) -> bool:
    """Return whether a distribution may bring anything; a wrong `allow` allows nothing.

    Args:
        allow: ``plugins.allow``; None allows every distribution.
        name: The distribution's name.
        version: Its version.
    """
    requirements, problems = _requirements(allow)
    return requirements is None or (not problems and allowed_by(requirements, name, version))


def allowed_by(requirements: Iterable[Requirement], name: str, version: str) -> bool:
    """Return whether a distribution meets one of the requirements."""
    from packaging.utils import canonicalize_name

    return any(
        canonicalize_name(one.name) == canonicalize_name(name)
        and one.specifier.contains(version, prereleases=True)
        for one in requirements
    )


def _requirements(
    allow: Sequence[str] | None,
) -> tuple[list[Requirement] | None, list[Problem]]:
    if allow is None:
        return None, []
    from packaging.requirements import InvalidRequirement, Requirement

    requirements: list[Requirement] = []
    problems: list[Problem] = []
    for number, text in enumerate(allow):
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            requirement = None
        if requirement is None or requirement.url or requirement.marker or requirement.extras:
            expected = "a distribution, with a version or without, such as 'acme-policy==1.2'"
            problems.append(problem(f"plugins.allow[{number}]", repr(text), expected))
        else:
            requirements.append(requirement)
    return requirements, problems


def _loaded(name: str, load: Callable[[], object]) -> object:
    try:
        found = load()
    except (Exception, SystemExit) as error:
        told = f"cannot be imported: {type(error).__name__}: {error}"
        module = getattr(error, "obj", None)
        if isinstance(error, AttributeError) and inspect.ismodule(module):
            told += classes_with_hooks(module)
        raise PluginError(name, told) from error
    return _resolved(name, found)


def classes_with_hooks(module: ModuleType) -> str:
    """Say which classes of a module a plugin may be meant by; "" where none has hooks."""
    found = [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and value.__module__ == module.__name__
        and any(hasattr(one, f"{PROJECT}_impl") for one in vars(value).values())
    ]
    if not found:
        return ""
    return (
        f"; it has the class `{found[0]}` with hooks: name that one in the entry point, "
        f'`NAME = "{module.__name__}:{found[0]}"`, or call the class `Plugin`'
    )


def _resolved(name: str, found: object) -> object:
    """Return a class to be made, or an instance or stateless module to be used as it is."""
    if inspect.ismodule(found):
        found = getattr(found, "Plugin", found)
    model = getattr(found, "Settings", None)
    if inspect.isclass(found) and model is not None:
        if not (inspect.isclass(model) and issubclass(model, Section)):
            raise PluginError(
                name, f"`Settings` is {model!r}: expected a subclass of core.settings.Section"
            )
    elif inspect.isfunction(found):
        raise PluginError(name, f"{found!r} is a function: expected a class or a module")
    return found


def _name_of(plugin: object) -> str:
    """Return the name of a program's plugin: its ``name``, or that of its class or module."""
    own = getattr(plugin, "name", None)
    if isinstance(own, str) and own:
        return own
    if inspect.ismodule(plugin):
        return _last(plugin.__name__)
    cls = plugin if inspect.isclass(plugin) else type(plugin)
    if cls.__name__ == "Plugin":
        return _last(cls.__module__)
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
    return snake.removesuffix("_plugin")


def _last(module: str) -> str:
    parts = module.split(".")
    return parts[-2] if parts[-1] == "plugin" and len(parts) > 1 else parts[-1]
