"""The plugin ``memory``: the tools remember, recall and forget."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from hookgate.builtin_plugins.memory.notes import (
    FullError,
    Note,
    Notes,
    ProcessNotes,
    scope_of,
    words_of,
)
from hookgate.builtin_plugins.memory.settings import MemorySettings
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.messages import join_taints, new_id
from hookgate.core.domain.ports import STORE
from hookgate.core.domain.tools import ToolResult
from hookgate.hookspecs import hookimpl
from hookgate.kit.tables import tables_of
from hookgate.kit.tooling import tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from hookgate.core.domain.tools import Tool
    from hookgate.core.domain.turn import Turn
    from hookgate.core.host import Host

PART = "memory"

WRITES = Flags(
    reads_external_data=False,
    writes_persistent_state=True,
    sends_externally=False,
    executes_privileged=False,
    creates_autonomous_actions=False,
)

# A note that was made from somebody else's text brings its own taint back. All others are
# what this gateway's own turns have said, so that recalling them taints nothing.
READS = Flags.none()


class Plugin:
    """Keeps notes in the store; without one, in the process."""

    Settings = MemorySettings

    def __init__(self, settings: MemorySettings) -> None:
        self._settings = settings
        self._notes: Notes = ProcessNotes()
        self._host: Host | None = None

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Choose where notes are kept."""
        self._host = host
        store = host.get(STORE)
        if store is None:
            host.degrade(
                PART,
                "no plugin provides a store: notes are kept in memory and lost when the gateway "
                "stops (enable the plugin `storage`)",
            )
        else:
            tables = await tables_of(store, "memory", "hookgate.builtin_plugins.memory.tables")
            self._notes = tables.StoreNotes(store)
        yield
        self._notes = ProcessNotes()

    @hookimpl
    def list_tools(self, host: Host) -> Sequence[Tool]:
        """Bring the tools."""
        self._host = host
        # A note that says the same as another takes its place, and none is forgotten twice.
        more: dict[str, Any] = {
            "idempotent": True,
            "category": "memory",
            "tags": ("notes", "facts", "remember"),
        }
        return [
            tool(self.remember, flags=WRITES, **more),
            tool(self.recall, flags=READS, **more),
            tool(self.forget, flags=WRITES, **more),
        ]

    # -- the tools ---------------------------------------------------------

    async def remember(
        self, turn: Turn, text: Annotated[str, Field(min_length=1, max_length=2000)]
    ) -> ToolResult:
        """Keep a note about the person you talk with, for later conversations.

        Args:
            turn: The turn; not part of the arguments.
            text: One fact, in a sentence that can be understood by itself.
        """
        assert self._host is not None, "list_tools has run before a tool is called"
        note = Note(
            id=new_id("note"),
            scope=self._scope(turn),
            text=text.strip(),
            # The model may have put into the note whatever it has read in this turn.
            taint=turn.taint,
            provenance=turn.origin.provenance.value,
            session=str(turn.session),
            turn=turn.id,
            created=self._host.clock.now(),
        )
        try:
            kept = await self._notes.add(note, limit=self._settings.max_notes)
        except FullError as error:
            return ToolResult.error(f"{error}: forget one that no longer matters first")
        return _result(f"noted: {kept.text}", {"id": kept.id, "remembered": kept.text}, [kept])

    async def recall(
        self, turn: Turn, query: Annotated[str, Field(min_length=1, max_length=500)]
    ) -> ToolResult:
        """Find notes that were kept about the person you talk with.

        Args:
            turn: The turn; not part of the arguments.
            query: The words that the note may hold.
        """
        notes = await self._notes.search(
            self._scope(turn), words_of(query), limit=self._settings.recall_notes
        )
        shown = [
            {
                "id": note.id,
                "text": note.text,
                "when": note.created.isoformat(timespec="seconds"),
                **({"taint": sorted(note.taint)} if note.taint else {}),
            }
            for note in notes
        ]
        lines = [f"- {note.text} ({note.created:%Y-%m-%d}, {note.id})" for note in notes]
        return _result("\n".join(lines) or "no note matches", {"notes": shown}, notes)

    async def forget(
        self, turn: Turn, id: Annotated[str, Field(min_length=1, max_length=100)]
    ) -> ToolResult:
        """Delete a note for good.

        Args:
            turn: The turn; not part of the arguments.
            id: The note's id, as recall shows it.
        """
        if await self._notes.remove(self._scope(turn), id):
            return _result(f"forgotten: {id}", {"forgotten": id}, [])
        return ToolResult.error(f"there is no note {id!r}: recall shows the ids of those there are")

    def _scope(self, turn: Turn) -> str:
        return scope_of(turn.session, self._settings.scope)


def _result(content: str, data: dict[str, Any], notes: Sequence[Note]) -> ToolResult:
    return ToolResult(
        content=content,
        data=data,
        taint=join_taints(note.taint for note in notes),
    )
