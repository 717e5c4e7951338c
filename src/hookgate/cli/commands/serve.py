"""``hookgate serve``: the gateway, until it is told to stop."""

from __future__ import annotations

import os
import sys
from contextlib import AsyncExitStack
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.cli.state import State, settle_memory, state_of

if TYPE_CHECKING:
    from hookgate.cli.client.note import RunningGateway
    from hookgate.core.gateway.serve import Listener
    from hookgate.core.gateway.sockets import Taken
    from hookgate.core.settings.schema import Settings
    from hookgate.gateway import Gateway

NOTE_PART = "command line"
"""What `status` and `/health` call degraded while the gateway's note cannot be written."""

RETRY_SECONDS = 2.0
"""Seconds between two attempts to write it."""


def serve(
    ctx: typer.Context,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on, instead of `gateway.host`.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            help="The port, instead of `gateway.port`; 0 takes a free one.", min=0, max=65535
        ),
    ] = None,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="Take the sockets of the gateway of this home over, which then ends: nobody who "
            "connects meanwhile is refused. Where none runs, start as usual.",
        ),
    ] = False,
) -> None:
    """Run the gateway until SIGTERM or Ctrl-C; SIGHUP reads content again.

    Examples:
        hookgate serve
        hookgate serve --port 7300
        hookgate serve --take-over
        hookgate --config team.toml -p no:memory serve
    """
    state = state_of(ctx)
    for key, value in (("gateway.host", host), ("gateway.port", port)):
        if value is not None:
            state.overrides[key] = value
    import asyncio

    _import_aiohttp()
    _import_structlog()
    import_module("hookgate.gateway")
    from hookgate.core.gateway.serve import loop_factory

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        raise typer.Exit(runner.run(run(state, take_over=take_over)))


def _import_aiohttp() -> None:
    """Load aiohttp, and read no certificate authorities meanwhile.

    It would read them twice, a thirtieth of the start, for clients of its own. Those of the gateway
    bring TLS settings; where a plugin makes one without, its first connection reads them.
    """
    import ssl

    class LateAuthorities(ssl.SSLContext):
        """Settings that trust the system's authorities, which are read when somebody connects."""

        unread = True

        def wrap_socket(self, *arguments: Any, **named: Any) -> ssl.SSLSocket:
            self._read_once()
            return super().wrap_socket(*arguments, **named)

        def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
            self._read_once()
            return super().wrap_bio(*arguments, **named)

        def _read_once(self) -> None:
            if self.unread:
                self.load_default_certs()
                self.unread = False

    def later(context: ssl.SSLContext, *_: ssl.Purpose) -> None:
        context.__class__ = LateAuthorities

    kind: Any = ssl.SSLContext
    reading = kind.load_default_certs
    kind.load_default_certs = later
    # aiohttp has its settings that trust everybody read them, too.
    kind.set_default_verify_paths = later
    try:
        import_module("aiohttp.web")
    finally:
        kind.load_default_certs = reading
        del kind.set_default_verify_paths


def _import_structlog() -> None:
    """Load the log without `rich`, where nothing has loaded that yet.

    structlog would load it, a twentieth of the start, to draw tracebacks; this process is the
    gateway's own, and its log writes plain ones.
    """
    if "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import_module("structlog")
    finally:
        del sys.modules["rich"]


async def run(state: State, *, take_over: bool = False) -> int:
    """Start the gateway, listen, end well; return the exit code."""
    from hookgate.cli.client.note import RunningGateway, address, take_note_away
    from hookgate.core.gateway import serve as listening
    from hookgate.core.gateway import sockets as handover
    from hookgate.core.gateway.access.auth import check_listener
    from hookgate.core.gateway.sockets import ServiceManager, check_port, inherited_sockets

    sockets = inherited_sockets(os.environ)
    taken = handover.take_over(state.settings.home) if take_over and not sockets else None
    if taken is not None:
        sockets = taken.sockets
    # Before anything is opened: what strangers could reach is not even started.
    check_listener(state.settings, sockets)
    if not sockets:
        check_port(state.settings.gateway)
    # The outer one is closed last: who takes over waits for all that the inner one holds.
    async with AsyncExitStack() as outer, AsyncExitStack() as stack:
        if taken is not None:
            outer.callback(taken.close)
        gateway = await _start(state, stack, taken)

        def started(listener: Listener) -> None:
            if listener.port:
                url = address(listener.host, listener.port)
                stack.callback(take_note_away, state.settings.home)
                _leave_note(gateway, RunningGateway(os.getpid(), url, listener.key))
            if taken is not None:
                taken.listening()
            # Only then is `rich` loaded.
            if sys.stderr.isatty():
                _greet(state, gateway, listener.url)

        settle_memory()
        return await listening.serve(
            gateway,
            started=started,
            sockets=sockets,
            shared=bool(sockets) and taken is None,
            manager=ServiceManager(os.environ),
            handed_over=outer,
        )


async def _start(state: State, stack: AsyncExitStack, taken: Taken | None) -> Gateway:
    """Return the gateway, started, which ends with `stack`.

    Where the one that is taken over holds the store, it ends first: by then all is loaded here that
    can be.
    """
    from hookgate.core.domain.errors import StoreHeldError

    try:
        return await _enter(state, stack)
    except StoreHeldError:
        if taken is None:
            raise
    await taken.wait_for_the_store()
    return await _enter(state, stack)


async def _enter(state: State, stack: AsyncExitStack) -> Gateway:
    from hookgate.core.log import EVERYTHING

    read_again = partial(_read_again, state)
    gateway = state.make_gateway(state.settings, read_settings=read_again, listens=True)
    async with AsyncExitStack() as mine:
        mine.enter_context(gateway.log.as_default())
        mine.enter_context(gateway.log.captured(EVERYTHING))
        with state.placed(), gateway.log.held():
            await mine.enter_async_context(gateway)
        stack.push_async_exit(mine.pop_all())
    return gateway


def _leave_note(gateway: Gateway, running: RunningGateway) -> None:
    """Say where the gateway is; where that fails, say so, and try again until it works."""
    why = _note_problem(gateway, running)
    if why:
        gateway.host.standing(NOTE_PART).bad(why)
        gateway.host.spawn(_leave_note_later(gateway, running), name="the gateway's note")


def _note_problem(gateway: Gateway, running: RunningGateway) -> str:
    """Write the note; return why commands cannot follow it, or "" where they can."""
    from hookgate.cli.client.note import NOTE, NoteError, running_gateway, write_note

    home = gateway.settings.home
    try:
        write_note(home, running)
        running_gateway(home)
    except OSError as error:
        why = f"{home / NOTE} cannot be written: {error.strerror or error}"
    except NoteError as error:
        why = str(error)
    else:
        return ""
    return (
        f"{why}. Until that is mended, `hookgate chat` and other commands do not find this "
        f"gateway; clients of {running.url} do. It tries again every {RETRY_SECONDS:.0f} s"
    )


async def _leave_note_later(gateway: Gateway, running: RunningGateway) -> None:
    import asyncio

    while True:
        await asyncio.sleep(RETRY_SECONDS)
        why = await asyncio.to_thread(_note_problem, gateway, running)
        gateway.host.standing(NOTE_PART).bad(why)
        if not why:
            return


def _read_again(state: State) -> Settings:
    from hookgate.core.settings.file import load_settings

    return load_settings(state.config, environ=state.environ, overrides=state.overrides)


def _greet(state: State, gateway: Gateway, url: str) -> None:
    """Say on a terminal what runs, and what to do next."""
    from rich.text import Text

    from hookgate import __version__
    from hookgate.kit.rendering import fields

    status = gateway.host.status()
    path = state.source.path
    show = state.err.print
    show()
    show(Text.assemble((f"hookgate {__version__}", "bold"), " listens on ", (url, "bold cyan")))
    show(
        fields(
            {
                "settings": str(path) if path else "defaults (no settings file)",
                "agents": status["agents"],
                "plugins": status["plugins"],
                "tools": status["tools"],
            }
        )
    )
    for part, why in status["degraded"].items():
        show(Text.assemble(("degraded: ", "bold yellow"), f"{part}: {why}"))
    show(Text("Talk to it with `hookgate chat` in another terminal; Ctrl-C stops it.", style="dim"))
    show()
