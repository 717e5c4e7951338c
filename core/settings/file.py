"""From a TOML file, the environment and the command line to typed settings.

Later wins: the defaults, the file, ``HOOKGATE_SECTION__KEY`` variables, the command line.
Everything that is wrong is found at once, and each problem names the place where the
value came from::

    try:
        source = read_source(environ=os.environ)
        settings = source.settings()
    except ConfigError as error:
        for problem in error.problems:
            print(problem)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from hookgate.core.domain.errors import ConfigError, ContentError, Problem
from hookgate.core.settings.documents import parse_toml
from hookgate.core.settings.layers import (
    COMMAND_LINE,
    ENVIRONMENT,
    Layers,
    SettingPlace,
    joined,
    normal,
)
from hookgate.core.settings.paths import PathBases, expanded, holds_text, users_home, whole_paths
from hookgate.core.settings.toml_lines import KeyPath
from hookgate.core.settings.words import NOTHING, dotted, problems_of, shown

if TYPE_CHECKING:
    from hookgate.core.settings.schema import Settings

MAX_FILE = 4 * 1024 * 1024
"""The longest settings file, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What was set, where, and nothing of what it means yet.

    Attributes:
        path: The settings file; None where there is none.
        data: The values of all sources, as TOML has them.
        places: Where each came from, by dotted key.
        problems: What is wrong with the environment or the command line.
        unread: Variables that look like ours and that no key is read from.
        home: The user's home folder.
    """

    path: Path | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, SettingPlace] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    unread: tuple[str, ...] = ()
    home: Path = field(default_factory=users_home)

    @property
    def file(self) -> str:
        """The settings file's name for people."""
        return "the settings" if self.path is None else str(self.path)

    def place(self, key: str) -> SettingPlace:
        """Return where `key` came from, or the nearest table around it."""
        parts = normal(key).split(".")
        for length in range(len(parts), 0, -1):
            found = self.places.get(".".join(parts[:length]))
            # What set something else in a table has not set what is missing there.
            if found is not None and (length == len(parts) or not found.around):
                return found
        return SettingPlace(file=self.file)

    def settings(self) -> Settings:
        """Validate everything.

        Raises:
            ConfigError: All that is wrong, in the order of the file.
        """
        from pydantic import ValidationError
        from pydantic_core import to_json

        from hookgate.core.settings.schema import Settings

        bases = self._bases()
        data = _with_paths(self.data, self.folder, bases)
        problems = _unknown_agents(data)
        try:
            # From JSON, pydantic takes no text for a number and no number for true or false,
            # and still makes tuples of arrays and paths of texts.
            raw = to_json(data, inf_nan_mode="constants")
            settings = Settings.model_validate_json(raw, strict=True)
        except ValidationError as error:
            known = {problem.key for problem in problems}
            found = problems_of(error, Settings, data)
            problems += [problem for problem in found if problem.key not in known]
        problems += self.problems
        if problems:
            raise ConfigError(complete_problems(problems, self))
        return settings.placed(bases, self.places)

    @property
    def folder(self) -> Path:
        """The home folder of the gateway, whatever is wrong with the other settings."""
        # Without a file, all paths but its own begin there.
        home = self._bases().whole(str(self.data.get("home", "")), ("home",), self.home)
        return Path(home)

    def _bases(self) -> PathBases:
        typed = [key for key, place in self.places.items() if place.file == COMMAND_LINE]
        return PathBases(
            folder=None if self.path is None else self.path.parent.absolute(),
            typed=frozenset(typed),
            user_home=self.home,
        )


def load_settings(
    path: Path | None = None,
    *,
    environ: Mapping[str, str],
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Read and validate the settings.

    Args:
        path: The settings file; without one, see `read_source`.
        environ: The environment.
        overrides: Values of the command line, by dotted key such as ``gateway.port``.

    Raises:
        ConfigError: All that is wrong, each with file, line and key.
    """
    return read_source(path, environ=environ, overrides=overrides).settings()


def read_source(
    path: Path | None = None,
    *,
    environ: Mapping[str, str],
    overrides: Mapping[str, Any] | None = None,
) -> Source:
    """Gather what is set, and where.

    Without `path`, the file is the one that ``HOOKGATE_CONFIG`` names, or ``config.toml``
    in ``HOOKGATE_HOME`` or in ``~/.hookgate``; the last two may be missing.

    Raises:
        ConfigError: The file cannot be read, or is no TOML.
    """
    home = Path(environ["HOME"]) if environ.get("HOME") else users_home()
    named = path or (Path(environ["HOOKGATE_CONFIG"]) if environ.get("HOOKGATE_CONFIG") else None)
    folder = Path(environ.get("HOOKGATE_HOME") or home / ".hookgate")
    file = expanded(str(named or folder / "config.toml"), home)
    text = _read(file, needed=named is not None)
    data, places = ({}, {}) if text is None else _parse(file, text)
    layers = Layers(data, places)
    layers.environment(environ)
    layers.command_line(overrides or {})
    if environ.get("HOOKGATE_HOME") and places["home"].file == ENVIRONMENT:
        # It says where the file is looked for, so it cannot begin there.
        data["home"] = str(expanded(str(folder), home).absolute())
    data.setdefault("home", str(home / ".hookgate"))
    return Source(
        path=None if text is None else file,
        data=data,
        places=places,
        problems=tuple(layers.problems),
        unread=tuple(layers.unread),
        home=home,
    )


def complete_problems(problems: Iterable[Problem], source: Source) -> tuple[Problem, ...]:
    """Return `problems` with the file and line of those that have none, in their order.

    Plugins judge their own sections and know neither.
    """
    completed = []
    for problem in problems:
        if not problem.file:
            place = source.place(problem.key)
            found = f"{problem.found} in {place.variable}" if place.variable else problem.found
            problem = replace(problem, file=place.file, line=place.line, found=found)
            if problem.found == NOTHING and source.path is None:
                file = source.folder / "config.toml"
                problem = replace(problem, expected=f"{problem.expected}; the file is {file}")
        completed.append(problem)
    return tuple(
        sorted(completed, key=lambda one: (one.file != source.file, one.file, one.line or 0))
    )


# -- the file --------------------------------------------------------------


def _read(file: Path, *, needed: bool) -> str | None:
    try:
        raw = file.read_bytes() if file.stat().st_size <= MAX_FILE else None
    except FileNotFoundError:
        if not needed:
            return None
        _refuse(file, "no such file", "a TOML file (`hookgate config show` prints one)")
    except OSError as error:
        _refuse(file, (error.strerror or "an error").lower(), "a file that can be read")
    if raw is None:
        _refuse(file, f"more than {MAX_FILE} bytes", "a settings file")
    try:
        # Some editors write a byte order mark, which TOML does not know.
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        _refuse(file, "bytes that are not UTF-8", "UTF-8 text", line=line)


def _refuse(file: Path, found: str, expected: str, *, line: int | None = None) -> NoReturn:
    raise ConfigError([Problem(file=str(file), line=line, found=found, expected=expected)])


def _parse(file: Path, text: str) -> tuple[dict[str, Any], dict[str, SettingPlace]]:
    try:
        document = parse_toml(text, str(file))
    except ContentError as error:
        raise ConfigError([error.problem]) from None
    lines = {joined(path): at.line for path, at in document.places.items()}
    return document.value, {
        key: SettingPlace(file=str(file), line=line) for key, line in lines.items()
    }


# -- values ----------------------------------------------------------------


def _with_paths(data: Mapping[str, Any], home: Path, bases: PathBases) -> dict[str, Any]:
    """Return `data` with the paths of the core's own sections made whole.

    A path that stands in the file is meant from the file's folder, whatever folder the
    gateway was started in. Those of plugins wait until the plugins' models are known.
    """

    def whole(text: str, path: KeyPath, _: bool) -> str:
        return bases.whole(text, path, home)

    made = dict(data)
    if isinstance(data.get("home"), str) and "://" not in data["home"]:
        made["home"] = str(home)
    # No key of these sections is a path, so that those without a text are passed over.
    if texts := {key: value for key, value in data.items() if key != "home" and holds_text(value)}:
        from hookgate.core.settings.schema import Settings

        made.update(whole_paths(Settings, texts, whole))
    return made


def _unknown_agents(data: Mapping[str, Any]) -> list[Problem]:
    """Return every binding whose agent does not exist; pydantic stops at the first."""
    agents = data.get("agents")
    if not isinstance(agents, dict) or not agents:
        return []
    bindings = data.get("bindings")
    named: dict[KeyPath, Any] = {("default_agent",): data.get("default_agent")}
    for number, binding in enumerate(bindings if isinstance(bindings, list) else ()):
        if isinstance(binding, dict):
            named["bindings", number, "agent"] = binding.get("agent")
    problems = []
    for path, agent in named.items():
        if not isinstance(agent, str) or agent in agents:
            continue
        near = get_close_matches(agent, agents, n=1)
        problems.append(
            Problem(
                key=dotted(path),
                found=shown(path, agent),
                expected=f"an agent of [agents.NAME]: {', '.join(sorted(agents))}",
                nearest=near[0] if near else None,
            )
        )
    return problems
