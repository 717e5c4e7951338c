"""Tools, calls of them, and the verdicts on those calls."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.errors import ToolDefinitionError
from hookgate.core.domain.messages import CLEAN, Taint
from hookgate.core.domain.parts import Content, WirePart, plain_text
from hookgate.core.domain.strict_json import SchemaCheck, canonical, compile_schema

if TYPE_CHECKING:
    from hookgate.core.domain.turn import Turn

ToolOwner: TypeAlias = Literal["host", "client"]
Sandbox: TypeAlias = Literal["python", "wasm", "remote", "client"]
Recheck: TypeAlias = "Callable[[Turn, ToolCall], str]"
EffectName: TypeAlias = Literal["allow", "ask", "deny"]
_EFFECT_NAMES: tuple[EffectName, ...] = ("allow", "ask", "deny")
Answer: TypeAlias = Literal["", "allowed", "denied", "expired", "withdrawn"]
Would: TypeAlias = Literal["", "allow", "ask", "deny", "rewrite"]


LONGEST_ASK = 604_800.0
"""Seconds that somebody may be given to answer: a week, as long as a turn may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool call came to.

    Attributes:
        content: What the model gets: plain text, or a tuple of parts (text, pictures, sound,
            documents, links) in their order.
        is_error: Whether the call failed, was denied or was cancelled.
        taint: Where untrusted text in `content` came from. What a tool with
            ``reads_external_data`` (true or undeclared) returns is tainted by the loop.
        reveal: Names of tools of the turn's snapshot that the next model call may use.
        data: The same result for programs; not shown to the model.
        status: ``done``, ``failed``, ``denied``, ``cancelled`` or ``timeout``.
    """

    content: Content
    is_error: bool = False
    taint: Taint = CLEAN
    reveal: tuple[str, ...] = ()
    data: Any = None
    status: Literal["done", "failed", "denied", "cancelled", "timeout"] = "done"

    def __post_init__(self) -> None:
        # A list is as good to write, and could change under whoever has checked it.
        if isinstance(self.content, list):
            object.__setattr__(self, "content", tuple(self.content))

    @property
    def text(self) -> str:
        """The content as text: what is none, such as a picture, is named in its place."""
        return plain_text(self.content)

    @classmethod
    def error(
        cls,
        content: str,
        *,
        status: Literal["failed", "denied", "cancelled", "timeout"] = "failed",
    ) -> ToolResult:
        """Return an error result that tells the model what went wrong."""
        return cls(content=content, is_error=True, status=status)


ToolRunner: TypeAlias = "Callable[[Turn, Mapping[str, Any]], Awaitable[ToolResult | str]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(WirePart):
    """Something that a model can call: schema, flags, owner and runner in one object.

    Attributes:
        name: 1 to 64 characters of ``[A-Za-z0-9_-]``; unique in a gateway.
        description: What it does, for the model.
        schema: JSON Schema (2020-12) of its arguments, an object.
        flags: What it does to the world.
        run: Runs it: ``run(turn, arguments)``; None for client-owned tools only.
        owner: ``host`` (the gateway runs it) or ``client`` (a compat endpoint's caller does).
        plugin: The plugin that brought it; stamped by the gateway.
        sandbox: Where it runs.
        module: SHA-256 (hex) of the code that runs it, where that is one file; "" elsewhere.
        always_on: Offered on every turn, whatever selection says.
        timeout: Seconds that a call may take.
        category: One word, for people and discovery.
        tags: Words that it is found by.
        examples: Messages that ask for it, as people would write them: 8 at most, of 200
            characters. It is found by them, and no model reads them.
        idempotent: Whether a call that is made again with the same arguments changes nothing
            more, so that one whose end is not known may be repeated; None where nobody has said,
            which is never read as yes.
        admitted: Whether the gateway has checked this very value; `replace` makes another one.
        counted: A counter, and the tokens that it has found in `declaration`, of an admitted tool.
        declared: The `declaration`, once somebody has asked an admitted tool for it.
        offered: What it is offered as, where a request brings it, and nobody believes its flags.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    flags: Flags = field(default_factory=Flags)
    run: ToolRunner | None = None
    owner: ToolOwner = "host"
    plugin: str = ""
    sandbox: Sandbox = "python"
    module: str = ""
    always_on: bool = False
    timeout: float = 30.0
    category: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    idempotent: bool | None = None
    admitted: bool = field(default=False, init=False, repr=False, compare=False)
    counted: tuple[object, int] | None = field(default=None, init=False, repr=False, compare=False)
    offered: Tool | None = field(default=None, init=False, repr=False, compare=False)
    declared: str = field(default="", init=False, repr=False, compare=False)
    _check: SchemaCheck | None = field(default=None, init=False, repr=False, compare=False)
    _digest: str = field(default="", init=False, repr=False, compare=False)

    @property
    def declaration(self) -> str:
        """What a request says of it, as JSON; kept of a tool that was admitted and so stays."""
        if self.declared:
            return self.declared
        named = {"name": self.name, "description": self.description, "schema": dict(self.schema)}
        text = canonical(named).decode()
        if self.admitted:
            object.__setattr__(self, "declared", text)
        return text

    def wrong_arguments(self, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Return what of `arguments` does not fit the schema, in sentences; nothing wrong: []."""
        check = self._check
        if check is None:
            try:
                check = compile_schema(self.schema, tool=self.name)
            except ToolDefinitionError as error:
                return [f"the tool's own schema cannot be used: {error}"]
            if self.admitted:
                object.__setattr__(self, "_check", check)
        return check(arguments)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of `identity`, which model and policy see; kept of an admitted tool."""
        if self._digest:
            return self._digest
        found = hashlib.sha256(canonical(self.identity)).hexdigest()
        if self.admitted:
            object.__setattr__(self, "_digest", found)
        return found

    @property
    def identity(self) -> dict[str, Any]:
        """What makes it this tool and no other, JSON-ready: text, schema, flags, code."""
        # Left out where it is not said: a tool that says nothing is the one that it was.
        said = {} if self.idempotent is None else {"idempotent": self.idempotent}
        return {
            **said,
            "name": self.name,
            "description": self.description,
            "schema": self.schema,
            "flags": self.flags.to_json(),
            "proven": sorted(self.flags.proven),
            "owner": self.owner,
            "sandbox": self.sandbox,
            "module": self.module,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCallFlags:
    """What a plugin knows of one call of a tool that its client runs, from its arguments.

    Attributes:
        flags: What this call does to the world; None is what the plugin cannot tell.
        why: What it rests on, for whoever is asked, at most 400 characters.
        confined: Whether all that it writes stays in the client's workspace.
        family: What calls like this one have in common, as data that a person is shown before
            they are allowed together, such as ``{"program": "git push", "remote": "origin"}``: at
            most 8 texts of 300 characters. Empty where nothing may be allowed but this call.
    """

    flags: Flags
    why: str = ""
    confined: bool = False
    family: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if any(value not in (True, False, None) for value in self.flags.to_json().values()):
            raise ValueError("ClientCallFlags.flags: expected true, false or None for each flag")
        if len(self.why) > 400:
            raise ValueError("ClientCallFlags.why: expected a text of at most 400 characters")
        texts = [text for pair in self.family.items() for text in pair]
        if len(texts) > 16 or any(len(one) > 300 for one in texts):
            raise ValueError("ClientCallFlags.family: expected at most 8 texts of 300 characters")

    @classmethod
    def joined(cls, said: Sequence[ClientCallFlags]) -> ClientCallFlags | None:
        """Return the strictest of what several plugins say; None where nobody says anything."""
        if not said:
            return None
        first = said[0]
        return cls(
            flags=Flags.strictest([one.flags for one in said]),
            why="; ".join(one.why for one in said if one.why)[:400],
            confined=all(one.confined is True for one in said),
            family=first.family if all(one.family == first.family for one in said) else {},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of one tool, as policy judges it and as the tool gets it.

    Attributes:
        id: The model's id for the call.
        tool: The tool.
        arguments: The arguments, checked against the tool's schema.
        depth: Nesting: 0 in a turn that a person started, one more within each call.
        index: The call's place among all calls of this turn, from 0.
        within: The id of the call in which a tool made this one; "" for a call of the model's.
        rewritten_by: The plugins that rewrote the arguments, in order.
        said: What plugins know of this call, where its tool is a client's and one of them knows
            it; see `describe_client_call`.
    """

    id: str
    tool: Tool
    arguments: Mapping[str, Any]
    depth: int = 0
    index: int = 0
    within: str = ""
    rewritten_by: tuple[str, ...] = ()
    said: ClientCallFlags | None = None

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool.name

    @property
    def flags(self) -> Flags:
        """The tool's flags, or what is known of this very call. Never milder than a request's."""
        if self.said is None:
            return self.tool.flags
        own = self.tool.flags.to_json()
        declared = Flags.from_mapping({name: bool(value) for name, value in own.items()})
        return Flags.strictest((self.said.flags, declared))

    @property
    def canonical(self) -> bytes:
        """The arguments in canonical JSON (RFC 8785 order and spacing)."""
        return canonical(self.arguments)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the tool's digest and the canonical arguments."""
        return hashlib.sha256(self.tool.digest.encode() + b"\n" + self.canonical).hexdigest()


class Effect(IntEnum):
    """What a verdict does. Ordered by strictness: the strictest of all wins."""

    ALLOW = 0
    ASK = 1
    DENY = 2

    @property
    def word(self) -> EffectName:
        """Its name, as settings, rules, records and the wire have it."""
        return _EFFECT_NAMES[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a person is asked before a call runs.

    Attributes:
        title: At most 80 characters.
        description: The whole story; every byte is shown.
        severity: info, warning or critical.
        timeout: Seconds until nobody's answer means deny; at most 604,800, which is a week. The
            question ends with its turn as well, whose deadline it does not move.
        choices: The decisions that are offered; ``deny`` is one of them, named or not.
        approvers: Lists of who may answer, as whoever resolves it knows them; somebody on all
            of them may. Without any, that one decides.
    """

    title: str
    description: str = ""
    severity: Literal["info", "warning", "critical"] = "warning"
    timeout: float = 120.0
    choices: tuple[Literal["allow-once", "allow-always", "deny"], ...] = ("allow-once", "deny")
    approvers: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if not 0 < len(self.title) <= 80:
            raise ValueError(f"Ask.title has {len(self.title)} characters: expected 1 to 80")
        if not 0 < self.timeout <= LONGEST_ASK:
            raise ValueError(
                f"Ask.timeout is {self.timeout} s: expected more than 0, at most {LONGEST_ASK:g}"
            )
        if "deny" not in self.choices:
            # Whoever is asked must be able to say no.
            object.__setattr__(self, "choices", (*self.choices, "deny"))

    @classmethod
    def joined(cls, asks: Sequence[tuple[str, Ask | None]]) -> Ask | None:
        """Return one question that holds all of `asks`.

        Whoever answers sees every plugin's question. The shortest limit and the highest
        severity count, only what all of them offer can be chosen, and only somebody whom each
        of them would take may answer.

        Args:
            asks: Plugins and their questions, in the order in which they are shown.
        """
        told = [(plugin, ask) for plugin, ask in asks if ask is not None]
        if len(told) < 2:
            return told[0][1] if told else None
        first = told[0][1]
        return cls(
            title=f"{len(told)} plugins ask before this call",
            description="\n\n".join(
                f"{plugin}: {ask.title}\n{ask.description}".rstrip() for plugin, ask in told
            ),
            severity=max((ask.severity for _, ask in told), key=_SEVERITIES.index),
            timeout=min(ask.timeout for _, ask in told),
            choices=tuple(
                choice for choice in first.choices if all(choice in ask.choices for _, ask in told)
            ),
            approvers=tuple(dict.fromkeys(one for _, ask in told for one in ask.approvers)),
        )


_SEVERITIES = ("info", "warning", "critical")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One plugin's judgement of one call. Build it with `allow`, `deny`, `ask` or `rewrite`.

    Attributes:
        effect: Allow, ask or deny.
        reason: Why, for the model, the audit and people. Required for a denial.
        ask: What to ask; present exactly when `effect` is ASK.
        arguments: New arguments; the judging then starts again on them.
        rule: The rule that led to it, if there is one.
        plugin: Who judged; stamped by the loop.
        recheck: Asked once more right before the call runs, which may be minutes later where
            another call of the message waits for a person: returns why the verdict no longer
            stands, or "". Without it, it stands.
    """

    effect: Effect
    reason: str = ""
    ask_for: Ask | None = None
    arguments: Mapping[str, Any] | None = None
    rule: str = ""
    plugin: str = ""
    recheck: Recheck | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if (self.effect is Effect.ASK) != (self.ask_for is not None):
            raise ValueError("a Verdict has `ask_for` exactly when its effect is ASK")
        if self.effect is Effect.DENY and not self.reason:
            raise ValueError("a denial needs a reason: Verdict.deny('why')")

    @classmethod
    def allow(cls, reason: str = "", *, rule: str = "", recheck: Recheck | None = None) -> Verdict:
        """Let the call run, if nobody is stricter."""
        return cls(effect=Effect.ALLOW, reason=reason, rule=rule, recheck=recheck)

    @classmethod
    def deny(cls, reason: str, *, rule: str = "") -> Verdict:
        """Do not let the call run. `reason` is shown to the model."""
        return cls(effect=Effect.DENY, reason=reason, rule=rule)

    @classmethod
    def ask(
        cls, ask: Ask, *, reason: str = "", rule: str = "", recheck: Recheck | None = None
    ) -> Verdict:
        """Ask a person first."""
        reason = reason or ask.title
        return cls(effect=Effect.ASK, reason=reason, ask_for=ask, rule=rule, recheck=recheck)

    @classmethod
    def rewrite(cls, arguments: Mapping[str, Any], *, reason: str = "", rule: str = "") -> Verdict:
        """Let the call run with other arguments; everybody judges those again."""
        return cls(effect=Effect.ALLOW, reason=reason, arguments=arguments, rule=rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What became of the verdicts on one call.

    Attributes:
        effect: ALLOW or DENY; an ASK has been resolved by now.
        reason: Why.
        by: The plugin whose verdict decided, ``core``, or the principal who answered.
        rule: The rule that led to it, if there is one.
        verdicts: All verdicts of the last round.
        rounds: How many rounds of judging there were.
        asked: What was asked, if somebody was.
        answer: What became of the question: ``allowed`` or ``denied`` by somebody, ``expired``
            at its time limit, ``withdrawn`` where it could no longer be answered; "" where
            nobody was asked.
        would: What had become of a call that is only observed, and let through whatever was
            decided: ``allow``, ``ask``, ``deny`` or ``rewrite``; "" where the decision holds.
    """

    effect: Effect
    reason: str = ""
    by: str = "core"
    rule: str = ""
    verdicts: tuple[Verdict, ...] = ()
    rounds: int = 1
    asked: Ask | None = None
    answer: Answer = ""
    would: Would = ""

    @property
    def allowed(self) -> bool:
        """Whether the call runs."""
        return self.effect is Effect.ALLOW

    @classmethod
    def deny(cls, reason: str, *, by: str = "core", asked: Ask | None = None) -> Decision:
        """Return a denial."""
        return cls(effect=Effect.DENY, reason=reason, by=by, asked=asked)

    @classmethod
    def allow(cls, reason: str = "", *, by: str = "core", asked: Ask | None = None) -> Decision:
        """Return a permission."""
        return cls(effect=Effect.ALLOW, reason=reason, by=by, asked=asked)
