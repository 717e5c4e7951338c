"""`chat.send` and `tools.call`: from a client's parameters to a turn or a call, and back."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictBool, StringConstraints, model_validator

from hookgate import (
    Address,
    Event,
    Flags,
    Image,
    Invocation,
    OperationModel,
    Origin,
    Provenance,
    StopReason,
    Tool,
    ToolResultPart,
    Turn,
    TurnEnding,
    TurnRequest,
    operation,
)
from hookgate.clients import describe_error, wire_error
from hookgate.kit.tokens.bounds import picture_type
from hookgate.wire import CONTENT_FORMS

Name = Annotated[str, StringConstraints(max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]


def _picture(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("expected base64 (RFC 4648, section 4)") from None
    if not picture_type(Image(media_type="image/*", data=text)):
        raise ValueError("the data is no picture, expected a PNG, JPEG, GIF or WebP file")
    return text


def _flags(declared: dict[str, bool | None]) -> dict[str, bool | None]:
    Flags.from_mapping(declared)
    return declared


class ImageParam(OperationModel):
    """A picture."""

    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    """Its type."""
    data: Annotated[str, AfterValidator(_picture)]
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


class AddressParams(OperationModel):
    """On whose behalf something is asked."""

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

    def to_address(self) -> Address:
        """Return the address that is claimed."""
        return Address(self.channel, self.account, self.peer, self.guild, self.team)


class ChatParams(AddressParams):
    """A message to an agent."""

    content: str = ""
    """The text. Empty only where images or tool results come."""
    agent: Name | None = None
    """The agent to speak to instead of the one that the bindings choose: for the scope `operate`,
    and for keys and tokens whose `agents` name it."""
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
            raise ValueError("`content` is required, or `images` or `tool_results`")
        names = [tool.name for tool in self.client_tools]
        if len(set(names)) != len(names):
            raise ValueError("expected client tools with a name of their own each")
        return self

    def to_request(self, *, whole: bool) -> TurnRequest:
        """Return what the runtime is asked, by a client that reads the answer at its end or not."""
        return TurnRequest(
            content=self.content,
            agent=self.agent,
            address=self.to_address(),
            images=tuple(Image(media_type=item.media_type, data=item.data) for item in self.images),
            options=self.options,
            whole=whole,
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


class TurnAccepted(OperationModel):
    """The message is committed; the events of its turn follow."""

    turn: str
    """The turn's id, for `chat.cancel`."""
    session: str
    """The session's key."""


class Answer(TurnAccepted):
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
    """What went wrong: `code`, `message`, `action`, and `retry_after` where it is known after
    how many seconds it may work; the answer then has the header `Retry-After`."""


@operation("chat.send", scope="chat", streams=True, rest=("POST", "/v1/turns"))
async def send(invocation: Invocation, params: ChatParams) -> TurnAccepted:
    """Send a message to an agent and stream the answer.

    It answers when the message is committed, and then passes the turn's events on.
    """
    host, relay, principal = invocation.host, Relay(invocation), invocation.principal
    if params.agent and principal.agents is None and "operate" not in principal.scopes:
        raise wire_error(
            "forbidden",
            f"{principal.id} may not choose an agent: bindings choose it",
            action="leave `agent` out, or use a token with `agents` or the scope `operate`",
        )
    origin = Origin(provenance=Provenance.EXTERNAL_USER, path=invocation.path)
    request = params.to_request(whole=not invocation.streaming)
    turn = host.start_turn(principal, origin, request, sink=relay.sink)
    # What becomes of it when its client leaves or cancels is settled here, with the reason.
    turn.detach()
    try:
        try:
            return relay.ended(await turn.wait())
        except asyncio.CancelledError:
            if turn.over:
                raise
            if invocation.disconnected():
                if host.settings.gateway.on_disconnect == "cancel":
                    turn.cancel("its client went away")
                raise
            turn.cancel("its client cancelled it")
            task = asyncio.current_task()
            assert task is not None, "a coroutine that is cancelled runs in a task"
            task.uncancel()
            return relay.ended(await turn.wait())
    except Exception as error:
        if not relay.accepted:
            raise
        # It was accepted, so the client has its result already and waits for `done`.
        return relay.broke(turn.turn, error)


_WITHIN = frozenset(("opaque", "citation", "model_ended"))
"""Events for whoever runs a turn in this process; a client of the wire has no use for them."""


_COLLECTED = frozenset(("tool_use", "tool_result", "error"))
"""Events of which an answer in one piece tells at its end."""


class Relay:
    """Passes the events of one turn on to one client.

    Whatever the runtime does, the client sees the result first, and exactly one ``done`` last.

    Attributes:
        accepted: Whether the turn's message is committed, which the client has been told.
    """

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._calls: dict[str, dict[str, Any]] = {}
        self._error: dict[str, Any] | None = None
        self._done = False
        self.accepted = False

    def sink(self, event: Event) -> None:
        """Pass one event on."""
        kind = event.type
        if self._done or kind in _WITHIN:
            return
        if kind == "accepted":
            self.accepted = True
            self._invocation.respond(TurnAccepted(**event.data))
            return
        self._done = kind == "done"
        if self._invocation.streaming:
            self._invocation.emit(event)
        elif kind in _COLLECTED:
            self._collect(event)

    def _collect(self, event: Event) -> None:
        data = event.data
        if event.type == "error":
            self._error = dict(data)
        elif event.type == "tool_use":
            self._calls[data["id"]] = dict(data)
        elif data.get("tool_use_id") in self._calls:
            rest = {key: value for key, value in data.items() if key != "tool_use_id"}
            self._calls[data["tool_use_id"]] |= rest

    def ended(self, turn: Turn) -> Answer:
        """Return the whole turn; say ``done`` if nobody has."""
        return self._finish(turn, turn.ending or "done")

    def broke(self, turn: Turn, error: Exception) -> Answer:
        """Tell the client that an accepted turn ended with an error that it was not told."""
        if not self._done:
            problem = describe_error(self._invocation.host, error)
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
            told = {"turn", "session", "ending", "text", "stop", "usage"}
            data = answer.model_dump(include=told | ({"error"} if self._error else set()))
            self.sink(Event("done", data, turn.id, answer.session))
        return answer


# -- `tools.call`: a client calls a tool by itself, and no model is asked --------


class ToolCallParams(AddressParams):
    """A call of a tool, on behalf of an address."""

    name: Name
    """The tool."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """What it is called with."""


class DecisionRow(OperationModel):
    """What was decided on a call."""

    effect: Literal["allow", "deny"]
    """Whether it was allowed."""
    reason: str
    """Why, for people."""
    by: str
    """The plugin that decided, or who answered."""
    rule: str
    """The rule, where one decided."""


class ToolCalled(OperationModel):
    """What a call came to."""

    id: str
    """The id of the call, as the record of decisions has it."""
    name: str
    """The tool."""
    status: Literal["done", "failed", "denied", "cancelled", "timeout"]
    """What became of it."""
    content: str
    """What the tool returned, or why it did not run, as text."""
    parts: tuple[dict[str, Any], ...] = ()
    """The parts of a result that is more than plain text, each as it is stored."""
    is_error: bool
    """Whether it failed, was denied or was cancelled."""
    taint: tuple[str, ...]
    """Where text of others in `content` came from; none where it is the gateway's own."""
    decision: DecisionRow
    """What was decided before it ran."""


@operation("tools.call", also="tool.call", scope="chat", streams=True)
async def call_tool(invocation: Invocation, params: ToolCallParams) -> ToolCalled:
    """Call a tool without asking a model: judged, asked and recorded as a model's call would be."""
    origin = Origin(provenance=Provenance.EXTERNAL_USER, path=invocation.path)

    def sink(event: Event) -> None:
        # What the tool returned is the operation's result; what it has called itself is not.
        if event.type != "tool_result" or "within" in event.data:
            invocation.emit(event)

    made = await invocation.host.call_tool(
        invocation.principal,
        origin,
        params.to_address(),
        params.name,
        params.arguments,
        sink=sink,
    )
    result, decision = made.result, made.decision
    parts = () if isinstance(result.content, str) else result.content
    return ToolCalled(
        id=made.call.id,
        name=made.call.name,
        status=result.status,
        content=result.text,
        parts=tuple(map(CONTENT_FORMS.to_json, parts)),
        is_error=result.is_error,
        taint=tuple(sorted(result.taint)),
        decision=DecisionRow(
            effect="allow" if decision.allowed else "deny",
            reason=decision.reason,
            by=decision.by,
            rule=decision.rule,
        ),
    )
