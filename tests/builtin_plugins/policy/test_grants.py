from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.builtin_plugins.policy.asking import OPS, SENDS, Asked, mail, opened
from tests.builtin_plugins.stores import BrokenStore, differences, kept_in, opened_store
from tests.builtin_plugins.turns import TurnedClock, make_call, make_turn
from tests.support.script import until

from hookgate.builtin_plugins.policy.desk import tables
from hookgate.builtin_plugins.policy.desk.grants import GrantBook
from hookgate.builtin_plugins.policy.desk.tables import METADATA, SCRIPTS, StandingGrant
from hookgate.builtin_plugins.policy.rules.profiles import policy_version
from hookgate.builtin_plugins.policy.settings import PolicySettings
from hookgate.core.domain.errors import StoreUnavailableError, TurnError
from hookgate.core.domain.messages import Provenance
from hookgate.core.domain.tools import ClientCallFlags, Effect
from hookgate.core.domain.turn import Address, Claim, Principal
from hookgate.core.gateway.access.tokens import token_book
from hookgate.kit.records import MemoryStore, Records
from hookgate.ports import STORE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from hookgate.core.domain.tools import ToolCall
    from hookgate.core.domain.turn import Turn

WIDE = {"approvals": {"always": "tool"}}


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Asked]:
    async with opened(tmp_path) as made:
        yield made


async def test_the_migrations_make_the_tables_that_the_code_uses(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as store:
        await store.migrate("policy", METADATA, SCRIPTS)
        assert await differences(store, METADATA) == []


async def test_what_was_allowed_always_is_not_asked_about_again_and_says_who_allowed_it(
    gate: Asked,
) -> None:
    grant = await gate.always(gate.turn(), mail())
    decision = await gate.asking(gate.turn(), mail(call_id="later"))
    assert (decision.effect, decision.by, decision.rule) == (
        Effect.ALLOW,
        "ops",
        f"grant:{grant}",
    )
    assert decision.reason == f"ops allowed such calls on 2024-02-29 ({grant}, until 2024-03-30)"
    ((kind, row),) = gate.record.rows
    assert kind == "grant_made"
    assert (row["id"], row["by"], row["tool"], row["scope"]) == (grant, "ops", "mail", "arguments")


async def test_the_first_answer_already_names_the_grant(gate: Asked) -> None:
    asked = gate.asking(gate.turn(), mail())
    shown = await gate.question()
    assert shown["choices"] == ["allow-once", "allow-always", "deny"]
    assert shown["scopes"] == ["arguments"]
    made = await gate.do("approvals.resolve", id=shown["id"], decision="allow-always")
    assert (await asked).rule == f"grant:{made.grant}"


async def test_each_use_is_told_to_whoever_watches(gate: Asked) -> None:
    grant = await gate.always(gate.turn(), mail())
    with gate.host.events.subscribe(scopes=frozenset({"approve"})) as heard:
        await gate.asking(gate.turn(), mail())
    told = [event.data async for event in heard]
    assert told == [{"state": "granted", "id": grant, "by": "ops", "tool": "mail"}]


def _others() -> list[Any]:
    other = Address(peer="other")
    return [
        pytest.param({}, mail({"to": "b"}), id="other arguments"),
        pytest.param({}, mail({"to": "a", "cc": "b"}), id="more arguments"),
        pytest.param({"address": other}, mail(), id="other session"),
        pytest.param({"agent": "other"}, mail(), id="other agent"),
        pytest.param({"provenance": Provenance.SCHEDULED}, mail(), id="other provenance"),
        pytest.param({}, mail(description="Other."), id="other description"),
        pytest.param({}, make_call("mail2", SENDS, {"to": "a"}), id="other tool"),
        pytest.param(
            {},
            replace(mail(), tool=replace(mail().tool, plugin="another")),
            id="other plugin",
        ),
        pytest.param(
            {},
            replace(mail(), tool=replace(mail().tool, sandbox="remote")),
            id="other sandbox",
        ),
        pytest.param(
            {},
            replace(mail(), tool=replace(mail().tool, module="0" * 64)),
            id="other module",
        ),
    ]


@pytest.mark.parametrize(("circumstances", "call"), _others())
async def test_a_grant_fits_nothing_else(
    circumstances: dict[str, Any], call: ToolCall, tmp_path: Path
) -> None:
    # What another plugin brings is not what is looked at here: it would wait to be accepted.
    async with opened(tmp_path, pin_tools="off") as gate:
        await gate.always(gate.turn(), mail())
        assert await gate.is_asked(gate.turn(**circumstances), call)
        assert not await gate.is_asked(gate.turn(), mail())


@pytest.mark.parametrize(("circumstances", "call"), _others()[2:])
async def test_a_grant_for_a_tool_is_for_that_tool_in_that_session(
    circumstances: dict[str, Any], call: ToolCall, tmp_path: Path
) -> None:
    async with opened(tmp_path, pin_tools="off", **WIDE) as gate:
        await gate.always(gate.turn(), mail(), scope="tool")
        assert not await gate.is_asked(gate.turn(), mail({"to": "anybody"}))
        assert await gate.is_asked(gate.turn(**circumstances), call)


async def test_what_was_allowed_before_anything_foreign_was_read_is_asked_about_after(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, profile="strict", **WIDE) as gate:
        await gate.always(gate.turn(taint=()), mail(), scope="tool")
        assert not await gate.is_asked(gate.turn(taint=()), mail({"to": "b"}))
        assert await gate.is_asked(gate.turn(), mail({"to": "b"}))


async def test_a_wider_scope_than_the_settings_allow_is_refused_and_the_question_waits(
    gate: Asked,
) -> None:
    asked = gate.asking(gate.turn(), mail())
    shown = await gate.question()
    with pytest.raises(TurnError, match="expected one of arguments"):
        await gate.do("approvals.resolve", id=shown["id"], decision="allow-always", scope="tool")
    assert await gate.grants() == {}
    assert (await gate.question())["id"] == shown["id"]
    await gate.do("approvals.resolve", id=shown["id"], decision="deny")
    assert not (await asked).allowed


async def test_allowing_always_can_be_turned_off(tmp_path: Path) -> None:
    async with opened(tmp_path, approvals={"always": "off"}) as gate:
        asked = gate.asking(gate.turn(), mail())
        shown = await gate.question()
        assert (shown["choices"], shown["scopes"]) == (["allow-once", "deny"], [])
        with pytest.raises(TurnError, match="expected one of allow-once, deny"):
            await gate.do("approvals.resolve", id=shown["id"], decision="allow-always")
        await gate.do("approvals.resolve", id=shown["id"], decision="deny")
        assert not (await asked).allowed


async def test_a_question_that_does_not_offer_always_is_asked_all_the_same(gate: Asked) -> None:
    await gate.always(gate.turn(), mail())
    ask = gate.judged(gate.turn(), mail()).ask_for
    assert ask is not None
    asked = asyncio.create_task(
        gate.plugin.resolve_ask(gate.turn(), mail(), replace(ask, choices=("allow-once", "deny")))
    )
    await gate.do("approvals.resolve", id=(await gate.question())["id"], decision="deny")
    decision = await asked
    assert decision is not None
    assert not decision.allowed


async def test_where_the_operator_wants_to_be_asked_each_time_always_is_not_offered(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, ask=["mail"]) as gate:
        ask = gate.judged(gate.turn(), mail()).ask_for
        assert ask is not None
        assert ask.choices == ("allow-once", "deny")


async def test_a_grant_never_answers_a_denial(tmp_path: Path) -> None:
    async with opened(tmp_path) as gate:
        await gate.always(gate.turn(), mail())
    async with opened(tmp_path, deny=["mail"]) as gate:
        assert gate.judged(gate.turn(), mail()).effect is Effect.DENY


async def test_a_revoked_grant_asks_again_and_is_recorded(gate: Asked) -> None:
    grant = await gate.always(gate.turn(), mail())
    await gate.do("approvals.revoke", id=grant)
    assert await gate.is_asked(gate.turn(), mail())
    assert await gate.grants() == {}
    assert [kind for kind, _ in gate.record.rows] == ["grant_made", "grant_revoked"]
    assert gate.record.rows[-1][1]["revoked_by"] == "ops"
    with pytest.raises(TurnError, match="no grant"):
        await gate.do("approvals.revoke", id=grant)


async def test_an_expired_grant_asks_again(gate: Asked) -> None:
    grant = await gate.always(gate.turn(), mail())
    gate.clock.advance(30 * 86400 - 1)
    assert not await gate.is_asked(gate.turn(), mail())
    gate.clock.advance(1)
    assert await gate.grants() == {grant: "expired"}
    assert await gate.is_asked(gate.turn(), mail())


async def test_grants_survive_a_restart_and_expired_ones_are_forgotten(tmp_path: Path) -> None:
    async with opened(tmp_path) as gate:
        grant = await gate.always(gate.turn(), mail())
    async with opened(tmp_path) as gate:
        assert list(await gate.grants()) == [grant]
        assert not await gate.is_asked(gate.turn(), mail())
        gate.clock.advance(31 * 86400)
        assert gate.plugin._desk is not None
        await gate.plugin._desk.grants.prune()
        assert await gate.grants() == {}


@pytest.mark.parametrize(
    "changed",
    [{"profile": "strict"}, {"approvals": {"approvers": ["*"]}}, {"ask": ["x"]}],
    ids=str,
)
async def test_a_changed_policy_voids_what_was_allowed_under_the_one_before(
    changed: dict[str, Any], tmp_path: Path
) -> None:
    async with opened(tmp_path) as gate:
        grant = await gate.always(gate.turn(), mail())
    async with opened(tmp_path, **changed) as gate:
        assert await gate.grants() == {grant: "other_policy"}
        assert await gate.is_asked(gate.turn(), mail())
    async with opened(tmp_path) as gate:
        assert not await gate.is_asked(gate.turn(), mail())


async def test_changed_rules_void_what_was_allowed_under_those_before(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    text = "version: 1\nrules:\n  - name: one\n    match: {tool: mail}\n    effect: ask\n"
    rules.write_text(text)
    async with opened(tmp_path, rules=[str(rules)]) as gate:
        await gate.always(gate.turn(), mail())
        assert not await gate.is_asked(gate.turn(), mail())
        rules.write_text(text.replace("one", "another"))
        await gate.reread()
        assert await gate.is_asked(gate.turn(), mail())


async def test_grants_of_other_addresses_are_neither_seen_nor_revoked(gate: Asked) -> None:
    grant = await gate.always(gate.turn(), mail())
    scopes = frozenset({"approve"})
    stranger = Principal(id="x", scopes=scopes, bindings=(Claim("irc"),))  # type: ignore[arg-type]
    assert await gate.grants(stranger) == {}
    with pytest.raises(TurnError, match="no grant"):
        await gate.do("approvals.revoke", stranger, id=grant)
    assert list(await gate.grants()) == [grant]


async def test_of_racing_answers_one_makes_one_grant(gate: Asked) -> None:
    asked = gate.asking(gate.turn(), mail())
    shown = await gate.question()

    async def answer(number: int) -> str:
        decision = ("allow-always", "allow-once", "deny")[number % 3]
        principal = Principal.owner(f"p{number}")
        try:
            await gate.do("approvals.resolve", principal, id=shown["id"], decision=decision)
        except TurnError:
            return ""
        return principal.id

    won = [name for name in await asyncio.gather(*map(answer, range(50))) if name]
    (winner,) = won
    decision = await asked
    number = int(winner.removeprefix("p"))
    assert (decision.by, decision.allowed) == (winner, number % 3 != 2)
    assert len(await gate.grants()) == (number % 3 == 0)


async def test_a_grant_that_cannot_be_recorded_is_not_made_and_the_question_waits(
    gate: Asked,
) -> None:
    asked = gate.asking(gate.turn(), mail())
    shown = await gate.question()
    gate.record.failure = StoreUnavailableError("the disk is gone")
    with pytest.raises(StoreUnavailableError):
        await gate.do("approvals.resolve", id=shown["id"], decision="allow-always")
    assert await gate.grants() == {}
    await gate.do("approvals.resolve", id=shown["id"], decision="allow-once")
    assert (await asked).rule == ""


async def test_an_answer_that_comes_while_its_question_runs_out_leaves_nothing(
    gate: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = gate.asking(gate.turn(), mail())
    shown = await gate.question()
    append = gate.record.append

    async def slowly(kind: str, data: Any) -> None:
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await append(kind, data)

    monkeypatch.setattr(gate.record, "append", slowly)
    with pytest.raises(TurnError, match="ran out"):
        await gate.do("approvals.resolve", id=shown["id"], decision="allow-always")
    assert await gate.grants() == {}


async def test_where_grants_cannot_be_read_a_person_is_asked(tmp_path: Path) -> None:
    async with opened(tmp_path) as gate:
        await gate.always(gate.turn(), mail())
        desk = gate.plugin._desk
        assert desk is not None
        desk.grants._store = StandingGrant.records(BrokenStore())  # type: ignore[arg-type]
        assert await gate.is_asked(gate.turn(), mail())
        assert "asked about again" in gate.host.degraded["policy grants"]
        desk.grants._store = StandingGrant.records(gate.host[STORE])
        assert not await gate.is_asked(gate.turn(), mail())
        assert "policy grants" not in gate.host.degraded


@pytest.mark.parametrize(
    "other",
    [
        {"tool": "post"},
        {"plugin": "another"},
        {"tool_digest": "0" * 64},
        {"arguments": "0" * 64},
        {"agent": "another"},
        {"session": "demo:cli:local:another"},
        {"provenance": "scheduled"},
        {"tainted": False},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_grant_that_differs_in_one_thing_does_not_fit(other: Mapping[str, Any]) -> None:
    turn, call = make_turn(taint={"x"}), mail()
    grants = GrantBook(
        StandingGrant.records(MemoryStore(METADATA)), TurnedClock(), days=1, policy=lambda: "one"
    )
    grant = grants.drafted(OPS, grants.basis(turn, call, "one"), "arguments")
    assert grant.fits(turn, call)
    assert not grant.model_copy(update=other).fits(turn, call)


@pytest.fixture(params=["process", "store"])
async def kept(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[Records[StandingGrant]]:
    async with kept_in(request.param, tmp_path, "policy", tables) as store:
        yield StandingGrant.records(store)


async def test_both_keepers_keep_alike(kept: Records[StandingGrant]) -> None:
    clock = TurnedClock()
    grants = GrantBook(kept, clock, days=1, policy=lambda: "one")

    async def made(turn: Turn) -> str:
        grant = grants.drafted(OPS, grants.basis(turn, mail(), "one"), "arguments")
        if not kept.in_process:
            await kept.store.write(grants.keeping(grant))
        else:
            grants.keeping(grant)(None)
        clock.advance(1)
        return grant.id

    here = make_turn(taint={"x"})
    ids = [await made(here), await made(make_turn(agent="b")), await made(here)]
    assert [grant.id for grant in await grants.all()] == list(reversed(ids))
    found = await grants.fitting(here, mail())
    assert found is not None
    assert found.id == ids[2]
    assert await grants.revoke(ids[2])
    assert not await grants.revoke(ids[2])
    clock.advance(86400 - 2)
    await grants.prune()
    assert [grant.id for grant in await grants.all()] == [ids[1]]


def test_the_version_is_of_settings_and_rules() -> None:
    made = [
        policy_version(PolicySettings(), ""),
        policy_version(PolicySettings(profile="open"), ""),
        policy_version(PolicySettings(deny=("x",)), ""),
        policy_version(PolicySettings(), "rules"),
    ]
    assert len(set(made)) == len(made)
    assert policy_version(PolicySettings(), "") == made[0]


# -- who granted it, later ---------------------------------------------------------------------

BOSS = Principal(id="token:boss", scopes=frozenset({"approve", "chat"}), bindings=(Claim(),))
BOTH = {"boss": ["approve", "chat"], "other": ["approve", "chat"]}


async def test_a_grant_of_a_revoked_token_answers_nothing_and_is_gone_for_good(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, tokens=BOTH) as gate:
        turn, call = gate.turn(), mail()
        grant = await gate.always(turn, call, principal=BOSS)
        assert not await gate.is_asked(turn, call)
        await token_book(gate.host).revoke("boss")
        assert await gate.is_asked(turn, call)
        await until(lambda: gate.record.rows[-1][0] == "grant_revoked")
        assert gate.record.rows[-1][1]["id"] == grant
    # A new token of that name is another one.
    (tmp_path / "revoked-tokens.json").unlink()
    async with opened(tmp_path, tokens=BOTH) as gate:
        assert await gate.is_asked(turn, call)


async def test_a_grant_of_a_key_that_has_ended_is_gone_for_good(gate: Asked) -> None:
    agent = Principal(id="key:agent", key="agent", scopes=BOSS.scopes, bindings=(Claim(),))
    turn, call = gate.turn(), mail()
    grant = await gate.always(turn, call, principal=agent)
    gate.host.end_key("other")
    assert not await gate.is_asked(turn, call)
    gate.host.end_key("agent")
    await until(lambda: gate.record.rows[-1][0] == "grant_revoked")
    assert gate.record.rows[-1][1]["id"] == grant
    assert await gate.is_asked(turn, call)


async def test_a_grant_ends_with_what_its_maker_came_in_by(gate: Asked) -> None:
    boss = replace(BOSS, id="key:x", expires=gate.clock.now() + timedelta(hours=1))
    turn, call = gate.turn(), mail()
    grant = await gate.always(turn, call, principal=boss)
    gate.clock.advance(3600)
    assert (await gate.grants())[grant] == "expired"
    assert await gate.is_asked(turn, call)


async def test_a_grant_of_a_token_that_is_over_answers_nothing(tmp_path: Path) -> None:
    over = {"expires": "2020-01-31T00:00:00Z"}
    async with opened(tmp_path, tokens=BOTH, bound=over) as gate:
        grant = await gate.always(gate.turn(), mail(), principal=BOSS)
        assert (await gate.grants())[grant] == "no_approver"
        assert await gate.is_asked(gate.turn(), mail())


NO_LONGER: list[Any] = [
    pytest.param({"other": ["approve"]}, id="its token is not in the settings any more"),
    pytest.param({"boss": ["chat"], "other": ["approve"]}, id="its token may not approve any more"),
    pytest.param({}, id="there are no tokens any more"),
]


@pytest.mark.parametrize("tokens", NO_LONGER)
async def test_a_grant_of_a_token_that_may_not_approve_any_more_answers_nothing(
    tokens: Mapping[str, list[str]], tmp_path: Path
) -> None:
    async with opened(tmp_path, tokens=BOTH) as gate:
        turn, call = gate.turn(), mail()
        grant = await gate.always(turn, call, principal=BOSS)
    async with opened(tmp_path, tokens=tokens) as gate:
        assert await gate.is_asked(turn, call)
        assert await gate.grants() == {grant: "no_approver"}
    async with opened(tmp_path, tokens=BOTH) as gate:
        assert not await gate.is_asked(turn, call)


async def test_a_grant_holds_at_addresses_that_its_token_is_still_bound_to(tmp_path: Path) -> None:
    tokens = {"boss": ["approve"]}
    async with opened(tmp_path, tokens=tokens) as gate:
        turn, call = gate.turn(), mail()
        grant = await gate.always(turn, call, principal=BOSS)
    async with opened(tmp_path, tokens=tokens, bound={"channels": ["irc"]}) as gate:
        assert await gate.is_asked(turn, call)
        assert await gate.grants() == {grant: "no_approver"}


@pytest.mark.parametrize("tokens", [{}, BOTH])
async def test_a_grant_of_the_owner_stays_good(
    tokens: Mapping[str, list[str]], tmp_path: Path
) -> None:
    async with opened(tmp_path) as gate:
        turn, call = gate.turn(), mail()
        await gate.always(turn, call)
    async with opened(tmp_path, tokens=tokens) as gate:
        assert not await gate.is_asked(turn, call)


async def test_a_grant_answers_nothing_for_a_tool_that_has_changed_since_the_turn_began(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, pin_tools="off") as gate:

        async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
            return "sent"

        def registered(**changed: Any) -> ToolCall:
            gate.host.tools.apply("p", [replace(mail().tool, run=run, **changed)])
            return replace(mail(), tool=gate.host.tools.view()["mail"])

        call = registered()
        await gate.always(gate.turn(), call)
        assert not await gate.is_asked(gate.turn(), call)
        # The running turn keeps the tool that it began with, and that is the one granted.
        registered(description="Sends to everybody.")
        assert await gate.is_asked(gate.turn(), call)
        registered()
        assert not await gate.is_asked(gate.turn(), call)


PUSH = {"program": "git push", "remote": "origin"}


def push(command: str, family: Mapping[str, str] | None = None, **more: Any) -> ToolCall:
    """A call of a client's tool, of which a plugin has said what it does."""
    call = make_call("Bash", None, {"command": command})
    call = replace(call, tool=replace(call.tool, owner="client", sandbox="client"))
    said = ClientCallFlags(flags=SENDS, family=PUSH if family is None else family)
    return replace(call, said=said, **more)


async def test_a_family_is_shown_as_data_and_reaches_calls_that_have_the_same_in_common(
    gate: Asked,
) -> None:
    asked = gate.asking(gate.turn(), push("git push"))
    shown = await gate.question()
    assert (shown["family"], shown["scopes"]) == (PUSH, ["arguments", "family"])
    made = await gate.do(
        "approvals.resolve", id=shown["id"], decision="allow-always", scope="family"
    )
    assert (await asked).rule == f"grant:{made.grant}"
    (row,) = (await gate.do("approvals.grants")).grants
    assert (row.scope, row.state) == ("family", "valid")
    assert orjson.loads(row.arguments) == PUSH
    assert not await gate.is_asked(gate.turn(), push("git push origin work"))


async def test_a_grant_about_a_clients_tool_is_valid_however_it_came(tmp_path: Path) -> None:
    async with opened(tmp_path, pin_tools="off") as gate:
        call = push("git push")
        for plugin in ("client", ""):
            brought = replace(call, tool=replace(call.tool, plugin=plugin))
            await gate.always(gate.turn(), brought, scope="family")
        await gate.always(gate.turn(), replace(call, tool=replace(call.tool, plugin="tools")))
        assert sorted((await gate.grants()).values()) == ["other_tool", "valid", "valid"]


@pytest.mark.parametrize(
    ("circumstances", "call"),
    [
        pytest.param({}, push("git push", {**PUSH, "remote": "evil"}), id="other bounds"),
        pytest.param({}, push("git push", {}), id="no family"),
        pytest.param({}, push("git push", {**PUSH, "folder": "/x"}), id="more bounds"),
        pytest.param({}, replace(push("git push"), said=None), id="nobody knows it"),
        pytest.param({"address": Address(peer="other")}, push("git push"), id="other session"),
        pytest.param({"agent": "other"}, push("git push"), id="other agent"),
        pytest.param({"provenance": Provenance.SCHEDULED}, push("git push"), id="other provenance"),
        pytest.param(
            {},
            replace(push("git push"), tool=replace(push("git push").tool, description="Other.")),
            id="other tool",
        ),
    ],
)
async def test_a_family_fits_nothing_else(
    gate: Asked, circumstances: dict[str, Any], call: ToolCall
) -> None:
    await gate.always(gate.turn(), push("git push origin"), scope="family")
    assert await gate.is_asked(gate.turn(**circumstances), call)


async def test_what_was_allowed_for_a_family_in_a_clean_turn_does_not_hold_in_a_tainted_one(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, profile="guarded") as gate:
        await gate.always(gate.turn(taint=set()), push("git push"), scope="family")
        assert not await gate.is_asked(gate.turn(taint=set()), push("git push origin"))
        assert await gate.is_asked(gate.turn(), push("git push origin"))


async def test_a_family_is_offered_only_where_a_plugin_has_said_one(gate: Asked) -> None:
    asked = gate.asking(gate.turn(), push("git push", {}))
    shown = await gate.question()
    assert shown["scopes"] == ["arguments"]
    with pytest.raises(TurnError, match="scope 'family'"):
        await gate.do("approvals.resolve", id=shown["id"], decision="allow-always", scope="family")
    await gate.do("approvals.resolve", id=shown["id"], decision="deny")
    assert not (await asked).allowed


async def test_a_grant_of_the_arguments_is_none_of_their_family(gate: Asked) -> None:
    await gate.always(gate.turn(), push("git push"))
    assert not await gate.is_asked(gate.turn(), push("git push"))
    assert await gate.is_asked(gate.turn(), push("git push origin"))
