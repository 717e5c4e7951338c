"""Arguments that are not recorded, by the operator's rule."""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from typing import Any

from hookgate import ContentPart, Decision, Flags, ToolCall, ToolResult, Turn, plain_text
from hookgate.wire import MEDIA, canonical, content_to_json

MASK = "***"


class Redaction:
    """Globs of names, compiled once.

    Args:
        globs: Globs of argument names, without regard to case; ``TOOL.NAME`` is about the
            arguments of the tools that ``TOOL`` fits alone.
    """

    def __init__(self, globs: Sequence[str]) -> None:
        self._globs = []
        for glob in globs:
            tool, dot, name = glob.partition(".")
            both = (tool, name) if dot else ("*", glob)
            self._globs.append(tuple(re.compile(translate(one.casefold())) for one in both))

    def apply(
        self, tool: str, arguments: Mapping[str, Any]
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return arguments with masks, and the paths of what was masked, as ``a.b[0].c``."""
        folded = tool.casefold()
        names = [name for only, name in self._globs if only.match(folded)]
        paths: list[str] = []

        def clean(value: Any, path: str) -> Any:
            if isinstance(value, dict):
                return {key: masked(key, item, f"{path}.{key}") for key, item in value.items()}
            if isinstance(value, list | tuple):
                return [clean(item, f"{path}[{number}]") for number, item in enumerate(value)]
            return value

        def masked(key: str, value: Any, path: str) -> Any:
            if any(name.match(key.casefold()) for name in names):
                paths.append(path.removeprefix("."))
                return MASK
            return clean(value, path)

        return clean(dict(arguments), ""), tuple(paths)


# -- What is recorded of a tool call ---------------------------------------------

_CATEGORIES = {
    "executes_privileged": "privileged",
    "creates_autonomous_actions": "autonomous",
    "sends_externally": "send",
    "writes_persistent_state": "write",
    "reads_external_data": "read",
}
"""From the gravest to the mildest; a call is filed under the gravest that applies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing to be recorded.

    Attributes:
        kind: ``tool_decided``, ``tool_finished``, or a plugin's own word.
        turn: The turn's id, or "".
        session: The session's key, or "".
        call: The call's id, or "".
        tool: The tool's name, or "".
        category: See `category`.
        outcome: The decision's effect, or the result's status.
        data: Everything else, JSON-ready.
    """

    kind: str
    turn: str = ""
    session: str = ""
    call: str = ""
    tool: str = ""
    category: str = ""
    outcome: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


def category(flags: Flags) -> str:
    """Return the gravest thing that a tool declares; what it leaves open counts as ``unknown``.

    ``privileged``, ``autonomous``, ``send``, ``write``, ``read``, ``unknown`` or ``pure``.
    """
    said = flags.to_json()
    for name, word in _CATEGORIES.items():
        if said[name]:
            return word
    return "unknown" if None in said.values() else "pure"


def decided(
    turn: Turn, call: ToolCall, decision: Decision, redaction: Redaction | None = None
) -> Entry:
    """Return the entry of a decision, with all that a policy could look at.

    A later policy can be judged on it: arguments, flags, provenance, taint. Which arguments
    were not recorded stands in ``redacted_arguments``.
    """
    arguments, masked = (redaction or Redaction(())).apply(call.name, call.arguments)
    data = {
        "agent": turn.agent.name,
        "principal": turn.principal.id,
        "channel": turn.address.channel,
        "account": turn.address.account,
        "peer": turn.address.peer,
        "provenance": turn.origin.provenance.value,
        "path": turn.origin.path,
        "origin_session": turn.origin.session,
        "origin_tool": turn.origin.tool,
        "taint": sorted(turn.taint),
        "plugin": call.tool.plugin,
        "sandbox": call.tool.sandbox,
        "owner": call.tool.owner,
        "tool_digest": call.tool.digest,
        "call_digest": call.digest,
        "flags": call.flags.to_json(),
        "proven": sorted(call.flags.proven),
        "arguments": arguments,
        "redacted_arguments": list(masked),
        "depth": call.depth,
        "index": call.index,
        "within": call.within,
        "rewritten_by": list(call.rewritten_by),
        "by": decision.by,
        "rule": decision.rule,
        "reason": decision.reason,
        "rounds": decision.rounds,
        "asked": decision.asked.title if decision.asked else "",
        "answer": decision.answer,
        "would": decision.would,
        "verdicts": [
            {
                "plugin": verdict.plugin,
                "effect": verdict.effect.word,
                "rule": verdict.rule,
                "reason": verdict.reason,
            }
            for verdict in decision.verdicts
        ],
    }
    if call.said is not None:
        said = call.said
        data["client_call"] = {
            "why": said.why,
            "confined": said.confined,
            "family": dict(said.family),
        }
    return _entry("tool_decided", turn, call, decision.effect.word, data)


def finished(turn: Turn, call: ToolCall, result: ToolResult) -> Entry:
    """Return the entry of an outcome: of the result its size and digest, not its text.

    A result of parts is digested as its canonical JSON, and each of them by itself.
    """
    parts = () if isinstance(result.content, str) else result.content
    whole = (
        result.content.encode("utf-8", "surrogatepass")
        if isinstance(result.content, str)
        else canonical(content_to_json(result.content))
    )
    data = {
        "is_error": result.is_error,
        "taint": sorted(result.taint),
        "reveal": list(result.reveal),
        "bytes": len(whole),
        "sha256": hashlib.sha256(whole).hexdigest(),
        "call_digest": call.digest,
    }
    if parts:
        data["parts"] = [_part(part) for part in parts]
    if result.is_error:
        data["error"] = result.text[:500]
    return _entry("tool_finished", turn, call, result.status, data)


def _part(part: ContentPart) -> dict[str, Any]:
    """Return what is kept of a part: its type, its size and the digest of its bytes."""
    if isinstance(part, MEDIA):
        data, kind = b64decode(part.data), {"media_type": part.media_type}
    else:
        data, kind = plain_text((part,)).encode("utf-8", "surrogatepass"), {}
    digest = hashlib.sha256(data).hexdigest()
    return {"type": type(part).__name__.lower(), **kind, "bytes": len(data), "sha256": digest}


def _entry(kind: str, turn: Turn, call: ToolCall, outcome: str, data: dict[str, Any]) -> Entry:
    return Entry(
        kind=kind,
        turn=turn.id,
        session=str(turn.session),
        call=call.id,
        tool=call.name,
        category=category(call.flags),
        outcome=outcome,
        data=data,
    )
