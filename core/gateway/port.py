"""What the gateway's door needs of the runtime behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hookgate.core.domain.events import Event
    from hookgate.core.domain.turn import Origin, Principal, Turn, TurnRequest
    from hookgate.core.gateway.routes import Routes
    from hookgate.core.host import Host
    from hookgate.core.settings.schema import Settings

__all__ = ["GatewayPort"]


class GatewayPort(Protocol):
    """A running gateway as its door sees it. `core.runtime.Gateway` is one."""

    @property
    def settings(self) -> Settings:
        """The settings."""

    @property
    def host(self) -> Host:
        """Services, operations and events."""

    @property
    def routes(self) -> Routes:
        """The routes that plugins have added."""

    @property
    def ready(self) -> bool:
        """Whether everything has started."""

    async def run_turn(
        self,
        principal: Principal,
        origin: Origin,
        request: TurnRequest,
        *,
        sink: Callable[[Event], None],
        accepted: Callable[[Turn], None],
    ) -> Turn:
        """Run one turn.

        Args:
            principal: Who asks.
            origin: How the request came in.
            request: What is asked.
            sink: Takes the turn's events; must not wait.
            accepted: Called once the user's message is committed.

        Raises:
            TurnError: Nothing was committed. Whatever goes wrong later is an ``error`` event.
        """

    def cancel(self, turn_id: str, reason: str) -> bool:
        """Cancel a running turn; False where there is none of this id."""

    def turn_owner(self, turn_id: str) -> Principal | None:
        """Return who started a running turn."""

    def running(self) -> Sequence[Turn]:
        """Return the turns that run or wait for their lane."""

    def status(self) -> Mapping[str, Any]:
        """Return what is to be said about the gateway, JSON-ready."""

    async def drain(self, seconds: float) -> None:
        """Take no new turns; finish the running ones, and cancel them after `seconds`."""
