"""The tools remember, recall and forget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from hookgate import Flags, Host, Tool, ToolResult, Turn, join_taints, new_id
from hookgate.builtin_plugins.memory.domain import FullError, Note, scopes_of
from hookgate.builtin_plugins.memory.recall.lines import RecalledLine, line_of
from hookgate.kit.tooling import tool

if TYPE_CHECKING:
    from hookgate.builtin_plugins.memory.keeper import Keeper
    from hookgate.builtin_plugins.memory.settings import MemorySettings

WRITES = Flags(
    reads_external_data=False,
    writes_persistent_state=True,
    sends_externally=False,
    executes_privileged=False,
    creates_autonomous_actions=False,
)

# What was made from somebody else's text brings its own taint back. All else is what this
# gateway's own turns have said, so that recalling it taints nothing.
READS = Flags.none()


class MemoryTools:
    """What a model remembers, recalls and forgets by.

    Args:
        host: The gateway.
        settings: Returns the settings as they are now.
        keeper: Returns what keeps it.
    """

    def __init__(
        self,
        host: Host,
        settings: Callable[[], MemorySettings],
        keeper: Callable[[], Keeper],
    ) -> None:
        self._host = host
        self._settings = settings
        self._keeper = keeper

    def all(self) -> Sequence[Tool]:
        """Return the tools."""
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

    async def remember(
        self, turn: Turn, text: Annotated[str, Field(min_length=1, max_length=2000)]
    ) -> ToolResult:
        """Keep a note about the person you talk with, for later conversations.

        Args:
            turn: The turn; not part of the arguments.
            text: One fact, in a sentence that can be understood by itself.
        """
        note = Note(
            id=new_id("note"),
            scope=scopes_of(turn.session, self._settings()).kept,
            text=text.strip(),
            # The model may have put into the note whatever it has read in this turn.
            taint=turn.taint,
            provenance=turn.origin.provenance.value,
            session=str(turn.session),
            turn=turn.id,
            created=self._host.clock.now(),
        )
        try:
            kept = await self._keeper().note(note)
        except FullError as error:
            return ToolResult.error(f"{error}: forget one that no longer matters first")
        data = {"id": kept.id, "remembered": kept.text}
        return ToolResult(content=f"noted: {kept.text}", data=data, taint=kept.taint)

    async def recall(
        self, turn: Turn, query: Annotated[str, Field(min_length=1, max_length=500)]
    ) -> ToolResult:
        """Find what was noted about the person you talk with, or said in earlier conversations.

        Args:
            turn: The turn; not part of the arguments.
            query: What you want to know, or the words that it may hold.
        """
        settings, session = self._settings(), str(turn.session)
        scopes = scopes_of(turn.session, settings).read
        found = await self._keeper().search(scopes, query, without={turn.id})
        hits, count = found[: settings.recall_notes], self._host.tokens.count
        lines = [line_of(hit, session, count) for hit in hits]
        shown = [
            {
                "id": hit.id,
                "kind": hit.kind,
                "text": line.said,
                "when": hit.at.isoformat(timespec="seconds"),
                **({"taint": sorted(hit.taint)} if hit.taint else {}),
            }
            for hit, line in zip(hits, lines, strict=True)
        ]
        return ToolResult(
            content="\n".join(map(_told, lines)) or "nothing that is remembered matches",
            data={"notes": shown},
            taint=join_taints(hit.taint for hit in hits),
        )

    async def forget(
        self, turn: Turn, id: Annotated[str, Field(min_length=1, max_length=100)]
    ) -> ToolResult:
        """Delete something remembered for good.

        Args:
            turn: The turn; not part of the arguments.
            id: The id of a note, a fact or a message, as recall shows it.
        """
        scopes = scopes_of(turn.session, self._settings()).read
        gone = await self._keeper().forget(scopes, ids=[id])
        if gone.facts or gone.pieces:
            return ToolResult(content=f"forgotten: {id}", data={"forgotten": id})
        return ToolResult.error(f"there is no note {id!r}: recall shows the ids of those there are")


def _told(line: RecalledLine) -> str:
    hit = line.hit
    who = f"{hit.speaker}{line.elsewhere}: " if hit.kind == "turn" else ""
    said = f"{who}{line.said}"
    return f"- {said} ({hit.at:%Y-%m-%d}, {hit.id})"
