from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.policy.rules.profiles import PROFILES, Circumstances, cells, judge
from hookgate.core.domain.descriptors import FLAG_NAMES, Flags
from hookgate.core.domain.messages import Provenance
from hookgate.core.domain.tools import Effect

PAGE = Path(__file__).parents[3] / "docs" / "plugins" / "policy.md"

USER = Provenance.EXTERNAL_USER
NESTED = Provenance.INTER_SESSION

flag_values = st.sampled_from([True, False, None])
some_flags = st.fixed_dictionaries(dict.fromkeys(FLAG_NAMES, flag_values)).map(Flags.from_mapping)
some_circumstances = st.builds(
    Circumstances,
    provenance=st.sampled_from(list(Provenance)),
    tainted=st.booleans(),
    owner=st.sampled_from(["host", "client"]),
    said=st.booleans(),
    confined=st.booleans(),
)


def flags(**values: bool | None) -> Flags:
    return Flags.from_mapping({**Flags.none().to_json(), **values})


def effect(
    profile: str, declared: Flags, provenance: Provenance = USER, tainted: bool = False
) -> Effect:
    circumstances = Circumstances(provenance=provenance, tainted=tainted)
    rule = judge(profile, declared, circumstances)  # type: ignore[arg-type]
    return rule.effect if rule else Effect.ALLOW


ALLOW, ASK, DENY = Effect.ALLOW, Effect.ASK, Effect.DENY


@pytest.mark.parametrize("value", [True, None])
def test_balanced_asks_before_a_tainted_turn_sends(value: bool | None) -> None:
    sends = flags(sends_externally=value)
    assert effect("balanced", sends) is ALLOW
    assert effect("balanced", sends, tainted=True) is ASK


@pytest.mark.parametrize("value", [True, None])
def test_balanced_asks_before_another_session_sends(value: bool | None) -> None:
    assert effect("balanced", flags(sends_externally=value), NESTED) is ASK
    assert effect("balanced", flags(sends_externally=False), NESTED, tainted=True) is ALLOW


@pytest.mark.parametrize("provenance", list(Provenance))
def test_balanced_denies_raised_rights_to_all_but_a_persons_message(provenance: Provenance) -> None:
    privileged = flags(executes_privileged=True)
    expected = ASK if provenance is USER else DENY
    assert effect("balanced", privileged, provenance) is expected
    assert effect("balanced", flags(executes_privileged=None), provenance) is ASK


def test_balanced_asks_before_raised_rights_follow_foreign_text() -> None:
    assert effect("balanced", flags(executes_privileged=True), tainted=True) is ASK


@pytest.mark.parametrize("value", [True, None])
@pytest.mark.parametrize("provenance", list(Provenance))
def test_balanced_asks_before_something_autonomous_is_made_without_a_person(
    value: bool | None, provenance: Provenance
) -> None:
    expected = ALLOW if provenance is USER else ASK
    assert effect("balanced", flags(creates_autonomous_actions=value), provenance) is expected


@given(some_flags, some_circumstances, st.sampled_from(FLAG_NAMES))
def test_what_is_declared_is_judged_at_least_as_strictly_as_what_is_not(
    declared: Flags, circumstances: Circumstances, flag: str
) -> None:
    for profile in ("balanced", "strict"):
        said, unsaid, denied = (
            strictness(
                profile, Flags.from_mapping({**declared.to_json(), flag: value}), circumstances
            )
            for value in (True, None, False)
        )
        assert said >= unsaid >= denied or flag == "reads_external_data"


def strictness(profile: str, declared: Flags, circumstances: Circumstances) -> Effect:
    rule = judge(profile, declared, circumstances)  # type: ignore[arg-type]
    return rule.effect if rule else ALLOW


def test_what_a_client_runs_is_judged_as_what_leaves_to_it() -> None:
    def of_client(declared: Flags, came: Provenance = USER, tainted: bool = False) -> Effect:
        there = Circumstances(provenance=came, tainted=tainted, owner="client")
        return strictness("balanced", declared, there)

    assert of_client(Flags()) is ALLOW
    assert of_client(Flags(), tainted=True) is ASK
    assert of_client(flags(), tainted=True) is ASK
    assert of_client(Flags(), NESTED) is ASK
    assert of_client(Flags(), Provenance.SCHEDULED) is ASK
    assert of_client(Flags(executes_privileged=True)) is ASK
    assert strictness("strict", Flags(), Circumstances(provenance=USER, owner="client")) is ASK


@pytest.mark.parametrize("flag", FLAG_NAMES)
def test_strict_asks_about_every_undeclared_flag(flag: str) -> None:
    assert effect("strict", flags(**{flag: None})) is ASK


@given(some_flags, some_circumstances)
def test_open_allows_everything(declared: Flags, circumstances: Circumstances) -> None:
    assert judge("open", declared, circumstances) is None


@given(some_flags, some_circumstances)
def test_profiles_grow_stricter(declared: Flags, circumstances: Circumstances) -> None:
    where = (circumstances.provenance, circumstances.tainted)
    assert effect("open", declared, *where) <= effect("balanced", declared, *where)
    assert effect("balanced", declared, *where) <= effect("strict", declared, *where)


@given(some_flags, some_circumstances, st.sampled_from(FLAG_NAMES), st.sampled_from(list(PROFILES)))
def test_declaring_false_never_makes_it_stricter_and_unknown_is_never_laxer_than_false(
    declared: Flags, circumstances: Circumstances, flag: str, profile: str
) -> None:
    where = (circumstances.provenance, circumstances.tainted)
    values = declared.to_json()
    as_false = effect(profile, Flags.from_mapping({**values, flag: False}), *where)
    as_unknown = effect(profile, Flags.from_mapping({**values, flag: None}), *where)
    assert as_false <= effect(profile, declared, *where)
    assert as_false <= as_unknown


@given(some_flags, st.sampled_from(list(Provenance)), st.sampled_from(list(PROFILES)))
def test_taint_never_makes_it_laxer(declared: Flags, provenance: Provenance, profile: str) -> None:
    assert effect(profile, declared, provenance) <= effect(profile, declared, provenance, True)


@pytest.mark.parametrize("profile", list(PROFILES))
def test_table_has_a_cell_for_every_flag_value_and_circumstance(profile: str) -> None:
    table = list(cells(profile))  # type: ignore[arg-type]
    assert len(table) == len(FLAG_NAMES) * 3 * len(Provenance) * 2
    assert all((cell.effect is ALLOW) == (cell.rule_name == "") for cell in table)
    assert {cell.rule_name for cell in table} - {""} <= {rule.name for rule in PROFILES[profile]}  # type: ignore[index]


def test_rule_names_are_unique() -> None:
    names = [rule.name for rule in PROFILES["strict"]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("profile", list(PROFILES))
def test_page_shows_every_rule_as_it_is(profile: str) -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    when = {
        "always": "always",
        "tainted": "the turn is tainted",
        "tainted_unconfined": "the turn is tainted, and nothing says that it stays in the "
        "workspace",
        "inter_session": "the turn came from another session",
        "scheduled": "a [schedule](schedules.md) started the turn",
        "not_external_user": "the turn came from anything but a person",
    }
    for rule in PROFILES[profile]:  # type: ignore[index]
        values = " or ".join(
            {True: "true", False: "false", None: "undeclared"}[value]
            for value in sorted(rule.values, key=lambda value: value is None)
        )
        looks_at = f"`{rule.flag}` is {values}"
        row = f"| `{rule.name}` | {looks_at} | {when[rule.when]} | {rule.effect.name.lower()} |"
        assert row in lines


KNOWN = Circumstances(provenance=USER, tainted=True, owner="client", said=True, confined=True)


@pytest.mark.parametrize("profile", ["guarded", "balanced", "strict"])
def test_a_clients_call_that_is_known_to_do_nothing_asks_nobody(profile: str) -> None:
    assert judge(profile, Flags.none(), KNOWN) is None  # type: ignore[arg-type]
    unknown = judge(profile, Flags.none(), replace(KNOWN, said=False))  # type: ignore[arg-type]
    assert unknown is not None


@pytest.mark.parametrize(
    ("declared", "confined", "expected"),
    [
        ({"writes_persistent_state": True}, True, ALLOW),
        ({"writes_persistent_state": True}, False, ASK),
        ({"writes_persistent_state": None}, False, ASK),
        ({"sends_externally": True}, True, ASK),
        ({"sends_externally": None}, True, ASK),
        ({"executes_privileged": True}, True, ASK),
        ({"executes_privileged": None}, True, ASK),
        ({"creates_autonomous_actions": True}, True, ASK),
        ({"creates_autonomous_actions": None}, True, ASK),
        ({"reads_external_data": True}, True, ALLOW),
    ],
)
def test_guarded_lets_a_client_work_in_its_workspace_and_asks_about_the_rest(
    declared: dict[str, bool | None], confined: bool, expected: Effect
) -> None:
    rule = judge("guarded", flags(**declared), replace(KNOWN, confined=confined))
    assert (rule.effect if rule else ALLOW) is expected
    clean = judge("guarded", flags(**declared), replace(KNOWN, confined=confined, tainted=False))
    if "writes_persistent_state" not in declared:
        assert (clean.effect if clean else ALLOW) is expected


@pytest.mark.parametrize("tainted", [True, False])
def test_guarded_asks_about_a_clients_tool_of_which_nobody_knows_anything(tainted: bool) -> None:
    unknown = replace(KNOWN, said=False, confined=False, tainted=tainted)
    for declared in (Flags(), Flags.none()):
        rule = judge("guarded", declared, unknown)
        assert rule is not None
        assert rule.effect is ASK
