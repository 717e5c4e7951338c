from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine, Served

RULES = """\
rules:
  - name: no-send-after-web
    match:
      flags: {sends_externally: [true, unknown]}
      tainted: true
    effect: deny
    reason: a page could have asked for it
"""
CASES = """\
tools:
  send: {flags: {sends_externally: true, others: false}}
cases:
  - name: a send after a page
    call: {tool: send}
    turn: {tainted: true}
    expect: {effect: deny, rule: no-send-after-web}
  - name: a send without one
    call: {tool: send}
    expect: allow
"""


@pytest.fixture(autouse=True)
def here(hookgate: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the command line is started, with rules in it."""
    place = hookgate.home / "work"
    (place / "rules").mkdir(parents=True)
    (place / "rules" / "a.yaml").write_text(RULES)
    monkeypatch.chdir(place)
    return place


def written(path: Path, *rules: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    named = [{"name": f"r{n}", "reason": "x", **rule} for n, rule in enumerate(rules)]
    path.write_text(json.dumps({"rules": named}))
    return path


# -- check -----------------------------------------------------------------------------


def test_good_rules_are_ok_and_the_settings_name_them(hookgate: CommandLine, here: Path) -> None:
    ran = hookgate("policy", "check", "rules")
    assert (ran.code, ran.out) == (0, "ok 1 rule\n")
    assert "found no rules" in hookgate("policy", "check").err
    hookgate.config(f'[plugin.policy]\nrules = ["{here / "rules"}"]\n')
    assert hookgate("policy", "check", "--json").json["rules"] == ["no-send-after-web"]


def test_errors_are_named_with_their_place_and_end_with_1(hookgate: CommandLine) -> None:
    written(Path("bad.yaml"), {"effect": "block"}, {"efect": "deny"})
    for command in ("check", "test", "coverage"):
        ran = hookgate("policy", command, "bad.yaml")
        assert ran.code == 1
        assert "bad.yaml:1" in ran.out
        assert "in rule 'r0': the text \"block\"" in ran.out
        assert "did you mean effect?" in ran.out


def test_a_warning_costs_nothing_unless_one_is_strict(hookgate: CommandLine) -> None:
    written(Path("odd.yaml"), {"effect": "deny"}, {"effect": "allow", "match": {"tool": "x"}})
    ran = hookgate("policy", "check", "odd.yaml")
    assert ran.code == 0
    assert "a rule that never counts: 'r0'" in ran.out
    strict = hookgate("policy", "check", "odd.yaml", "--strict")
    assert (strict.code, "ok" in strict.out) == (1, False)
    assert "1 warning, which --strict takes for wrong" in strict.out
    told = hookgate("policy", "check", "odd.yaml", "--strict", "--json")
    assert (told.code, told.json["ok"]) == (1, False)


def test_keys_are_named_as_rules_have_them(hookgate: CommandLine) -> None:
    written(Path("odd.yaml"), {"effect": "deny", "nott": {}})
    said = hookgate("policy", "check", "odd.yaml").out
    assert ("`not`" in said, "not_" in said, "did you mean not?" in said) == (True, False, True)
    written(Path("odd.yaml"), {"effect": "deny", "not": {"tainted": "maybe"}})
    said = hookgate("policy", "check", "odd.yaml").out
    assert ("rules[0].not.tainted" in said, "expected true or false" in said) == (True, True)


def test_rules_are_held_against_the_tools_of_a_gateway(hookgate: CommandLine) -> None:
    deny = {"effect": "deny", "match": {"tool": ["calculate", "calcualte"]}}
    written(Path("odd.yaml"), {**deny, "when": "args.expresion == '1'"})
    assert hookgate("policy", "check", "odd.yaml").out == "ok 1 rule\n"
    ran = hookgate("policy", "check", "odd.yaml", "--tools", HOOKGATE_PLUGINS__DISABLE="[]")
    assert ran.code == 0
    assert "no tool that 'calcualte' fits" in ran.out
    assert "speaks of args.expresion" in ran.out


def test_it_is_said_where_no_gateway_could_be_asked_for_its_tools(
    hookgate: CommandLine, here: Path
) -> None:
    written(here / "gone.yaml", {"effect": "block"})
    hookgate.config(f'[plugin.policy]\nrules = ["{here / "gone.yaml"}"]\n')
    ran = hookgate("policy", "check", "rules", "--tools")
    assert ran.code == 0
    assert "names and arguments of tools were not looked at" in ran.out


# -- test and coverage -----------------------------------------------------------------


def test_cases_pass_or_say_what_was_expected_and_found_and_why(
    hookgate: CommandLine, here: Path
) -> None:
    assert "no cases" in hookgate("policy", "test", "rules").out
    assert hookgate("policy", "test", "rules").code == 1
    cases = here / "rules" / "a.test.yaml"
    cases.write_text(CASES)
    for path in ("rules", "rules/a.yaml", "rules/a.test.yaml"):
        ran = hookgate("policy", "test", path)
        assert (ran.code, ran.out.splitlines()[-1]) == (0, "2 cases passed, 0 failed")
    cases.write_text(CASES.replace("expect: allow", "expect: deny"))
    ran = hookgate("policy", "test", "rules")
    assert ran.code == 1
    assert "failed a send without one" in ran.out
    assert "expected deny, found allow" in ran.out
    assert "no-send-after-web fails: it is about other circumstances" in ran.out
    assert hookgate("policy", "test", "rules", "--json").json["failed"] == 1


def test_cases_are_judged_by_the_lists_and_the_profile_of_the_settings(
    hookgate: CommandLine, here: Path
) -> None:
    (here / "rules" / "a.test.yaml").write_text(CASES)
    hookgate.config('[plugin.policy]\nprofile = "strict"\n')
    ran = hookgate("policy", "test", "rules")
    assert ran.code == 1
    assert "expected allow, found ask" in ran.out
    hookgate.config('[plugin.policy]\nprofile = "strict"\nallow = ["send"]\n')
    assert hookgate("policy", "test", "rules").code == 0


def test_cases_that_cannot_be_read_are_named(hookgate: CommandLine, here: Path) -> None:
    (here / "rules" / "a.test.yaml").write_text(CASES.replace("expect: allow", "expct: allow"))
    ran = hookgate("policy", "test", "rules")
    assert ran.code == 1
    assert "did you mean expect?" in ran.out


def test_coverage_names_what_nothing_exercises(hookgate: CommandLine, here: Path) -> None:
    (here / "rules" / "a.test.yaml").write_text(CASES)
    written(here / "rules" / "b.yaml", {"effect": "deny", "match": {"tool": "never"}})
    ran = hookgate("policy", "coverage", "rules", "--fail-under", "60")
    assert ran.code == 1
    assert "nothing exercises r0" in ran.out
    assert "50% of 2 rules exercised by 2 calls" in ran.out
    assert hookgate("policy", "coverage", "rules", "--fail-under", "50").code == 0


# -- explain ---------------------------------------------------------------------------


def test_every_rule_is_explained_and_what_follows(hookgate: CommandLine, here: Path) -> None:
    written(here / "rules" / "b.yaml", {"effect": "ask", "when": "args.n > 1"})
    words = ["policy", "explain", "send", "--rules", "rules", "--offline"]
    ran = hookgate(*words, "--tainted", "--arg", "n=2")
    assert ran.code == 0
    assert "deny by rule:no-send-after-web" in ran.out  # what is undeclared counts there
    assert "ask by" in hookgate(*words, "--arg", "n=2", "--arguments", '{"m": 1}').out
    data = hookgate(*words, "--tainted", "--flag", "sendsExternally=true", "--json").json
    assert {row["rule"]: row["state"] for row in data["rules"]} == {
        "no-send-after-web": "holds",
        "r0": "unknown",
    }
    assert (data["decided"]["effect"], data["note"]) == ("deny", "no gateway was asked")


def test_what_a_tool_declares_is_asked_of_the_gateway(hookgate: CommandLine) -> None:
    data = hookgate("policy", "explain", "calculate", "--json").json
    assert data["flags"]["executes_privileged"] is False
    assert (data["note"], data["rules"]) == ("", [])
    assert data["decided"]["rule"] == "profile:balanced"
    told = hookgate("policy", "explain", "calculate", "--flag", "executes_privileged=unknown")
    assert "ask by privileged-unknown" in told.out
    assert "has no such tool" in hookgate("policy", "explain", "nothing").out


@pytest.mark.parametrize(
    "words",
    [
        ["--flag", "sends_externally=maybe"],
        ["--flag", "sends=true"],
        ["--arg", "n"],
        ["--arguments", "["],
        ["--arguments", "[]"],
        ["--provenance", "user"],
    ],
)
def test_what_cannot_be_explained_is_refused(hookgate: CommandLine, words: list[str]) -> None:
    assert hookgate("policy", "explain", "send", "--offline", *words).code == 2


# -- replay ----------------------------------------------------------------------------


@pytest.mark.slow
def test_decisions_on_record_are_judged_again(hookgate: CommandLine, here: Path) -> None:
    for text in ("what is 17*23?", "what time is it?"):
        assert hookgate("chat", text).code == 0
    assert "2 decisions: 2 stay" in hookgate("policy", "replay").out
    written(here / "no.yaml", {"effect": "deny", "match": {"tool": "calculate"}})
    export = here / "export.jsonl"
    assert hookgate("audit", "export", "--out", str(export)).code == 0
    for source in ([], ["--export", str(export)]):
        ran = hookgate("policy", "replay", "--rules", "no.yaml", *source, "--fail-on-flip")
        assert ran.code == 1
        assert "2 decisions: 1 stay, 1 allow -> deny" in ran.out
    data = hookgate("policy", "replay", "--rules", "no.yaml", "--json").json
    (flip,) = data["decisions"]
    assert (flip["tool"], flip["old"], flip["new"], flip["new_rule"]) == (
        "calculate",
        "allow",
        "deny",
        "rule:r0",
    )
    assert "1 decision: 1 stay" in hookgate("policy", "replay", "--limit", "1").out
    assert hookgate("policy", "replay", "--since", "1h", "--json").json["rows"] == 2
    assert hookgate("policy", "replay", "--since", "2999-01-01", "--json").json["rows"] == 0
    assert hookgate("policy", "replay", "--since", "soon").code == 2
    compared = hookgate("policy", "diff", "rules", "no.yaml", "--since", "1h", "--json").json
    assert compared["calls"]["flips"] == {"allow -> deny": 1}
    covered = hookgate("policy", "coverage", "no.yaml", "--export", str(export))
    assert "100% of 1 rule exercised by 2 calls" in covered.out


def test_what_the_audit_masked_is_undecidable(hookgate: CommandLine, here: Path) -> None:
    hookgate.config('[plugin.audit]\nredact = ["expression"]\n')
    assert hookgate("chat", "what is 17*23?").code == 0
    written(here / "no.yaml", {"effect": "deny", "when": "args.expression == '17*23'"})
    ran = hookgate("policy", "replay", "--rules", "no.yaml", "--fail-on-flip")
    assert ran.code == 0
    assert "0 stay, 1 undecidable" in ran.out


def test_a_running_gateway_is_asked_for_its_record(
    hookgate: CommandLine, serve: Callable[[], Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in hookgate.environ.items():
        monkeypatch.setenv(name, value)
    serve()
    assert hookgate("chat", "what is 17*23?").code == 0
    assert "1 decision: 1 stay" in hookgate("policy", "replay").out
    assert "strict" in hookgate("policy", "table").out


def test_a_file_that_is_no_export_is_refused(hookgate: CommandLine, here: Path) -> None:
    (here / "notes.txt").write_text("hello")
    for name in ("notes.txt", "gone.jsonl"):
        ran = hookgate("policy", "replay", "--export", name)
        assert ran.code == 1
        assert "cannot be replayed" in ran.err


# -- diff ------------------------------------------------------------------------------


def test_two_sets_of_rules_are_compared_by_what_they_say_and_by_what_follows(
    hookgate: CommandLine, here: Path
) -> None:
    new = here / "new"
    new.mkdir()
    (new / "other.yaml").write_text(
        "\n" + RULES.replace("effect: deny", "effect: ask")
        + "  - {name: more, effect: deny, reason: x, match: {tool: shell}}\n"
    )  # fmt: skip
    (here / "rules" / "a.test.yaml").write_text(CASES)
    data = hookgate("policy", "diff", "rules", "new", "--json").json
    assert data["added"] == ["more"]
    assert data["removed"] == []
    assert data["changed"] == {"no-send-after-web": ["effect"]}
    assert [one["what"] for one in data["cases"]] == ["a send after a page"]
    sends = [one for one in data["table"] if one["what"].startswith("any_tool")]
    assert {(one["old"], one["new"]) for one in sends} == {("deny", "ask")}
    assert any(one["what"].startswith("shell") for one in data["table"])
    assert "1 of 2 cases differ" in hookgate("policy", "diff", "rules", "new").out
    same = hookgate("policy", "diff", "rules", "rules", "--json").json
    assert (same["changed"], same["table"], same["cases"]) == ({}, [], [])


def test_the_group_still_offers_what_plugins_bring(hookgate: CommandLine) -> None:
    assert "table" in hookgate("policy", "--help").out


def test_the_folder_that_one_stands_in_does_not_choose_the_policy(
    hookgate: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(hookgate.home / ".hookgate" / "rules" / "a.yaml", {"effect": "deny"})
    hookgate.config('[plugin.policy]\nrules = ["rules"]\n')
    hostile = here / "cloned"
    written(hostile / "rules" / "a.yaml", {"effect": "allow"})
    told = []
    for folder in (here, hostile, hookgate.home):
        monkeypatch.chdir(folder)
        told.append(hookgate("policy", "explain", "calculate", "--json").json)
    assert told[0]["decided"]["effect"] == "deny"
    assert told[0] == told[1] == told[2]


def test_counts_read_as_english(hookgate: CommandLine, here: Path) -> None:
    written(here / "bad" / "a.yaml", {"effect": "block"})
    assert hookgate("policy", "check", "bad").out.splitlines()[-1] == "1 rule is wrong"
    written(here / "bad" / "a.yaml", {"effect": "block", "when": "("}, {"effect": "no"})
    assert hookgate("policy", "check", "bad").out.splitlines()[-1] == "2 rules are wrong"
    (here / "bad" / "b.yaml").write_text("rules: 3")
    last = hookgate("policy", "check", "bad").out.splitlines()[-1]
    assert last == "2 rules are wrong, 1 problem"


def test_explain_knows_what_was_read_and_what_was_called_before(
    hookgate: CommandLine, here: Path
) -> None:
    rules = written(
        here / "earlier.yaml",
        {"match": {"tool": "send", "taint": "tool:http_*"}, "effect": "deny"},
        {"match": {"tool": "post"}, "after": {"tool": "read", "within": "1h"}, "effect": "deny"},
        {"match": {"tool": "put"}, "after": {"tool": "read"}, "effect": "deny"},
    )

    def decided(tool: str, *more: str) -> str:
        command = ("policy", "explain", tool, "--offline", "--json", "--rules", str(rules))
        return str(hookgate(*command, *more).json["decided"]["rule"])

    assert decided("send", "--taint", "tool:http_get") == "rule:r0"
    assert decided("send", "--taint", "card:x") != "rule:r0"
    assert decided("post", "--before", "read@10m") == "rule:r1"
    assert decided("post", "--before", "read@2h") != "rule:r1"
    assert decided("put", "--before", "list", "--before", "read") == "rule:r2"
    assert decided("put", "--before", "read@10m") != "rule:r2"
    assert (
        "expected 90s, 10m, 2h or 7d"
        in hookgate("policy", "explain", "put", "--offline", "--before", "read@soon").err
    )
