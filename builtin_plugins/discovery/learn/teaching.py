"""What a turn teaches: which capabilities it used well, and the text that asked for them."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence

from hookgate import WHOLE_ANSWER, Message, Outcome, Provenance, Tool, Turn
from hookgate.builtin_plugins.discovery.show.cutting import READ_TOOL
from hookgate.wire import well_formed

META_TOOL = "discover_capabilities"
"""The tool by which a model finds more; what it reveals counts as selected."""

MAX_CHARS = 500
"""The longest message that is kept, in characters.

A longer one mostly carries something pasted, which is not the sender's own word and may be
somebody's letter, and it asks for several things at once, so that it resembles no later query.
"""

HEURISTIC = "heuristic"
"""The source of an outcome that no plugin has judged; see `hookgate.core.turn.end`."""


def fold(text: str) -> str:
    """Return `text` as examples are compared: case, width and white space do not matter."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def kept_text(text: str, redact: Callable[[str], str]) -> str | None:
    """Return `text` as it is kept, or None where it is not.

    Not kept are an empty text, one past `MAX_CHARS`, one that no database takes, and one that
    holds a secret: a masked text is no query that anybody sends again, and what else stands
    beside a secret is better not kept either.

    Args:
        text: The message.
        redact: Masks every known secret.
    """
    kept = text.strip()
    if not fold(kept) or len(kept) > MAX_CHARS or "\0" in kept or well_formed(kept) != kept:
        return None
    return kept if redact(kept) == kept else None


def used_well(turn: Turn, outcome: Outcome | None, *, judged_only: bool = False) -> tuple[str, ...]:
    """Return the ids of the capabilities that `turn` used well, each once, in order of use.

    Used well is a tool that was selected for the turn, or revealed by `META_TOOL`, that was
    called and answered without an error, in a turn that was a success. Two things keep text
    of third parties from teaching anything: the message has to be a principal's own, and a
    call counts only where the model had read nothing tainted when it asked for it. That a
    request calls its own turn a success teaches nothing either.

    Args:
        turn: The turn, ended.
        outcome: How it went; None where nobody knows.
        judged_only: Whether the core's own rough judgement does not count.
    """
    if outcome is None or outcome.status != "success" or not _typed(turn):
        return ()
    if outcome.claimed:
        return ()
    if judged_only and outcome.source == HEURISTIC:
        return ()
    clean = _asked_before_any_taint(turn.messages)
    revealed: set[str] = set()
    used: dict[str, None] = {}
    for done in turn.calls:
        tool, result = done.call.tool, done.result
        if result.is_error or result.status != "done":
            continue
        if tool.name == META_TOOL:
            revealed.update(result.reveal)
        capability = f"tool:{tool.name}"
        if (
            (capability in turn.selections or tool.name in revealed)
            and _teachable(tool)
            and done.call.id in clean
        ):
            used[capability] = None
    return tuple(used)


def is_whole(messages: Sequence[Message]) -> bool:
    """Whether the stored messages of a turn are those of one that came to its answer."""
    last = messages[-1]
    return (
        _typed_message(messages[0])
        and last.role == "assistant"
        and not last.tool_uses
        and len(last.text) >= WHOLE_ANSWER
    )


def used_well_in(messages: Sequence[Message], tools: Mapping[str, Tool]) -> tuple[str, ...]:
    """Return what `used_well` would, as far as the stored messages of a whole turn tell.

    They do not say what was selected or revealed, so a tool counts that is not offered on every
    turn; nor what a plugin judged, so an answer counts that the core takes for a whole one.

    Args:
        messages: All messages of the turn; `is_whole` holds for them.
        tools: The tools that there are, by name.
    """
    clean = _asked_before_any_taint(messages)
    names = {use.id: use.name for message in messages for use in message.tool_uses}
    used: dict[str, None] = {}
    for message in messages:
        for result in message.tool_results:
            tool = tools.get(names.get(result.tool_use_id, ""))
            if (
                tool is not None
                and _teachable(tool)
                and not result.is_error
                and result.tool_use_id in clean
            ):
                used[f"tool:{tool.name}"] = None
    return tuple(used)


def _teachable(tool: Tool) -> bool:
    return tool.owner == "host" and not tool.always_on and tool.name != READ_TOOL


def _typed(turn: Turn) -> bool:
    """Whether a principal wrote the message: no other session, schedule, channel or tool."""
    return (
        turn.parent is None
        and turn.origin.provenance is Provenance.EXTERNAL_USER
        and _typed_message(turn.message)
    )


def _typed_message(message: Message) -> bool:
    external = message.provenance is Provenance.EXTERNAL_USER
    return message.role == "user" and external and not message.taint


def _asked_before_any_taint(messages: Sequence[Message]) -> set[str]:
    """Return the ids of the calls that the model asked for while all it had read was clean.

    A message of the model carries the taint of everything that it had read.
    """
    clean: set[str] = set()
    tainted: set[str] = set()
    for message in messages:
        if message.role == "assistant":
            (tainted if message.taint else clean).update(use.id for use in message.tool_uses)
    return clean - tainted  # some models give the same id to calls of two rounds
