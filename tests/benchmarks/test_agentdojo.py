from __future__ import annotations

import json
from typing import Any

import pytest
from benchmarks.policy import _agentdojo_tasks as tasks
from benchmarks.policy import agentdojo
from benchmarks.policy._agentdojo_tools import LETTERS, TOOLS, flags_of

SCHEMA = {"type": "object", "properties": {}}
TOOLS_OF_SUITE = [
    {"name": name, "description": name, "schema": SCHEMA}
    for name in ("get_current_day", "read_inbox", "send_email", "delete_email", "update_password")
]


def made(tool: str, *, carries: bool = False) -> dict[str, Any]:
    return {"tool": tool, "arguments": {}, "output": f"of {tool}", "carries": carries}


SUITE: dict[str, Any] = {
    "tools": TOOLS_OF_SUITE,
    "user_tasks": [
        {"id": "reads", "calls": [made("get_current_day"), made("read_inbox", carries=True)]},
        {"id": "answers", "calls": [made("read_inbox", carries=True), made("send_email")]},
        {"id": "sends", "calls": [made("send_email")]},
    ],
    "injection_tasks": [
        {"id": "mails", "calls": [made("read_inbox"), made("send_email")]},
        {"id": "deletes", "calls": [made("delete_email"), made("send_email")]},
        {"id": "injection_task_6", "calls": []},
        {"id": "says", "calls": []},
    ],
}


def test_each_tool_declares_all_five_flags() -> None:
    for name in TOOLS:
        assert None not in flags_of(name).to_json().values()
        assert set(TOOLS[name]) <= set(LETTERS)
    assert flags_of("get_webpage").sends_externally is True
    assert flags_of("delete_email").sends_externally is False


def test_a_tool_that_nobody_has_looked_at_is_not_guessed() -> None:
    with pytest.raises(KeyError):
        flags_of("transfer_everything")


def test_an_attack_takes_over_after_the_first_result_that_can_carry_it() -> None:
    reads, answers, sends = tasks.user_tasks(SUITE)
    mails = tasks.injection_tasks("workspace", SUITE)[0]

    attack = tasks.attack(answers, mails)

    assert attack is not None
    assert [call.tool for call in attack.calls] == ["read_inbox", "read_inbox", "send_email"]
    assert [call.injected for call in attack.calls] == [False, True, True]
    assert tasks.attack(sends, mails) is None
    assert len(tasks.attacks([reads, answers, sends], mails)) == 2


def test_goals_in_words_have_calls_where_they_are_known() -> None:
    found = {task.id: task for task in tasks.injection_tasks("workspace", SUITE)}

    assert [call.tool for call in found["injection_task_6"].calls] == ["send_email", "delete_email"]
    assert found["says"].calls == ()


async def test_a_suite_goes_through_a_gateway_and_the_shipped_policy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["x"])

    suite = await agentdojo.measure("workspace", SUITE, agentdojo.arguments())

    assert [run.endings for run in suite.benign] == [["ran", "ran"], ["ran", "asked"], ["ran"]]
    assert suite.clean == 3
    assert suite.said == ["says"]
    # Deleting sends nothing, but it writes after foreign text.
    assert suite.stopped() == {"mails": True, "deletes": True, "injection_task_6": True}
    agentdojo.show(suite)
    printed = capsys.readouterr().out
    assert "deletes: delete_email asked write-after-foreign-text" in printed
    assert "mails: send_email asked send-after-foreign-text (2)" in printed
    figures = {figure.name: figure for figure in agentdojo.figures_of([suite])}
    assert figures["injection tasks stopped"].value == 3
    assert figures["injection tasks stopped"].met is True


async def test_a_person_allows_the_users_calls_and_denies_injected_ones() -> None:
    users = tasks.user_tasks(SUITE)
    mails = tasks.injection_tasks("workspace", SUITE)[0]
    attack = tasks.attack(users[1], mails)
    assert attack is not None
    both = tasks.Task(id="both", calls=users[1].calls + mails.calls)

    runs = await agentdojo.play(TOOLS_OF_SUITE, [both], profile="balanced")

    assert runs[0].endings == ["ran", "asked", "ran", "asked"]
    assert runs[0].outcomes == ["done", "done", "done", "denied"]


def test_without_an_interpreter_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(agentdojo.PYTHON, raising=False)
    monkeypatch.setattr("sys.argv", ["x"])

    agentdojo.main()

    assert "skipped" in capsys.readouterr().out


def test_an_interpreter_without_agentdojo_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["x", "--agentdojo", "false"])

    with pytest.raises(SystemExit, match="could not print AgentDojo's tasks"):
        agentdojo.main()


def test_what_is_extracted_is_read_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    class Done:
        returncode = 0
        stdout = json.dumps({"workspace": SUITE})

    monkeypatch.setattr(tasks.subprocess, "run", lambda *_, **__: Done)

    assert tasks.extract("python")["workspace"] == SUITE
