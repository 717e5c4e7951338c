"""The operations of memory: showing, explaining, forgetting and moving what is remembered.

Whoever is bound to some addresses sees and forgets what comes from their sessions, and nothing
else. What comes from no session is for those from whom nothing is hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from hookgate import (
    CLEAN,
    CONVERSATIONS,
    Host,
    Invocation,
    Principal,
    SessionKey,
    TurnError,
    operation,
)
from hookgate.builtin_plugins.memory.domain import (
    Aside,
    Forgotten,
    FullError,
    Hit,
    Imported,
    check_scope,
    own_scopes,
    scopes_of,
)
from hookgate.builtin_plugins.memory.recall.lines import (
    CUT,
    MOST_LINES,
    Packing,
    line_of,
    orders_of,
    pack,
)
from hookgate.kit.durations import time_of
from hookgate.kit.modules import on_demand

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from hookgate.builtin_plugins.memory import models
    from hookgate.builtin_plugins.memory.keeper import Keeper
    from hookgate.builtin_plugins.memory.settings import MemorySettings
else:
    models = on_demand("hookgate.builtin_plugins.memory.models")


MOST_SCOPES = 50
"""Scopes that one search goes through."""

ROWS_A_WRITE = 50
"""Imported rows that are added in one transaction: every other write waits for it."""


class MemoryOperations:
    """What is remembered: list, show, search, explain, audit, forget, export and import it.

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
        self._opened = keeper

    # -- looking -----------------------------------------------------------------

    @operation("memory.list", rest=("GET", "/v1/memory"))
    async def list_rows(self, invocation: Invocation, params: models.ListParams) -> models.Rows:
        """Show what is remembered, the newest first: facts and notes, or turns."""
        keeper, sees = self._keeper, invocation.principal.sees
        wanted = {name: one for name in ("session", "scope") if (one := getattr(params, name))}
        before = int(params.before or 0)
        from hookgate.builtin_plugins.memory import overview as kept

        def facts(connection: Connection) -> list[tuple[int, dict[str, Any]]]:
            kind = {"kind": params.kind} if params.kind else {}
            rows = kept.fact_rows(connection, {**wanted, **kind}, past=params.past, before=before)
            mine = ((row.number, kept.shown_fact(row)) for row in rows if sees(row.session))
            return list(islice(mine, params.limit + 1))

        def turns(connection: Connection) -> list[tuple[int, dict[str, Any]]]:
            rows = kept.turn_rows(connection, wanted, before=before)
            mine = ((at, kept.shown_piece(one)) for at, one in rows if sees(one["session"]))
            return list(islice(mine, params.limit + 1))

        found = await keeper.read(turns if params.kind == "turn" else facts)
        shown = found[: params.limit]
        return models.Rows.model_validate(
            {
                "rows": [row for _, row in shown],
                "next": str(shown[-1][0]) if len(found) > len(shown) else "",
                "durable": keeper.store.durable,
            }
        )

    @operation("memory.show")
    async def show(
        self,
        invocation: Invocation,
        id: models.Id,
    ) -> models.Shown:
        """Show one fact, note or message, and what it rests on.

        Args:
            id: Of a fact, a note or a message, or how it ends.
        """
        sees = invocation.principal.sees
        (id,) = await self._whole(invocation.principal, [id])
        from hookgate.builtin_plugins.memory import overview as kept

        def work(connection: Connection) -> dict[str, Any]:
            facts = [row for row in kept.facts_called(connection, [id]) if sees(row.session)]
            sources = [one for row in facts for one in kept.shown_sources(connection, row)]
            rows = [kept.shown_fact(row) for row in facts]
            if not rows:
                message = {"message": id.partition("#")[0]}
                pieces = kept.turn_rows(connection, message, before=0)
                rows = [kept.shown_piece(one) for _, one in pieces if sees(one["session"])]
            return {"rows": rows, "sources": [one for one in sources if sees(one["session"])]}

        found = await self._keeper.read(work)
        if not found["rows"]:
            raise _nothing(id)
        return models.Shown.model_validate(found)

    @operation("memory.search")
    async def search(self, invocation: Invocation, params: models.SearchParams) -> models.Lines:
        """Find what is remembered, by a question or by words, now or as of a time.

        The best comes first, with the reason for each line.

        Example:
            hookgate memory search "where do I live" --as-of 2023-01-01
        """
        keeper, sees = self._keeper, invocation.principal.sees
        as_of = _time(params.as_of)
        if params.session:
            scopes: Sequence[str] = self._scopes(invocation, params.session)[1]
        else:
            scopes = await self._visible(invocation.principal, params.scope)
        hits = await keeper.search(scopes, params.query, as_of=as_of)
        mine = [hit for hit in hits if params.session or sees(hit.session)][: params.limit]
        worth = _worth(hits)
        return models.Lines.model_validate({"lines": [_line(hit, worth) for hit in mine]})

    @operation("memory.explain")
    async def explain(
        self,
        invocation: Invocation,
        message: Annotated[str, Field(min_length=1, max_length=20_000)],
        session: Annotated[str, Field(max_length=1000)] = "",
    ) -> models.Explained:
        """Show which lines a message would recall, and why each, or why not.

        Args:
            message: The message.
            session: The session that it would be said in; without it, the latest one.

        Example:
            hookgate memory explain "what's my dog's name?"
        """
        keeper, settings = self._keeper, self._settings()
        told: dict[str, Any] = {"budget": settings.recall_tokens}
        session = session or await self._latest(invocation.principal)
        if not session:
            return models.Explained(reason="nothing was said yet", **told)
        key, scopes = self._scopes(invocation, session)
        history, aside = await self._history(key), Aside()
        recalled = await keeper.search(scopes, message, without=history, turn=aside)
        above = {(hit.scope, hit.id) for hit in recalled}
        asked = orders_of(aside.orders, session, history)
        held = {(hit.scope, hit.id) for hit in aside.orders}
        hits = [
            hit for hit in await keeper.search(scopes, message) if (hit.scope, hit.id) not in held
        ][:MOST_LINES]
        near = [hit for hit in hits if (hit.scope, hit.id) in above]
        count, worth = self._host.tokens.count, _worth(hits)
        orders = [line_of(hit, session, count) for hit in asked]
        packing = Packing(settings.recall_tokens, count, orders)
        passed = await pack(self._host, near, session, packing, every=True)
        fits = {(one.hit.scope, one.hit.id) for one in packing.lines}
        clear = {(one.hit.scope, one.hit.id) for one in (*orders, *passed)}
        lines = []
        for hit in (*asked, *hits):
            shown = line_of(hit, session, count)
            line, row = (hit.scope, hit.id), _line(hit, worth) | {"text": shown.said}
            row["tokens"] = shown.tokens
            row["shown"] = line in fits and settings.recall
            if not settings.recall:
                row["reason"] = "recall is off"
            elif hit.turn in history:
                row["reason"] = "stands in the history that the model reads anyway"
            elif line not in above | held:
                row["reason"] = _below(aside, hit)
            elif line not in clear:
                row["reason"] = "text of others that the sanitizers do not let pass"
            elif line not in fits:
                row["reason"] = f"no room in {settings.recall_tokens} tokens"
            lines.append(row)
        if not any(row["shown"] for row in lines):
            told["reason"] = lines[0]["reason"] if lines else await self._why_nothing(scopes)
        tokens = sum(row["tokens"] for row in lines if row["shown"])
        told |= {"session": session, "scopes": scopes, "tokens": tokens, "lines": lines}
        return models.Explained.model_validate(told)

    async def _why_nothing(self, scopes: Sequence[str]) -> str:
        if not set(scopes).intersection(await self._there()):
            return "nothing is remembered of this session yet"
        return "nothing that is remembered has a telling word of it, or means nearly the same"

    @operation("memory.audit")
    async def audit(
        self,
        invocation: Invocation,
        about: models.Id,
        limit: Annotated[int, Field(ge=1, le=500)] = 50,
    ) -> models.FactChanges:
        """Show what was known of something over time: what took whose place, when.

        Args:
            about: The id of a fact, or how it ends; or whom it is about: `user`, `luna`.
            limit: So many facts at most.

        Example:
            hookgate memory audit user
        """
        sees = invocation.principal.sees
        from hookgate.builtin_plugins.memory import overview as kept
        from hookgate.builtin_plugins.memory.facts.grammar import key_of

        def work(connection: Connection, named: str) -> list[dict[str, Any]]:
            facts = kept.facts_called(connection, [named])
            if facts:
                chain = [row for fact in facts for row in kept.chain_of(connection, fact)]
            else:
                chain = kept.facts_about(connection, key_of(named), limit)[::-1]
            return [kept.shown_fact(row) for row in chain if sees(row.session)]

        rows = await self._keeper.read(lambda connection: work(connection, about))
        if not rows:
            (whole,) = await self._whole(invocation.principal, [about])
            rows = await self._keeper.read(lambda connection: work(connection, whole))
        if not rows:
            raise _nothing(about)
        return models.FactChanges.model_validate({"rows": rows[-limit:]})

    # -- forgetting ----------------------------------------------------------------

    @operation("memory.forget", scope="chat")
    async def forget(self, invocation: Invocation, params: models.ForgetParams) -> Forgotten:
        """Forget facts, notes, messages, a turn, a session or a scope for good.

        All that rests on it alone goes with it. What was said stays in its session;
        `hookgate sessions delete` deletes that, and what is remembered of it.

        Example:
            hookgate memory forget --session main:cli:local:me
        """
        keeper, principal, check = self._keeper, invocation.principal, params.check
        scopes: Sequence[str]
        if params.scope:
            scopes = await self._visible(principal, params.scope)
            gone = await keeper.forget(scopes, everything=True, check=check)
        elif params.session:
            key, _ = self._scopes(invocation, params.session)
            shared = [one for one in await self._there() if one.startswith("shared:")]
            scopes = [*own_scopes(key), *shared]
            gone = await keeper.forget(scopes, sessions=[str(key)], check=check)
        elif params.turn:
            scopes = await self._of_turn(principal, params.turn)
            gone = await keeper.forget(scopes, turns=[params.turn], check=check)
        else:
            ids = await self._whole(principal, list(dict.fromkeys(params.ids)))
            scopes = await self._of_ids(principal, ids)
            gone = await keeper.forget(scopes, ids=ids, check=check)
        if not (gone.facts or gone.pieces):
            which = params.scope or params.session or params.turn or ", ".join(params.ids)
            raise _nothing(which)
        return gone

    async def _whole(self, principal: Principal, names: Sequence[str]) -> list[str]:
        """Return the ids that are meant, each by itself or by how it ends."""
        from hookgate.builtin_plugins.memory.overview import ids_called

        found = await self._keeper.read(lambda connection: ids_called(connection, names))
        whole: list[str] = []
        for name in names:
            meant = {one for one, session in found[name] if one == name or principal.sees(session)}
            if len(meant) > 1:
                raise TurnError.invalid(
                    f"found {len(meant)} ids that end with {name[:200]!r}, expected one",
                    f"give more of it: {', '.join(sorted(meant)[:3])}",
                )
            whole += meant or [name]
        return whole

    async def _of_turn(self, principal: Principal, turn: str) -> Sequence[str]:
        from hookgate.builtin_plugins.memory import overview as kept

        def work(connection: Connection) -> set[tuple[str, str]]:
            pieces = kept.turn_rows(connection, {"turn": turn}, before=0)
            facts = kept.fact_rows(connection, {"turn": turn}, past=True, before=0)
            found = {(one["scope"], one["session"]) for _, one in pieces}
            return found | {(one.scope, one.session) for one in facts}

        found = await self._keeper.read(work)
        if not found or not all(principal.sees(session) for _, session in found):
            raise _nothing(turn)
        return sorted({scope for scope, _ in found})

    async def _of_ids(self, principal: Principal, ids: Sequence[str]) -> Sequence[str]:
        """Return the scopes of what is called so, all of which comes from the caller's sessions."""
        from hookgate.builtin_plugins.memory import overview as kept

        def work(connection: Connection) -> dict[str, set[tuple[str, str]]]:
            found: dict[str, set[tuple[str, str]]] = {one: set() for one in ids}
            for row in kept.facts_called(connection, ids):
                found[row.id] |= {(row.scope, one) for one in kept.sessions_of(connection, row)}
            for one in ids:
                pieces = kept.turn_rows(connection, {"message": one.partition("#")[0]}, before=0)
                found[one] |= {(piece["scope"], piece["session"]) for _, piece in pieces}
            return found

        found = await self._keeper.read(work)
        for one, places in found.items():
            if not places or not all(principal.sees(session) for _, session in places):
                raise _nothing(one)
        return sorted({scope for places in found.values() for scope, _ in places})

    # -- moving --------------------------------------------------------------------

    @operation("memory.export")
    async def export(
        self,
        invocation: Invocation,
        after: int = 0,
        limit: Annotated[int, Field(ge=1, le=1000)] = 500,
        session: Annotated[str, Field(max_length=1000)] = "",
        scope: Annotated[str, Field(max_length=1000)] = "",
    ) -> models.Exported:
        """Give facts and notes as rows that another store can read: those that the caller may see.

        The command writes one JSON object a line. With `session` or `scope` it is all of that one,
        what was said there too.

        Args:
            after: The ``next`` of a former answer.
            limit: So many rows at most.
            session: What comes from a session.
            scope: What belongs to a scope.

        Example:
            hookgate memory export --session main:cli:local:me --out me.jsonl
        """
        from hookgate.builtin_plugins.memory.facts.exchange import export_page

        if session:
            self._scopes(invocation, session)
        if scope:
            await self._visible(invocation.principal, scope)
        rows, behind = await self._keeper.read(
            lambda connection: export_page(connection, after, limit, session=session, scope=scope)
        )
        sees = invocation.principal.sees
        mine = [
            row
            for row in rows
            if all(sees(one["session"]) for one in (row, *row.get("sources", ())))
        ]
        return models.Exported(rows=mine, next=behind)

    @operation("memory.import", scope="operate")
    async def import_(self, _: Invocation, params: models.ImportParams) -> Imported:
        """Take in rows of an export; what is there already is left as it is.

        All are looked at first, then some at a time are added. The command takes a file's facts
        and notes: what was said is of a conversation, and left out.

        Example:
            hookgate memory import memory.jsonl --trusted
        """
        from hookgate.builtin_plugins.memory.facts.exchange import FactFormatError, check_rows

        try:
            check_rows(params.rows, params.first)
        except FactFormatError as error:
            raise TurnError.invalid(error, "give rows that an export wrote") from None
        new = known = 0
        # Everybody who learns or forgets waits for a write: a long one would hold up all turns.
        for begin in range(0, 0 if params.check else len(params.rows), ROWS_A_WRITE):
            some = params.rows[begin : begin + ROWS_A_WRITE]
            try:
                done = await self._keeper.write(self._taking(some, params))
            except FullError as error:
                at = params.first + begin
                raise TurnError.invalid(
                    f"rows {at} to {at + len(some) - 1} are not taken in: {error}",
                    "forget notes that no longer matter, or raise "
                    "`plugin.memory.max_notes`, and import again: what is there stays",
                ) from None
            new, known = new + done.new, known + done.known
        return Imported(new=new, known=known)

    def _taking(
        self, rows: Sequence[dict[str, Any]], params: models.ImportParams
    ) -> Callable[[Connection], Imported]:
        keeper = self._keeper
        taint = CLEAN if params.trusted else frozenset((f"import:{params.source}",))
        return lambda connection: keeper.import_rows(connection, rows, taint)

    # -- whose ---------------------------------------------------------------------

    @property
    def _keeper(self) -> Keeper:
        return self._opened()

    def _scopes(self, invocation: Invocation, session: str) -> tuple[SessionKey, tuple[str, ...]]:
        """Return a session that the caller may see, and what it reads."""
        try:
            key = SessionKey.parse(session)
        except ValueError as error:
            raise TurnError.invalid(error, "`hookgate sessions list` names them") from None
        if not invocation.principal.sees(session):
            raise _nothing(session)
        return key, scopes_of(key, self._settings()).read

    async def _there(self) -> Sequence[str]:
        from hookgate.builtin_plugins.memory.overview import scopes_there

        return await self._keeper.read(scopes_there)

    async def _visible(self, principal: Principal, scope: str) -> Sequence[str]:
        """Return the scopes that the caller may look through: all that are there, or one."""
        if scope:
            try:
                check_scope(scope)
            except ValueError as error:
                raise TurnError.invalid(error, "`hookgate memory list` shows them") from None
        there = [one for one in await self._there() if not scope or one == scope]
        if not principal.sees_all:
            there = [
                one
                for one in there
                if one.startswith("session:") and principal.sees(one.removeprefix("session:"))
            ]
        if scope and not there:
            raise _nothing(scope)
        if len(there) > MOST_SCOPES:
            raise TurnError.invalid(
                f"found {len(there)} scopes, and {MOST_SCOPES} are looked through at once",
                "name one with `scope`, or a session with `session`",
            )
        return there

    async def _latest(self, principal: Principal) -> str:
        for row in await self._host[CONVERSATIONS].sessions(limit=100):
            if principal.sees(str(row["session"])):
                return str(row["session"])
        return ""

    async def _history(self, key: SessionKey) -> set[str]:
        turns = self._host.settings.context.history_turns
        messages = await self._host[CONVERSATIONS].history(key, turns=turns)
        return {message.turn for message in messages}


def _worth(hits: Sequence[Hit]) -> dict[tuple[str, str], float]:
    """Return how much speaks for each hit: the best turn has 1, and the best fact or note."""
    worth: dict[tuple[str, str], float] = {}
    for some in (
        [hit for hit in hits if hit.kind == "turn"],
        [hit for hit in hits if hit.kind != "turn"],
    ):
        best = max((hit.score for hit in some), default=0.0) or 1.0
        worth |= {(hit.scope, hit.id): round(max(hit.score, 0.0) / best, 2) for hit in some}
    return worth


def _line(hit: Hit, worth: Mapping[tuple[str, str], float]) -> dict[str, Any]:
    return {
        "id": hit.id,
        "kind": hit.kind,
        "text": hit.text,
        "at": hit.at.isoformat(timespec="seconds"),
        "scope": hit.scope,
        "session": hit.session,
        "taint": sorted(hit.taint),
        "worth": worth.get((hit.scope, hit.id), 1.0),
        "why": list(hit.why),
    }


def _below(aside: Aside, hit: Hit) -> str:
    """Say why a message of a turn leaves out what its words find."""
    from hookgate.builtin_plugins.memory.recall.ranker import FLOOR

    if aside.near is not None:
        return (
            f"below the floor of relevance: the nearest turn comes to {aside.near:.2f}, and "
            f"{FLOOR} is the least"
        )
    if hit.kind == "fact":
        return "others say more, or nothing but whom it is about speaks for it"
    return f"worth less than {CUT} of the best"


def _time(text: str) -> datetime | None:
    if not text:
        return None
    try:
        return time_of(text)
    except ValueError:
        raise TurnError.invalid(
            f"found the time {text!r}, expected one such as 2024-05-15 or 2024-05-15T12:00"
        ) from None


def _nothing(which: str) -> TurnError:
    return TurnError(
        f"nothing is remembered as {which[:200]!r}",
        code="not_found",
        action="`hookgate memory list` shows what there is",
    )
