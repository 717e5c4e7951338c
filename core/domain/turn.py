"""The turn: one message in, one answer out, and everything that is known on the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from secrets import randbits
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeAlias, TypeVar, overload
from urllib.parse import quote, unquote

from hookgate.core.domain.errors import TurnError
from hookgate.core.domain.events import Event
from hookgate.core.domain.messages import (
    CLEAN,
    Message,
    Provenance,
    Taint,
    ToolResultPart,
    ToolUse,
    join_taints,
    new_id,
)
from hookgate.core.domain.models import AS_CONFIGURED, ModelParameters, ModelRef, StopReason, Usage

if TYPE_CHECKING:
    from hookgate.core.domain.descriptors import Selection
    from hookgate.core.domain.models import Embed, SystemText
    from hookgate.core.domain.parts import Image, Raw
    from hookgate.core.domain.tools import Decision, Tool, ToolCall, ToolResult
    from hookgate.core.registry.snapshots import Snapshot

T = TypeVar("T")

Scope: TypeAlias = Literal["chat", "approve", "operate", "read"]
ALL_SCOPES: frozenset[Scope] = frozenset(("chat", "approve", "operate", "read"))

CredentialKind: TypeAlias = Literal["bearer", "x-api-key", "cookie", "subprotocol"]

REQUEST_OVERRIDE = "request_override"
"""The source of an outcome that the request itself has given."""

TurnEnding: TypeAlias = Literal["done", "awaiting_client", "refused", "failed", "cancelled"]


GUESTS = "wasm."
"""With this begins the name of each channel whose code is a stranger's and runs in the sandbox,
and of no other one: so nothing that such a channel makes up stands where anybody else speaks."""

CHANNELLESS = frozenset(("cli", "internal", "nested", "schedule"))
"""What stands in the place of a channel where none brings the message: no channel has such a name,
since it would speak in the sessions of the command line, of schedules or of turns within turns."""


def guest_channel(name: str) -> str:
    """Return the name of the channel of the sandbox's plugin `name`, as an address has it."""
    return f"{GUESTS}{name}"


def is_guest_channel(channel: str) -> bool:
    """Whether a channel of this name is that of a plugin of the sandbox."""
    return channel.startswith(GUESTS)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a message came from, as its frame claims and its principal may."""

    channel: str = "cli"
    account: str = "local"
    peer: str = "main"
    guild: str | None = None
    team: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """What a principal may claim to be; ``*`` stands for anything."""

    channel: str = "*"
    account: str = "*"
    peer: str = "*"

    def covers(self, address: Address) -> bool:
        """Whether `address` lies within this claim."""
        return (
            self.channel in ("*", address.channel)
            and self.account in ("*", address.account)
            and self.peer in ("*", address.peer)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who acts: what authentication came to.

    Attributes:
        id: A stable name, for example ``loopback`` or ``token:ops``.
        scopes: What it may do.
        bindings: The addresses that it may claim; none means none.
        key: The name or id of the key that let it in, never the secret; "" where there is none.
        agents: Globs of the names of the agents that it may speak to; None allows all.
        models: Globs of the models that may answer it, as ``provider/model``; None allows all.
        expires: When it ends, in UTC; None for never. Nothing is let in from then on.
        claims: What else is known of it, for plugins that go by it: names and JSON. The budgets
            and limits of a key stand here, see the page of the hook `authenticate`.
    """

    id: str
    scopes: frozenset[Scope] = frozenset()
    bindings: tuple[Claim, ...] = ()
    key: str = ""
    agents: tuple[str, ...] | None = None
    models: tuple[str, ...] | None = None
    expires: datetime | None = None
    claims: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def owner(cls, name: str = "loopback") -> Principal:
        """Return the principal that owns the gateway: all scopes, any address."""
        return cls(id=name, scopes=ALL_SCOPES, bindings=(Claim(),))

    def may_claim(self, address: Address) -> bool:
        """Whether this principal may speak as `address`."""
        return any(claim.covers(address) for claim in self.bindings)

    def may_use_agent(self, name: str) -> bool:
        """Whether this principal may speak to the agent called `name`."""
        return self.agents is None or any(fnmatchcase(name, glob) for glob in self.agents)

    def may_use_model(self, model: ModelRef) -> bool:
        """Whether `model` may answer this principal."""
        return self.models is None or any(fnmatchcase(str(model), glob) for glob in self.models)

    def has_expired(self, now: datetime) -> bool:
        """Whether this principal has ended by `now`."""
        return self.expires is not None and now >= self.expires

    def came_by(self, key: str) -> bool:
        """Whether this principal was let in by a key called `key` that a plugin knows."""
        return bool(key) and self.key == key and not self.id.startswith("token:")

    def may_see(self, address: Address) -> bool:
        """Whether this principal may see what is said at `address`: an operator may, anywhere."""
        return "operate" in self.scopes or self.may_claim(address)

    @property
    def sees_all(self) -> bool:
        """Whether nothing is hidden from this principal, of no address and of none at all."""
        return "operate" in self.scopes or Claim() in self.bindings

    def sees(self, session: str) -> bool:
        """Whether this principal may see what belongs to a session.

        Args:
            session: The session's key as text. What belongs to none, "" or another text, may
                be anybody's, so it is for those who see all.
        """
        if self.sees_all:
            return True
        try:
            key = SessionKey.parse(session)
        except ValueError:
            return False
        return self.may_see(Address(key.channel, key.account, key.peer))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Credential:
    """One credential as a request brought it: well-formed, and not checked yet.

    `repr` leaves the value out. Two of them are never equal: compare values with
    ``hmac.compare_digest``, or look their digests up.

    Attributes:
        kind: How it came: ``bearer`` in the header ``Authorization`` or in a socket's first
            frame, ``x-api-key`` in the header of that name, ``cookie``, or ``subprotocol`` of a
            WebSocket from a browser.
        value: The secret itself: 1 to 4,096 visible ASCII characters.
        name: The name of the cookie; "" for every other kind.
        client: The address of the client, as far as trusted proxies tell it.
    """

    kind: CredentialKind
    value: str = field(repr=False)
    name: str = ""
    client: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """How a turn came in. The entry path sets it.

    Attributes:
        provenance: The kind of entry path.
        path: The path itself: ``ws``, ``http``, ``cli``, ``nested``, ``webhook``, ...
        session: The session that a nested turn was started from.
        channel: The channel that a webhook came in by.
        tool: The tool that started a nested turn.
    """

    provenance: Provenance
    path: str = ""
    session: str = ""
    channel: str = ""
    tool: str = ""


@lru_cache(maxsize=4096)
def key_text(*parts: str) -> str:
    """Return the names of one identity as one text: no two identities have the same.

    All that is kept by a text of several names is kept by this one. A ``:`` joins the parts, and
    within them stands as ``%3A``, as all that is no letter, digit or one of `` @.+-_~/#`` does.
    """
    return ":".join(quote(part, safe=" @.+-_~/#") for part in parts)


class SessionKey(str):
    """A conversation: an agent and a peer. It is the text that is stored, its parts escaped.

    Attributes:
        agent: The agent's name.
        channel: The channel that the peer speaks by.
        account: The account in that channel.
        peer: Who speaks.
    """

    __slots__ = ("account", "agent", "channel", "peer")

    agent: str
    channel: str
    account: str
    peer: str

    def __new__(cls, agent: str, channel: str, account: str, peer: str) -> Self:
        """Make the text of the four parts."""
        key = super().__new__(cls, key_text(agent, channel, account, peer))
        key.agent, key.channel, key.account, key.peer = agent, channel, account, peer
        return key

    def __reduce__(self) -> tuple[type[Self], tuple[str, ...]]:
        return type(self), (self.agent, self.channel, self.account, self.peer)

    def __repr__(self) -> str:
        return f"SessionKey({super().__repr__()})"

    @classmethod
    @lru_cache(maxsize=4096)
    def parse(cls, text: str) -> Self:
        """Read what `str()` wrote.

        Raises:
            ValueError: It does not have four parts.
        """
        parts = text.split(":")
        if len(parts) != 4:
            raise ValueError(
                f"found session key {text!r}, expected `agent:channel:account:peer` "
                "with a `:` inside a part written as %3A"
            )
        return cls(*map(unquote, parts))


@dataclass(eq=False, slots=True)
class Fence:
    """One holder of a session's lane, as its writes show it to the store.

    The session's row has the number of the holder that wrote last. The first write of a holder
    needs the row to be as it was when this holder read the session, and leaves its own number;
    every later one needs to find that. So of holders that know nothing of one another, such as
    two gateways on one store, one writes, and the others are refused.

    Attributes:
        number: Nobody else's: two that read the same row would count on to the same next one.
        seen: The number that the row had, and how many messages had been written to the session,
            when the holder first read it; None where it has not.
        taken: Whether a write of this holder is known to be committed.
        recalled: What the store gave this holder from memory; its first write needs that to be
            what is there. None where it was read.
        lane: What a store that several gateways share knows the lane by; each write needs it to be
            this holder's still. None where there is one gateway.
        lost: Whether somebody else has the lane by now, or may have it.
    """

    number: int = field(default_factory=lambda: randbits(62) + 1)
    seen: tuple[int, int] | None = None
    taken: bool = False
    recalled: object = None
    lane: object = None
    lost: bool = False

    def read(self, number: int, messages: int) -> None:
        """Keep what the session's row has, at the first time that it is read."""
        if self.seen is None:
            self.seen = number, messages

    def stands(self, number: int, messages: int) -> bool:
        """Whether this holder may write to a session whose row has this now."""
        self.read(number, messages)
        return number == self.number or (not self.taken and self.seen == (number, messages))


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A configured assistant.

    Attributes:
        name: Its name in ``[agents.NAME]``.
        models: The models to try, in order.
        soul: Its standing instructions, Markdown.
        tools: Globs of tool names that it may call; None allows all. Held at call time.
        max_output_tokens: The most tokens of one answer.
        temperature: The sampling temperature; None leaves it to the provider.
        settings: The rest of its section, for plugins.
    """

    name: str
    models: tuple[ModelRef, ...]
    soul: str = ""
    tools: tuple[str, ...] | None = None
    max_output_tokens: int = 1024
    temperature: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """What an entry path asks the gateway to do.

    Attributes:
        content: The user's text; "" where only tool results come back.
        address: Where it comes from, as the frame claims.
        images: Pictures that belong to the text.
        agent: The agent to use instead of the one that the bindings choose.
        options: The request's own options, for planners. The flags in ``customFlags`` that a
            plugin has declared are checked before the turn begins: see `RequestFlag`.
        client_tools: Tools that the caller runs itself.
        client_history: The conversation so far, where the caller keeps it. A call in it counts as
            decided only where this gateway released it in the same session. A message with its
            `turn` set is of a turn of this gateway, of which the caller was not shown all: it is
            believed to say what it is tainted with.
        clean_results: Why the tool results in `client_history` are no foreign text, where whoever
            reads it knows; "" taints them.
        tool_results: Results of client-owned tools that an earlier turn waits for.
        model: The model to ask, ``provider/model``, instead of the agent's; of several the next
            one where one fails before it has said anything.
        parameters: How it is asked; what is set comes before the agent's own.
        system: Instructions of the caller, which follow the agent's own; in pieces where they came
            so.
        retries: How often a model is asked again that has failed before its first token, in the
            place of what is usual: 0 for a caller that sends its request again itself.
        taint: Where untrusted text in the message came from: what a channel passes on of
            strangers, for example.
        ephemeral: Whether nothing of the turn is to be kept but the record, the ledger and what
            taints the session. It waits for no lane.
        verbatim: Whether the model is to read the request as it is: without history, blocks of
            plugins and tools of the gateway.
        host_tools: Globs of those tools of the gateway that a verbatim request is offered as well,
            behind the client's; they run here.
        raw: The whole body that the request came as, for a provider of the same wire. Only of a
            verbatim request: what else is added to or left out of one would not be in it.
        observe: Whether calls of tools that the caller runs are decided on and recorded alone, and
            released as they were made, whatever was decided; nobody is asked. The gateway's own
            tools are held to what is decided, as always. For an entry path that was told so by
            whoever runs the gateway, never by the request.
        whole: Whether the answer is read at its end. Its pieces are told all the same, some
            tenths of a second together.
        embed: What is to be turned into vectors, in the place of an answer; they come in one event
            ``embedded`` whose value is an `Embedded`. Only of a verbatim request, whose messages
            hold the same as text.
        counts: Whether the provider is to count its tokens, in the place of an answer; they come in
            one event ``counted`` whose value is a `TokenCount`. Only of a verbatim request.
        once_held: Awaited each time that the turn has got its lane, before it reads or commits
            anything. What it raises ends the turn, and nothing of it is kept. For an entry path
            whose message may be another gateway's to answer by then: who holds the lane after this
            one finds what it has committed, and this one commits nothing more.
    """

    content: str
    address: Address = field(default_factory=lambda: Address())
    images: tuple[Image, ...] = ()
    agent: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    client_tools: tuple[Tool, ...] = ()
    client_history: tuple[Message, ...] | None = None
    clean_results: str = ""
    tool_results: tuple[ToolResultPart, ...] = ()
    model: str | tuple[str, ...] | None = None
    parameters: ModelParameters = AS_CONFIGURED
    system: str | tuple[SystemText, ...] = ""
    retries: int | None = None
    taint: Taint = CLEAN
    ephemeral: bool = False
    verbatim: bool = False
    host_tools: tuple[str, ...] = ()
    observe: bool = False
    whole: bool = False
    raw: Raw | None = field(default=None, repr=False)
    embed: Embed | None = field(default=None, repr=False)
    counts: bool = False
    once_held: Callable[[Turn], Awaitable[None]] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFlag:
    """Something that a request may ask of its turn, in ``options.customFlags``.

    Whoever reads one declares it: ``host.flags.apply("acme", [RequestFlag(...)])``. Then a value
    that means nothing is an error to the client before anything is committed, and `Turn.flags`
    has what the others mean.

    Attributes:
        name: Its name, such as ``toolFailureMode``.
        aliases: Other names. In none of them case, ``_`` and ``-`` count.
        values: What words mean, in lower case; ``true`` and ``false`` stand for JSON's own, too.
        read: Returns what any other value means, and raises `ValueError` where it means nothing.
        expected: What it can be, for people, where `read` takes more than the words.
    """

    name: str
    aliases: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    read: Callable[[Any], Any] | None = None
    expected: str = ""

    def meaning(self, value: Any) -> Any:
        """Return what `value` means.

        Raises:
            ValueError: Nothing; `wanted` says what would mean something.
        """
        word = str(value) if isinstance(value, bool) else value
        if isinstance(word, str) and (known := word.strip().lower()) in self.values:
            return self.values[known]
        if self.read is None:
            raise ValueError(f"expected {self.wanted}")
        return self.read(value)

    @property
    def wanted(self) -> str:
        """What it can be, for people."""
        return self.expected or " or ".join(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """How a turn is to run. `plan_turn` folds over it.

    Attributes:
        models: The models to try, in order.
        parameters: How they are asked, as far as that differs from the agent's own settings.
        failure_mode: What happens when discovery fails, or a tool that was allowed to run:
            ``fail_open`` runs on (the model is told of the tool's error), ``fail_closed`` ends
            the turn with an error that says so. What the model called wrongly, and what was
            denied, is no failure of a tool.
        tool_selection: ``all`` offers every tool that is not withheld; ``discovered`` those
            that a selector chose, and the always-on ones; ``auto`` all of them while their
            schemas take at most `whole_tool_tokens`, and the discovered ones beyond. Where what
            was discovered is not known, since a selector failed, or holds no tool though other
            things fit, as many tools are offered as `fallback_tool_tokens` allow. Where nothing
            fits, the always-on ones are offered alone.
        history: ``server`` adds the stored conversation; ``client`` takes the request's own.
        history_turns: How many turns of history at most.
        discovery: Whether selectors run.
        discovery_retries: Further attempts at a selector that has raised.
        discovery_retry_delay: Seconds before the first of them, doubled for each one after it.
        kinds: Kinds that selectors may choose from; None for all.
        category: The category that selectors may choose from; "" for all.
        only_available: Whether selectors leave out what is not available.
        prompt_context: Whether discovery adds its text to the context.
        max_iterations: Rounds of tools at most.
        context_tokens: The context's hard budget, in tokens.
        retries: Further attempts at one model, before its first token, where the failure
            may pass by itself.
        retry_delay: Seconds before the first further attempt, doubled for each one after
            it; a provider's own ``Retry-After`` comes before, up to `retry_limit`.
        retry_limit: The longest wait before a further attempt, in seconds.
        whole_tool_tokens: Tokens of all schemas up to which ``auto`` offers every tool.
        fallback_tool_tokens: The cap on tool schemas when discovery falls back to all.
        widened: Whether all tools are offered under that cap, those that were discovered first,
            where otherwise the latter would be alone.
        deadline: Seconds that the whole turn may take.
    """

    models: tuple[ModelRef, ...] = ()
    parameters: ModelParameters = AS_CONFIGURED
    failure_mode: Literal["fail_open", "fail_closed"] = "fail_open"
    tool_selection: Literal["auto", "all", "discovered"] = "auto"
    history: Literal["server", "client"] = "server"
    history_turns: int = 5
    discovery: bool = True
    discovery_retries: int = 1
    discovery_retry_delay: float = 0.15
    kinds: frozenset[str] | None = None
    category: str = ""
    only_available: bool = True
    prompt_context: bool = True
    max_iterations: int = 10
    context_tokens: int = 5000
    retries: int = 1
    retry_delay: float = 0.15
    retry_limit: float = 10.0
    whole_tool_tokens: int = 2000
    fallback_tool_tokens: int = 4000
    widened: bool = False
    deadline: float = 600.0


@dataclass(frozen=True, slots=True)
class TurnAnswer:
    """The answer of a turn that a plugin gives, so that no model is asked.

    Attributes:
        text: What is answered.
        taint: Where untrusted text in it came from.
    """

    text: str
    taint: Taint = CLEAN


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How well a turn went.

    Attributes:
        status: success, partial or failed.
        score: 0 to 1.
        source: Who says so: ``heuristic``, `REQUEST_OVERRIDE`, or a plugin's name.
        reason: Why, for people.
    """

    status: Literal["success", "partial", "failed"]
    score: float
    source: str = "heuristic"
    reason: str = ""

    @property
    def claimed(self) -> bool:
        """Whether the request itself says so. Count it, and learn nothing from it."""
        return self.source == REQUEST_OVERRIDE


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """A tool call of this turn that is over."""

    call: ToolCall
    decision: Decision
    result: ToolResult


InnerCaller: TypeAlias = "Callable[[Turn, str, Mapping[str, Any], Taint], Awaitable[FinishedCall]]"
"""What makes a call within a turn."""


HERE: ContextVar[tuple[Turn, Any] | None] = ContextVar("hookgate_here", default=None)
"""The turn that the code here runs in, and the call in it that is judged or run, if one is; None
outside of turns, and in what a plugin has spawned."""

BEGUN_IN: ContextVar[tuple[Turn, Any] | None] = ContextVar("hookgate_begun_in", default=None)
"""What `HERE` was where a plugin has spawned the work that is done here: it may know all that was
read there."""


class TurnKey(Generic[T]):
    """A typed key of a turn's scratch space. Make one per module, compare by identity."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"TurnKey({self.name!r})"


@dataclass(eq=False, slots=True, kw_only=True)
class Turn:
    """One message and what becomes of it. Plugins read it; the loop writes it.

    ``turn[KEY]`` is typed scratch that ends with the turn.

    Attributes:
        id: Unique.
        session: The conversation.
        agent: Who answers.
        address: Where the message came from.
        principal: Who sent it.
        origin: How it came in.
        message: What was said.
        snapshot: The tools, capabilities and cards of this turn; stays as it is.
        plan: How the turn runs.
        options: The request's ``options``, as it came.
        flags: What the request's flags mean, by the names of those `RequestFlag`.
        unknown_flags: Names in its ``customFlags`` that nobody has declared.
        system: Instructions of the request, which follow the agent's own.
        whole: Whether its answer is read at its end; see `TurnRequest`.
        verbatim: Whether the model reads the request as it came; see `TurnRequest`.
        host_tools: Globs of the gateway's tools that it offers all the same.
        observe: Whether its client's calls are released whatever is decided; see `TurnRequest`.
        ephemeral: Whether nothing of it is kept: learn nothing from it, and remember nothing.
        raw: The body that the request came as, where it is passed on.
        tags: Router tags.
        withheld: Ids of the capabilities that were taken away from this turn.
        selections: What selectors chose, by id, with the best score of each.
        degraded: What the turn goes on without, though it was planned: why, by a code for each,
            such as ``discovery_failed``. See `degrade`.
        stage: ``start``, or ``after_tool`` once a tool has run.
        iteration: 0 in the first round, one more after each round of tools.
        history: The stored messages that the context drew from, oldest first.
        messages: This turn's own messages, the user's first.
        offered: The tools that the model was offered in this round, by name.
        calls: The tool calls that are over, in the order in which they ended.
        pending: The calls that wait for their client, as it has to run them, where the turn ended
            ``awaiting_client``.
        usage: The tokens of all model calls so far.
        client: Takes the events for the client that the turn was started by, and no others.
        unheard: Is told of an event that `client` has failed to take.
        parent: The turn that started this one.
        depth: 0 in a turn that a person started.
        fence: Who holds the lane: what every write to the conversation carries.
        stop: Why the model stopped that was asked last, where it did.
        ending: How it ended, once it has.
        error: What it ended with, where it failed.
        takes_calls: Whether tools can be called within it: from when it is known what it may use
            until it ends.
        started: When, in UTC.
    """

    session: SessionKey
    agent: Agent
    address: Address
    principal: Principal
    origin: Origin
    message: Message
    snapshot: Snapshot
    plan: TurnPlan
    sink: Callable[[Event], None] = field(repr=False, default=lambda _: None)
    client: Callable[[Event], None] = field(repr=False, default=lambda _: None)
    unheard: Callable[[Event, Exception], None] = field(repr=False, default=lambda *_: None)
    id: str = field(default_factory=lambda: new_id("turn"))
    options: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)
    unknown_flags: tuple[str, ...] = ()
    system: str = ""
    whole: bool = False
    verbatim: bool = False
    host_tools: tuple[str, ...] = ()
    observe: bool = False
    ephemeral: bool = False
    raw: Raw | None = field(repr=False, default=None)
    client_tools: tuple[Tool, ...] = ()
    tags: frozenset[str] = frozenset()
    withheld: frozenset[str] = frozenset()
    selections: Mapping[str, Selection] = field(default_factory=dict)
    degraded: dict[str, str] = field(default_factory=dict)
    stage: Literal["start", "after_tool"] = "start"
    iteration: int = 0
    history: tuple[Message, ...] = ()
    messages: list[Message] = field(default_factory=list)
    offered: dict[str, Tool] = field(default_factory=dict)
    calls: list[FinishedCall] = field(default_factory=list)
    pending: tuple[ToolUse, ...] = ()
    usage: Usage = field(default_factory=Usage)
    parent: Turn | None = field(repr=False, default=None)
    depth: int = 0
    fence: Fence = field(default_factory=Fence, repr=False)
    stop: StopReason | None = None
    ending: TurnEnding | None = None
    error: TurnError | None = None
    takes_calls: bool = False
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    caller: InnerCaller | None = field(repr=False, default=None)
    extra_taint: Taint = CLEAN
    _events: int = 0
    _numbered: int = 0
    _scratch: dict[TurnKey[Any], Any] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        # What was said has no place in a log line, and a snapshot would fill pages.
        state = self.ending or "running"
        return f"<Turn {self.id} agent={self.agent.name} session={self.session} {state}>"

    @property
    def taint(self) -> Taint:
        """The union of the taints of all that this turn has read so far. Only grows."""
        return join_taints(
            [
                self.extra_taint,
                *[message.taint for message in self.history],
                *[message.taint for message in self.messages],
            ]
        )

    @property
    def answer(self) -> str:
        """The text of the last assistant message of this turn, or ""."""
        for message in reversed(self.messages):
            if message.role == "assistant":
                return message.text
        return ""

    @property
    def root(self) -> Turn:
        """The turn that a message from outside has started: itself, or whose call it is of."""
        turn = self
        while turn.parent is not None:
            turn = turn.parent
        return turn

    def __getitem__(self, key: TurnKey[T]) -> T:
        value: T = self._scratch[key]
        return value

    def __setitem__(self, key: TurnKey[T], value: T) -> None:
        self._scratch[key] = value

    def __contains__(self, key: TurnKey[Any]) -> bool:
        return key in self._scratch

    @overload
    def get(self, key: TurnKey[T]) -> T | None: ...

    @overload
    def get(self, key: TurnKey[T], default: T) -> T: ...

    def get(self, key: TurnKey[Any], default: Any = None) -> Any:
        """Return ``turn[key]``, or `default` where nothing was set."""
        return self._scratch.get(key, default)

    async def call(
        self, name: str, arguments: Mapping[str, Any], *, taint: Taint = CLEAN
    ) -> FinishedCall:
        """Call a tool within this turn: from a tool, a provider or a hook that runs in it.

        It needs no lane, for the turn holds that. It is judged, asked about, recorded and finished
        as a call of the model's, and stands in `calls`; no model reads it. It may use what the
        turn may use, offered or not. What does not run has a result that says so. See
        ``docs/turns.md``.

        Args:
            name: The tool.
            arguments: What it is called with.
            taint: Where untrusted text in the arguments came from, beside what the turn and the
                tool that calls have read.

        Raises:
            TurnError: The turn takes no calls yet, or none any more; it has had
                ``turn.max_inner_calls``; or the arguments are no JSON.
            LaneHeldError: It would nest deeper than ``turn.max_depth``.
            TurnCancelledError: The turn ended before the call had.
            HookError: A required hook failed, which ends the turn as well.
        """
        if self.caller is None:
            raise TurnError(
                f"{self!r} was not started by a gateway, so nothing can be called within it",
                code="no_calls_now",
                action="call within a turn that `host.start_turn` has started",
            )
        return await self.caller(self, name, arguments, taint)

    def next_index(self) -> int:
        """Return the place of one more call among the calls of this turn. For the loop."""
        self._numbered += 1
        return self._numbered - 1

    def degrade(self, code: str, why: str) -> None:
        """Say that the turn goes on with less than was planned; a code's first reason counts.

        A turn that went so is judged a little worse. Nobody is told by this alone.
        """
        self.degraded.setdefault(code, why)

    def emit(self, event: Event) -> None:
        """Send `event` to the client, who sees all of it, and to the bus; never waits."""
        self._events += 1
        named = self.named(event)
        try:
            self.client(named)
        except Exception as error:  # noqa: BLE001 - who listens badly ends no turn
            self.unheard(named, error)
        self.sink(named)

    def tell(self, event: Event) -> None:
        """Send `event` to the client alone: to whoever has started the turn; never waits."""
        self._events += 1
        named = self.named(event)
        try:
            self.client(named)
        except Exception as error:  # noqa: BLE001
            self.unheard(named, error)

    def say(self, kind: str, text: str, value: Any = None) -> None:
        """Emit some text of the answer, of which many pieces come. For the loop."""
        self._events += 1
        seen, now = self._may_be_seen_by, perf_counter()
        data, session = {"text": text}, str(self.session)
        event = Event(kind, data, self.id, session, "chat", now, seen, self._events, value)
        try:
            self.client(event)
        except Exception as error:  # noqa: BLE001
            self.unheard(event, error)
        self.sink(event)

    def _may_be_seen_by(self, principal: Principal) -> bool:
        return principal.may_see(self.root.address)

    def _narrowed(self, audience: Callable[[Principal], bool]) -> Callable[[Principal], bool]:
        return lambda principal: self._may_be_seen_by(principal) and audience(principal)

    def named(self, event: Event) -> Event:
        """Return `event` as this turn's: for those who may see where its message came in.

        It has the number of the event that was sent last.
        """
        audience = event.audience
        seen = self._may_be_seen_by if audience is None else self._narrowed(audience)
        return Event(
            event.type,
            event.data,
            self.id,
            str(self.session),
            event.scope,
            perf_counter(),
            seen,
            self._events,
            event.value,
        )
