"""The operations of memory: showing, explaining, forgetting and moving what is remembered.

Whoever is bound to some addresses sees and forgets what comes from their sessions, and nothing
else. What comes from no session is for those from whom nothing is hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from hookgate import (
    CLEAN,
    CONVERSATIONS,
    Host,
    Invocation,
    Operation,
    Principal,
    SessionKey,
    TurnError,
)
from hookgate.builtin_plugins.memory import models
from hookgate.builtin_plugins.memory.domain import Forgotten, FullError, Hit, Imported
from hookgate.builtin_plugins.memory.recall.lines import (
    MOST_LINES,
    clean,
    line_of,
    packed_lines,
    shown_as,
)
from hookgate.builtin_plugins.memory.scopes import check_scope, own_scopes, scopes_of
from hookgate.settings import redact_json

if TYPE_CHECKING:
    from pydantic import BaseModel
    from sqlalchemy import Connection

    from hookgate.builtin_plugins.memory.keeper import Keeper
    from hookgate.builtin_plugins.memory.settings import MemorySettings

    R = TypeVar("R", bound=BaseModel)

MOST_SCOPES = 50
"""Scopes that one search goes through."""

ROWS_A_WRITE = 50
"""Imported rows that are added in one transaction: every other write waits for it."""


class MemoryOperations:
    """The handlers, and what they are offered as.

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

    def all(self) -> Sequence[Operation[Any, Any]]:
        """Return the operations."""
        return [*self._looking(), *self._moving()]

    def _looking(self) -> Sequence[Operation[Any, Any]]:
        return [
            Operation(
                name="memory.list",
                summary="Show what is remembered, the newest first: facts, notes, or turns.",
                params=models.ListParams,
                result=models.Rows,
                handler=self.list_rows,
                scope="read",
                rest=("GET", "/v1/memory"),
            ),
            Operation(
                name="memory.show",
                summary="Show one fact, note or message, and what it rests on.",
                params=models.ShowParams,
                result=models.Shown,
                handler=self.show,
                scope="read",
            ),
            Operation(
                name="memory.search",
                summary="Find what is remembered, by a question or by words, now or as of a time.",
                params=models.SearchParams,
                result=models.Lines,
                handler=self.search,
                scope="read",
            ),
            Operation(
                name="memory.explain",
                summary="Show which lines a message would recall, and why.",
                params=models.ExplainParams,
                result=models.Explained,
                handler=self.explain,
                scope="read",
            ),
            Operation(
                name="memory.audit",
                summary="Show what was known of something over time: what took whose place, when.",
                params=models.AuditParams,
                result=models.Changes,
                handler=self.audit,
                scope="read",
            ),
        ]

    def _moving(self) -> Sequence[Operation[Any, Any]]:
        return [
            Operation(
                name="memory.forget",
                summary="Forget facts, notes, messages, a turn, a session or a scope for good.",
                params=models.ForgetParams,
                result=Forgotten,
                handler=self.forget,
                scope="chat",
            ),
            Operation(
                name="memory.export",
                summary="Give facts and notes as rows that another store can read.",
                params=models.ExportParams,
                result=models.Exported,
                handler=self.export,
                scope="read",
            ),
            Operation(
                name="memory.import",
                summary="Take in rows of an export; what is there already is left as it is.",
                params=models.ImportParams,
                result=Imported,
                handler=self.import_,
                scope="operate",
            ),
        ]

    # -- looking -----------------------------------------------------------------

    async def list_rows(self, invocation: Invocation, params: models.ListParams) -> models.Rows:
        """Return the newest rows that fit and that the caller may see."""
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

        found = await keeper.store.read(turns if params.kind == "turn" else facts)
        shown = found[: params.limit]
        return self._told(
            models.Rows,
            {
                "rows": [row for _, row in shown],
                "next": str(shown[-1][0]) if len(found) > len(shown) else "",
                "durable": keeper.store.durable,
            },
        )

    async def show(self, invocation: Invocation, params: models.ShowParams) -> models.Shown:
        """Return one row that the caller may see."""
        sees = invocation.principal.sees
        from hookgate.builtin_plugins.memory import overview as kept

        def work(connection: Connection) -> dict[str, Any]:
            facts = [row for row in kept.facts_called(connection, [params.id]) if sees(row.session)]
            sources = [one for row in facts for one in kept.shown_sources(connection, row)]
            rows = [kept.shown_fact(row) for row in facts]
            if not rows:
                message = {"message": params.id.partition("#")[0]}
                pieces = kept.turn_rows(connection, message, before=0)
                rows = [kept.shown_piece(one) for _, one in pieces if sees(one["session"])]
            return {"rows": rows, "sources": [one for one in sources if sees(one["session"])]}

        found = await self._keeper.store.read(work)
        if not found["rows"]:
            raise _nothing(params.id)
        return self._told(models.Shown, found)

    async def search(self, invocation: Invocation, params: models.SearchParams) -> models.Lines:
        """Return what answers a question, of what the caller may see."""
        keeper, sees = self._keeper, invocation.principal.sees
        as_of = _time(params.as_of)
        if params.session:
            scopes: Sequence[str] = self._scopes(invocation, params.session)[1]
        else:
            scopes = await self._visible(invocation.principal, params.scope)
        hits = await keeper.search(scopes, params.query, as_of=as_of)
        mine = [hit for hit in hits if params.session or sees(hit.session)][: params.limit]
        return self._told(models.Lines, {"lines": [_line(hit) for hit in mine]})

    async def explain(
        self, invocation: Invocation, params: models.ExplainParams
    ) -> models.Explained:
        """Return which lines a message would recall in a session, and why each."""
        keeper, settings = self._keeper, self._settings()
        session = params.session or await self._latest(invocation.principal)
        key, scopes = self._scopes(invocation, session)
        history = await self._history(key)
        found = await keeper.search(scopes, params.message)
        hits = [shown_as(hit, session) for hit in found[:MOST_LINES]]
        passed = await clean(self._host, [hit for hit in hits if hit.turn not in history])
        count = self._host.tokens.count
        first, more = packed_lines(passed, settings.recall_tokens, count)
        fits = {(hit.scope, hit.id) for hit in (*first, *more)}
        clear = {(hit.scope, hit.id) for hit in passed}
        lines = []
        for hit in hits:
            line, row = (hit.scope, hit.id), _line(hit)
            row["tokens"] = count(line_of(hit))
            row["shown"] = line in fits and settings.recall
            if hit.turn in history:
                row["reason"] = "stands in the history that the model reads anyway"
            elif line not in clear:
                row["reason"] = "text of others that the sanitizers do not let pass"
            elif line not in fits:
                row["reason"] = f"no room in {settings.recall_tokens} tokens"
            elif not settings.recall:
                row["reason"] = "recall is off"
            lines.append(row)
        told = {
            "session": session,
            "scopes": scopes,
            "budget": settings.recall_tokens,
            "tokens": sum(row["tokens"] for row in lines if row["shown"]),
            "lines": lines,
        }
        return self._told(models.Explained, told)

    async def audit(self, invocation: Invocation, params: models.AuditParams) -> models.Changes:
        """Return what was known of a fact, or of somebody, and what took its place."""
        sees = invocation.principal.sees
        from hookgate.builtin_plugins.memory import overview as kept
        from hookgate.builtin_plugins.memory.facts.grammar import key_of

        def work(connection: Connection) -> list[dict[str, Any]]:
            facts = kept.facts_called(connection, [params.about])
            if facts:
                chain = [row for fact in facts for row in kept.chain_of(connection, fact)]
            else:
                chain = kept.facts_about(connection, key_of(params.about), params.limit)[::-1]
            return [kept.shown_fact(row) for row in chain if sees(row.session)]

        rows = await self._keeper.store.read(work)
        if not rows:
            raise _nothing(params.about)
        return self._told(models.Changes, {"rows": rows[-params.limit :]})

    # -- forgetting ----------------------------------------------------------------

    async def forget(self, invocation: Invocation, params: models.ForgetParams) -> Forgotten:
        """Forget what fits and comes from sessions of the caller."""
        keeper, principal = self._keeper, invocation.principal
        scopes: Sequence[str]
        if params.scope:
            scopes = await self._visible(principal, params.scope)
            gone = await keeper.forget(scopes, everything=True)
        elif params.session:
            key, _ = self._scopes(invocation, params.session)
            shared = [one for one in await self._there() if one.startswith("shared:")]
            gone = await keeper.forget([*own_scopes(key), *shared], sessions=[str(key)])
        elif params.turn:
            scopes = await self._of_turn(principal, params.turn)
            gone = await keeper.forget(scopes, turns=[params.turn])
        else:
            ids = list(dict.fromkeys(params.ids))
            scopes = await self._of_ids(principal, ids)
            gone = await keeper.forget(scopes, ids=ids)
        if not (gone.facts or gone.pieces):
            which = params.scope or params.session or params.turn or ", ".join(params.ids)
            raise _nothing(which)
        return gone

    async def _of_turn(self, principal: Principal, turn: str) -> Sequence[str]:
        from hookgate.builtin_plugins.memory import overview as kept

        def work(connection: Connection) -> set[tuple[str, str]]:
            pieces = kept.turn_rows(connection, {"turn": turn}, before=0)
            facts = kept.fact_rows(connection, {"turn": turn}, past=True, before=0)
            found = {(one["scope"], one["session"]) for _, one in pieces}
            return found | {(one.scope, one.session) for one in facts}

        await self._keeper.follow()
        found = await self._keeper.store.read(work)
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

        await self._keeper.follow()
        found = await self._keeper.store.read(work)
        for one, places in found.items():
            if not places or not all(principal.sees(session) for _, session in places):
                raise _nothing(one)
        return sorted({scope for places in found.values() for scope, _ in places})

    # -- moving --------------------------------------------------------------------

    async def export(self, invocation: Invocation, params: models.ExportParams) -> models.Exported:
        """Return some rows that the caller may see, and where to go on."""
        from hookgate.builtin_plugins.memory.facts.exchange import export_page

        rows, after = await self._keeper.store.read(
            lambda connection: export_page(connection, params.after, params.limit)
        )
        sees = invocation.principal.sees
        mine = [row for row in rows if all(sees(one["session"]) for one in (row, *row["sources"]))]
        return models.Exported(rows=mine, next=after)

    async def import_(self, invocation: Invocation, params: models.ImportParams) -> Imported:
        """Take in rows: all are looked at first, then `ROWS_A_WRITE` at a time are added."""
        from hookgate.builtin_plugins.memory.facts.exchange import FactFormatError, check_rows

        del invocation
        try:
            check_rows(params.rows, params.first)
        except FactFormatError as error:
            raise TurnError(
                str(error), code="invalid_params", action="give rows that an export wrote"
            ) from None
        new = known = 0
        # Everybody who learns or forgets waits for a write: a long one would hold up all turns.
        for begin in range(0, 0 if params.check else len(params.rows), ROWS_A_WRITE):
            some = params.rows[begin : begin + ROWS_A_WRITE]
            try:
                done = await self._keeper.store.write(self._taking(some, params))
            except FullError as error:
                at = params.first + begin
                raise TurnError(
                    f"rows {at} to {at + len(some) - 1} are not taken in: {error}",
                    code="invalid_params",
                    action="forget notes that no longer matter, or raise "
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
            raise TurnError(
                str(error), code="invalid_params", action="`hookgate sessions list` names them"
            ) from None
        if not invocation.principal.sees(session):
            raise _nothing(session)
        return key, scopes_of(key, self._settings()).read

    async def _there(self) -> Sequence[str]:
        from hookgate.builtin_plugins.memory.overview import scopes_there

        return await self._keeper.store.read(scopes_there)

    async def _visible(self, principal: Principal, scope: str) -> Sequence[str]:
        """Return the scopes that the caller may look through: all that are there, or one."""
        if scope:
            try:
                check_scope(scope)
            except ValueError as error:
                raise TurnError(
                    str(error), code="invalid_params", action="`hookgate memory list` shows them"
                ) from None
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
            raise TurnError(
                f"found {len(there)} scopes, and {MOST_SCOPES} are looked through at once",
                code="invalid_params",
                action="name one with `scope`, or a session with `session`",
            )
        return there

    async def _latest(self, principal: Principal) -> str:
        for row in await self._host[CONVERSATIONS].sessions(limit=100):
            if principal.sees(str(row["session"])):
                return str(row["session"])
        raise TurnError(
            "nothing was said yet", code="not_found", action="name a session with `session`"
        )

    async def _history(self, key: SessionKey) -> set[str]:
        turns = self._host.settings.context.history_turns
        messages = await self._host[CONVERSATIONS].history(key, turns=turns)
        return {message.turn for message in messages}

    def _told(self, model: type[R], data: dict[str, Any]) -> R:
        # A secret may have become known after the text was kept.
        return model.model_validate(redact_json(self._host.secrets, data))


def _line(hit: Hit) -> dict[str, Any]:
    return {
        "id": hit.id,
        "kind": hit.kind,
        "text": hit.text,
        "at": hit.at.isoformat(timespec="seconds"),
        "scope": hit.scope,
        "session": hit.session,
        "taint": sorted(hit.taint),
        "why": list(hit.why),
    }


def _time(text: str) -> datetime | None:
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise TurnError(
            f"found the time {text!r}, expected one such as 2024-05-15 or 2024-05-15T12:00",
            code="invalid_params",
        ) from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _nothing(which: str) -> TurnError:
    return TurnError(
        f"nothing is remembered as {which[:200]!r}",
        code="not_found",
        action="`hookgate memory list` shows what there is",
    )
