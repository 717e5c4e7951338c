"""`chat.send`: from a client's parameters to a turn, and the turn's events back to it."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictBool, StringConstraints, model_validator

from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.errors import NotAllowedError
from hookgate.core.domain.events import Event
from hookgate.core.domain.messages import Image, Provenance, ToolResultPart
from hookgate.core.domain.models import StopReason
from hookgate.core.domain.operations import OperationModel
from hookgate.core.domain.tools import Tool
from hookgate.core.domain.turn import Address, Origin, TurnRequest
from hookgate.core.gateway.codes import describe

if TYPE_CHECKING:
    from hookgate.core.domain.operations import Invocation
    from hookgate.core.domain.turn import Turn, TurnEnding
    from hookgate.core.gateway.port import GatewayPort

__all__ = ["Accepted", "Answer", "ChatParams", "Chats"]

Name = Annotated[str, StringConstraints(max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]


def _base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("expected base64 (RFC 4648, section 4)") from None
    return text


def _flags(declared: dict[str, bool | None]) -> dict[str, bool | None]:
    Flags.from_mapping(declared)
    return declared


class ImageParam(OperationModel):
    """A picture."""

    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    """Its type."""
    data: Annotated[str, AfterValidator(_base64)]
    """Its bytes, base64."""


class ClientToolParam(OperationModel):
    """A tool that the client runs itself."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    """1 to 64 letters, digits, `_` and `-`."""
    description: str = Field(default="", max_length=8192)
    """What it does, for the model."""
    json_schema: dict[str, Any] = Field(default={"type": "object"}, alias="schema")
    """JSON Schema of its arguments, an object."""
    flags: Annotated[dict[str, StrictBool | None], AfterValidator(_flags)] = Field(
        default_factory=dict
    )
    """What it does, by the names of the five flags. `true` is believed; `false` only of a
    principal in `gateway.believe_client_flags`, and is unknown otherwise."""


class ToolResultParam(OperationModel):
    """What became of a client-owned tool call."""

    tool_use_id: Name
    """The id of the call."""
    content: str
    """Text for the model."""
    is_error: bool = False
    """Whether it failed."""


class ChatParams(OperationModel):
    """A message to an agent."""

    channel: Name = "cli"
    """Where it comes from; the principal must be allowed to claim channel, account and peer."""
    account: Name = "local"
    """The account in that channel."""
    peer: Name = "main"
    """Who speaks. Agent, channel, account and peer make the session."""
    guild: Name | None = None
    """The guild or server, for bindings."""
    team: Name | None = None
    """The team, for bindings."""
    content: str = ""
    """The text. Empty only where images or tool results come."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options for planners, such as `customFlags`."""
    images: tuple[ImageParam, ...] = Field(default=(), max_length=16)
    """Pictures that belong to the text."""
    client_tools: tuple[ClientToolParam, ...] = Field(default=(), max_length=128)
    """Tools that the client runs itself; its turn then ends `awaiting_client`."""
    tool_results: tuple[ToolResultParam, ...] = Field(default=(), max_length=128)
    """Results of the calls that the session's last turn waits for."""

    @model_validator(mode="after")
    def _says_something(self) -> ChatParams:
        if not (self.content or self.images or self.tool_results):
            raise ValueError("expected `content`, `images` or `tool_results`")
        names = [tool.name for tool in self.client_tools]
        if len(set(names)) != len(names):
            raise ValueError("expected client tools with a name of their own each")
        return self

    def to_request(self) -> TurnRequest:
        """Return what the runtime is asked."""
        return TurnRequest(
            content=self.content,
            address=Address(
                channel=self.channel,
                account=self.account,
                peer=self.peer,
                guild=self.guild,
                team=self.team,
            ),
            images=tuple(Image(media_type=item.media_type, data=item.data) for item in self.images),
            options=self.options,
            client_tools=tuple(
                Tool(
                    name=item.name,
                    description=item.description,
                    schema=item.json_schema,
                    flags=Flags.from_mapping(item.flags),
                    owner="client",
                    sandbox="client",
                    plugin="client",
                )
                for item in self.client_tools
            ),
            tool_results=tuple(
                ToolResultPart(
                    tool_use_id=item.tool_use_id, content=item.content, is_error=item.is_error
                )
                for item in self.tool_results
            ),
        )


class Accepted(OperationModel):
    """The message is committed; the events of its turn follow."""

    turn: str
    """The turn's id, for `chat.cancel`."""
    session: str
    """The session's key."""


class Answer(Accepted):
    """A whole turn, for a client that does not stream."""

    ending: str
    """How it ended: `done`, `awaiting_client`, `refused`, `failed` or `cancelled`."""
    text: str
    """The answer."""
    stop: StopReason | None = None
    """Why the model stopped that was asked last: `end`, `max_tokens` and the like."""
    tool_calls: tuple[dict[str, Any], ...]
    """The tool calls: `id`, `name`, `input`, and where they have run `content` and `is_error`."""
    usage: dict[str, Any]
    """The tokens of all model calls."""
    error: dict[str, Any] | None = None
    """What went wrong: `code`, `message`, `action`."""


class Chats:
    """Runs the turns that clients ask for, and knows what to do when a client goes away."""

    def __init__(self, gateway: GatewayPort) -> None:
        self._gateway = gateway
        self._turns: set[asyncio.Task[Turn]] = set()

    async def send(self, invocation: Invocation, params: ChatParams) -> Accepted:
        """Run one turn: answer when its message is committed, then pass its events on."""
        gateway, principal = self._gateway, invocation.principal
        request = params.to_request()
        if not principal.may_claim(request.address):
            raise NotAllowedError(
                f"{principal.id} may not speak as channel {params.channel!r}, account "
                f"{params.account!r}, peer {params.peer!r}",
                action="claim an address that the token is bound to",
            )
        course = Course(invocation)
        origin = Origin(provenance=Provenance.EXTERNAL_USER, path=invocation.path)
        task = asyncio.create_task(
            gateway.run_turn(principal, origin, request, sink=course.sink, accepted=course.accepted)
        )
        self._turns.add(task)
        task.add_done_callback(self._forget)
        try:
            turn = await self._wait(task, course, invocation)
        except Exception as error:
            if course.turn is None:
                raise
            # It was accepted, so the client has its result already and waits for `done`.
            return course.broke(error)
        return course.ended(turn)

    async def _wait(self, task: asyncio.Task[Turn], course: Course, invocation: Invocation) -> Turn:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.done():
                raise
            if invocation.disconnected():
                if self._gateway.settings.gateway.on_disconnect == "cancel":
                    self._cancel(task, course, "its client went away")
                raise
            self._cancel(task, course, "its client cancelled it")
            current = asyncio.current_task()
            assert current is not None, "a coroutine that is cancelled runs in a task"
            current.uncancel()
            return await asyncio.shield(task)

    def _cancel(self, task: asyncio.Task[Turn], course: Course, reason: str) -> None:
        if not (course.turn_id and self._gateway.cancel(course.turn_id, reason)):
            task.cancel()

    def _forget(self, task: asyncio.Task[Turn]) -> None:
        self._turns.discard(task)
        if not task.cancelled():
            # Marks a failure as seen: whoever waited for it has raised it, or has gone away.
            task.exception()


class Course:
    """The events of one turn on their way to one client.

    Whatever the runtime does, the client sees the result first, and exactly one ``done`` last.

    Attributes:
        turn: The turn, once its message is committed.
        turn_id: Its id, as soon as an event or the commit tells it.
    """

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._calls: dict[str, dict[str, Any]] = {}
        self._error: dict[str, Any] | None = None
        self._done = False
        self.turn: Turn | None = None
        self.turn_id = ""

    def accepted(self, turn: Turn) -> None:
        """The user's message is committed."""
        self.turn, self.turn_id = turn, turn.id
        self._invocation.respond(Accepted(turn=turn.id, session=str(turn.session)))

    def sink(self, event: Event) -> None:
        """Pass one event on."""
        if self._done:
            return
        self._done = event.type == "done"
        if self.turn is None:
            # The client does not know the turn's id yet, and may want to cancel it.
            self.turn_id = event.turn
            event = Event(event.type, {"turn": event.turn, **event.data}, event.turn, event.session)
        if not self._invocation.streaming:
            self._collect(event)
        self._invocation.emit(event)

    def _collect(self, event: Event) -> None:
        data = event.data
        if event.type == "tool_use":
            self._calls[data["id"]] = dict(data)
        elif event.type == "tool_result" and data.get("tool_use_id") in self._calls:
            rest = {key: value for key, value in data.items() if key != "tool_use_id"}
            self._calls[data["tool_use_id"]] |= rest
        elif event.type == "error":
            self._error = dict(data)

    def ended(self, turn: Turn) -> Answer:
        """Return the whole turn; say ``done`` if nobody has."""
        return self._finish(turn, turn.ending or "done")

    def broke(self, error: Exception) -> Answer:
        """Tell the client that an accepted turn ended with an error that it was not told."""
        turn = self.turn
        assert turn is not None, "a turn that was not accepted has no course to end"
        if not self._done:
            problem = describe(self._invocation.host, error)
            self.sink(Event("error", {**problem.data, "message": problem.message}, turn.id))
        return self._finish(turn, "failed")

    def _finish(self, turn: Turn, ending: TurnEnding) -> Answer:
        answer = Answer(
            turn=turn.id,
            session=str(turn.session),
            ending=ending,
            text=turn.answer,
            stop=turn.stop,
            tool_calls=tuple(self._calls.values()),
            usage=turn.usage.to_json(),
            error=self._error,
        )
        if not self._done:
            data = answer.model_dump(include={"turn", "session", "ending", "text", "stop", "usage"})
            self.sink(Event("done", data, turn.id, answer.session))
        return answer
