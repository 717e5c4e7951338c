from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.policy.rules.files import files_of, read_rules, read_text_of_rules
from hookgate.builtin_plugins.policy.rules.linting import arguments_of
from hookgate.builtin_plugins.policy.rules.model import Variables

GOOD = """\
version: 1
rules:
  - name: no-send-after-web
    description: What a page says must not leave.
    match:
      tool: ["*"]
      flags:
        sendsExternally: [true, unknown]
      provenance: external_user
    when: "turn.tainted && !args.to.endsWith('@us.com')"
    after:
      flags: {reads_external_data: true}
      within: 10m
      scope: session
    more_than: {calls: 2, within: 1h}
    effect: ask
    unknown: deny
    reason: It could send what a page asked for.
    severity: critical
    timeout: 60
  - name: cut
    effect: rewrite
    mode: shadow
    rewrite:
      set: {limit: "10", to: "'x'"}
      remove: [bcc]
"""


def problems(text: str) -> list[str]:
    return [str(one) for one in read_text_of_rules(text, "r.yaml").problems]


def one(**keys: Any) -> str:
    return json.dumps({"rules": [{"name": "r", "effect": "deny", "reason": "no", **keys}]})


def test_everything_that_a_rule_may_say_is_read() -> None:
    reading = read_text_of_rules(GOOD, "r.yaml")
    assert reading.problems == ()
    first, second = reading.found
    assert first.match.flags == {"sends_externally": frozenset({True, None})}
    assert first.match.provenance == ("external_user",)
    assert first.after is not None
    assert (first.after.within, first.after.scope) == (600.0, "session")
    assert first.more_than is not None
    assert (first.more_than.calls, first.more_than.within) == (2, 3600.0)
    assert (first.unknown, first.severity, first.timeout) == ("deny", "critical", 60.0)
    assert first.place == "r.yaml:3"
    assert first.when is not None
    assert arguments_of(first.when) == {"to"}
    assert second.rewrite is not None
    assert list(second.rewrite.set) == ["limit", "to"]
    assert (second.mode, second.rewrite.remove) == ("shadow", ("bcc",))
    assert second.when is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected keys and values, with `rules`"),
        ("rules: 3", "found 3, expected a list"),
        ("rules: [3]", "in rule 1: 3, expected a mapping"),
        ("rules: []\nrule: []", "did you mean `rules`?"),
        ("version: 2\nrules: []", "expected 1"),
        (one(effect="block"), "expected one of `allow`, `rewrite`, `ask`, `deny`"),
        (one(efect="deny"), "did you mean `effect`?"),
        (one(name="no spaces"), "`rules[0].name`: found in rule 'no spaces'"),
        (one(match={"tol": "x"}), "did you mean `tool`?"),
        (one(match={"flags": {"sends": True}}), "a key that is not known"),
        (one(match={"flags": {"sends_externally": "maybe"}}), "true, false or unknown"),
        (one(match={"flags": {"sends_externally": 1}}), "true, false or unknown"),
        (one(match={"flags": {"sends_externally": []}}), "true, false or unknown"),
        (one(match={"provenance": "user"}), "one of `external_user`"),
        (one(match={"tool": ["a b"]}), "`rules[0].match.tool[0]`"),
        (one(match={"tainted": "yes"}), "true or false"),
        (one(when="args.x ="), "no condition"),
        (one(when="nonsense.x"), "undeclared reference"),
        (one(when="'text'"), "never true or false"),
        (one(when="x" * 3000), "at most 2000"),
        (one(when=[1]), "a condition in CEL"),
        (one(unknown="allow"), "expected one of `ask`, `deny`"),
        (one(effect="allow", unknown="ask"), "no `unknown`"),
        (one(effect="rewrite"), "`rewrite` with `set` or `remove`"),
        (one(rewrite={"remove": ["a"]}), "exactly where the effect is rewrite"),
        (one(effect="rewrite", rewrite={}), "one of the two"),
        (one(effect="rewrite", rewrite={"set": {"a b": "1"}}), "the name of an argument"),
        (one(effect="rewrite", rewrite={"set": {"a": "("}}), "no condition"),
        (one(after={"within": "2d"}), "at most 1d: earlier calls are kept in memory"),
        (one(after={"within": "soon"}), "expected 90s, 10m, 2h or 7d, or a number of seconds"),
        (one(effect="ask", approvers=[]), "names of groups or globs of principals"),
        (one(effect="allow", approvers="x"), "where the effect is ask or deny"),
        ("rules:\n  - {name: r, effect: deny, when: \"args.a.matches('a\\.b')\"}", "written twice"),
        (one(when="args.a.matches('a\\.b')"), "write [.] for a dot, or r'\\.'"),
        (one(after={"within": "48h"}), "at most 1d"),
        (one(after={"scope": "session"}), "how long to look back"),
        (one(more_than={"within": 5}), "calls`: found in rule 'r': nothing"),
        (one(match=None), "match`: found in rule 'r': nothing"),
        (one(effect="allow", match={"principal": []}), "match.principal`: found in rule 'r': noth"),
        (one(effect="allow", match={"principal": None}), "a value, or no such key"),
        (one(effect="allow", match={"flags": {"sends_externally": None}}), "nothing"),
        (one(effect="allow", when=None), "a value, or no such key"),
        (one(unless={"after": {"tool": []}}), "unless.after.tool`: found in rule 'r': nothing"),
        (one(timeout=30), "one where the effect is ask"),
        (one(effect="ask", timeout=604801), "at most 7d: its call and its session wait"),
        (one(effect="ask", timeout="8d"), "at most 7d: its call and its session wait"),
        (one(effect="ask", timeout="0.5s"), "at least 1s"),
        ("rules: &a []", "anchor"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, said: str) -> None:
    found = problems(text)
    assert any(said in problem for problem in found), found
    assert read_text_of_rules(text, "r.yaml").found == ()
    assert all(problem.startswith("r.yaml") for problem in found)


@pytest.mark.parametrize(
    "when",
    ["args.a.matches(r'a\\.b')", "args.a.matches('a\\\\.b')", "\"args.a.matches('a[.]b')\""],
)
def test_a_pattern_with_a_dot_is_spelt_as_the_page_says(when: str) -> None:
    text = f"rules:\n  - name: r\n    effect: deny\n    reason: x\n    when: {when}\n"
    (rule,) = read_text_of_rules(text, "r.yaml").found
    assert rule.when is not None
    held = [rule.when.holds(Variables(lambda a=a: {"args": {"a": a}})) for a in ("a.b", "axb")]  # type: ignore[misc]
    assert held == [True, False]


def test_a_denial_without_a_reason_is_worth_a_warning_and_works() -> None:
    reading = read_text_of_rules('{"rules": [{"name": "r", "effect": "deny"}]}', "r.yaml")
    assert len(reading.found) == 1
    assert [one.severity for one in reading.problems] == ["warning"]


def test_files_and_folders_are_read_in_order_and_two_rules_of_one_name_are_an_error(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "b.yaml").write_text(one(name="b"))
    (folder / "a.yml").write_text(one(name="a"))
    (folder / "a.test.yaml").write_text("cases: []")
    (folder / "notes.txt").write_text("nothing")
    single = tmp_path / "single.yaml"
    single.write_text(one(name="single"))
    reading = read_rules([folder, single, folder / "b.yaml"])
    assert [rule.name for rule in reading.found] == ["a", "b", "single"]
    assert files_of([folder], tests=True) == [folder / "a.test.yaml"]
    single.write_text(one(name="a"))
    reading = read_rules([folder, single])
    assert reading.failed
    assert f"{folder / 'a.yml'}:1 has this one" in str(reading.problems[-1])


def test_a_folder_without_rules_and_what_is_not_read_of_one_is_said(tmp_path: Path) -> None:
    reading = read_rules([tmp_path])
    assert (reading.found, reading.failed) == ((), False)
    assert "a folder without rules" in str(reading.problems[0])
    (tmp_path / "..data").mkdir()
    for name in ("a.yaml", "..data/a.yaml", "a.test.yaml"):
        (tmp_path / name).write_text(one(name="a") if name == "a.yaml" else "cases: []")
    assert read_rules([tmp_path]).problems == ()
    for name in ("team", "cards"):
        (tmp_path / name).mkdir()
    (tmp_path / "cards" / "b.yml").write_text("name: x")
    (tmp_path / "team" / "b.yml").write_text("version: 1\nrules: []")
    (tmp_path / "c.YAML").write_text(one(name="c"))
    problems = read_rules([tmp_path]).problems
    assert [Path(problem.file).name for problem in problems] == ["c.YAML", "team"]
    assert all("rules that are not read" in str(problem) for problem in problems)
    assert len(read_rules([tmp_path, tmp_path / "team"]).problems) == 1


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    reading = read_rules([tmp_path / "gone.yaml"])
    assert reading.failed
    assert "gone.yaml" in str(reading.problems[0])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "effect", "match", "when", "after", "flags", "tool", "calls", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["rules", "version", "x"]), st.lists(JSON, max_size=3)))
def test_whatever_stands_there_is_read_or_named(data: Any) -> None:
    reading = read_text_of_rules(json.dumps(data), "r.yaml")
    assert reading.found or reading.problems or data.get("rules") == []


@given(st.text(max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    reading = read_text_of_rules(text, "r.yaml")
    assert reading.problems
    assert reading.found == ()
