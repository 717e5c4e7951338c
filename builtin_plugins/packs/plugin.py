"""The `packs` plugin: says what calls of coding agents' tools do, by their arguments."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from hookgate import (
    FLAG_NAMES,
    ClientCallFlags,
    Clock,
    Flags,
    Host,
    Message,
    Operation,
    Tool,
    Turn,
    TurnKey,
    operations_of,
)
from hookgate.builtin_plugins.packs.operations import (
    CompatOperations,
    SeenTool,
    SeenTools,
)
from hookgate.builtin_plugins.packs.settings import PACKS, PacksSettings, ToolSettings
from hookgate.hookspecs import hookimpl
from hookgate.wire import canonical

if TYPE_CHECKING:
    # It loads all that reads command lines, which a turn without coding agents needs not.
    from hookgate.builtin_plugins.packs.calls import PackReader

FOLDER: TurnKey[str] = TurnKey("packs.folder")
"""The folder that the client of a turn works in; "" where nobody has said it."""

EARLY = 8
"""Messages at the beginning of a conversation in which a client tells of its surroundings."""


class Plugin:
    """Describes calls by the packs that are enabled, and by what the operator says."""

    Settings = PacksSettings

    def __init__(self, settings: PacksSettings) -> None:
        self._settings = settings
        self._readers: dict[tuple[str, ...], PackReader] = {}
        self._seen = SeenTools()
        self._clock: Clock | None = None

    @hookimpl
    def describe_client_call(
        self, turn: Turn, tool: Tool, arguments: Mapping[str, Any]
    ) -> ClientCallFlags | None:
        """Say what a call does; nothing where neither a pack nor the operator knows the tool."""
        listed = any(tool.name == one.name for one in turn.client_tools)
        digest = schema_digest(tool.schema) if listed else ""
        at = "" if self._clock is None else self._clock.now().isoformat()
        packs = self._enabled(turn)
        self._seen.note(turn, tool, digest, at, packs)
        said = self._by_operator(tool.name, digest)
        if packs:
            folder = turn.get(FOLDER)
            if folder is None:
                folder = turn[FOLDER] = self._folder(turn)
            known = self._reader(packs).look(tool, arguments, folder)
            said += [known] if known is not None else []
        return ClientCallFlags.joined(said)

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        """Offer the list of what was seen."""
        self._clock = host.clock
        return operations_of(CompatOperations(self._seen, self._settings, self._known))

    def _known(self, name: str, seen: SeenTool) -> Literal["pack", "operator", "no"]:
        tool = Tool(name=name, description="", schema=seen.schema, owner="client")
        if seen.packs and any(self._reader(seen.packs).entries(tool)):
            return "pack"
        return "operator" if self._by_operator(name, seen.digest) else "no"

    def _by_operator(self, name: str, digest: str) -> list[ClientCallFlags]:
        return [
            _declared(said)
            for glob, said in self._settings.tools.items()
            if fnmatchcase(name, glob) and said.schema_digest in ("", digest)
        ]

    def _enabled(self, turn: Turn) -> tuple[str, ...]:
        """Return the packs that count in a turn: the settings', and that of its key's client."""
        client = turn.root.principal.claims.get("client", "")
        own = (client,) if self._settings.by_key and client in PACKS else ()
        return tuple(dict.fromkeys((*self._settings.enabled, *own)))

    def _reader(self, packs: tuple[str, ...]) -> PackReader:
        if packs not in self._readers:
            # Whoever enables no pack pays nothing for their tables.
            from hookgate.builtin_plugins.packs.calls import PackReader

            self._readers[packs] = PackReader(
                packs=packs,
                runs=self._settings.workspace_code == "allow",
                reference=frozenset(self._settings.hosts),
            )
        return self._readers[packs]

    def _folder(self, turn: Turn) -> str:
        """Return the folder that the client works in, as it says itself, within the settings'."""
        from hookgate.builtin_plugins.packs.places import folder_of, is_workspace

        early = (*turn.history, *turn.messages)[:EARLY]
        told = [one.text for one in early if _of_client(one)]
        found = folder_of("\n".join([turn.system, *told]))
        allowed = self._settings.workspaces
        if not allowed:
            return found
        if any(found == one or found.startswith(f"{one}/") for one in allowed):
            return found
        only = allowed[0] if len(allowed) == 1 else ""
        return only if not found and is_workspace(only) else ""


def _of_client(message: Message) -> bool:
    """Whether a message is the client's own, and nobody's whom it speaks for.

    Claude Code tells of its folder in a message of the system's within the conversation, and Codex
    in one of the user's that holds nothing else.
    """
    raw = None if message.raw is None else message.raw.data
    if isinstance(raw, Mapping) and raw.get("role") in ("system", "developer"):
        return True
    return message.role == "user" and message.text.lstrip().startswith("<environment_context>")


def schema_digest(schema: Mapping[str, Any]) -> str:
    """Return SHA-256 (hex) of a tool's schema."""
    return hashlib.sha256(canonical(schema)).hexdigest()


def _declared(said: ToolSettings) -> ClientCallFlags:
    flags = Flags.from_mapping({name: getattr(said, name) for name in FLAG_NAMES})
    return ClientCallFlags(flags=flags, why="the operator says so", confined=said.confined)
