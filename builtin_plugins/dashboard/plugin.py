"""The plugin ``dashboard``: a page at ``/ui``.

It shows and does nothing that the command line cannot: every number and every button is an
operation. The page is files; who uses it logs in as any client does, and sees what they may.
"""

from __future__ import annotations

from hookgate import Host, Routes
from hookgate.hookspecs import hookimpl

PATH = "/ui"


class Plugin:
    """Serves the page; it has no settings."""

    @hookimpl
    def add_routes(self, host: Host, routes: Routes) -> None:
        """Serve the files of the page."""
        routes.static(PATH, __package__, "static", why="the page of the dashboard; it has no data")
