"""The plugin ``tools``: clock, calculate, http_get and read_file."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from hookgate import EGRESS, Capability, Flags, Host, Section, StartError, Tool, ToolResult
from hookgate.builtin_plugins.tools.calculate import CalculationError, calculate, show
from hookgate.builtin_plugins.tools.clock import describe_time
from hookgate.builtin_plugins.tools.texts import SUPPORTED, FileRefusedError, fetch, read_text
from hookgate.hookspecs import hookimpl
from hookgate.kit.tooling import tool

if TYPE_CHECKING:
    import httpx


def _grant(text: str) -> str:
    if not re.match(r"https?://[^/\s]+", text):
        raise ValueError("expected a URL pattern such as https://api.example.com/v1/*")
    return text


class ToolsSettings(Section):
    """``[plugin.tools]``: what the builtin tools may reach."""

    http_get: tuple[Annotated[str, AfterValidator(_grant)], ...] = ()
    """URL patterns that `http_get` may fetch. Without any, the tool is not offered."""
    http_get_bytes: int = Field(default=200_000, ge=1000, le=50_000_000)
    """So much of a page is read, in bytes after decompression."""
    http_get_seconds: float = Field(default=20.0, gt=0, le=300)
    """Seconds that a page may take."""
    read_roots: tuple[Path, ...] = ()
    """Folders below which `read_file` may read. Without any, the tool is not offered."""
    read_bytes: int = Field(default=200_000, ge=1, le=50_000_000)
    """So much of a file is read, in bytes."""


# -- the plugin --------------------------------------------------------------------

HTTP_FLAGS = Flags(
    reads_external_data=True,
    writes_persistent_state=False,
    # An address can carry data out in its path and its query.
    sends_externally=True,
    executes_privileged=False,
    creates_autonomous_actions=False,
)

FILE_FLAGS = Flags(
    reads_external_data=True,
    writes_persistent_state=False,
    sends_externally=False,
    executes_privileged=False,
    creates_autonomous_actions=False,
)


class Plugin:
    """Brings the tools that work without set-up, and those that need a grant."""

    Settings = ToolsSettings

    def __init__(self, settings: ToolsSettings) -> None:
        self._settings = settings
        self._host: Host | None = None
        self._client: httpx.AsyncClient | None = None

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Check the grants of `http_get`, and close its client at the end."""
        self._host = host
        if self._settings.http_get:
            # Where nobody provides a way out yet, the first call looks again.
            self._reach_out(host)
        try:
            yield
        finally:
            if self._client is not None:
                await self._client.aclose()
                self._client = None

    @hookimpl
    def list_tools(self, host: Host) -> Sequence[Tool]:
        """Bring the tools; those that need a grant only where there is one."""
        self._host = host
        tools = [
            tool(
                self.clock,
                flags=Flags.none(),
                idempotent=True,
                category="time",
                tags=("date", "timezone", "now"),
            ),
            tool(
                self.calculate,
                flags=Flags.none(),
                idempotent=True,
                category="math",
                tags=("arithmetic", "numbers"),
            ),
        ]
        if self._settings.http_get:
            tools.append(
                tool(
                    self.http_get,
                    flags=HTTP_FLAGS,
                    idempotent=True,  # GET is, by RFC 9110, 9.2.2
                    timeout=self._settings.http_get_seconds + 5.0,
                    category="web",
                    tags=("fetch", "page", "url", "download"),
                )
            )
        if self._settings.read_roots and SUPPORTED:
            tools.append(
                tool(
                    self.read_file,
                    flags=FILE_FLAGS,
                    idempotent=True,
                    category="files",
                    tags=("open", "text"),
                )
            )
        return tools

    @hookimpl
    def list_capabilities(self, host: Host) -> Sequence[Capability]:
        """Name the tools that wait for a grant, so that people find out what to set."""
        waiting = []
        # Another plugin's tool of the same name is no tool of ours that waits.
        known = host.tools.view()
        if not self._settings.http_get and "http_get" not in known:
            waiting.append(_waiting("http_get", "web", HTTP_FLAGS, "Fetch a page", "http_get"))
        if not SUPPORTED:
            host.standing("tools.read_file").bad("this system cannot open a file without its links")
        elif not self._settings.read_roots and "read_file" not in known:
            waiting.append(
                _waiting("read_file", "files", FILE_FLAGS, "Read a text file", "read_roots")
            )
        return waiting

    # -- the tools ---------------------------------------------------------

    def clock(
        self,
        timezone: Annotated[str, Field(max_length=80)] = "UTC",
    ) -> ToolResult:
        """Tell the current date and time.

        Args:
            timezone: An IANA time zone such as Europe/Oslo.
        """
        assert self._host is not None, "list_tools has run before a tool is called"
        try:
            told = describe_time(self._host.clock.now(), timezone)
        except ValueError as error:
            return ToolResult.error(str(error))
        return ToolResult(content=f"{told['time']} ({told['weekday']}, {timezone})", data=told)

    async def calculate(self, expression: str) -> ToolResult | str:
        """Compute an arithmetic expression exactly.

        It knows + - * / // % **, parentheses, abs, ceil, floor, max, min, round, sqrt, pi and e.

        Args:
            expression: For example (17.5 + 3) * 2 ** 8.
        """
        try:
            return show(calculate(expression))
        except CalculationError as error:
            return ToolResult.error(str(error))

    async def http_get(self, url: Annotated[str, Field(max_length=4000)]) -> ToolResult:
        """Fetch a web page or an API's answer as text. Only granted addresses can be reached.

        Args:
            url: The whole address, with https://.
        """
        assert self._host is not None, "list_tools has run before a tool is called"
        client = self._client or self._reach_out(self._host)
        if client is None:
            return ToolResult.error(
                "http_get has no way out: the operator has to enable the plugin `egress`"
            )
        return await fetch(client, url, max_bytes=self._settings.http_get_bytes)

    def _reach_out(self, host: Host) -> httpx.AsyncClient | None:
        egress = host.get(EGRESS)
        if egress is None:
            return None
        try:
            self._client = egress.client(
                self._settings.http_get, name="http_get", timeout=self._settings.http_get_seconds
            )
        except ValueError as error:
            raise StartError(f"`[plugin.tools] http_get`: {error}") from error
        return self._client

    async def read_file(self, path: Annotated[str, Field(max_length=4000)]) -> ToolResult | str:
        """Read a text file below the granted folders.

        Args:
            path: The file's path, relative to a granted folder or absolute.
        """
        settings = self._settings
        try:
            text, cut = await asyncio.to_thread(
                read_text, path, settings.read_roots, max_bytes=settings.read_bytes
            )
        except FileRefusedError as error:
            return ToolResult.error(str(error))
        note = f"\n[cut after {settings.read_bytes} bytes]" if cut else ""
        return ToolResult(content=text + note, taint=frozenset({"tool:read_file"}))


def _waiting(name: str, category: str, flags: Flags, what: str, key: str) -> Capability:
    return Capability(
        id=f"tool:{name}",
        kind="tool",
        name=name,
        description=f"{what}. Not available: the operator has not set `[plugin.tools] {key}`.",
        category=category,
        available=False,
        flags=flags,
        source_ref="plugin tools",
        whose="own",
    )
