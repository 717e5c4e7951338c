"""From a request to a turn that has not begun: who may ask, who answers, how it is to run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hookgate.core.domain.channels.channel import is_guest_channel
from hookgate.core.domain.errors import NotAllowedError, TurnError
from hookgate.core.domain.messages import Message
from hookgate.core.domain.models import ModelRef
from hookgate.core.domain.parts import Text
from hookgate.core.domain.turn import SessionKey, Turn, TurnPlan
from hookgate.core.registry.flags import FlagReader
from hookgate.core.sessions.routing import check_agent
from hookgate.core.turn.tools.client import admitted

if TYPE_CHECKING:
    from collections.abc import Callable

    from hookgate.core.domain.events import Event
    from hookgate.core.domain.turn import Agent, Origin, Principal, TurnRequest
    from hookgate.core.host import Host
    from hookgate.core.registry.snapshots import Snapshot
    from hookgate.core.sessions.routing import Router


class TurnMaker:
    """Makes turns of requests.

    Attributes:
        router: Chooses the agents.
        snapshot: Returns what a turn that starts now draws on.
    """

    def __init__(self, host: Host, router: Router, snapshot: Callable[[], Snapshot]) -> None:
        self._host = host
        self._flags = FlagReader(host.flags)
        self.router = router
        self.snapshot = snapshot

    def asked(
        self,
        principal: Principal,
        origin: Origin,
        request: TurnRequest,
        sink: Callable[[Event], None],
    ) -> Turn:
        """Return a turn of what a principal asks, if it may ask that where it says it does.

        The one check of a claim: nothing starts without it but a turn within another.

        Raises:
            NotAllowedError: The principal may not chat, or not as this address; or see `make`.
            NoAgentError: No agent answers this address.
            ClientToolError: See `make`.
            TurnError: See `make`.
        """
        agent, session = self._claimed(principal, origin, request)
        return self.make(principal, origin, request, agent, session, sink)

    def _claimed(
        self, principal: Principal, origin: Origin, request: TurnRequest
    ) -> tuple[Agent, SessionKey]:
        address = request.address
        if "chat" not in principal.scopes:
            raise NotAllowedError(
                f"{principal.id} has the scopes {sorted(principal.scopes)}, expected `chat`",
                action="use a token with the scope `chat`",
            )
        if not principal.may_claim(address):
            raise NotAllowedError(
                f"{principal.id} may not speak as channel {address.channel!r}, account "
                f"{address.account!r}, peer {address.peer!r}",
                action="claim an address that the token is bound to",
            )
        if is_guest_channel(address.channel) and origin.channel != address.channel:
            # What is said there goes out by a stranger's code, and what stands there came by it.
            raise NotAllowedError(
                f"the channel {address.channel!r} is that of a plugin of the sandbox, and nothing "
                "starts there but what that plugin brings in",
                action="claim another channel, such as `cli`",
            )
        agent = self.router.resolve(address, request.agent).agent
        return agent, SessionKey(agent.name, address.channel, address.account, address.peer)

    def make(
        self,
        principal: Principal,
        origin: Origin,
        request: TurnRequest,
        agent: Agent,
        session: SessionKey,
        sink: Callable[[Event], None],
    ) -> Turn:
        """Return a turn that has not begun.

        Args:
            principal: Who asks.
            origin: How the request came in.
            request: What is asked.
            agent: Who answers.
            session: Where.
            sink: Takes the turn's events; must not wait.

        Raises:
            NotAllowedError: The principal's key does not allow the agent, or has expired.
            ClientToolError: A tool that the request brings has the name of another one.
            TurnError: The request asks for what it cannot have.
        """
        _check_honoured(request)
        check_agent(principal, agent)
        if principal.has_expired(self._host.clock.now()):
            raise NotAllowedError(f"{principal.id} has expired", action="use another token")
        flags, unknown = self._flags.read(request.options)
        snapshot = self.snapshot()
        believed = self._host.settings.gateway.believe_client_flags
        tools = admitted(request.client_tools, snapshot.tools, principal, believed)
        events = self._host.events
        sound = True  # who listens badly ends no turn

        def client(event: Event) -> None:
            nonlocal sound
            try:
                sink(event)
            except Exception as error:
                if sound:
                    self._host.log.warning("a turn's sink fails", type=event.type, exc_info=error)
                sound = False

        def tell(event: Event) -> None:
            turn.client(event)
            events.publish(event)

        turn = Turn(
            session=session,
            agent=agent,
            address=request.address,
            principal=principal,
            origin=origin,
            message=Message(
                role="user",
                parts=(Text(request.content), *request.images),
                taint=request.taint,
                provenance=origin.provenance,
                principal=principal.id,
            ),
            snapshot=snapshot,
            plan=self._plan(agent, request),
            sink=tell,
            client=client,
            options=request.options,
            flags=flags,
            unknown_flags=unknown,
            system=request.system,
            client_tools=tools,
            started=self._host.clock.now(),
        )
        turn.message = replace(turn.message, turn=turn.id)
        return turn

    def _plan(self, agent: Agent, request: TurnRequest) -> TurnPlan:
        """Return how the turn runs if no planner has anything to say."""
        settings = self._host.settings
        return TurnPlan(
            models=agent.models if request.model is None else (_model(request.model),),
            parameters=request.parameters,
            failure_mode=settings.turn.failure_mode,
            tool_selection=settings.turn.tool_selection,
            whole_tool_tokens=settings.turn.whole_tool_tokens,
            history="client" if request.client_history is not None else "server",
            history_turns=settings.context.history_turns,
            max_iterations=settings.turn.max_iterations,
            context_tokens=settings.context.budget_tokens,
            deadline=settings.turn.deadline_seconds,
        )


def _model(text: str) -> ModelRef:
    try:
        return ModelRef.parse(text)
    except ValueError as error:
        raise TurnError(
            str(error), code="invalid_params", action="name the model as `provider/model`"
        ) from None


def _check_honoured(request: TurnRequest) -> None:
    """Refuse what this gateway would otherwise pass over in silence."""
    for name in ("ephemeral", "verbatim"):
        if getattr(request, name):
            raise TurnError(
                f"found a request with `{name}`, which this gateway cannot do: it keeps every "
                "turn, and every turn draws on what the gateway knows",
                code="invalid_params",
                action=f"leave `{name}` out",
            )
