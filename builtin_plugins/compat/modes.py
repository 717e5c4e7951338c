"""What a request's model means: a mode, and what is asked in it.

In **guard** a model reads what the client has sent. In **agent** an agent of the gateway's answers:
its instructions, its tools, what it remembers; the client's system text stands below its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hookgate import (
    Host,
    Image,
    Message,
    ModelRef,
    Opaque,
    Part,
    Principal,
    Text,
    ToolDefinitionError,
    ToolResultPart,
    Turn,
    TurnRequest,
    WireError,
    join_taints,
)
from hookgate.builtin_plugins.compat.fields import Asked, bad, kind_of
from hookgate.builtin_plugins.compat.models import Models, may_ask
from hookgate.builtin_plugins.compat.settings import MISFIT, Mode
from hookgate.builtin_plugins.compat.wires import chat_reader, messages_reader, responses_reader
from hookgate.clients import wire_error
from hookgate.wire import StrictJSONError, compile_schema, loads

MODES: tuple[Mode, ...] = ("guard", "assist", "agent")
"""From the narrowest to the widest: what the gateway adds to a request."""
GUARD, AGENT = "guard", "agent"

INSTRUCTIONS = {
    chat_reader.WIRE: "messages",
    responses_reader.WIRE: "instructions",
    messages_reader.WIRE: "system",
}
"""The field of each wire that has a client's instructions."""

HEADER = "x-hookgate-mode"
SYSTEM = ("system", "developer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """What a request means by its model.

    Attributes:
        mode: The mode that it is asked in.
        refs: The models, in the order in which they are asked; none for an agent's own.
        agent: The agent; "" in the other modes.
        tools: Globs of the gateway's tools that are offered behind the client's.
    """

    mode: Mode
    refs: Sequence[ModelRef] = ()
    agent: str = ""
    tools: tuple[str, ...] = ()


def meant(
    models: Models, principal: Principal, name: str, provider: str, session: str, wanted: str
) -> Meant:
    """Return what a request means by its model.

    Args:
        models: The models of the gateway.
        principal: Who asks.
        name: The model as the client names it.
        provider: The provider of models without one.
        session: The client's session; see `Alias.models`.
        wanted: The mode that the request asks for in a header; "" where it does not.

    Raises:
        WireError: There is no such model, the principal may not ask it, or the request asks for
            more than its mode.
    """
    alias, agent = models.alias(name), models.agent(name, principal)
    mode: Mode = alias.mode if alias is not None else "agent" if agent else "guard"
    refs: Sequence[ModelRef] = ()
    if not agent or (alias is not None and alias.to):
        refs = models.refs(name, provider, principal, session)
    tools = alias.tools if alias is not None else ()
    found = Meant(mode=mode, refs=refs, agent=agent, tools=tools)
    if wanted:
        found = _narrowed(found, wanted, name)
    check_mode(principal, found.mode)
    return found


def check_mode(principal: Principal, mode: Mode) -> None:
    """Refuse a key that may not ask in a mode.

    Raises:
        WireError: It may not.
    """
    if not may_ask(principal, mode):
        modes = ", ".join(principal.claims["modes"]) or "none"
        raise wire_error(
            "forbidden",
            f"{principal.id} may not ask in the mode {mode!r}: it has {modes}",
            action="name a model of one of its modes, or have its key changed",
        )


def _narrowed(found: Meant, wanted: str, name: str) -> Meant:
    if wanted not in MODES:
        raise bad("", f"found {HEADER}: {wanted[:80]!r}, expected one of {', '.join(MODES)}")
    mode: Mode = MODES[MODES.index(wanted)]
    if mode == found.mode:
        return found
    if MODES.index(mode) > MODES.index(found.mode):
        raise wire_error(
            "forbidden",
            f"{name[:200]!r} is asked in the mode {found.mode!r}, and a request can only narrow it",
            action=f"leave {HEADER} out, or name a model of the mode {wanted!r}",
        )
    if found.mode == AGENT:
        raise bad(
            "model",
            f"{name[:200]!r} is an agent, which is asked in the mode {AGENT!r} alone",
            action=f"name a model, or leave {HEADER} out",
        )
    return Meant(mode=mode, refs=found.refs)


def check_choice(asked: Asked) -> None:
    """Refuse to force a tool of the gateway's: its model would call it again and again.

    Raises:
        WireError: The request does.
    """
    choice = asked.parameters.tool_choice
    if choice in (None, "auto", "none"):
        return
    names = [tool.name for tool in asked.tools]
    if choice in names or (choice == "required" and names):
        return
    raise bad(
        "tool_choice",
        f"found {choice[:80]!r}, and a tool that is forced is one that the request brings",
        action=f"name one of {', '.join(names)[:400] or 'its own, of which there are none'}",
    )


# -- an agent's ------------------------------------------------------------------------


def agent_request(host: Host, asked: Asked, system_tokens: int) -> TurnRequest:
    """Return what an agent is asked, without where it comes from.

    Args:
        host: The host.
        asked: The request.
        system_tokens: The most tokens that the client's instructions may take.

    Raises:
        WireError: An agent cannot take it.
    """
    _check(asked)
    check_choice(asked)
    check_schema(asked)
    system, messages = _conversation(asked)
    if (found := host.tokens.count(system)) > system_tokens:
        raise bad(
            INSTRUCTIONS[asked.wire],
            f"the instructions take {found:,} tokens, expected {system_tokens:,} at most: they "
            "stand below those of the agent",
            action="shorten them, or raise `system_tokens` in [plugin.compat]",
        )
    if messages and messages[-1].role == "assistant" and not asked.is_kept_here:
        raise bad(
            "input" if asked.wire == responses_reader.WIRE else "messages",
            "the last message is the assistant's, and an agent begins its answers itself",
            action="end with a message of the user, or with the results of calls",
        )
    stored = asked.body.get("store") is not False
    if asked.is_kept_here and not stored:
        raise bad(
            "store", "found false beside `conversation`, which is kept", action="leave it out"
        )
    given = _brought(messages) if asked.is_kept_here else _told(messages)
    return replace(
        given,
        ephemeral=not stored,
        client_tools=asked.tools,
        parameters=asked.parameters,
        system=system,
        whole=not asked.stream,
    )


def _check(asked: Asked) -> None:
    if asked.previous:
        raise bad(
            "previous_response_id",
            "answers are not kept by their ids",
            action="name a `conversation` in each request, or send all of it in `input`",
        )
    if asked.hosted:
        raise bad(
            "tools",
            f"found {asked.hosted[0]!r}, which a provider would run, and an agent's are run here",
            action="leave it out",
        )
    placed = tuple(f"with the role {role!r}" for role in SYSTEM)
    foreign = [one for one in asked.foreign if not one.endswith(placed)] + [*asked.free_text]
    if foreign:
        raise bad(
            foreign[0], "an agent has no word for it, so it would be lost", action="leave it out"
        )


def _conversation(asked: Asked) -> tuple[str, list[Message]]:
    """Return the client's instructions, and its messages as an agent's conversation has them."""
    texts = [piece.text for piece in asked.system]
    found: list[Message] = []
    for message in asked.messages:
        if message.turn:
            found.append(message)
        elif _role(message) in SYSTEM:
            texts.append(message.text)
        else:
            for made in _divided(message):
                _add(found, made)
    return "\n\n".join(text for text in texts if text.strip()), found


def _role(message: Message) -> object:
    data = message.raw.data if message.raw is not None else None
    return data.get("role") if isinstance(data, dict) else None


def _divided(message: Message) -> Iterable[Message]:
    """Return a message in the roles that a conversation has: results are no part of a user's.

    What only a provider reads stays out: it is not the agent's.
    """
    # A copy of a part has nothing of the wire that it came by.
    parts = [replace(part) for part in message.parts if not isinstance(part, Opaque)]
    results = [part for part in parts if isinstance(part, ToolResultPart)]
    rest = [part for part in parts if not isinstance(part, ToolResultPart)]
    if results:
        yield replace(message, role="tool", parts=tuple(results))
    if rest:
        yield replace(message, parts=tuple(rest))


def _add(found: list[Message], message: Message) -> None:
    """Add a message; one that goes on with what the same side has said is joined to it."""
    before = found[-1] if found else None
    if before is None or before.turn or message.role != before.role or message.role == "user":
        found.append(message)
        return
    parts: tuple[Part, ...] = (*before.parts, *message.parts)
    found[-1] = replace(before, parts=parts, taint=before.taint | message.taint)


def _told(messages: Sequence[Message]) -> TurnRequest:
    """Return what is said, with its pictures and the conversation before it.

    Other things that come with it, such as documents, are the last of what stands before.
    """
    if not messages or messages[-1].role != "user":
        return TurnRequest(content="", client_history=tuple(messages))
    *history, last = messages
    text, images, more = _said((last,))
    if more:
        history.append(replace(last, parts=more))
    return TurnRequest(content=text, images=images, client_history=tuple(history), taint=last.taint)


def _brought(messages: Sequence[Message]) -> TurnRequest:
    """Return what is new in a conversation that is kept here.

    Raises:
        WireError: What comes has no place in it.
    """
    if any(message.role == "assistant" for message in messages):
        raise bad(
            "input",
            "the conversation is kept here, and what was answered stands in it",
            action="send what is new alone",
        )
    text, images, more = _said([message for message in messages if message.role == "user"])
    if more:
        raise bad(
            "input",
            "a conversation that is kept here takes text and pictures",
            action="send the whole conversation in `input`, without `conversation` and "
            "`previous_response_id`",
        )
    results = tuple(part for message in messages for part in message.tool_results)
    taint = join_taints(message.taint for message in messages)
    return TurnRequest(content=text, images=images, tool_results=results, taint=taint)


def _said(messages: Sequence[Message]) -> tuple[str, tuple[Image, ...], tuple[Part, ...]]:
    """Return the text of messages, their pictures, and what else is in them."""
    parts = [part for message in messages for part in message.parts]
    text = "\n\n".join(part.text for part in parts if isinstance(part, Text))
    images = tuple(part for part in parts if isinstance(part, Image))
    return text, images, tuple(part for part in parts if not isinstance(part, Text | Image))


# -- answers in a form -------------------------------------------------------------


AGAIN = (
    "Your answer does not have the form that was asked for: {why}. Answer again, with the JSON "
    "alone: no other text, and no fence around it."
)
MOST_PROBLEMS = 5
FIELDS = {
    chat_reader.WIRE: "response_format",
    responses_reader.WIRE: "text.format",
    messages_reader.WIRE: "output_config.format",
}
"""The field of each wire that has the form."""


def schema_of(asked: Asked) -> Mapping[str, Any] | None:
    """Return the schema that a request's answer is to fit; None where it is free."""
    form = asked.parameters.response_format
    if form == "json_object":
        return {"type": "object"}
    return None if form is None or isinstance(form, str) else {"type": "object", **form}


def check_schema(asked: Asked) -> None:
    """Refuse a schema by which nothing can be checked.

    Raises:
        WireError: It is none.
    """
    if (schema := schema_of(asked)) is None:
        return
    if schema["type"] != "object":
        raise bad(FIELDS[asked.wire], f"found a schema of {schema['type']!r}, expected an object's")
    try:
        compile_schema(schema)
    except ToolDefinitionError as error:
        raise bad(FIELDS[asked.wire], str(error)) from None


def misfit(schema: Mapping[str, Any], answer: str) -> str:
    """Return what of an answer does not fit; "" where all of it does."""
    try:
        value = loads(answer)
    except StrictJSONError as error:
        return f"it is no JSON ({error})"
    if not isinstance(value, dict):
        return f"it is {kind_of(value)}, and no object"
    return "; ".join(compile_schema(schema)(value)[:MOST_PROBLEMS])


def asked_again(wanted: TurnRequest, turn: Turn, why: str) -> TurnRequest:
    """Return what is asked where an answer does not fit.

    Args:
        wanted: What was asked.
        turn: What came of it.
        why: What does not fit.
    """
    history = wanted.client_history
    if history is not None:
        history = (*history, *turn.messages)
    return replace(
        wanted,
        content=AGAIN.format(why=why),
        images=(),
        tool_results=(),
        client_history=history,
    )


def check_again(schema: Mapping[str, Any], turn: Turn) -> None:
    """Refuse an answer that does not fit either.

    Raises:
        WireError: It does not.
    """
    if turn.ending == "done" and (why := misfit(schema, turn.answer)):
        raise WireError.named(
            MISFIT,
            f"the model has answered twice, and not in the form that was asked for: {why}",
            action="ask again, or in a simpler form",
        )
