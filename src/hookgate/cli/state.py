"""What the global options say, and the way from there to a gateway."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from hookgate.core.domain.errors import ConfigError, HookgateError, Problem, StoreHeldError

if TYPE_CHECKING:
    from rich.console import Console

    from hookgate.cli.client.local import Client, LoopThread
    from hookgate.cli.client.remote import RemoteClient
    from hookgate.core.domain.events import HookSpan
    from hookgate.core.plugins.manager import Plugins
    from hookgate.core.settings.file import Source
    from hookgate.core.settings.schema import Section, Settings
    from hookgate.gateway import Gateway

S = TypeVar("S", bound="Section")
T = TypeVar("T")

TOKEN = "HOOKGATE_TOKEN"
"""The variable that names an access token."""

HELD_SECONDS = 5.0
"""Seconds to wait for the note of a gateway that holds the store: it may be starting."""

LOOK_SECONDS = 0.1
"""Seconds between two looks for that note."""

PLUGIN_SECTIONS = ("hooks", "plugin", "plugins")
"""Sections that are about plugins; they can be judged without the others."""

YOUNG_OBJECTS = 10_000
"""Objects that are made, and not given up, before the collector looks for garbage among them. What
a turn makes is given up without it once the turn ends, and eight turns at once hold more than the
700 that Python begins with: each look would walk them for nothing."""

PIPE_WIDTH = 120
"""Columns of what goes to a file or another program."""


@dataclass
class State:
    """One run of the command line.

    Attributes:
        config: The settings file of ``--config``.
        disabled: The plugins that ``-p no:NAME`` switches off.
        local: Whether to leave a running gateway alone.
        json: Whether results are printed as JSON.
        environ: The environment.
        overrides: Settings that stand above all others.
        passed_over: Why a note of a gateway was not followed, if there was one.
        told: What was said of what does not work; nobody has to read it twice.
    """

    config: Path | None = None
    disabled: tuple[str, ...] = ()
    local: bool = False
    json: bool = False
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    overrides: dict[str, Any] = field(default_factory=dict)
    _loop: LoopThread | None = None
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _client: Client | None = None
    _remote: RemoteClient | None = None
    passed_over: str = ""
    told: set[str] = field(default_factory=set)

    # -- the terminal ------------------------------------------------------

    @cached_property
    def out(self) -> Console:
        """Standard output."""
        return _console(stderr=False)

    @cached_property
    def err(self) -> Console:
        """Standard error."""
        return _console(stderr=True)

    def show(self, data: Any, shown: Any = None, *, failed: bool = False) -> None:
        """Print a result: as JSON where that is asked for, else what is `shown` of it.

        Args:
            data: The result, JSON-ready.
            shown: A text, something that `rich` prints, several of them, or a function that prints
                on a console; None for the result as it comes. A generator makes nothing before it
                is wanted.
            failed: Whether the command ends here, with exit code 1.
        """
        from hookgate.kit.rendering import print_json, print_result, print_shown

        if self.json:
            print_json(data)
        elif shown is None:
            print_result(self.out, data)
        else:
            print_shown(self.out, shown)
        if failed:
            raise typer.Exit(1)

    # -- settings ----------------------------------------------------------

    def override(self, settings: Mapping[str, Any]) -> None:
        """Set `settings` in the place of those that are set, before anything was asked."""
        if settings:
            self.overrides |= settings
            for read in ("source", "settings"):
                self.__dict__.pop(read, None)

    @cached_property
    def source(self) -> Source:
        """What is set, and where.

        Raises:
            ConfigError: The settings file cannot be read.
        """
        from hookgate.core.settings.file import read_source

        return read_source(self.config, environ=self.environ, overrides=self.overrides)

    @cached_property
    def installed(self) -> Any:
        """The entry points of all installed packages, looked for once; ``select`` chooses some."""
        # Python's versions have different types for this.
        from importlib.metadata import entry_points

        return entry_points()

    @property
    def settings_name(self) -> str:
        """The settings file, for people; that there is none, where there is none."""
        return str(self.source.path) if self.source.path else "no settings file, all defaults"

    def section(self, plugin: str, model: type[S]) -> S:
        """Return ``[plugin.NAME]``.

        Raises:
            ConfigError: It is wrong.
        """
        from hookgate.core.settings.sections import section_of

        with self.placed():
            return section_of(self.settings, plugin, model)

    @cached_property
    def settings(self) -> Settings:
        """The settings.

        Raises:
            ConfigError: They are wrong; all that is, in the sections of plugins too.
        """
        try:
            return self.source.settings()
        except ConfigError as error:
            known = {problem.key for problem in error.problems}
            more = [one for one in self._problems_of_plugins() if one.key not in known]
            raise ConfigError([*error.problems, *more]) from error

    def _problems_of_plugins(self) -> Sequence[Problem]:
        """Return what plugins find wrong, although the rest of the settings is wrong too."""
        data = {key: self.source.data[key] for key in PLUGIN_SECTIONS if key in self.source.data}
        try:
            self.make_gateway(replace(self.source, data=data, problems=()).settings())
        except ConfigError as error:
            return error.problems
        except HookgateError:
            return ()
        return ()

    # -- a gateway ---------------------------------------------------------

    @property
    def loop(self) -> LoopThread:
        """The event loop of this run of the command line, on a thread of its own."""
        if self._loop is None:
            from hookgate.cli.client.local import LoopThread

            self._loop = LoopThread()
        return self._loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the event loop and return its result."""
        return self.loop.run(work)

    def close(self) -> None:
        """Close the client, if one was opened, and the event loop."""
        if self._loop is not None:
            try:
                self._loop.run(self._stack.aclose())
            finally:
                self._loop.close()
                self._loop = self._client = self._remote = None

    @property
    def alone(self) -> bool:
        """Whether a running gateway is to be left alone."""
        return self.local or bool(self.disabled)

    async def client(self) -> Client:
        """Return the running gateway, or one in this process; it stays open until `close`.

        Raises:
            ConfigError: The settings are wrong.
            HookgateError: The running gateway does not let us in, or none can start here.
        """
        if self._client is None:
            self._client = await self.running() or await self._here()
            settle_memory()
        return self._client

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Return the result of one operation."""

        async def work() -> Any:
            return await (await self.client()).call(method, params)

        return self.run(work())

    @property
    def note_left(self) -> bool:
        """Whether the home folder holds the note of a gateway, which may run no more."""
        from hookgate.cli.client.note import NOTE

        return not self.alone and (self.source.folder / NOTE).exists()

    async def running(self) -> RemoteClient | None:
        """Return the running gateway of this home folder, or None where none is found.

        It has proved to be the one that left the note there. A note that cannot be believed,
        or leads to something else, is named where somebody looks, and passed over.

        Raises:
            ConfigError: The settings are wrong.
            AnsweredError: The gateway does not let us in.
        """
        if self.alone or self._remote is not None:
            return self._remote
        from hookgate.cli.client.note import NoteError, running_gateway

        try:
            found = running_gateway(self.settings.home)
        except NoteError as error:
            self._pass_over(str(error))
            return None
        if found is None:
            return None
        # What talks to it takes long to load, and most often nothing runs.
        from hookgate.cli.client.remote import UnreachableError, connect

        try:
            remote = await self._stack.enter_async_context(
                connect(found.url, found.key, self.token(), owner=not self.environ.get(TOKEN))
            )
        except UnreachableError as error:
            self._pass_over(f"{error} (process {found.pid})")
            return None
        self._remote = remote
        self._warn(remote.degraded)
        return remote

    def _pass_over(self, why: str) -> None:
        """Say once why a note is not followed."""
        if why != self.passed_over:
            self.passed_over = why
            said = f"the gateway that the note names is left alone: {why}"
            self.err.print(said, style="yellow", markup=False, soft_wrap=True)

    async def _here(self) -> Client:
        """Return a gateway in this process, or the one that holds the store, once it is found."""
        from hookgate.cli.client.local import LocalClient
        from hookgate.core.domain.errors import StoreHeldError

        try:
            gateway = await self._stack.enter_async_context(self.gateway())
        except StoreHeldError as error:
            if self.alone:
                raise
            remote = await self._late(error)
            if remote is not None:
                return remote
            gateway = await self._stack.enter_async_context(self.gateway())
        self._warn(gateway.host.degraded)
        return LocalClient(gateway)

    async def _late(self, held: StoreHeldError) -> RemoteClient | None:
        """Wait for the note of whoever holds the store; None once it has let go.

        Raises:
            StartError: It goes on, without a note that can be followed.
        """
        import asyncio

        from hookgate.cli.client.note import NOTE, lives
        from hookgate.core.domain.errors import StartError

        deadline = time.monotonic() + HELD_SECONDS
        while time.monotonic() < deadline:
            if (remote := await self.running()) is not None:
                return remote
            if not lives(held.pid):
                return None
            await asyncio.sleep(LOOK_SECONDS)
        why = (
            f"there is no note {self.settings.home / NOTE}. It writes one once it listens; where "
            "that fails, as on a full disk, its log and `/health` say so, and it tries again"
        )
        if self.passed_over:
            why = "its note is not followed, as said above"
        raise StartError(f"{held}. If it is a gateway, commands do not find it: {why}") from held

    def _warn(self, degraded: Mapping[str, str]) -> None:
        """Say what does not work as it should, where somebody looks."""
        self.told |= {*degraded.values()}
        for part, why in degraded.items():
            self.err.print(f"degraded: {part}: {why}", style="yellow", markup=False, soft_wrap=True)

    def token(self) -> str | None:
        """Return the token for the gateway: ``HOOKGATE_TOKEN``, or a key file of that name.

        One that the environment names is shown. One of the key file is for where the owner's own
        word does not count: by an address that is not loopback.
        """
        from hookgate.core.settings.secret_store import SecretStore

        return SecretStore(self.settings, self.environ).get(TOKEN.lower())

    @asynccontextmanager
    async def gateway(
        self,
        settings: Settings | None = None,
        *,
        spans: Callable[[HookSpan], None] | None = None,
        keys: Path | None = None,
    ) -> AsyncIterator[Gateway]:
        """Run a gateway in this process.

        Args:
            settings: Others than those of this run.
            spans: Hears of every hook that runs, from the start on.
            keys: The folder of key files, where it is not that of their home.

        Raises:
            ConfigError: A plugin's section is wrong.
            StartError: It cannot start.
        """
        if settings is None:
            # Somebody looks at the terminal, not at a log, unless the settings say otherwise.
            quiet = {} if "log.level" in self.source.places else {"level": "error"}
            log = self.settings.log.model_copy(update=quiet)
            settings = self.settings.model_copy(update={"log": log})
        gateway = self.make_gateway(settings, for_command=True)
        gateway.plugins.hooks.spans = spans
        if keys is not None:
            gateway.secrets.look_in(keys)
        with gateway.log.as_default(), gateway.log.captured():
            async with AsyncExitStack() as stack:
                with self.placed(), gateway.log.held():
                    await stack.enter_async_context(gateway)
                settle_memory()
                yield gateway

    def make_gateway(self, settings: Settings, **more: Any) -> Gateway:
        """Return a gateway, not started.

        Raises:
            ConfigError: A plugin's section is wrong.
            StartError: A plugin cannot be loaded.
        """
        from hookgate.gateway import Gateway

        with self.placed():
            return Gateway(settings, disabled=self.disabled, **more)

    def survey(self, builtin: Sequence[str] | None = None) -> tuple[Plugins, Sequence[str]]:
        """Look at the plugins without a gateway, whatever is wrong with them or the settings.

        Args:
            builtin: The builtin plugins to look at; None is all.

        Returns:
            The plugins, and what stops a start beside what is wrong with the other settings.
        """
        from hookgate.builtin_plugins import BUILTIN
        from hookgate.core.plugins.manager import Plugins
        from hookgate.core.settings.schema import PluginsSettings, Settings

        try:
            given = self.source.data
            data = {key: given[key] for key in PLUGIN_SECTIONS if key in given}
            settings = replace(self.source, data=data, problems=()).settings()
        except ConfigError:
            # What may be imported is not known, so nothing is.
            settings = Settings(plugins=PluginsSettings(entry_points=False))
        off = self.disabled
        looked_at = BUILTIN if builtin is None else builtin
        plugins = Plugins.load(settings, builtin=looked_at, disabled=off, lenient=True)
        return plugins, plugins.wrong

    def placed(self) -> Any:
        """Give file and line to the problems that are found within a ``with`` block."""
        from hookgate.cli.client.note import placed_problems

        return placed_problems(self.source)


def settle_memory() -> None:
    """Have the collector, which rested at the start, work, and pass over what is there.

    A started gateway is some 150,000 objects that stay for as long as the process does, and a full
    collection walks them all: 60 to 130 ms in which the event loop is held. The process is the
    command line's own, so this is no surprise to anybody; where it is not, the collector works
    already, and is left alone. Some 2,000 objects are garbage by then: less than it costs to look
    for them.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(YOUNG_OBJECTS)
        gc.enable()


def state_of(ctx: typer.Context) -> State:
    """Return the state of this run; made of the global options when it is first asked for."""
    root = ctx.find_root()
    if root.obj is None:
        params = root.params
        root.obj = State(
            config=params.get("config"),
            disabled=_disabled(params.get("plugin") or ()),
            local=bool(params.get("local")),
            json=bool(params.get("json")),
        )
        root.call_on_close(root.obj.close)
    state: State = root.obj
    return state


def _disabled(given: Sequence[str]) -> tuple[str, ...]:
    for item in given:
        if not item.startswith("no:") or len(item) == 3:
            raise typer.BadParameter(
                f"found {item!r}, expected no:NAME, such as `-p no:memory`", param_hint="-p"
            )
    return tuple(item.removeprefix("no:") for item in given)


def _json(ctx: typer.Context, value: bool) -> bool:
    if value and not ctx.resilient_parsing:
        state_of(ctx).json = True
    return value


JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON, for programs.", callback=_json)
]
"""The option ``--json`` of every command; what it says stands in `State.json`."""


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False, soft_wrap=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPE_WIDTH
    return console
