"""A home folder of its own for each test, the command line in it, and a gateway that runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hookgate.builtin_plugins import BUILTIN
from hookgate.cli.app import app
from hookgate.cli.client.local import LoopThread
from hookgate.cli.client.note import RunningGateway, address, take_note_away, write_note
from hookgate.cli.state import State
from hookgate.core.gateway.serve import Listener, listen
from hookgate.core.settings.file import load_settings
from hookgate.gateway import Gateway


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, read as JSON."""
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The command line in a home folder.

    Attributes:
        home: It.
        builtin_plugins: The builtin plugins that run, None for all.
    """

    home: Path
    builtin_plugins: Sequence[str] | None = None

    @property
    def environ(self) -> dict[str, str]:
        """No other gateway's port is tried, and no plugin of this machine is loaded.

        Nor is the embedding model: search goes by words alone where nothing else is asked for.
        """
        few = {*BUILTIN} - {*(self.builtin_plugins or BUILTIN)}
        off = {"HOOKGATE_PLUGINS__DISABLE": json.dumps(sorted(few))} if few else {}
        return {
            **off,
            "HOME": str(self.home),
            "HOOKGATE_GATEWAY__PORT": "0",
            "HOOKGATE_PLUGINS__ENTRY_POINTS": "false",
            "HOOKGATE_PLUGIN__EMBEDDING__LOAD_AFTER_SECONDS": "3600",
            "COLUMNS": "160",
            "NO_COLOR": "1",
            "TERM": "dumb",
        }

    def __call__(self, *words: str, stdin: str = "", **environ: str) -> Ran:
        """Run ``hookgate WORDS`` in this process."""
        result = CliRunner().invoke(
            app, list(words), input=stdin, env={**self.environ, **environ}, prog_name="hookgate"
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    def config(self, text: str) -> Path:
        """Write the settings file."""
        folder = self.home / ".hookgate"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / "config.toml"
        path.write_text(text)
        return path


FEW = (
    *("control", "storage", "egress", "providers", "audit"),
    *("metering", "policy", "sanitizer", "tools"),
)
"""The builtin plugins that most commands are about."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The gateways that the command line starts."""
    seen: list[str] = []
    start = State.gateway

    def counted(self: State, *args: object, **more: object) -> object:
        seen.append("started")
        return start(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(State, "gateway", counted)
    return seen


@pytest.fixture
def builtin_plugins() -> Sequence[str] | None:
    return FEW


@pytest.fixture
def hookgate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, builtin_plugins: Sequence[str] | None
) -> CommandLine:
    for name in ("HOOKGATE_CONFIG", "HOOKGATE_TOKEN", "HOOKGATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return CommandLine(tmp_path, builtin_plugins)


@dataclass(frozen=True, slots=True)
class Served:
    """A gateway that runs beside the test, on a free port."""

    gateway: Gateway
    url: str


@pytest.fixture
def serve(hookgate: CommandLine) -> Iterator[Callable[[], Served]]:
    """Return what serves a gateway with the settings of `hookgate`, until the test ends."""
    loop = LoopThread()
    stack = AsyncExitStack()

    async def start() -> Served:
        settings = load_settings(environ=hookgate.environ)
        gateway = await stack.enter_async_context(Gateway(settings))
        listener: Listener = await stack.enter_async_context(listen(gateway))
        url = address(listener.host, listener.port)
        write_note(settings.home, RunningGateway(os.getpid(), url, listener.key))
        stack.callback(take_note_away, settings.home)
        return Served(gateway, url)

    try:
        yield lambda: loop.run(start())
        loop.run(stack.aclose())
    finally:
        loop.close()
